//! Output for people: the pretty form, the short help, arguments in the order in which they are said, and exit statuses
//! that a script can ask for. None of it may reach a pipe that did not ask.

use crate::command_runner::{CommandDirectory, demo, read_text};
use crate::stub_agent::{self, serve};
use serde_json::json;
use std::sync::{Arc, OnceLock};

const ESCAPE: char = '\u{1b}';

/// An agent that answers every call with this status and body, whose card is changed before it is served.
fn agent(status: u16, body: &'static str, change: impl Fn(&mut serde_json::Value) + Send + Sync + 'static) -> String {
    let place = Arc::new(OnceLock::<String>::new());
    let known = place.clone();
    let url = serve(move |asked| {
        if asked.path.contains("well-known") {
            let mut card: serde_json::Value = serde_json::from_str(&stub_agent::card(known.get().unwrap())).unwrap();
            change(&mut card);
            return (200, "application/json", card.to_string());
        }
        let key = asked.header("x-key").unwrap_or("none");
        let id = asked.json()["id"].to_string();
        (status, "application/json", body.replace("KEY", key).replace("\"id\":1", &format!("\"id\":{id}")))
    });
    place.set(url.clone()).unwrap();
    url
}

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","contextId":"c","role":"ROLE_AGENT","parts":[{"text":"key KEY"}]}}}"#;

#[test]
fn a_pipe_gets_text_and_pretty_only_where_it_asks() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let text = desk.run(&["send", "-a", &url, "echo hi"]);
    assert!(text.expect_success().starts_with("Task ID: ") && !text.stdout.contains(ESCAPE), "{text:#?}");
    let pretty = desk.run(&["send", "-a", &url, "echo hi", "-o", "pretty"]);
    assert!(pretty.expect_success().starts_with("Sabir demo> echo hi\ncompleted · task "), "{pretty:#?}");
    assert!(!pretty.stdout.contains(ESCAPE) && !pretty.stderr.contains(ESCAPE), "{pretty:#?}");
    let colored = desk.run(&["send", "-a", &url, "echo hi", "-o", "pretty", "--color", "always"]);
    assert!(colored.expect_success().contains("\u{1b}[36mSabir demo>\u{1b}[0m echo hi\n"), "{colored:#?}");
    let refused = desk.run(&["send", "-a", &url, "hi", "--color", "sometimes"]);
    assert_eq!(refused.code, 2, "{refused:#?}");
}

#[test]
fn a_list_is_a_table() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    for text in ["echo a", "echo b"] {
        desk.run(&["send", "-a", &url, text]).expect_success();
    }
    let list = desk.run(&["task", "list", &url, "-o", "pretty"]);
    let lines: Vec<&str> = list.expect_success().lines().collect();
    assert_eq!(lines.len(), 4, "a heading, two tasks and the total: {list:#?}");
    assert!(lines[0].starts_with("Task ID ") && lines[1].contains("completed") && lines[3] == "2 in all", "{list:#?}");
}

#[test]
fn the_agent_may_be_said_first() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    assert!(desk.run(&["card", "get", &url]).expect_success().contains("Name: Sabir demo"));
    let sent = desk.run(&["send", &url, "echo hi", "-o", "json"]);
    let task = {
        sent.expect_success();
        sent.json()["task"]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(desk.run(&["task", "get", &url, &task]).fields("Task ID"), [task.as_str()]);
    assert_eq!(desk.run(&["task", "get", &task, "-a", &url]).fields("Task ID"), [task.as_str()]);
    assert_eq!(desk.run(&["task", "get", &url, "--task-id", &task]).fields("Task ID"), [task.as_str()]);
    let twice = desk.run(&["task", "get", &url, &task, "-a", "http://127.0.0.1:9"]);
    assert!(twice.code == 2 && twice.stderr.contains("two different agents"), "{twice:#?}");
    // An address after --agent-card is a message, an address alone is a message without an agent.
    assert!(desk.run(&["send", "-a", &url, "http://x.example"]).expect_success().contains("http://x.example"));
    assert!(desk.run(&["send", &url]).stderr.contains("an address and no message"));
    let mut configured = desk.command(&["send", &url, "echo hi"]);
    configured.env("A2ACLI_AGENT_CARD", "http://127.0.0.1:9");
    let ran = crate::command_runner::wait_for_exit(configured.spawn().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("an agent is configured as well"), "{ran:#?}");
}

#[test]
fn the_exit_status_tells_the_state_where_it_is_asked_to() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let run = |text: &str, states: &str| desk.run(&["send", "-a", &url, text, "--fail-on", states]).code;
    assert_eq!(desk.run(&["send", "-a", &url, "fail"]).code, 0, "by the specification");
    assert_eq!([run("fail", "failed"), run("reject", "any"), run("ask", "failed,input-required")], [10, 11, 12]);
    assert_eq!([run("fail", "rejected"), run("echo x", "any"), run("fail", "sometimes")], [0, 0, 2]);
    let pretty = desk.run(&["send", "-a", &url, "fail", "--fail-on", "any", "-o", "pretty"]);
    assert_eq!(pretty.code, 10, "{pretty:#?}");
}

