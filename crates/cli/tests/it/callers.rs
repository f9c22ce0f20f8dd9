//! Callers with keys: no operation is served without one, and what one caller has no other reaches.

use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::rpc_client::{envelope, message, send_params, uuid};
use crate::test_server::{ServerDirectory, TestServer};
use serde_json::{Value, json};

const KEYS: &str = "[auth]\naccept = [\"api_key\"]\n";
const ECHO: &str = "[[agent]]\nname = \"demo\"\nkind = \"echo\"\ndefault = true\n";

/// A server, and two keys that were made before its start.
fn server(config: &str) -> (TestServer, [String; 2]) {
    let home = ServerDirectory::new(config);
    let data = home.data().display().to_string();
    let keys = [(); 2].map(|()| {
        let made = CommandDirectory::new().run(&["key", "create", "-o", "json", "--data", &data]);
        made.expect_success();
        made.json()["key"].as_str().unwrap().to_owned()
    });
    (TestServer::start_at(&home), keys)
}

fn with_key(request: Request, key: &str) -> Request {
    request.with("Authorization", format!("Bearer {key}"))
}

fn ask(sabir: &TestServer, key: &str, method: &str, params: &Value) -> Value {
    sabir.ask(&with_key(Request::post("/", envelope(method, params)), key)).json()
}

#[test]
fn no_operation_is_served_without_a_credential() {
    let (sabir, [key, _]) = server(&format!("{KEYS}{ECHO}"));
    for method in [
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
        "NoSuchMethod",
    ] {
        let reply = sabir.ask(&Request::post("/", envelope(method, &json!({}))));
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (401, &json!(-32000)), "{method}");
        let reply = ask(&sabir, &key, method, &json!({}));
        assert_ne!(reply["error"]["code"], -32000, "{method} with a key");
    }
    let request = |verb: &str, path: &str| match verb {
        "POST" => Request::post(path, "{}"),
        _ => Request::new(verb, path),
    };
    for (verb, path) in [
        ("POST", "/message:send"),
        ("POST", "/message:stream"),
        ("GET", "/tasks"),
        ("GET", "/tasks/x"),
        ("POST", "/tasks/x:cancel"),
        ("GET", "/tasks/x:subscribe"),
        ("POST", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/tasks/x/pushNotificationConfigs"),
        ("GET", "/tasks/x/pushNotificationConfigs/y"),
        ("DELETE", "/tasks/x/pushNotificationConfigs/y"),
        ("GET", "/extendedAgentCard"),
        ("POST", "/acme/message:send"),
        ("GET", "/agents/demo/tasks"),
    ] {
        assert_eq!(sabir.ask(&request(verb, path)).status, 401, "{verb} {path}");
    }
    for (verb, path) in [
        ("POST", "/v1/message:send"),
        ("POST", "/v1/message:stream"),
        ("GET", "/v1/tasks/x"),
        ("GET", "/v1/card"),
        ("POST", "/v1/tasks/x:cancel"),
        ("POST", "/v1/tasks/x:subscribe"),
        ("GET", "/agent/authenticatedExtendedCard"),
    ] {
        assert_eq!(sabir.ask(&request(verb, path).without("A2A-Version")).status, 401, "{verb} {path}");
    }
}

