//! `record`, `mock` and `replay`: a cassette of an agent stands in for it, says the same, and tells when it has changed.

use crate::command_runner::{CommandDirectory, demo, read_text};
use crate::stub_agent::{self, card};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A command that serves until it is dropped.
struct ListeningCommand {
    child: Child,
    url: String,
}

impl ListeningCommand {
    fn start(desk: &CommandDirectory, arguments: &[&str]) -> Self {
        let mut child = desk.command(arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("Listening: ").map(str::to_owned);
        let Some(url) = url else {
            _ = child.kill();
            let said = child.wait_with_output().unwrap();
            panic!("it does not listen: {line:?} {}", String::from_utf8_lossy(&said.stderr))
        };
        Self { child, url }
    }

    /// Ends it as a person would, and returns what it printed beside its address.
    fn stop(mut self) -> String {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let mut said = String::new();
        let stderr = self.child.stderr.take().unwrap();
        BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| writeln!(said, "{line}").unwrap());
        said
    }
}

impl Drop for ListeningCommand {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Standard output of `send` without the address in the command to continue with.
fn sent(desk: &CommandDirectory, url: &str, text: &str, more: &[&str]) -> String {
    let ran = desk.run(&[&["send", "-a", url, text], more].concat());
    let text = ran.expect_success().to_owned();
    text.lines().filter(|line| !line.starts_with("Resume: ")).fold(String::new(), |all, line| all + line + "\n")
}

#[test]
fn a_mock_of_a_conversation_says_what_was_recorded() {
    let (server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let ran = desk.run(&["record", "talk.cassette", "-a", &url, "echo one", "ask", "blue"]);
    assert_eq!(ran.fields("State").len(), 3, "{ran:#?}");
    assert_eq!(ran.fields("Saved"), ["talk.cassette"]);
    let (tasks, contexts) = (ran.fields("Task ID"), ran.fields("Context ID"));
    assert!(tasks[1] == tasks[2] && contexts.iter().all(|context| *context == contexts[0]), "{ran:#?}");
    drop(server);
    // The agent is gone; its cassette answers for it, twice the same.
    let mut heard = Vec::new();
    for _ in 0..2 {
        let mock = ListeningCommand::start(&desk, &["mock", "talk.cassette", "--fast"]);
        let one = sent(&desk, &mock.url, "echo one", &[]);
        assert!(one.contains(&format!("Task ID: {}", tasks[0])) && one.contains("  echo one\n"), "{one}");
        let context = ["--context-id", contexts[0]];
        let ask = sent(&desk, &mock.url, "ask", &context);
        assert!(ask.contains("TASK_STATE_INPUT_REQUIRED") && ask.contains(tasks[1]), "{ask}");
        let blue = sent(&desk, &mock.url, "blue", &[&context[..], &["--task-id", tasks[1]]].concat());
        assert!(blue.contains("TASK_STATE_COMPLETED") && blue.contains("  blue\n"), "{blue}");
        heard.push([one, ask, blue]);
        assert_eq!(mock.stop(), "");
    }
    assert_eq!(heard[0], heard[1]);
}

#[test]
fn a_recorder_passes_everything_on_and_writes_it_down() {
    let (_server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let recorder = ListeningCommand::start(&desk, &["record", "all.cassette", "-a", &url]);
    let card = desk.run(&["card", "get", "-a", &recorder.url, "-o", "json"]);
    card.expect_success();
    let interfaces = card.json()["supportedInterfaces"].as_array().unwrap().clone();
    let bindings: Vec<&str> = interfaces.iter().map(|one| one["protocolBinding"].as_str().unwrap()).collect();
    assert_eq!(bindings, ["JSONRPC", "HTTP+JSON"]);
    assert!(interfaces.iter().all(|one| one["url"].as_str().unwrap().starts_with(&recorder.url)), "{interfaces:?}");
    let mut live = Vec::new();
    for binding in ["jsonrpc", "rest"] {
        live.push(sent(&desk, &recorder.url, "slow 1", &["--stream", "--transport", binding]));
    }
    let missing = ["task", "get", "-a", &recorder.url, "no-such-task", "--transport", "rest"];
    assert!(desk.run(&missing).stderr.contains("TaskNotFoundError"));
    let said = recorder.stop();
    assert!(!said.contains("warning"), "{said}");

    let mock = ListeningCommand::start(&desk, &["mock", "all.cassette"]);
    for (binding, live) in ["jsonrpc", "rest"].into_iter().zip(&live) {
        let begun = Instant::now();
        assert_eq!(sent(&desk, &mock.url, "slow 1", &["--stream", "--transport", binding]), *live);
        assert!(begun.elapsed() >= Duration::from_millis(900), "in its own time: {:?}", begun.elapsed());
    }
    let refused = desk.run(&["task", "get", "-a", &mock.url, "no-such-task", "--transport", "rest"]);
    assert!(refused.code == 1 && refused.stderr.contains("Error: TaskNotFoundError"), "{refused:#?}");
    let other = desk.run(&["send", "-a", &mock.url, "slow 2", "--stream", "-o", "json"]);
    let words = other.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(words.contains("exchange 1 (line 2)"), "{words}");
    assert!(words.contains(r#"message.parts[0].text: "slow 1" was recorded, "slow 2" was asked"#), "{words}");
    assert!(mock.stop().contains("refused: "), "and it is said where the mock runs");
}

#[test]
fn a_stream_that_broke_breaks_again() {
    let (_server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    desk.run(&["record", "drop.cassette", "-a", &url, "drop", "--transport", "jsonrpc"]).expect_success();
    let lines: Vec<Value> = read_text(&desk.path("drop.cassette"))
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ended: Vec<&Value> = lines.iter().map(|line| &line["response"]["ended"]).collect();
    assert!(ended.contains(&&json!("broken")) && ended.contains(&&json!("closed")), "{ended:?}");
    let mock = ListeningCommand::start(&desk, &["mock", "drop.cassette", "--fast"]);
    let ran = desk.run(&["send", "-a", &mock.url, "drop", "--stream"]);
    assert!(ran.expect_success().contains("TASK_STATE_COMPLETED"), "{ran:#?}");
    assert!(ran.stderr.contains("broke off"), "{}", ran.stderr);
}

#[test]
fn a_stream_that_is_under_way_when_the_recording_ends_is_kept_as_far_as_it_got() {
    let (_server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let recorder = ListeningCommand::start(&desk, &["record", "hold.cassette", "-a", &url]);
    let mut client = desk.command(&["send", "-a", &recorder.url, "slow 60", "--stream"]).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "Event: artifact"), "it streams");
    let begun = Instant::now();
    recorder.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    client.kill().unwrap();
    client.wait().unwrap();
    let text = read_text(&desk.path("hold.cassette"));
    let exchange: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(exchange["response"]["ended"], "left");
    assert!(exchange["response"]["frames"].as_array().unwrap().len() >= 3, "{exchange}");
}

#[test]
fn credentials_are_passed_on_and_not_written_down() {
    let (_server, url) = demo(&["--bearer-required=the-secret-token"]);
    let desk = CommandDirectory::new();
    // Ours, which the client need not know; a client shows its own as well, and the agent gets ours.
    let mut command = desk.command(&["record", "secret.cassette", "-a", &url, "say the-secret-token back"]);
    let ran = crate::command_runner::wait_for_exit(command.env("A2ACLI_BEARER", "the-secret-token").spawn().unwrap());
    assert!(ran.expect_success().contains("TASK_STATE_COMPLETED"), "{ran:#?}");
    let recorder =
        ListeningCommand::start(&desk, &["record", "theirs.cassette", "-a", &url, "--bearer", "the-secret-token"]);
    let theirs =
        ["send", "-a", &recorder.url, "hello", "--bearer", "another-secret-token", "--svc-param", "x-key:k-secret"];
    assert!(desk.run(&theirs).expect_success().contains("TASK_STATE_COMPLETED"));
    recorder.stop();
    for name in ["secret.cassette", "theirs.cassette"] {
        let text = read_text(&desk.path(name));
        assert!(text.lines().count() >= 2, "{text}");
        for secret in ["the-secret-token", "another-secret-token", "k-secret", "uthorization", "x-key"] {
            let known = text.lines().skip(1).any(|line| line.contains(secret));
            assert!(!known, "{secret} is in {name}: {text}");
        }
        let mode = std::os::unix::fs::PermissionsExt::mode(&desk.path(name).metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(read_text(&desk.path("secret.cassette")).contains("say [redacted] back"));
}

/// An agent whose answer a test can change, and what it was asked.
struct ChangingAgent {
    url: String,
    text: Arc<Mutex<String>>,
    requests: Arc<Mutex<Vec<Value>>>,
}

fn changing_agent(name: &'static str) -> ChangingAgent {
    let (text, asked) = (Arc::new(Mutex::new("first".to_owned())), Arc::new(Mutex::new(Vec::new())));
    let at: &'static OnceLock<String> = Box::leak(Box::default());
    let (say, heard) = (text.clone(), asked.clone());
    let url = stub_agent::serve(move |request| {
        if request.path.starts_with("/.well-known/") {
            return (200, "application/json", card(at.get().unwrap()));
        }
        let request = request.json();
        let mut heard = heard.lock().unwrap();
        heard.push(request.clone());
        // Names of its own, and new ones every time.
        let id = match request["params"]["id"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("{name}-{}", heard.len()),
        };
        let parts = json!([{"text": *say.lock().unwrap()}]);
        let task = json!({"id": id, "contextId": format!("context-of-{name}"),
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": format!("2026-01-01T00:00:0{}Z", heard.len() % 10)},
            "artifacts": [{"artifactId": "a", "parts": parts}]});
        let result = if request["method"] == "SendMessage" { json!({ "task": task }) } else { task };
        (200, "application/json", json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string())
    });
    at.set(url.clone()).unwrap();
    ChangingAgent { url, text, requests: asked }
}

#[test]
fn a_replay_names_what_has_changed_and_nothing_else() {
    let (old, new) = (changing_agent("old"), changing_agent("new"));
    let desk = CommandDirectory::new();
    let recorder = ListeningCommand::start(&desk, &["record", "run.cassette", "-a", &old.url]);
    let first = desk.run(&["send", "-a", &recorder.url, "hello"]);
    let task = first.fields("Task ID")[0].to_owned();
    desk.run(&["task", "get", "-a", &recorder.url, &task]).expect_success();
    recorder.stop();

    let same = desk.run(&["replay", "run.cassette", "--against", &new.url]);
    assert_eq!((same.fields("Same"), same.fields("Different")), (vec!["2"], vec!["0"]), "{same:#?}");
    same.expect_success();
    let asked = new.requests.lock().unwrap().clone();
    assert_eq!(asked[1]["params"]["id"], "new-1", "the task of today is asked for: {asked:?}");
    let recorded = old.requests.lock().unwrap()[0]["params"]["message"]["messageId"].clone();
    assert_ne!(asked[0]["params"]["message"]["messageId"], recorded, "a message of today");

    *new.text.lock().unwrap() = "second".to_owned();
    let changed = desk.run(&["replay", "run.cassette", "-a", &new.url]);
    assert_eq!(changed.code, 1, "{changed:#?}");
    let difference = r#"body.result.task.artifacts[0].parts[0].text: "first" was recorded, "second" is said now"#;
    assert!(changed.fields("Difference").contains(&difference), "{changed:#?}");
    let ignored = desk.run(&["replay", "run.cassette", "-a", &new.url, "--ignore", "text", "-o", "json"]);
    ignored.expect_success();
    assert_eq!((&ignored.json()["same"], &ignored.json()["different"]), (&json!(2), &json!(0)));
    // Without --against, the recorded agent is asked.
    assert!(desk.run(&["replay", "run.cassette"]).expect_success().contains(&old.url));
}

#[test]
fn damaged_cassettes_are_named_by_line_and_lose_nothing_else() {
    let (_server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    desk.run(&["record", "whole.cassette", "-a", &url, "echo one", "echo two"]).expect_success();
    let exists = desk.run(&["record", "whole.cassette", "-a", &url, "echo three"]);
    assert!(exists.code == 1 && exists.stderr.contains("SABIR_ERR_EXISTS"), "{exists:#?}");
    let whole = read_text(&desk.path("whole.cassette"));
    std::fs::write(desk.path("cut.cassette"), &whole[..whole.len() - 20]).unwrap();
    let lines = whole.lines().count();
    for command in ["mock", "replay"] {
        let cut = desk.run(&[command, "cut.cassette"]);
        assert_eq!(cut.code, 1, "{cut:#?}");
        let words = format!("line {lines} is cut short");
        assert!(cut.stderr.contains(&words) && cut.stderr.contains("--skip-damaged"), "{}", cut.stderr);
    }
    let rest = desk.run(&["replay", "cut.cassette", "--skip-damaged", "-a", &url]);
    assert!(rest.expect_success().contains("Different: 0") && rest.stderr.contains("is cut short"), "{rest:#?}");
    for (text, words) in [("", "it is empty"), ("hello\n", "line 1"), ("{\"cassette\":9}\n", "format 9")] {
        std::fs::write(desk.path("bad.cassette"), text).unwrap();
        let ran = desk.run(&["mock", "bad.cassette"]);
        assert!(ran.code == 1 && ran.stderr.contains(words), "{text:?}: {ran:#?}");
    }
    assert!(desk.run(&["mock", "none.cassette"]).stderr.contains("cannot be read"));
}

#[test]
fn pages_of_the_web_cannot_use_a_recorder() {
    let (_server, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let recorder = ListeningCommand::start(&desk, &["record", "web.cassette", "-a", &url]);
    let address = recorder.url.strip_prefix("http://").unwrap();
    for (host, origin, status) in
        [(address, None, "200"), ("evil.example", None, "421"), (address, Some("http://evil.example"), "403")]
    {
        let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head =
            format!("GET /.well-known/agent-card.json HTTP/1.1\r\nhost: {host}\r\n{origin}connection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {line}");
    }
}
