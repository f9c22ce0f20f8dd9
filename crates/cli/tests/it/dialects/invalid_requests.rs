//! What no dialect takes: the right number, in the form of the dialect, and the next one is served.

use super::dialect_client::DialectClient::{self, Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};
use super::dialect_client::{ALL, TASK_NAMING, outgoing, unique};
use super::{DESK_PATH, OFFICE_CONFIG, office_server};
use crate::http_client::Request;
use crate::test_server::TestServer;
use serde_json::{Value, json};

/// The dialects whose parts have a tag, with the tag.
const TAGGED: [(DialectClient, &str); 5] =
    [(V03, "kind"), (V02, "kind"), (V01, "type"), (Native, "type"), (Xpr, "type")];

fn method(tongue: DialectClient) -> &'static str {
    if tongue == V01 { "tasks/send" } else { "message/send" }
}

/// A send of these parts.
fn sending(tongue: DialectClient, parts: &Value) -> Value {
    let mut params = json!({"message": {"role": "user", "parts": parts}});
    match tongue {
        V03 | V02 => params["message"]["messageId"] = json!(unique("m")),
        V01 => params["id"] = json!(unique("bad")),
        _ => {}
    }
    params
}

#[track_caller]
fn refused(sabir: &TestServer, tongue: DialectClient, params: &Value) -> Value {
    let reply = sabir.ask(&tongue.rpc("", method(tongue), params));
    assert_eq!(reply.status, 200, "{tongue:?}: {}", reply.text());
    let mut body = reply.json();
    assert_eq!(body["error"]["code"], -32602, "{tongue:?} {params}: {body}");
    assert_eq!(body["id"], 7, "{tongue:?}");
    body["error"]["message"].take()
}

#[test]
fn a_part_says_what_it_is() {
    let sabir = office_server();
    for (tongue, tag) in TAGGED {
        for part in [
            json!({"text": "x"}),
            json!({}),
            json!("x"),
            json!(null),
            json!([]),
            json!({tag: "image", "text": "x"}),
            json!({tag: "", "text": "x"}),
            json!({tag: 7, "text": "x"}),
            json!({tag: "text"}),
            json!({tag: "text", "text": 7}),
            json!({tag: "file"}),
            json!({tag: "file", "file": {}}),
            json!({tag: "file", "file": "x"}),
            json!({tag: "data"}),
        ] {
            let words = refused(&sabir, tongue, &sending(tongue, &json!([part])));
            assert!(words.as_str().unwrap().contains("parts[0]"), "{tongue:?} {part}: {words}");
        }
    }
    sabir.still_serves();
}

#[test]
fn two_tags_are_fine_if_they_agree() {
    let sabir = office_server();
    for (tongue, _) in TAGGED {
        refused(&sabir, tongue, &sending(tongue, &json!([{"kind": "text", "type": "file", "text": "x"}])));
        let mut params = sending(tongue, &json!([{"kind": "text", "type": "text", "text": "x"}]));
        params["message"]["messageId"] = json!(unique("m"));
        let reply = sabir.ask(&tongue.rpc("", method(tongue), &params));
        assert_eq!(reply.json()["result"]["status"]["state"], "completed", "{tongue:?}: {}", reply.text());
    }
}

#[test]
fn a_file_is_base64_or_an_address_and_not_both() {
    let sabir = office_server();
    for (tongue, tag) in TAGGED {
        for file in [
            json!({"bytes": "not base64!"}),
            json!({"bytes": "aGk=="}),
            json!({"bytes": 7}),
            json!({"bytes": "aGk=", "uri": "https://example.com/x"}),
            json!({"name": "x"}),
        ] {
            let words = refused(&sabir, tongue, &sending(tongue, &json!([{tag: "file", "file": file}])));
            assert!(words.as_str().unwrap().contains("parts[0]"), "{tongue:?} {file}: {words}");
        }
    }
}

