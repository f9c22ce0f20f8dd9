//! A shell that asks gets commands and options, and what only this machine and the agents know.

use crate::command_runner::{CommandDirectory, demo, wait_for_exit};
use crate::test_server::{ServerDirectory, TestServer};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is offered for the last word of a line.
fn offered(desk: &CommandDirectory, line: &str) -> Vec<String> {
    let words: Vec<&str> = ["--"].into_iter().chain(line.split(' ')).collect();
    let ran = wait_for_exit(desk.command(&words).env("SABIR_COMPLETE", "bash").spawn().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn tasks_of_the_agent_that_was_typed_are_offered() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let sent = desk.run(&["send", &url, "echo a"]);
    let id = sent.fields("Task ID")[0].to_owned();
    for line in [
        format!("sabir task get {url} "),
        format!("sabir task get -a {url} "),
        format!("sabir task cancel {url} {}", &id[..8]),
    ] {
        assert_eq!(offered(&desk, &line), [id.as_str()], "{line}");
    }
    assert!(offered(&desk, &format!("sabir task get {url} x")).is_empty());
}

#[test]
fn commands_and_options_are_offered() {
    let desk = CommandDirectory::new();
    assert!(offered(&desk, "sabir ta").contains(&"task".to_owned()));
    assert!(offered(&desk, "sabir send --agent-").contains(&"--agent-card".to_owned()));
    // Nothing was served here: nothing is offered, and no store is made by asking.
    assert!(offered(&desk, "sabir agent show ").is_empty());
    assert!(!desk.path("sabir-data").exists());
}

#[test]
fn agents_and_keys_of_the_server_here_are_offered() {
    let desk = CommandDirectory::new();
    let file = "[server]\nlisten = \"127.0.0.1:4999\"\n[[agent]]\nname = \"prices\"\nkind = \"echo\"\n";
    std::fs::write(desk.path("sabir.toml"), file).unwrap();
    assert_eq!(offered(&desk, "sabir agent show "), ["prices"]);
    assert_eq!(offered(&desk, "sabir chat http"), ["http://127.0.0.1:4999/agents/prices"]);
    let made = desk.run(&["key", "create", "--name", "ci", "-o", "json"]).json();
    assert_eq!(offered(&desk, "sabir key revoke "), [made["id"].as_str().unwrap()], "{made}");
}

#[test]
fn an_agent_that_does_not_answer_costs_two_seconds_and_no_word() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let desk = CommandDirectory::new();
    let begun = Instant::now();
    assert!(offered(&desk, &format!("sabir task get http://{} ", silent.local_addr().unwrap())).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[test]
fn bash_puts_a_url_together_again() {
    let home = ServerDirectory::new("[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true\n");
    let server = TestServer::start_at(&home);
    let desk = CommandDirectory::new();
    let url = format!("http://{}", server.address);
    let id = desk.run(&["send", &url, "hi"]).fields("Task ID")[0].to_owned();
    std::fs::write(desk.path("script"), desk.run(&["completion", "bash"]).expect_success()).unwrap();
    // Bash itself takes the line apart at colons and hands over the pieces; the script reads the line.
    let line = format!("sabir task get {url} {}", &id[..4]);
    let program = format!(
        "source ./script; COMP_LINE='{line}'; COMP_POINT={}; COMP_WORDBREAKS=' :'; _sabir sabir; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.len()
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &program]).current_dir(desk.path("")).env_clear().env("PATH", "/usr/bin:/bin");
    let child = bash.env("HOME", desk.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = wait_for_exit(child.spawn().unwrap());
    assert_eq!(ran.expect_success().trim(), id, "{ran:#?}");
}