#[test]
fn what_one_caller_has_no_other_reaches() {
    let (sabir, [ana, ben]) = server(&format!("{KEYS}{ECHO}"));
    let mut mine = send_params("of ana");
    mine["message"]["messageId"] = uuid().into();
    let sent = |key: &str, params: &Value| ask(&sabir, key, "SendMessage", params)["result"]["task"].clone();
    let task = sent(&ana, &mine);
    let id = task["id"].as_str().unwrap();
    // The same message, or the same retry key, is a retry of the same caller alone.
    assert_eq!(sent(&ana, &mine)["id"], task["id"]);
    assert_ne!(sent(&ben, &mine)["id"], task["id"]);
    let [first, second] = [&ana, &ben].map(|key| {
        let request = Request::post("/", envelope("SendMessage", &send_params("x")));
        let reply = sabir.ask(&with_key(request, key).with("Idempotency-Key", "the-same-for-both")).json();
        reply["result"]["task"]["id"].as_str().unwrap().to_owned()
    });
    assert_ne!(first, second);
    let streamed = |key: &str| {
        let request = with_key(Request::post("/", envelope("SendStreamingMessage", &mine)), key);
        sabir.open(&request).rest().iter().map(|event| event.event().to_string()).collect::<String>()
    };
    assert!(streamed(&ana).contains(id), "a repeated stream is that of the task");
    let told = streamed(&ben);
    assert!(!told.contains(id) && told.contains("of ana"), "the same message of another caller: {told}");
    // Neither by its id nor through its conversation.
    let mut answer = message("for the task");
    answer["taskId"] = id.into();
    for (method, params) in [
        ("GetTask", json!({"id": id})),
        ("CancelTask", json!({"id": id})),
        ("SubscribeToTask", json!({"id": id})),
        ("SendMessage", json!({"message": answer})),
    ] {
        assert_eq!(ask(&sabir, &ben, method, &params)["error"]["code"], -32001, "{method}");
    }
    let mut joined = message("in the conversation");
    joined["contextId"] = task["contextId"].clone();
    assert!(sent(&ben, &json!({"message": joined}))["id"].is_string());
    let in_conversation = |key: &str| {
        let list = ask(&sabir, key, "ListTasks", &json!({"contextId": task["contextId"]}));
        let tasks = list["result"]["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(in_conversation(&ana), [id]);
    assert!(!in_conversation(&ben).contains(&id.to_owned()));
    // Names that clients choose never meet.
    let old = |key: &str, method: &str, params: &Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        sabir.ask(&with_key(Request::post("/", body).without("A2A-Version"), key)).text()
    };
    let names = [(&ana, "name of ana"), (&ben, "name of ben")];
    for (key, text) in names {
        let said = json!({"role": "user", "parts": [{"type": "text", "text": text}]});
        let task = old(key, "tasks/send", &json!({"id": "order-1", "sessionId": "s", "message": said}));
        assert!(task.contains("order-1"), "{task}");
    }
    for (key, text) in names {
        let task = old(key, "tasks/get", &json!({"id": "order-1"}));
        assert!(task.contains(text) && task.contains("order-1"), "{task}");
    }
    // Also after a restart.
    let sabir = TestServer::start_at(&sabir.stop());
    assert_eq!(ask(&sabir, &ana, "GetTask", &json!({"id": id}))["result"]["id"], id);
    assert_eq!(ask(&sabir, &ben, "GetTask", &json!({"id": id}))["error"]["code"], -32001);
}

#[test]
fn an_agent_is_guarded_by_its_own_rules_whatever_path_leads_to_it() {
    const OTHER: &str = "[[agent]]\nname = \"other\"\nkind = \"echo\"\n";
    const OPEN: &str = "[agent.auth]\naccept = []\n";
    let statuses = |config: &str| {
        let (sabir, _) = server(config);
        let rpc = |path: &str, params: &Value| sabir.ask(&Request::post(path, envelope("SendMessage", params))).status;
        let mut tenant = send_params("x");
        tenant["tenant"] = "other".into();
        let rest = Request::post("/other/message:send", send_params("x").to_string());
        let other = [rpc("/agents/other", &send_params("x")), rpc("/", &tenant), sabir.ask(&rest).status];
        (rpc("/", &send_params("x")), other)
    };
    assert_eq!(statuses(&format!("{KEYS}{ECHO}{OPEN}{OTHER}")), (200, [401; 3]), "the default agent is open");
    // A tenant is named behind the door of the default agent.
    assert_eq!(statuses(&format!("{KEYS}{ECHO}{OTHER}{OPEN}")), (401, [200, 401, 401]), "the other agent is open");
}

#[test]
fn a_caller_cannot_widen_the_mode_of_tools() {
    const TELLS: &str =
        "[[agent]]\nname = \"tells\"\nkind = \"exec\"\ndefault = true\ncommand = \"echo $A2A_TOOL_MODE\"\n";
    for (config, mode) in [
        (TELLS.to_owned(), "full"),
        (format!("{TELLS}[limits]\ntool_mode = \"readonly\"\n"), "readonly"),
        (format!("{TELLS}[agent.limits]\ntool_mode = \"readonly\"\n"), "readonly"),
    ] {
        let sabir = TestServer::start(&config);
        let mut params = send_params("x");
        params["message"]["metadata"] = json!({"A2A_TOOL_MODE": "full", "toolMode": "full"});
        let request = Request::post("/", envelope("SendMessage", &params)).with("A2A-Tool-Mode", "full");
        let task = sabir.ask(&request).json()["result"]["task"].take();
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], format!("{mode}\n"), "{task}");
    }
}

#[test]
fn a_malformed_request_counts_against_the_rate() {
    let (sabir, [key, other]) = server(&format!("{KEYS}{ECHO}[limits]\nrate_per_minute = 2\n"));
    let status = |key: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#;
        sabir.ask(&with_key(Request::post("/", body), key)).status
    };
    assert_eq!([(); 3].map(|()| status(&key)), [200, 200, 429]);
    assert_eq!(status(&other), 200);
}