#[test]
fn a_message_has_parts_and_a_role_of_a_user() {
    let sabir = office_server();
    for (tongue, tag) in TAGGED {
        refused(&sabir, tongue, &sending(tongue, &json!([])));
        refused(&sabir, tongue, &sending(tongue, &json!({})));
        refused(&sabir, tongue, &sending(tongue, &json!("x")));
        let good = json!([{tag: "text", "text": "x"}]);
        for role in [json!("agent"), json!("ROLE_USER"), json!(""), json!(7)] {
            let mut params = sending(tongue, &good);
            params["message"]["role"] = role;
            refused(&sabir, tongue, &params);
        }
        for message in [json!(null), json!("x"), json!([]), json!(7)] {
            let mut params = sending(tongue, &good);
            params["message"] = message;
            refused(&sabir, tongue, &params);
        }
        let reply = sabir.ask(&tongue.rpc("", method(tongue), &json!([1, 2])));
        assert_eq!(reply.json()["error"]["code"], -32602, "{tongue:?}: {}", reply.text());
    }
}

#[test]
fn a_conversation_has_one_name() {
    let sabir = office_server();
    let params = |context: &str| json!({"id": unique("two"), "sessionId": "s-1", "contextId": context, "message": V01.message(&outgoing("x"))});
    let words = refused(&sabir, V01, &params("s-2"));
    assert!(words.as_str().unwrap().contains("sessionId"), "{words}");
    let reply = sabir.ask(&V01.rpc("", "tasks/send", &params("s-1")));
    assert_eq!(reply.json()["result"]["sessionId"], "s-1");
}

#[test]
fn a_name_has_a_length_and_no_control_characters() {
    let sabir = office_server();
    for tongue in TASK_NAMING {
        for bad in
            ["x".repeat(10_000), "x".repeat(257), "a\u{0}b".into(), "a\nb".into(), "\u{7f}".into(), "\u{1b}[31m".into()]
        {
            let words = refused(&sabir, tongue, &json!({"id": bad, "message": tongue.message(&outgoing("x"))}));
            let words = words.as_str().unwrap();
            assert!(words.contains("id") && words.len() < 1000, "{tongue:?}: {words}");
            assert!(!words.contains(char::is_control), "{words:?}");
            for request in [tongue.get("", &bad), tongue.cancel("", &bad)] {
                let code = tongue.read(&sabir.ask(&request)).unwrap_err();
                assert!([-32602, -32001].contains(&code), "{tongue:?}: {code}");
            }
        }
        let longest = format!("{:x<256}", unique("longest"));
        assert_eq!(sabir.send_as(tongue, "", &outgoing("x").to(&longest)).id, longest);
        assert_eq!(sabir.get_as(tongue, "", &longest).id, longest);
    }
    for bad in [json!(""), json!(null), json!(7), json!({})] {
        refused(&sabir, V01, &json!({"id": bad, "message": V01.message(&outgoing("x"))}));
    }
    refused(&sabir, V01, &json!({"message": V01.message(&outgoing("x"))}));
    sabir.still_serves();
}

#[test]
fn ids_in_queries_are_checked_in_every_dialect() {
    let sabir = office_server();
    for tongue in ALL.into_iter().filter(|t| !t.is_rest()) {
        let method = if tongue == V1 { "GetTask" } else { "tasks/get" };
        for bad in [
            json!({}),
            json!({"id": ""}),
            json!({"id": 7}),
            json!({"id": null}),
            json!({"id": "x".repeat(10_000)}),
            json!([]),
        ] {
            let reply = sabir.ask(&tongue.rpc("", method, &bad));
            assert_eq!(tongue.read(&reply).unwrap_err(), -32602, "{tongue:?} {bad}: {}", reply.text());
        }
    }
    for tongue in [Rest1, Rest03] {
        for bad in ["x".repeat(10_000), "a%00b".into(), "%zz".into(), "%ff".into()] {
            let request = Request::get(&format!("{}/tasks/{bad}", tongue.endpoint("")));
            let request = if tongue == Rest03 { request.without("A2A-Version") } else { request };
            let reply = sabir.ask(&request);
            assert!([400, 404, 414, 431].contains(&reply.status), "{tongue:?}: {}", reply.status);
        }
    }
    sabir.still_serves();
}

