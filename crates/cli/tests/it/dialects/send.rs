//! Each dialect alone: sends that wait and sends that do not, questions, direct replies, and where the answer is.

use super::dialect_client::DialectClient::{Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};
use super::dialect_client::{ALL, CONTINUING, DialectClient, outgoing, unique};
use super::{DESK_PATH, office_server};
use crate::http_client::Request;
use crate::test_server::eventually;
use serde_json::{Value, json};

#[test]
fn a_send_waits_for_the_answer_in_every_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        let seen = sabir.send_as(tongue, DESK_PATH, &outgoing("quick"));
        assert_eq!(seen.state, "completed", "{tongue:?}");
        assert_eq!(seen.artifact(0).as_deref(), Some("ab"), "{tongue:?}: {}", seen.raw);
        let again = sabir.get_as(tongue, DESK_PATH, &seen.id);
        assert_eq!((&again.id, &again.state, &again.context), (&seen.id, &seen.state, &seen.context), "{tongue:?}");
        assert!(seen.context.is_some(), "{tongue:?}: every task has a conversation");
    }
}

#[test]
fn the_default_agent_answers_at_the_root_in_every_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        let seen = sabir.send_as(tongue, "", &outgoing("hello"));
        assert_eq!((&*seen.state, seen.artifact(0).as_deref()), ("completed", Some("hello")), "{tongue:?}");
    }
}

#[test]
fn who_does_not_want_to_wait_is_answered_at_once_and_may_ask_again() {
    let sabir = office_server();
    for tongue in [V1, Rest1, V03, V02, Rest03, Native] {
        let seen = sabir.send_as(tongue, DESK_PATH, &outgoing("slow").at_once());
        assert!(["submitted", "working"].contains(&&*seen.state), "{tongue:?}: {}", seen.raw);
        eventually("the task is done", || sabir.get_as(tongue, DESK_PATH, &seen.id).state == "completed");
        assert_eq!(sabir.get_as(tongue, DESK_PATH, &seen.id).artifact(0).as_deref(), Some("ab"));
    }
}

#[test]
fn only_the_boolean_makes_agent_native_answer_at_once() {
    let sabir = office_server();
    for word in [json!("true"), json!(1), json!(false), Value::Null] {
        let params = json!({"message": Native.message(&outgoing("slow")), "async": word});
        let reply = sabir.ask(&Native.rpc(DESK_PATH, "message/send", &params));
        assert_eq!(Native.read(&reply).unwrap().state, "completed", "{word}");
    }
    let params = json!({"message": Native.message(&outgoing("slow")), "metadata": {"async": true}});
    assert_eq!(Native.read(&sabir.ask(&Native.rpc(DESK_PATH, "message/send", &params))).unwrap().state, "completed");
}

#[test]
fn agent_native_calls_a_polled_task_at_work_processing() {
    let sabir = office_server();
    let seen = sabir.send_as(Native, DESK_PATH, &outgoing("forever").at_once());
    eventually("it works", || sabir.get_as(V1, DESK_PATH, &seen.id).state == "working");
    let polled = sabir.ask(&Native.get(DESK_PATH, &seen.id)).json();
    assert_eq!(polled["result"]["status"]["state"], "processing", "{polled}");
    let canceled = sabir.cancel_as(Native, DESK_PATH, &seen.id).unwrap();
    assert_eq!(canceled.state, "canceled");
}

#[test]
fn a_question_is_asked_and_answered_in_every_dialect_that_continues() {
    let sabir = office_server();
    for tongue in CONTINUING {
        let name = unique("booking");
        let said = outgoing("book");
        let asked = sabir.send_as(tongue, DESK_PATH, &if tongue.names_tasks() { said.to(&name) } else { said });
        assert_eq!((&*asked.state, asked.status_text()), ("input-required", Some("Which day?")), "{tongue:?}");
        let done = sabir.send_as(tongue, DESK_PATH, &outgoing("Monday").to(&asked.id));
        assert_eq!(
            (&done.id, &*done.state, done.status_text()),
            (&asked.id, "completed", Some("Booked.")),
            "{tongue:?}"
        );
        assert_eq!(done.context, asked.context);
    }
}

