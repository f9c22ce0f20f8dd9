//! `sabir doctor`: what is broken is named by its line, what is well is left in peace, and what cannot be known is said
//! to be so.

use crate::command_runner::{CommandDirectory, CommandOutput, demo, read_text};
use crate::stub_agent::{self, card};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The lines with one of these statuses, without repetition.
fn lines(ran: &CommandOutput, wanted: &[&str]) -> Vec<String> {
    let report = ran.json();
    let found = report["checks"].as_array().unwrap().iter().filter(|c| wanted.contains(&c["status"].as_str().unwrap()));
    let mut ids: Vec<String> = found.map(|check| check["id"].as_str().unwrap().to_owned()).collect();
    ids.dedup();
    ids
}

fn complaints(ran: &CommandOutput) -> Vec<String> {
    lines(ran, &["warn", "fail"])
}

fn examined(url: &str, more: &[&str]) -> CommandOutput {
    CommandDirectory::new().run(&[&["doctor", url, "--json", "--gap", "1s"], more].concat())
}

/// An agent whose answers to JSON-RPC are made by `answer`, from the request.
fn agent(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> String {
    let at: &'static OnceLock<String> = Box::leak(Box::default());
    let url = stub_agent::serve(move |asked| {
        if asked.path.starts_with("/.well-known/") {
            return (200, "application/json", card(at.get().unwrap()));
        }
        (200, "application/json", answer(&asked.json()).to_string())
    });
    at.get_or_init(|| url).clone()
}

/// The answer of a good agent to each question of doctor.
fn good(request: &Value) -> Value {
    let task = json!({"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}});
    let result = match request["method"].as_str().unwrap() {
        "SendMessage" => json!({"task": task}),
        "GetTask" if request["params"]["id"] == "t-1" => task,
        "ListTasks" => json!({"tasks": [task], "nextPageToken": "", "pageSize": 1, "totalSize": 1}),
        _ => {
            return json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32001, "message": "no such task"}});
        }
    };
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

#[test]
fn the_demo_server_is_well() {
    let (_demo, url) = demo(&[]);
    let ran = examined(&url, &[]);
    assert_eq!(complaints(&ran), Vec::<String>::new(), "{ran:#?}");
    assert_eq!(ran.code, 0);
    let report = ran.json();
    assert_eq!((&report["failures"], &report["warnings"]), (&json!(0), &json!(0)));
    let ways = report["works_as"].as_str().unwrap();
    for way in ["1.0 JSON-RPC with streaming", "1.0 HTTP+JSON with streaming", "1.0 gRPC with streaming", "0.3 gRPC"] {
        assert!(ways.contains(way), "{ways}");
    }
}

#[test]
fn our_server_is_well() {
    let server = crate::test_server::TestServer::start("");
    let ran = examined(&format!("http://{}", server.address), &[]);
    assert_eq!(lines(&ran, &["fail"]), Vec::<String>::new(), "{ran:#?}");
    assert_eq!(ran.code, 0);
}

#[test]
fn a_closed_port_is_one_failure_and_every_line_is_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = examined(&url, &[]);
    assert_eq!((complaints(&ran), ran.code), (vec!["tcp".to_owned()], 1));
    let report = ran.json();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 45 && report["works_as"] == "nothing", "{report:#}");
    for check in checks {
        let complains = ["warn", "fail"].contains(&check["status"].as_str().unwrap());
        assert_eq!(check["fix"].is_string(), complains, "{check}");
        assert!(!check["detail"].as_str().unwrap().is_empty(), "{check}");
    }
    let text = CommandDirectory::new().run(&["doctor", &url]);
    let shown: Vec<&str> = text.stdout.lines().collect();
    assert_eq!(shown.len(), 4, "{text:#?}");
    assert!(shown[1].starts_with("fail  connections taken     port ") && shown[1].contains(". Fix: start the agent"));
    assert!(shown[2].starts_with("skip  TLS spoken            … webhook token sent: "), "{}", shown[2]);
    assert_eq!(shown[3], "1 failure, 0 warnings. Works today as: nothing.");
}

