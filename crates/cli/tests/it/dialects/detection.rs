//! Which dialect a request is taken for: the rules in their order, on the wire.

use super::dialect_client::DialectClient::{Native, V01, V03, Xpr};
use super::dialect_client::{ALL, outgoing, unique};
use super::{DESK_PATH, office_server};
use crate::http_client::{HttpResponse, Request};
use crate::test_server::TestServer;
use serde_json::{Value, json};

/// In which dialect a task is shown.
fn spoken(task: &Value) -> &'static str {
    let task = task.get("task").unwrap_or(task);
    match task {
        t if t.get("owner").is_some() => "xpr",
        t if t["kind"] == "task" => "0.3",
        t if t.get("sessionId").is_some() => "0.1",
        t if t["status"]["state"].as_str().is_some_and(|s| s.starts_with("TASK_STATE_")) => "1.0",
        t if t["history"].is_array() && t["artifacts"].is_array() => "agent-native",
        _ => "nobody's",
    }
}

/// The same request with a version, or with none.
fn versioned(request: Request, version: &str) -> Request {
    if version.is_empty() { request.without("A2A-Version") } else { request.with("A2A-Version", version) }
}

fn call(sabir: &TestServer, path: &str, version: &str, method: &str, params: &Value) -> HttpResponse {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    sabir.ask(&versioned(Request::post(path, body.to_string()), version))
}

fn result(sabir: &TestServer, path: &str, version: &str, method: &str, params: &Value) -> Value {
    let mut body = call(sabir, path, version, method, params).json();
    assert!(body.get("error").is_none(), "{path} {version} {method} {params}: {body}");
    body["result"].take()
}

fn error(sabir: &TestServer, path: &str, version: &str, method: &str, params: &Value) -> Value {
    let mut body = call(sabir, path, version, method, params).json();
    assert!(body.get("error").is_some(), "{path} {version} {method} {params}: {body}");
    body["error"].take()
}

fn kinded() -> Value {
    json!({"message": V03.message(&outgoing("hello"))})
}

fn typed() -> Value {
    json!({"message": Native.message(&outgoing("hello"))})
}

fn with(mut params: Value, member: &str, value: Value) -> Value {
    params[member] = value;
    params
}

#[test]
fn a_send_is_recognised_by_the_first_thing_that_says_something() {
    let sabir = office_server();
    let jobs = || json!({"xpr:jobId": 1});
    let unnamed_kind = json!({"message": {"role": "user", "messageId": "n", "parts": [{"type": "text", "text": "x"}]}});
    for (path, version, params, expected) in [
        // The version decides, whatever the parts look like and wherever it comes.
        ("/", "0.3", typed(), "0.3"),
        ("/a2a", "0.3", kinded(), "0.3"),
        ("/_agent-native/a2a", "0.2", kinded(), "0.3"),
        // xpr: members, wherever they stand.
        ("/", "", with(typed(), "xpr:callerAccount", json!("alice")), "xpr"),
        ("/", "", with(typed(), "metadata", jobs()), "xpr"),
        ("/_agent-native/a2a", "", with(typed(), "metadata", jobs()), "xpr"),
        ("/", "", with(kinded(), "metadata", jobs()), "xpr"),
        // Parts by kind, or a message with a name.
        ("/", "", kinded(), "0.3"),
        ("/a2a", "", kinded(), "0.3"),
        ("/_agent-native/a2a", "", kinded(), "0.3"),
        ("/a2a", "", unnamed_kind, "0.3"),
        // Parts by type.
        ("/", "", typed(), "agent-native"),
        ("/a2a", "", typed(), "xpr"),
        ("/_agent-native/a2a", "", typed(), "agent-native"),
        ("/a2a", "", with(typed(), "async", json!(false)), "agent-native"),
        ("/a2a", "", with(typed(), "idempotencyKey", json!(unique("k"))), "agent-native"),
    ] {
        if version == "0.3" && params == typed() {
            // 0.3 wants its messages named.
            assert_eq!(error(&sabir, path, version, "message/send", &params)["code"], -32602);
            continue;
        }
        let task = result(&sabir, path, version, "message/send", &params);
        assert_eq!(spoken(&task), expected, "{path} {version:?} {params}: {task}");
    }
}

