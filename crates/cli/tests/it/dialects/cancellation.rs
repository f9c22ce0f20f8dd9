//! Each dialect alone: canceling.

use super::dialect_client::DialectClient::{Native, V01, V1, V02, V03, Xpr};
use super::dialect_client::{ALL, outgoing, unique};
use super::{DESK_PATH, office_server};
use crate::test_server::eventually;
use serde_json::json;

#[test]
fn a_task_at_work_is_canceled_in_every_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        let begun = sabir.send_as(V1, DESK_PATH, &outgoing("forever").at_once());
        eventually("it works", || sabir.get_as(V1, DESK_PATH, &begun.id).state == "working");
        let canceled = sabir.cancel_as(tongue, DESK_PATH, &begun.id).unwrap();
        assert_eq!((&canceled.id, &*canceled.state), (&begun.id, "canceled"), "{tongue:?}");
        assert_eq!(sabir.get_as(tongue, DESK_PATH, &begun.id).state, "canceled", "{tongue:?}");
    }
}

#[test]
fn a_task_that_waits_is_canceled_in_every_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        let asked = sabir.send_as(tongue, DESK_PATH, &outgoing("book"));
        assert_eq!(sabir.cancel_as(tongue, DESK_PATH, &asked.id).unwrap().state, "canceled", "{tongue:?}");
    }
}

#[test]
fn a_settled_task_cannot_be_canceled_in_any_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        for text in ["quick", "break", "nothing of the kind"] {
            let done = sabir.send_as(tongue, DESK_PATH, &outgoing(text));
            let code = sabir.cancel_as(tongue, DESK_PATH, &done.id).unwrap_err();
            assert_eq!(code, tongue.error_number(-32002), "{tongue:?} {text}");
            assert_eq!(
                sabir.get_as(tongue, DESK_PATH, &done.id).state,
                done.state,
                "{tongue:?}: and it stays what it was"
            );
        }
    }
}

#[test]
fn a_canceled_task_stays_canceled_however_often_it_is_asked_for() {
    let sabir = office_server();
    for tongue in ALL {
        let asked = sabir.send_as(tongue, DESK_PATH, &outgoing("book"));
        sabir.cancel_as(tongue, DESK_PATH, &asked.id).unwrap();
        let again = sabir.cancel_as(tongue, DESK_PATH, &asked.id);
        assert!(again.is_err() || again.unwrap().state == "canceled", "{tongue:?}");
        assert_eq!(sabir.get_as(tongue, DESK_PATH, &asked.id).state, "canceled");
    }
}

#[test]
fn what_is_not_there_is_not_found_in_the_words_of_the_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        for request in [tongue.get(DESK_PATH, "nobody"), tongue.cancel(DESK_PATH, "nobody")] {
            let reply = sabir.ask(&request);
            assert_eq!(tongue.read(&reply).unwrap_err(), tongue.error_number(-32001), "{tongue:?}: {}", reply.text());
        }
    }
    let error = |tongue: super::dialect_client::DialectClient| {
        sabir.ask(&tongue.get(DESK_PATH, "nobody")).json()["error"].take()
    };
    assert_eq!(error(Xpr), json!({"code": -32001, "message": "Task not found: nobody"}));
    assert_eq!(error(Native), json!({"code": -32001, "message": "Task not found"}));
    // A question about a task looks the same in 0.1 and 0.3, so the error has what either looks for, unless the caller
    // names 0.3 or 0.2: the SDK for Go cannot read an error whose data is an object.
    let named = json!({"code": -32001, "message": "Task not found", "data": {"taskId": "nobody"}});
    let bare = json!({"code": -32001, "message": "Task not found"});
    for (tongue, expected) in [(V01, &named), (V03, &bare), (V02, &bare)] {
        assert_eq!(&error(tongue), expected, "{tongue:?}");
    }
    let unsaid = V03.get(DESK_PATH, "nobody").without("A2A-Version");
    assert_eq!(sabir.ask(&unsaid).json()["error"], named);
    assert!(error(V1)["data"].is_array());
}

#[test]
fn a_cancel_under_a_name_ends_the_task_of_that_name() {
    let sabir = office_server();
    for tongue in [V01, Xpr] {
        let name = unique("off");
        sabir.send_as(tongue, DESK_PATH, &outgoing("book").to(&name));
        let canceled = sabir.cancel_as(tongue, DESK_PATH, &name).unwrap();
        assert_eq!((&canceled.id, &*canceled.state), (&name, "canceled"), "{tongue:?}");
    }
}
