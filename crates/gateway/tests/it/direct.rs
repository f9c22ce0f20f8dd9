//! A message instead of a task is answered as a message here, and kept.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer, frame, task};
use crate::bench::{Bench, eventually, upstream, words};
use sabir_gateway::Upstream;
use sabir_proto::{Message, SendReply, Task, TaskState, direct_message};
use sabir_store::TaskStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ONE: &str = "0198aaaa-0000-7000-8000-000000000001";
const TWO: &str = "0198aaaa-0000-7000-8000-000000000002";

fn said(text: &str) -> String {
    // On one line, as events of a stream are.
    serde_json::json!({"message": {
        "messageId": "theirs-1", "contextId": "c-9", "role": "ROLE_AGENT", "parts": [{"text": text}],
        "metadata": {"mood": "good", "urn:sabir:ext:handoff:v1": {"state": "TRANSFERRED"}},
        "extensions": ["https://example.com/mood"], "referenceTaskIds": ["t-0"]}})
    .to_string()
}

/// Answers every send with a message, in a stream or at once.
fn answers(heard: &RecordedRequest) -> StubAction {
    match heard.method().as_str() {
        "SendStreamingMessage" => StubAction::Stream(vec![frame(None, &said("hi"))], StreamEnd::End),
        "SendMessage" => StubAction::Result(said("hi")),
        _ => StubAction::Error(-32001, "no task"),
    }
}

async fn polled() -> StubServer {
    StubServer::start(|base| crate::agent::card(base, "{}", ""), |_, heard| answers(heard)).await
}

#[track_caller]
fn message(sent: SendReply) -> Message {
    match sent {
        SendReply::Message(message) => *message,
        SendReply::Task(task, _) => panic!("a task: {}", String::from_utf8_lossy(&task.json)),
    }
}

