//! Subscriptions: the task as it stands, then everything that follows, for as many as want to watch.

use crate::ask::{DESK, NOT_FOUND, UNSUPPORTED, answering, envelope, numbers, saying, state, told};
use crate::http::{Frame, Request, Stream};
use crate::sabir::{AGENTS, Sabir, shared};
use serde_json::{Value, json};
use std::thread;

fn subscribe(sabir: &Sabir, id: &Value) -> Stream {
    sabir.stream(DESK, "SubscribeToTask", &json!({"id": id}))
}

#[test]
fn a_subscription_begins_with_the_task_as_it_stands() {
    let sabir = shared();
    let task = sabir.send(DESK, &saying("book"));
    let mut stream = subscribe(&sabir, &task["id"]);
    let first = stream.next().unwrap();
    assert_eq!(first.event()["task"], task);
    let head = first.id.unwrap();
    sabir.send(DESK, &answering(&task, "Monday"));
    // It stays open while the task asks: another client may send the answer.
    sabir.send(DESK, &answering(&task, "four"));
    let frames = stream.rest();
    assert_eq!(numbers(&frames), (head + 1..=head + frames.len() as u64).collect::<Vec<_>>());
    assert_eq!(told(&frames), "four");
    let states: Vec<&str> = frames.iter().filter_map(Frame::state).filter(|s| *s != "TASK_STATE_WORKING").collect();
    assert_eq!(states, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]);
}

#[test]
fn the_snapshot_and_what_follows_make_the_whole_whenever_one_joins() {
    let sabir = shared();
    let mut sending = sabir.stream(DESK, "SendStreamingMessage", &saying("tick"));
    let id = sending.next().unwrap().event()["task"]["id"].clone();
    let joined: Vec<Vec<Frame>> = thread::scope(|scope| {
        let mut all = Vec::new();
        // A client joins at every event until there is nothing left to join.
        while let Some(frame) = sending.next() {
            if frame.state() == Some("TASK_STATE_COMPLETED") {
                break;
            }
            let id = &id;
            let sabir = &sabir;
            all.push(scope.spawn(move || {
                let request = Request::post(DESK, envelope("SubscribeToTask", &json!({"id": id})));
                let mut wire = crate::http::Wire::open(sabir.address);
                wire.send(&request);
                // The last of them may come when it is over; that is an ordinary error.
                wire.try_events().map_or_else(Vec::new, |mut s| s.rest())
            }));
        }
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(joined.iter().filter(|frames| !frames.is_empty()).count() > 3, "too few joined in time");
    for frames in joined.iter().filter(|frames| !frames.is_empty()) {
        let snapshot = frames[0].event()["task"]["artifacts"][0]["parts"].as_array();
        let known: String = snapshot.into_iter().flatten().map(|p| p["text"].as_str().unwrap()).collect();
        assert_eq!(format!("{known}{}", told(frames)), "0123456789", "nothing twice, nothing lost");
        let numbers = numbers(frames);
        assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
        assert_eq!(frames.last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn all_who_watch_see_the_same_and_one_who_leaves_disturbs_nobody() {
    let sabir = shared();
    let task = sabir.send(DESK, &saying("book"));
    let mut streams: Vec<Stream> = (0..6).map(|_| subscribe(&sabir, &task["id"])).collect();
    streams.iter_mut().for_each(|s| drop(s.next().unwrap()));
    drop(streams.drain(..2));
    sabir.send(DESK, &answering(&task, "Monday"));
    drop(streams.pop());
    sabir.send(DESK, &answering(&task, "four"));
    let seen: Vec<Vec<(Option<u64>, Value)>> =
        streams.iter_mut().map(|s| s.rest().into_iter().map(|f| (f.id, f.event().clone())).collect()).collect();
    assert!(seen.iter().all(|s| *s == seen[0]));
    assert_eq!(state(&sabir.get(DESK, &task["id"])), "TASK_STATE_COMPLETED");
}

#[test]
fn http_json_subscribes_by_get_and_by_post() {
    let sabir = shared();
    for method in ["GET", "POST"] {
        let task = sabir.send(DESK, &saying("sign"));
        let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
        let mut stream = sabir.open(&Request::new(method, &path));
        assert_eq!(stream.next().unwrap().data["task"], task);
        sabir.send(DESK, &answering(&task, "it is me"));
        assert_eq!(stream.rest().last().unwrap().state(), Some("TASK_STATE_COMPLETED"));
    }
}

#[test]
fn there_is_nothing_to_subscribe_to_in_a_settled_task() {
    let sabir = shared();
    for text in ["quick", "break", "other"] {
        let task = sabir.send(DESK, &saying(text));
        sabir.refuses(DESK, "SubscribeToTask", &json!({"id": task["id"]}), UNSUPPORTED);
        let path = format!("/agents/desk/tasks/{}:subscribe", task["id"].as_str().unwrap());
        sabir.rest_refuses(&Request::get(&path), UNSUPPORTED);
        sabir.rest_refuses(&Request::post(&path, ""), UNSUPPORTED);
    }
}

#[test]
fn what_is_not_there_cannot_be_subscribed_to() {
    let sabir = shared();
    sabir.refuses(DESK, "SubscribeToTask", &json!({"id": "nobody"}), NOT_FOUND);
    sabir.rest_refuses(&Request::get("/agents/desk/tasks/nobody:subscribe"), NOT_FOUND);
}

#[test]
fn a_task_outlives_all_who_watch_it() {
    let sabir = Sabir::start(AGENTS);
    let mut stream = sabir.stream(DESK, "SendStreamingMessage", &saying("tick"));
    let id = stream.next().unwrap().event()["task"]["id"].clone();
    drop(stream);
    crate::sabir::eventually("it completes unwatched", || state(&sabir.get(DESK, &id)) == "TASK_STATE_COMPLETED");
}
