//! Bad input: every row of it is refused with its own status and code, and other callers are served.

use super::{envelope, expect, home, key, network, post, request, stamp, verdict};
use crate::http_client::Request;
use crate::test_server::TestServer;
use serde_json::{Value, json};

#[test]
fn what_is_no_envelope_is_refused_by_name() {
    let (sabir, key) = network();
    let good = envelope("network.ping", &json!({}));
    let with = |name: &str, value: Value| {
        let mut envelope = good.clone();
        envelope[name] = value;
        envelope.to_string()
    };
    let deep = format!(
        r#"{{"from":"a","intent":"network.ping","payload":{{"a":{}{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let nested =
        format!(r#"{{"from":"a","intent":"network.ping","payload":{{"a":{}{}}}}}"#, "[".repeat(40), "]".repeat(40));
    let large = with("agent_context", json!({"x": "y".repeat(17 << 10)}));
    let rows: Vec<(&str, String, u16, &str)> = vec![
        ("not JSON", "{".into(), 400, "invalid_envelope"),
        ("nothing", String::new(), 400, "invalid_envelope"),
        ("a list", "[]".into(), 422, "invalid_envelope"),
        ("twice", r#"{"from":"a","from":"b","intent":"network.ping"}"#.into(), 400, "invalid_envelope"),
        (
            "twice inside",
            r#"{"from":"a","intent":"network.ping","payload":{"x":1,"x":1}}"#.into(),
            400,
            "invalid_envelope",
        ),
        ("both names", r#"{"from":"a","from_agent":"a","intent":"network.ping"}"#.into(), 422, "invalid_envelope"),
        ("a typo", with("ttlms", json!(1)), 422, "invalid_envelope"),
        ("no sender", r#"{"intent":"network.ping"}"#.into(), 422, "invalid_envelope"),
        ("ttl as float", good.to_string().replace("5000", "5000.0"), 422, "invalid_envelope"),
        ("ttl as text", with("ttl_ms", json!("5000")), 422, "invalid_envelope"),
        ("ttl as bool", with("ttl_ms", json!(true)), 422, "invalid_envelope"),
        ("ttl of nothing", with("ttl_ms", json!(0)), 422, "invalid_envelope"),
        ("ttl below nothing", with("ttl_ms", json!(-1)), 422, "invalid_envelope"),
        ("payload null", with("payload", Value::Null), 422, "invalid_envelope"),
        ("context null", with("agent_context", Value::Null), 422, "invalid_envelope"),
        ("context too large", large, 413, "payload_too_large"),
        ("sender with a space", with("from", json!("a b")), 422, "invalid_envelope"),
        ("sender too long", with("from", json!("a".repeat(257))), 422, "invalid_envelope"),
        ("another zone", with("timestamp", json!("2026-04-02T10:22:03+02:00")), 422, "invalid_envelope"),
        ("no zone", with("timestamp", json!("2026-04-02T10:22:03")), 422, "invalid_envelope"),
        ("long ago", with("timestamp", json!(stamp(-301_000_000))), 400, "stale_timestamp"),
        ("far ahead", with("timestamp", json!(stamp(90_000_000))), 400, "stale_timestamp"),
        ("ten thousand levels", deep, 422, "invalid_envelope"),
        ("forty levels", nested, 422, "invalid_envelope"),
        ("another protocol", with("protocol", json!("agp/1")), 400, "unsupported_protocol"),
        ("an intent nobody knows", with("intent", json!("booking.cancel")), 400, "unknown_intent"),
        ("an intent that is none", with("intent", json!("Booking Cancel")), 422, "invalid_envelope"),
        ("a member of a ping", with("payload", json!({"x": 1})), 422, "invalid_payload"),
        ("a reserved member", with("payload", json!({"_x": 1})), 422, "invalid_payload"),
        (
            "hops of nobody",
            with("via", json!([{"agent": "n", "at": 1, "kid": "k", "ttl_ms": 1, "sig": "00"}])),
            403,
            "agent_mismatch",
        ),
    ];
    for (what, body, status, code) in rows {
        let reply = sabir.ask(&request(&key, body));
        assert_eq!(verdict(&reply), (status, code.to_owned()), "{what}: {}", reply.text());
        let error = &reply.json()["payload"]["error"];
        assert!(error["message"].is_string() && error["retryable"] == false, "{what}: {error}");
    }
    // A refused caller is answered by name where the name could be read.
    let reply = sabir.ask(&request(&key, with("ttl_ms", json!("x")))).json();
    assert_eq!((&reply["to"], &reply["intent"]), (&json!("my_agent_001"), &json!("network.ping")));
    let reply = sabir.ask(&request(&key, "{")).json();
    assert_eq!((&reply["from"], &reply["to"]), (&json!("network:agnt"), &json!("unknown")));
    let mut wide = good;
    wide["ttl_ms"] = json!(u64::MAX);
    expect(&post(&sabir, &key, &wide), 200, "ok");
}

#[test]
fn what_is_no_request_is_refused_before_anybody_asks_who_sends_it() {
    let (sabir, key) = network();
    let body = envelope("network.ping", &json!({})).to_string();
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let reply = sabir.ask(&Request::new(method, "/a2a/v1"));
        assert_eq!((reply.status, reply.header("Allow")), (405, Some("POST")), "{method}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/a2a+json", "application/grpc"] {
        let reply = sabir.ask(&request(&key, body.clone()).with("Content-Type", kind));
        assert_eq!((kind, reply.status), (kind, 415), "{}", reply.text());
    }
    let kind = "application/json; charset=utf-8";
    expect(&sabir.ask(&request(&key, body.clone()).with("Content-Type", kind)), 200, "ok");
    let large = request(&key, "x".repeat((256 << 10) + 1));
    expect(&sabir.ask(&large), 413, "payload_too_large");
    let reply = sabir.ask(&request(&key, body.clone()).with("Host", "evil.example"));
    assert_eq!(reply.status, 421);
    let reply = sabir.ask(&request(&key, body).with("Origin", "https://evil.example"));
    assert_eq!(reply.status, 403);
}

#[test]
fn what_an_intent_takes_is_read_strictly_and_nothing_is_taken_for_sql() {
    let (sabir, key) = network();
    let ask = |intent: &str, payload: Value| {
        let reply = post(&sabir, &key, &envelope(intent, &payload));
        (reply.status, reply.json())
    };
    for payload in [
        json!({"venue_id": "warung", "party_size": 0}),
        json!({"venue_id": "warung", "party_size": 1_000_000_000}),
        json!({"venue_id": "warung", "party_size": 2.5}),
        json!({"venue_id": "warung", "party_size": "2"}),
        json!({"venue_id": "warung", "time": "19:00", "slot_time": "20:00"}),
        json!({"venue_id": "warung", "user_note": "x".repeat(2001)}),
        json!({"venue_id": "warung", "vip": true}),
        json!({}),
    ] {
        let (status, said) = ask("booking.confirm", payload.clone());
        assert_eq!((status, &said["payload"]["error"]["code"]), (422, &json!("invalid_payload")), "{payload}");
    }
    for location in ["%", "_", "\\", "' OR 1=1 --", "Can%gu", "\"; DROP TABLE venues; --", "NEAR(", "a*"] {
        let (status, said) = ask("venue.list", json!({"location": location}));
        assert_eq!((status, &said["payload"]["count"]), (200, &json!(0)), "{location}");
        let (status, said) = ask("booking.search", json!({"query": location}));
        assert!(status == 200, "{location}: {said}");
    }
    let (_, said) = ask("booking.search", json!({"query": "قهوة ☕ 100%_\\"}));
    assert_eq!(said["payload"]["count"], 1, "{said}");
    assert_eq!(said["payload"]["venues"][0]["name"], "قهوة \u{202e}☕ 100%_\\");
    let (_, said) = ask("venue.list", json!({"category": "RESTAURANT", "limit": 1000, "location": null}));
    assert_eq!(said["payload"]["count"], 2);
    let (status, _) = ask("venue.list", json!({"limit": 0}));
    assert_eq!(status, 422);
}

#[test]
fn what_changes_anything_says_when_it_was_sent() {
    let (sabir, key) = network();
    let mut order = envelope("booking.confirm", &json!({"venue_id": "warung"}));
    order["timestamp"] = "".into();
    expect(&post(&sabir, &key, &order), 422, "invalid_envelope");
    order.as_object_mut().unwrap().remove("timestamp");
    expect(&post(&sabir, &key, &order), 422, "invalid_envelope");
    let mut list = envelope("venue.list", &json!({}));
    list["timestamp"] = "".into();
    expect(&post(&sabir, &key, &list), 200, "ok");
}

#[test]
fn garbage_costs_a_request_of_the_day_and_strangers_are_told_nothing() {
    let home = home("[limits.tier.free]\nper_day = 3\n");
    let (free, other) = (key(&home, &["--tier", "free"]), key(&home, &["--tier", "free"]));
    let sabir = TestServer::start_at(&home);
    let ping = envelope("network.ping", &json!({}));
    for stranger in ["", "agnt_live_00000000000000000000000000000000", "agnt_live_0", "sabir_0", &free[..41]] {
        let reply = sabir.ask(&request(stranger, "{"));
        expect(&reply, 401, "unauthorized");
        assert_eq!(reply.header("WWW-Authenticate"), Some("Bearer"));
    }
    expect(&sabir.ask(&request(&free, "{")), 400, "invalid_envelope");
    expect(&post(&sabir, &free, &ping), 200, "ok");
    expect(&post(&sabir, &free, &ping), 200, "ok");
    let spent = post(&sabir, &free, &ping);
    expect(&spent, 429, "rate_limited");
    let wait: u64 = spent.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert_eq!(spent.json()["payload"]["error"]["retryable"], true);
    expect(&post(&sabir, &other, &ping), 200, "ok");
}
