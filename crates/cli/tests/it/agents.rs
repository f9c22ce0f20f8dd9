//! Several agents behind one address: by path, by tenant, or by default; with and without a slash at the end.

use crate::http_client::Request;
use crate::rpc_client::{
    DESK_PATH, PARAMS, ProtocolError, UNSUPPORTED, answer_params, envelope, message, send_params, state,
};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::json;

/// Which agent a send reached: the echo completes, the desk rejects.
const BY_ECHO: &str = "TASK_STATE_COMPLETED";
const BY_DESK: &str = "TASK_STATE_REJECTED";

#[track_caller]
fn check_rpc(sabir: &TestServer, path: &str, expected: &str) {
    for path in [path.to_owned(), format!("{}/", path.trim_end_matches('/'))] {
        let reply = sabir.ask(&Request::post(&path, envelope("SendMessage", &send_params("x"))));
        assert_eq!(reply.status, 200, "{path} never redirects: {}", reply.text());
        assert_eq!(state(&reply.json()["result"]["task"]), expected, "{path}");
    }
}

#[track_caller]
fn check_rest(sabir: &TestServer, path: &str, expected: &str) {
    for path in [path.to_owned(), format!("{path}/")] {
        let reply = sabir.ask(&Request::post(&path, send_params("x").to_string()));
        assert_eq!(
            (reply.status, reply.header("Content-Type")),
            (200, Some("application/a2a+json")),
            "{path}: {}",
            reply.text()
        );
        assert_eq!(state(&reply.json()["task"]), expected, "{path}");
    }
}

#[test]
fn every_agent_has_its_paths_and_the_default_has_the_root() {
    let sabir = shared_server();
    check_rpc(&sabir, "/", BY_ECHO);
    check_rpc(&sabir, "/a2a", BY_ECHO);
    check_rpc(&sabir, "/agents/demo", BY_ECHO);
    check_rpc(&sabir, "/agents/demo/a2a", BY_ECHO);
    check_rpc(&sabir, "/agents/desk", BY_DESK);
    check_rpc(&sabir, "/agents/desk/a2a", BY_DESK);
    check_rest(&sabir, "/message:send", BY_ECHO);
    check_rest(&sabir, "/agents/demo/message:send", BY_ECHO);
    check_rest(&sabir, "/agents/desk/message:send", BY_DESK);
}

