//! Streams of a send: numbered events, what they are wrapped in, and when they end.

use crate::http_client::{EventStream, Request, SseEvent};
use crate::rpc_client::{DESK_PATH, answer_params, artifact_text, envelope, event_ids, message, send_params, state};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

fn kinds(frames: &[SseEvent]) -> Vec<&str> {
    frames.iter().map(|f| f.event().as_object().unwrap().keys().next().unwrap().as_str()).collect()
}

/// The same stream over both bindings.
fn both(sabir: &TestServer, text: &str) -> [EventStream; 2] {
    let rpc = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params(text));
    let rest = sabir.open(&Request::post("/agents/desk/message:stream", send_params(text).to_string()));
    [rpc, rest]
}

#[test]
fn a_stream_tells_the_whole_life_of_a_task_in_numbered_events() {
    let sabir = shared_server();
    for text in ["tick", "quick"] {
        for mut stream in both(&sabir, text) {
            let frames = stream.rest();
            assert!(!stream.broken);
            assert_eq!(event_ids(&frames), (1..=frames.len() as u64).collect::<Vec<_>>(), "1, 2, 3 and so on");
            assert_eq!(kinds(&frames)[0], "task", "first the task, then what happens to it");
            assert!(
                kinds(&frames)[1..].iter().all(|k| ["statusUpdate", "artifactUpdate"].contains(k)),
                "{:?}",
                kinds(&frames)
            );
            assert_eq!(artifact_text(&frames), if text == "tick" { "0123456789" } else { "ab" });
            let settled: Vec<usize> =
                (0..frames.len()).filter(|n| frames[*n].state() == Some("TASK_STATE_COMPLETED")).collect();
            assert_eq!(settled, [frames.len() - 1], "the end is told once, and last");
            let task = &frames[0].event()["task"];
            for frame in &frames[1..] {
                let event = frame.event().as_object().unwrap().values().next().unwrap();
                assert_eq!((&event["taskId"], &event["contextId"]), (&task["id"], &task["contextId"]));
                assert!(event.get("final").is_none() && event.get("kind").is_none(), "1.0 has neither: {event}");
            }
            assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_COMPLETED");
        }
    }
}

#[test]
fn chunks_add_up_to_the_artifact() {
    let sabir = shared_server();
    let frames = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick")).rest();
    let updates: Vec<&Value> = frames.iter().filter_map(|f| f.event().get("artifactUpdate")).collect();
    assert_eq!(updates.len(), 10);
    for (n, update) in updates.iter().enumerate() {
        assert_eq!(update["append"].as_bool().unwrap_or(false), n > 0, "{update}");
        assert_eq!(update["lastChunk"].as_bool().unwrap_or(false), n == 9, "{update}");
    }
    let task = sabir.get(DESK_PATH, &frames[0].event()["task"]["id"]);
    let artifacts = task["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 1);
    let text: String = artifacts[0]["parts"].as_array().unwrap().iter().map(|p| p["text"].as_str().unwrap()).collect();
    assert_eq!(text, "0123456789");
}

#[test]
fn each_binding_wraps_events_its_own_way() {
    let sabir = shared_server();
    let [mut rpc, mut rest] = both(&sabir, "quick");
    for frame in rpc.rest() {
        assert_eq!((&frame.data["jsonrpc"], &frame.data["id"]), (&json!("2.0"), &json!("r1")));
        assert!(frame.data["result"].is_object() && frame.name.is_none());
    }
    for frame in rest.rest() {
        assert!(frame.data.get("jsonrpc").is_none() && frame.name.is_none(), "{}", frame.data);
    }
}

#[test]
fn nothing_between_here_and_there_may_hold_a_stream_back() {
    let sabir = shared_server();
    for stream in both(&sabir, "quick") {
        let head = &stream.head;
        assert_eq!(head.header("Content-Type"), Some("text/event-stream"));
        assert_eq!(head.header("X-Accel-Buffering"), Some("no"));
        assert!(head.header("Cache-Control").is_some_and(|c| c.contains("no-cache")));
        assert!(head.header("Content-Length").is_none());
    }
}

#[test]
fn events_leave_when_they_happen_and_not_at_the_end() {
    let sabir = shared_server();
    for mut stream in both(&sabir, "forever") {
        let id = stream.next().unwrap().event()["task"]["id"].clone();
        // The agent works for another day, and its first words are here.
        assert_eq!(stream.next().unwrap().state(), Some("TASK_STATE_WORKING"));
        sabir.result(DESK_PATH, "CancelTask", &json!({"id": id}));
        assert_eq!(stream.rest().last().unwrap().state(), Some("TASK_STATE_CANCELED"));
    }
}

#[test]
fn a_quiet_stream_gets_comments() {
    let sabir = TestServer::start(&AGENTS.replace("[limits]", "[limits]\nkeep_alive_seconds = 1"));
    for mut stream in both(&sabir, "forever") {
        let id = stream.next().unwrap().event()["task"]["id"].clone();
        while stream.comments < 2 {
            stream.next_any().unwrap().ok();
        }
        sabir.result(DESK_PATH, "CancelTask", &json!({"id": id}));
        assert_eq!(stream.rest().last().unwrap().state(), Some("TASK_STATE_CANCELED"));
    }
}

#[test]
fn a_stream_ends_with_a_question_but_waits_for_credentials() {
    let sabir = shared_server();
    for mut stream in both(&sabir, "book") {
        let frames = stream.rest();
        assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_INPUT_REQUIRED"));
        assert!(!stream.broken);
    }
    // Credentials come another way, so a client that waits for the answer keeps waiting (A2A 1.0 §7.6.1).
    for mut stream in both(&sabir, "sign") {
        let first = stream.next().unwrap();
        let id = first.event()["task"]["id"].clone();
        let mut last = first;
        while last.state() != Some("TASK_STATE_AUTH_REQUIRED") {
            last = stream.next().unwrap();
        }
        sabir.send(DESK_PATH, &answer_params(&json!({"id": id}), "it is me"));
        assert_eq!(stream.rest().last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn an_error_before_the_first_event_is_an_ordinary_error() {
    let sabir = shared_server();
    let mut params = json!({"message": message("x")});
    params["message"]["taskId"] = json!("nobody");
    let reply = sabir.ask(&Request::post(DESK_PATH, envelope("SendStreamingMessage", &params)));
    assert_eq!(reply.header("Content-Type"), Some("application/json"));
    assert_eq!(reply.json()["error"]["code"], -32001);
    let reply = sabir.ask(&Request::post("/agents/desk/message:stream", params.to_string()));
    assert_eq!((reply.status, reply.header("Content-Type")), (404, Some("application/a2a+json")));
}

#[test]
fn an_instant_agent_streams_like_any_other() {
    let sabir = shared_server();
    let frames = sabir.stream("/", "SendStreamingMessage", &send_params("hello")).rest();
    assert_eq!((kinds(&frames)[0], artifact_text(&frames)), ("task", "hello".to_owned()));
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    assert_eq!(event_ids(&frames), (1..=frames.len() as u64).collect::<Vec<_>>());
}
