//! Agents of other kinds, seen from outside: endpoints, models, and a dispatcher before them; also across a crash.

use crate::http_client::Request;
use crate::rpc_client::{send_params, state};
use crate::stub_agent::{self, StubRequest, StubResponse};
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn texts(task: &Value) -> String {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    let parts = artifacts.flat_map(|artifact| artifact["parts"].as_array().cloned().unwrap_or_default());
    parts.filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

/// Starts `sabir serve` with these flags.
fn serve(flags: &[&str], key: Option<&str>) -> TestServer {
    let home = ServerDirectory::new("");
    let mut command = home.command();
    command.args(flags).env_remove("OPENAI_API_KEY");
    command.envs(key.map(|key| ("OPENAI_API_KEY", key)));
    TestServer::run(&home, command)
}

fn model(asked: &StubRequest) -> StubResponse {
    let chunk = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    let said = asked.json()["messages"].as_array().and_then(|said| said.last().cloned()).unwrap_or_default();
    let words = format!("You said {}. Key: {:?}", said["content"], asked.header("authorization"));
    let body = chunk(json!({"content": "Well. "})) + &chunk(json!({"content": words})) + "data: [DONE]\n\n";
    (200, "text/event-stream", body)
}

#[test]
fn an_endpoint_becomes_an_agent_by_one_flag() {
    let url = stub_agent::serve(|asked| (200, "application/json", json!({"text": asked.json()["text"]}).to_string()));
    let sabir = serve(&["--http", &format!("{url}/ask")], None);
    let task = sabir.send("/", &send_params("Good day"));
    assert_eq!((state(&task), texts(&task)), ("TASK_STATE_COMPLETED", "Good day".into()));
}

#[test]
fn a_model_becomes_an_agent_by_one_flag_and_its_key_is_no_argument() {
    let url = stub_agent::serve(model);
    let sabir = serve(&["--openai", &format!("{url}/v1"), "--model", "m"], Some("sk-test"));
    let task = sabir.send("/", &send_params("Good day"));
    let expected = r#"Well. You said "Good day". Key: Some("Bearer sk-test")"#;
    assert_eq!((state(&task), texts(&task)), ("TASK_STATE_COMPLETED", expected.into()));
    let open = serve(&["--openai", &format!("{url}/v1"), "--model", "m"], None);
    assert!(texts(&open.send("/", &send_params("x"))).ends_with("Key: None"));
    let refused = ServerDirectory::new("").command().args(["--openai", &url]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--model"), "{refused:?}");
}

/// An endpoint that keeps its first callers waiting, and counts them.
fn slow_endpoint(calls: Arc<AtomicUsize>, slow: usize) -> String {
    stub_agent::serve(move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) < slow {
            loop {
                std::thread::park();
            }
        }
        (200, "text/plain", "Here.".into())
    })
}

/// Kills a server in the middle of a request, starts it again, and gives the task and how often the endpoint was asked.
fn across_a_crash(idempotent: bool) -> (Value, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let url = slow_endpoint(calls.clone(), 1);
    let config = format!(
        "[[agent]]\nname = \"x\"\nkind = \"http\"\ndefault = true\nurl = \"{url}\"\nidempotent = {idempotent}\n"
    );
    let sabir = TestServer::start(&config);
    let mut request = send_params("x");
    request["configuration"] = json!({"returnImmediately": true});
    let task = sabir.send("/", &request);
    eventually("the endpoint is asked", || calls.load(Ordering::SeqCst) == 1);
    let sabir = TestServer::start_at(&sabir.kill());
    let id = task["id"].as_str().unwrap();
    let mut found = Value::Null;
    eventually("the task settles", || {
        found = sabir.ask(&Request::get(&format!("/tasks/{id}"))).json();
        matches!(state(&found), "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED")
    });
    (found, calls.load(Ordering::SeqCst))
}

#[test]
fn after_a_crash_an_endpoint_is_asked_again_only_if_that_is_safe() {
    let (task, calls) = across_a_crash(false);
    assert_eq!((state(&task), calls), ("TASK_STATE_FAILED", 1));
    let (task, calls) = across_a_crash(true);
    assert_eq!((state(&task), texts(&task), calls), ("TASK_STATE_COMPLETED", "Here.".into(), 2));
}

const DESK: &str = r#"
[[agent]]
name = "desk"
kind = "dispatch"
default = true
[agent.dispatch]
fallback = "clerk"

[[agent]]
name = "ledger"
kind = "script"
[[agent.card.skills]]
id = "reconcile"
name = "Reconcile accounts"
description = "Compares statements with the books"
tags = ["accounting"]
[[agent.rule]]
do = [{ ask_input = "Which month?" }]
then = [{ echo = true }, { complete = "done" }]

[[agent]]
name = "clerk"
kind = "echo"
mentions = ["desk"]
"#;

#[test]
fn the_desk_passes_on_and_remembers_whom_across_a_crash() {
    let sabir = TestServer::start(DESK);
    let asked = sabir.send("/", &send_params("Reconcile the accounts"));
    assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED");
    let sabir = TestServer::start_at(&sabir.kill());
    let mut answer = send_params("March");
    answer["message"]["taskId"] = asked["id"].clone();
    let done = sabir.send("/", &answer);
    assert_eq!((state(&done), texts(&done)), ("TASK_STATE_COMPLETED", "March".into()));
    let other = sabir.send("/", &send_params("Sing"));
    assert_eq!((state(&other), texts(&other)), ("TASK_STATE_COMPLETED", "Sing".into()));
}

#[test]
fn the_ranking_is_told_without_a_server() {
    let home = ServerDirectory::new(DESK);
    let rank = |text: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
        command.args(["agent", "rank", text, "-o", "json", "--config"]).arg(home.path("sabir.toml")).env_clear();
        let ran = command.output().unwrap();
        let told: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        (ran.status.code(), told)
    };
    let (code, told) = rank("reconcile");
    assert_eq!((code, &told["chosen"], &told["ranking"][0]["agent"]), (Some(0), &json!(["ledger"]), &json!("ledger")));
    let (code, told) = rank("sing");
    assert_eq!((code, &told["chosen"], &told["fallback"]), (Some(1), &json!([]), &json!("clerk")));
}
