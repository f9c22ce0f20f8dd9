//! `sabir conformance`: a good agent passes, a broken one fails by name, and what was not seen is not passed.

use crate::command_runner::{CommandDirectory, CommandOutput, demo};
use crate::stub_agent::{self, card};
use serde_json::{Value, json};
use std::sync::OnceLock;

fn results<'a>(report: &'a Value, id: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["id"] == id).map(|check| check["result"].as_str().unwrap()).collect()
}

#[test]
fn the_demo_server_passes_over_every_binding() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let arguments =
        ["conformance", "-a", &url, "--strict", "--level", "should", "--slow-text", "slow 30", "-o", "json"];
    let ran = desk.run(&arguments);
    ran.expect_success();
    let report = ran.json();
    assert_eq!((&report["verdict"], &report["summary"]["fail"]), (&json!("pass"), &json!(0)), "{report:#}");
    for id in ["CORE-SEND-001", "CORE-CANCEL-001", "CORE-LIST-002", "STREAM-SUB-001", "CORE-MULTI-006"] {
        assert_eq!(results(&report, id), ["pass"; 3], "{id}");
    }
    for id in ["CARD-DISC-001", "JSONRPC-SSE-001", "HTTP_JSON-ERR-002", "GRPC-ERR-002", "CARD-CACHE-002"] {
        assert_eq!(results(&report, id), ["pass"], "{id}");
    }
    // What the card offers gives no occasion to refuse it.
    assert_eq!(results(&report, "CORE-CAP-002"), ["skip"; 3]);
}

#[test]
fn one_binding_is_looked_at_where_one_is_named() {
    let (_demo, url) = demo(&["--no-streaming"]);
    let ran = CommandDirectory::new().run(&["conformance", "-a", &url, "--transport", "rest"]);
    let text = ran.expect_success();
    assert!(text.lines().filter(|line| line.starts_with("Check: ")).count() > 20, "{text}");
    assert!(!text.contains("JSONRPC") && !text.contains("GRPC"), "{text}");
    let streams: Vec<&str> = text.lines().filter(|line| line.contains("CORE-STREAM-001")).collect();
    assert_eq!(streams.len(), 1);
    assert!(streams[0].starts_with("Check: skip ") && streams[0].ends_with("does not offer streaming"), "{streams:?}");
    assert_eq!(ran.fields("Verdict"), ["pass"]);
    assert!(!text.contains("SHOULD"), "only what must be: {text}");
}

/// An agent that finds every task and settles none.
fn broken() -> String {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let at: &'static OnceLock<String> = Box::leak(Box::default());
        let url = stub_agent::serve(move |asked| {
            if asked.path.starts_with("/.well-known/") {
                return (200, "application/json", card(at.get().unwrap()));
            }
            let request = asked.json();
            let id = request["params"]["id"].as_str().unwrap_or("t-1");
            let task = json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
            let result = if request["method"] == "SendMessage" { json!({"task": task}) } else { task };
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            (200, "text/plain", answer.to_string())
        });
        at.set(url.clone()).unwrap();
        url
    })
    .clone()
}

#[test]
fn a_broken_agent_fails_by_name_without_failing_the_tool() {
    let url = broken();
    let desk = CommandDirectory::new();
    let ran = desk.run(&["conformance", "-a", &url, "-o", "json"]);
    ran.expect_success();
    let report = ran.json();
    assert_eq!(report["verdict"], "fail");
    for id in [
        "CORE-GET-002",
        "CORE-EXECUTION-MODE-001",
        "CORE-CANCEL-003",
        "CORE-MULTI-003",
        "CORE-MULTI-004",
        "VER-SERVER-002",
        "JSONRPC-FMT-002",
        "JSONRPC-ERR-001",
        "SABIR-JSONRPC-002",
    ] {
        assert_eq!(results(&report, id), ["fail"], "{id}: {report:#}");
    }
    assert_eq!(results(&report, "CORE-SEND-001"), ["pass"]);
    assert_eq!(results(&report, "SABIR-JSONRPC-001"), ["pass"]);
    let strict = desk.run(&["conformance", "-a", &url, "--strict"]);
    assert_eq!((strict.code, strict.fields("Verdict")), (1, vec!["fail"]), "{strict:#?}");
}

#[test]
fn what_is_no_card_is_a_finding_and_nobody_there_is_not() {
    let desk = CommandDirectory::new();
    let nothing = stub_agent::serve(|_| (404, "text/plain", "no".into()));
    let ran: CommandOutput = desk.run(&["conformance", "-a", &nothing]);
    assert!(ran.expect_success().contains("Check: fail CARD-DISC-001"), "{ran:#?}");
    assert_eq!(ran.fields("Passed"), ["0"]);
    let page = stub_agent::serve(|_| (200, "text/html", "<html></html>".into()));
    let ran = desk.run(&["conformance", "-a", &page, "--strict"]);
    assert!(ran.code == 1 && ran.stdout.contains("Check: fail CARD-STRUCT-001"), "{ran:#?}");
    let nobody = desk.run(&["conformance", "-a", "http://127.0.0.1:9"]);
    assert_eq!(nobody.code, 3, "{nobody:#?}");
}

#[test]
fn the_kit_is_run_where_it_is_and_its_report_taken_over() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    let missing = desk.run(&["conformance", "-a", &url, "--tck", "."]);
    assert_eq!(missing.code, 2, "{missing:#?}");
    assert!(missing.stderr.contains("run_tck.py"), "{}", missing.stderr);
    // In place of the kit: a program that leaves a report of the same form, and what it was called with.
    std::fs::create_dir(desk.path("kit")).unwrap();
    let script = r#"
import json, os, sys
print("the kit says something")
os.makedirs("reports", exist_ok=True)
errors = {"errors": ["boom"], "description": " ".join(sys.argv[1:])}
report = {"summary": {}, "per_requirement": {
    "DM-SERIAL-001": {"level": "MUST", "status": "FAIL", "transports": {"jsonrpc": "FAIL"}, **errors}}}
json.dump(report, open("reports/compatibility.json", "w"))
sys.exit(1)
"#;
    std::fs::write(desk.path("kit/run_tck.py"), script).unwrap();
    let ran = desk.run(&["conformance", "-a", &url, "--tck", "kit", "--transport", "jsonrpc"]);
    let kit = ran.expect_success().lines().find(|line| line.contains("DM-SERIAL-001")).unwrap();
    let called = format!("--sut-host {url} --level must --transport jsonrpc");
    assert_eq!(kit, format!("Check: fail DM-SERIAL-001 MUST jsonrpc (kit) {called}: boom"));
    assert_eq!(ran.fields("Verdict"), ["fail"]);
    assert!(ran.stderr.contains("the kit says something"));
}
