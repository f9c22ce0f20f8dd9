//! Each dialect alone: sends that wait and sends that do not, questions, direct replies, and where the answer is.

use super::tongue::Tongue::{Native, Rest1, Rest03, V01, V1, V02, V03, Xpr};
use super::tongue::{ALL, CONTINUING, Tongue, say, unique};
use super::{DESK, office};
use crate::http::Request;
use crate::sabir::eventually;
use serde_json::{Value, json};

#[test]
fn a_send_waits_for_the_answer_in_every_dialect() {
    let sabir = office();
    for tongue in ALL {
        let seen = sabir.tell(tongue, DESK, &say("quick"));
        assert_eq!(seen.state, "completed", "{tongue:?}");
        assert_eq!(seen.artifact(0).as_deref(), Some("ab"), "{tongue:?}: {}", seen.raw);
        let again = sabir.look(tongue, DESK, &seen.id);
        assert_eq!((&again.id, &again.state, &again.context), (&seen.id, &seen.state, &seen.context), "{tongue:?}");
        assert!(seen.context.is_some(), "{tongue:?}: every task has a conversation");
    }
}

#[test]
fn the_default_agent_answers_at_the_root_in_every_dialect() {
    let sabir = office();
    for tongue in ALL {
        let seen = sabir.tell(tongue, "", &say("hello"));
        assert_eq!((&*seen.state, seen.artifact(0).as_deref()), ("completed", Some("hello")), "{tongue:?}");
    }
}

#[test]
fn who_does_not_want_to_wait_is_answered_at_once_and_may_ask_again() {
    let sabir = office();
    for tongue in [V1, Rest1, V03, V02, Rest03, Native] {
        let seen = sabir.tell(tongue, DESK, &say("slow").at_once());
        assert!(["submitted", "working"].contains(&&*seen.state), "{tongue:?}: {}", seen.raw);
        eventually("the task is done", || sabir.look(tongue, DESK, &seen.id).state == "completed");
        assert_eq!(sabir.look(tongue, DESK, &seen.id).artifact(0).as_deref(), Some("ab"));
    }
}

#[test]
fn only_the_boolean_makes_agent_native_answer_at_once() {
    let sabir = office();
    for word in [json!("true"), json!(1), json!(false), Value::Null] {
        let params = json!({"message": Native.message(&say("slow")), "async": word});
        let reply = sabir.ask(&Native.rpc(DESK, "message/send", &params));
        assert_eq!(Native.read(&reply).unwrap().state, "completed", "{word}");
    }
    let params = json!({"message": Native.message(&say("slow")), "metadata": {"async": true}});
    assert_eq!(Native.read(&sabir.ask(&Native.rpc(DESK, "message/send", &params))).unwrap().state, "completed");
}

#[test]
fn agent_native_calls_a_polled_task_at_work_processing() {
    let sabir = office();
    let seen = sabir.tell(Native, DESK, &say("forever").at_once());
    eventually("it works", || sabir.look(V1, DESK, &seen.id).state == "working");
    let polled = sabir.ask(&Native.get(DESK, &seen.id)).json();
    assert_eq!(polled["result"]["status"]["state"], "processing", "{polled}");
    let canceled = sabir.call_off(Native, DESK, &seen.id).unwrap();
    assert_eq!(canceled.state, "canceled");
}

#[test]
fn a_question_is_asked_and_answered_in_every_dialect_that_continues() {
    let sabir = office();
    for tongue in CONTINUING {
        let name = unique("booking");
        let said = say("book");
        let asked = sabir.tell(tongue, DESK, &if tongue.names_tasks() { said.to(&name) } else { said });
        assert_eq!((&*asked.state, asked.words()), ("input-required", Some("Which day?")), "{tongue:?}");
        let done = sabir.tell(tongue, DESK, &say("Monday").to(&asked.id));
        assert_eq!((&done.id, &*done.state, done.words()), (&asked.id, "completed", Some("Booked.")), "{tongue:?}");
        assert_eq!(done.context, asked.context);
    }
}

#[test]
fn agent_native_shows_a_question_though_it_cannot_answer_one() {
    let sabir = office();
    let asked = sabir.tell(Native, DESK, &say("book"));
    assert_eq!((&*asked.state, asked.words()), ("input-required", Some("Which day?")));
    // A message is always a new task there.
    let other = sabir.tell(Native, DESK, &say("quick"));
    assert_ne!(asked.id, other.id);
    assert_eq!(sabir.look(Native, DESK, &asked.id).state, "input-required");
}

