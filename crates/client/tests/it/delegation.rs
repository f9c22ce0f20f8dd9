//! Delegation: questions come back to the caller, and cancels go to the other agent.

use crate::stub::{StreamEnd, StubAction, StubServer, frame, status, task};
use sabir_client::{Delegation, SendOutcome, message_id};
use sabir_proto::{Message, Role};
use std::future::pending;
use std::time::Duration;

fn message(text: &str) -> Message {
    Message::text(message_id(), Role::User, text)
}

fn whole(state: &str) -> String {
    frame(None, &format!(r#"{{"task":{}}}"#, task(state)))
}

#[tokio::test]
async fn a_question_is_mirrored_and_its_answer_goes_to_the_same_task() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(vec![whole("WORKING"), frame(None, &status("INPUT_REQUIRED"))], StreamEnd::End),
        _ => StubAction::Stream(vec![whole("WORKING"), frame(None, &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let mut work = Delegation::to(stub.connect().await);
    let mut mirrored = 0;
    let outcome = work.turn(message("book"), pending(), |_| mirrored += 1).await.unwrap();
    assert!(matches!(outcome, SendOutcome::InputRequired(_)) && mirrored == 2, "{outcome:?}");
    let outcome = work.turn(message("tomorrow"), pending(), |_| {}).await.unwrap();
    assert!(matches!(outcome, SendOutcome::Completed(_)));
    assert!(work.task().is_none());
    let second = stub.calls()[1].json();
    assert_eq!(second["params"]["message"]["taskId"], "t-1");
    assert_eq!(second["params"]["message"]["contextId"], "c-1");
}

#[tokio::test]
async fn cancelling_ours_cancels_theirs_and_shows_how_it_ended() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => StubAction::Stream(vec![whole("WORKING")], StreamEnd::Silence),
        "CancelTask" => StubAction::Result(task("WORKING")),
        // The task completes before the cancel arrives.
        _ => StubAction::Result(task("COMPLETED")),
    })
    .await;
    let mut work = Delegation::to(stub.connect().await);
    let (tell, canceled) = tokio::sync::oneshot::channel::<()>();
    let mut tell = Some(tell);
    let canceled = async {
        let _ = canceled.await;
    };
    let outcome = work
        .turn(message("x"), canceled, |_| {
            if let Some(tell) = tell.take() {
                let _ = tell.send(());
            }
        })
        .await
        .unwrap();
    assert!(matches!(outcome, SendOutcome::Completed(_)), "{outcome:?}");
    assert!(stub.calls().iter().any(|c| c.method() == "CancelTask"));
}

#[tokio::test]
async fn a_turn_that_is_dropped_takes_their_task_with_it() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => StubAction::Stream(vec![whole("WORKING")], StreamEnd::Silence),
        _ => StubAction::Result(task("CANCELED")),
    })
    .await;
    let mut work = Delegation::to(stub.connect().await);
    let seen = std::sync::Arc::new(tokio::sync::Notify::new());
    let told = seen.clone();
    tokio::select! {
        _ = work.turn(message("x"), pending(), move |_| told.notify_one()) => panic!("it does not end by itself"),
        () = async { seen.notified().await; tokio::task::yield_now().await } => {}
    }
    let canceled = async {
        while !stub.calls().iter().any(|c| c.method() == "CancelTask") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), canceled).await.unwrap();
}