#[test]
fn every_post_is_answered_with_and_without_a_slash() {
    let sabir = shared_server();
    for slash in ["", "/"] {
        let stream = Request::post(&format!("/agents/desk/message:stream{slash}"), send_params("quick").to_string());
        assert_eq!(sabir.open(&stream).rest().last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
        let task = sabir.send(DESK_PATH, &send_params("book"));
        let id = task["id"].as_str().unwrap();
        let mut subscription = sabir.open(&Request::post(&format!("/agents/desk/tasks/{id}:subscribe{slash}"), ""));
        assert_eq!(subscription.next().unwrap().data["task"], task);
        assert_eq!(sabir.ask(&Request::post(&format!("/agents/desk/tasks/{id}:cancel{slash}"), "")).status, 200);
        let task = sabir.send("/agents/mail", &send_params("x"));
        let configs = format!("/agents/mail/tasks/{}/pushNotificationConfigs{slash}", task["id"].as_str().unwrap());
        assert_eq!(sabir.ask(&Request::post(&configs, json!({"url": "https://example.com"}).to_string())).status, 200);
    }
}

#[test]
fn nothing_is_ever_redirected() {
    let sabir = shared_server();
    let paths = [
        "/a2a//",
        "/agents",
        "/agents/",
        "/agents//",
        "/agents/nobody",
        "/agents/nobody/a2a",
        "/nothing",
        "/agents/demo/nothing",
        "/./",
        "/../",
        "/A2A",
        "/message:send//",
        "/%61gents/demo",
    ];
    for path in paths {
        for request in
            [Request::get(path), Request::post(path, "{}"), Request::new("HEAD", path), Request::new("PUT", path)]
        {
            let status = sabir.ask(&request).status;
            assert!((400..500).contains(&status), "{path}: {status}");
        }
    }
    sabir.still_serves();
}

#[test]
fn an_unknown_agent_is_not_the_default_one() {
    let sabir = TestServer::start(AGENTS);
    for path in ["/agents/nobody", "/agents/nobody/a2a", "/agents/Demo", "/agents/demo2", "/agents/dem"] {
        let reply = sabir.ask(&Request::post(path, envelope("SendMessage", &send_params("x"))));
        assert_eq!(ProtocolError::from_status(&reply).code, 404, "{path}: {}", reply.text());
    }
    assert_eq!(sabir.ask(&Request::get("/agents/nobody/.well-known/agent-card.json")).status, 404);
    assert_eq!(sabir.task_count("/"), 0);
}

#[test]
fn an_unknown_path_and_a_wrong_method_are_told_apart() {
    let sabir = shared_server();
    for path in [
        "/nothing",
        "/tasks/x/nothing",
        "/a/b/tasks",
        "/agents/demo/healthz",
        "/agents/demo/metrics",
        "/message:nothing",
    ] {
        let reply = sabir.ask(&Request::get(path));
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
        assert!(reply.json()["error"]["message"].is_string(), "{path}");
    }
    let wrong = [
        ("GET", "/", "POST"),
        ("GET", "/a2a", "POST"),
        ("DELETE", "/", "POST"),
        ("GET", "/message:send", "POST"),
        ("PUT", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/x", "GET"),
        ("GET", "/tasks/x:cancel", "POST"),
        ("DELETE", "/tasks/x:subscribe", "GET, POST"),
        ("PUT", "/tasks/x/pushNotificationConfigs", "GET, POST"),
        ("POST", "/tasks/x/pushNotificationConfigs/c", "GET, DELETE"),
        ("POST", "/extendedAgentCard", "GET"),
        ("GET", "/agents/demo", "POST"),
    ];
    for (method, path, allowed) in wrong {
        let request = if method == "POST" { Request::post(path, "{}") } else { Request::new(method, path) };
        let reply = sabir.ask(&request);
        assert_eq!((reply.status, reply.header("Allow")), (405, Some(allowed)), "{method} {path}: {}", reply.text());
        assert_eq!(ProtocolError::from_status(&reply).code, 405, "{method} {path}");
    }
}

#[test]
fn a_tenant_is_first_of_all_an_agents_name() {
    let sabir = shared_server();
    let mut params = send_params("x");
    for (tenant, expected) in [("desk", BY_DESK), ("demo", BY_ECHO), ("acme", BY_ECHO), ("", BY_ECHO)] {
        params["tenant"] = json!(tenant);
        assert_eq!(state(&sabir.send("/", &params)), expected, "{tenant}");
    }
    check_rest(&sabir, "/desk/message:send", BY_DESK);
    check_rest(&sabir, "/acme/message:send", BY_ECHO);
    check_rest(&sabir, "/agents/desk/acme/message:send", BY_DESK);
    // By tenant or by path, it is the same agent with the same tasks.
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let id = task["id"].as_str().unwrap();
    assert_eq!(sabir.ask(&Request::get(&format!("/desk/tasks/{id}"))).json(), task);
    let mut answer = answer_params(&task, "Monday");
    answer["tenant"] = json!("desk");
    assert_eq!(state(&sabir.send("/", &answer)), "TASK_STATE_INPUT_REQUIRED");
}

#[test]
fn reserved_words_are_not_tenants() {
    let sabir = TestServer::start(AGENTS);
    let reserved =
        ["agents", "v1", "a2a", "api", "console", "metrics", "tasks", "extendedAgentCard", "healthz", "readyz"];
    let malformed = [
        "a/b",
        "a b",
        "..",
        ".hidden",
        "_internal",
        "message:send",
        "\u{e9}",
        "a\u{0}",
        &"x".repeat(65),
        &"x".repeat(10_000),
    ];
    for tenant in reserved.iter().chain(&malformed) {
        for method in [
            "SendMessage",
            "SendStreamingMessage",
            "ListTasks",
            "GetTask",
            "CancelTask",
            "SubscribeToTask",
            "GetExtendedAgentCard",
        ] {
            let params = json!({"tenant": tenant, "id": "x", "message": message("x")});
            let problem = sabir.rpc_error("/", method, &params);
            assert_eq!(
                (problem.code_and_reason(), &problem.fields[..]),
                ((PARAMS.0, PARAMS.2), &["tenant".to_owned()][..]),
                "{tenant} {method}"
            );
        }
    }
    // Three of them have paths of their own, which come first: `v1` is where 0.3 is.
    for tenant in reserved.iter().filter(|t| !["agents", "tasks", "v1"].contains(t)) {
        let reply = sabir.ask(&Request::post(&format!("/{tenant}/message:send"), send_params("x").to_string()));
        assert_eq!(ProtocolError::from_rest(&reply).fields, ["tenant"], "{tenant}: {}", reply.text());
    }
    for tenant in ["..", ".hidden", "_internal", "a%20b", "a%2Fb", "%C3%A9", &"x".repeat(65)] {
        let reply = sabir.ask(&Request::get(&format!("/{tenant}/tasks")));
        assert_eq!(ProtocolError::from_rest(&reply).fields, ["tenant"], "{tenant}: {}", reply.text());
    }
    assert_eq!(sabir.task_count("/"), 0);
}

#[test]
fn a_tenant_in_path_and_body_must_agree() {
    let sabir = shared_server();
    let mut params = send_params("x");
    params["tenant"] = json!("acme");
    assert_eq!(sabir.ask(&Request::post("/acme/message:send", params.to_string())).status, 200);
    assert_eq!(sabir.ask(&Request::post("/message:send", params.to_string())).status, 200);
    let reply = sabir.ask(&Request::post("/umbrella/message:send", params.to_string()));
    assert_eq!(ProtocolError::from_rest(&reply).fields, ["tenant"]);
    let reply = sabir.ask(&Request::get("/umbrella/tasks?tenant=acme"));
    assert_eq!(ProtocolError::from_rest(&reply).fields, ["tenant"]);
}

#[test]
fn without_a_default_agent_the_root_says_where_to_go() {
    let sabir = TestServer::start("[[agent]]\nname = \"demo\"\nkind = \"echo\"");
    let envelope = sabir.rpc("/", "SendMessage", &send_params("x"));
    assert_eq!(ProtocolError::from_rpc(&envelope).code_and_reason(), (UNSUPPORTED.0, UNSUPPORTED.2));
    assert!(envelope["error"]["message"].as_str().unwrap().contains("/agents/"), "{envelope}");
    let card = sabir.ask(&Request::get("/.well-known/agent-card.json"));
    assert_eq!(card.status, 404);
    assert!(card.text().contains("/agents/"), "{}", card.text());
    sabir.still_serves();
    let mut params = send_params("x");
    params["tenant"] = json!("demo");
    assert_eq!(state(&sabir.send("/", &params)), BY_ECHO);
}
