//! `Last-Event-ID`: a stream that broke off goes on with the next event, across a crash of the server too.

use crate::http_client::{Request, SseEvent};
use crate::rpc_client::{
    DESK_PATH, PARAMS, ProtocolError, UNSUPPORTED, answer_params, artifact_text, envelope, event_ids, send_params,
    state, uuid,
};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};

/// The events after a number, over both bindings.
fn after(sabir: &TestServer, id: &Value, last: u64) -> [Vec<SseEvent>; 3] {
    let path = format!("/agents/desk/tasks/{}:subscribe", id.as_str().unwrap());
    let over_http = |method| sabir.open(&Request::new(method, &path).with("Last-Event-ID", last.to_string())).rest();
    let rpc = sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": id}), Some(last)).rest();
    [rpc, over_http("GET"), over_http("POST")]
}

#[test]
fn a_settled_task_replays_what_is_left_and_closes() {
    let sabir = shared_server();
    // One that took many steps, one that took one, and one that had turns.
    let long = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick")).rest();
    let short = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("quick")).rest();
    for all in [long, short] {
        let id = &all[0].event()["task"]["id"];
        for last in 0..=all.len() {
            for rest in after(&sabir, id, last as u64) {
                let events = |frames: &[SseEvent]| frames.iter().map(|f| (f.id, f.event().clone())).collect::<Vec<_>>();
                assert_eq!(events(&rest), events(&all[last..]), "after {last}");
            }
        }
    }
}

#[test]
fn a_task_that_was_never_streamed_can_be_replayed() {
    let sabir = shared_server();
    let task = sabir.send("/", &send_params("hello"));
    let frames = sabir.stream_after("/", "SubscribeToTask", &json!({"id": task["id"]}), Some(0)).rest();
    assert_eq!(event_ids(&frames), (1..=frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    let told_early = frames[0].event()["task"]["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or("");
    assert_eq!(format!("{told_early}{}", artifact_text(&frames)), "hello");
}

#[test]
fn a_running_task_goes_on_without_a_snapshot() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let head = sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]})).next().unwrap().id.unwrap();
    let mut streams: Vec<_> = (0..=head)
        .map(|n| sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}), Some(n)))
        .collect();
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    sabir.send(DESK_PATH, &answer_params(&task, "four"));
    for (n, stream) in streams.iter_mut().enumerate() {
        let frames = stream.rest();
        let first = n as u64 + 1;
        assert_eq!(event_ids(&frames), (first..first + frames.len() as u64).collect::<Vec<_>>());
        assert_eq!(artifact_text(&frames), "four");
        assert!(n == 0 || frames[0].event().get("task").is_none(), "a snapshot would tell chunks twice");
    }
}

#[test]
fn without_the_header_a_settled_task_is_the_specified_error() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("quick"));
    sabir.expect_error(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}), UNSUPPORTED);
}

#[test]
fn a_number_that_is_none_or_too_high_is_refused() {
    let sabir = shared_server();
    let settled = sabir.send(DESK_PATH, &send_params("quick"));
    let open = sabir.send(DESK_PATH, &send_params("book"));
    for task in [&settled, &open] {
        let refused = |value: &str| {
            let request = Request::post(DESK_PATH, envelope("SubscribeToTask", &json!({"id": task["id"]})));
            let reply = sabir.ask(&request.with("Last-Event-ID", value));
            let rpc = ProtocolError::from_rpc(&reply.json());
            let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
            let rest = ProtocolError::from_rest(&sabir.ask(&Request::get(&path).with("Last-Event-ID", value)));
            for (problem, code) in [(rpc, PARAMS.0), (rest, PARAMS.1)] {
                assert_eq!(
                    (problem.code_and_reason(), &problem.fields[..]),
                    ((code, PARAMS.2), &["Last-Event-ID".to_owned()][..]),
                    "{value}"
                );
            }
        };
        for value in [
            "",
            "x",
            "-1",
            "1.5",
            "1e3",
            "0x1",
            "99999999999999999999",
            "1 2",
            "\u{e9}",
            "18446744073709551615",
            "1000",
        ] {
            refused(value);
        }
    }
    // The first number above the head, exactly.
    let head = after(&sabir, &settled["id"], 0)[0].len() as u64;
    assert!(
        after(&sabir, &settled["id"], head).iter().all(Vec::is_empty),
        "the head itself is fine and leaves nothing"
    );
    let request = Request::post(DESK_PATH, envelope("SubscribeToTask", &json!({"id": settled["id"]})));
    let reply = sabir.ask(&request.with("Last-Event-ID", (head + 1).to_string())).json();
    assert_eq!(ProtocolError::from_rpc(&reply).fields, ["Last-Event-ID"]);
    sabir.still_serves();
}

#[test]
fn a_stream_goes_on_after_a_crash_without_a_gap() {
    let sabir = TestServer::start(AGENTS);
    let mut message = send_params("tick");
    message["message"]["messageId"] = json!(uuid());
    let mut stream = sabir.stream(DESK_PATH, "SendStreamingMessage", &message);
    let mut seen: Vec<SseEvent> = Vec::new();
    while seen.last().and_then(SseEvent::chunk) != Some("3") {
        seen.push(stream.next().unwrap());
    }
    let home = sabir.kill();
    // What was on its way when the server died was seen, too.
    seen.extend(stream.rest());
    assert!(stream.broken, "the stream broke off");
    let last = seen.last().unwrap().id.unwrap();
    let id = seen[0].event()["task"]["id"].clone();

    let sabir = TestServer::start_at(&home);
    let rest = sabir.stream_after(DESK_PATH, "SubscribeToTask", &json!({"id": id}), Some(last)).rest();
    let by_sending_again = sabir.stream_after(DESK_PATH, "SendStreamingMessage", &message, Some(last)).rest();
    seen.extend(rest.clone());
    assert_eq!(event_ids(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(artifact_text(&seen), "0123456789");
    assert_eq!(event_ids(&by_sending_again), event_ids(&rest));
    assert_eq!(state(&sabir.get(DESK_PATH, &id)), "TASK_STATE_COMPLETED");
    assert_eq!(sabir.task_count(DESK_PATH), 1);
}

#[test]
fn a_question_that_was_answered_since_does_not_end_a_resumed_stream() {
    let sabir = shared_server();
    let mut message = send_params("book");
    message["message"]["messageId"] = json!(uuid());
    let first = sabir.stream(DESK_PATH, "SendStreamingMessage", &message).rest();
    let task = first[0].event()["task"].clone();
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    sabir.send(DESK_PATH, &answer_params(&task, "four"));
    let again = sabir.stream_after(DESK_PATH, "SendStreamingMessage", &message, Some(1)).rest();
    assert_eq!(again.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    assert_eq!(event_ids(&again), (2..2 + again.len() as u64).collect::<Vec<_>>());
}
