//! Commands and endpoints that have other agents do something, as the guide tells it; and what is not granted.

use crate::rpc_client::{send_params, state};
use crate::stub_agent;
use crate::test_server::{ServerDirectory, TestServer, eventually};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const GUIDE: &str = include_str!("../../../../docs/guides/delegation.md");

/// The agents that are asked.
const OTHERS: &str = r#"
[[agent]]
name = "ledger"
kind = "script"
[[agent.rule]]
when = { text_contains = "book" }
do = [{ ask_input = "Which day?" }]
then = [{ complete = "booked" }]
[[agent.rule]]
when = { text_contains = "slow" }
do = [{ wait_ms = 600000 }]
[[agent.rule]]
do = [{ artifact = { id = "report", text = "3 invoices are due" } }, { complete = "that is all" }]

[[agent]]
name = "secret"
kind = "echo"
"#;

fn command_agent(command: &str, more: &str) -> String {
    let command = Value::from(command);
    format!(
        "{more}\n[[agent]]\nname = \"clerk\"\nkind = \"exec\"\ndefault = true\ncommand = {command}\n\
         delegates_to = [\"ledger\"]\n{OTHERS}"
    )
}

/// What a command printed.
#[track_caller]
fn printed(sabir: &TestServer, text: &str) -> String {
    let task = sabir.send("/", &send_params(text));
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    crate::remote::text(&task)
}

/// The examples of the guide that are run.
fn examples() -> Vec<(&'static str, &'static str)> {
    let of = |block: &'static str| {
        let (language, rest) = block.trim_start().strip_prefix("```")?.split_once('\n')?;
        Some((language, rest.split_once("```")?.0))
    };
    GUIDE.split("<!-- run: exec -->").skip(1).map(|block| of(block).expect("a marked block is code")).collect()
}

#[test]
fn the_examples_of_the_guide_delegate() {
    let examples = examples();
    assert_eq!(examples.iter().map(|(language, _)| *language).collect::<Vec<_>>(), ["sh", "python"]);
    for (language, code) in examples {
        let home = ServerDirectory::new(&command_agent(
            &format!("{} ./example", if language == "sh" { "sh" } else { "python3" }),
            "",
        ));
        std::fs::write(home.path("example"), code).unwrap();
        let sabir = TestServer::start_at(&home);
        let task = sabir.send("/", &send_params("go"));
        if language == "sh" && task.to_string().contains("exit code 127") {
            // There is no curl on this machine; the other example shows the same.
            continue;
        }
        assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
        let said = crate::remote::text(&task);
        assert!(said.contains("TASK_STATE_COMPLETED") && said.contains("3 invoices are due"), "{language}: {said}");
        assert_eq!(sabir.task_count("/agents/ledger"), 1);
        let child = sabir.result("/agents/ledger", "ListTasks", &json!({"historyLength": 1}));
        assert_eq!(child["tasks"][0]["history"][0]["parts"][0]["text"], "what is due?", "{child}");
    }
}