#[test]
fn ten_thousand_parts_are_too_many_and_do_no_harm() {
    let sabir = office_server();
    for (tongue, tag) in TAGGED {
        let parts: Vec<Value> = (0..10_000).map(|_| json!({tag: "text", "text": "x"})).collect();
        let words = refused(&sabir, tongue, &sending(tongue, &json!(parts)));
        assert!(words.as_str().unwrap().contains("parts"), "{tongue:?}: {words}");
    }
    sabir.still_serves();
}

#[test]
fn malformed_json_is_told_as_the_endpoint_does() {
    let sabir = office_server();
    for agent in ["", "/agents/desk"] {
        for (path, status) in [("/", 200), ("/a2a", 200), ("/_agent-native/a2a", 400)] {
            for body in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",", "\u{0}", "{\"a\":1}}"] {
                let reply = sabir.ask(&Request::post(&format!("{agent}{path}"), body).without("A2A-Version"));
                let told = reply.json();
                assert_eq!((reply.status, &told["error"]["code"]), (status, &json!(-32700)), "{path} {body:?}: {told}");
                assert_eq!((&told["jsonrpc"], &told["id"]), (&json!("2.0"), &Value::Null), "{path} {body:?}: {told}");
            }
        }
        for path in ["/message:send", "/message:stream"] {
            let reply = sabir.ask(&Request::post(&format!("{agent}{path}"), "{"));
            assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(400)), "{path}");
            let reply = sabir.ask(&Request::post(&format!("{agent}/v1{path}"), "{").without("A2A-Version"));
            assert_eq!((reply.status, &reply.json()["code"]), (400, &json!(-32700)), "{path}: {}", reply.text());
        }
    }
    sabir.still_serves();
}

#[test]
fn what_is_no_request_is_told_as_the_endpoint_does() {
    let sabir = office_server();
    for (path, status) in [("/", 200), ("/a2a", 200), ("/_agent-native/a2a", 400)] {
        for body in [
            json!([{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "x"}}]),
            json!([]),
            json!(7),
            json!({}),
            json!({"jsonrpc": "1.0", "id": 1, "method": "tasks/get"}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1, "method": ""}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 7}),
        ] {
            let reply = sabir.ask(&Request::post(path, body.to_string()).without("A2A-Version"));
            let told = reply.json();
            assert_eq!((reply.status, &told["error"]["code"]), (status, &json!(-32600)), "{path} {body}: {told}");
            assert!(told["error"]["message"].as_str().is_some_and(|m| !m.is_empty()));
        }
    }
}

#[test]
fn a_list_is_never_taken_for_the_object_whose_members_it_has_in_order() {
    let sabir = office_server();
    let id = sabir.send_as(V1, "", &outgoing("x")).id;
    for (path, version, method) in [
        ("/", "1.0", "GetTask"),
        ("/", "0.3", "tasks/get"),
        ("/a2a", "", "tasks/get"),
        ("/_agent-native/a2a", "", "tasks/get"),
    ] {
        let body = json!(["2.0", 1, method, {"id": id}]).to_string();
        let told = sabir.ask(&Request::post(path, body).with("A2A-Version", version)).json();
        assert_eq!(told["error"]["code"], -32600, "{path} {method}: {told}");
        assert!(!told.to_string().contains("struct "), "{told}");
    }
    for (tongue, tag) in TAGGED {
        refused(&sabir, tongue, &sending(tongue, &json!([{tag: "file", "file": ["a.txt", "text/plain", "aGk="]}])));
    }
    let config = json!([null, "https://x.example/h"]);
    let params =
        json!({"message": V03.message(&outgoing("book")), "configuration": {"pushNotificationConfig": config}});
    assert_eq!(V03.read(&sabir.ask(&V03.rpc(DESK_PATH, "message/send", &params))).unwrap_err(), -32602);
    let name = unique("listed");
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
    for config in [config, json!({"url": "https://x.example/h", "authentication": [["Bearer"], "x"]})] {
        let params = json!({"id": name, "pushNotificationConfig": config});
        let reply = sabir.ask(&V01.rpc(DESK_PATH, "tasks/pushNotification/set", &params));
        assert_eq!(reply.json()["error"]["code"], -32602, "{}", reply.text());
    }
}

