//! The effects of an envelope, which happen once.

use super::{envelope, expect, home, key, network, post, stamp};
use crate::command_runner::CommandDirectory;
use crate::http_client::Request;
use crate::test_server::{TestServer, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::thread;

#[test]
fn the_first_call_works_as_it_is_printed() {
    let (sabir, key) = network();
    let body = format!(
        r#"{{"protocol":"openclaw/a2a/v1","from":"my_agent_001","to":"network:agnt","intent":"network.ping","payload":{{}},"ttl_ms":5000,"timestamp":"{}"}}"#,
        stamp(0)
    );
    let request = Request::post("/a2a/v1", body).with("Authorization", format!("Bearer {key}")).without("A2A-Version");
    let reply = sabir.ask(&request);
    expect(&reply, 200, "ok");
    let said = reply.json();
    assert_eq!((&said["from"], &said["to"]), (&json!("network:agnt"), &json!("my_agent_001")));
    assert_eq!(said["payload"]["active_venues"], 3);
    assert_eq!((&said["payload"]["tier"], &said["payload"]["agent_id"]), (&json!("pro"), &json!("my_agent_001")));
    assert_eq!(reply.header("Cache-Control"), Some("no-store"));
    // The context comes back as it was sent, digit by digit.
    let context = r#"{"z":[1,1.0,12345678901234567890123,{"b":null}],"é":"🎉"}"#;
    let body = format!(r#"{{"from":"a","intent":"network.ping","agent_context":{context}}}"#);
    let echoed = sabir.ask(&super::request(&key, body)).text();
    assert!(echoed.contains(context), "{echoed}");
    // What has a default may be left out.
    expect(&post(&sabir, &key, &json!({"from": "a", "intent": "network.ping"})), 200, "ok");
    expect(&post(&sabir, &key, &json!({"from_agent": "a", "intent": "network.ping"})), 200, "ok");
}

#[test]
fn a_search_that_is_sent_again_gets_its_answer_again_and_counts_once() {
    let (sabir, key) = network();
    let search = envelope("booking.search", &json!({"query": "sea", "location": "canggu"}));
    let first = post(&sabir, &key, &search);
    expect(&first, 200, "ok");
    assert_eq!(first.header("A2A-Idempotent-Replay"), None);
    for _ in 0..2 {
        let again = post(&sabir, &key, &search);
        expect(&again, 200, "ok");
        assert_eq!(again.header("A2A-Idempotent-Replay"), Some("true"));
        assert_eq!(again.json()["payload"], first.json()["payload"], "when the offer ends is part of the answer");
    }
    // Another search, another moment or another key is another event.
    let mut other = search.clone();
    other["payload"]["query"] = json!("brisa");
    expect(&post(&sabir, &key, &other), 200, "ok");
    let mut later = search.clone();
    later["timestamp"] = stamp(1000).into();
    expect(&post(&sabir, &key, &later), 200, "ok");
    let counted = |status: &str| {
        let text = sabir.ask(&Request::get("/metrics")).text();
        let line = format!("a2a_requests_total{{intent=\"booking.search\",tier=\"pro\",status=\"{status}\"}} ");
        text.lines().find_map(|found| found.strip_prefix(&line).map(str::to_owned))
    };
    assert_eq!((counted("ok").as_deref(), counted("duplicate").as_deref()), (Some("3"), Some("2")));
}

#[test]
fn a_booking_is_tracked_by_envelope_under_its_own_key_and_no_other() {
    let home = home("");
    let (key, other) = (key(&home, &["--tier", "pro"]), super::key(&home, &["--tier", "pro"]));
    let sabir = TestServer::start_at(&home);
    let made = post(&sabir, &key, &envelope("booking.confirm", &json!({"venue_id": "warung", "party_size": 2}))).json();
    let id = &made["payload"]["booking_id"];
    let track = |key: &str| post(&sabir, key, &envelope("booking.status", &json!({"booking_id": id})));
    let first = track(&key);
    expect(&first, 200, "ok");
    assert_eq!((&first.json()["payload"]["status"], &first.json()["payload"]["booking_id"]), (&json!("pending"), id));
    expect(&track(&other), 404, "booking_not_found");
    let (data, config) = (home.data().display().to_string(), home.path("sabir.toml").display().to_string());
    let confirm = ["booking", "transition", id.as_str().unwrap(), "confirmed", "--config", &config, "--data", &data];
    CommandDirectory::new().run(&confirm).expect_success();
    let moved = track(&key).json();
    assert_eq!(moved["payload"]["status"], "confirmed", "{moved}");
    assert!(moved["payload"]["updated_at"].is_string());
    expect(&post(&sabir, &key, &envelope("booking.status", &json!({}))), 422, "invalid_payload");
}

#[test]
fn what_is_found_can_be_booked_once_however_often_it_is_sent() {
    let (sabir, key) = network();
    let found = post(&sabir, &key, &envelope("booking.search", &json!({"query": "brisa sea", "location": "canggu"})));
    expect(&found, 200, "ok");
    let found = found.json();
    assert_eq!((&found["payload"]["count"], &found["payload"]["fee_pct"]), (&json!(1), &json!(7.0)));
    let venue = &found["payload"]["venues"][0];
    let mut order = envelope("booking.confirm", &json!({"venue_id": venue["id"], "slot_id": "s2", "party_size": 4}));
    order["timestamp"] = stamp(0)[..19].to_owned().into();
    order["timestamp"] = format!("{}Z", order["timestamp"].as_str().unwrap()).into();
    order["agent_context"] = json!({"correlation_id": "c-1", "n": 1});
    let first = post(&sabir, &key, &order);
    expect(&first, 200, "ok");
    assert_eq!(first.header("A2A-Idempotent-Replay"), None);
    let booking = first.json()["payload"]["booking_id"].clone();
    assert_eq!(first.json()["payload"]["status"], "pending");
    // The same instant in another spelling, with another context and another time to live, is the same order.
    order["timestamp"] = order["timestamp"].as_str().unwrap().replace('Z', ".000+00:00").into();
    order["agent_context"] = json!({"correlation_id": "c-2"});
    order["ttl_ms"] = json!(9000);
    let again = post(&sabir, &key, &order);
    expect(&again, 200, "ok");
    assert_eq!(again.header("A2A-Idempotent-Replay"), Some("true"));
    assert_eq!(again.json()["payload"]["booking_id"], booking);
    assert_eq!(again.json()["agent_context"], json!({"correlation_id": "c-2"}));
    // Anything else under the same instant is a conflict, and no second booking.
    let mut other = order.clone();
    other["payload"]["party_size"] = json!(5);
    expect(&post(&sabir, &key, &other), 409, "idempotency_conflict");
    other["payload"]["party_size"] = json!(4);
    other["to"] = "venue_la-brisa".into();
    expect(&post(&sabir, &key, &other), 409, "idempotency_conflict");
    // Another sender of the same key has instants of its own.
    order["from"] = "my_agent_002".into();
    let theirs = post(&sabir, &key, &order);
    expect(&theirs, 200, "ok");
    assert_ne!(theirs.json()["payload"]["booking_id"], booking);
    let text = sabir.ask(&Request::get("/metrics")).text();
    for line in [
        r#"a2a_requests_total{intent="booking.confirm",tier="pro",status="ok"} 2"#,
        r#"a2a_requests_total{intent="booking.confirm",tier="pro",status="duplicate"} 1"#,
        r#"a2a_requests_total{intent="booking.confirm",tier="pro",status="idempotency_conflict"} 2"#,
        r#"a2a_requests_total{intent="booking.search",tier="pro",status="ok"} 1"#,
        "a2a_metered_events_total 2",
        r#"a2a_idempotency_total{result="duplicate"} 1"#,
        "a2a_metering_drift 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // A retry finds its answer after a restart too, and what was counted stays counted.
    let home = sabir.kill();
    let sabir = TestServer::start_at(&home);
    let after = post(&sabir, &key, &order);
    assert_eq!(after.header("A2A-Idempotent-Replay"), Some("true"));
    assert!(sabir.ask(&Request::get("/metrics")).text().contains("a2a_metered_events_total 2\n"));
}

#[test]
fn a_venue_is_named_by_slug_or_id_and_a_time_by_two_members() {
    let (sabir, key) = network();
    let found = post(&sabir, &key, &envelope("booking.search", &json!({"query": "brisa"}))).json();
    let id = found["payload"]["venues"][0]["id"].as_str().unwrap().to_owned();
    let (slot, free) = ("2027-01-01T21:00:00Z", "2027-03-01T19:30:00+08:00");
    for (order, slug) in [
        (json!({"venue_id": "la-brisa", "slot_id": "s2"}), "la-brisa"),
        (json!({"venue_id": id, "slot_id": "s2"}), "la-brisa"),
        (json!({"venue_id": id.to_uppercase(), "time": slot}), "la-brisa"),
        (json!({"venue_id": "warung", "time": free}), "warung"),
        (json!({"venue_id": "warung", "slot_time": free}), "warung"),
        (json!({"venue_id": "warung", "time": free, "slot_time": free}), "warung"),
        (json!({"venue_id": "warung", "slot_id": null, "time": null, "party_size": null, "user_note": null}), "warung"),
        (json!({"venue_id": "warung", "party_size": 1000, "user_note": "🎉".repeat(2000)}), "warung"),
    ] {
        let reply = post(&sabir, &key, &envelope("booking.confirm", &order));
        expect(&reply, 200, "ok");
        let said = reply.json()["payload"].clone();
        assert_eq!((&said["venue"]["slug"], &said["status"]), (&json!(slug), &json!("pending")), "{order}");
    }
}

#[test]
fn of_many_who_want_one_slot_one_gets_it() {
    let (sabir, key) = network();
    let sabir = Arc::new(sabir);
    let racing: Vec<_> = (0..8)
        .map(|n| {
            let (sabir, key) = (sabir.clone(), key.clone());
            thread::spawn(move || {
                let mut order = envelope("booking.confirm", &json!({"venue_id": "la-brisa", "slot_id": "s1"}));
                order["from"] = format!("agent_{n}").into();
                let reply = post(&sabir, &key, &order);
                (reply.status, reply.json()["payload"]["error"]["code"].as_str().unwrap_or("ok").to_owned())
            })
        })
        .collect();
    let mut ends: Vec<_> = racing.into_iter().map(|racer| racer.join().unwrap()).collect();
    ends.sort();
    assert_eq!(ends[0], (200, "ok".to_owned()));
    assert!(ends[1..].iter().all(|end| *end == (409, "slot_unavailable".to_owned())), "{ends:?}");
    let sabir = Arc::into_inner(sabir).unwrap();
    let home = sabir.stop();
    let count = |table: &str| -> i64 {
        home.open_database().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("booking"), count("usage")), (1, 1));
}

#[test]
fn copies_that_arrive_together_are_one_booking() {
    let (sabir, key) = network();
    let sabir = Arc::new(sabir);
    let order = envelope("booking.confirm", &json!({"venue_id": "warung"}));
    let copies: Vec<_> = (0..6)
        .map(|_| {
            let (sabir, key, order) = (sabir.clone(), key.clone(), order.clone());
            thread::spawn(move || {
                let reply = post(&sabir, &key, &order);
                let replay = reply.header("A2A-Idempotent-Replay").is_some();
                (reply.status, reply.json()["payload"]["booking_id"].clone(), replay)
            })
        })
        .collect();
    let ends: Vec<_> = copies.into_iter().map(|copy| copy.join().unwrap()).collect();
    assert!(ends.iter().all(|(status, id, _)| *status == 200 && *id == ends[0].1 && id.is_string()), "{ends:?}");
    assert_eq!(ends.iter().filter(|(_, _, replay)| !replay).count(), 1, "{ends:?}");
    assert!(sabir.ask(&Request::get("/metrics")).text().contains("a2a_metered_events_total 1\n"));
}

#[test]
fn a_refusal_is_heard_again_and_a_venue_that_is_closed_is_none() {
    let (sabir, key) = network();
    for venue in ["closed", "nowhere", "00000000-0000-4000-8000-000000000000"] {
        let order = envelope("booking.confirm", &json!({"venue_id": venue}));
        expect(&post(&sabir, &key, &order), 404, "venue_not_found");
        expect(&post(&sabir, &key, &order), 404, "venue_not_found");
    }
    let order = envelope("booking.confirm", &json!({"venue_id": "la-brisa", "slot_id": "s9"}));
    expect(&post(&sabir, &key, &order), 409, "slot_unavailable");
    let mut elsewhere = envelope("network.ping", &json!({}));
    elsewhere["to"] = "network:nowhere".into();
    expect(&post(&sabir, &key, &elsewhere), 404, "venue_not_found");
}

#[test]
fn both_tongues_meet_the_same_lines() {
    let home = home("");
    let (free, pro) = (key(&home, &["--tier", "free"]), key(&home, &["--tier", "pro", "--scope", "booking,read"]));
    let sabir = TestServer::start_at(&home);
    let say = |key: Option<&str>, skill: Option<&str>, part: Value| {
        let mut message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [part]});
        if let Some(skill) = skill {
            message["metadata"] = json!({"skillId": skill, "urn:sabir:agnt": {"to": "network:elsewhere"}});
        }
        let body = json!({"message": message}).to_string();
        let mut request = Request::post("/agents/network/message:send", body);
        if let Some(key) = key {
            request = request.with("Authorization", format!("Bearer {key}"));
        }
        sabir.ask(&request)
    };
    let order = json!({"data": {"venue_id": "warung"}});
    assert_eq!(say(None, Some("booking.confirm"), order.clone()).status, 401);
    assert_eq!(say(Some(&free), Some("booking.confirm"), order.clone()).status, 403);
    let booked = say(Some(&pro), Some("booking.confirm"), order);
    assert_eq!(booked.status, 200, "{}", booked.text());
    let booked = booked.json();
    assert_eq!(booked["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(booked["task"]["artifacts"][0]["artifactId"], "booking");
    assert_eq!(
        say(Some(&free), Some("network.ping"), json!({"data": {}})).json()["message"]["parts"][0]["data"]["tier"],
        "free"
    );
    // A text says what it asks for, so a key that may only look can look.
    assert_eq!(say(Some(&free), None, json!({"text": "venues in Canggu"})).status, 200);
    assert_eq!(say(Some(&free), None, json!({"text": "book warung"})).status, 403);
    assert_eq!(say(Some(&pro), None, json!({"text": "book warung for 2"})).status, 200);
    let text = sabir.ask(&Request::get("/metrics")).text();
    assert!(text.contains("a2a_metered_events_total 2\n"), "{text}");
}

#[test]
fn every_envelope_is_recorded_and_no_secret_is() {
    let home = home("");
    let pro = key(&home, &["--tier", "pro"]);
    let sabir = TestServer::start_at(&home);
    let mut order = envelope("booking.confirm", &json!({"venue_id": "warung", "user_note": "call agnt_live_00112233"}));
    order["agent_context"] = json!({"correlation_id": "c-9", "token": "hush-hush"});
    expect(&post(&sabir, &pro, &order), 200, "ok");
    expect(&post(&sabir, &pro, &order), 200, "ok");
    expect(&post(&sabir, &pro, &envelope("venue.list", &json!({"token": "hush-hush"}))), 422, "invalid_payload");
    expect(&post(&sabir, "agnt_live_00000000000000000000000000000000", &order), 401, "unauthorized");
    expect(&post(&sabir, &pro, &json!({"from": "a"})), 422, "invalid_envelope");
    let audit = || {
        let (data, config) = (home.data().display().to_string(), home.path("sabir.toml").display().to_string());
        let ran =
            CommandDirectory::new().run(&["audit", "envelopes", "-o", "json", "--config", &config, "--data", &data]);
        ran.expect_success();
        ran.json()["envelopes"].as_array().unwrap().clone()
    };
    eventually("all five are written", || audit().len() == 5);
    let rows = audit();
    let find =
        |status: &str| rows.iter().find(|row| row["status"] == status).unwrap_or_else(|| panic!("{status}: {rows:#?}"));
    let ok = find("ok");
    assert_eq!((&ok["correlationId"], &ok["tier"], &ok["httpStatus"]), (&json!("c-9"), &json!("pro"), &json!(200)));
    assert_eq!(find("duplicate")["bookingId"], ok["bookingId"]);
    assert!(ok["bookingId"].is_string() && ok["remoteAddr"] == "127.0.0.1");
    let stranger = find("unauthorized");
    assert!(stranger.get("payload").is_none() && stranger.get("key").is_none(), "{stranger}");
    let all = serde_json::to_string(&rows).unwrap();
    assert!(!all.contains("hush-hush") && !all.contains("00112233"), "{all}");
}