/// A command that posts what it reads, each line by itself, and prints the answers.
const POSTS: &str = r#"python3 -c '
import json, os, sys, urllib.request, urllib.error
for line in sys.stdin.read().splitlines():
    token, _, body = line.partition(" ")
    token = os.environ["A2A_DELEGATE_TOKEN"] if token == "-" else token
    request = urllib.request.Request(os.environ["A2A_DELEGATE_URL"], body.encode(),
        {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            print(json.dumps(json.load(answer)))
    except urllib.error.HTTPError as error:
        print(json.dumps({"status": error.code, **json.load(error)}))
print(os.environ["A2A_DELEGATE_TOKEN"], os.environ["A2A_DELEGATE_URL"])
'"#;

/// The answers to what a command posts, its token and the URL.
fn posted(sabir: &TestServer, lines: &[Value]) -> (Vec<Value>, String, String) {
    let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    let said = printed(sabir, &lines.join("\n"));
    let mut said: Vec<&str> = said.lines().collect();
    let (token, url) = said.pop().unwrap().split_once(' ').unwrap();
    (said.iter().map(|line| serde_json::from_str(line).unwrap()).collect(), token.to_owned(), url.to_owned())
}

#[test]
fn a_command_asks_under_a_key_once_and_answers_questions() {
    let sabir = TestServer::start(&command_agent(POSTS, ""));
    let ask = json!({"agent": "ledger", "text": "book a table", "key": "table"});
    let (answers, ..) = posted(
        &sabir,
        &[ask.clone(), ask, json!({"agent": "ledger", "text": "Friday", "key": "table", "answer": true})],
    );
    assert_eq!(answers[0]["state"], "TASK_STATE_INPUT_REQUIRED", "{answers:?}");
    assert_eq!(answers[0]["task"]["id"], answers[1]["task"]["id"], "asked twice under one key is asked once");
    assert_eq!((&answers[2]["state"], &answers[2]["text"]), (&json!("TASK_STATE_COMPLETED"), &json!("booked")));
    assert_eq!(sabir.task_count("/agents/ledger"), 1);
}

#[test]
fn a_command_is_told_what_it_may_not_delegate() {
    let sabir = TestServer::start(&command_agent(POSTS, "[limits]\ncalls_per_root_max = 1\n"));
    let (answers, ..) = posted(
        &sabir,
        &[
            json!({"agent": "secret", "text": "x"}),
            json!({"agent": "ledger"}),
            json!({"agent": "ledger", "text": "x", "unknown": 1}),
            json!({"agent": "ledger", "text": "x", "key": "k", "answer": true}),
            json!({"agent": "ledger", "text": "what is due?"}),
            json!({"agent": "ledger", "text": "and now?"}),
        ],
    );
    let refused = |at: usize| (answers[at]["status"].as_u64(), answers[at]["error"]["code"].as_str());
    assert_eq!(refused(0), (Some(403), Some("AGENT_NOT_LISTED")));
    for at in [1, 2, 3] {
        assert_eq!(refused(at), (Some(400), Some("INVALID_REQUEST")), "{answers:?}");
    }
    assert_eq!(answers[4]["state"], "TASK_STATE_COMPLETED", "{answers:?}");
    // Counted with everything else that is done for the caller's task.
    assert_eq!(refused(5), (Some(409), Some("REFUSED")), "{answers:?}");
    assert!(answers[5]["error"]["message"].as_str().unwrap().contains("calls_per_root_max"), "{answers:?}");
    assert_eq!((sabir.task_count("/agents/ledger"), sabir.task_count("/agents/secret")), (1, 0));
}

#[test]
fn a_token_ends_with_its_turn_and_is_in_no_log() {
    let sabir = TestServer::start(&command_agent(POSTS, ""));
    let (_, token, url) = posted(&sabir, &[json!({"agent": "ledger", "text": "x"})]);
    assert!(token.len() >= 32 && url.starts_with("http://127.0.0.1:"), "{token} {url}");
    let (_, next, _) = posted(&sabir, &[]);
    assert_ne!(token, next, "each turn has its own");
    let late = printed(&sabir, &format!("{token} {{\"agent\": \"ledger\", \"text\": \"x\"}}"));
    let late: Value = serde_json::from_str(late.lines().next().unwrap()).unwrap();
    assert_eq!((&late["status"], &late["error"]["code"]), (&json!(401), &json!("TOKEN_INVALID")), "{late}");
    assert_eq!(sabir.task_count("/agents/ledger"), 1);
    assert!(!sabir.log_text().contains(&token));
}

#[test]
fn an_endpoint_delegates_while_it_answers() {
    let told: Arc<Mutex<Vec<Value>>> = Arc::default();
    let heard = told.clone();
    let endpoint = stub_agent::serve(move |asked| {
        let asked = asked.json();
        let answer = crate::delegation::post(
            asked["delegate"]["url"].as_str().unwrap(),
            asked["delegate"]["token"].as_str().unwrap(),
            &json!({"agent": "ledger", "text": "what is due?"}),
        );
        heard.lock().unwrap().push(asked);
        (200, "application/json", json!({"text": answer["text"]}).to_string())
    });
    let sabir = TestServer::start(&format!(
        "[[agent]]\nname = \"clerk\"\nkind = \"http\"\ndefault = true\nurl = \"{endpoint}/ask\"\n\
         delegates_to = [\"ledger\"]\n{OTHERS}"
    ));
    let said = printed(&sabir, "go");
    assert!(said.contains("3 invoices are due"), "{said}");
    let token = told.lock().unwrap()[0]["delegate"]["token"].as_str().unwrap().to_owned();
    assert!(!sabir.log_text().contains(&token));
}

/// Posts a delegation, as an endpoint does.
fn post(url: &str, token: &str, body: &Value) -> Value {
    use std::io::{Read, Write};
    let at = url.strip_prefix("http://").unwrap();
    let (host, path) = at.split_at(at.find('/').unwrap());
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Agents of which one may pass on no more than sending mail.
const OFFICE: &str = r#"
[[agent]]
name = "mail"
kind = "echo"
default = true
mentions = ["ledger", { agent = "post", names = ["sender"] }]
[agent.handoff]
scope = ["mail.send"]
accept = false
[[agent.card.skills]]
id = "mail"
name = "Mail"
description = "Sends mail and refunds"
tags = ["cap:mail.send", "cap:billing.refund"]

[[agent]]
name = "desk"
kind = "dispatch"
[agent.dispatch]
agents = ["ledger"]
fallback = "ledger"
[agent.handoff]
scope = ["mail.send"]
accept = false
[[agent.card.skills]]
id = "mail"
name = "Mail"
description = "Sends mail"
tags = ["cap:mail.send"]

[[agent]]
name = "open"
kind = "dispatch"
[agent.dispatch]
agents = ["ledger"]
fallback = "ledger"

[[agent]]
name = "ledger"
kind = "script"
[[agent.card.skills]]
id = "refunds"
name = "Refunds"
description = "Pays money back"
tags = ["cap:billing.refund"]
[[agent.rule]]
do = [{ complete = "refunded" }]

[[agent]]
name = "post"
kind = "dispatch"
[agent.dispatch]
agents = ["ledger", "stamps"]
fallback = "ledger"
[[agent.card.skills]]
id = "send"
name = "Send"
description = "Sends letters"
tags = ["cap:mail.send"]

[[agent]]
name = "stamps"
kind = "echo"
"#;

#[test]
fn an_agent_passes_on_no_more_than_its_own_scope() {
    let sabir = TestServer::start(OFFICE);
    let said = |task: &Value| task.to_string();
    // A mention is quoted with the refusal.
    let quoted = sabir.send("/", &send_params("@ledger refund 100"));
    assert_eq!(state(&quoted), "TASK_STATE_COMPLETED", "{quoted}");
    let words = quoted["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(words.contains("@ledger could not be asked: CAPABILITY_SCOPE_EXCEEDED"), "{words}");
    assert!(words.contains("required: billing.refund; allowed: nothing; missing: billing.refund"), "{words}");
    // A dispatcher fails with it, for people and for programs.
    let failed = sabir.send("/agents/desk", &send_params("refund 100"));
    assert_eq!(state(&failed), "TASK_STATE_FAILED", "{failed}");
    let told = &failed["status"]["message"]["parts"][1]["data"];
    let expected = json!({"code": "CAPABILITY_SCOPE_EXCEEDED", "required": ["billing.refund"], "allowed": [],
        "missing": ["billing.refund"]});
    assert_eq!(told, &expected, "{failed}");
    assert_eq!(sabir.task_count("/agents/ledger"), 0);
    // One without a scope is not limited.
    let done = sabir.send("/agents/open", &send_params("refund 100"));
    assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{done}");
    // What was granted holds further on: the next agent has no scope of its own and cannot pass on more either.
    let chained = sabir.send("/", &send_params("@sender refund 100"));
    assert!(said(&chained).contains("CAPABILITY_SCOPE_EXCEEDED"), "{chained}");
    assert_eq!((sabir.task_count("/agents/post"), sabir.task_count("/agents/ledger")), (1, 1));
    let children = sabir.result("/agents/post", "ListTasks", &json!({"historyLength": 1}));
    let scope = &children["tasks"][0]["history"][0]["metadata"]["urn:sabir:ext:scope:v1"];
    assert_eq!(scope, &json!(["mail.send"]), "{children}");
}

#[test]
fn a_command_is_refused_what_its_agent_may_not_pass_on() {
    let config = command_agent(POSTS, "")
        .replace("delegates_to", "handoff = { scope = [\"clerk\"], accept = false }\ndelegates_to");
    let sabir = TestServer::start(&config);
    let (answers, ..) = posted(&sabir, &[json!({"agent": "ledger", "text": "x"})]);
    let error = &answers[0]["error"];
    assert_eq!((&answers[0]["status"], &error["code"]), (&json!(403), &json!("CAPABILITY_SCOPE_EXCEEDED")));
    assert_eq!((&error["required"], &error["missing"]), (&json!(["ledger"]), &json!(["ledger"])), "{answers:?}");
    assert_eq!(sabir.task_count("/agents/ledger"), 0);
}

#[test]
fn work_that_is_delegated_ends_with_its_task() {
    let sabir = TestServer::start(&command_agent(POSTS, ""));
    let body = json!({"agent": "ledger", "text": "something slow"});
    let task = sabir.send_async("/", &format!("- {body}"));
    eventually("it is delegated", || sabir.task_count("/agents/ledger") == 1);
    sabir.result("/", "CancelTask", &json!({"id": task["id"]}));
    let child = || sabir.result("/agents/ledger", "ListTasks", &json!({}))["tasks"][0].clone();
    eventually("the child is canceled", || state(&child()) == "TASK_STATE_CANCELED");
}
