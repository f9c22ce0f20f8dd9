//! Streams that break, stall or send wrong events.

use crate::stub::{StreamEnd, StubAction, StubServer, chunk, client, frame, status, task};
use sabir_client::{Error, FollowOptions, PollSchedule, TaskEvents, Timeouts, text_message};
use std::time::Duration;

fn quick() -> FollowOptions {
    let pace = PollSchedule { first: Duration::from_millis(10), ..PollSchedule::default() };
    FollowOptions {
        schedule: pace,
        reconnect_pause: Duration::from_millis(5),
        reconnects_max: 3,
        ..FollowOptions::default()
    }
}

/// Reads a stream to its end: the kinds of its events, and the error.
async fn collect_events(events: &mut TaskEvents) -> (Vec<String>, Option<Error>) {
    let mut list = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(said) => {
                let json: serde_json::Value = serde_json::from_str(said.json()).unwrap();
                let (kind, value) = json.as_object().unwrap().iter().next().unwrap();
                let text = value["artifact"]["parts"][0]["text"].as_str().unwrap_or_default();
                let state = value["status"]["state"].as_str().unwrap_or_default();
                list.push(format!("{kind} {state}{text}"));
            }
            Err(error) => return (list, Some(error)),
        }
    }
    (list, None)
}

fn whole() -> String {
    format!(r#"{{"task":{}}}"#, task("WORKING"))
}

#[tokio::test]
async fn a_broken_stream_goes_on_after_the_last_numbered_event() {
    let stub = StubServer::agent(|number, _| match number {
        // The stream breaks within an event, which does not count.
        0 => StubAction::Stream(
            vec![frame(Some(1), &whole()), frame(Some(2), &chunk("a")), "id: 3\ndata: {\"js".into()],
            StreamEnd::Break,
        ),
        _ => {
            StubAction::Stream(vec![frame(Some(3), &chunk("b")), frame(Some(4), &status("COMPLETED"))], StreamEnd::End)
        }
    })
    .await;
    let agent = stub.connect().await;
    let mut events = agent.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        list,
        ["task TASK_STATE_WORKING", "artifactUpdate a", "artifactUpdate b", "statusUpdate TASK_STATE_COMPLETED"]
    );
    let calls = stub.calls();
    assert_eq!(calls[1].method(), "SubscribeToTask");
    assert_eq!(calls[1].header("last-event-id").as_deref(), Some("2"));
    // The message was sent only once.
    assert_eq!(calls.iter().filter(|c| c.method() == "SendStreamingMessage").count(), 1);
    let folded = events.folded_task().unwrap();
    assert_eq!(folded.value.answer_text(sabir_proto::NonText::Skip), "ab");
}

#[tokio::test]
async fn without_numbers_the_task_is_subscribed_to_anew() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(vec![frame(None, &whole()), frame(None, &chunk("a"))], StreamEnd::End),
        _ => StubAction::Stream(vec![frame(None, &whole()), frame(None, &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none());
    assert_eq!(list.len(), 4);
    assert_eq!(stub.calls()[1].header("last-event-id"), None);
}

#[tokio::test]
async fn where_streams_do_not_come_back_the_task_is_asked_for() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => StubAction::Stream(vec![frame(None, &whole())], StreamEnd::Break),
        "SubscribeToTask" => StubAction::Error(-32004, "not here"),
        _ => StubAction::Result(task("COMPLETED")),
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none());
    assert_eq!(list, ["task TASK_STATE_WORKING", "task TASK_STATE_COMPLETED"]);
}

#[tokio::test]
async fn a_stream_that_dies_before_its_first_event_is_not_sent_again() {
    let stub = StubServer::agent(|_, _| StubAction::HangUp).await;
    let error = stub.connect().await.stream(text_message("x"), quick()).await.err().unwrap();
    assert!(matches!(error, Error::Unreachable { safe: false, .. }), "{error:?}");
    assert_eq!(stub.calls().len(), 1);
}