#[test]
fn what_is_in_the_place_of_a_card_is_named() {
    for (status, media_type, body, line) in [
        (200, "text/html", "<!doctype html><title>Log in</title>", "card.type"),
        (200, "application/json", "{\"name\": \"cut o", "card.json"),
        (200, "application/json", "{}", "card.required"),
        (404, "text/plain", "nothing here", "card.missing"),
        (401, "text/plain", "who are you", "card.missing"),
        (503, "text/html", "<h1>Service unavailable</h1>", "http.answer"),
    ] {
        let ran = examined(&stub_agent::serve(move |_| (status, media_type, body.to_owned())), &[]);
        assert_eq!((complaints(&ran), ran.code), (vec![line.to_owned()], 1), "{ran:#?}");
    }
}

#[test]
fn a_healthy_agent_and_its_broken_twins() {
    let uncached = "card.cache".to_owned();
    let with = |line: &str| vec![uncached.clone(), line.to_owned()];
    let unversioned = with("rpc.unversioned");
    assert_eq!(complaints(&examined(&agent(good), &[])), unversioned);
    let other_id = agent(|request| {
        let mut answer = good(request);
        answer["id"] = json!("not-yours");
        answer
    });
    assert_eq!(complaints(&examined(&other_id, &[])), with("rpc.id"));
    let old_state = agent(|request| {
        let mut answer = good(request);
        answer["result"]["task"]["status"]["state"] = json!("completed");
        if request["method"] == "SendMessage" { answer } else { good(request) }
    });
    assert_eq!(complaints(&examined(&old_state, &[])), [&unversioned[..], &["rpc.state".to_owned()]].concat());
    let bare = agent(|request| {
        let mut answer = good(request);
        if request["method"] == "SendMessage" {
            answer["result"] = answer["result"]["task"].clone();
        }
        answer
    });
    assert_eq!(complaints(&examined(&bare, &[])), [&unversioned[..], &["rpc.shape".to_owned()]].concat());
    let unknown = agent(|request| {
        let error = json!({"code": -32601, "message": "\u{1b}[2Jno \u{202e}method"});
        json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
    });
    let ran = examined(&unknown, &[]);
    assert_eq!(complaints(&ran), with("rpc.version"));
    // What an agent says does not steer the terminal of its reader.
    let text = CommandDirectory::new().run(&["doctor", &unknown]).stdout;
    assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}']) && !text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}

#[test]
fn credentials_are_asked_for_refused_and_accepted() {
    let (_demo, url) = demo(&["--bearer-required=right-token"]);
    let without = examined(&url, &[]);
    assert_eq!((complaints(&without), without.code), (vec![], 0), "{without:#?}");
    assert!(without.stdout.contains("and none was given"), "{without:#?}");
    let wrong = examined(&url, &["--bearer", "wrong-token"]);
    assert_eq!((complaints(&wrong), wrong.code), (vec!["auth.refused".to_owned()], 1));
    let right = examined(&url, &["--bearer", "right-token"]);
    assert!(lines(&right, &["ok"]).contains(&"auth.refused".to_owned()), "{right:#?}");
    for (ran, token) in [(wrong, "wrong-token"), (right, "right-token")] {
        assert!(!ran.stdout.contains(token) && !ran.stderr.contains(token), "{ran:#?}");
    }
}

#[test]
fn a_report_to_share_names_no_host_and_overwrites_nothing() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    desk.run(&["doctor", &url, "--gap", "1s", "--share", "report.json"]);
    let shared = read_text(&desk.path("report.json"));
    let report: Value = serde_json::from_str(&shared).unwrap();
    assert!(report["checks"].as_array().unwrap().len() > 45);
    assert!(!shared.contains("127.0.0.1"), "{shared}");
    let again = desk.run(&["doctor", &url, "--share", "report.json"]);
    assert!(again.code == 1 && again.stderr.contains("SABIR_ERR_EXISTS"), "{again:#?}");
    assert_eq!(read_text(&desk.path("report.json")), shared);
}

#[test]
fn silence_ends_with_the_gap_and_everything_with_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let begun = Instant::now();
    assert_eq!(complaints(&examined(&url, &[])), ["http.answer"]);
    // What there was no time for is not known, and so no failure.
    let hurried = CommandDirectory::new().run(&["doctor", &url, "--json", "--gap", "20s", "--timeout", "500ms"]);
    assert_eq!((complaints(&hurried), hurried.code), (vec![], 0), "{hurried:#?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_agent_is_needed() {
    let ran = CommandDirectory::new().run(&["doctor"]);
    assert!(ran.code == 2 && ran.stderr.contains("no agent was given"), "{ran:#?}");
    assert_eq!(CommandDirectory::new().run(&["doctor", "ftp://h/"]).code, 2);
}
