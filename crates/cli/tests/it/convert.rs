//! `sabir convert`: every kind of text from every dialect into every other, and what cannot be translated.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output, Stdio};

const DIALECTS: [&str; 6] = ["1.0", "0.3", "0.2", "0.1", "agent-native", "xpr"];

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
    command.arg("convert").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A refusal of the arguments may come before the input is read.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The translation, and what it lost.
#[track_caller]
fn converted(from: &str, to: &str, input: &Value) -> (Vec<Value>, Vec<String>) {
    let output = run(&["--from", from, "--to", to], input.to_string().as_bytes());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{from} to {to} {input}: {said}");
    let lost = said.lines().map(|l| l.strip_prefix("lost: ").unwrap_or_else(|| panic!("{l}")).to_owned());
    let lines = text(&output.stdout);
    (lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect(), lost.collect())
}

#[track_caller]
fn one(from: &str, to: &str, input: &Value) -> Value {
    let (mut lines, _) = converted(from, to, input);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// What a refusal says. Nothing may be on standard output.
#[track_caller]
fn refused(arguments: &[&str], input: &[u8], code: i32) -> String {
    let output = run(arguments, input);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
    assert!(!said.contains("panicked") && !said.contains("struct "), "{said}");
    said
}

/// The same send in each dialect.
fn request(dialect: &str) -> Value {
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let typed = json!({"role": "user", "parts": [{"type": "text", "text": "hi"}]});
    match dialect {
        "1.0" => rpc(
            "SendMessage",
            json!({"message": {"messageId": "m1", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}),
        ),
        "0.3" | "0.2" => rpc(
            "message/send",
            json!({"message": {"kind": "message", "messageId": "m1", "contextId": "c", "role": "user",
                "parts": [{"kind": "text", "text": "hi"}]}}),
        ),
        "0.1" => rpc("tasks/send", json!({"id": "t1", "sessionId": "c", "message": typed})),
        _ => rpc("message/send", json!({"contextId": "c", "message": typed})),
    }
}

/// The same task in each dialect.
fn reply(dialect: &str) -> Value {
    let task = match dialect {
        "1.0" => json!({"task": {"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "0", "parts": [{"text": "hi"}]}]}}),
        "0.3" | "0.2" => json!({"kind": "task", "id": "t1", "contextId": "c", "status": {"state": "completed"},
            "artifacts": [{"artifactId": "0", "parts": [{"kind": "text", "text": "hi"}]}]}),
        "0.1" => json!({"id": "t1", "sessionId": "c", "status": {"state": "completed"},
            "artifacts": [{"index": 0, "parts": [{"type": "text", "text": "hi"}]}]}),
        _ => json!({"id": "t1", "contextId": "c", "status": {"state": "completed"},
            "artifacts": [{"index": 0, "parts": [{"type": "text", "text": "hi"}]}]}),
    };
    json!({"jsonrpc": "2.0", "id": 1, "result": task})
}

/// The same event in each dialect that has any.
fn event(dialect: &str) -> Value {
    let event = match dialect {
        "1.0" => json!({"statusUpdate": {"taskId": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}),
        "0.3" | "0.2" => json!({"kind": "status-update", "taskId": "t1", "contextId": "c",
            "status": {"state": "working"}, "final": false}),
        "0.1" => json!({"id": "t1", "status": {"state": "working"}, "final": false}),
        _ => json!({"id": "t1", "contextId": "c", "status": {"state": "working"}, "history": [], "artifacts": []}),
    };
    json!({"jsonrpc": "2.0", "id": 1, "result": event})
}

fn words(message: &Value) -> &Value {
    &message["parts"][0]["text"]
}

#[test]
fn a_request_is_translated_from_every_dialect_into_every_other() {
    for from in DIALECTS {
        for to in DIALECTS {
            let there = one(from, to, &request(from));
            assert_eq!(there["method"], request(to)["method"], "{from} to {to}: {there}");
            let params = &there["params"];
            assert_eq!((&there["id"], words(&params["message"])), (&json!(1), &json!("hi")), "{from} to {to}: {there}");
            let context = match to {
                "1.0" | "0.3" | "0.2" => &params["message"]["contextId"],
                "0.1" => &params["sessionId"],
                _ => &params["contextId"],
            };
            assert_eq!(context, "c", "{from} to {to}: {there}");
            if to == "0.1" {
                assert!(params["id"].as_str().is_some_and(|id| !id.is_empty()), "a client names its task: {there}");
            }
            // And what came out can go in again.
            assert_eq!(words(&one(to, "1.0", &there)["params"]["message"]), "hi", "{from} to {to}");
        }
    }
}

#[test]
fn a_reply_is_translated_from_every_dialect_into_every_other() {
    for from in DIALECTS {
        for to in DIALECTS {
            let there = one(from, to, &reply(from));
            let task = if to == "1.0" { &there["result"]["task"] } else { &there["result"] };
            assert_eq!((&there["id"], &task["id"]), (&json!(1), &json!("t1")), "{from} to {to}: {there}");
            let done = if to == "1.0" { "TASK_STATE_COMPLETED" } else { "completed" };
            assert_eq!(task["status"]["state"], done, "{from} to {to}: {there}");
            assert_eq!(words(&task["artifacts"][0]), "hi", "{from} to {to}: {there}");
            if to == "agent-native" {
                assert_eq!(words(&task["status"]["message"]), "hi", "where its clients look: {there}");
            }
        }
    }
}

#[test]
fn an_event_is_translated_from_every_dialect_that_streams_into_every_other() {
    for from in &DIALECTS[..5] {
        for to in &DIALECTS[..5] {
            let kind = ["--from", from, "--to", to, "--kind", "event"];
            let output = run(&kind, event(from).to_string().as_bytes());
            assert!(output.status.success(), "{from} to {to}: {}", text(&output.stderr));
            let there: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
            let result = &there["result"];
            let inner = result.get("statusUpdate").or_else(|| result.get("task")).unwrap_or(result);
            let working = if *to == "1.0" { "TASK_STATE_WORKING" } else { "working" };
            assert_eq!(inner["status"]["state"], working, "{from} to {to}: {there}");
            if result["kind"] == "status-update" || *to == "0.1" {
                assert_eq!(result["final"], false, "{from} to {to}: {there}");
            }
        }
        let said = refused(&["--from", from, "--to", "xpr", "--kind", "event"], event(from).to_string().as_bytes(), 1);
        assert!(said.contains("XPR has no streams"), "{said}");
    }
}

#[test]
fn an_error_is_translated_from_every_dialect_into_every_other() {
    for from in DIALECTS {
        for to in DIALECTS {
            let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}});
            let there = one(from, to, &error);
            assert_eq!(there["error"]["code"], -32001, "{from} to {to}: {there}");
            assert_eq!(
                (&there["id"], there["error"]["data"].is_array()),
                (&json!(1), to == "1.0"),
                "{from} to {to}: {there}"
            );
        }
    }
    let bare = one("0.3", "1.0", &json!({"code": -32002, "message": "too late"}));
    assert_eq!(bare["error"]["data"][0]["reason"], "TASK_NOT_CANCELABLE", "{bare}");
}

#[test]
fn details_of_an_error_that_cannot_travel_are_named() {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "VERSION_NOT_SUPPORTED",
        "domain": "a2a-protocol.org", "metadata": {}}]);
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32009, "message": "no", "data": details}});
    let (lines, lost) = converted("1.0", "0.3", &error);
    assert_eq!(lines[0]["error"], json!({"code": -32004, "message": "no"}));
    assert_eq!(lost, ["error-details: code", "error-details: data"], "0.3 has no number of its own for it");
    let (lines, lost) = converted("1.0", "1.0", &error);
    assert_eq!((&lines[0], lost.len()), (&error, 0));
}