#[test]
fn quiet_is_the_answer_alone() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let ran = desk.run(&["send", "-q", "-a", &url, "echo just this"]);
    assert_eq!((ran.expect_success(), ran.stderr.as_str()), ("echo just this\n", ""));
    let failed = desk.run(&["send", "-q", "-a", &url, "fail", "--fail-on", "failed"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (10, ""), "{failed:#?}");
    assert!(failed.stderr.contains("the task is failed: This failed"), "{failed:#?}");
    assert_eq!(desk.run(&["send", "-q", "-o", "json", "-a", &url, "x"]).code, 2);
    let talk = desk.run_with_input(&["chat", "-q", &url], "echo one\necho two\n");
    assert_eq!(talk.expect_success(), "echo one\necho two\n");
}

#[test]
fn help_is_short_and_the_rest_is_a_word_away() {
    let desk = CommandDirectory::new();
    let (alone, help) = (desk.run(&[]), desk.run(&["--help"]));
    assert_eq!(alone.expect_success(), help.expect_success());
    assert!(alone.stdout.lines().count() <= 30 && alone.stdout.contains("sabir help all"), "{}", alone.stdout);
    for words in [&["help", "all"][..], &["help", "--all"], &["--help", "--all"]] {
        let all = desk.run(words);
        assert!(
            all.expect_success().contains("task push-config create") && all.stdout.contains("--trusted-keys"),
            "{words:?}"
        );
    }
    assert_eq!(desk.run(&["-V"]).expect_success(), desk.run(&["--version"]).expect_success());
    let far = desk.run(&["logs"]);
    assert!(far.code == 2 && !far.stderr.contains("did you mean"), "{far:#?}");
    assert!(desk.run(&["sned"]).stderr.contains("did you mean send?"));
}

#[test]
fn a_file_for_the_other_flag_is_recognised() {
    let desk = CommandDirectory::new();
    std::fs::write(desk.path("hub.toml"), "[server]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    std::fs::write(desk.path("client.env"), "A2ACLI_AGENT_CARD=http://127.0.0.1:9\n").unwrap();
    let toml = desk.run(&["task", "list", "--config", "hub.toml"]);
    assert!(toml.code == 2 && toml.stderr.contains("--server-config hub.toml"), "{toml:#?}");
    for words in [&["serve", "--config", "client.env"][..], &["key", "list", "--server-config", "client.env"]] {
        let env = desk.run(words);
        assert!(env.code != 0 && env.stderr.contains("settings of the client"), "{env:#?}");
    }
}

#[test]
fn init_writes_a_configuration_once() {
    let desk = CommandDirectory::new();
    let made = desk.run(&["init", "--exec", "cat"]);
    assert!(made.expect_success().contains("Next: sabir serve"), "{made:#?}");
    assert!(read_text(&desk.path("sabir.toml")).contains("command = \"cat\""));
    let again = desk.run(&["init"]);
    assert!(again.code == 1 && again.stderr.contains("SABIR_ERR_EXISTS"), "{again:#?}");
    desk.run(&["init", "--force"]).expect_success();
    assert!(read_text(&desk.path("sabir.toml")).contains("kind = \"echo\""));
    assert_eq!(desk.run(&["init", "x.toml", "--openai", "https://api.example/v1"]).code, 2, "a model is missing");
    let wrong = desk.run(&["init", "x.toml", "--name", "not a name"]);
    assert!(wrong.code == 2 && !desk.path("x.toml").exists(), "{wrong:#?}");
}

#[test]
fn limits_and_outages_say_what_to_do() {
    let desk = CommandDirectory::new();
    for (status, code, exit, hint) in [
        (429, "SABIR_ERR_TOO_MANY_REQUESTS", 1, "wait before the next call"),
        (503, "SABIR_ERR_UNAVAILABLE", 3, "cannot serve now: try again in a moment"),
    ] {
        let url = agent(status, "{}", |_| {});
        let ran = desk.run(&["task", "get", &url, "t-1", "-o", "json"]);
        let error = &ran.json()["error"];
        assert_eq!((ran.code, error["code"].as_str()), (exit, Some(code)), "{ran:#?}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{error}");
    }
}

#[test]
fn an_older_agent_is_called_in_its_version_and_that_is_said() {
    let old = |card: &mut serde_json::Value| card["supportedInterfaces"][0]["protocolVersion"] = "0.3".into();
    let url = agent(200, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no such task"}}"#, old);
    let desk = CommandDirectory::new();
    let lenient = desk.run(&["task", "get", &url, "t-1"]);
    assert!(lenient.stderr.contains("no A2A 1.0; calling it in 0.3 (--a2a-version 1.0 refuses)"), "{lenient:#?}");
    assert!(!lenient.stderr.contains("VersionNotSupported"), "{lenient:#?}");
    let strict = desk.run(&["task", "get", &url, "t-1", "--a2a-version", "1.0"]);
    assert!(strict.code == 1 && strict.stderr.contains("VersionNotSupportedError"), "{strict:#?}");
}

#[test]
fn a_bearer_value_is_sent_as_the_key_that_the_card_asks_for() {
    let keyed = |card: &mut serde_json::Value| {
        card["securitySchemes"] = json!({"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}});
        card["securityRequirements"] = json!([{"schemes": {"key": {"list": []}}}]);
    };
    let url = agent(200, ANSWER, keyed);
    let desk = CommandDirectory::new();
    let ran = desk.run(&["send", &url, "hi", "--bearer", "sk-1234567890"]);
    assert!(ran.stderr.contains("asks for an API key (X-Key); the value of --bearer is sent as one"), "{ran:#?}");
    assert!(ran.expect_success().contains("key sk-1234567890"), "{ran:#?}");
}
