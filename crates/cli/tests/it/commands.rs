//! Commands that end and say what they found, whatever the agent makes of them.

use crate::command_runner::{CommandDirectory, wait_for_exit};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{ServerDirectory, TestServer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// An agent whose card is changed, and which answers calls with these results.
fn agent(
    change: impl Fn(&mut Value) + Send + Sync + 'static,
    answer: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut card: Value = serde_json::from_str(&stub_agent::card(&url)).unwrap();
    change(&mut card);
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card.to_string());
        }
        let call = asked.json();
        let result = answer(call["method"].as_str().unwrap_or_default());
        (200, "application/json", json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string())
    })
}

fn working() -> Value {
    json!({"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}})
}

#[test]
fn a_list_of_webhooks_that_is_null_is_empty() {
    for (version, methods) in
        [("1.0", "ListTaskPushNotificationConfigs"), ("0.3.0", "tasks/pushNotificationConfig/list")]
    {
        let url = agent(
            move |card| {
                card["capabilities"] = json!({"pushNotifications": true});
                card["supportedInterfaces"][0]["protocolVersion"] = json!(version);
            },
            move |method| if method == methods { Value::Null } else { json!("not asked for") },
        );
        let ran = CommandDirectory::new().run(&["task", "push-config", "list", "t-1", "-a", &url, "-o", "json"]);
        ran.expect_success();
        assert_eq!(ran.json()["configs"], json!([]), "{version}: {ran:?}");
    }
}

#[test]
fn a_list_of_webhooks_that_is_null_is_empty_over_http_too() {
    for version in ["1.0", "0.3.0"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut card: Value = serde_json::from_str(&stub_agent::card(&url)).unwrap();
        card["capabilities"] = json!({"pushNotifications": true});
        let interface = json!({"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": version});
        card["supportedInterfaces"] = json!([interface]);
        stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
            let is_card = asked.path.contains("/.well-known/");
            (200, "application/json", if is_card { card.to_string() } else { "null".into() })
        });
        let ran = CommandDirectory::new().run(&["task", "push-config", "list", "t-1", "-a", &url, "-o", "json"]);
        ran.expect_success();
        assert_eq!(ran.json()["configs"], json!([]), "{version}: {ran:?}");
    }
}

#[test]
fn listening_for_notifications_ends_after_the_time_that_was_given() {
    let url = agent(
        |card| card["capabilities"] = json!({"pushNotifications": true}),
        |method| match method {
            "CreateTaskPushNotificationConfig" => json!({"taskId": "t-1", "id": "c-1", "url": "http://127.0.0.1:1/"}),
            "DeleteTaskPushNotificationConfig" => json!({}),
            _ => working(),
        },
    );
    let begun = Instant::now();
    let ran = CommandDirectory::new().run(&["task", "push-config", "listen", "t-1", "-a", &url, "--timeout", "300ms"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stderr.contains("not done after 0.3s"), "{ran:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Without a task as well.
    let ran = CommandDirectory::new().run(&["task", "push-config", "listen", "--timeout", "300ms"]);
    assert_eq!(ran.code, 5, "{ran:?}");
}

#[test]
fn the_extended_card_without_a_credential_says_what_is_asked_for() {
    let extended = |schemes: Value| {
        let url = agent(
            move |card| {
                card["capabilities"] = json!({"extendedAgentCard": true});
                card["securitySchemes"] = schemes.clone();
            },
            |_| json!({}),
        );
        let ran = CommandDirectory::new().run(&["card", "get", "--extended", "-a", &url]);
        assert_eq!(ran.code, 4, "{ran:?}");
        ran.stderr
    };
    let said = extended(json!({"staff": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}));
    assert!(said.contains("staff (http Bearer)"), "{said}");
    let said = extended(json!({}));
    assert!(said.contains("its card declares no scheme"), "{said}");
}

#[test]
fn an_agent_that_was_simply_quick_has_not_failed_a_subscription() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut card: Value = serde_json::from_str(&stub_agent::card(&url)).unwrap();
    card["capabilities"] = json!({"streaming": true});
    let done = AtomicBool::new(false);
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card.to_string());
        }
        let call = asked.json();
        let told = |member: &str, value: Value| {
            let mut answer = json!({"jsonrpc": "2.0", "id": call["id"]});
            answer[member] = value;
            (200, "application/json", answer.to_string())
        };
        let completed = json!({"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}});
        let is_slow = call["params"]["message"]["parts"][0]["text"] == "slow";
        match call["method"].as_str().unwrap_or_default() {
            "SendMessage" if is_slow => {
                done.store(true, Ordering::SeqCst);
                told("result", json!({"task": working()}))
            }
            "SendMessage" => told("result", json!({"task": completed})),
            "GetTask" if call["params"]["id"] == "t-1" => told("result", completed),
            "GetTask" | "CancelTask" => told("error", json!({"code": -32001, "message": "no such task"})),
            // The task was done before the client could subscribe.
            _ => told("error", json!({"code": -32004, "message": "the task is done"})),
        }
    });
    let ran = CommandDirectory::new().run(&[
        "conformance",
        "-a",
        &url,
        "--text",
        "quick",
        "--slow-text",
        "slow",
        "-o",
        "json",
    ]);
    let report = ran.json();
    let text = report.to_string();
    let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{report}"));
    let one = checks.iter().find(|check| check["id"] == "STREAM-SUB-001").unwrap_or_else(|| panic!("{report}"));
    assert_eq!(one["result"], "skip", "{one} in {text}");
}

#[test]
fn a_user_is_named_to_an_agent_native_server_by_a_token_of_ours() {
    let secret = "a-secret-that-two-sides-share-7";
    let home = ServerDirectory::new(&format!(
        "{}\n[auth]\naccept = [\"jwt\"]\n[auth.jwt]\nsecret = \"file:secret\"\n",
        crate::test_server::AGENTS
    ));
    std::fs::write(home.path("secret"), secret).unwrap();
    let sabir = TestServer::start_at(&home);
    let url = format!("http://{}", sabir.address);
    let desk = CommandDirectory::new();
    let run = |shared: Option<&str>, words: &[&str]| {
        let mut command = desk.command(&[&["send", "hi", "-a", &url], words].concat());
        command.env_remove("A2A_SECRET");
        shared.into_iter().for_each(|value| _ = command.env("A2A_SECRET", value));
        wait_for_exit(command.spawn().unwrap())
    };
    let ran = run(Some(secret), &["--as-user", "ana@acme.test", "--debug", "--curl"]);
    ran.expect_success();
    let shown = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!shown.contains(secret) && !shown.contains("eyJ"), "{shown}");
    assert_eq!(run(Some("another-secret-altogether-77"), &["--as-user", "ana@acme.test"]).code, 4);
    let without = run(None, &["--as-user", "ana@acme.test"]);
    assert!(without.code == 2 && without.stderr.contains("A2A_SECRET"), "{without:?}");
    let twice = run(Some(secret), &["--as-user", "ana"]);
    assert!(twice.code == 2 && twice.stderr.contains("e-mail address"), "{twice:?}");
    let home = sabir.kill();
    drop(home);
}