#[test]
fn a_card_is_translated_between_every_two_dialects() {
    let newest = json!({"name": "Echo", "description": "d", "version": "1.0.0", "capabilities": {"streaming": true},
        "supportedInterfaces": [{"url": "https://x.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://x.example/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "d", "tags": ["t"]}]});
    let older = json!({"protocolVersion": "0.3.0", "name": "Echo", "description": "d", "url": "https://x.example/",
        "preferredTransport": "JSONRPC", "version": "1.0.0", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "d", "tags": ["t"]}]});
    for from in DIALECTS {
        for to in DIALECTS {
            let there = one(from, to, if from == "1.0" { &newest } else { &older });
            assert_eq!((&there["name"], &there["skills"][0]["id"]), (&json!("Echo"), &json!("echo")), "{from} to {to}");
            if to == "1.0" {
                assert_eq!(there["supportedInterfaces"][0]["url"], "https://x.example/", "{from} to {to}: {there}");
            } else {
                // agent-native's card names its endpoint.
                let url = there["url"].as_str().unwrap();
                assert!(url.starts_with("https://x.example"), "{from} to {to}: {there}");
            }
        }
    }
}

#[test]
fn other_answers_are_known_by_their_shape() {
    let config = json!({"taskId": "t", "pushNotificationConfig": {"id": "p", "url": "https://x.example/h"}});
    let flat = json!({"taskId": "t", "id": "p", "url": "https://x.example/h"});
    let wrapped = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    assert_eq!(one("0.3", "1.0", &wrapped(config.clone()))["result"], flat);
    assert_eq!(one("1.0", "0.3", &wrapped(flat.clone()))["result"], config);
    assert_eq!(one("0.3", "1.0", &wrapped(json!([config])))["result"]["configs"], json!([flat]));
    assert_eq!(one("1.0", "0.3", &wrapped(json!({"configs": [flat]})))["result"], json!([config]));
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
    let there = one("1.0", "0.3", &wrapped(json!({"message": message})));
    assert_eq!((&there["result"]["kind"], words(&there["result"])), (&json!("message"), &json!("hi")));
    assert_eq!(one("1.0", "0.1", &wrapped(json!({"message": message})))["result"]["status"]["state"], "completed");
}

#[test]
fn a_bare_list_of_configurations_is_a_reply_however_long_it_is() {
    let config = |n: usize| json!({"taskId": "t", "pushNotificationConfig": {"id": format!("p{n}"), "url": "https://x.example/h"}});
    for length in 0..6 {
        let list: Vec<Value> = (0..length).map(config).collect();
        let there = one("0.3", "1.0", &json!(list));
        assert_eq!(there["configs"].as_array().unwrap().len(), length, "{there}");
        let named = run(&["--from", "0.3", "--to", "0.2", "--kind", "reply"], json!(list).to_string().as_bytes());
        let there: Value =
            serde_json::from_slice(&named.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&named.stderr)));
        assert_eq!(there, json!(list));
    }
}

