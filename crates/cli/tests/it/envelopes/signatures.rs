//! Payloads that are signed.

use super::{SIGNING_KEY, envelope, expect, home, key, post, stamp};
use crate::test_server::TestServer;
use sabir_proto::canon::python::CanonicalObject;
use sabir_proto::{Json, digest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};

/// HMAC-SHA-256, as RFC 2104 has it.
fn hmac(key: &[u8], text: &[u8]) -> String {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    digest::hex(&Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize())
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A payload with these members, signed with the key.
pub(super) fn signed(members: &Value, from: &str, key: &str) -> Value {
    let mut members = members.clone();
    members["_from"] = from.into();
    if members.get("_ts").is_none() {
        members["_ts"] = seconds().into();
    }
    let payload = CanonicalObject::read(Json::of(&members).unwrap().as_str()).unwrap();
    members["_sig"] = hmac(key.as_bytes(), payload.canonical_without("_sig").as_bytes()).into();
    members
}

#[test]
fn a_signature_that_is_there_must_be_right_and_some_keys_must_have_one() {
    let home = home("");
    let (plain, strict) = (key(&home, &["--tier", "pro"]), key(&home, &["--tier", "pro", "--require-signature"]));
    let sabir = TestServer::start_at(&home);
    let from = "my_agent_001";
    let send = |key: &str, payload: Value| post(&sabir, key, &envelope("booking.search", &payload));
    let good = |query: &str| signed(&json!({"query": query, "limit": 5}), from, SIGNING_KEY);
    for key in [&plain, &strict] {
        expect(&send(key, good(&format!("sea {}", &key[10..14]))), 200, "ok");
    }
    let invalid = |reply| expect(&reply, 401, "invalid_signature");
    invalid(send(&strict, json!({"query": "sea"})));
    invalid(send(&plain, signed(&json!({"query": "sea"}), from, "another key of thirty-two bytes or more")));
    let mut tampered = good("sea");
    tampered["limit"] = json!(6);
    invalid(send(&plain, tampered));
    let mut upper = good("sea");
    upper["_sig"] = upper["_sig"].as_str().unwrap().to_uppercase().into();
    invalid(send(&plain, upper));
    for stale in [seconds() - 302, seconds() + 90] {
        invalid(send(&plain, signed(&json!({"_ts": stale}), from, SIGNING_KEY)));
    }
    for odd in [json!(null), json!(7), json!("é"), json!("")] {
        invalid(send(&plain, json!({"query": "sea", "_sig": odd, "_ts": seconds(), "_from": from})));
    }
    invalid(send(&plain, signed(&json!({"_intent": "venue.list"}), from, SIGNING_KEY)));
    invalid(send(&plain, signed(&json!({"_to": "network:other"}), from, SIGNING_KEY)));
    let bound = json!({"_to": "network:agnt", "_intent": "booking.search", "_nonce": "00ff"});
    expect(&send(&plain, signed(&bound, from, SIGNING_KEY)), 200, "ok");
    expect(&send(&plain, signed(&json!({}), "mallory", SIGNING_KEY)), 403, "agent_mismatch");
    // All refusals have the same words, so no caller learns which check failed.
    let words = |reply: crate::http_client::HttpResponse| reply.json()["payload"]["error"]["message"].clone();
    let late = signed(&json!({"_ts": seconds() - 1000}), from, SIGNING_KEY);
    let forged = signed(&json!({}), from, "another key of thirty-two bytes or more");
    assert_eq!(words(send(&plain, late)), words(send(&plain, forged)));
    let text = sabir.ask(&crate::http_client::Request::get("/metrics")).text();
    assert!(text.contains("a2a_signature_verified_total{key=\"current\"}"), "{text}");
}

#[test]
fn a_signed_order_is_done_once_whatever_envelope_is_put_around_a_copy() {
    let home = home("");
    let (pro, other) = (key(&home, &["--tier", "pro"]), key(&home, &["--tier", "pro"]));
    let sabir = TestServer::start_at(&home);
    let payload = signed(&json!({"venue_id": "warung"}), "my_agent_001", SIGNING_KEY);
    let mut order = envelope("booking.confirm", &payload);
    expect(&post(&sabir, &pro, &order), 200, "ok");
    let again = post(&sabir, &pro, &order);
    assert_eq!((again.status, again.header("A2A-Idempotent-Replay")), (200, Some("true")));
    // Under another key, or at another moment, it would be another booking.
    expect(&post(&sabir, &other, &order), 401, "invalid_signature");
    let first = order["timestamp"].clone();
    order["timestamp"] = stamp(1000).into();
    expect(&post(&sabir, &pro, &order), 401, "invalid_signature");
    // Signed anew, a retry of the same moment is the same order.
    order["timestamp"] = first;
    order["payload"] = signed(&json!({"venue_id": "warung", "_ts": seconds() + 1}), "my_agent_001", SIGNING_KEY);
    let again = post(&sabir, &pro, &order);
    assert_eq!((again.status, again.header("A2A-Idempotent-Replay")), (200, Some("true")));
}

#[test]
fn a_signed_order_is_done_once_also_after_a_restart_and_under_another_key() {
    let home = home("[network.payments]\ntest = true\n");
    let (pro, other) =
        (key(&home, &["--tier", "pro", "--scope", "full"]), key(&home, &["--tier", "pro", "--scope", "full"]));
    let booking = json!({"venue_id": "la-brisa", "slot_id": "s2"});
    let token = json!({"type": "test", "outcome": "approve"});
    let payment = json!({"amount": {"amount": 2500, "currency": "USD"}, "token": token, "booking": booking});
    let order = |intent: &str, payload: &Value| envelope(intent, &signed(payload, "my_agent_001", SIGNING_KEY));
    let orders = [order("payment.authorize", &payment), order("booking.confirm", &json!({"venue_id": "warung"}))];
    let sabir = TestServer::start_at(&home);
    let done = orders.each_ref().map(|order| {
        let reply = post(&sabir, &pro, order);
        expect(&reply, 200, "ok");
        reply.json()["payload"]["booking_id"].clone()
    });
    let sabir = TestServer::start_at(&sabir.kill());
    for (order, booking) in orders.iter().zip(&done) {
        let mut later = order.clone();
        later["timestamp"] = stamp(1000).into();
        for (key, order) in [(&pro, &later), (&other, &later), (&other, order)] {
            for _ in 0..2 {
                expect(&post(&sabir, key, order), 401, "invalid_signature");
            }
        }
        let again = post(&sabir, &pro, order);
        assert_eq!((again.status, again.header("A2A-Idempotent-Replay")), (200, Some("true")));
        assert_eq!(again.json()["payload"]["booking_id"], *booking);
    }
}

#[test]
fn a_relay_signs_in_its_own_name_and_goes_round_in_no_circle() {
    let home = home("");
    let relay = key(&home, &["--tier", "pro", "--relay", "--from", "network:hop"]);
    let sabir = TestServer::start_at(&home);
    // Each hop signs the envelope without what it makes anew, and the chain before it.
    let send = |payload: Value, agents: &[&str]| {
        let mut list = envelope("venue.list", &payload);
        let mut plain = payload;
        plain.as_object_mut().unwrap().retain(|name, _| !name.starts_with('_'));
        let mut via = Vec::new();
        for agent in agents {
            let at = seconds();
            let mut text = json!({"payload": plain, "via": via, "agent": agent, "at": at, "kid": "k1"});
            for member in ["protocol", "from", "to", "intent", "timestamp"] {
                text[member] = list[member].clone();
            }
            let text = CanonicalObject::read(Json::of(&text).unwrap().as_str()).unwrap().canonical();
            let sig = hmac(SIGNING_KEY.as_bytes(), text.as_bytes());
            via.push(json!({"agent": agent, "at": at, "kid": "k1", "ttl_ms": 4000, "sig": sig}));
        }
        list["via"] = via.into();
        post(&sabir, &relay, &list)
    };
    let mine = |n: u64| signed(&json!({"limit": n}), "network:hop", SIGNING_KEY);
    expect(&send(mine(1), &["network:hop"]), 200, "ok");
    expect(&send(json!({}), &["network:hop"]), 401, "invalid_signature");
    expect(&send(mine(2), &["network:other"]), 403, "agent_mismatch");
    expect(&send(mine(3), &["network:agnt", "network:hop"]), 508, "loop_detected");
    expect(&send(mine(4), &["n:1", "n:2", "n:3", "n:4", "network:hop"]), 400, "hop_limit_exceeded");
    expect(&send(mine(5), &["n:1", "n:2", "n:3", "network:hop"]), 200, "ok");
}
