//! Each dialect alone: every event of a stream, which one is the last, and taking a stream up again.

use super::dialect_client::DialectClient::{Native, Rest03, V01, V1, V02, V03, Xpr};
use super::dialect_client::{DialectClient, RESUBSCRIBING, event_chunk, event_state, final_flags, outgoing, unique};
use super::{DESK_PATH, OFFICE_CONFIG, office_server};
use crate::http_client::SseEvent;
use crate::test_server::TestServer;
use serde_json::{Value, json};

fn only_the_last(n: usize) -> Vec<bool> {
    (1..=n).map(|i| i == n).collect()
}

fn states(tongue: DialectClient, frames: &[SseEvent]) -> Vec<String> {
    frames.iter().filter_map(|f| event_state(tongue, f)).collect()
}

fn chunks(frames: &[SseEvent]) -> Vec<String> {
    frames.iter().filter_map(event_chunk).collect()
}

#[test]
fn a_stream_of_03_tells_everything_and_says_which_event_is_the_last() {
    let sabir = office_server();
    for tongue in [V03, V02, Rest03] {
        let mut stream = sabir.stream_as(tongue, DESK_PATH, outgoing("quick"));
        let frames = stream.rest();
        assert!(!stream.broken);
        assert_eq!(final_flags(&frames), only_the_last(6), "{tongue:?}");
        assert_eq!(states(tongue, &frames), ["submitted", "working", "completed"], "{tongue:?}");
        assert_eq!(chunks(&frames), ["a", "b", "c"], "{tongue:?}");
        let numbers: Vec<_> = frames.iter().map(|f| f.id.unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    }
    let frames = sabir.stream_as(V03, DESK_PATH, outgoing("quick")).rest();
    let kinds: Vec<&str> = frames.iter().map(|f| f.event()["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["task", "status-update", "artifact-update", "artifact-update", "artifact-update", "status-update"]
    );
    let id = &frames[0].event()["id"];
    for frame in &frames[1..] {
        let event = frame.event();
        assert_eq!((&event["taskId"], &event["contextId"]), (id, &frames[0].event()["contextId"]));
        assert_eq!(event.get("final").is_some(), event["kind"] == "status-update", "every status says it: {event}");
        assert_eq!(frame.data["id"], 7);
    }
    let appended: Vec<&Value> = frames[2..5].iter().map(|f| &f.event()["append"]).collect();
    assert_eq!(appended, [&Value::Null, &json!(true), &Value::Null]);
}

#[test]
fn a_stream_of_01_tells_statuses_and_indexed_artifacts() {
    let sabir = office_server();
    let name = unique("stream");
    let frames = sabir.stream_as(V01, DESK_PATH, outgoing("quick").to(&name)).rest();
    assert_eq!(final_flags(&frames), only_the_last(6));
    assert_eq!(states(V01, &frames), ["submitted", "working", "completed"]);
    assert_eq!(chunks(&frames), ["a", "b", "c"]);
    for frame in &frames {
        let event = frame.event();
        assert_eq!((&event["id"], frame.id, event.get("kind")), (&json!(name), None, None), "{event}");
        assert_ne!(event.get("status").is_some(), event.get("artifact").is_some(), "one of them: {event}");
        assert_eq!(event.get("final").is_some(), event.get("status").is_some(), "{event}");
    }
    let artifacts: Vec<Value> = frames
        .iter()
        .filter_map(|f| f.event().get("artifact"))
        .map(|a| json!([a["index"], a["id"], a["append"], a["lastChunk"]]))
        .collect();
    assert_eq!(artifacts, [json!([0, "q", false, false]), json!([0, "q", true, true]), json!([1, "r", false, false])]);
}

#[test]
fn closing_words_come_as_an_artifact_before_the_end_in_01() {
    let sabir = office_server();
    for text in ["words", "chat"] {
        let frames = sabir.stream_as(V01, DESK_PATH, outgoing(text)).rest();
        let expected = if text == "words" { "Only words." } else { "Just so." };
        assert_eq!(chunks(&frames), [expected]);
        let at = frames.iter().position(|f| event_chunk(f).is_some()).unwrap();
        assert_eq!(at, frames.len() - 2, "before the last status");
        assert_eq!(final_flags(&frames), only_the_last(frames.len()));
        assert_eq!(states(V01, &frames).last().unwrap(), "completed");
    }
}

#[test]
fn a_stream_of_agent_native_tells_whole_tasks_by_the_number_zero() {
    let sabir = office_server();
    let mut stream = sabir.stream_as(Native, DESK_PATH, outgoing("quick"));
    assert_eq!(stream.head.header("Content-Type"), Some("text/event-stream"));
    let frames = stream.rest();
    let id = frames[0].event()["id"].clone();
    for frame in &frames {
        assert_eq!((&frame.data["id"], frame.id, &frame.event()["id"]), (&json!(0), None, &id), "{}", frame.data);
        let event = frame.event();
        assert!(
            event["history"].is_array() && event["artifacts"].is_array() && event.get("final").is_none(),
            "{event}"
        );
    }
    let last = Native.task(frames.last().unwrap().event());
    assert_eq!(
        (&*last.state, last.status_text(), last.artifact(0).as_deref()),
        ("completed", Some("done"), Some("ab"))
    );
    assert!(frames[..frames.len() - 1].iter().all(|f| event_state(Native, f).as_deref() == Some("working")));
    for (text, words) in
        [("thing", "Only a thing."), ("chat", "Just so."), ("break", "It broke."), ("book", "Which day?")]
    {
        let frames = sabir.stream_as(Native, DESK_PATH, outgoing(text)).rest();
        assert_eq!(Native.task(frames.last().unwrap().event()).status_text(), Some(words), "{text}");
        let ends = frames.iter().filter(|f| event_state(Native, f).as_deref() != Some("working")).count();
        assert_eq!(ends, 1, "{text}: the end is told once");
    }
}

#[test]
fn a_long_artifact_in_small_chunks_is_not_told_again_for_every_chunk_in_agent_native() {
    let chunks: String =
        (0..400).map(|_| r#"{ artifact = { id = "l", text = "0123456789", append = true } },"#).collect();
    let sabir = TestServer::start(&format!(
        "[[agent]]\nname = \"demo\"\nkind = \"script\"\ndefault = true\n[[agent.rule]]\ndo = [\
         {{ artifact = {{ id = \"l\", text = \"x\" }} }}, {chunks} {{ complete = \"done\" }}]"
    ));
    let frames = sabir.stream_as(Native, "", outgoing("go")).rest();
    assert!(frames.len() < 100, "{} events", frames.len());
    let last = Native.task(frames.last().unwrap().event());
    assert_eq!(last.artifact(0).unwrap().len(), 4001, "and the end has it all");
}

#[test]
fn a_direct_reply_is_all_that_its_stream_carries() {
    let sabir = office_server();
    for tongue in [V03, V02, Rest03, V1] {
        let frames = sabir.stream_as(tongue, DESK_PATH, outgoing("chat")).rest();
        assert_eq!(frames.len(), 1, "{tongue:?}");
        let event = frames[0].event();
        let message = event.get("message").unwrap_or(event);
        let parts = message.get("parts").or_else(|| message.get("content")).unwrap();
        assert_eq!(parts[0]["text"], "Just so.", "{tongue:?}: {event}");
    }
}

#[test]
fn a_stream_ends_with_a_question_and_its_answer_is_another_stream() {
    let sabir = office_server();
    for tongue in RESUBSCRIBING {
        let name = unique("asked");
        let said = outgoing("twice");
        let frames = sabir.stream_as(tongue, DESK_PATH, if tongue == V01 { said.to(&name) } else { said }).rest();
        assert_eq!(states(tongue, &frames).last().unwrap(), "input-required", "{tongue:?}");
        let has_final = !matches!(tongue, V1 | DialectClient::Rest1);
        assert_eq!(final_flags(&frames).last(), Some(&has_final), "{tongue:?}");
        assert_eq!(final_flags(&frames).iter().filter(|l| **l).count(), usize::from(has_final));
        let first = frames[0].event();
        let id = first.get("task").unwrap_or(first)["id"].as_str().unwrap();
        let frames = sabir.stream_as(tongue, DESK_PATH, outgoing("yes").to(id)).rest();
        assert_eq!(states(tongue, &frames).last().unwrap(), "completed", "{tongue:?}");
        assert_eq!(final_flags(&frames).iter().filter(|l| **l).count(), usize::from(has_final), "{tongue:?}");
        assert_eq!(chunks(&frames).last().map(String::as_str), Some("2"), "{tongue:?}");
        if tongue == V01 {
            let artifacts = frames.iter().filter_map(|f| f.event().get("artifact"));
            let indexed: Vec<Value> = artifacts.map(|a| json!([a["index"], a["id"]])).collect();
            assert_eq!(indexed, [json!([0, "first"]), json!([1, "second"])], "an index stays whose it was");
        }
    }
}

#[test]
fn a_stream_is_taken_up_again_and_ends_when_the_task_settles() {
    let sabir = office_server();
    for tongue in RESUBSCRIBING {
        let begun = sabir.send_as(V1, DESK_PATH, &outgoing("slow").at_once());
        let frames = sabir.subscribe_as(tongue, DESK_PATH, &begun.id).rest();
        assert_eq!(states(tongue, &frames).last().unwrap(), "completed", "{tongue:?}");
        let has_final = usize::from(!matches!(tongue, V1 | DialectClient::Rest1));
        assert_eq!(final_flags(&frames).iter().filter(|l| **l).count(), has_final, "{tongue:?}");
        assert_eq!(*final_flags(&frames).last().unwrap(), has_final == 1);
        let first = frames[0].event();
        let snapshot = first.get("task").unwrap_or(first);
        let before: String = snapshot["artifacts"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|a| a["parts"].as_array().unwrap())
            .map(|p| p["text"].as_str().unwrap())
            .collect();
        let after: String = chunks(&frames).concat();
        assert_eq!(before + &after, "ab", "{tongue:?}: nothing twice and nothing missing");
    }
}

#[test]
fn a_resubscription_stays_through_a_question() {
    let sabir = office_server();
    for tongue in [V03, V02, Rest03, V01] {
        let asked = sabir.send_as(V1, DESK_PATH, &outgoing("book"));
        let mut stream = sabir.subscribe_as(tongue, DESK_PATH, &asked.id);
        let first = stream.next().unwrap();
        assert_eq!(event_state(tongue, &first).as_deref(), Some("input-required"), "{tongue:?}");
        assert_eq!(final_flags(&[first]), [false], "{tongue:?}: more may come");
        sabir.send_as(V1, DESK_PATH, &outgoing("Monday").to(&asked.id));
        let frames = stream.rest();
        assert_eq!(states(tongue, &frames).last().unwrap(), "completed", "{tongue:?}");
        assert_eq!(final_flags(&frames), only_the_last(frames.len()), "{tongue:?}");
    }
}

#[test]
fn an_artifact_that_still_grows_is_not_called_whole_in_01() {
    let sabir = office_server();
    let name = unique("grows");
    let mut told = sabir.stream_as(V01, DESK_PATH, outgoing("slow").to(&name));
    while event_chunk(&told.next().unwrap()).is_none() {}
    // The other half comes later.
    let frames = sabir.subscribe_as(V01, DESK_PATH, &name).rest();
    let artifacts: Vec<Value> =
        frames.iter().filter_map(|f| f.event().get("artifact")).map(|a| json!([a["append"], a["lastChunk"]])).collect();
    assert_eq!(artifacts, [json!([false, false]), json!([true, true])]);
}

#[test]
fn a_settled_task_has_nothing_to_resubscribe_to_and_says_so_as_an_event() {
    let sabir = office_server();
    let done = sabir.send_as(V1, DESK_PATH, &outgoing("quick"));
    for tongue in [V03, V02, V01] {
        for (id, code) in [(&*done.id, -32004), ("nobody", -32001)] {
            let frames = sabir.subscribe_as(tongue, DESK_PATH, id).rest();
            assert_eq!(frames.len(), 1);
            assert_eq!(frames[0].data["error"]["code"], code, "{tongue:?}: {}", frames[0].data);
            assert_eq!(frames[0].data["id"], 7);
        }
    }
}

#[test]
fn an_error_of_a_streaming_method_is_one_event() {
    let sabir = office_server();
    for (tongue, method, id) in [
        (V03, "message/stream", 7),
        (V02, "message/stream", 7),
        (V01, "tasks/sendSubscribe", 7),
        (Native, "message/stream", 0),
    ] {
        let mut stream = sabir.open(&tongue.rpc(DESK_PATH, method, &json!({"message": {}})));
        let frames = stream.rest();
        assert_eq!(frames.len(), 1, "{tongue:?}");
        assert_eq!(frames[0].data["error"]["code"], -32602, "{tongue:?}: {}", frames[0].data);
        assert_eq!(frames[0].data["id"], id, "{tongue:?}");
    }
}

#[test]
fn an_agent_that_does_not_stream_says_so_in_every_dialect() {
    let sabir = TestServer::start(&OFFICE_CONFIG.replace(
        "name = \"other\"\nkind = \"echo\"",
        "name = \"other\"\nkind = \"echo\"\n[agent.card.capabilities]\nstreaming = false",
    ));
    for (tongue, code) in [(V03, -32004), (V02, -32004), (V01, -32004), (Native, -32601)] {
        let frames = sabir.stream_as(tongue, "/agents/other", outgoing("x")).rest();
        assert_eq!(frames[0].data["error"]["code"], code, "{tongue:?}: {}", frames[0].data);
    }
}

#[test]
fn xpr_has_no_streams() {
    let sabir = office_server();
    let begun = sabir.send_as(Xpr, DESK_PATH, &outgoing("book"));
    // The method is 0.3's, and so is the answer.
    let mut stream = sabir.subscribe_as(Xpr, DESK_PATH, &begun.id);
    assert_eq!(stream.next().unwrap().event()["kind"], "task");
    let marked = json!({"message": Xpr.message(&outgoing("x")), "xpr:callerAccount": "alice"});
    let reply = sabir.ask(&Xpr.rpc(DESK_PATH, "message/stream", &marked).with("Accept", "*/*"));
    assert!(reply.text().contains("\"error\"") || reply.text().contains("\"status\""), "{}", reply.text());
}

#[test]
fn a_broken_stream_of_03_is_taken_up_where_it_broke_off() {
    let sabir = office_server();
    for tongue in [V03, V02, Rest03] {
        let id = crate::rpc_client::uuid();
        let said = || outgoing("quick").called(&id);
        let all = sabir.stream_as(tongue, DESK_PATH, said()).rest();
        let request = tongue.send(DESK_PATH, &super::dialect_client::OutgoingMessage { streams: true, ..said() });
        for seen in [1, 3, 5] {
            let rest = sabir.open(&request.clone().with("Last-Event-ID", seen.to_string())).rest();
            let numbers: Vec<u64> = rest.iter().map(|f| f.id.unwrap()).collect();
            assert_eq!(numbers, (seen + 1..=6).collect::<Vec<_>>(), "{tongue:?} after {seen}");
            assert_eq!(rest.last().unwrap().event(), all.last().unwrap().event());
            assert_eq!(final_flags(&rest), only_the_last(rest.len()));
        }
    }
}