#[test]
fn the_answer_to_a_deletion_is_nothing_at_all() {
    let there = one("0.3", "1.0", &json!({"jsonrpc": "2.0", "id": 1, "result": null}));
    assert_eq!(there, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[test]
fn what_is_lost_is_listed_one_line_each() {
    let input = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"tenant": "acme",
        "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi", "filename": "a.txt"}]},
        "configuration": {"returnImmediately": true, "historyLength": 3}}});
    let lost = |to: &str| converted("1.0", to, &input).1;
    assert_eq!(lost("1.0"), [""; 0]);
    assert_eq!(lost("0.3"), ["tenant: tenant", "part-attribute: message.parts[0].filename"]);
    assert!(lost("0.1").contains(&"configuration: configuration.returnImmediately".to_owned()), "{:?}", lost("0.1"));
    assert!(lost("xpr").contains(&"message-id: message.messageId".to_owned()), "{:?}", lost("xpr"));
    let rejected = json!({"jsonrpc": "2.0", "id": 1,
        "result": {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_REJECTED"}}}});
    for to in ["0.1", "agent-native", "xpr"] {
        let (lines, lost) = converted("1.0", to, &rejected);
        assert_eq!(
            (&lines[0]["result"]["status"]["state"], &lost[0][..]),
            (&json!("failed"), "state: status.state"),
            "{to}"
        );
    }
}

#[test]
fn very_many_losses_are_counted_and_not_all_told() {
    let parts: Vec<Value> = (0..500).map(|n| json!({"text": "x", "filename": format!("{n}.txt")})).collect();
    let input = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}});
    let (lines, lost) = converted("1.0", "0.3", &input);
    assert_eq!(lines[0]["params"]["message"]["parts"].as_array().unwrap().len(), 500);
    assert_eq!((lost.len(), &*lost[64]), (65, "436 more"));
}

#[test]
fn the_same_input_gives_the_same_output() {
    for from in DIALECTS {
        for to in DIALECTS {
            let first = run(&["--from", from, "--to", to], request(from).to_string().as_bytes());
            let again = run(&["--from", from, "--to", to], request(from).to_string().as_bytes());
            assert_eq!((first.stdout, first.stderr), (again.stdout, again.stderr), "{from} to {to}");
        }
    }
}

