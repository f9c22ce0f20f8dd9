//! One task in all dialects: opened in each, read, followed, answered and canceled in each other, under the same id.

use super::dialect_client::DialectClient::{Native, V1};
use super::dialect_client::{ALL, CONTINUING, DialectClient, RESUBSCRIBING, TaskView, event_state, outgoing, unique};
use super::{DESK_PATH, office_server};
use crate::test_server::{TestServer, eventually};

/// Opens a task, and returns the server's own id, which is the same in every dialect.
#[track_caller]
fn opened(sabir: &TestServer, tongue: DialectClient, text: &str) -> (String, TaskView) {
    let name = unique("together");
    let said = outgoing(text);
    let seen = sabir.send_as(tongue, DESK_PATH, &if tongue.names_tasks() { said.to(&name) } else { said });
    if tongue.names_tasks() {
        assert_eq!(seen.id, name, "{tongue:?} shows the name");
    }
    (sabir.server_id(DESK_PATH, &seen.id), seen)
}

#[test]
fn a_task_of_any_dialect_is_read_in_every_other() {
    let sabir = office_server();
    for maker in ALL {
        let (id, made) = opened(&sabir, maker, "quick");
        for reader in ALL {
            let seen = sabir.get_as(reader, DESK_PATH, &id);
            assert_eq!((&seen.id, &*seen.state), (&id, "completed"), "{maker:?} read by {reader:?}");
            assert_eq!(seen.context, made.context, "{maker:?} read by {reader:?}");
            assert_eq!(seen.artifact(0).as_deref(), Some("ab"), "{maker:?} read by {reader:?}: {}", seen.raw);
            assert_eq!(seen.status_text(), Some("done"), "{maker:?} read by {reader:?}");
        }
    }
}

#[test]
fn a_question_of_any_dialect_is_answered_in_every_other() {
    let sabir = office_server();
    for maker in ALL {
        for other in CONTINUING {
            let (id, _) = opened(&sabir, maker, "book");
            let done = sabir.send_as(other, DESK_PATH, &outgoing("Monday").to(&id));
            assert_eq!((&done.id, &*done.state), (&id, "completed"), "{maker:?} answered in {other:?}");
            let seen = sabir.get_as(maker, DESK_PATH, &id);
            assert_eq!(
                (&*seen.state, seen.status_text()),
                ("completed", Some("Booked.")),
                "{maker:?} answered in {other:?}"
            );
        }
    }
}

#[test]
fn an_answer_may_be_streamed_in_another_dialect() {
    let sabir = office_server();
    for maker in ALL {
        for other in RESUBSCRIBING {
            let (id, _) = opened(&sabir, maker, "book");
            let frames = sabir.stream_as(other, DESK_PATH, outgoing("Monday").to(&id)).rest();
            let last = event_state(other, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("completed"), "{maker:?} answered in {other:?}");
            assert_eq!(sabir.get_as(maker, DESK_PATH, &id).state, "completed");
        }
    }
}

#[test]
fn a_task_of_any_dialect_is_canceled_in_every_other() {
    let sabir = office_server();
    for maker in ALL {
        for other in ALL {
            let (id, _) = opened(&sabir, maker, "book");
            let canceled = sabir.cancel_as(other, DESK_PATH, &id);
            let canceled = canceled.unwrap_or_else(|e| panic!("{maker:?} canceled in {other:?}: {e}"));
            assert_eq!((&canceled.id, &*canceled.state), (&id, "canceled"), "{maker:?} canceled in {other:?}");
            assert_eq!(sabir.get_as(maker, DESK_PATH, &id).state, "canceled", "{maker:?} canceled in {other:?}");
        }
    }
}

#[test]
fn a_task_of_any_dialect_is_followed_in_every_other() {
    let sabir = office_server();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "book");
        let mut streams: Vec<_> = RESUBSCRIBING.iter().map(|t| (*t, sabir.subscribe_as(*t, DESK_PATH, &id))).collect();
        for (follower, stream) in &mut streams {
            let first = stream.next().unwrap();
            let state = event_state(*follower, &first);
            assert_eq!(state.as_deref(), Some("input-required"), "{maker:?} followed in {follower:?}");
        }
        sabir.send_as(V1, DESK_PATH, &outgoing("Monday").to(&id));
        for (follower, mut stream) in streams {
            let frames = stream.rest();
            let last = event_state(follower, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("completed"), "{maker:?} followed in {follower:?}");
            assert!(!stream.broken);
        }
    }
}

#[test]
fn a_stream_in_one_dialect_sees_a_cancel_in_another() {
    let sabir = office_server();
    for follower in RESUBSCRIBING {
        for other in ALL {
            let mut stream = sabir.stream_as(follower, DESK_PATH, outgoing("forever"));
            let first = stream.next().unwrap();
            let event = first.event();
            let id = event.get("task").unwrap_or(event)["id"].as_str().unwrap().to_owned();
            let id = sabir.server_id(DESK_PATH, &id);
            eventually("it works", || sabir.get_as(V1, DESK_PATH, &id).state == "working");
            sabir.cancel_as(other, DESK_PATH, &id).unwrap();
            let frames = stream.rest();
            let last = event_state(follower, frames.last().unwrap());
            assert_eq!(last.as_deref(), Some("canceled"), "{follower:?} canceled in {other:?}");
        }
    }
}

#[test]
fn a_conversation_goes_on_in_another_dialect() {
    let sabir = office_server();
    for maker in ALL {
        let (_, made) = opened(&sabir, maker, "words");
        let context = made.context.unwrap();
        for other in ALL {
            let seen = sabir.send_as(other, DESK_PATH, &outgoing("words").within(&context));
            assert_eq!(seen.context.as_deref(), Some(&*context), "{maker:?} then {other:?}");
        }
    }
}

#[test]
fn a_settled_task_takes_no_message_by_its_id() {
    let sabir = office_server();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "quick");
        for other in [V1, DialectClient::Rest1, DialectClient::V03, DialectClient::V02, DialectClient::Rest03] {
            let reply = sabir.ask(&other.send(DESK_PATH, &outgoing("more").to(&id)));
            assert_eq!(
                other.read(&reply).unwrap_err(),
                other.error_number(-32004),
                "{maker:?} {other:?}: {}",
                reply.text()
            );
        }
    }
}

#[test]
fn a_task_is_found_at_its_own_agent_only() {
    let sabir = office_server();
    for maker in ALL {
        let (id, _) = opened(&sabir, maker, "quick");
        for other in ALL {
            let reply = sabir.ask(&other.get("/agents/other", &id));
            assert_eq!(other.read(&reply).unwrap_err(), other.error_number(-32001), "{maker:?} {other:?}");
        }
    }
}

#[test]
fn everything_that_was_opened_is_listed() {
    let sabir = TestServer::start(super::OFFICE_CONFIG);
    let mut ids: Vec<String> = ALL.iter().map(|maker| opened(&sabir, *maker, "quick").0).collect();
    ids.push(sabir.send_as(Native, DESK_PATH, &outgoing("chat")).id);
    let listed = sabir.result(DESK_PATH, "ListTasks", &serde_json::json!({"pageSize": 100}));
    let mut seen: Vec<String> =
        listed["tasks"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    seen.sort();
    assert_eq!(seen, ids);
}