#[test]
fn a_direct_reply_is_a_message_where_there_are_such() {
    let sabir = office();
    for tongue in [V1, Rest1, Rest03] {
        let body = sabir.ask(&tongue.send(DESK, &say("chat"))).json();
        let message = if tongue.is_rest() { &body["message"] } else { &body["result"]["message"] };
        let parts = message.get("parts").or_else(|| message.get("content")).unwrap();
        assert_eq!((&parts[0]["text"], &message["role"]), (&json!("Just so."), &json!("ROLE_AGENT")), "{body}");
    }
    for tongue in [V03, V02] {
        let message = sabir.ask(&tongue.send(DESK, &say("chat"))).json()["result"].take();
        assert_eq!((&message["kind"], &message["role"]), (&json!("message"), &json!("agent")), "{message}");
        assert_eq!(message["parts"], json!([{"kind": "text", "text": "Just so."}]));
        assert!(message["messageId"].is_string());
    }
}

#[test]
fn a_direct_reply_is_a_completed_task_elsewhere_and_stays_readable() {
    let sabir = office();
    for tongue in [V01, Native, Xpr] {
        let seen = sabir.tell(tongue, DESK, &say("chat"));
        assert_eq!((&*seen.state, seen.words()), ("completed", Some("Just so.")), "{tongue:?}");
        let again = sabir.look(tongue, DESK, &seen.id);
        assert_eq!((&again.id, &*again.state, again.words()), (&seen.id, "completed", Some("Just so.")), "{tongue:?}");
        assert_eq!(sabir.look(V1, DESK, &seen.id).words(), Some("Just so."), "{tongue:?}: the task is everybody's");
    }
}

#[test]
fn closing_words_are_also_the_first_artifact_in_01_and_xpr() {
    let sabir = office();
    for tongue in [V01, Xpr] {
        let seen = sabir.tell(tongue, DESK, &say("words"));
        assert_eq!(seen.artifact(0).as_deref(), Some("Only words."), "{tongue:?}: {}", seen.raw);
        assert_eq!((seen.words(), &seen.raw["artifacts"][0]["index"]), (Some("Only words."), &json!(0)), "{tongue:?}");
        assert_eq!(sabir.look(tongue, DESK, &seen.id).artifact(0).as_deref(), Some("Only words."));
        // Shown there, not put there.
        assert_eq!(sabir.look(V1, DESK, &seen.id).artifact(0), None);
        // An agent with artifacts has said where the answer is.
        assert_eq!(sabir.tell(tongue, DESK, &say("quick")).artifact(0).as_deref(), Some("ab"));
    }
}

#[test]
fn artifacts_alone_are_also_the_status_message_in_agent_native() {
    let sabir = office();
    let seen = sabir.tell(Native, DESK, &say("thing"));
    assert_eq!((seen.words(), seen.artifact(0).as_deref()), (Some("Only a thing."), Some("Only a thing.")));
    assert_eq!(sabir.look(Native, DESK, &seen.id).words(), Some("Only a thing."));
    assert_eq!(sabir.look(V1, DESK, &seen.id).words(), None, "shown there, not put there");
    let seen = sabir.tell(Native, DESK, &say("words"));
    assert_eq!((seen.words(), &seen.raw["artifacts"]), (Some("Only words."), &json!([])));
}

#[test]
fn what_did_not_work_out_is_told_in_the_words_of_the_dialect() {
    let sabir = office();
    for tongue in ALL {
        let whole = !matches!(tongue, V01 | Native | Xpr);
        let failed = sabir.tell(tongue, DESK, &say("break"));
        assert_eq!((&*failed.state, failed.words()), ("failed", Some("It broke.")), "{tongue:?}");
        assert_eq!(failed.artifact(0), None, "{tongue:?}: what broke is no answer");
        let rejected = sabir.tell(tongue, DESK, &say("no such rule"));
        assert_eq!(rejected.state, if whole { "rejected" } else { "failed" }, "{tongue:?}");
        let auth = sabir.tell(tongue, DESK, &say("sign"));
        assert_eq!(auth.state, if whole { "auth-required" } else { "input-required" }, "{tongue:?}");
        assert_eq!(auth.words(), Some("Who are you?"), "{tongue:?}");
    }
}

