//! `Last-Event-ID`: a stream that broke off goes on with the next event, across a crash of the server too.

use crate::ask::{DESK, PARAMS, Problem, UNSUPPORTED, answering, envelope, numbers, saying, state, told, uuid};
use crate::http::{Frame, Request};
use crate::sabir::{AGENTS, Sabir, shared};
use serde_json::{Value, json};

/// The events after a number, over both bindings.
fn after(sabir: &Sabir, id: &Value, last: u64) -> [Vec<Frame>; 3] {
    let path = format!("/agents/desk/tasks/{}:subscribe", id.as_str().unwrap());
    let over_http = |method| sabir.open(&Request::new(method, &path).with("Last-Event-ID", last.to_string())).rest();
    let rpc = sabir.stream_after(DESK, "SubscribeToTask", &json!({"id": id}), Some(last)).rest();
    [rpc, over_http("GET"), over_http("POST")]
}

#[test]
fn a_settled_task_replays_what_is_left_and_closes() {
    let sabir = shared();
    // One that took many steps, one that took one, and one that had turns.
    let long = sabir.stream(DESK, "SendStreamingMessage", &saying("tick")).rest();
    let short = sabir.stream(DESK, "SendStreamingMessage", &saying("quick")).rest();
    for all in [long, short] {
        let id = &all[0].event()["task"]["id"];
        for last in 0..=all.len() {
            for rest in after(&sabir, id, last as u64) {
                let events = |frames: &[Frame]| frames.iter().map(|f| (f.id, f.event().clone())).collect::<Vec<_>>();
                assert_eq!(events(&rest), events(&all[last..]), "after {last}");
            }
        }
    }
}

#[test]
fn a_task_that_was_never_streamed_can_be_replayed() {
    let sabir = shared();
    let task = sabir.send("/", &saying("hello"));
    let frames = sabir.stream_after("/", "SubscribeToTask", &json!({"id": task["id"]}), Some(0)).rest();
    assert_eq!(numbers(&frames), (1..=frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    let told_early = frames[0].event()["task"]["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or("");
    assert_eq!(format!("{told_early}{}", told(&frames)), "hello");
}

#[test]
fn a_running_task_goes_on_without_a_snapshot() {
    let sabir = shared();
    let task = sabir.send(DESK, &saying("book"));
    let head = sabir.stream(DESK, "SubscribeToTask", &json!({"id": task["id"]})).next().unwrap().id.unwrap();
    let mut streams: Vec<_> =
        (0..=head).map(|n| sabir.stream_after(DESK, "SubscribeToTask", &json!({"id": task["id"]}), Some(n))).collect();
    sabir.send(DESK, &answering(&task, "Monday"));
    sabir.send(DESK, &answering(&task, "four"));
    for (n, stream) in streams.iter_mut().enumerate() {
        let frames = stream.rest();
        let first = n as u64 + 1;
        assert_eq!(numbers(&frames), (first..first + frames.len() as u64).collect::<Vec<_>>());
        assert_eq!(told(&frames), "four");
        assert!(n == 0 || frames[0].event().get("task").is_none(), "a snapshot would tell chunks twice");
    }
}

#[test]
fn without_the_header_a_settled_task_is_the_specified_error() {
    let sabir = shared();
    let task = sabir.send(DESK, &saying("quick"));
    sabir.refuses(DESK, "SubscribeToTask", &json!({"id": task["id"]}), UNSUPPORTED);
}

#[test]
fn a_number_that_is_none_or_too_high_is_refused() {
    let sabir = shared();
    let settled = sabir.send(DESK, &saying("quick"));
    let open = sabir.send(DESK, &saying("book"));
    for task in [&settled, &open] {
        let refused = |value: &str| {
            let request = Request::post(DESK, envelope("SubscribeToTask", &json!({"id": task["id"]})));
            let reply = sabir.ask(&request.with("Last-Event-ID", value));
            let rpc = Problem::of_rpc(&reply.json());
            let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
            let rest = Problem::of_rest(&sabir.ask(&Request::get(&path).with("Last-Event-ID", value)));
            for (problem, code) in [(rpc, PARAMS.0), (rest, PARAMS.1)] {
                assert_eq!(
                    (problem.brief(), &problem.fields[..]),
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
    let request = Request::post(DESK, envelope("SubscribeToTask", &json!({"id": settled["id"]})));
    let reply = sabir.ask(&request.with("Last-Event-ID", (head + 1).to_string())).json();
    assert_eq!(Problem::of_rpc(&reply).fields, ["Last-Event-ID"]);
    sabir.still_serves();
}

#[test]
fn a_stream_goes_on_after_a_crash_without_a_gap() {
    let sabir = Sabir::start(AGENTS);
    let mut message = saying("tick");
    message["message"]["messageId"] = json!(uuid());
    let mut stream = sabir.stream(DESK, "SendStreamingMessage", &message);
    let mut seen: Vec<Frame> = Vec::new();
    while seen.last().and_then(Frame::chunk) != Some("3") {
        seen.push(stream.next().unwrap());
    }
    let home = sabir.kill();
    // What was on its way when the server died was seen, too.
    seen.extend(stream.rest());
    assert!(stream.broken, "the stream broke off");
    let last = seen.last().unwrap().id.unwrap();
    let id = seen[0].event()["task"]["id"].clone();

    let sabir = Sabir::at(&home);
    let rest = sabir.stream_after(DESK, "SubscribeToTask", &json!({"id": id}), Some(last)).rest();
    let by_sending_again = sabir.stream_after(DESK, "SendStreamingMessage", &message, Some(last)).rest();
    seen.extend(rest.clone());
    assert_eq!(numbers(&seen), (1..=seen.len() as u64).collect::<Vec<_>>());
    assert_eq!(told(&seen), "0123456789");
    assert_eq!(numbers(&by_sending_again), numbers(&rest));
    assert_eq!(state(&sabir.get(DESK, &id)), "TASK_STATE_COMPLETED");
    assert_eq!(sabir.count(DESK), 1);
}

#[test]
fn a_question_that_was_answered_since_does_not_end_a_resumed_stream() {
    let sabir = shared();
    let mut message = saying("book");
    message["message"]["messageId"] = json!(uuid());
    let first = sabir.stream(DESK, "SendStreamingMessage", &message).rest();
    let task = first[0].event()["task"].clone();
    sabir.send(DESK, &answering(&task, "Monday"));
    sabir.send(DESK, &answering(&task, "four"));
    let again = sabir.stream_after(DESK, "SendStreamingMessage", &message, Some(1)).rest();
    assert_eq!(again.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    assert_eq!(numbers(&again), (2..2 + again.len() as u64).collect::<Vec<_>>());
}
