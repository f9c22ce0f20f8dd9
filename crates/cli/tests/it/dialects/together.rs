//! One task in all dialects: opened in each, read, followed, answered and canceled in each other, under the same id.

use super::tongue::Tongue::{Native, V1};
use super::tongue::{ALL, CONTINUING, FOLLOWING, Seen, Tongue, say, told_state, unique};
use super::{DESK, office};
use crate::sabir::{Sabir, eventually};

/// Opens a task, and returns the server's own id, which is the same in every dialect.
#[track_caller]
fn opened(sabir: &Sabir, tongue: Tongue, text: &str) -> (String, Seen) {
    let name = unique("together");
    let said = say(text);
    let seen = sabir.tell(tongue, DESK, &if tongue.names_tasks() { said.to(&name) } else { said });
    if tongue.names_tasks() {
        assert_eq!(seen.id, name, "{tongue:?} shows the name");
    }
    (sabir.id_of(DESK, &seen.id), seen)
}

#[test]
fn a_task_of_any_dialect_is_read_in_every_other() {
    let sabir = office();
    for maker in ALL {
        let (id, made) = opened(&sabir, maker, "quick");
        for reader in ALL {
            let seen = sabir.look(reader, DESK, &id);
            assert_eq!((&seen.id, &*seen.state), (&id, "completed"), "{maker:?} read by {reader:?}");
            assert_eq!(seen.context, made.context, "{maker:?} read by {reader:?}");
            assert_eq!(seen.artifact(0).as_deref(), Some("ab"), "{maker:?} read by {reader:?}: {}", seen.raw);
            assert_eq!(seen.words(), Some("done"), "{maker:?} read by {reader:?}");
        }
    }
}

#[test]
fn a_question_of_any_dialect_is_answered_in_every_other() {
    let sabir = office();
    for maker in ALL {
        for other in CONTINUING {
            let (id, _) = opened(&sabir, maker, "book");
            let done = sabir.tell(other, DESK, &say("Monday").to(&id));
            assert_eq!((&done.id, &*done.state), (&id, "completed"), "{maker:?} answered in {other:?}");
            let seen = sabir.look(maker, DESK, &id);
            assert_eq!((&*seen.state, seen.words()), ("completed", Some("Booked.")), "{maker:?} answered in {other:?}");
        }
    }
}

#[test]
fn an_answer_may_be_streamed_in_another_dialect() {
    let sabir = office();
    for maker in ALL {
        for other in FOLLOWING {
            let (id, _) = opened(&sabir, maker, "book");
            let frames = sabir.tell_streaming(other, DESK, say("Monday").to(&id)).rest();
            let last = told_state(other, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("completed"), "{maker:?} answered in {other:?}");
            assert_eq!(sabir.look(maker, DESK, &id).state, "completed");
        }
    }
}

#[test]
fn a_task_of_any_dialect_is_canceled_in_every_other() {
    let sabir = office();
    for maker in ALL {
        for other in ALL {
            let (id, _) = opened(&sabir, maker, "book");
            let canceled = sabir.call_off(other, DESK, &id);
            let canceled = canceled.unwrap_or_else(|e| panic!("{maker:?} canceled in {other:?}: {e}"));
            assert_eq!((&canceled.id, &*canceled.state), (&id, "canceled"), "{maker:?} canceled in {other:?}");
            assert_eq!(sabir.look(maker, DESK, &id).state, "canceled", "{maker:?} canceled in {other:?}");
        }
    }
}

#[test]
fn a_task_of_any_dialect_is_followed_in_every_other() {
    let sabir = office();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "book");
        let mut streams: Vec<_> = FOLLOWING.iter().map(|t| (*t, sabir.watch(*t, DESK, &id))).collect();
        for (follower, stream) in &mut streams {
            let first = stream.next().unwrap();
            let state = told_state(*follower, &first);
            assert_eq!(state.as_deref(), Some("input-required"), "{maker:?} followed in {follower:?}");
        }
        sabir.tell(V1, DESK, &say("Monday").to(&id));
        for (follower, mut stream) in streams {
            let frames = stream.rest();
            let last = told_state(follower, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("completed"), "{maker:?} followed in {follower:?}");
            assert!(!stream.broken);
        }
    }
}

#[test]
fn a_stream_in_one_dialect_sees_a_cancel_in_another() {
    let sabir = office();
    for follower in FOLLOWING {
        for other in ALL {
            let mut stream = sabir.tell_streaming(follower, DESK, say("forever"));
            let first = stream.next().unwrap();
            let event = first.event();
            let id = event.get("task").unwrap_or(event)["id"].as_str().unwrap().to_owned();
            let id = sabir.id_of(DESK, &id);
            eventually("it works", || sabir.look(V1, DESK, &id).state == "working");
            sabir.call_off(other, DESK, &id).unwrap();
            let frames = stream.rest();
            let last = told_state(follower, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("canceled"), "{follower:?} canceled in {other:?}");
        }
    }
}

#[test]
fn a_conversation_goes_on_in_another_dialect() {
    let sabir = office();
    for maker in ALL {
        let (_, made) = opened(&sabir, maker, "words");
        let context = made.context.unwrap();
        for other in ALL {
            let seen = sabir.tell(other, DESK, &say("words").within(&context));
            assert_eq!(seen.context.as_deref(), Some(&*context), "{maker:?} then {other:?}");
        }
    }
}

#[test]
fn a_settled_task_takes_no_message_by_its_id() {
    let sabir = office();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "quick");
        for other in [V1, Tongue::Rest1, Tongue::V03, Tongue::V02, Tongue::Rest03] {
            let reply = sabir.ask(&other.send(DESK, &say("more").to(&id)));
            assert_eq!(other.read(&reply).unwrap_err(), other.number(-32004), "{maker:?} {other:?}: {}", reply.text());
        }
    }
}

#[test]
fn a_task_is_found_at_its_own_agent_only() {
    let sabir = office();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "quick");
        for other in ALL {
            let reply = sabir.ask(&other.get("/agents/other", &id));
            assert_eq!(other.read(&reply).unwrap_err(), other.number(-32001), "{maker:?} {other:?}");
        }
    }
}

#[test]
fn everything_that_was_opened_is_listed() {
    let sabir = Sabir::start(super::OFFICE);
    let mut ids: Vec<String> = ALL.iter().map(|maker| opened(&sabir, *maker, "quick").0).collect();
    ids.push(sabir.tell(Native, DESK, &say("chat")).id);
    let listed = sabir.result(DESK, "ListTasks", &serde_json::json!({"pageSize": 100}));
    let mut seen: Vec<String> =
        listed["tasks"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    seen.sort();
    assert_eq!(seen, ids);
}
