//! `sabir call`: what is typed is what is sent, and what is received is what is printed.

use crate::command_runner::{CommandDirectory, demo};
use crate::stub_agent::{self, card};
use serde_json::{Value, json};
use std::sync::{Mutex, OnceLock};

const HELLO: &str = r#"{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#;

#[test]
fn methods_of_every_dialect_and_binding_are_called() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let old = r#"{"message":{"kind":"message","messageId":"m-2","role":"user","parts":[{"kind":"text","text":"hi"}]}}"#;
    let first = r#"{"id":"t-1","message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}"#;
    let typed = r#"{"message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}"#;
    for (arguments, data, member, expected) in [
        (&["SendMessage"][..], HELLO, "/result/task/status/state", "TASK_STATE_COMPLETED"),
        (&["message/send", "--a2a-version", "0.3"], old, "/result/status/state", "completed"),
        (&["tasks/send", "--a2a-version", "0.1"], first, "/result/status/state", "completed"),
        (&["message/send", "--a2a-version", "agent-native"], typed, "/result/status/state", "completed"),
        (&["SendMessage", "--transport", "rest"], HELLO, "/task/status/state", "TASK_STATE_COMPLETED"),
        (&["POST /message:send", "--transport", "rest"], HELLO, "/task/status/state", "TASK_STATE_COMPLETED"),
        (&["POST", "/message:send", "--transport", "rest"], HELLO, "/task/status/state", "TASK_STATE_COMPLETED"),
        (&["SendMessage", "--transport", "grpc"], HELLO, "/task/status/state", "TASK_STATE_COMPLETED"),
    ] {
        let ran = desk.run(&[&["call", url.as_str()], arguments, &["-d", data]].concat());
        ran.expect_success();
        assert_eq!(ran.json().pointer(member).and_then(Value::as_str), Some(expected), "{arguments:?} {ran:#?}");
    }
}

#[test]
fn a_stream_is_a_line_per_event() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    for more in [&[][..], &["--transport", "rest"], &["--transport", "grpc"]] {
        let ran = desk.run(&[&["call", "-a", &url, "SendStreamingMessage", "-d", HELLO], more].concat());
        let events: Vec<Value> = ran.expect_success().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), 3, "{ran:#?}");
        assert!(events[0].to_string().contains("\"task\"") && events[2].to_string().contains("COMPLETED"), "{ran:#?}");
    }
}

#[test]
fn an_error_is_printed_as_it_came_and_is_no_success() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let rpc = desk.run(&["call", &url, "GetTask", "-d", r#"{"id":"nobody"}"#]);
    assert!(rpc.code == 1 && rpc.json()["error"]["code"] == -32001, "{rpc:#?}");
    let rest = desk.run(&["call", &url, "GET /tasks/nobody", "--transport", "rest"]);
    assert!(rest.code == 1 && rest.json()["error"]["status"] == "NOT_FOUND", "{rest:#?}");
    let (_closed, url) = demo(&["--bearer-required=right-token"]);
    assert_eq!(desk.run(&["call", &url, "ListTasks", "--bearer", "wrong-token"]).code, 4);
    desk.run(&["call", &url, "ListTasks", "--bearer", "right-token"]).expect_success();
}

#[test]
fn what_is_given_is_sent_and_what_is_received_is_printed() {
    static SEEN: Mutex<String> = Mutex::new(String::new());
    const ANSWER: &str =
        "{ \"jsonrpc\" : \"2.0\",\n \"result\": {\"n\": 12345678901234567890.50, \"t\": \"\u{9b}31m\"} }";
    let at: &'static OnceLock<String> = Box::leak(Box::default());
    let url = stub_agent::serve(move |asked| {
        if asked.path.starts_with("/.well-known/") {
            return (200, "application/json", card(at.get().unwrap()));
        }
        asked.body.clone_into(&mut SEEN.lock().unwrap());
        (200, "application/json", ANSWER.to_owned())
    });
    let url = at.get_or_init(|| url);
    let desk = CommandDirectory::new();
    std::fs::write(desk.path("params.json"), " {\"big\": 12345678901234567890.50, \"x\": [1 ,2]}\n").unwrap();
    let asked = "12345678901234567890.50, \"x\": [1 ,2]}}";
    let ran = desk.run(&["call", url, "any/thing", "-d", "@params.json"]);
    // As it came, but for what would steer a terminal.
    assert_eq!(ran.expect_success(), ANSWER.replace('\u{9b}', "\\u009b") + "\n");
    assert!(SEEN.lock().unwrap().ends_with(asked), "{}", SEEN.lock().unwrap());
    assert!(SEEN.lock().unwrap().contains("\"method\":\"any/thing\""));
    desk.run_with_input(&["call", url, "any/thing", "-d", "-"], "{\"from\": \"stdin\"}").expect_success();
    assert!(SEEN.lock().unwrap().contains("\"params\":{\"from\": \"stdin\"}"));
    let laid_out = desk.run(&["call", url, "any/thing", "-o", "json"]);
    assert!(laid_out.expect_success().contains("  \"result\": {\n    \"n\": 12345678901234567890.50"), "{laid_out:#?}");
    let logged = desk.run(&["call", url, "any/thing", "--debug"]);
    assert!(logged.stderr.contains("< 200"), "{logged:#?}");
}

#[test]
fn what_can_be_called_is_listed_and_described() {
    let desk = CommandDirectory::new();
    let listed = desk.run(&["call", "list"]);
    assert_eq!(listed.expect_success().lines().count(), 11);
    assert!(listed.stdout.contains("CancelTask                        POST /tasks/TASK-ID:cancel\n"), "{listed:#?}");
    let old = desk.run(&["call", "list", "--a2a-version", "0.3", "-o", "json"]).json();
    assert!(old.as_array().unwrap().iter().any(|one| one["method"] == "message/send"), "{old}");
    let described = desk.run(&["call", "describe", "SendMessage", "-o", "json"]).json();
    assert_eq!(described["params"]["message"]["parts"], json!([{"text": "Hello"}]));
    let text = desk.run(&["call", "describe", "tasks/get", "--a2a-version", "0.3"]);
    assert_eq!((text.fields("Operation"), text.fields("Answer")), (vec!["GetTask"], vec!["a task"]));
    assert_eq!(desk.run(&["call", "describe", "NoSuchMethod"]).code, 2);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let desk = CommandDirectory::new();
    for arguments in [
        &["call"][..],
        &["call", "describe"],
        &["call", "http://127.0.0.1:9", "SendMessage", "-d", "{"],
        &["call", "http://127.0.0.1:9", "Send", "Message"],
        &["call", "SendMessage", "-d", "@nowhere.json"],
        &["call", "SendMessage"],
    ] {
        assert_eq!(desk.run(arguments).code, 2, "{arguments:?}");
    }
    let (_demo, url) = demo(&[]);
    let path = desk.run(&["call", &url, "GET /tasks"]);
    assert!(path.code == 2 && path.stderr.contains("--transport HTTP+JSON"), "{path:#?}");
}
