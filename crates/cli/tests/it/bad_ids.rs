//! Ids that others choose: empty, with control characters, ten kilobytes long, or not theirs.

use crate::http_client::Request;
use crate::rpc_client::{NOT_FOUND, PARAMS, ProtocolError, envelope, message, send_params, state};
use crate::test_server::{TestServer, shared_server};
use serde_json::{Value, json};

fn bad_ids() -> Vec<String> {
    let mut bad: Vec<String> =
        ["a\u{0}b", "\n", "\u{1b}[2J", "a\u{7f}", "\u{85}", "tab\tbed"].map(str::to_owned).into();
    bad.extend(["x".repeat(10_000), "é".repeat(129), "x".repeat(257)]);
    bad
}

#[track_caller]
fn check(sabir: &TestServer, method: &str, params: &Value, field: &str) {
    let envelope = sabir.rpc("/", method, params);
    let problem = ProtocolError::from_rpc(&envelope);
    assert_eq!(
        (problem.code_and_reason(), &problem.fields[..]),
        ((PARAMS.0, PARAMS.2), &[field.to_owned()][..]),
        "{envelope}"
    );
}

#[test]
fn ids_with_control_characters_or_of_ten_kilobytes_are_refused() {
    let sabir = shared_server();
    for id in bad_ids() {
        for name in ["messageId", "taskId", "contextId"] {
            let mut params = json!({"message": message("x")});
            params["message"][name] = json!(id);
            check(&sabir, "SendMessage", &params, &format!("message.{name}"));
            check(&sabir, "SendStreamingMessage", &params, &format!("message.{name}"));
            let reply = sabir.ask(&Request::post("/message:send", params.to_string()));
            assert_eq!(ProtocolError::from_rest(&reply).fields, [format!("message.{name}")]);
        }
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            check(&sabir, method, &json!({"id": id}), "id");
        }
        check(&sabir, "ListTasks", &json!({"contextId": id}), "contextId");
        check(&sabir, "ListTasks", &json!({"pageToken": id}), "pageToken");
    }
    sabir.still_serves();
}

#[test]
fn an_empty_id_is_refused_where_one_is_needed_and_means_none_elsewhere() {
    let sabir = shared_server();
    check(
        &sabir,
        "SendMessage",
        &json!({"message": {"messageId": "", "role": "ROLE_USER", "parts": [{"text": "x"}]}}),
        "message.messageId",
    );
    check(&sabir, "GetTask", &json!({"id": ""}), "id");
    check(&sabir, "GetTask", &json!({"id": 7}), "id");
    check(&sabir, "GetTask", &json!({"id": null}), "id");
    let mut params = send_params("x");
    params["message"]["taskId"] = json!("");
    params["message"]["contextId"] = json!("");
    assert_eq!(state(&sabir.send("/", &params)), "TASK_STATE_COMPLETED");
}

#[test]
fn the_longest_id_is_kept() {
    let longest = "é".repeat(128);
    let mut params = send_params("x");
    params["message"]["contextId"] = json!(longest);
    params["message"]["messageId"] = json!(longest);
    let task = shared_server().send("/", &params);
    assert_eq!((&task["contextId"], &task["history"][0]["messageId"]), (&json!(longest), &json!(longest)));
}

#[test]
fn a_task_that_is_not_there_is_not_found_whatever_it_is_called() {
    let sabir = shared_server();
    let ours = sabir.send("/", &send_params("x"))["id"].as_str().unwrap().to_owned();
    let near = format!("{}{}", &ours[..35], if ours.ends_with('0') { '1' } else { '0' });
    for id in [
        "task-1",
        "日本",
        "01890a5d-ac96-774b-bcce-b302099a8057",
        &ours.to_uppercase(),
        &near,
        "../../etc/passwd",
        "a:b",
        "%",
    ] {
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            sabir.expect_error("/", method, &json!({"id": id}), NOT_FOUND);
        }
        let mut params = send_params("x");
        params["message"]["taskId"] = json!(id);
        sabir.expect_error("/", "SendMessage", &params, NOT_FOUND);
        let envelope = sabir.rpc("/", "GetTask", &json!({"id": id}));
        assert_eq!(envelope["error"]["data"][0]["metadata"]["taskId"], id);
    }
    sabir.still_serves();
}

#[test]
fn ids_in_paths_are_decoded_once_and_checked() {
    let sabir = shared_server();
    let task = sabir.send("/", &send_params("x"));
    let id = task["id"].as_str().unwrap();
    let encoded: String = id.bytes().map(|b| format!("%{b:02x}")).collect();
    assert_eq!(sabir.ask(&Request::get(&format!("/tasks/{encoded}"))).json()["id"], id);
    for bad in ["a%00b", "%0a", "a%7fb", "%1b%5b2J", "%ff", "%c3%28", "%zz", "%", "%2", &"x".repeat(10_000)] {
        for path in [format!("/tasks/{bad}"), format!("/tasks/{bad}:subscribe")] {
            sabir.expect_rest_error(&Request::get(&path), PARAMS);
        }
        sabir.expect_rest_error(&Request::post(&format!("/tasks/{bad}:cancel"), ""), PARAMS);
    }
    for missing in ["a%2Fb", "%2e%2e", "a%20b", "a%3Acancel", "%2500"] {
        sabir.expect_rest_error(&Request::get(&format!("/tasks/{missing}")), NOT_FOUND);
    }
    sabir.still_serves();
}

#[test]
fn ids_of_requests_are_echoed_as_they_came_and_stay_short() {
    let sabir = shared_server();
    for id in ["1", "-7", "0", "1.50", "1e9", "12345678901234567890123", r#""""#, r#""a\u0000\u001b\"b""#, r#""é""#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ListTasks","params":{{"pageSize":1}}}}"#);
        let reply = sabir.ask(&Request::post("/", body));
        assert!(reply.text().starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{}", reply.text());
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ListTasks"}}"#, "x".repeat(10_000));
    let reply = sabir.ask(&Request::post("/", long)).json();
    assert_eq!(ProtocolError::from_rpc(&reply).code_and_reason(), (-32600, "INVALID_REQUEST"));
    assert_eq!(reply["id"], Value::Null);
    sabir.still_serves();
}

#[test]
fn keys_in_headers_are_bounded_too() {
    let sabir = shared_server();
    let request = Request::post("/", envelope("SendMessage", &send_params("x")));
    for key in [String::new(), "k".repeat(257), "k".repeat(10_000), "caf\u{e9}".to_owned()] {
        let reply = sabir.ask(&request.clone().with("Idempotency-Key", key)).json();
        assert_eq!(ProtocolError::from_rpc(&reply).fields, ["Idempotency-Key"]);
    }
    let reply = sabir.ask(&request.with("Idempotency-Key", "k".repeat(256))).json();
    assert!(reply.get("result").is_some(), "{reply}");
    sabir.still_serves();
}
