//! What is canceled here ends as it ended there; where nobody answers, that is said, and they are told again.

use crate::agent::{After, Do, Heard, Stub, chunk, frame, task};
use crate::bench::{Bench, eventually, upstream, words};
use sabir_gateway::{Patience, Upstream};
use sabir_proto::{Fault, Gap, TaskId, TaskState};
use sabir_store::TaskLog;
use sabir_store::memory::MemoryLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Works, with a chunk told, until it is canceled.
fn works(heard: &Heard, cancel: Do, get: Do) -> Do {
    match heard.method().as_str() {
        "SendStreamingMessage" | "SubscribeToTask" => {
            let whole = format!(r#"{{"task":{}}}"#, task("WORKING"));
            Do::Stream(vec![frame(None, &whole), frame(None, &chunk("one"))], After::Silence)
        }
        "CancelTask" => cancel,
        _ => get,
    }
}

/// Their task, with both chunks.
fn whole(state: &str) -> String {
    format!(
        r#"{{"id":"t-1","contextId":"c-1","status":{{"state":"TASK_STATE_{state}","message":{{"messageId":"m","role":"ROLE_AGENT","parts":[{{"text":"as it was"}}]}}}},
        "artifacts":[{{"artifactId":"a","parts":[{{"text":"one"}},{{"text":"two"}}]}}]}}"#
    )
}

async fn at_work(bench: &Bench) -> TaskId {
    let id = bench.begin("go").await.id;
    eventually("something was told", async || (!bench.task(id).await.artifacts.is_empty()).then_some(())).await;
    id
}

fn texts(task: &sabir_proto::Task) -> Vec<&str> {
    task.artifacts.iter().flat_map(|artifact| &artifact.parts).filter_map(|part| part.as_text()).collect()
}

#[tokio::test]
async fn a_cancel_ends_as_it_ended_there_with_what_was_made_meanwhile() {
    let stub = Stub::agent(|_, heard| works(heard, Do::Result(whole("CANCELED")), Do::HangUp)).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    assert_eq!((texts(&task), crate::bench::words(&task)), (vec!["onetwo"], "as it was".into()));
    assert_eq!(Gap::of(task.metadata.as_ref()), None, "everything is known");
}