#[test]
fn numbers_are_not_rounded_on_the_way() {
    let input = r#"{"jsonrpc":"2.0","id":12345678901234567890123,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[{"kind":"data","data":{"n":12345678901234567890123,"f":1.10}}]}}}"#;
    let output = run(&["--from", "0.3", "--to", "1.0"], input.as_bytes());
    let told = text(&output.stdout);
    assert!(
        told.contains("\"id\":12345678901234567890123") && told.contains("\"n\":12345678901234567890123"),
        "{told}"
    );
    assert!(told.contains("\"f\":1.10"), "{told}");
}

#[test]
fn what_is_no_json_is_refused_with_a_reason() {
    let to = ["--from", "0.3", "--to", "1.0"];
    for bad in [&b""[..], b" \n", b"nonsense", b"{", b"{}}", b"\xff\xfe", b"\"words\"", b"7", b"null", b"{}"] {
        let said = refused(&to, bad, 1);
        assert!(said.contains("Message: cannot ") && said.len() < 600, "{bad:?}: {said}");
        for kind in ["request", "reply", "event", "card", "error"] {
            if (kind, bad) == ("reply", b"null") {
                // The answer to a deletion.
                continue;
            }
            let output = run(&[&to[..], &["--kind", kind]].concat(), bad);
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{kind} {bad:?}");
        }
    }
}

#[test]
fn the_wrong_dialect_or_kind_is_refused_with_a_reason() {
    for from in DIALECTS {
        for other in DIALECTS {
            if request(from)["method"] == request(other)["method"] {
                continue;
            }
            let said = refused(&["--from", other, "--to", "1.0"], request(from).to_string().as_bytes(), 1);
            assert!(said.contains(&format!("from {other} to 1.0")) && said.contains("not found"), "{said}");
        }
        refused(&["--from", from, "--to", "1.0", "--kind", "card"], request(from).to_string().as_bytes(), 1);
        refused(&["--from", from, "--to", "1.0", "--kind", "error"], request(from).to_string().as_bytes(), 1);
        refused(&["--from", from, "--to", "1.0", "--kind", "request"], reply(from).to_string().as_bytes(), 1);
    }
    let batch = json!([request("0.3")]);
    refused(&["--from", "0.3", "--to", "1.0"], batch.to_string().as_bytes(), 1);
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    for to in &DIALECTS[1..] {
        refused(&["--from", "1.0", "--to", to], listing.to_string().as_bytes(), 1);
    }
}

#[test]
fn a_name_that_is_nobodys_is_answered_by_the_names_there_are() {
    for unknown in [["--from", "0.4", "--to", "1.0"], ["--from", "1.0", "--to", "grpc"]] {
        let said = refused(&unknown, b"{}", 2);
        for dialect in DIALECTS {
            assert!(said.contains(dialect), "{said}");
        }
    }
    let said = refused(&["--from", "1.0", "--to", "0.3", "--kind", "letter"], b"{}", 2);
    for kind in ["request", "reply", "event", "card", "error"] {
        assert!(said.contains(kind), "{said}");
    }
    refused(&["--from", "1.0"], b"{}", 2);
    refused(&["--to", "1.0"], b"{}", 2);
}

#[test]
fn a_text_over_the_limit_is_refused() {
    let long = format!("{}{}", request("0.3"), " ".repeat(16 << 20));
    let said = refused(&["--from", "0.3", "--to", "1.0"], long.as_bytes(), 1);
    assert!(said.contains("over the limit"), "{said}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sabir"));
    command.args(["convert", "--from", "0.3", "--to", "1.0"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Closed before anything is written, so that the writer is sure to find it closed.
    drop(child.stdout.take());
    let long = "x".repeat(1 << 20);
    let input = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message":
        {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": long}]}}});
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?} {}", output.status, text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_file_is_translated_as_standard_input_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("request.json");
    std::fs::write(&file, request("0.3").to_string()).unwrap();
    let arguments = ["--from", "0.3", "--to", "1.0"];
    let from_file = run(&[&arguments[..], &[file.to_str().unwrap()]].concat(), b"");
    let from_stdin = run(&arguments, request("0.3").to_string().as_bytes());
    assert!(from_file.status.success(), "{}", text(&from_file.stderr));
    assert_eq!(text(&from_file.stdout), text(&from_stdin.stdout));
    let missing = folder.path().join("nothing.json");
    let said = refused(&[&arguments[..], &[missing.to_str().unwrap()]].concat(), b"", 1);
    assert!(said.contains("nothing.json"), "{said}");
}