#[test]
fn xpr_is_also_recognised_by_its_headers() {
    let sabir = office_server();
    for header in ["X-XPR-Account", "X-XPR-Signature"] {
        for path in ["/", "/a2a", "/_agent-native/a2a"] {
            let body = json!({"jsonrpc": "2.0", "id": 7, "method": "message/send", "params": typed()});
            let request = Request::post(path, body.to_string()).without("A2A-Version").with(header, "alice");
            let reply = sabir.ask(&request).json();
            assert_eq!(spoken(&reply["result"]), "xpr", "{path} {header}: {reply}");
            assert_eq!(reply["result"]["owner"], "anonymous", "a claim is not believed");
        }
    }
}

#[test]
fn a_method_of_one_dialect_is_enough() {
    let sabir = office_server();
    for path in ["/", "/a2a", "/_agent-native/a2a", "/agents/desk", "/agents/desk/a2a"] {
        let params = json!({"id": unique("only"), "message": V01.message(&outgoing("words"))});
        assert_eq!(spoken(&result(&sabir, path, "", "tasks/send", &params)), "0.1", "{path}");
        let invoked = error(&sabir, path, "", "actions/invoke", &json!({"action": "a", "input": {}}));
        assert_eq!(invoked["code"], -32001, "{path}: {invoked}");
    }
}

#[test]
fn without_a_word_in_the_request_the_path_tells() {
    let sabir = office_server();
    let id = sabir.send_as(V03, "", &outgoing("hello")).id;
    for (path, expected) in [
        ("/", "0.3"),
        ("/agents/demo", "0.3"),
        ("/agents/demo/", "0.3"),
        ("/a2a", "xpr"),
        ("/a2a/", "xpr"),
        ("/agents/demo/a2a", "xpr"),
        ("/agents/demo/a2a/", "xpr"),
        ("/_agent-native/a2a", "agent-native"),
        ("/_agent-native/a2a/", "agent-native"),
        ("/agents/demo/_agent-native/a2a", "agent-native"),
        ("/agents/demo/_agent-native/a2a/", "agent-native"),
    ] {
        let task = result(&sabir, path, "", "tasks/get", &json!({"id": id}));
        assert_eq!((spoken(&task), &task["id"]), (expected, &json!(id)), "{path}: {task}");
    }
    for (version, expected) in [("0.3", "0.3"), ("0.3.0", "0.3"), ("0.2", "0.3"), ("0.2.6", "0.3"), ("0.1", "0.1")] {
        for path in ["/", "/a2a", "/_agent-native/a2a"] {
            let task = result(&sabir, path, version, "tasks/get", &json!({"id": id}));
            assert_eq!(spoken(&task), expected, "{path} {version}: {task}");
        }
        let query = format!("/?A2A-Version={version}");
        assert_eq!(spoken(&result(&sabir, &query, "", "tasks/get", &json!({"id": id}))), expected, "{query}");
    }
}

#[test]
fn a_task_that_goes_by_a_name_was_opened_in_01() {
    let sabir = office_server();
    let name = unique("evidence");
    sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
    let task = result(&sabir, DESK_PATH, "", "tasks/get", &json!({"id": name}));
    assert_eq!((spoken(&task), &task["id"]), ("0.1", &json!(name)), "{task}");
    // Said otherwise, it is otherwise.
    assert_eq!(spoken(&result(&sabir, DESK_PATH, "0.3", "tasks/get", &json!({"id": name}))), "0.3");
    assert_eq!(spoken(&result(&sabir, "/agents/desk/a2a", "", "tasks/get", &json!({"id": name}))), "xpr");
    let mut stream = sabir.open(
        &Request::post(
            DESK_PATH,
            json!({"jsonrpc": "2.0", "id": 7, "method": "tasks/resubscribe", "params": {"id": name}}).to_string(),
        )
        .without("A2A-Version"),
    );
    let first = stream.next().unwrap();
    assert_eq!((&first.event()["id"], first.event().get("kind")), (&json!(name), None), "{}", first.data);
    let canceled = result(&sabir, DESK_PATH, "", "tasks/cancel", &json!({"id": name}));
    assert_eq!((spoken(&canceled), &canceled["id"]), ("0.1", &json!(name)));
    // A name of no task: it may be 0.1 or 0.3, and the error has what either looks for.
    let missing = error(&sabir, DESK_PATH, "", "tasks/get", &json!({"id": "nobody"}));
    assert_eq!((&missing["code"], &missing["data"]), (&json!(-32001), &json!({"taskId": "nobody"})), "{missing}");
}

