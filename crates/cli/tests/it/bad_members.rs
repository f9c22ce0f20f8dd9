//! Requests of the right form with wrong contents: unknown words, numbers that are none, too many parts.

use crate::http_client::Request;
use crate::rpc_client::{
    CONTENT_TYPE, EXTENSION, ErrorRow, PARAMS, ProtocolError, UNSUPPORTED, VERSION, envelope, message, send_params,
    state,
};
use crate::test_server::{TestServer, shared_server};
use serde_json::{Value, json};

/// A method and parameters that are refused for one member.
#[track_caller]
fn check(sabir: &TestServer, method: &str, params: &Value, field: &str) {
    let envelope = sabir.rpc("/", method, params);
    let problem = ProtocolError::from_rpc(&envelope);
    assert_eq!(
        (problem.code_and_reason(), &problem.fields[..]),
        ((PARAMS.0, PARAMS.2), &[field.to_owned()][..]),
        "{envelope}"
    );
    sabir.still_serves();
}

/// The same of `message:send`, in both bindings.
#[track_caller]
fn check_send(sabir: &TestServer, params: &Value, field: &str) {
    check(sabir, "SendMessage", params, field);
    check(sabir, "SendStreamingMessage", params, field);
    let reply = sabir.ask(&Request::post("/message:send", params.to_string()));
    let problem = ProtocolError::from_rest(&reply);
    assert_eq!(
        (problem.code_and_reason(), &problem.fields[..]),
        ((PARAMS.1, PARAMS.2), &[field.to_owned()][..]),
        "{}",
        reply.text()
    );
}

/// A query that is refused for one parameter.
#[track_caller]
fn check_query(sabir: &TestServer, path: &str, field: &str) {
    let reply = sabir.ask(&Request::get(path));
    let problem = ProtocolError::from_rest(&reply);
    assert_eq!(
        (problem.code_and_reason(), &problem.fields[..]),
        ((PARAMS.1, PARAMS.2), &[field.to_owned()][..]),
        "{}",
        reply.text()
    );
    sabir.still_serves();
}

/// `send_params("x")` with a member set by its path.
fn with(pointer: &str, value: Value) -> Value {
    let mut params = json!({"message": message("x"), "configuration": {}});
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    params.pointer_mut(parent).unwrap()[name] = value;
    params
}

const METHOD_NOT_FOUND: ErrorRow = (-32601, 404, "METHOD_NOT_FOUND");

#[test]
fn an_unknown_method_is_not_found_in_any_version() {
    let sabir = shared_server();
    for method in
        ["sendMessage", "SendMessage ", "message/say", "tasks/list", "rpc.discover", "\u{0}", &"x".repeat(10_000)]
    {
        sabir.expect_error("/", method, &json!({}), METHOD_NOT_FOUND);
        // A caller that names no version gets the error of 0.3: a number and a text.
        let request = Request::post("/", envelope(method, &json!({}))).without("A2A-Version");
        let error = sabir.ask(&request).json()["error"].clone();
        assert_eq!((error["code"].as_i64(), error.get("data")), (Some(METHOD_NOT_FOUND.0), None), "{method}");
    }
    sabir.still_serves();
}

#[test]
fn an_unknown_member_is_ignored() {
    let sabir = shared_server();
    for pointer in ["/new", "/message/new", "/message/parts/0/new", "/configuration/new"] {
        let mut params = json!({"message": message("x"), "configuration": {}});
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        params.pointer_mut(parent).unwrap()[name] = json!({"deep": [1, {"a": null}]});
        assert_eq!(state(&sabir.send("/", &params)), "TASK_STATE_COMPLETED", "{pointer}");
    }
    assert_eq!(sabir.ask(&Request::get("/tasks?new=1&pageSize=1")).status, 200);
}

#[test]
fn an_unknown_enum_value_is_refused() {
    let sabir = shared_server();
    for role in [
        json!("user"),
        json!("ROLE_ROBOT"),
        json!("ROLE_UNSPECIFIED"),
        json!(""),
        json!(0),
        json!(3),
        json!(-1),
        json!(1.5),
        json!([]),
    ] {
        check_send(&sabir, &with("/message/role", role), "message.role");
    }
    // Known, but nothing a client may say.
    check_send(&sabir, &with("/message/role", json!("ROLE_AGENT")), "message.role");
    for status in [
        json!("working"),
        json!("TASK_STATE_LOST"),
        json!("TASK_STATE_TRANSFERRED"),
        json!(9),
        json!(99),
        json!(-1),
        json!({}),
    ] {
        check(&sabir, "ListTasks", &json!({"status": status}), "status");
    }
    for status in ["working", "TASK_STATE_LOST", "TASK_STATE_TRANSFERRED", "9", "-1", "TASK_STATE_WORKING%20"] {
        check_query(&sabir, &format!("/tasks?status={status}"), "status");
    }
}

