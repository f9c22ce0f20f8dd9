//! An agent of the original 0.1 with a card that names no version and no authentication, as its reference server has it:
//! found out by calling it, by whichever command and with default settings.

use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::rpc_client::{send_params, state};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::TestServer;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The methods that were called.
type CalledMethods = Arc<Mutex<Vec<String>>>;

/// The reference server: it checks a request by the methods it knows, and calls any other invalid.
fn reference_server() -> (String, CalledMethods) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (methods, base) = (CalledMethods::default(), url.clone());
    let called = methods.clone();
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("/.well-known/") {
            let is_card = asked.path == "/.well-known/agent.json";
            return (if is_card { 200 } else { 404 }, "application/json", card(&base));
        }
        let call = asked.json();
        let method = call["method"].as_str().unwrap_or_default().to_owned();
        called.lock().unwrap().push(method.clone());
        let task = task(&call["params"]["id"]);
        let with = |member: Value| {
            let mut answer = json!({"jsonrpc": "2.0", "id": call["id"]});
            answer.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
            answer.to_string()
        };
        match method.as_str() {
            "tasks/send" | "tasks/get" => (200, "application/json", with(json!({"result": task}))),
            "tasks/sendSubscribe" => {
                let status = json!({"id": task["id"], "status": task["status"], "final": true});
                let artifact = json!({"id": task["id"], "artifact": task["artifacts"][0]});
                let frames =
                    [artifact, status].map(|event| format!("data: {}\r\n\r\n", with(json!({"result": event}))));
                (200, "text/event-stream", frames.concat())
            }
            _ => (
                400,
                "application/json",
                with(json!({"error": {"code": -32600, "message": "Request payload validation error"}})),
            ),
        }
    });
    (url, methods)
}

fn card(url: &str) -> String {
    json!({
        "name": "Currency Agent", "description": "Helps with exchange rates", "url": format!("{url}/"), "version": "1.0.0",
        "capabilities": {"streaming": true, "pushNotifications": true, "stateTransitionHistory": false},
        "defaultInputModes": ["text", "text/plain"], "defaultOutputModes": ["text", "text/plain"],
        "skills": [{"id": "convert", "name": "Exchange rates", "description": "Converts", "tags": ["currency"]}]
    })
    .to_string()
}

fn task(id: &Value) -> Value {
    json!({
        "id": id, "sessionId": "s-1",
        "status": {"state": "completed", "timestamp": "2025-05-01T10:00:00"},
        "artifacts": [{"parts": [{"type": "text", "text": "1.08 USD"}], "index": 0}], "history": []
    })
}

fn run(words: &[&str], url: &str) -> CommandOutput {
    CommandDirectory::new().run(&[words, &["-a", url]].concat())
}

#[test]
fn a_message_reaches_it_with_default_settings() {
    let (url, methods) = reference_server();
    let ran = run(&["send", "How much is 1 EUR?"], &url);
    assert!(ran.expect_success().contains("1.08 USD"), "{ran:?}");
    assert!(ran.stderr.contains("0.1"), "{ran:?}");
    assert!(methods.lock().unwrap().iter().any(|method| method.starts_with("tasks/send")));
}

#[test]
fn a_stream_reaches_it_with_default_settings() {
    let (url, methods) = reference_server();
    let ran = run(&["send", "How much is 1 EUR?", "--stream"], &url);
    assert!(ran.expect_success().contains("1.08 USD"), "{ran:?}");
    assert!(methods.lock().unwrap().iter().any(|method| method == "tasks/sendSubscribe"));
}

#[test]
fn its_tasks_are_read_with_default_settings() {
    let (url, _) = reference_server();
    let ran = run(&["task", "get", "t-1"], &url);
    assert!(ran.expect_success().contains("1.08 USD"), "{ran:?}");
}

#[test]
fn no_hint_points_to_a_version_that_fails() {
    let (url, _) = reference_server();
    for version in ["1.0", "0.3"] {
        let ran = run(&["send", "hi", "--a2a-version", version, "-o", "json"], &url);
        assert_eq!(ran.code, 1, "{ran:?}");
        let hint = ran.json()["error"]["hint"].as_str().unwrap_or_default().to_owned();
        assert!(hint.contains("--a2a-version auto") || hint.contains("leave --a2a-version out"), "{version}: {hint}");
    }
    let ran = run(&["send", "hi", "--a2a-version", "auto"], &url);
    assert!(ran.expect_success().contains("1.08 USD"), "{ran:?}");
}

#[test]
fn who_knows_neither_version_is_reported_as_it_answered_first() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let base = url.clone();
    stub_agent::serve_at(listener, move |asked: &StubRequest| -> StubResponse {
        if asked.path.contains("/.well-known/") {
            return (200, "application/json", card(&base));
        }
        let call = asked.json();
        let words = format!("{} is unknown here", call["method"].as_str().unwrap_or_default());
        let error = json!({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": words}});
        (200, "application/json", error.to_string())
    });
    let ran = run(&["send", "hi"], &url);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("message/send is unknown here"), "{ran:?}");
}

#[test]
fn a_hub_finds_out_without_a_pause() {
    let (url, methods) = reference_server();
    let hub =
        TestServer::start(&format!("[[agent]]\nname = \"old\"\ndefault = true\nkind = \"a2a\"\nurl = \"{url}\"\n"));
    let begun = Instant::now();
    let task = hub.send("/", &send_params("How much is 1 EUR?"));
    let took = begun.elapsed();
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    println!("the first call through a hub took {took:?}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
    // Its word that it knows no such method is an answer: the next form follows at once, and nothing counts as a failure.
    assert!(methods.lock().unwrap().len() <= 4, "{:?}", methods.lock().unwrap());
    assert!(!hub.log_text().contains("failed"), "{}", hub.log_text());
    let begun = Instant::now();
    assert_eq!(state(&hub.send("/", &send_params("And 2?"))), "TASK_STATE_COMPLETED");
    assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
}