#[tokio::test]
async fn who_is_canceled_too_late_has_completed_here_as_well() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::agent(move |_, heard| {
        let late = asked.load(Ordering::Relaxed) > 1;
        if heard.method() == "GetTask" {
            asked.fetch_add(1, Ordering::Relaxed);
        }
        let get = if late { whole("COMPLETED") } else { whole("WORKING") };
        works(heard, Do::Error(-32002, "too late"), Do::Result(get))
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    let refused = bench.cancel(id).await.unwrap_err();
    assert!(matches!(refused, Fault::TaskNotCancelable { state: TaskState::Completed, .. }), "{refused}");
    assert_eq!(texts(&bench.task(id).await), ["onetwo"]);
}

#[tokio::test]
async fn a_question_that_is_canceled_is_canceled_there_too() {
    let stub = Stub::agent(|_, heard| match heard.method().as_str() {
        "CancelTask" => Do::Result(whole("REJECTED")),
        _ => Do::Stream(vec![frame(None, &format!(r#"{{"task":{}}}"#, task("INPUT_REQUIRED")))], After::End),
    })
    .await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = bench.send("go").await.id;
    let refused = bench.cancel(id).await.unwrap_err();
    assert!(matches!(refused, Fault::TaskNotCancelable { state: TaskState::Rejected, .. }), "{refused}");
    assert_eq!(texts(&bench.task(id).await), ["one", "two"]);
}

#[tokio::test]
async fn silence_is_a_cancel_with_a_mark_and_they_are_told_until_they_know() {
    let there = Arc::new(AtomicBool::new(false));
    let now = there.clone();
    let stub = Stub::agent(move |_, heard| {
        let cancel = if now.load(Ordering::Relaxed) { Do::Result(whole("CANCELED")) } else { Do::HangUp };
        works(heard, cancel, Do::HangUp)
    })
    .await;
    let impatient = || Upstream { cancel_grace: Duration::from_millis(300), ..upstream(&stub.url) };
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let bench = Bench::on(log.clone(), impatient()).await;
    let id = at_work(&bench).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    let gap = Gap::of(task.metadata.as_ref()).expect("it is not known what became of it there");
    assert!(gap.reason.contains("did not answer the cancel"), "{}", gap.reason);
    assert!(gap.after.0 >= 2, "{gap:?}");
    let owed = async || log.owed_cancels(None, 10).await.unwrap();
    assert_eq!(owed().await.iter().map(|(task, ..)| *task).collect::<Vec<_>>(), [id]);
    // The process ends; another one finds the row and tells them, though its task has long settled.
    bench.engine.stop().await;
    there.store(true, Ordering::Relaxed);
    let told = stub.calls().iter().filter(|call| call.method() == "CancelTask").count();
    let next = Bench::on(log.clone(), impatient()).await;
    next.recover().await;
    eventually("it is acknowledged", async || owed().await.is_empty().then_some(())).await;
    assert!(stub.calls().iter().filter(|call| call.method() == "CancelTask").count() > told);
    assert_eq!(next.task(id).await.status.state, TaskState::Canceled, "what is settled stays settled");
}

#[tokio::test]
async fn who_cannot_cancel_is_not_told_again() {
    let stub = Stub::agent(|_, heard| works(heard, Do::Error(-32004, "not here"), Do::HangUp)).await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    let task = bench.cancel(id).await.unwrap();
    let gap = Gap::of(task.metadata.as_ref()).expect("it may go on there");
    assert!(gap.reason.contains("cannot cancel"), "{}", gap.reason);
    assert!(log.owed_cancels(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_cancel_before_they_have_named_their_task_is_marked() {
    let stub =
        Stub::start(|base| crate::agent::card(base, "{}", ""), |_, _| Do::Stream(Vec::new(), After::Silence)).await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    let gap = Gap::of(task.metadata.as_ref()).expect("it may go on there");
    assert!(gap.reason.contains("had not named its task"), "{}", gap.reason);
}

#[tokio::test]
async fn whom_we_give_up_on_is_told_that_nobody_waits() {
    let stub = Stub::agent(|_, heard| works(heard, Do::Result(whole("CANCELED")), Do::HangUp)).await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let limits = sabir_engine::Limits { turn_time_max: Duration::from_millis(500), ..sabir_engine::Limits::default() };
    let bench = Bench::limited(log.clone(), upstream(&stub.url), limits).await;
    let id = at_work(&bench).await;
    bench.reaches(id, TaskState::Failed).await;
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
    eventually("nothing is owed any more", async || log.owed_cancels(None, 10).await.unwrap().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn whom_we_stop_waiting_for_is_told_until_it_has_heard() {
    let deaf = Arc::new(AtomicBool::new(true));
    let hears = deaf.clone();
    let stub = Stub::agent(move |_, heard| {
        let cancel = if hears.load(Ordering::Relaxed) { Do::HangUp } else { Do::Result(whole("CANCELED")) };
        works(heard, cancel, Do::Result(whole("WORKING")))
    })
    .await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let patience = Patience { silence: Some(Duration::from_millis(300)), ..upstream("").patience };
    let impatient = || Upstream { patience, ..upstream(&stub.url) };
    let bench = Bench::on(log.clone(), impatient()).await;
    let failed = bench.reaches(at_work(&bench).await, TaskState::Failed).await;
    assert!(words(&failed).contains("no news"), "{}", words(&failed));
    assert_eq!(log.owed_cancels(None, 10).await.unwrap().len(), 1, "it is written with the end of the task");
    bench.engine.stop().await;
    deaf.store(false, Ordering::Relaxed);
    // The next process tells them.
    Bench::on(log.clone(), impatient()).await.recover().await;
    eventually("nothing is owed any more", async || log.owed_cancels(None, 10).await.unwrap().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn whoever_cannot_be_taken_up_again_is_told_that_nobody_waits() {
    let stub = Stub::agent(|_, heard| works(heard, Do::Result(whole("CANCELED")), Do::HangUp)).await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    bench.engine.stop().await;
    let limits = sabir_engine::Limits { attempts_max: 0, ..sabir_engine::Limits::default() };
    let bench = Bench::limited(log.clone(), upstream(&stub.url), limits).await;
    bench.recover().await;
    bench.reaches(id, TaskState::Failed).await;
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
    eventually("nothing is owed any more", async || log.owed_cancels(None, 10).await.unwrap().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn a_cancel_needs_no_room() {
    let stub = Stub::agent(|_, heard| works(heard, Do::Result(whole("CANCELED")), Do::HangUp)).await;
    let bench = Bench::new(Upstream { bulkhead: Some(1), ..upstream(&stub.url) }).await;
    let (id, other) = (at_work(&bench).await, bench.try_begin("me too").await);
    assert!(other.is_err(), "there is room for one");
    let task = bench.cancel(id).await.unwrap();
    assert_eq!((task.status.state, Gap::of(task.metadata.as_ref())), (TaskState::Canceled, None));
}

#[tokio::test]
async fn who_makes_more_artifacts_than_may_be_is_called_off() {
    let stub = Stub::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &format!(r#"{{"task":{}}}"#, task("WORKING")))];
            let one = |n: usize| chunk("small").replace(r#""artifactId":"a""#, &format!(r#""artifactId":"n{n}""#));
            frames.extend((0..=1000).map(|n| frame(None, &one(n))));
            Do::Stream(frames, After::Silence)
        }
        _ => Do::Result(whole("CANCELED")),
    })
    .await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let failed = bench.send("go").await;
    assert_eq!((failed.status.state, failed.artifacts.len()), (TaskState::Failed, 1000));
    assert!(words(&failed).contains("more than 1000 artifacts"), "{}", words(&failed));
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
}

#[tokio::test]
async fn what_was_told_before_a_crash_is_not_told_again_however_much_came_at_once() {
    // More than fits into one step, in one breath, and then nothing.
    let chunks = 700;
    let stub = Stub::agent(move |_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &format!(r#"{{"task":{}}}"#, task("WORKING")))];
            frames.extend((0..chunks).map(|n| frame(None, &chunk(&format!("{n} ")))));
            Do::Stream(frames, After::Silence)
        }
        "SubscribeToTask" => Do::Error(-32004, "not here"),
        _ => {
            let parts: Vec<String> = (0..=chunks).map(|n| format!(r#"{{"text":"{n} "}}"#)).collect();
            let artifacts = format!(r#","artifacts":[{{"artifactId":"a","parts":[{}]}}]}}"#, parts.join(","));
            Do::Result(task("COMPLETED").strip_suffix('}').unwrap().to_owned() + &artifacts)
        }
    })
    .await;
    let log: Arc<dyn TaskLog> = Arc::new(MemoryLog::new());
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let id = bench.begin("go").await.id;
    let text = |chunks: usize| (0..chunks).map(|n| format!("{n} ")).collect::<String>();
    let all = async || (texts(&bench.task(id).await).concat() == text(chunks)).then_some(());
    eventually("all of it is told", all).await;
    bench.engine.stop().await;
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    bench.recover().await;
    let done = bench.reaches(id, TaskState::Completed).await;
    assert_eq!(texts(&done).concat(), text(chunks + 1));
    // And in so many events: none of it was told again, as a whole or otherwise.
    let events = log.events(id, sabir_proto::Seq(0), 5000).await.unwrap();
    let has = |text: &str| {
        let told = format!(r#""text":"{text}""#);
        events.iter().filter(|event| String::from_utf8_lossy(&event.json).contains(&told)).count()
    };
    assert_eq!((has("0 "), has("300 "), has("699 "), has("700 ")), (1, 1, 1, 1));
}
