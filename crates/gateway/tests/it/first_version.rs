//! Agents of 0.1, where the sender of a message names its task: the name is kept, and the task is found by it.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer};
use crate::bench::{Bench, eventually, upstream};
use sabir_proto::{Gap, TaskState};

async fn agent(script: impl Fn(usize, &RecordedRequest) -> StubAction + Send + Sync + 'static) -> StubServer {
    let card = |base: &str| {
        format!(
            r#"{{"name":"old","url":"{base}/rpc","version":"1","capabilities":{{}},"skills":[],"authentication":{{"schemes":[]}}}}"#
        )
    };
    StubServer::start(card, script).await
}

fn task(heard: &RecordedRequest, state: &str) -> StubAction {
    let id = &heard.json()["params"]["id"];
    StubAction::Result(format!(
        r#"{{"id":{id},"status":{{"state":"{state}","message":{{"role":"agent","parts":[{{"type":"text","text":"done"}}]}}}}}}"#
    ))
}

fn asked(stub: &StubServer, method: &str) -> Vec<String> {
    let calls = stub.calls().into_iter().filter(|heard| heard.method() == method);
    calls.map(|heard| heard.json()["params"]["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_message_whose_fate_nobody_knows_is_found_by_the_name_of_its_task() {
    let stub = agent(|_, heard| match heard.method().as_str() {
        "tasks/send" => StubAction::HangUp,
        _ => task(heard, "completed"),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let done = bench.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed);
    let sent = asked(&stub, "tasks/send");
    assert_eq!((sent.len(), asked(&stub, "tasks/get")), (1, sent));
}

#[tokio::test]
async fn where_it_may_be_repeated_it_keeps_its_name() {
    let stub = agent(|number, heard| match (number, heard.method().as_str()) {
        (0, "tasks/send") => StubAction::HangUp,
        (_, "tasks/send") => task(heard, "completed"),
        _ => StubAction::Error(-32001, "no such task"),
    })
    .await;
    let mut upstream = upstream(&stub.url);
    upstream.idempotent = true;
    let done = Bench::new(upstream).await.send("go").await;
    assert_eq!(done.status.state, TaskState::Completed);
    let sent = asked(&stub, "tasks/send");
    assert!(sent.len() == 2 && sent[0] == sent[1], "{sent:?}");
}

#[tokio::test]
async fn a_task_that_was_not_answered_yet_can_be_called_off() {
    let stub = agent(|_, heard| match heard.method().as_str() {
        "tasks/send" => StubAction::Stream(Vec::new(), StreamEnd::Silence),
        _ => task(heard, "canceled"),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it was sent", async || (!asked(&stub, "tasks/send").is_empty()).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!(Gap::of(task.metadata.as_ref()), None, "they have said so themselves");
    assert_eq!(asked(&stub, "tasks/cancel"), asked(&stub, "tasks/send"));
}

#[tokio::test]
async fn a_task_that_is_there_only_after_the_first_cancel_is_called_off_all_the_same() {
    let canceled = std::sync::atomic::AtomicUsize::new(0);
    let stub = agent(move |_, heard| match heard.method().as_str() {
        "tasks/send" => StubAction::Stream(Vec::new(), StreamEnd::Silence),
        "tasks/cancel" if canceled.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
            StubAction::Error(-32001, "no such task")
        }
        _ => task(heard, "canceled"),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it was sent", async || (!asked(&stub, "tasks/send").is_empty()).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!((task.status.state, Gap::of(task.metadata.as_ref())), (TaskState::Canceled, None));
    assert_eq!(asked(&stub, "tasks/cancel").len(), 2);
}