#[test]
fn a_version_must_belong_to_the_family_of_its_method() {
    let sabir = office_server();
    for path in ["/", "/a2a", "/_agent-native/a2a", "/agents/desk"] {
        for (version, method, code) in [
            // 1.0's methods: the answer is in the form of 1.0 and names the header.
            ("", "SendMessage", -32009),
            ("0.3", "SendMessage", -32009),
            ("0.1", "GetTask", -32009),
            ("2.0", "GetTask", -32009),
            ("nonsense", "GetTask", -32009),
            // The methods of the other dialects.
            ("1.0", "message/send", -32004),
            ("1.0", "tasks/get", -32004),
            ("1.0", "tasks/send", -32004),
            ("0.9", "message/send", -32004),
            ("nonsense", "tasks/get", -32004),
            ("2.0", "message/send", -32004),
            ("0.1", "message/send", -32601),
            ("0.3", "tasks/send", -32601),
            ("0.2", "tasks/sendSubscribe", -32601),
            ("0.1", "agent/getAuthenticatedExtendedCard", -32601),
            ("0.3", "actions/invoke", -32601),
        ] {
            let told = error(&sabir, path, version, method, &json!({"id": "x"}));
            assert_eq!(told["code"], code, "{path} {version:?} {method}: {told}");
            assert_eq!(told["data"].is_array(), code == -32009, "{version:?} {method}: {told}");
        }
    }
    let told = error(&sabir, "/", "", "SendMessage", &kinded());
    assert!(told["message"].as_str().unwrap().contains("A2A-Version: 1.0"), "{told}");
    let told = error(&sabir, "/", "1.0", "message/send", &kinded());
    assert!(told["message"].as_str().unwrap().contains("A2A-Version"), "{told}");
}

#[test]
fn an_unknown_method_is_told_in_the_words_of_who_asked() {
    let sabir = office_server();
    for (path, version, words, details) in [
        ("/", "1.0", "method \"no/such\" not found", true),
        ("/a2a", "1.0", "method \"no/such\" not found", true),
        ("/", "", "method \"no/such\" not found", false),
        ("/", "0.3", "method \"no/such\" not found", false),
        ("/", "nonsense", "method \"no/such\" not found", false),
        ("/a2a", "", "Method not found: no/such", false),
        ("/agents/desk/a2a/", "", "Method not found: no/such", false),
        ("/_agent-native/a2a", "", "method \"no/such\" not found", false),
    ] {
        let told = error(&sabir, path, version, "no/such", &json!({}));
        assert_eq!((&told["code"], &told["message"]), (&json!(-32601), &json!(words)), "{path} {version:?}");
        assert_eq!(told.get("data").is_some(), details, "{path} {version:?}: {told}");
    }
}

#[test]
fn parts_by_kind_in_a_message_of_10_are_read_or_refused_with_a_reason() {
    let sabir = office_server();
    let send = |parts: Value| {
        let message = json!({"messageId": unique("m"), "role": "ROLE_USER", "parts": parts});
        call(&sabir, "/", "1.0", "SendMessage", &json!({"message": message})).json()
    };
    let unambiguous = send(json!([{"kind": "text", "text": "hello"}]));
    assert_eq!(unambiguous["result"]["task"]["artifacts"][0]["parts"][0]["text"], "hello", "{unambiguous}");
    for parts in [
        json!([{"kind": "file", "file": {"bytes": "aGk="}}]),
        json!([{"kind": "data"}]),
        json!([{"kind": "text", "text": "a", "data": {}}]),
        json!([{}]),
    ] {
        let told = send(parts.clone());
        assert_eq!(told["error"]["code"], -32602, "{parts}: {told}");
        let field = &told["error"]["data"][1]["fieldViolations"][0];
        assert!(field["field"].as_str().is_some_and(|f| f.contains("parts")), "{parts}: {told}");
    }
}