#[test]
fn agent_native_shows_a_question_though_it_cannot_answer_one() {
    let sabir = office_server();
    let asked = sabir.send_as(Native, DESK_PATH, &outgoing("book"));
    assert_eq!((&*asked.state, asked.status_text()), ("input-required", Some("Which day?")));
    // A message is always a new task there.
    let other = sabir.send_as(Native, DESK_PATH, &outgoing("quick"));
    assert_ne!(asked.id, other.id);
    assert_eq!(sabir.get_as(Native, DESK_PATH, &asked.id).state, "input-required");
}

#[test]
fn a_direct_reply_is_a_message_where_there_are_such() {
    let sabir = office_server();
    for tongue in [V1, Rest1, Rest03] {
        let body = sabir.ask(&tongue.send(DESK_PATH, &outgoing("chat"))).json();
        let message = if tongue.is_rest() { &body["message"] } else { &body["result"]["message"] };
        let parts = message.get("parts").or_else(|| message.get("content")).unwrap();
        assert_eq!((&parts[0]["text"], &message["role"]), (&json!("Just so."), &json!("ROLE_AGENT")), "{body}");
    }
    for tongue in [V03, V02] {
        let message = sabir.ask(&tongue.send(DESK_PATH, &outgoing("chat"))).json()["result"].take();
        assert_eq!((&message["kind"], &message["role"]), (&json!("message"), &json!("agent")), "{message}");
        assert_eq!(message["parts"], json!([{"kind": "text", "text": "Just so."}]));
        assert!(message["messageId"].is_string());
    }
}

#[test]
fn a_direct_reply_is_a_completed_task_elsewhere_and_stays_readable() {
    let sabir = office_server();
    for tongue in [V01, Native, Xpr] {
        let seen = sabir.send_as(tongue, DESK_PATH, &outgoing("chat"));
        assert_eq!((&*seen.state, seen.status_text()), ("completed", Some("Just so.")), "{tongue:?}");
        let again = sabir.get_as(tongue, DESK_PATH, &seen.id);
        assert_eq!(
            (&again.id, &*again.state, again.status_text()),
            (&seen.id, "completed", Some("Just so.")),
            "{tongue:?}"
        );
        assert_eq!(
            sabir.get_as(V1, DESK_PATH, &seen.id).status_text(),
            Some("Just so."),
            "{tongue:?}: the task is everybody's"
        );
    }
}

#[test]
fn closing_words_are_also_the_first_artifact_in_01_and_xpr() {
    let sabir = office_server();
    for tongue in [V01, Xpr] {
        let seen = sabir.send_as(tongue, DESK_PATH, &outgoing("words"));
        assert_eq!(seen.artifact(0).as_deref(), Some("Only words."), "{tongue:?}: {}", seen.raw);
        assert_eq!(
            (seen.status_text(), &seen.raw["artifacts"][0]["index"]),
            (Some("Only words."), &json!(0)),
            "{tongue:?}"
        );
        assert_eq!(sabir.get_as(tongue, DESK_PATH, &seen.id).artifact(0).as_deref(), Some("Only words."));
        // Shown there, not put there.
        assert_eq!(sabir.get_as(V1, DESK_PATH, &seen.id).artifact(0), None);
        // An agent with artifacts has said where the answer is.
        assert_eq!(sabir.send_as(tongue, DESK_PATH, &outgoing("quick")).artifact(0).as_deref(), Some("ab"));
    }
}

#[test]
fn artifacts_alone_are_also_the_status_message_in_agent_native() {
    let sabir = office_server();
    let seen = sabir.send_as(Native, DESK_PATH, &outgoing("thing"));
    assert_eq!((seen.status_text(), seen.artifact(0).as_deref()), (Some("Only a thing."), Some("Only a thing.")));
    assert_eq!(sabir.get_as(Native, DESK_PATH, &seen.id).status_text(), Some("Only a thing."));
    assert_eq!(sabir.get_as(V1, DESK_PATH, &seen.id).status_text(), None, "shown there, not put there");
    let seen = sabir.send_as(Native, DESK_PATH, &outgoing("words"));
    assert_eq!((seen.status_text(), &seen.raw["artifacts"]), (Some("Only words."), &json!([])));
}

