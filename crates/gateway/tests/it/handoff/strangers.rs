//! Tasks that are handed to agents without our extension: every request is counted where it arrives.

use super::world::HandoffWorld;
use crate::agent::{RecordedRequest, StubAction, StubServer, card, task};
use sabir_proto::TaskState;

/// An agent that has the capability, and knows no extension.
fn stranger(answer: impl Fn(usize) -> StubAction + Send + Sync + 'static) -> (HandoffWorld, StubServer) {
    let show = |base: &str| {
        let skill = r#""skills":[{"id":"r","name":"r","description":"r","tags":["cap:billing.refund"]}]"#;
        card(base, "{}", "").replace(r#""skills":[]"#, skill)
    };
    HandoffWorld::with_stranger(async || {
        let stub = StubServer::start(show, move |number, _| answer(number)).await;
        (stub.url.clone(), stub)
    })
}

fn told(state: &str) -> StubAction {
    StubAction::Result(format!(r#"{{"task":{}}}"#, task(state)))
}

/// What it was sent, by method and words.
fn heard(stub: &StubServer) -> Vec<(String, String)> {
    let words =
        |heard: &RecordedRequest| heard.json()["params"]["message"]["parts"][0]["text"].as_str().map(str::to_owned);
    stub.calls().iter().map(|call| (call.method(), words(call).unwrap_or_default())).collect()
}

fn sent(times: usize) -> Vec<(String, String)> {
    vec![("SendMessage".to_owned(), "my money".to_owned()); times]
}

#[test]
fn it_is_told_once_and_no_question_of_it_is_answered_by_us() {
    for state in ["WORKING", "INPUT_REQUIRED", "COMPLETED"] {
        let (world, stub) = stranger(move |_| told(state));
        let (runtime, done) = world.keep(async |a| a.send("my money", true).await.rest().await);
        assert_eq!(done.status.state, TaskState::Transferred, "{state}");
        assert_eq!(done.transfer().unwrap().task_id.to_string(), "t-1");
        drop(runtime);
        // Nor after a restart.
        drop(world.keep(async |a| a.recovered(done.id).await.rest().await));
        assert_eq!(heard(&stub), sent(1), "{state}");
    }
}

#[test]
fn what_it_may_have_begun_is_not_begun_again() {
    let (world, stub) = stranger(|_| StubAction::HangUp);
    let done = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((done.status.state, world.outcomes()), (TaskState::Failed, vec!["refused"]));
    assert!(done.status.message.unwrap().joined_text().contains("not known"));
    assert_eq!(heard(&stub), sent(1));
}

#[test]
fn what_it_has_put_off_is_said_again() {
    let (world, stub) = stranger(|number| match number {
        0 => StubAction::Answer(429, "retry-after: 0\r\n".into(), String::new()),
        _ => told("WORKING"),
    });
    let done = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((done.status.state, heard(&stub)), (TaskState::Transferred, sent(2)));
}

#[test]
fn a_message_without_a_task_is_no_handoff() {
    let message = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}"#;
    let (world, stub) = stranger(move |_| StubAction::Result(message.into()));
    let done = world.run(async |a| a.send("my money", true).await.rest().await);
    assert_eq!((done.status.state, heard(&stub)), (TaskState::Failed, sent(1)));
}
