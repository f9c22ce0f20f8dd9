//! Agents that break off, repeat themselves, mix up tasks, never end or are not what their cards say.

use crate::agent::{StreamEnd, StubAction, StubServer, card, chunk, frame, status, task};
use crate::bench::{Bench, upstream, words};
use sabir_engine::Limits;
use sabir_gateway::Egress;
use sabir_proto::{GAP, Gap, Task, TaskState};
use sabir_store::TaskStore;
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
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(vec![frame(Some(1), &event("WORKING")), frame(Some(2), &chunk("a"))], StreamEnd::Break),
        _ => {
            StubAction::Stream(vec![frame(Some(3), &chunk("b")), frame(Some(4), &status("COMPLETED"))], StreamEnd::End)
        }
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
    let stub = StubServer::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => StubAction::Stream(vec![frame(None, &event("WORKING")), frame(None, &chunk("a"))], StreamEnd::Break),
        (_, "SubscribeToTask") => StubAction::Error(-32004, "not here"),
        _ => StubAction::Result(holding("COMPLETED", &["a", "b"])),
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
    let stub = StubServer::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => StubAction::Stream(vec![frame(None, &event("WORKING")), frame(None, &chunk("a"))], StreamEnd::Break),
        (_, "SubscribeToTask") => {
            StubAction::Stream(vec![frame(None, &chunk("c")), frame(None, &status("COMPLETED"))], StreamEnd::End)
        }
        _ => StubAction::Result(holding("COMPLETED", &["a", "b", "c"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("abc", TaskState::Completed));
    assert!(Gap::of(done.metadata.as_ref()).is_some());
}

#[tokio::test]
async fn events_that_come_twice_or_late_are_told_once_and_right() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(
            vec![
                frame(Some(1), &event("WORKING")),
                frame(Some(2), &chunk("a")),
                frame(Some(2), &chunk("a")),
                frame(Some(4), &chunk("c")),
                frame(Some(3), &chunk("b")),
                frame(Some(5), &status("COMPLETED")),
            ],
            StreamEnd::End,
        ),
        _ => StubAction::Result(holding("COMPLETED", &["a", "b", "c"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("abc", TaskState::Completed));
}

#[tokio::test]
async fn snapshots_that_repeat_what_is_known_add_nothing() {
    let stub = StubServer::agent(|_, _| {
        let snapshot = |state: &str, text: &str| frame(None, &format!(r#"{{"task":{}}}"#, holding(state, &[text])));
        let mut frames = vec![frame(None, &event("WORKING")); 500];
        frames.extend([frame(None, &chunk("one ")), snapshot("WORKING", "one "), frame(None, &chunk("two "))]);
        frames.extend(vec![snapshot("WORKING", "one two "); 500]);
        frames.extend(vec![snapshot("COMPLETED", "one two "); 2]);
        StubAction::Stream(frames, StreamEnd::End)
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("one two ", TaskState::Completed));
    let events = bench.stream("go").await;
    assert!(events.len() < 20, "{} events for two chunks", events.len());
}

#[tokio::test]
async fn an_end_stays_an_end_whatever_the_stream_says_after_it() {
    let stub = StubServer::agent(|_, _| {
        let events = [event("WORKING"), chunk("one "), status("COMPLETED"), status("WORKING"), chunk("two ")];
        let frames = events.iter().chain([&status("FAILED")]).map(|event| frame(None, event)).collect();
        StubAction::Stream(frames, StreamEnd::End)
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("one ", TaskState::Completed));
}

#[tokio::test]
async fn what_an_agent_made_before_it_forgot_its_task_is_kept() {
    let stub = StubServer::agent(|number, _| match number {
        0 => {
            let frames = vec![frame(None, &event("WORKING")), frame(None, &chunk("half of it"))];
            StubAction::Stream(frames, StreamEnd::Break)
        }
        _ => StubAction::Error(-32001, "task not found"),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("half of it", TaskState::Failed));
    assert!(!words(&done).is_empty());
}

#[tokio::test]
async fn objects_of_another_version_are_no_answer() {
    let old = r#"{"kind":"task","id":"t-1","contextId":"c-1","status":{"state":"completed"}}"#;
    let stub = StubServer::agent(move |_, _| StubAction::Stream(vec![frame(None, old)], StreamEnd::End)).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((done.status.state, done.artifacts.len()), (TaskState::Failed, 0), "nothing is made up from them");
    assert!(!words(&done).is_empty());
}

#[tokio::test]
async fn what_is_said_of_another_task_is_not_ours() {
    let stub = StubServer::agent(|number, heard| match (number, heard.method().as_str()) {
        (0, _) => {
            let strange = chunk("stolen").replace("t-1", "t-2");
            StubAction::Stream(vec![frame(None, &event("WORKING")), frame(None, &strange)], StreamEnd::Silence)
        }
        (_, "SubscribeToTask") => StubAction::Error(-32004, "not here"),
        _ => StubAction::Result(holding("COMPLETED", &["ours"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("ours", TaskState::Completed));
    assert!(Gap::of(done.metadata.as_ref()).unwrap().reason.contains("could not be used"));
}

#[tokio::test]
async fn a_stream_without_end_ends_at_our_limits() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &event("WORKING"))];
            frames.extend((0..500).map(|n| frame(None, &chunk(&n.to_string()))));
            StubAction::Stream(frames, StreamEnd::Silence)
        }
        _ => StubAction::Result(holding("CANCELED", &[])),
    })
    .await;
    let limits = Limits { task_events_max: 100, ..Limits::default() };
    let bench = Bench::limited(TaskStore::in_memory().log, upstream(&stub.url), limits).await;
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
        let stub = StubServer::start(
            |base| card(base, "{}", ""),
            move |_, _| StubAction::Answer(200, format!("content-type: {media}\r\n"), body.clone()),
        )
        .await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Failed, "{media}");
        assert!(!words(&done).is_empty() && words(&done).len() < 2000, "{}", words(&done));
        assert!(!words(&done).contains('<'), "callers do not see the page: {}", words(&done));
        let sent = stub.calls().iter().filter(|call| call.method() == "SendMessage").count();
        assert_eq!(sent, 1, "it may have been taken");
    }
}

#[tokio::test]
async fn who_speaks_another_version_overnight_is_discovered_anew_and_once() {
    let changed = Arc::new(AtomicBool::new(false));
    let now = changed.clone();
    let stub = StubServer::start(
        move |base| {
            if now.load(Ordering::Relaxed) {
                return card(base, "{}", "");
            }
            let old = card(base, "{}", "");
            old.replace(r#""protocolVersion":"1.0""#, r#""protocolVersion":"0.3""#)
        },
        |_, heard| match heard.method().as_str() {
            "SendMessage" => StubAction::Result(event("COMPLETED")),
            _ => StubAction::Error(-32601, "no such method any more"),
        },
    )
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    // Its card is known as 0.3; then it becomes 1.0.
    bench.remote.refresh().await.unwrap();
    changed.store(true, Ordering::Relaxed);
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed, "{}", words(&done));
    let methods: Vec<String> = stub.calls().iter().map(|call| call.method()).collect();
    assert_eq!(methods, ["message/send", "SendMessage"]);
    // An agent that does not change is not asked for ever.
    let stub = StubServer::start(|base| card(base, "{}", ""), |_, _| StubAction::Error(-32601, "no")).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    assert_eq!(stub.calls().len(), 2);
}

#[tokio::test]
async fn cards_lead_nowhere_that_the_operator_did_not_allow() {
    for place in [
        "http://0.0.0.0:PORT/rpc",
        "http://127.9.9.9:PORT/rpc",
        "http://10.0.0.1/rpc",
        "http://169.254.169.254/rpc",
        "http://[::1]:PORT/rpc",
        "file:///etc/passwd",
    ] {
        let stub = StubServer::start(
            move |base| {
                let port = base.rsplit(':').next().unwrap();
                card(base, "{}", "").replace(&format!("{base}/rpc"), &place.replace("PORT", port))
            },
            |_, _| StubAction::Result(event("COMPLETED")),
        )
        .await;
        let egress = Egress::public().and_network("127.0.0.1/32".parse().unwrap());
        let bench = Bench::new(sabir_gateway::Upstream { egress, ..upstream(&stub.url) }).await;
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Failed, "{place}");
        assert_eq!(stub.calls().len(), 0, "{place}");
        let said = words(&done);
        assert!(!said.contains("10.0.0.1") && !said.contains("169.254"), "the way is for our log: {said}");
    }
}

fn sends(stub: &StubServer) -> usize {
    stub.calls().iter().filter(|call| call.method().starts_with("Send")).count()
}

#[tokio::test]
async fn a_message_whose_fate_nobody_knows_is_not_sent_again() {
    // No answer; or a gateway gives up, with a page, in JSON, or with nothing. The task is in no list.
    let json = || "content-type: application/json\r\n".to_owned();
    let cases: [fn() -> StubAction; 4] = [
        || StubAction::HangUp,
        || StubAction::Answer(504, String::new(), String::new()),
        || StubAction::Answer(500, "content-type: text/html\r\n".into(), "<html>".into()),
        || StubAction::Answer(502, "content-type: application/json\r\n".into(), r#"{"message":"timed out"}"#.into()),
    ];
    for case in cases {
        let stub = StubServer::start(
            |base| card(base, "{}", ""),
            move |_, heard| match heard.method().as_str() {
                "ListTasks" => {
                    StubAction::Result(r#"{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}"#.into())
                }
                _ => case(),
            },
        )
        .await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let done = bench.send("go").await;
        assert_eq!(done.status.state, TaskState::Failed);
        assert!(words(&done).contains("not known whether"), "{}", words(&done));
        assert_eq!(sends(&stub), 1);
    }
    // HTTP+JSON, where a gateway's own words look like an agent's.
    let stub = StubServer::start(
        |base| card(base, "{}", "").replace("JSONRPC", "HTTP+JSON"),
        move |_, _| StubAction::Answer(504, json(), r#"{"message":"Endpoint request timed out"}"#.into()),
    )
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    assert_eq!(bench.send("go").await.status.state, TaskState::Failed);
    assert_eq!(stub.calls().iter().filter(|call| call.line.contains("message:send")).count(), 1);
}

#[tokio::test]
async fn a_message_that_may_be_repeated_is_repeated_as_often_as_may_be() {
    let stub = StubServer::start(
        |base| card(base, "{}", ""),
        |_, heard| match heard.method().as_str() {
            "ListTasks" => StubAction::Result(r#"{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}"#.into()),
            _ => StubAction::HangUp,
        },
    )
    .await;
    let bench = Bench::new(sabir_gateway::Upstream { idempotent: true, ..upstream(&stub.url) }).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Failed);
    assert_eq!(sends(&stub), 6, "as many attempts as it has, and looking is none");
}

#[tokio::test]
async fn one_bad_answer_does_not_throw_away_work_that_goes_on() {
    let bad: [fn() -> StubAction; 4] = [
        || StubAction::Answer(500, String::new(), "oh".into()),
        || StubAction::Error(-32603, "database is locked"),
        || StubAction::Answer(200, "content-type: text/html\r\n".into(), "<html>".into()),
        || StubAction::Answer(401, String::new(), String::new()),
    ];
    for bad in bad {
        let stub = StubServer::start(
            |base| card(base, "{}", ""),
            move |number, heard| match (number, heard.method().as_str()) {
                (_, "SendMessage") => StubAction::Result(event("WORKING")),
                (1, _) => bad(),
                _ => StubAction::Result(holding("COMPLETED", &["done"])),
            },
        )
        .await;
        let bench = Bench::new(upstream(&stub.url)).await;
        let done = bench.send("go").await;
        assert_eq!((text(&done).as_str(), done.status.state), ("done", TaskState::Completed), "{}", words(&done));
    }
    // An error in the middle of a stream is no end either.
    let stub = StubServer::agent(|number, _| match number {
        0 => {
            let error = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"oops\"}}\n\n";
            StubAction::Stream(vec![frame(None, &event("WORKING")), error.into()], StreamEnd::End)
        }
        1 => StubAction::Error(-32004, "not here"),
        _ => StubAction::Result(holding("COMPLETED", &["done"])),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!((text(&done).as_str(), done.status.state), ("done", TaskState::Completed), "{}", words(&done));
}

#[tokio::test]
async fn a_card_without_a_version_may_be_of_the_first_one() {
    let old = |base: &str| {
        format!(
            r#"{{"name":"old","description":"d","url":"{base}/rpc","version":"1","capabilities":{{}},"skills":[],
            "defaultInputModes":["text"],"defaultOutputModes":["text"]}}"#
        )
    };
    let stub = StubServer::start(old, |_, heard| match heard.method().as_str() {
        "tasks/send" => {
            let id = heard.json()["params"]["id"].clone();
            StubAction::Result(format!(
                r#"{{"id":{id},"status":{{"state":"completed"}},"artifacts":[{{"index":0,"parts":[{{"type":"text","text":"hi"}}]}}]}}"#
            ))
        }
        _ => StubAction::Error(-32600, "Request payload validation error"),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    for _ in 0..2 {
        let done = bench.send("go").await;
        assert_eq!((text(&done).as_str(), done.status.state), ("hi", TaskState::Completed), "{}", words(&done));
    }
    let methods: Vec<String> = stub.calls().iter().map(|call| call.method()).collect();
    assert_eq!(methods.iter().filter(|method| *method == "tasks/send").count(), 2, "{methods:?}");
    assert_eq!(methods.last().map(String::as_str), Some("tasks/send"), "what was found out is remembered: {methods:?}");
    assert!(methods.len() <= 4, "{methods:?}");
}

#[tokio::test]
async fn an_event_without_a_number_after_one_with_a_number_is_told() {
    let progress = |text: &str| {
        let message = format!(r#"{{"messageId":"{text}","role":"ROLE_AGENT","parts":[{{"text":"{text}"}}]}}"#);
        format!(
            r#"{{"statusUpdate":{{"taskId":"t-1","contextId":"c-1","status":{{"state":"TASK_STATE_WORKING","message":{message}}}}}}}"#
        )
    };
    let stub = StubServer::agent(move |_, _| {
        let frames = vec![
            frame(Some(1), &event("WORKING")),
            frame(None, &progress("p0")),
            frame(None, &progress("p1")),
            frame(None, &status("COMPLETED")),
        ];
        StubAction::Stream(frames, StreamEnd::End)
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let events = bench.stream("go").await;
    let told =
        |text: &str| events.iter().any(|event| event["statusUpdate"]["status"]["message"]["parts"][0]["text"] == text);
    assert!(told("p0") && told("p1"), "{events:?}");
    assert!(gaps(&events).is_empty(), "{events:?}");
}

#[tokio::test]
async fn streams_that_break_together_are_all_taken_up_again() {
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let at = calls.clone();
    let stub = StubServer::agent(move |_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let id = format!("t-{}", at.fetch_add(1, Ordering::Relaxed));
            StubAction::Stream(vec![frame(None, &event("WORKING").replace("t-1", &id))], StreamEnd::Break)
        }
        _ => {
            let id = heard.json()["params"]["id"].as_str().unwrap().to_owned();
            StubAction::Stream(vec![frame(None, &event("COMPLETED").replace("t-1", &id))], StreamEnd::End)
        }
    })
    .await;
    let mut one = upstream(&stub.url);
    // Less than what the budget of repetitions would need for all of them.
    one.wait_limits.silence_max = Some(std::time::Duration::from_secs(8));
    let bench = Bench::new(one).await;
    let mut tasks = Vec::new();
    for _ in 0..60 {
        tasks.push(bench.begin("go").await.id);
    }
    for id in tasks {
        bench.reaches(id, TaskState::Completed).await;
    }
    assert!(stub.calls().iter().all(|call| call.method() != "CancelTask"));
}
