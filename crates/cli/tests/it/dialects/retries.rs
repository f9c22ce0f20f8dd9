//! The same send once more: the same task in every dialect, across dialects, and after a restart.

use super::dialect_client::DialectClient::{self, Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};
use super::dialect_client::{ALL, MESSAGE_NAMING, OutgoingMessage, TaskView, outgoing, unique};
use super::{DESK_PATH, OFFICE_CONFIG};
use crate::http_client::Request;
use crate::rpc_client::uuid;
use crate::test_server::TestServer;
use serde_json::json;

#[track_caller]
fn asked(sabir: &TestServer, tongue: DialectClient, request: &Request) -> TaskView {
    let reply = sabir.ask(request);
    tongue.read(&reply).unwrap_or_else(|e| panic!("{tongue:?} {e}: {}", reply.text()))
}

/// A send with a key. Where the caller names the task, under one name.
fn keyed(tongue: DialectClient, said: &OutgoingMessage<'_>, key: &str) -> Request {
    tongue.send(DESK_PATH, said).with("Idempotency-Key", key)
}

#[test]
fn a_send_with_a_key_is_the_same_task_again_in_every_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, tongue) in (1..).zip(ALL) {
        let (key, name) = (unique("key"), unique("task"));
        let mut said = outgoing("words");
        if tongue.names_tasks() {
            said = said.to(&name);
        }
        let id = unique("m");
        if matches!(tongue, V1 | Rest1 | V03 | V02 | Rest03) {
            said = said.called(&id);
        }
        let first = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        let again = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        assert_eq!(first.raw, again.raw, "{tongue:?}");
        assert_eq!(sabir.task_count(DESK_PATH), n, "{tongue:?}: nothing was opened for the second");
    }
}

#[test]
fn a_key_that_is_used_for_something_else_is_a_conflict_in_every_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for tongue in ALL {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let mut said = outgoing("words");
        if tongue.names_tasks() {
            said = said.to(&name);
        } else if tongue != Native {
            said = said.called(&id);
        }
        asked(&sabir, tongue, &keyed(tongue, &said, &key));
        let reply = sabir.ask(&keyed(tongue, &OutgoingMessage { text: "quick", ..said }, &key));
        let code = tongue.read(&reply).unwrap_err();
        assert_eq!(code, if tongue.is_rest() { 409 } else { -32602 }, "{tongue:?}: {}", reply.text());
    }
}

#[test]
fn a_message_whose_name_is_a_uuid_is_the_same_task_again_in_every_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, tongue) in (1..).zip(MESSAGE_NAMING) {
        let id = uuid();
        let first = sabir.send_as(tongue, DESK_PATH, &outgoing("words").called(&id));
        let again = sabir.send_as(tongue, DESK_PATH, &outgoing("words").called(&id));
        assert_eq!(first.raw, again.raw, "{tongue:?}");
        assert_eq!(sabir.task_count(DESK_PATH), n, "{tongue:?}");
    }
}

#[test]
fn a_message_is_known_again_in_another_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, first) in (1..).zip(MESSAGE_NAMING) {
        let id = uuid();
        let made = sabir.send_as(first, DESK_PATH, &outgoing("words").called(&id));
        for other in MESSAGE_NAMING {
            let again = sabir.send_as(other, DESK_PATH, &outgoing("words").called(&id));
            assert_eq!(again.id, made.id, "{first:?} then {other:?}");
        }
        assert_eq!(sabir.task_count(DESK_PATH), n);
    }
}

#[test]
fn a_key_is_known_again_in_another_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, first) in (1..).zip(MESSAGE_NAMING) {
        let (key, id) = (unique("key"), unique("m"));
        let made = asked(&sabir, first, &keyed(first, &outgoing("words").called(&id), &key));
        for other in MESSAGE_NAMING {
            let again = asked(&sabir, other, &keyed(other, &outgoing("words").called(&id), &key));
            assert_eq!(again.id, made.id, "{first:?} then {other:?}");
        }
        assert_eq!(sabir.task_count(DESK_PATH), n);
    }
    // Where messages have no names, the key is the name.
    let (key, made) = (unique("key"), sabir.task_count(DESK_PATH));
    let native = asked(&sabir, Native, &with_native_key("words", &json!(key), false));
    let header = asked(&sabir, Native, &keyed(Native, &outgoing("words"), &key));
    let xpr = asked(&sabir, Xpr, &keyed(Xpr, &outgoing("words"), &key));
    assert_eq!((&header.id, &xpr.id, sabir.task_count(DESK_PATH)), (&native.id, &native.id, made + 1));
}

#[test]
fn a_uuid_in_a_message_of_01_counts_too() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    let id = uuid();
    let first = sabir.send_as(V01, DESK_PATH, &outgoing("words").to("t").called(&id));
    let again = sabir.send_as(V01, DESK_PATH, &outgoing("words").to("t").called(&id));
    assert_eq!((first.raw, sabir.task_count(DESK_PATH)), (again.raw, 1));
}

#[test]
fn without_a_key_a_settled_name_of_01_is_a_new_task() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for n in 1..=3 {
        sabir.send_as(V01, DESK_PATH, &outgoing("words").to("t"));
        assert_eq!(sabir.task_count(DESK_PATH), n);
    }
}

fn with_native_key(text: &str, key: &serde_json::Value, at_once: bool) -> Request {
    let params = json!({"message": Native.message(&outgoing(text)), "idempotencyKey": key, "async": at_once});
    Native.rpc(DESK_PATH, "message/send", &params)
}

