//! The same send once more: the same task in every dialect, across dialects, and after a restart.

use super::tongue::Tongue::{self, Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};
use super::tongue::{ALL, MESSAGE_NAMING, Say, Seen, say, unique};
use super::{DESK, OFFICE};
use crate::ask::uuid;
use crate::http::Request;
use crate::sabir::Sabir;
use serde_json::json;

#[track_caller]
fn asked(sabir: &Sabir, tongue: Tongue, request: &Request) -> Seen {
    let reply = sabir.ask(request);
    tongue.read(&reply).unwrap_or_else(|e| panic!("{tongue:?} {e}: {}", reply.text()))
}

/// A send with a key. Where the caller names the task, under one name.
fn keyed(tongue: Tongue, said: &Say<'_>, key: &str) -> Request {
    tongue.send(DESK, said).with("Idempotency-Key", key)
}

#[test]
fn a_send_with_a_key_is_the_same_task_again_in_every_dialect() {
    let sabir = Sabir::start(OFFICE);
    for (n, tongue) in (1..).zip(ALL) {
        let (key, name) = (unique("key"), unique("task"));
        let mut said = say("words");
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
        assert_eq!(sabir.count(DESK), n, "{tongue:?}: nothing was opened for the second");
    }
}

#[test]
fn a_key_that_is_used_for_something_else_is_a_conflict_in_every_dialect() {
    let sabir = Sabir::start(OFFICE);
    for tongue in ALL {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let mut said = say("words");
        if tongue.names_tasks() {
            said = said.to(&name);
        } else if tongue != Native {
            said = said.called(&id);
        }
        asked(&sabir, tongue, &keyed(tongue, &said, &key));
        let reply = sabir.ask(&keyed(tongue, &Say { text: "quick", ..said }, &key));
        let code = tongue.read(&reply).unwrap_err();
        assert_eq!(code, if tongue.is_rest() { 409 } else { -32602 }, "{tongue:?}: {}", reply.text());
    }
}

#[test]
fn a_message_whose_name_is_a_uuid_is_the_same_task_again_in_every_dialect() {
    let sabir = Sabir::start(OFFICE);
    for (n, tongue) in (1..).zip(MESSAGE_NAMING) {
        let id = uuid();
        let first = sabir.tell(tongue, DESK, &say("words").called(&id));
        let again = sabir.tell(tongue, DESK, &say("words").called(&id));
        assert_eq!(first.raw, again.raw, "{tongue:?}");
        assert_eq!(sabir.count(DESK), n, "{tongue:?}");
    }
}

#[test]
fn a_message_is_known_again_in_another_dialect() {
    let sabir = Sabir::start(OFFICE);
    for (n, first) in (1..).zip(MESSAGE_NAMING) {
        let id = uuid();
        let made = sabir.tell(first, DESK, &say("words").called(&id));
        for other in MESSAGE_NAMING {
            let again = sabir.tell(other, DESK, &say("words").called(&id));
            assert_eq!(again.id, made.id, "{first:?} then {other:?}");
        }
        assert_eq!(sabir.count(DESK), n);
    }
}

#[test]
fn a_key_is_known_again_in_another_dialect() {
    let sabir = Sabir::start(OFFICE);
    for (n, first) in (1..).zip(MESSAGE_NAMING) {
        let (key, id) = (unique("key"), unique("m"));
        let made = asked(&sabir, first, &keyed(first, &say("words").called(&id), &key));
        for other in MESSAGE_NAMING {
            let again = asked(&sabir, other, &keyed(other, &say("words").called(&id), &key));
            assert_eq!(again.id, made.id, "{first:?} then {other:?}");
        }
        assert_eq!(sabir.count(DESK), n);
    }
    // Where messages have no names, the key is the name.
    let (key, made) = (unique("key"), sabir.count(DESK));
    let native = asked(&sabir, Native, &with_native_key("words", &json!(key), false));
    let header = asked(&sabir, Native, &keyed(Native, &say("words"), &key));
    let xpr = asked(&sabir, Xpr, &keyed(Xpr, &say("words"), &key));
    assert_eq!((&header.id, &xpr.id, sabir.count(DESK)), (&native.id, &native.id, made + 1));
}

#[test]
fn a_uuid_in_a_message_of_01_counts_too() {
    let sabir = Sabir::start(OFFICE);
    let id = uuid();
    let first = sabir.tell(V01, DESK, &say("words").to("t").called(&id));
    let again = sabir.tell(V01, DESK, &say("words").to("t").called(&id));
    assert_eq!((first.raw, sabir.count(DESK)), (again.raw, 1));
}