#[test]
fn what_did_not_work_out_is_told_in_the_words_of_the_dialect() {
    let sabir = office_server();
    for tongue in ALL {
        let whole = !matches!(tongue, V01 | Native | Xpr);
        let failed = sabir.send_as(tongue, DESK_PATH, &outgoing("break"));
        assert_eq!((&*failed.state, failed.status_text()), ("failed", Some("It broke.")), "{tongue:?}");
        assert_eq!(failed.artifact(0), None, "{tongue:?}: what broke is no answer");
        let rejected = sabir.send_as(tongue, DESK_PATH, &outgoing("no such rule"));
        assert_eq!(rejected.state, if whole { "rejected" } else { "failed" }, "{tongue:?}");
        let auth = sabir.send_as(tongue, DESK_PATH, &outgoing("sign"));
        assert_eq!(auth.state, if whole { "auth-required" } else { "input-required" }, "{tongue:?}");
        assert_eq!(auth.status_text(), Some("Who are you?"), "{tongue:?}");
    }
}

#[test]
fn there_is_no_extended_card_in_any_dialect() {
    let sabir = office_server();
    // 0.3 has a number for it (§8.2), which 0.2 had not yet; 1.0 keeps that for a card that was promised.
    for (tongue, method, code) in [
        (V1, "GetExtendedAgentCard", -32004),
        (V03, "agent/getAuthenticatedExtendedCard", -32007),
        (V02, "agent/getAuthenticatedExtendedCard", -32004),
    ] {
        assert_eq!(
            tongue.read(&sabir.ask(&tongue.rpc(DESK_PATH, method, &json!({})))).unwrap_err(),
            code,
            "{tongue:?}"
        );
    }
    for tongue in [V01, Native, Xpr] {
        // Not their method: taken for 0.3 where nothing says otherwise, and refused either way.
        let reply = sabir.ask(&tongue.rpc(DESK_PATH, "agent/getAuthenticatedExtendedCard", &json!({})));
        assert!([-32601, -32007].contains(&tongue.read(&reply).unwrap_err()), "{tongue:?}: {}", reply.text());
    }
    for path in ["/v1/card", "/agents/desk/v1/card", "/agent/authenticatedExtendedCard"] {
        let reply = sabir.ask(&Request::get(path).without("A2A-Version"));
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!(-32007)), "{path}");
    }
    assert_eq!(sabir.ask(&Request::get("/extendedAgentCard")).status, 400);
}

#[test]
fn history_is_shown_in_01_only_when_asked_for() {
    let sabir = office_server();
    let seen = sabir.send_as(V01, DESK_PATH, &outgoing("words"));
    assert!(seen.raw.get("history").is_none(), "{}", seen.raw);
    assert!(sabir.get_as(V01, DESK_PATH, &seen.id).raw.get("history").is_none());
    let asked = sabir.ask(&V01.rpc(DESK_PATH, "tasks/get", &json!({"id": seen.id, "historyLength": 10}))).json();
    assert_eq!(asked["result"]["history"][0]["parts"], json!([{"type": "text", "text": "words"}]), "{asked}");
    // A cancel cannot ask for it; also one that is only known for 0.1 by the name.
    for tongue in [V01, V03] {
        let name = unique("h");
        sabir.send_as(V01, DESK_PATH, &outgoing("book").to(&name));
        let canceled = sabir.ask(&tongue.rpc(DESK_PATH, "tasks/cancel", &json!({"id": name}))).json();
        assert_eq!(canceled["result"]["status"]["state"], "canceled", "{canceled}");
        assert!(canceled["result"].get("history").is_none(), "{canceled}");
    }
    let params = json!({"id": unique("h"), "message": V01.message(&outgoing("words")), "historyLength": 10});
    let sent = sabir.ask(&V01.rpc(DESK_PATH, "tasks/send", &params)).json();
    assert_eq!(sent["result"]["history"][0]["role"], "user", "{sent}");
}