#[test]
fn endpoints_are_for_posting() {
    let sabir = office_server();
    for agent in ["", "/agents/desk"] {
        for path in ["/", "/a2a", "/a2a/", "/_agent-native/a2a", "/_agent-native/a2a/"] {
            for method in ["GET", "PUT", "DELETE"] {
                let reply = sabir.ask(&Request::new(method, &format!("{agent}{path}")));
                assert_eq!((reply.status, reply.header("Allow")), (405, Some("POST")), "{method} {agent}{path}");
            }
        }
    }
}

#[test]
fn every_endpoint_of_an_unknown_agent_is_not_found() {
    let sabir = office_server();
    for tongue in ALL {
        let reply = sabir.ask(&tongue.send("/agents/nobody", &outgoing("x")));
        assert_eq!(reply.status, 404, "{tongue:?}: {}", reply.text());
        assert!(reply.json()["error"].is_object(), "{tongue:?}");
    }
}

#[test]
fn every_endpoint_is_there_below_an_agent() {
    let sabir = office_server();
    for tongue in ALL {
        let seen = sabir.send_as(tongue, "/agents/other", &outgoing("hello"));
        assert_eq!(seen.artifact(0).as_deref(), Some("hello"), "{tongue:?}");
    }
}

#[test]
fn a_rest_path_of_03_is_not_one_of_10_and_the_other_way_round() {
    let sabir = office_server();
    let body =
        || json!({"message": {"messageId": unique("m"), "role": "ROLE_USER", "content": [{"text": "x"}]}}).to_string();
    for (path, version, status) in [
        ("/v1/message:send", "", 200),
        ("/v1/message:send", "0.3", 200),
        ("/v1/message:send/", "0.3", 200),
        ("/agents/desk/v1/message:send", "0.2", 200),
        ("/v1/message:send", "1.0", 400),
        ("/v1/message:send", "nonsense", 400),
        ("/message:send", "", 400),
        ("/message:send", "0.3", 400),
        ("/v1/nothing", "", 404),
    ] {
        let reply = sabir.ask(&versioned(Request::post(path, body()), version));
        assert_eq!(reply.status, status, "{path} {version:?}: {}", reply.text());
    }
}

#[test]
fn the_json_of_json_rpc_is_understood_on_the_rest_of_03() {
    let sabir = office_server();
    let body = json!({"message": {"kind": "message", "messageId": unique("m"), "role": "user",
        "parts": [{"kind": "text", "text": "hello"}]}});
    let reply = sabir.ask(&Request::post("/v1/message:send", body.to_string()).without("A2A-Version"));
    let task = reply.json()["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{}", reply.text());
    assert_eq!(task["history"][0]["content"], json!([{"text": "hello"}]), "and answered in the other: {task}");
}

#[test]
fn xpr_members_inside_words_are_no_members() {
    let sabir = office_server();
    // A text about XPR does not make its sender a caller of XPR.
    let params = json!({"message": {"role": "user", "parts": [{"type": "text", "text": "what is \"xpr:jobId\"?"}]}});
    let task = result(&sabir, "/", "", "message/send", &params);
    assert_eq!(spoken(&task), "agent-native", "{task}");
    let params = json!({"message": V03.message(&outgoing("x")), "metadata": {"note": "about \"xpr:jobId\""}});
    let task = result(&sabir, "/", "", "message/send", &params);
    assert_eq!(spoken(&task), "0.3", "{task}");
    let id = sabir.send_as(Xpr, "", &outgoing("x")).id;
    let task = result(&sabir, "/", "", "tasks/get", &json!({"id": id, "metadata": {"note": "\"xpr:jobId\""}}));
    assert_eq!(spoken(&task), "0.3", "{task}");
}