#[test]
fn agent_native_has_its_key_among_the_parameters() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for at_once in [true, false] {
        let key = json!(unique("native"));
        let first = asked(&sabir, Native, &with_native_key("forever", &key, true));
        let again = asked(&sabir, Native, &with_native_key("forever", &key, true));
        assert_eq!(first.id, again.id, "{at_once}");
        sabir.cancel_as(Native, DESK_PATH, &first.id).unwrap();
    }
    let settled = asked(&sabir, Native, &with_native_key("words", &json!("k"), false));
    assert_eq!(asked(&sabir, Native, &with_native_key("words", &json!("k"), false)).raw, settled.raw);
    // Trimmed, as agent-native does it.
    assert_eq!(asked(&sabir, Native, &with_native_key("words", &json!("  k "), false)).id, settled.id);
    let reply = sabir.ask(&with_native_key("quick", &json!("k"), false));
    assert_eq!(Native.read(&reply).unwrap_err(), -32602, "{}", reply.text());
    for bad in [json!(""), json!("  "), json!("x".repeat(129)), json!(7), json!({}), json!("a\u{0}b")] {
        let reply = sabir.ask(&with_native_key("words", &bad, false));
        assert_eq!(Native.read(&reply).unwrap_err(), -32602, "{bad}: {}", reply.text());
    }
    let longest = json!("x".repeat(128));
    let first = asked(&sabir, Native, &with_native_key("words", &longest, false));
    assert_eq!(asked(&sabir, Native, &with_native_key("words", &longest, false)).id, first.id);
    let wide = json!("ü".repeat(128));
    let first = asked(&sabir, Native, &with_native_key("words", &wide, false));
    assert_eq!(
        asked(&sabir, Native, &with_native_key("words", &wide, false)).id,
        first.id,
        "128 characters of any width"
    );
}

#[test]
fn a_key_with_blanks_in_it_is_a_key() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for tongue in [V01, Native, Xpr] {
        let name = unique("blank");
        let said = if tongue == Native { outgoing("words") } else { outgoing("words").to(&name) };
        for key in [format!("two words {}", unique("")), format!("{}{}", unique("long"), "y".repeat(240))] {
            let first = asked(&sabir, tongue, &keyed(tongue, &said, &key));
            let again = asked(&sabir, tongue, &keyed(tongue, &said, &key));
            assert_eq!(first.raw, again.raw, "{tongue:?} {key}");
        }
    }
}

#[test]
fn a_repeated_answer_is_heard_once_in_every_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for tongue in super::dialect_client::CONTINUING {
        let (key, id) = (unique("answer"), unique("m"));
        let open = sabir.send_as(V1, DESK_PATH, &outgoing("book")).id;
        let mut said = outgoing("Monday").to(&open);
        if !tongue.names_tasks() {
            said = said.called(&id);
        }
        let first = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        assert_eq!(first.state, "completed");
        let before = sabir.task_count(DESK_PATH);
        let again = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        assert_eq!((&again.raw, sabir.task_count(DESK_PATH)), (&first.raw, before), "{tongue:?}");
    }
}

#[test]
fn retries_are_known_after_a_restart_in_every_dialect() {
    let mut sabir = TestServer::start(OFFICE_CONFIG);
    let mut sent: Vec<(DialectClient, Request, String)> = Vec::new();
    for tongue in ALL {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let said = match tongue {
            V01 | Xpr => outgoing("words").to(&name),
            Native => outgoing("words"),
            V1 | Rest1 | V03 | V02 | Rest03 => outgoing("words").called(&id),
        };
        sent.push((tongue, keyed(tongue, &said, &key), String::new()));
    }
    let ids: Vec<String> = MESSAGE_NAMING.iter().map(|_| uuid()).collect();
    for (tongue, id) in MESSAGE_NAMING.into_iter().zip(&ids) {
        sent.push((tongue, tongue.send(DESK_PATH, &outgoing("words").called(id)), String::new()));
    }
    sent.push((Native, with_native_key("words", &json!("kept"), false), String::new()));
    for (tongue, request, text) in &mut sent {
        *text = asked(&sabir, *tongue, request).raw.to_string();
    }
    let count = sabir.task_count(DESK_PATH);
    for round in 0..2 {
        sabir = TestServer::start_at(&if round == 0 { sabir.kill() } else { sabir.stop() });
        for (tongue, request, text) in &sent {
            assert_eq!(asked(&sabir, *tongue, request).raw.to_string(), *text, "{tongue:?}");
        }
        assert_eq!(sabir.task_count(DESK_PATH), count);
    }
}

#[test]
fn a_repeated_stream_runs_once_in_every_dialect() {
    let sabir = TestServer::start(OFFICE_CONFIG);
    for (n, tongue) in (1..).zip([V1, Rest1, V03, V02, Rest03, V01, Native]) {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let said = match tongue {
            V01 | Xpr => outgoing("quick").to(&name),
            Native => outgoing("quick"),
            V1 | Rest1 | V03 | V02 | Rest03 => outgoing("quick").called(&id),
        };
        let request = tongue.send(DESK_PATH, &OutgoingMessage { streams: true, ..said }).with("Idempotency-Key", key);
        let first = sabir.open(&request).rest();
        let again = sabir.open(&request).rest();
        assert_eq!(again.last().unwrap().event(), first.last().unwrap().event(), "{tongue:?}");
        assert_eq!(sabir.task_count(DESK_PATH), n, "{tongue:?}");
    }
}