#[test]
fn an_xpr_task_shows_its_owner_its_birth_and_its_job() {
    let sabir = office_server();
    let params = json!({"message": Xpr.message(&outgoing("words")), "xpr:callerAccount": "alice", "contextId": "c-xpr",
        "metadata": {"xpr:jobId": 42}});
    let reply = sabir.ask(&Xpr.rpc(DESK_PATH, "message/send", &params));
    let seen = Xpr.read(&reply).unwrap();
    assert_eq!(seen.raw["metadata"], json!({"xpr:jobId": 42}), "{}", seen.raw);
    assert_eq!((&seen.raw["owner"], seen.context.as_deref()), (&json!("anonymous"), Some("c-xpr")));
    let born = seen.raw["createdAt"].as_u64().unwrap();
    assert!(born > 1_700_000_000_000, "milliseconds: {born}");
    let again = sabir.get_as(Xpr, DESK_PATH, &seen.id);
    assert_eq!((&again.raw["createdAt"], &again.raw["metadata"]), (&seen.raw["createdAt"], &seen.raw["metadata"]));
    // The agent sees what stands beside the message in it, but for what a caller claims about itself and did not sign.
    let history = &sabir.get_as(V1, DESK_PATH, &seen.id).raw["history"][0];
    assert_eq!(history["metadata"], json!({"xpr:jobId": 42}), "{history}");
    let named = sabir.send_as(Xpr, DESK_PATH, &outgoing("words").to(&unique("x")));
    assert!(named.raw["createdAt"].is_u64(), "also under a name: {}", named.raw);
}

#[test]
fn actions_need_an_identity_that_nobody_has_yet() {
    let sabir = office_server();
    for (params, code) in [
        (json!({"action": "words", "input": {}}), -32001),
        (json!({"action": "", "input": {}}), -32602),
        (json!({"action": "x".repeat(201), "input": {}}), -32602),
        (json!({"action": "words"}), -32602),
        (json!({"action": "words", "input": []}), -32602),
        (json!({"action": 7, "input": {}}), -32602),
        (json!({"action": "words", "input": {"x": "y".repeat(70_000)}}), -32602),
    ] {
        for tongue in [Native, V03] {
            let reply = sabir.ask(&tongue.rpc(DESK_PATH, "actions/invoke", &params));
            assert_eq!(tongue.read(&reply).unwrap_err(), code, "{tongue:?}: {}", reply.text());
        }
    }
}

/// Files and data go to the agent and come back from it.
#[test]
fn parts_of_every_kind_come_back_as_they_went() {
    let sabir = office_server();
    let tagged = |tag: &str| {
        json!([
            {tag: "text", "text": "hello"},
            {tag: "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGk="}},
            {tag: "file", "file": {"name": "b.png", "mimeType": "image/png", "uri": "https://example.com/b.png"}},
            {tag: "data", "data": {"big": 12_345_678_901_234_567_u64, "list": [1, null, "x"]}, "metadata": {"a": 1}},
        ])
    };
    for (tongue, tag) in [(V03, "kind"), (V02, "kind"), (V01, "type"), (Native, "type"), (Xpr, "type")] {
        let mut params = json!({"message": {"role": "user", "parts": tagged(tag)}});
        if tag == "kind" {
            params["message"]["messageId"] = json!(unique("m"));
        }
        if tongue == V01 {
            params["id"] = json!(unique("parts"));
        }
        let method = if tongue == V01 { "tasks/send" } else { "message/send" };
        let reply = sabir.ask(&tongue.rpc("", method, &params));
        let seen = tongue.read(&reply).unwrap_or_else(|e| panic!("{tongue:?} {e}: {}", reply.text()));
        let all: Vec<Value> = seen.raw["artifacts"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|a| a["parts"].as_array().unwrap().clone())
            .collect();
        assert_eq!(Value::Array(all), tagged(tag), "{tongue:?}: {}", seen.raw);
    }
}

#[test]
fn a_send_of_03_may_ask_for_history_and_output_modes() {
    let sabir = office_server();
    for tongue in [V03, V02] as [DialectClient; 2] {
        let params = |length: Value| {
            json!({"message": tongue.message(&outgoing("words")),
                "configuration": {"acceptedOutputModes": ["text"], "blocking": true, "historyLength": length}})
        };
        let shown = |length: Value| {
            let reply = sabir.ask(&tongue.rpc(DESK_PATH, "message/send", &params(length)));
            tongue.read(&reply).unwrap_or_else(|e| panic!("{e}: {}", reply.text())).raw
        };
        assert!(shown(json!(5))["history"][0]["messageId"].is_string());
        assert!(shown(json!(0)).get("history").is_none_or(|h| h == &json!([])));
        let reply = sabir.ask(&tongue.rpc(DESK_PATH, "message/send", &params(json!(-1))));
        assert_eq!(tongue.read(&reply).unwrap_err(), -32602);
    }
}
