//! Following a task by polling.

use crate::stub::{StubAction, StubServer, card, client, task};
use sabir_client::{Error, FollowOptions, PollSchedule, SendOutcome, Timeouts, text_message};
use sabir_proto::TaskRef;
use std::time::Duration;

fn quick() -> PollSchedule {
    PollSchedule { first: Duration::from_millis(5), ..PollSchedule::default() }
}

fn sent(state: &str) -> StubAction {
    StubAction::Result(format!(r#"{{"task":{}}}"#, task(state)))
}

#[tokio::test]
async fn a_message_is_sent_without_waiting_and_asked_after() {
    let stub = StubServer::agent(|number, _| match number {
        0 => sent("SUBMITTED"),
        // A few failed polls do not end the wait; an unknown state is waited through.
        1..=2 => StubAction::Answer(503, String::new(), String::new()),
        3 => StubAction::Result(task("UNSPECIFIED")),
        4 => StubAction::Result(task("PONDERING")),
        _ => StubAction::Result(task("COMPLETED")),
    })
    .await;
    let outcome = stub.connect().await.send_and_wait(text_message("x"), quick()).await.unwrap().value;
    assert!(matches!(outcome, SendOutcome::Completed(_)), "{outcome:?}");
    let calls = stub.calls();
    assert_eq!(calls[0].json()["params"]["configuration"]["returnImmediately"], true);
    assert!(calls[1..].iter().all(|c| c.method() == "GetTask"));
}

#[tokio::test]
async fn a_failed_task_is_not_a_success_and_a_question_ends_the_wait() {
    for (state, success) in [("COMPLETED", true), ("FAILED", false), ("REJECTED", false), ("CANCELED", false)] {
        let stub = StubServer::agent(move |_, _| sent(state)).await;
        let outcome = stub.connect().await.send_and_wait(text_message("x"), quick()).await.unwrap().value;
        assert_eq!(outcome.is_success(), success, "{state}");
    }
    for state in ["INPUT_REQUIRED", "AUTH_REQUIRED"] {
        let stub = StubServer::agent(
            move |number, _| if number == 0 { sent("WORKING") } else { StubAction::Result(task(state)) },
        )
        .await;
        let outcome = stub.connect().await.send_and_wait(text_message("x"), quick()).await.unwrap().value;
        assert!(matches!(outcome, SendOutcome::InputRequired(_) | SendOutcome::AuthRequired(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn questions_that_keep_failing_end_the_wait() {
    let stub = StubServer::agent(|_, _| StubAction::Error(-32603, "broken")).await;
    let error = stub.connect().await.wait(TaskRef::parse("t-1").unwrap(), quick()).await.unwrap_err();
    assert_eq!(error.to_string(), "broken");
    let stub = StubServer::agent(|_, _| StubAction::Answer(503, String::new(), String::new())).await;
    assert!(stub.connect().await.wait(TaskRef::parse("t-1").unwrap(), quick()).await.is_err());
    assert_eq!(stub.calls().len(), 3);
}

#[tokio::test]
async fn an_agent_that_does_not_stream_is_followed_by_asking() {
    let script = |number: usize, _: &crate::stub::RecordedRequest| match number {
        0 => sent("SUBMITTED"),
        1..=2 => StubAction::Result(task("WORKING")),
        _ => StubAction::Result(task("COMPLETED")),
    };
    let stub = StubServer::start(|base| card(base, "{}", ""), script).await;
    let follow = FollowOptions { schedule: quick(), ..FollowOptions::default() };
    let mut events = stub.connect().await.stream(text_message("x"), follow).await.unwrap();
    let mut states = Vec::new();
    while let Some(event) = events.next().await {
        states.push(event.unwrap().value.state().unwrap().to_string());
    }
    // Only changes are reported.
    assert_eq!(states, ["submitted", "working", "completed"]);
}

#[tokio::test]
async fn a_whole_operation_has_its_own_bound() {
    let stub =
        StubServer::agent(|number, _| if number == 0 { sent("WORKING") } else { StubAction::Result(task("WORKING")) })
            .await;
    let timeouts = Timeouts { total: Some(Duration::from_millis(100)), ..Timeouts::default() };
    let client = client().timeouts(timeouts).build().unwrap();
    let agent = client.connect(&stub.url.parse().unwrap()).await.unwrap();
    let error = agent.send_and_wait(text_message("x"), quick()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { what: "the operation", .. }), "{error:?}");
    assert!(stub.calls().len() > 1);
}

#[tokio::test]
async fn nobody_is_waited_for_longer_than_the_pace_allows() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Answer(503, "retry-after: 1000000000\r\n".into(), String::new()),
        _ => StubAction::Result(task("COMPLETED")),
    })
    .await;
    let pace = PollSchedule { max: Duration::from_millis(20), ..quick() };
    let agent = stub.connect().await;
    let waited = agent.wait(TaskRef::parse("t-1").unwrap(), pace);
    tokio::time::timeout(Duration::from_secs(5), waited).await.unwrap().unwrap();
}
