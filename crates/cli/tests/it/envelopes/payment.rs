//! Paying with an envelope, and billing what was counted.

use super::signatures::signed;
use super::{SIGNING_KEY, envelope, expect, home, key, post};
use crate::command_runner::{CommandDirectory, CommandOutput};
use crate::http_client::Request;
use crate::test_server::{ServerDirectory, TestServer};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn tool(home: &ServerDirectory, words: &[&str]) -> CommandOutput {
    let (data, config) = (home.data().display().to_string(), home.path("sabir.toml").display().to_string());
    CommandDirectory::new().run(&[words, &["-o", "json", "--config", &config, "--data", &data]].concat())
}

fn payment_offer(outcome: &str, slot: &str) -> Value {
    let token = json!({"type": "test", "outcome": outcome});
    let booking = json!({"venue_id": "la-brisa", "slot_id": slot});
    json!({"amount": {"amount": 2500, "currency": "USD"}, "token": token, "booking": booking})
}

/// An envelope of its own, however much it says what another says.
fn pay(payload: &Value) -> Value {
    static SENT: AtomicU32 = AtomicU32::new(0);
    let mut payload = payload.clone();
    payload["_nonce"] = format!("{:032x}", SENT.fetch_add(1, Ordering::Relaxed)).into();
    envelope("payment.authorize", &signed(&payload, "my_agent_001", SIGNING_KEY))
}

#[test]
fn a_table_is_booked_and_paid_in_one_envelope() {
    let home = home("[network.payments]\ntest = true\npayment_max = 5000\n");
    let full = key(&home, &["--tier", "pro", "--scope", "full"]);
    let sabir = TestServer::start_at(&home);
    let order = pay(&payment_offer("approve", "s1"));
    let paid = post(&sabir, &full, &order);
    expect(&paid, 200, "ok");
    let said = paid.json()["payload"].clone();
    assert_eq!((&said["status"], &said["booking_status"]), (&json!("captured"), &json!("pending")), "{said}");
    assert_eq!(said["receipt"]["processor"], "test");
    let again = post(&sabir, &full, &order);
    assert_eq!((again.status, again.header("A2A-Idempotent-Replay")), (200, Some("true")));
    assert_eq!(again.json()["payload"]["payment_id"], said["payment_id"]);
    expect(&post(&sabir, &full, &pay(&payment_offer("approve", "s1"))), 409, "slot_unavailable");
    expect(&post(&sabir, &full, &pay(&payment_offer("decline", "s2"))), 402, "payment_declined");
    expect(&post(&sabir, &full, &pay(&payment_offer("decline_capture", "s2"))), 402, "payment_declined");
    let mut dear = payment_offer("approve", "s2");
    dear["amount"]["amount"] = json!(5001);
    expect(&post(&sabir, &full, &pay(&dear)), 402, "payment_limit_exceeded");
    expect(
        &post(&sabir, &full, &envelope("payment.authorize", &payment_offer("approve", "s2"))),
        401,
        "invalid_signature",
    );
    let shown = tool(&home, &["booking", "list"]).json();
    let states: Vec<_> = shown["bookings"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(states, ["cancelled", "cancelled", "pending"], "{shown}");
    let tally = tool(&home, &["billing", "check"]);
    // One was made and paid; the other was promised and called off, and counted while it was promised.
    let tally = tally.json();
    assert_eq!((&tally["bookings"], &tally["counted"], &tally["drift"]), (&json!(2), &json!(2), &json!(0)), "{tally}");
    let home = sabir.stop();
    let kept = home.open_database();
    let text = |sql: &str| kept.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default();
    let states = text("SELECT group_concat(status, ' ') FROM (SELECT status FROM payment ORDER BY k)");
    assert_eq!(states, "captured failed failed");
    for column in ["payload", "agent_context"] {
        let found = text(&format!("SELECT group_concat({column}, ' ') FROM interaction"));
        assert!(!found.contains("approve"), "a token is a secret: {found}");
    }
    let whole = tool(&home, &["db", "check"]);
    assert_eq!(whole.json()["problems"], json!([]), "{}", whole.json());
}

/// Takes meter events, in the shape of Stripe: the first question is taken and never answered.
fn billing_stub() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, events) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = events.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let mut kept = kept.lock().unwrap();
            kept.push(String::from_utf8(body).unwrap());
            if kept.len() > 1 {
                let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                stream.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    (port, events)
}

#[test]
fn what_was_counted_is_billed_once() {
    let (port, events) = billing_stub();
    let billing = format!(
        "[network.billing]\nsecret_key = \"file:stripe.key\"\nurl = \"http://127.0.0.1:{port}\"\n\
         event_name = \"bookings\"\nnightly = false\n[egress]\nallow = [\"127.0.0.0/8\"]\n"
    );
    let home = home(&billing);
    fs::write(home.path("stripe.key"), "sk_test_1").unwrap();
    let (known, unknown) = (key(&home, &["--tier", "pro", "--customer", "cus_1"]), key(&home, &["--tier", "pro"]));
    let sabir = TestServer::start_at(&home);
    for (key, count) in [(&known, 3), (&unknown, 1)] {
        for _ in 0..count {
            expect(&post(&sabir, key, &envelope("booking.confirm", &json!({"venue_id": "warung"}))), 200, "ok");
        }
    }
    let dry = tool(&home, &["billing", "run", "--dry-run"]).json();
    assert_eq!((&dry["batches"][0]["count"], &dry["batches"][0]["status"]), (&json!(3), &json!("would_be_sent")));
    assert_eq!(events.lock().unwrap().len(), 0, "looking sends nothing");
    let ran = tool(&home, &["billing", "run"]).json();
    assert_eq!((&ran["batches"][0]["customer"], &ran["batches"][0]["status"]), (&json!("cus_1"), &json!("synced")));
    let sent = events.lock().unwrap().clone();
    assert!(sent.len() == 2 && sent[0] == sent[1], "the same event under the same name: {sent:?}");
    for part in ["event_name=bookings", "identifier=agnt-", "payload%5Bvalue%5D=3", "stripe_customer_id%5D=cus_1"] {
        assert!(sent[0].contains(part), "{part} is not in {}", sent[0]);
    }
    assert_eq!(tool(&home, &["billing", "run"]).json()["batches"], json!([]));
    let tally = tool(&home, &["billing", "check"]).json();
    assert_eq!((&tally["counted"], &tally["unsynced"], &tally["without_customer"]), (&json!(4), &json!(1), &json!(1)));
    assert_eq!((&tally["drift"], &tally["whole"]), (&json!(0), &json!(true)));
    assert!(sabir.ask(&Request::get("/metrics")).text().contains("a2a_metered_events_total 4\n"));
    assert!(!sabir.log_text().contains("sk_test_1"), "{}", sabir.log_text());
    // The same where no server runs.
    let home = sabir.stop();
    assert_eq!(tool(&home, &["billing", "check"]).json(), tally);
    for file in fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(9).any(|bytes| bytes == b"sk_test_1"), "the secret is in {}", file.display());
    }
    // A booking whose row of usage a person deletes is not billed.
    home.open_database().execute("DELETE FROM usage WHERE k = (SELECT max(k) FROM usage)", []).unwrap();
    let ran = tool(&home, &["billing", "check"]);
    assert_eq!((ran.code, &ran.json()["drift"], &ran.json()["whole"]), (1, &json!(-1), &json!(false)), "{ran:#?}");
    let sabir = TestServer::start_at(&home);
    assert!(sabir.ask(&Request::get("/metrics")).text().contains("a2a_metering_drift -1\n"));
}
