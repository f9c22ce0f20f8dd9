//! Bad input: every row of it is refused with its own status and code, and other callers are served.

use super::signatures::signed;
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
        ("an older protocol", with("protocol", json!("openclaw/a2a/v2")), 400, "unsupported_protocol"),
        ("a network nobody knows", with("to", json!("network:nowhere")), 404, "venue_not_found"),
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
    for (what, body) in [
        ("twice, once escaped", r#"{"from":"a","intent":"network.ping","inten\u0074":"network.ping"}"#),
        ("twice in the context", r#"{"from":"a","intent":"network.ping","agent_context":{"a":1,"a":1}}"#),
        ("two documents", r#"{"from":"a","intent":"network.ping"}{}"#),
        ("a byte order mark", "\u{feff}{\"from\":\"a\",\"intent\":\"network.ping\"}"),
        ("not a number", r#"{"from":"a","intent":"network.ping","payload":{"a":NaN}}"#),
        ("half a character", r#"{"from":"\ud800","intent":"network.ping"}"#),
        ("a raw line feed", "{\"from\":\"a\nb\",\"intent\":\"network.ping\"}"),
    ] {
        let reply = sabir.ask(&request(&key, body));
        assert_eq!(verdict(&reply), (400, "invalid_envelope".into()), "{what}: {}", reply.text());
    }
    let not_utf8 = sabir.ask(&request(&key, b"{\"from\":\"\xff\",\"intent\":\"network.ping\"}".to_vec()));
    expect(&not_utf8, 400, "invalid_envelope");
    // A refused caller is answered by name where the name could be read.
    let reply = sabir.ask(&request(&key, with("ttl_ms", json!("x")))).json();
    assert_eq!((&reply["to"], &reply["intent"]), (&json!("my_agent_001"), &json!("network.ping")));
    let reply = sabir.ask(&request(&key, "{")).json();
    assert_eq!((&reply["from"], &reply["to"]), (&json!("network:agnt"), &json!("unknown")));
    assert_eq!((&reply["intent"], &reply["agent_context"]), (&json!("unknown"), &json!({})));
    let mut wide = good;
    wide["ttl_ms"] = json!(u64::MAX);
    let reply = post(&sabir, &key, &wide);
    expect(&reply, 200, "ok");
    assert_eq!(reply.json()["ttl_ms"], json!(u64::MAX), "as it was received");
}

#[test]
fn members_of_an_envelope_have_a_type_and_a_form() {
    let (sabir, key) = network();
    let now = stamp(0);
    let at = |ending: &str| json!(format!("{}{ending}", &now[..19]));
    let bad = [
        ("ttl_ms", vec![json!(null), json!([]), json!("x"), json!(1000.5)]),
        ("payload", vec![json!([]), json!("{}")]),
        ("agent_context", vec![json!([]), json!("{}")]),
        ("extra", vec![json!(null)]),
        (
            "timestamp",
            ["-00:30", "", ".1234567890Z"].map(at).into_iter().chain([json!(1_776_000_000)]).collect::<Vec<_>>(),
        ),
        (
            "timestamp",
            [
                "now",
                "1776000000",
                "2026-13-01T00:00:00Z",
                "2026-02-30T00:00:00Z",
                "2026-02-01",
                "10000-01-01T00:00:00Z",
            ]
            .map(Value::from)
            .to_vec(),
        ),
        (
            "from",
            ["", " ", "a\tb", "a\0b", "a\u{a0}b"].map(Value::from).into_iter().chain([json!(7), json!(null)]).collect(),
        ),
        ("to", ["", " ", "a b", "a\tb", "a\0b"].map(Value::from).into_iter().chain([json!(7), json!(null)]).collect()),
        (
            "intent",
            ["", "ping", "network.", ".ping", "network..ping", "network.ping ", "net-work.ping", &"a.".repeat(40)]
                .map(Value::from)
                .into_iter()
                .chain([json!(7)])
                .collect(),
        ),
        ("via", vec![json!("x"), json!({}), json!([{}]), json!([7])]),
    ];
    for (name, values) in bad {
        for value in values {
            let mut envelope = envelope("network.ping", &json!({}));
            envelope[name] = value.clone();
            let reply = post(&sabir, &key, &envelope);
            assert_eq!(verdict(&reply), (422, "invalid_envelope".into()), "{name} {value}: {}", reply.text());
        }
    }
    for ttl in ["1e3", "99999999999999999999999"] {
        let body = envelope("network.ping", &json!({})).to_string().replace("5000", ttl);
        expect(&sabir.ask(&request(&key, body)), 422, "invalid_envelope");
    }
    for (name, value) in [
        ("timestamp", json!(stamp(-290_000_000))),
        ("timestamp", json!(stamp(50_000_000))),
        ("timestamp", at("+00:00")),
        ("timestamp", at(".5Z")),
        ("timestamp", at(".123456789Z")),
        ("from", json!("é".repeat(256))),
        ("agent_context", json!({"x": "y".repeat(15_000)})),
    ] {
        let mut envelope = envelope("network.ping", &json!({}));
        envelope[name] = value.clone();
        expect(&post(&sabir, &key, &envelope), 200, "ok");
    }
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

/// Where two things are wrong, the earlier one is told: a caller without a key learns nothing.
#[test]
fn checks_are_made_in_their_order() {
    let home = home("");
    let made = |tier: &str, scope: &str| key(&home, &["--tier", tier, "--scope", scope]);
    let (good, free, query) = (made("enterprise", "full"), made("free", "full"), made("free", "query"));
    let sabir = TestServer::start_at(&home);
    let with = |intent: &str, members: Value| {
        let mut envelope = envelope(intent, &json!({}));
        envelope.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        envelope.to_string()
    };
    let forged = signed(&json!({}), "my_agent_001", "another key of thirty-two bytes or more");
    let old = stamp(-400_000_000);
    let wrong_order = json!({"payload": {"venue_id": "nowhere", "party_size": 0}});
    for (what, key, body, status, code) in [
        ("key before JSON", "agnt_live_0", "[".to_owned(), 401, "unauthorized"),
        ("JSON before members", &*good, r#"{"ttl_ms":"x","#.into(), 400, "invalid_envelope"),
        (
            "members before protocol",
            &*good,
            with("network.ping", json!({"protocol": "agp/1", "ttl_ms": 0})),
            422,
            "invalid_envelope",
        ),
        (
            "protocol before signature",
            &*good,
            with("network.ping", json!({"protocol": "agp/1", "payload": forged})),
            400,
            "unsupported_protocol",
        ),
        (
            "signature before time",
            &*good,
            with("network.ping", json!({"payload": forged, "timestamp": old})),
            401,
            "invalid_signature",
        ),
        ("time before intent", &*good, with("network.pong", json!({"timestamp": old})), 400, "stale_timestamp"),
        ("intent before scope", &*query, with("booking.cancel", json!({})), 400, "unknown_intent"),
        ("scope before tier", &*query, with("booking.confirm", json!({})), 403, "scope_required"),
        ("tier before payload", &*free, with("booking.confirm", json!({})), 403, "tier_required"),
        ("payload before venue", &*good, with("booking.confirm", wrong_order), 422, "invalid_payload"),
    ] {
        assert_eq!(verdict(&sabir.ask(&request(key, body))), (status, code.to_owned()), "{what}");
    }
    let stranger = request("agnt_live_0", "{}").with("Content-Type", "text/plain");
    assert_eq!(sabir.ask(&stranger).status, 415, "media type before key");
    assert_eq!(sabir.ask(&request("agnt_live_0", " ".repeat(300_000))).status, 413, "size before key");
    // What a caller writes becomes no label, or it could fill the memory of the monitoring.
    let metrics = sabir.ask(&Request::get("/metrics")).text();
    assert!(metrics.contains(r#"status="unknown_intent""#), "{metrics}");
    for word in ["booking.cancel", "network.pong", "nowhere", "my_agent_001"] {
        assert!(!metrics.contains(word), "{word} is in {metrics}");
    }
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
        json!({"venue_id": "warung", "party_size": 1001}),
        json!({"venue_id": "warung", "party_size": true}),
        json!({"venue_id": "warung", "user_note": 7}),
        json!({"venue_id": "warung", "slot_id": 7}),
        json!({"venue_id": null}),
        json!({"venue_id": 7}),
        json!({"venue_id": ""}),
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
    for intent in ["venue.list", "booking.search"] {
        for limit in [json!(0), json!(-1), json!(1.0), json!(2.5), json!("5"), json!(true), json!([])] {
            assert_eq!(ask(intent, json!({"limit": limit})).0, 422, "{intent} {limit}");
        }
        for payload in [json!({"Limit": 5}), json!({"location": 7})] {
            assert_eq!(ask(intent, payload.clone()).0, 422, "{intent} {payload}");
        }
        assert_eq!(ask(intent, json!({"limit": 1_000_000})).0, 200, "{intent}: as many as there may be");
    }
    for (intent, payload) in [
        ("booking.search", json!({"query": 7})),
        ("venue.list", json!({"category": 7})),
        ("venue.list", json!({"query": "x"})),
    ] {
        assert_eq!(ask(intent, payload.clone()).0, 422, "{intent} {payload}");
    }
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
    let mut words = Vec::new();
    let (longer, upper, twice) = (format!("{free}0"), free.to_uppercase(), format!("{free},{free}"));
    let unknown = ["", "agnt_live_00000000000000000000000000000000", "agnt_live_0", "sabir_0", &free[..41]];
    for stranger in unknown.into_iter().chain([&*longer, &upper, &twice]) {
        let reply = sabir.ask(&request(stranger, "{"));
        expect(&reply, 401, "unauthorized");
        assert_eq!(reply.header("WWW-Authenticate"), Some("Bearer"));
        if !stranger.is_empty() {
            words.push(reply.json()["payload"]["error"]["message"].clone());
        }
    }
    words.dedup();
    assert_eq!(words.len(), 1, "no caller learns which keys there are: {words:?}");
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