#[test]
fn there_is_no_extended_card_in_any_dialect() {
    let sabir = office();
    // 0.3 has a number for it (§8.2), which 0.2 had not yet; 1.0 keeps that for a card that was promised.
    for (tongue, method, code) in [
        (V1, "GetExtendedAgentCard", -32004),
        (V03, "agent/getAuthenticatedExtendedCard", -32007),
        (V02, "agent/getAuthenticatedExtendedCard", -32004),
    ] {
        assert_eq!(tongue.read(&sabir.ask(&tongue.rpc(DESK, method, &json!({})))).unwrap_err(), code, "{tongue:?}");
    }
    for tongue in [V01, Native, Xpr] {
        // Not their method: taken for 0.3 where nothing says otherwise, and refused either way.
        let reply = sabir.ask(&tongue.rpc(DESK, "agent/getAuthenticatedExtendedCard", &json!({})));
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
    let sabir = office();
    let seen = sabir.tell(V01, DESK, &say("words"));
    assert!(seen.raw.get("history").is_none(), "{}", seen.raw);
    assert!(sabir.look(V01, DESK, &seen.id).raw.get("history").is_none());
    let asked = sabir.ask(&V01.rpc(DESK, "tasks/get", &json!({"id": seen.id, "historyLength": 10}))).json();
    assert_eq!(asked["result"]["history"][0]["parts"], json!([{"type": "text", "text": "words"}]), "{asked}");
    // A cancel cannot ask for it; also one that is only known for 0.1 by the name.
    for tongue in [V01, V03] {
        let name = unique("h");
        sabir.tell(V01, DESK, &say("book").to(&name));
        let canceled = sabir.ask(&tongue.rpc(DESK, "tasks/cancel", &json!({"id": name}))).json();
        assert_eq!(canceled["result"]["status"]["state"], "canceled", "{canceled}");
        assert!(canceled["result"].get("history").is_none(), "{canceled}");
    }
    let params = json!({"id": unique("h"), "message": V01.message(&say("words")), "historyLength": 10});
    let sent = sabir.ask(&V01.rpc(DESK, "tasks/send", &params)).json();
    assert_eq!(sent["result"]["history"][0]["role"], "user", "{sent}");
}

#[test]
fn an_xpr_task_shows_its_owner_its_birth_and_its_job() {
    let sabir = office();
    let params = json!({"message": Xpr.message(&say("words")), "xpr:callerAccount": "alice", "contextId": "c-xpr",
        "metadata": {"xpr:jobId": 42}});
    let reply = sabir.ask(&Xpr.rpc(DESK, "message/send", &params));
    let seen = Xpr.read(&reply).unwrap();
    assert_eq!(seen.raw["metadata"], json!({"xpr:jobId": 42}), "{}", seen.raw);
    assert_eq!((&seen.raw["owner"], seen.context.as_deref()), (&json!("anonymous"), Some("c-xpr")));
    let born = seen.raw["createdAt"].as_u64().unwrap();
    assert!(born > 1_700_000_000_000, "milliseconds: {born}");
    let again = sabir.look(Xpr, DESK, &seen.id);
    assert_eq!((&again.raw["createdAt"], &again.raw["metadata"]), (&seen.raw["createdAt"], &seen.raw["metadata"]));
    // The agent sees what stands beside the message in it, but for what a caller claims about itself and did not sign.
    let history = &sabir.look(V1, DESK, &seen.id).raw["history"][0];
    assert_eq!(history["metadata"], json!({"xpr:jobId": 42}), "{history}");
    let named = sabir.tell(Xpr, DESK, &say("words").to(&unique("x")));
    assert!(named.raw["createdAt"].is_u64(), "also under a name: {}", named.raw);
}

#[test]
fn actions_need_an_identity_that_nobody_has_yet() {
    let sabir = office();
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
            let reply = sabir.ask(&tongue.rpc(DESK, "actions/invoke", &params));
            assert_eq!(tongue.read(&reply).unwrap_err(), code, "{tongue:?}: {}", reply.text());
        }
    }
}

/// Files and data go to the agent and come back from it.
#[test]
fn parts_of_every_kind_come_back_as_they_went() {
    let sabir = office();
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
    let sabir = office();
    for tongue in [V03, V02] as [Tongue; 2] {
        let params = |length: Value| {
            json!({"message": tongue.message(&say("words")),
                "configuration": {"acceptedOutputModes": ["text"], "blocking": true, "historyLength": length}})
        };
        let shown = |length: Value| {
            let reply = sabir.ask(&tongue.rpc(DESK, "message/send", &params(length)));
            tongue.read(&reply).unwrap_or_else(|e| panic!("{e}: {}", reply.text())).raw
        };
        assert!(shown(json!(5))["history"][0]["messageId"].is_string());
        assert!(shown(json!(0)).get("history").is_none_or(|h| h == &json!([])));
        let reply = sabir.ask(&tongue.rpc(DESK, "message/send", &params(json!(-1))));
        assert_eq!(tongue.read(&reply).unwrap_err(), -32602);
    }
}