#[tokio::test]
async fn a_stalled_stream_is_given_up_and_taken_up_again() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(vec![frame(Some(1), &whole())], StreamEnd::Silence),
        _ => StubAction::Stream(vec![frame(Some(2), &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let timeouts = Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() };
    let agent = client().timeouts(timeouts).build().unwrap().connect(&stub.url.parse().unwrap()).await.unwrap();
    let mut events = agent.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(list, ["task TASK_STATE_WORKING", "statusUpdate TASK_STATE_COMPLETED"]);
}

#[tokio::test]
async fn a_stream_that_never_ends_ends_for_us_with_its_task() {
    let stub = StubServer::agent(|_, _| {
        StubAction::Stream(vec![frame(None, &whole()), frame(None, &status("COMPLETED"))], StreamEnd::Silence)
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, _) = tokio::time::timeout(Duration::from_secs(5), collect_events(&mut events)).await.unwrap();
    assert_eq!(list.len(), 2);
}

#[tokio::test]
async fn a_question_ends_the_stream_and_a_message_is_all_there_is() {
    let stub = StubServer::agent(|number, _| match number {
        0 => {
            StubAction::Stream(vec![frame(None, &whole()), frame(None, &status("INPUT_REQUIRED"))], StreamEnd::Silence)
        }
        _ => {
            let message = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}"#;
            StubAction::Stream(vec![frame(None, message)], StreamEnd::Silence)
        }
    })
    .await;
    let agent = stub.connect().await;
    let mut events = agent.stream(text_message("x"), quick()).await.unwrap();
    assert_eq!(collect_events(&mut events).await.0.len(), 2);
    let mut events = agent.stream(text_message("x"), quick()).await.unwrap();
    assert_eq!(collect_events(&mut events).await.0, ["message "]);
    assert!(events.task().is_none());
}

#[tokio::test]
async fn an_event_for_another_request_is_not_ours() {
    let stub = StubServer::agent(|_, _| {
        StubAction::Stream(vec![frame(None, &whole()).replace("$ID", "\"somebody else\"")], StreamEnd::End)
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let error = collect_events(&mut events).await.1.unwrap();
    assert!(error.to_string().contains("another request"), "{error}");
}

#[tokio::test]
async fn an_error_inside_a_stream_is_the_agents_error() {
    let broken = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32603,\"message\":\"out of ideas\"}}\n\n";
    let stub = StubServer::agent(move |_, heard| match heard.method().as_str() {
        "GetTask" => StubAction::Error(-32603, "no better"),
        _ => StubAction::Stream(vec![frame(None, &whole()), broken.into()], StreamEnd::End),
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert_eq!(list.len(), 1);
    assert_eq!(error.unwrap().to_string(), "out of ideas");
}

#[tokio::test]
async fn another_tasks_event_does_not_end_up_in_ours() {
    let foreign = status("COMPLETED").replace("t-1", "t-2");
    let stub = StubServer::agent(move |_, heard| match heard.method().as_str() {
        "GetTask" => StubAction::Result(task("CANCELED")),
        _ => StubAction::Stream(vec![frame(None, &whole()), frame(None, &foreign)], StreamEnd::Silence),
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none());
    // The client polls the task instead.
    assert_eq!(list, ["task TASK_STATE_WORKING", "task TASK_STATE_CANCELED"]);
}

#[tokio::test]
async fn an_agent_that_tells_the_task_and_hangs_up_is_asked_in_the_end() {
    let stub = StubServer::agent(|number, heard| match heard.method().as_str() {
        "GetTask" => StubAction::Result(task("COMPLETED")),
        _ if number > 20 => StubAction::HangUp,
        _ => StubAction::Stream(vec![frame(None, &whole())], StreamEnd::End),
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(list.last().unwrap(), "task TASK_STATE_COMPLETED");
    assert_eq!(stub.calls().iter().filter(|c| c.method() == "SubscribeToTask").count(), 3);
}

#[tokio::test]
async fn a_subscription_that_breaks_before_its_first_event_is_taken_up_again() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(Vec::new(), StreamEnd::Break),
        _ => StubAction::Stream(vec![frame(None, &whole()), frame(None, &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let agent = stub.connect().await;
    let mut events = agent.subscribe(sabir_proto::TaskRef::parse("t-1").unwrap(), quick()).await.unwrap();
    let (list, error) = collect_events(&mut events).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(list.len(), 2);
}

#[tokio::test]
async fn an_aside_does_not_end_a_task() {
    let aside = r#"{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hm"}]}}"#;
    let stub = StubServer::agent(move |_, _| {
        StubAction::Stream(
            vec![frame(None, &whole()), frame(None, aside), frame(None, &status("COMPLETED"))],
            StreamEnd::End,
        )
    })
    .await;
    let mut events = stub.connect().await.stream(text_message("x"), quick()).await.unwrap();
    assert_eq!(collect_events(&mut events).await.0.len(), 3);
}

#[tokio::test]
async fn a_stream_that_is_resumed_elsewhere_goes_on_after_its_point() {
    let stub = StubServer::agent(|number, _| match number {
        0 => StubAction::Stream(vec![frame(Some(7), &whole())], StreamEnd::Silence),
        _ => StubAction::Stream(vec![frame(Some(8), &status("COMPLETED"))], StreamEnd::End),
    })
    .await;
    let agent = stub.connect().await;
    let mut events = agent.stream(text_message("x"), quick()).await.unwrap();
    events.next().await.unwrap().unwrap();
    let (task, point) = (events.task().unwrap().id.clone(), events.resume_point().map(str::to_owned));
    drop(events);
    let mut events = agent.resume(task, point, quick()).await.unwrap();
    assert_eq!(collect_events(&mut events).await.0, ["statusUpdate TASK_STATE_COMPLETED"]);
    assert_eq!(stub.calls()[1].header("last-event-id").as_deref(), Some("7"));
}