#[test]
fn another_version_is_refused_and_a_patch_is_ignored() {
    let sabir = shared_server();
    let rpc = Request::post("/", envelope("ListTasks", &json!({})));
    let rest = Request::get("/tasks");
    for version in
        ["0.3", "0.2.5", "2.0", "1", "", "latest", "1.0.0.0", "1.0, 2.0", "v1.0", "-1.0", "99999999999.0", "\u{e9}"]
    {
        let reply = sabir.ask(&rpc.clone().with("A2A-Version", version));
        assert_eq!(ProtocolError::from_rpc(&reply.json()).code_and_reason(), (VERSION.0, VERSION.2), "{version}");
        sabir.expect_rest_error(&rest.clone().with("A2A-Version", version), VERSION);
    }
    // No version means 0.3 (A2A 1.0 §3.6), which has none of these operations.
    assert_eq!(
        ProtocolError::from_rpc(&sabir.ask(&rpc.clone().without("A2A-Version")).json()).code_and_reason(),
        (VERSION.0, VERSION.2)
    );
    sabir.expect_rest_error(&rest.clone().without("A2A-Version"), VERSION);
    for version in ["1.0", "1.0.1", "1.1"] {
        assert!(sabir.ask(&rpc.clone().with("A2A-Version", version)).json().get("result").is_some(), "{version}");
        assert_eq!(sabir.ask(&rest.clone().with("A2A-Version", version)).status, 200, "{version}");
    }
    // The parameter may stand in for the header.
    assert_eq!(sabir.ask(&Request::get("/tasks?A2A-Version=1.0").without("A2A-Version")).status, 200);
    let rpc = Request::post("/?A2A-Version=1.0", envelope("ListTasks", &json!({}))).without("A2A-Version");
    assert!(sabir.ask(&rpc).json().get("result").is_some());
    sabir.still_serves();
}

/// Not whole numbers of 32 bits, or not numbers.
fn odd_numbers() -> Vec<Value> {
    let texts =
        ["1.5", "2147483648", "-2147483649", "1e400", "123456789012345678901234567890", "\"many\"", "true", "[]", "{}"];
    texts.iter().map(|t| serde_json::from_str(t).unwrap_or_else(|_| json!(*t))).collect()
}

#[test]
fn negative_huge_and_fractional_numbers_are_refused() {
    let sabir = shared_server();
    let numbers = || odd_numbers().into_iter().chain([json!(-1), json!(i32::MIN)]);
    for number in numbers() {
        check_send(&sabir, &with("/configuration/historyLength", number.clone()), "configuration.historyLength");
        check(&sabir, "GetTask", &json!({"id": "x", "historyLength": number}), "historyLength");
        check(&sabir, "ListTasks", &json!({"historyLength": number}), "historyLength");
        check(&sabir, "ListTasks", &json!({"pageSize": number}), "pageSize");
    }
    for size in [0, 101, i32::MAX] {
        check(&sabir, "ListTasks", &json!({"pageSize": size}), "pageSize");
    }
    for number in ["-1", "0", "101", "1.5", "1e2", "2147483648", "99999999999999999999", "five", "0x1", "%201", "NaN"] {
        check_query(&sabir, &format!("/tasks?pageSize={number}"), "pageSize");
    }
    for number in ["-1", "1.5", "2147483648", "many"] {
        check_query(&sabir, &format!("/tasks?historyLength={number}"), "historyLength");
        check_query(&sabir, &format!("/tasks/x?historyLength={number}"), "historyLength");
    }
}

