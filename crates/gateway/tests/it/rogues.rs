//! Agents that break off, repeat themselves, mix up tasks, never end or are not what their cards say.

use crate::agent::{After, Do, Stub, card, chunk, frame, status, task};
use crate::bench::{Bench, upstream, words};
use sabir_engine::Limits;
use sabir_gateway::Egress;
use sabir_proto::{GAP, Gap, Task, TaskState};
use sabir_store::memory::MemoryLog;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn event(state: &str) -> String {
    format!(r#"{{"task":{}}}"#, task(state))
}

/// Their task in some state, with these chunks.
fn holding(state: &str, chunks: &[&str]) -> String {
    let parts: Vec<String> = chunks.iter().map(|text| format!(r#"{{"text":"{text}"}}"#)).collect();
    let artifact = format!(r#"{{"artifactId":"a","parts":[{}]}}"#, parts.join(","));
    format!(r#"{{"id":"t-1","contextId":"c-1","status":{{"state":"TASK_STATE_{state}"}},"artifacts":[{artifact}]}}"#)
}

fn text(task: &Task) -> String {
    task.artifacts.iter().flat_map(|artifact| &artifact.parts).filter_map(|part| part.as_text()).collect()
}

fn gaps(events: &[Value]) -> Vec<&Value> {
    events.iter().filter_map(|event| event["statusUpdate"]["metadata"].get(GAP)).collect()
}

#[tokio::test]
async fn a_stream_that_goes_on_exactly_leaves_no_gap() {
    let stub = Stub::agent(|number, _| match number {
        0 => Do::Stream(vec![frame(Some(1), &event("WORKING")), frame(Some(2), &chunk("a"))], After::Break),
        _ => Do::Stream(vec![frame(Some(3), &chunk("b")), frame(Some(4), &status("COMPLETED"))], After::End),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let events = bench.stream("go").await;
    assert!(gaps(&events).is_empty(), "{events:?}");
    assert_eq!(stub.calls()[1].header("last-event-id").as_deref(), Some("2"));
    assert_eq!(events.iter().filter(|event| event.get("artifactUpdate").is_some()).count(), 2, "{events:?}");
}

#[tokio::test]
async fn what_was_said_while_nobody_listened_is_told_with_a_mark() {
    let stub = Stub::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => Do::Stream(vec![frame(None, &event("WORKING")), frame(None, &chunk("a"))], After::Break),
        (_, "SubscribeToTask") => Do::Error(-32004, "not here"),
        _ => Do::Result(holding("COMPLETED", &["a", "b"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let events = bench.stream("go").await;
    let marks = gaps(&events);
    assert_eq!(marks.len(), 1, "{events:?}");
    let before = marks[0]["after"].as_u64().unwrap();
    // The opening, their first status and the first chunk were known.
    assert_eq!(before, 3, "{events:?}");
    assert!(marks[0]["reason"].as_str().unwrap().contains("broke off"));
    let last = events.last().unwrap();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn who_only_tells_what_is_new_after_a_break_is_compared_at_the_end() {
    // As the 0.3 SDKs do: the new subscription begins in mid-air, and the chunk in between is nowhere but in the task.
    let stub = Stub::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => Do::Stream(vec![frame(None, &event("WORKING")), frame(None, &chunk("a"))], After::Break),
        (_, "SubscribeToTask") => {
            Do::Stream(vec![frame(None, &chunk("c")), frame(None, &status("COMPLETED"))], After::End)
        }
        _ => Do::Result(holding("COMPLETED", &["a", "b", "c"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("abc", TaskState::Completed));
    assert!(Gap::of(done.metadata.as_ref()).is_some());
}

#[tokio::test]
async fn events_that_come_twice_or_late_are_told_once_and_right() {
    let stub = Stub::agent(|number, _| match number {
        0 => Do::Stream(
            vec![
                frame(Some(1), &event("WORKING")),
                frame(Some(2), &chunk("a")),
                frame(Some(2), &chunk("a")),
                frame(Some(4), &chunk("c")),
                frame(Some(3), &chunk("b")),
                frame(Some(5), &status("COMPLETED")),
            ],
            After::End,
        ),
        _ => Do::Result(holding("COMPLETED", &["a", "b", "c"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("abc", TaskState::Completed));
}

#[tokio::test]
async fn what_is_said_of_another_task_is_not_ours() {
    let stub = Stub::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => {
            let strange = chunk("stolen").replace("t-1", "t-2");
            Do::Stream(vec![frame(None, &event("WORKING")), frame(None, &strange)], After::Silence)
        }
        (_, "SubscribeToTask") => Do::Error(-32004, "not here"),
        _ => Do::Result(holding("COMPLETED", &["ours"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("ours", TaskState::Completed));
    assert!(Gap::of(done.metadata.as_ref()).unwrap().reason.contains("could not be used"));
}

#[tokio::test]
async fn a_stream_without_end_ends_at_our_limits() {
    let stub = Stub::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &event("WORKING"))];
            frames.extend((0..500).map(|n| frame(None, &chunk(&n.to_string()))));
            Do::Stream(frames, After::Silence)
        }
        _ => Do::Result(holding("CANCELED", &[])),
    })
    .await;
    let limits = Limits { task_events_max: 100, ..Limits::default() };
    let bench = Bench::limited(Arc::new(MemoryLog::new()), upstream(&stub.url), limits).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Failed);
    assert!(words(&done).contains("more than 100 events"), "{}", words(&done));
}

#[tokio::test]
async fn pages_floods_and_nonsense_are_failures_in_plain_words() {
    let flood = "x".repeat(100 << 20);
    for (media, body) in [
        ("text/html", "<html>Welcome</html>".to_owned()),
        ("application/json", "{\"jsonrpc\":".to_owned()),
        ("application/json", format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{flood}"}}"#)),
    ] {
        let stub = Stub::start(
            |base| card(base, "{}", ""),
            move |_, _| Do::Answer(200, format!("content-type: {media}\r\n"), body.clone()),
        )
        .await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Failed, "{media}");
        assert!(!words(&done).is_empty() && words(&done).len() < 2000, "{}", words(&done));
        assert_eq!(stub.calls().len(), 1, "asked once: the answer came");
    }
}

#[tokio::test]
async fn who_speaks_another_version_overnight_is_discovered_anew_and_once() {
    let changed = Arc::new(AtomicBool::new(false));
    let now = changed.clone();
    let stub = Stub::start(
        move |base| {
            if now.load(Ordering::Relaxed) {
                return card(base, "{}", "");
            }
            let old = card(base, "{}", "");
            old.replace(r#""protocolVersion":"1.0""#, r#""protocolVersion":"0.3""#)
        },
        |_, heard| match heard.method().as_str() {
            "SendMessage" => Do::Result(event("COMPLETED")),
            _ => Do::Error(-32601, "no such method any more"),
        },
    )
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    // Its card is known as 0.3; then it becomes 1.0.
    bench.remote.card().await.unwrap();
    changed.store(true, Ordering::Relaxed);
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    let methods: Vec<String> = stub.calls().iter().map(|call| call.method()).collect();
    assert_eq!(methods, ["message/send", "SendMessage"]);
    // One that stays as it is is not asked for ever.
    let stub = Stub::start(|base| card(base, "{}", ""), |_, _| Do::Error(-32601, "no")).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    assert_eq!(stub.calls().len(), 2);
}

#[tokio::test]
async fn cards_lead_nowhere_that_the_operator_did_not_allow() {
    for place in
        ["http://0.0.0.0:PORT/rpc", "http://10.0.0.1/rpc", "http://169.254.169.254/rpc", "http://[::1]:PORT/rpc"]
    {
        let stub = Stub::start(
            move |base| {
                let port = base.rsplit(':').next().unwrap();
                card(base, "{}", "").replace(&format!("{base}/rpc"), &place.replace("PORT", port))
            },
            |_, _| Do::Result(event("COMPLETED")),
        )
        .await;
        let egress = Egress::public().and("127.0.0.1/32".parse().unwrap());
        let bench = Bench::new(sabir_gateway::Upstream { egress, ..upstream(&stub.url) }).await;
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Failed, "{place}");
        assert_eq!(stub.calls().len(), 0, "{place}");
        let said = words(&done);
        assert!(!said.contains("10.0.0.1") && !said.contains("169.254"), "the way is for our log: {said}");
    }
}
