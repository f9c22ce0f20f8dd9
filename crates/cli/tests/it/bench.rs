//! `sabir bench`: what is measured, where it ends, and whom it does not touch.

use crate::command_runner::{CommandDirectory, demo, wait_for_exit};
use crate::stub_agent::{self, card};
use crate::test_server::eventually;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_number_of_messages_is_sent_and_measured() {
    let (_demo, url) = demo(&[]);
    let desk = CommandDirectory::new();
    for (binding, stream) in [("jsonrpc", false), ("rest", true), ("grpc", true)] {
        let mut arguments = vec!["bench", "-a", &url, "-n", "60", "-c", "7", "-o", "json", "--transport", binding];
        arguments.extend(stream.then_some("--stream"));
        let ran = desk.run(&arguments);
        ran.expect_success();
        let told = ran.json();
        assert_eq!((&told["messages"], &told["failed"], &told["unfinished"]), (&json!(60), &json!(0), &json!(0)));
        assert_eq!(told["ends"], json!({"TASK_STATE_COMPLETED": 60}), "{told}");
        let times = |of: &str| ["min", "p50", "p90", "p99", "p99.9", "max"].map(|q| told[of][q].as_f64().unwrap());
        assert!(times("latencyMs").is_sorted() && times("latencyMs")[0] > 0.0, "{told}");
        if stream {
            assert!(times("firstEventMs").is_sorted(), "{told}");
            assert!(told["firstEventMs"]["p50"].as_f64() <= told["latencyMs"]["p50"].as_f64(), "{told}");
        } else {
            assert_eq!(told["firstEventMs"], Value::Null);
        }
        let counts = told["histogram"].as_array().unwrap().iter().map(|o| o["count"].as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), 60);
        assert!(!ran.stderr.contains("Task ID"), "nobody wants to read sixty ids: {}", ran.stderr);
    }
}

#[test]
fn a_run_ends_in_time() {
    let (_demo, url) = demo(&[]);
    let begun = Instant::now();
    let ran = CommandDirectory::new().run(&["bench", "-a", &url, "-d", "700ms", "-c", "4"]);
    let text = ran.expect_success();
    assert!((Duration::from_millis(700)..Duration::from_secs(8)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let sent: u64 = ran.fields("Messages")[0].parse().unwrap();
    assert!(sent > 4, "{text}");
    assert!(text.contains("\nLatency: p50 ") && text.contains("\nHistogram:\n  "), "{text}");
    assert_eq!(ran.fields("Ended"), [format!("TASK_STATE_COMPLETED {sent}")]);
}

#[test]
fn ctrl_c_ends_it_early_and_still_reports() {
    let (demo, url) = demo(&[]);
    let child = CommandDirectory::new().command(&["bench", "-a", &url, "-d", "10m", "-c", "3"]).spawn().unwrap();
    eventually("messages were answered", || demo.metric("sabir_tasks_opened_total") > 20.0);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = wait_for_exit(child);
    assert_eq!(ran.code, 130, "{ran:#?}");
    assert!(ran.fields("Messages")[0].parse::<u64>().unwrap() > 0, "{ran:#?}");
}

/// An agent that settles some messages and refuses every third of the others.
fn unreliable_agent() -> String {
    let at: &'static OnceLock<String> = Box::leak(Box::default());
    let asked = AtomicU64::new(0);
    let url = stub_agent::serve(move |request| {
        if request.path.starts_with("/.well-known/") {
            return (200, "application/json", card(at.get().unwrap()));
        }
        let mut answer = json!({"jsonrpc": "2.0", "id": request.json()["id"]});
        if asked.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
            answer["error"] = json!({"code": -32602, "message": "no"});
        } else {
            let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
            answer["result"] = json!({ "message": message });
        }
        (200, "application/json", answer.to_string())
    });
    at.set(url.clone()).unwrap();
    url
}

#[test]
fn failures_are_counted_by_their_codes() {
    let ran = CommandDirectory::new().run(&["bench", "-a", &unreliable_agent(), "-n", "30", "-c", "2", "-o", "json"]);
    ran.expect_success();
    let told = ran.json();
    assert_eq!((&told["messages"], &told["failures"]), (&json!(20), &json!({"InvalidParamsError": 10})), "{told}");
    assert_eq!(told["ends"], json!({"message": 20}));
}

#[test]
fn what_fails_from_the_start_is_an_error_and_no_load() {
    let (_demo, url) = demo(&["--bearer-required"]);
    let ran = CommandDirectory::new().run(&["bench", "-a", &url, "-n", "5", "-o", "json"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert_eq!(ran.json()["error"]["code"], "A2ACLI_ERR_CREDENTIALS_MISSING");
}

#[test]
fn strangers_are_not_put_under_load() {
    // The card is here; the agent's address is one for documentation, where no server is.
    let url = stub_agent::serve(|_| (200, "application/json", card("http://192.0.2.1:9")));
    let ran = CommandDirectory::new().run(&["bench", "-a", &url, "-n", "5"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.stderr.contains("192.0.2.1") && ran.stderr.contains("--target-is-mine"), "{}", ran.stderr);
}

#[test]
fn load_has_bounds() {
    let desk = CommandDirectory::new();
    for flags in [["-c", "0"], ["-c", "1001"], ["-n", "0"], ["-n", "10000001"], ["-d", "61m"], ["-d", "soon"]] {
        let ran = desk.run(&[&["bench", "-a", "http://127.0.0.1:9"], &flags[..]].concat());
        assert_eq!(ran.code, 2, "{flags:?}: {ran:#?}");
    }
    let both = desk.run(&["bench", "-a", "http://127.0.0.1:9", "-n", "5", "-d", "5s"]);
    assert_eq!(both.code, 2, "{both:#?}");
}