#[test]
fn a_number_too_large_for_anything_is_refused_where_it_is_meant_and_kept_where_it_is_data() {
    let sabir = shared_server();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":1e999999}}"#;
    let problem = ProtocolError::from_rpc(&sabir.ask(&Request::post("/", body)).json());
    assert_eq!((problem.code_and_reason(), &problem.fields[..]), ((PARAMS.0, PARAMS.2), &["pageSize".to_owned()][..]));
    let send = |number: &str| {
        let body = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{number}}}]}}}}"#);
        sabir.ask(&Request::post("/message:send", body))
    };
    assert_eq!(ProtocolError::from_rest(&send("1e400")).fields, ["message.parts[0].data"], "no double holds it");
    for number in ["-0.0", "12345678901234567890123", "1.10", "1E5", "9007199254740993", "[0.1,-1e-300]"] {
        let reply = send(number);
        assert!(reply.text().contains(&format!(r#""data":{number}}}"#)), "{}", reply.text());
    }
    sabir.still_serves();
}

#[test]
fn a_part_has_exactly_one_content() {
    let sabir = shared_server();
    for part in [
        json!({}),
        json!({"text": null}),
        json!({"text": "a", "url": "b"}),
        json!({"raw": "%%%"}),
        json!({"kind": "text"}),
        json!(3),
        json!([]),
    ] {
        check_send(&sabir, &with("/message/parts", json!([{"text": "x"}, part])), "message.parts[1]");
    }
    for text in [json!(3), json!([]), json!(true)] {
        check_send(&sabir, &with("/message/parts", json!([{"text": text}])), "message.parts[0].text");
    }
    check_send(&sabir, &with("/message/parts", json!([])), "message.parts");
    check_send(&sabir, &with("/message/parts", json!("x")), "message.parts");
    check_send(&sabir, &with("/message/metadata", json!([])), "message.metadata");
    check_send(&sabir, &with("/message/metadata", json!("x")), "message.metadata");
    check_send(&sabir, &json!({"message": {"messageId": "m", "parts": [{"text": "x"}]}}), "message");
    check_send(&sabir, &json!({}), "");
}

#[test]
fn ten_thousand_parts_are_refused_and_a_thousand_are_not() {
    let sabir = shared_server();
    let parts = |n: usize| json!(vec![json!({"text": ""}); n]);
    check_send(&sabir, &with("/message/parts", parts(10_000)), "message.parts");
    check_send(&sabir, &with("/message/parts", parts(1_001)), "message.parts");
    let task = sabir.send("/", &with("/message/parts", parts(1_000)));
    assert_eq!(task["artifacts"][0]["parts"].as_array().unwrap().len(), 1_000);
}

#[test]
fn a_media_type_the_agent_does_not_take_is_refused() {
    let sabir = shared_server();
    let part = |media_type: &str| json!([{"text": "x", "mediaType": media_type}]);
    let send = |media_type: &str| {
        let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": part(media_type)}});
        let request = Request::post("/agents/strict/message:send", params.to_string());
        sabir.ask(&request.with("A2A-Extensions", "urn:example:needed:v1"))
    };
    for good in ["text/plain", "TEXT/PLAIN; charset=utf-8", "image/png"] {
        assert_eq!(send(good).status, 200, "{good}");
    }
    for bad in ["text/html", "application/json", "imagery/png", "\u{1}", &"x/".repeat(5_000)] {
        let reply = send(bad);
        assert_eq!(
            ProtocolError::from_rest(&reply).code_and_reason(),
            (CONTENT_TYPE.1, CONTENT_TYPE.2),
            "{}",
            reply.text()
        );
    }
    sabir.still_serves();
}

#[test]
fn a_required_extension_must_be_listed_and_the_active_ones_are_named() {
    let sabir = shared_server();
    let request = Request::post("/agents/strict", envelope("SendMessage", &send_params("x")));
    let reply = sabir.ask(&request).json();
    assert_eq!(ProtocolError::from_rpc(&reply).code_and_reason(), (EXTENSION.0, EXTENSION.2));
    assert_eq!(reply["error"]["data"][0]["metadata"]["extension"], "urn:example:needed:v1");
    let listed = "urn:unknown:v1, urn:example:nice:v1 ,urn:example:needed:v1";
    let reply = sabir.ask(&request.clone().with("A2A-Extensions", listed));
    assert_eq!(reply.header("A2A-Extensions"), Some("urn:example:needed:v1,urn:example:nice:v1"));
    assert!(reply.json().get("result").is_some());
    let many = vec!["urn:x"; 65].join(",");
    let reply = sabir.ask(&request.with("A2A-Extensions", many)).json();
    assert_eq!(ProtocolError::from_rpc(&reply).fields, ["A2A-Extensions"]);
}

#[test]
fn what_the_card_does_not_offer_is_not_served() {
    let sabir = shared_server();
    for method in ["SendStreamingMessage", "SubscribeToTask"] {
        let mut params = send_params("x");
        params["id"] = json!("x");
        sabir.expect_error("/agents/mute", method, &params, UNSUPPORTED);
    }
    sabir.expect_rest_error(&Request::post("/agents/mute/message:stream", send_params("x").to_string()), UNSUPPORTED);
    sabir.expect_error("/", "GetExtendedAgentCard", &json!({}), UNSUPPORTED);
    sabir.expect_rest_error(&Request::get("/extendedAgentCard"), UNSUPPORTED);
    assert_eq!(state(&sabir.send("/agents/mute", &send_params("x"))), "TASK_STATE_COMPLETED");
}