#[test]
fn without_a_key_a_settled_name_of_01_is_a_new_task() {
    let sabir = Sabir::start(OFFICE);
    for n in 1..=3 {
        sabir.tell(V01, DESK, &say("words").to("t"));
        assert_eq!(sabir.count(DESK), n);
    }
}

fn with_native_key(text: &str, key: &serde_json::Value, at_once: bool) -> Request {
    let params = json!({"message": Native.message(&say(text)), "idempotencyKey": key, "async": at_once});
    Native.rpc(DESK, "message/send", &params)
}

#[test]
fn agent_native_has_its_key_among_the_parameters() {
    let sabir = Sabir::start(OFFICE);
    for at_once in [true, false] {
        let key = json!(unique("native"));
        let first = asked(&sabir, Native, &with_native_key("forever", &key, true));
        let again = asked(&sabir, Native, &with_native_key("forever", &key, true));
        assert_eq!(first.id, again.id, "{at_once}");
        sabir.call_off(Native, DESK, &first.id).unwrap();
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
    let sabir = Sabir::start(OFFICE);
    for tongue in [V01, Native, Xpr] {
        let name = unique("blank");
        let said = if tongue == Native { say("words") } else { say("words").to(&name) };
        for key in [format!("two words {}", unique("")), format!("{}{}", unique("long"), "y".repeat(240))] {
            let first = asked(&sabir, tongue, &keyed(tongue, &said, &key));
            let again = asked(&sabir, tongue, &keyed(tongue, &said, &key));
            assert_eq!(first.raw, again.raw, "{tongue:?} {key}");
        }
    }
}

#[test]
fn a_repeated_answer_is_heard_once_in_every_dialect() {
    let sabir = Sabir::start(OFFICE);
    for tongue in super::tongue::CONTINUING {
        let (key, id) = (unique("answer"), unique("m"));
        let open = sabir.tell(V1, DESK, &say("book")).id;
        let mut said = say("Monday").to(&open);
        if !tongue.names_tasks() {
            said = said.called(&id);
        }
        let first = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        assert_eq!(first.state, "completed");
        let before = sabir.count(DESK);
        let again = asked(&sabir, tongue, &keyed(tongue, &said, &key));
        assert_eq!((&again.raw, sabir.count(DESK)), (&first.raw, before), "{tongue:?}");
    }
}

#[test]
fn retries_are_known_after_a_restart_in_every_dialect() {
    let mut sabir = Sabir::start(OFFICE);
    let mut sent: Vec<(Tongue, Request, String)> = Vec::new();
    for tongue in ALL {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let said = match tongue {
            V01 | Xpr => say("words").to(&name),
            Native => say("words"),
            V1 | Rest1 | V03 | V02 | Rest03 => say("words").called(&id),
        };
        sent.push((tongue, keyed(tongue, &said, &key), String::new()));
    }
    let ids: Vec<String> = MESSAGE_NAMING.iter().map(|_| uuid()).collect();
    for (tongue, id) in MESSAGE_NAMING.into_iter().zip(&ids) {
        sent.push((tongue, tongue.send(DESK, &say("words").called(id)), String::new()));
    }
    sent.push((Native, with_native_key("words", &json!("kept"), false), String::new()));
    for (tongue, request, text) in &mut sent {
        *text = asked(&sabir, *tongue, request).raw.to_string();
    }
    let count = sabir.count(DESK);
    for round in 0..2 {
        sabir = Sabir::at(&if round == 0 { sabir.kill() } else { sabir.stop() });
        for (tongue, request, text) in &sent {
            assert_eq!(asked(&sabir, *tongue, request).raw.to_string(), *text, "{tongue:?}");
        }
        assert_eq!(sabir.count(DESK), count);
    }
}

#[test]
fn a_repeated_stream_runs_once_in_every_dialect() {
    let sabir = Sabir::start(OFFICE);
    for (n, tongue) in (1..).zip([V1, Rest1, V03, V02, Rest03, V01, Native]) {
        let (key, name, id) = (unique("key"), unique("task"), unique("m"));
        let said = match tongue {
            V01 | Xpr => say("quick").to(&name),
            Native => say("quick"),
            V1 | Rest1 | V03 | V02 | Rest03 => say("quick").called(&id),
        };
        let request = tongue.send(DESK, &Say { streams: true, ..said }).with("Idempotency-Key", key);
        let first = sabir.open(&request).rest();
        let again = sabir.open(&request).rest();
        assert_eq!(again.last().unwrap().event(), first.last().unwrap().event(), "{tongue:?}");
        assert_eq!(sabir.count(DESK), n, "{tongue:?}");
    }
}
