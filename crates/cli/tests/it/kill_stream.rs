//! `sabir send --stream` while the server dies: every event once, or a plain word about what is missing.

use crate::test_server::{ServerDirectory, TestServer};
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Twenty chunks. The pauses after the fourth are long, so that a test that has read four chunks kills the server in the
/// middle on a slow machine, too.
fn config() -> String {
    let chunk = |n: usize| {
        let pause = if (4..8).contains(&n) { 400 } else { 20 };
        format!("{{ wait_ms = {pause} }}, {{ artifact = {{ id = \"a\", text = \"<{n}>\", append = true }} }}")
    };
    let chunks: Vec<String> = (0..20).map(chunk).collect();
    format!(
        "[[agent]]\nname = \"count\"\nkind = \"script\"\ndefault = true\n[[agent.rule]]\ndo = [{{ status = \"begun\" }}, {}, {{ complete = \"done\" }}]\n",
        chunks.join(", ")
    )
}

struct RunningSend {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl RunningSend {
    fn start(sabir: &TestServer, transport: &str) -> Self {
        let url = format!("http://{}", sabir.address);
        let mut child = Command::new(env!("CARGO_BIN_EXE_sabir"))
            .args(["send", "-a", &url, "-o", "json", "--stream", "--transport", transport, "count"])
            .env_clear()
            .env("HOME", sabir.home.path("."))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Option<Value> {
        self.lines.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// The rest of what it prints, its standard error, and its exit code.
    fn rest(mut self) -> (Vec<Value>, String, Option<i32>) {
        let mut events = Vec::new();
        while let Some(event) = self.next() {
            events.push(event);
        }
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (events, said, self.child.wait().unwrap().code())
    }
}

fn chunk(event: &Value) -> Option<String> {
    event["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str().map(str::to_owned)
}

#[test]
fn a_stream_outlives_its_server_and_tells_every_event_once() {
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let home = ServerDirectory::new(&config());
        let sabir = TestServer::start_at(&home);
        let mut sending = RunningSend::start(&sabir, transport);
        let mut events = Vec::new();
        while events.iter().filter_map(chunk).count() < 4 {
            events.push(sending.next().expect("the stream ended before the kill"));
        }
        let address = sabir.address.to_string();
        sabir.kill();
        let _again = TestServer::run(&home, home.command_at(&address));
        let (rest, said, code) = sending.rest();
        events.extend(rest);
        assert_eq!(code, Some(0), "{transport}: {said}");
        let chunks: Vec<String> = events.iter().filter_map(chunk).collect();
        let expected: Vec<String> = (0..20).map(|n| format!("<{n}>")).collect();
        assert_eq!(chunks, expected, "{transport}: {said}");
        let snapshots = events.iter().filter(|e| e.get("task").is_some()).count();
        assert_eq!(snapshots, 1, "{transport}: a second snapshot would tell chunks twice");
        assert_eq!(events.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
        assert!(said.contains("econnect"), "{transport}: a person is told that the stream was taken up again: {said}");
    }
}

#[test]
fn over_grpc_the_task_is_taken_up_by_a_snapshot_and_reaches_its_end() {
    let home = ServerDirectory::new(&config());
    let sabir = TestServer::start_at(&home);
    let mut sending = RunningSend::start(&sabir, "GRPC");
    let mut seen = 0;
    while seen < 4 {
        seen += usize::from(sending.next().expect("the stream ended before the kill").get("artifactUpdate").is_some());
    }
    let address = sabir.address.to_string();
    sabir.kill();
    let _again = TestServer::run(&home, home.command_at(&address));
    let (rest, said, code) = sending.rest();
    assert_eq!(code, Some(0), "{said}");
    let snapshot = rest.iter().find_map(|e| e.get("task")).unwrap_or_else(|| panic!("no snapshot: {said}"));
    // The server keeps what was appended as one part.
    let before = snapshot["artifacts"][0]["parts"][0]["text"].as_str().map_or(0, |text| text.matches('<').count());
    let after = rest.iter().skip_while(|e| e.get("task").is_none()).filter_map(chunk).count();
    assert_eq!(before + after, 20, "the snapshot and what follows it make the whole: {said}");
}

#[test]
fn a_server_that_does_not_come_back_is_said_to_be_gone_with_the_way_on() {
    let sabir = TestServer::start(&config());
    let mut sending = RunningSend::start(&sabir, "JSONRPC");
    let first = sending.next().unwrap();
    let task = first["task"]["id"].as_str().unwrap().to_owned();
    sabir.kill();
    let (rest, said, code) = sending.rest();
    let error = &rest.last().expect("an error is the last line")["error"];
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(error["code"], "A2ACLI_ERR_UNREACHABLE");
    assert!(error["hint"].as_str().unwrap().contains(&task), "{error}");
}

#[test]
fn the_example_shows_what_the_readme_says() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kill-mid-stream.sh");
    let mut command = Command::new("sh");
    command.arg(script).env("SABIR", env!("CARGO_BIN_EXE_sabir")).stdin(Stdio::null());
    // What these tests are told is not for the server that the script starts.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SABIR_")) {
        command.env_remove(name);
    }
    let shown = command.output().unwrap();
    let (said, beside) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success() && said.contains("every number once, in order"), "{said}\n{beside}");
}
