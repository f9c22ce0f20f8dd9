//! `sabir envelope send`: what is sent, what is shown, and what is kept secret.

use crate::command_runner::{CommandDirectory, CommandOutput, wait_for_exit};
use crate::stub_agent;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

const KEY: &str = "agnt_test_0123456789abcdef0123456789abcdef";
const SIGN: &str = "a-signing-key-of-at-least-thirty-two-bytes";

type ReceivedEnvelopes = Arc<Mutex<Vec<(String, Option<String>, Value)>>>;

/// A network that answers with what the test says for its nth envelope.
fn network(tell: impl Fn(usize, &Value) -> (u16, Value) + Send + Sync + 'static) -> (String, ReceivedEnvelopes) {
    let heard = ReceivedEnvelopes::default();
    let log = heard.clone();
    let url = stub_agent::serve(move |asked| {
        let envelope = asked.json();
        let mut log = log.lock().unwrap();
        let (status, payload) = tell(log.len(), &envelope);
        log.push((asked.path.clone(), asked.header("authorization").map(str::to_owned), envelope.clone()));
        let answer = json!({
            "protocol": "openclaw/a2a/v1", "from": envelope["to"], "to": envelope["from"], "intent": envelope["intent"],
            "payload": payload, "agent_context": envelope["agent_context"], "ttl_ms": envelope["ttl_ms"],
            "timestamp": "2026-04-02T10:22:03.000000Z"
        });
        (status, "application/json", answer.to_string())
    });
    (url, heard)
}

fn send(desk: &CommandDirectory, arguments: &[&str], payload: &str) -> CommandOutput {
    let mut command = desk.command(&[&["envelope", "send"], arguments].concat());
    command.env("NET_KEY", KEY).env("NET_SIGN", SIGN).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that needs no input may have ended before it is written.
    drop(child.stdin.take().unwrap().write_all(payload.as_bytes()));
    wait_for_exit(child)
}

fn refusal(code: &str, retryable: bool) -> Value {
    json!({"error": {"code": code, "message": "circuit breaker is open", "retryable": retryable, "retry_after_ms": 10}})
}

#[test]
fn a_ping_needs_no_payload_and_prints_the_result() {
    let desk = CommandDirectory::new();
    let (url, heard) = network(|_, _| (200, json!({"active_venues": 3, "tier": "free"})));
    let ran = send(&desk, &["network.ping", "-a", &url, "--key", "env:NET_KEY", "--from", "my_agent_001"], "");
    assert_eq!(
        serde_json::from_str::<Value>(ran.expect_success()).unwrap(),
        json!({"active_venues": 3, "tier": "free"})
    );
    let (path, key, envelope) = heard.lock().unwrap()[0].clone();
    assert_eq!((path.as_str(), key), ("/a2a/v1", Some(format!("Bearer {KEY}"))));
    let fields = ["protocol", "from", "to", "intent", "ttl_ms"].map(|name| envelope[name].clone());
    assert_eq!(
        fields,
        [json!("openclaw/a2a/v1"), json!("my_agent_001"), json!("network:agnt"), json!("network.ping"), json!(5000)]
    );
    assert_eq!(envelope["payload"], json!({}));
}

#[test]
fn a_booking_is_signed_and_repeated_with_its_timestamp() {
    let desk = CommandDirectory::new();
    let (url, heard) = network(|number, _| match number {
        0 => (503, refusal("circuit_open", true)),
        _ => (200, json!({"booking_id": "b-1", "status": "pending"})),
    });
    let arguments = ["booking.confirm", "-a", &url, "--key", "env:NET_KEY", "--sign-key", "env:NET_SIGN", "--debug"];
    let ran = send(&desk, &[&arguments[..], &["--to", "venue:la-brisa"]].concat(), r#"{"venue_id": "la-brisa"}"#);
    assert!(ran.expect_success().contains("b-1"));
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    let (first, second) = (&heard[0].2, &heard[1].2);
    assert_eq!(first["timestamp"], second["timestamp"]);
    assert_eq!(
        (&first["payload"]["_to"], &first["payload"]["_intent"]),
        (&json!("venue:la-brisa"), &json!("booking.confirm"))
    );
    assert_eq!(first["payload"]["_sig"].as_str().unwrap().len(), 64);
    assert_ne!(first["payload"]["_nonce"], second["payload"]["_nonce"]);
    let shown = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!shown.contains(KEY) && !shown.contains(SIGN), "{shown}");
}

#[test]
fn what_may_have_been_booked_can_be_repeated() {
    let desk = CommandDirectory::new();
    let (url, heard) = network(|_, _| (504, refusal("ttl_exceeded", true)));
    let arguments = ["booking.confirm", "-a", &url, "--key", "env:NET_KEY", "-o", "json", "-d", r#"{"venue_id":"x"}"#];
    let ran = send(&desk, &arguments, "");
    assert_eq!(ran.code, 1, "{ran:#?}");
    let error = ran.json()["error"].clone();
    assert_eq!((&error["code"], &error["a2aCode"]), (&json!("ttl_exceeded"), &json!(504)));
    let sent = heard.lock().unwrap()[0].2["timestamp"].as_str().unwrap().to_owned();
    assert!(error["hint"].as_str().unwrap().ends_with(&format!("--timestamp {sent}")), "{error}");
    send(&desk, &[&arguments[..], &["--timestamp", &sent]].concat(), "");
    assert_eq!(heard.lock().unwrap().last().unwrap().2["timestamp"], json!(sent));
}

#[test]
fn what_cannot_be_meant_is_not_sent() {
    let desk = CommandDirectory::new();
    let (url, heard) = network(|_, _| (200, json!({})));
    for (arguments, payload, says) in [
        (&["booking.cancel"][..], "", "there is no intent"),
        (&["venue.list"], "[1]", "not a JSON object"),
        (&["venue.list"], "{\"a\":1,\"a\":2}", "duplicate member"),
        (&["venue.list", "--from", "two words"], "{}", "white space"),
        (&["venue.list", "--timestamp", "today"], "{}", "no timestamp"),
        (&["venue.list", "--key", KEY], "{}", "does not hold it"),
        (&["venue.list", "--key", "env:NOT_THERE"], "{}", "not set"),
        (&["venue.list", "--sign-key", "env:HOME"], "{}", "at least 32 bytes"),
    ] {
        let ran = send(&desk, &[arguments, &["-a", &url]].concat(), payload);
        assert_eq!(ran.code, 2, "{arguments:?} {ran:#?}");
        assert!(ran.stderr.contains(says), "{says}: {ran:#?}");
        assert!(!ran.stderr.contains(KEY), "{ran:#?}");
    }
    assert!(heard.lock().unwrap().is_empty());
}

#[test]
fn who_is_not_let_in_is_told_what_is_missing() {
    let desk = CommandDirectory::new();
    let (url, _) = network(|_, _| (401, refusal("unauthorized", false)));
    let without = send(&desk, &["network.ping", "-a", &url, "-o", "json"], "");
    assert_eq!((without.code, &without.json()["error"]["code"]), (4, &json!("A2ACLI_ERR_CREDENTIALS_MISSING")));
    assert!(without.json()["error"]["hint"].as_str().unwrap().contains("--key"), "{without:#?}");
    let with = send(&desk, &["network.ping", "-a", &url, "-o", "json", "--key", "env:NET_KEY"], "");
    assert_eq!((with.code, &with.json()["error"]["code"]), (4, &json!("A2ACLI_ERR_AUTH_FAILED")));
}