#[tokio::test]
async fn a_message_of_an_agent_elsewhere_is_answered_as_a_message_and_kept_as_a_task() {
    for idempotent in [false, true] {
        for stub in [StubServer::agent(|_, heard| answers(heard)).await, polled().await] {
            let log = TaskStore::in_memory().log;
            let bench = Bench::on(log.clone(), Upstream { idempotent, ..upstream(&stub.url) }).await;
            let first = message(bench.ask_as("ana", ONE, "hello").await);
            assert_eq!((first.joined_text().as_str(), first.message_id.as_str()), ("hi", "theirs-1"));
            assert_eq!((&first.task_id, first.extensions.len(), first.reference_task_ids.len()), (&None, 1, 0));
            let metadata = first.metadata.clone().unwrap();
            assert_eq!(metadata.as_str(), r#"{"mood":"good"}"#, "what our extensions say is ours to say");
            let [kept]: [Task; 1] = bench.tasks_of("ana").await.try_into().unwrap();
            assert_eq!((kept.status.state, words(&kept)), (TaskState::Completed, "hi".into()));
            assert!(direct_message::is_marked(kept.metadata.as_ref()));
            assert_eq!(first.context_id.as_ref(), Some(&kept.context_id), "the conversation goes on here");
            // Sent again it is answered again, without asking the agent; also by another process.
            assert_eq!(message(bench.ask_as("ana", ONE, "hello").await), first);
            let again = bench.stream_as("ana", ONE, "hello").await;
            assert_eq!(again, [serde_json::json!({"message": first})]);
            bench.engine.stop().await;
            let next = Bench::on(log, Upstream { idempotent, ..upstream(&stub.url) }).await;
            assert_eq!(message(next.ask_as("ana", ONE, "hello").await), first);
            assert_eq!(stub.calls().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_message_has_nothing_else_in_it() {
    for stub in [StubServer::agent(|_, heard| answers(heard)).await, polled().await] {
        let bench = Bench::new(upstream(&stub.url)).await;
        let items = bench.stream_as("ana", ONE, "hello").await;
        assert_eq!(items.len(), 1, "{items:?}");
        assert_eq!(items[0]["message"]["parts"][0]["text"], "hi");
    }
}

#[tokio::test]
async fn who_wants_tasks_gets_the_task() {
    let stub = polled().await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let task = bench.send("hello").await;
    assert_eq!((task.status.state, words(&task)), (TaskState::Completed, "hi".into()));
}

#[tokio::test]
async fn an_agent_that_names_its_task_is_shown_before_it_is_done() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            StubAction::Stream(vec![frame(None, &format!(r#"{{"task":{}}}"#, task("SUBMITTED")))], StreamEnd::Silence)
        }
        _ => StubAction::Result(task("CANCELED")),
    })
    .await;
    let bench = Arc::new(Bench::new(upstream(&stub.url)).await);
    let streaming = bench.clone();
    let stream = tokio::spawn(async move { streaming.stream_as("ana", ONE, "go").await });
    let opened = async || bench.tasks_of("ana").await.pop();
    let id = eventually("it is opened", opened).await.id;
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    bench.cancel_as("ana", id).await.unwrap();
    let items = stream.await.unwrap();
    assert_eq!(items[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED", "{items:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_comes_when_the_caller_has_left_is_kept_for_it() {
    let speaks = Arc::new(AtomicBool::new(false));
    let now = speaks.clone();
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        move |_, heard| {
            while !now.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            answers(heard)
        },
    );
    let stub = stub.await;
    let bench = Arc::new(Bench::new(upstream(&stub.url)).await);
    let asking = bench.clone();
    let caller = tokio::spawn(async move { asking.ask_as("ana", ONE, "hello").await });
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    speaks.store(true, Ordering::Relaxed);
    assert_eq!(message(bench.ask_as("ana", ONE, "hello").await).joined_text(), "hi");
    assert_eq!((stub.calls().len(), bench.tasks_of("ana").await.len()), (1, 1));
}

#[tokio::test]
async fn a_message_that_is_delivered_twice_is_one_answer() {
    // In one stream, and on two calls of which the first is lost.
    let twice = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            StubAction::Stream(vec![frame(None, &said("hi")), frame(None, &said("hi"))], StreamEnd::End)
        }
        _ => StubAction::Error(-32001, "no task"),
    })
    .await;
    let lost = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |number, heard| if number == 0 { StubAction::HangUp } else { answers(heard) },
    );
    for stub in [twice, lost.await] {
        let bench = Bench::new(Upstream { idempotent: true, ..upstream(&stub.url) }).await;
        assert_eq!(message(bench.ask_as("ana", ONE, "hello").await).joined_text(), "hi");
        let [kept]: [Task; 1] = bench.tasks_of("ana").await.try_into().unwrap();
        assert_eq!((kept.status.state, kept.history.len()), (TaskState::Completed, 1));
    }
}

#[tokio::test]
async fn a_message_keeps_the_id_that_its_caller_gave_it() {
    let stub = polled().await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log, upstream(&stub.url)).await;
    let heard = |stub: &StubServer| -> Vec<String> {
        let id = |call: &RecordedRequest| call.json()["params"]["message"]["messageId"].as_str().unwrap().to_owned();
        stub.calls().iter().map(id).collect()
    };
    bench.ask_as("ana", ONE, "hello").await;
    assert_eq!(heard(&stub), [ONE]);
    // An id that another caller has used, one that is used again for something else, and one that many callers use.
    bench.ask_as("bob", ONE, "hello").await;
    bench.ask_as("ana", ONE, "something else").await;
    bench.ask_as("ana", "msg-1", "hello").await;
    bench.ask_as("bob", "msg-1", "hello").await;
    bench.ask_as("bob", TWO, "hello").await;
    let ids = heard(&stub);
    assert_eq!((ids.len(), ids[5].as_str()), (6, TWO));
    let unique: std::collections::HashSet<&String> = ids.iter().collect();
    assert_eq!(unique.len(), 6, "no id is used for two messages: {ids:?}");
    assert!(!ids.contains(&"msg-1".to_owned()));
}

#[tokio::test]
async fn a_message_that_is_sent_again_keeps_its_id() {
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |number, heard| match number {
            0 => StubAction::Answer(503, "retry-after: 0\r\n".into(), "busy".into()),
            1 => StubAction::HangUp,
            _ => answers(heard),
        },
    );
    let stub = stub.await;
    let bench = Bench::new(Upstream { idempotent: true, ..upstream(&stub.url) }).await;
    message(bench.ask_as("ana", ONE, "hello").await);
    let sends = stub.calls().into_iter().filter(|call| call.method() == "SendMessage");
    let ids: Vec<_> = sends.map(|call| call.json()["params"]["message"]["messageId"].clone()).collect();
    assert!(ids.len() > 1 && ids.iter().all(|id| *id == ONE), "{ids:?}");
}
