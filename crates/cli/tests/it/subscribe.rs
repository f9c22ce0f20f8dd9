//! Subscriptions: the task as it stands, then everything that follows, for as many as want to watch.

use crate::http_client::{EventStream, Request, SseEvent};
use crate::rpc_client::{
    DESK_PATH, NOT_FOUND, UNSUPPORTED, answer_params, artifact_text, envelope, event_ids, send_params, state,
};
use crate::test_server::{AGENTS, TestServer, shared_server};
use serde_json::{Value, json};
use std::thread;

fn subscribe(sabir: &TestServer, id: &Value) -> EventStream {
    sabir.stream(DESK_PATH, "SubscribeToTask", &json!({"id": id}))
}

#[test]
fn a_subscription_begins_with_the_task_as_it_stands() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let mut stream = subscribe(&sabir, &task["id"]);
    let first = stream.next().unwrap();
    assert_eq!(first.event()["task"], task);
    let head = first.id.unwrap();
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    // It stays open while the task asks: another client may send the answer.
    sabir.send(DESK_PATH, &answer_params(&task, "four"));
    let frames = stream.rest();
    assert_eq!(event_ids(&frames), (head + 1..=head + frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(artifact_text(&frames), "four");
    let states: Vec<&str> = frames.iter().filter_map(SseEvent::state).filter(|s| *s != "TASK_STATE_WORKING").collect();
    assert_eq!(states, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]);
}

#[test]
fn the_snapshot_and_what_follows_make_the_whole_whenever_one_joins() {
    let sabir = shared_server();
    let mut sending = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick"));
    let id = sending.next().unwrap().event()["task"]["id"].clone();
    let joined: Vec<Vec<SseEvent>> = thread::scope(|scope| {
        let mut all = Vec::new();
        // A client joins at every event until there is nothing left to join.
        while let Some(frame) = sending.next() {
            if frame.state() == Some("TASK_STATE_COMPLETED") {
                break;
            }
            let id = &id;
            let sabir = &sabir;
            all.push(scope.spawn(move || {
                let request = Request::post(DESK_PATH, envelope("SubscribeToTask", &json!({"id": id})));
                let mut wire = crate::http_client::HttpConnection::open(sabir.address);
                wire.send(&request);
                // The last of them may come when it is over; that is an ordinary error.
                wire.try_event_stream().map_or_else(Vec::new, |mut s| s.rest())
            }));
        }
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(joined.iter().filter(|frames| !frames.is_empty()).count() > 3, "too few joined in time");
    for frames in joined.iter().filter(|frames| !frames.is_empty()) {
        let snapshot = frames[0].event()["task"]["artifacts"][0]["parts"].as_array();
        let known: String = snapshot.into_iter().flatten().map(|p| p["text"].as_str().unwrap()).collect();
        assert_eq!(format!("{known}{}", artifact_text(frames)), "0123456789", "nothing twice, nothing lost");
        let numbers = event_ids(frames);
        assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
        assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn all_who_watch_see_the_same_and_one_who_leaves_disturbs_nobody() {
    let sabir = shared_server();
    let task = sabir.send(DESK_PATH, &send_params("book"));
    let mut streams: Vec<EventStream> = (0..6).map(|_| subscribe(&sabir, &task["id"])).collect();
    streams.iter_mut().for_each(|s| drop(s.next().unwrap()));
    drop(streams.drain(..2));
    sabir.send(DESK_PATH, &answer_params(&task, "Monday"));
    drop(streams.pop());
    sabir.send(DESK_PATH, &answer_params(&task, "four"));
    let seen: Vec<Vec<(Option<u64>, Value)>> =
        streams.iter_mut().map(|s| s.rest().into_iter().map(|f| (f.id, f.event().clone())).collect()).collect();
    assert!(seen.iter().all(|s| *s == seen[0]));
    assert_eq!(state(&sabir.get(DESK_PATH, &task["id"])), "TASK_STATE_COMPLETED");
}

#[test]
fn http_json_subscribes_by_get_and_by_post() {
    let sabir = shared_server();
    for method in ["GET", "POST"] {
        let task = sabir.send(DESK_PATH, &send_params("sign"));
        let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
        let mut stream = sabir.open(&Request::new(method, &path));
        assert_eq!(stream.next().unwrap().data["task"], task);
        sabir.send(DESK_PATH, &answer_params(&task, "it is me"));
        assert_eq!(stream.rest().last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn there_is_nothing_to_subscribe_to_in_a_settled_task() {
    let sabir = shared_server();
    for text in ["quick", "break", "other"] {
        let task = sabir.send(DESK_PATH, &send_params(text));
        sabir.expect_error(DESK_PATH, "SubscribeToTask", &json!({"id": task["id"]}), UNSUPPORTED);
        let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
        sabir.expect_rest_error(&Request::get(&path), UNSUPPORTED);
        sabir.expect_rest_error(&Request::post(&path, ""), UNSUPPORTED);
    }
}

#[test]
fn what_is_not_there_cannot_be_subscribed_to() {
    let sabir = shared_server();
    sabir.expect_error(DESK_PATH, "SubscribeToTask", &json!({"id": "nobody"}), NOT_FOUND);
    sabir.expect_rest_error(&Request::get("/agents/desk/tasks/nobody:subscribe"), NOT_FOUND);
}

#[test]
fn a_task_outlives_all_who_watch_it() {
    let sabir = TestServer::start(AGENTS);
    let mut stream = sabir.stream(DESK_PATH, "SendStreamingMessage", &send_params("tick"));
    let id = stream.next().unwrap().event()["task"]["id"].clone();
    drop(stream);
    crate::test_server::eventually("it completes unwatched", || {
        state(&sabir.get(DESK_PATH, &id)) == "TASK_STATE_COMPLETED"
    });
}