#[test]
fn a_request_without_an_id_is_served_where_it_may_be_without_one() {
    let sabir = office_server();
    for tongue in [Native, Xpr] {
        let body = json!({"jsonrpc": "2.0", "method": "message/send", "params": {"message": tongue.message(&outgoing("hello"))}});
        let reply = sabir.ask(&tongue.post(&tongue.endpoint(""), body.to_string()));
        let told = reply.json();
        assert_eq!((reply.status, told.get("id")), (200, None), "{tongue:?}: {told}");
        assert_eq!(told["result"]["status"]["state"], "completed", "{tongue:?}: {told}");
        let body = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {"id": "nobody"}});
        let told = sabir.ask(&tongue.post(&tongue.endpoint(""), body.to_string())).json();
        assert_eq!((told.get("id"), &told["error"]["code"]), (None, &json!(-32001)), "{tongue:?}: {told}");
        for id in [json!(null), json!(true), json!({"a": [1]}), json!("x"), json!(1.5)] {
            let body = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "nobody"}});
            let told = sabir.ask(&tongue.post(&tongue.endpoint(""), body.to_string())).json();
            assert_eq!(told["id"], id, "{tongue:?}: any JSON is echoed: {told}");
        }
    }
    for tongue in [V1, V03, V02] {
        let (method, params) = match tongue {
            V1 => ("SendMessage", json!({"message": tongue.message(&outgoing("x"))})),
            _ => ("message/send", json!({"message": tongue.message(&outgoing("x"))})),
        };
        for id in [None, Some(json!(null)), Some(json!({})), Some(json!(true))] {
            let mut body = json!({"jsonrpc": "2.0", "method": method, "params": params});
            if let Some(id) = id {
                body["id"] = id;
            }
            let told = sabir.ask(&tongue.post(&tongue.endpoint(""), body.to_string())).json();
            assert_eq!(
                (&told["id"], &told["error"]["code"]),
                (&Value::Null, &json!(-32600)),
                "{tongue:?} {body}: {told}"
            );
        }
    }
}

#[test]
fn a_body_over_the_limit_is_refused_at_every_endpoint() {
    let sabir = TestServer::start(&OFFICE_CONFIG.replace("[limits]", "[limits]\nbody_bytes_max = 2000"));
    let long = "x".repeat(3000);
    for tongue in ALL {
        let reply = sabir.ask(&tongue.send("", &outgoing(&long)));
        assert_eq!(reply.status, 413, "{tongue:?}: {}", reply.text());
        assert!(reply.json()["error"].is_object(), "{tongue:?}: {}", reply.text());
        assert_eq!(sabir.send_as(tongue, "", &outgoing("short")).state, "completed", "{tongue:?}");
    }
}

#[test]
fn deep_json_and_repeated_members_do_no_harm_in_any_dialect() {
    let sabir = office_server();
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    for path in ["/", "/a2a", "/_agent-native/a2a", "/v1/message:send", "/message:send"] {
        for body in [
            deep.clone(),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"message/send\",\"params\":{{\"message\":{{\"role\":\"user\",\"parts\":[{{\"type\":\"data\",\"data\":{deep}}}]}}}}}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"message/send\",\"params\":{{\"metadata\":{{\"xpr:x\":{deep}}}}}}}"),
            r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","role":"user","parts":[]}}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","parts":[{"type":"text","type":"text","text":"x"}]}}}"#.to_owned(),
        ] {
            let reply = sabir.ask(&Request::post(path, body).without("A2A-Version"));
            assert!(reply.json().get("error").is_some(), "{path}: {}", reply.text());
        }
    }
    sabir.still_serves();
}

#[test]
fn a_message_to_a_task_at_work_is_refused_in_every_dialect() {
    let sabir = office_server();
    for tongue in super::dialect_client::CONTINUING {
        let id = sabir.send_as(V1, DESK_PATH, &outgoing("forever").at_once()).id;
        let reply = sabir.ask(&tongue.send(DESK_PATH, &outgoing("more").to(&id)));
        assert_eq!(tongue.read(&reply).unwrap_err(), tongue.error_number(-32004), "{tongue:?}: {}", reply.text());
        sabir.cancel_as(V1, DESK_PATH, &id).unwrap();
    }
}
