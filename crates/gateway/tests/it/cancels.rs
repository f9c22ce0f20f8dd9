//! What is canceled here ends as it ended there; if the agent does not answer, that is marked, and the cancel is
//! repeated.

use crate::agent::{RecordedRequest, StreamEnd, StubAction, StubServer, chunk, frame, task};
use crate::bench::{Bench, eventually, upstream, words};
use sabir_gateway::{Upstream, WaitLimits};
use sabir_proto::{Fault, Gap, TaskId, TaskState};
use sabir_store::TaskStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Works, with a chunk reported, until it is canceled.
fn works(heard: &RecordedRequest, cancel: StubAction, get: StubAction) -> StubAction {
    match heard.method().as_str() {
        "SendStreamingMessage" | "SubscribeToTask" => {
            let whole = format!(r#"{{"task":{}}}"#, task("WORKING"));
            StubAction::Stream(vec![frame(None, &whole), frame(None, &chunk("one"))], StreamEnd::Silence)
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
    let stub =
        StubServer::agent(|_, heard| works(heard, StubAction::Result(whole("CANCELED")), StubAction::HangUp)).await;
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
    let stub = StubServer::agent(move |_, heard| {
        let late = asked.load(Ordering::Relaxed) > 1;
        if heard.method() == "GetTask" {
            asked.fetch_add(1, Ordering::Relaxed);
        }
        let get = if late { whole("COMPLETED") } else { whole("WORKING") };
        works(heard, StubAction::Error(-32002, "too late"), StubAction::Result(get))
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
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "CancelTask" => StubAction::Result(whole("REJECTED")),
        _ => {
            StubAction::Stream(vec![frame(None, &format!(r#"{{"task":{}}}"#, task("INPUT_REQUIRED")))], StreamEnd::End)
        }
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
    let stub = StubServer::agent(move |_, heard| {
        let cancel =
            if now.load(Ordering::Relaxed) { StubAction::Result(whole("CANCELED")) } else { StubAction::HangUp };
        works(heard, cancel, StubAction::HangUp)
    })
    .await;
    let impatient = || Upstream { cancel_grace: Duration::from_millis(300), ..upstream(&stub.url) };
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), impatient()).await;
    let id = at_work(&bench).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    let gap = Gap::of(task.metadata.as_ref()).expect("it is not known what became of it there");
    assert!(gap.reason.contains("did not answer the cancel"), "{}", gap.reason);
    assert!(gap.after.0 >= 2, "{gap:?}");
    let owed = async || log.pending_cancels(None, 10).await.unwrap();
    assert_eq!(owed().await.iter().map(|(task, ..)| *task).collect::<Vec<_>>(), [id]);
    // The process ends; another one finds the row and repeats the cancel, though its task has long settled.
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
    let stub =
        StubServer::agent(|_, heard| works(heard, StubAction::Error(-32004, "not here"), StubAction::HangUp)).await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    let task = bench.cancel(id).await.unwrap();
    let gap = Gap::of(task.metadata.as_ref()).expect("it may go on there");
    assert!(gap.reason.contains("cannot cancel"), "{}", gap.reason);
    assert!(log.pending_cancels(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_cancel_before_they_have_named_their_task_is_marked() {
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |_, _| StubAction::Stream(Vec::new(), StreamEnd::Silence),
    )
    .await;
    let impatient = Upstream { cancel_grace: Duration::ZERO, ..upstream(&stub.url) };
    let bench = Bench::new(impatient).await;
    let id = bench.begin("go").await.id;
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    let gap = Gap::of(task.metadata.as_ref()).expect("it may go on there");
    assert!(gap.reason.contains("had not named its task"), "{}", gap.reason);
}

/// A counting stub: how many tasks were begun there, and which of them were canceled.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    canceled: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

/// An agent that names its task some time after it has got the message, and works until it is told to stop.
async fn slow_to_name(streams: bool, delay: Duration) -> (StubServer, Arc<Counts>) {
    let counts: Arc<Counts> = Arc::default();
    let counted = counts.clone();
    let capabilities = if streams { r#"{"streaming":true}"# } else { "{}" };
    let stub = StubServer::start(
        move |base| crate::agent::card(base, capabilities, ""),
        move |_, heard| {
            let theirs = |id: &str, state: &str| task(state).replace("t-1", id);
            match heard.method().as_str() {
                method @ ("SendMessage" | "SendStreamingMessage") => {
                    std::thread::sleep(delay);
                    let id = format!("t-{}", counted.begun.fetch_add(1, Ordering::Relaxed));
                    let begun = format!(r#"{{"task":{}}}"#, theirs(&id, "WORKING"));
                    match method {
                        "SendMessage" => StubAction::Result(begun),
                        _ => StubAction::Stream(vec![frame(None, &begun)], StreamEnd::Silence),
                    }
                }
                "CancelTask" => {
                    let id = heard.json()["params"]["id"].as_str().unwrap().to_owned();
                    counted.canceled.lock().unwrap().insert(id.clone());
                    StubAction::Result(theirs(&id, "CANCELED"))
                }
                _ => StubAction::Result(theirs(heard.json()["params"]["id"].as_str().unwrap(), "WORKING")),
            }
        },
    );
    (stub.await, counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_right_after_the_send_reaches_the_agent_every_time() {
    for streams in [false, true] {
        let (stub, counts) = slow_to_name(streams, Duration::from_millis(3)).await;
        let bench = Bench::new(upstream(&stub.url)).await;
        for round in 0..40_u64 {
            let id = bench.begin("go").await.id;
            // At once, and a little later each time, to meet every moment of a send.
            tokio::time::sleep(Duration::from_micros(round * 150)).await;
            let task = bench.cancel(id).await.unwrap();
            assert_eq!(task.status.state, TaskState::Canceled);
            let begun = counts.begun.load(Ordering::Relaxed);
            let told = counts.canceled.lock().unwrap().len();
            assert_eq!(told, begun, "round {round}: told before the cancel was answered");
        }
        assert!(counts.begun.load(Ordering::Relaxed) > 0, "some of the messages had left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_agent_that_names_its_task_after_the_grace_is_told_then() {
    for streams in [false, true] {
        let (stub, counts) = slow_to_name(streams, Duration::from_millis(1500)).await;
        let log = TaskStore::in_memory().log;
        let impatient = Upstream { cancel_grace: Duration::ZERO, ..upstream(&stub.url) };
        let bench = Bench::on(log.clone(), impatient).await;
        let id = bench.begin("go").await.id;
        eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
        let task = bench.cancel(id).await.unwrap();
        let gap = Gap::of(task.metadata.as_ref()).expect("it is not known what becomes of it there");
        assert!(gap.reason.contains("had not named its task"), "{}", gap.reason);
        assert_eq!(counts.begun.load(Ordering::Relaxed), 0, "the caller did not wait for the name");
        eventually("they were told", async || (counts.canceled.lock().unwrap().len() == 1).then_some(())).await;
        let owed = async || log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(());
        eventually("nothing is owed any more", owed).await;
        assert_eq!(bench.task(id).await.status.state, TaskState::Canceled, "what is settled stays settled");
    }
}

/// An agent that takes a message, says nothing, and has a task of it from then on that can be found in its list.
async fn never_names() -> (StubServer, Arc<Counts>) {
    let counts: Arc<Counts> = Arc::default();
    let (counted, heard_message) = (counts.clone(), std::sync::Mutex::new(serde_json::Value::Null));
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        move |_, heard| {
            let params = heard.json()["params"].clone();
            let with_history = || {
                let mut task: serde_json::Value = serde_json::from_str(&task("WORKING")).unwrap();
                task["history"] = serde_json::json!([*heard_message.lock().unwrap()]);
                task
            };
            match heard.method().as_str() {
                "SendMessage" => {
                    *heard_message.lock().unwrap() = params["message"].clone();
                    counted.begun.fetch_add(1, Ordering::Relaxed);
                    StubAction::Stream(Vec::new(), StreamEnd::Silence)
                }
                "ListTasks" => {
                    assert_eq!(params["contextId"], heard_message.lock().unwrap()["contextId"]);
                    let tasks = serde_json::json!([with_history()]);
                    StubAction::Result(
                        serde_json::json!({"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": 1})
                            .to_string(),
                    )
                }
                "CancelTask" => {
                    counted.canceled.lock().unwrap().insert(params["id"].as_str().unwrap().to_owned());
                    StubAction::Result(task("CANCELED"))
                }
                _ => StubAction::Result(with_history().to_string()),
            }
        },
    );
    (stub.await, counts)
}

#[tokio::test]
async fn a_process_that_ends_before_the_task_is_named_leaves_the_cancel_to_the_next_one() {
    let (stub, counts) = never_names().await;
    let log = TaskStore::in_memory().log;
    let impatient = || Upstream { cancel_grace: Duration::ZERO, ..upstream(&stub.url) };
    let bench = Bench::on(log.clone(), impatient()).await;
    let id = bench.begin("go").await.id;
    eventually("it has left", async || (counts.begun.load(Ordering::Relaxed) == 1).then_some(())).await;
    let task = bench.cancel(id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    let owed = log.pending_cancels(None, 10).await.unwrap();
    assert_eq!(owed.iter().map(|(task, ..)| *task).collect::<Vec<_>>(), [id], "it is owed with the end of the task");
    assert!(counts.canceled.lock().unwrap().is_empty());
    // The process ends without a word of the agent's; the next one finds the task by the message, and cancels it.
    drop(bench);
    let next = Bench::on(log.clone(), impatient()).await;
    next.recover().await;
    eventually("they were told", async || (!counts.canceled.lock().unwrap().is_empty()).then_some(())).await;
    assert!(counts.canceled.lock().unwrap().contains("t-1"));
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_was_refused_after_its_cancel_owes_nothing() {
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |_, heard| match heard.method().as_str() {
            "SendMessage" => {
                std::thread::sleep(Duration::from_millis(1500));
                StubAction::Error(-32004, "not for you")
            }
            _ => StubAction::Error(-32001, "unknown"),
        },
    );
    let stub = stub.await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), Upstream { cancel_grace: Duration::ZERO, ..upstream(&stub.url) }).await;
    let id = bench.begin("go").await.id;
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    bench.cancel(id).await.unwrap();
    assert_eq!(log.pending_cancels(None, 10).await.unwrap().len(), 1);
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
    assert!(!stub.calls().iter().any(|call| matches!(&*call.method(), "ListTasks" | "CancelTask")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_comes_while_a_cancel_waits_is_the_end_of_the_task() {
    let stub = StubServer::start(
        |base| crate::agent::card(base, "{}", ""),
        |_, heard| match heard.method().as_str() {
            "SendMessage" => {
                std::thread::sleep(Duration::from_millis(200));
                StubAction::Result(format!(r#"{{"task":{}}}"#, whole("COMPLETED")))
            }
            _ => StubAction::Error(-32001, "unknown"),
        },
    );
    let stub = stub.await;
    let bench = Bench::new(upstream(&stub.url)).await;
    let id = bench.begin("go").await.id;
    eventually("it has left", async || (!stub.calls().is_empty()).then_some(())).await;
    let refused = bench.cancel(id).await.unwrap_err();
    assert!(matches!(refused, Fault::TaskNotCancelable { state: TaskState::Completed, .. }), "{refused}");
}

#[tokio::test]
async fn whom_we_give_up_on_is_told_that_nobody_waits() {
    let stub =
        StubServer::agent(|_, heard| works(heard, StubAction::Result(whole("CANCELED")), StubAction::HangUp)).await;
    let log = TaskStore::in_memory().log;
    let limits = sabir_engine::Limits { turn_time_max: Duration::from_millis(500), ..sabir_engine::Limits::default() };
    let bench = Bench::limited(log.clone(), upstream(&stub.url), limits).await;
    let id = at_work(&bench).await;
    bench.reaches(id, TaskState::Failed).await;
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn whom_we_stop_waiting_for_is_told_until_it_has_heard() {
    let deaf = Arc::new(AtomicBool::new(true));
    let hears = deaf.clone();
    let stub = StubServer::agent(move |_, heard| {
        let cancel =
            if hears.load(Ordering::Relaxed) { StubAction::HangUp } else { StubAction::Result(whole("CANCELED")) };
        works(heard, cancel, StubAction::Result(whole("WORKING")))
    })
    .await;
    let log = TaskStore::in_memory().log;
    let patience = WaitLimits { silence_max: Some(Duration::from_millis(300)), ..upstream("").wait_limits };
    let impatient = || Upstream { wait_limits: patience, ..upstream(&stub.url) };
    let bench = Bench::on(log.clone(), impatient()).await;
    let failed = bench.reaches(at_work(&bench).await, TaskState::Failed).await;
    assert!(words(&failed).contains("no news"), "{}", words(&failed));
    assert_eq!(log.pending_cancels(None, 10).await.unwrap().len(), 1, "it is written with the end of the task");
    bench.engine.stop().await;
    deaf.store(false, Ordering::Relaxed);
    // The next process repeats the cancel.
    Bench::on(log.clone(), impatient()).await.recover().await;
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn whoever_cannot_be_taken_up_again_is_told_that_nobody_waits() {
    let stub =
        StubServer::agent(|_, heard| works(heard, StubAction::Result(whole("CANCELED")), StubAction::HangUp)).await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let id = at_work(&bench).await;
    bench.engine.stop().await;
    let limits = sabir_engine::Limits { attempts_max: 0, ..sabir_engine::Limits::default() };
    let bench = Bench::limited(log.clone(), upstream(&stub.url), limits).await;
    bench.recover().await;
    bench.reaches(id, TaskState::Failed).await;
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
    eventually("nothing is owed any more", async || {
        log.pending_cancels(None, 10).await.unwrap().is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_cancel_needs_no_room() {
    let stub =
        StubServer::agent(|_, heard| works(heard, StubAction::Result(whole("CANCELED")), StubAction::HangUp)).await;
    let bench = Bench::new(Upstream { calls_max: Some(1), ..upstream(&stub.url) }).await;
    let (id, other) = (at_work(&bench).await, bench.try_begin("me too").await);
    assert!(other.is_err(), "there is room for one");
    let task = bench.cancel(id).await.unwrap();
    assert_eq!((task.status.state, Gap::of(task.metadata.as_ref())), (TaskState::Canceled, None));
}

#[tokio::test]
async fn who_makes_more_artifacts_than_may_be_is_called_off() {
    let stub = StubServer::agent(|_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &format!(r#"{{"task":{}}}"#, task("WORKING")))];
            let one = |n: usize| chunk("small").replace(r#""artifactId":"a""#, &format!(r#""artifactId":"n{n}""#));
            frames.extend((0..=1000).map(|n| frame(None, &one(n))));
            StubAction::Stream(frames, StreamEnd::Silence)
        }
        _ => StubAction::Result(whole("CANCELED")),
    })
    .await;
    let log = TaskStore::in_memory().log;
    let bench = Bench::on(log.clone(), upstream(&stub.url)).await;
    let failed = bench.send("go").await;
    assert_eq!((failed.status.state, failed.artifacts.len()), (TaskState::Failed, 1000));
    assert!(words(&failed).contains("more than 1000 artifacts"), "{}", words(&failed));
    let told = async || stub.calls().iter().any(|call| call.method() == "CancelTask").then_some(());
    eventually("they were told", told).await;
}

#[tokio::test]
async fn what_was_told_before_a_crash_is_not_told_again_however_much_came_at_once() {
    // More than fits into one step, all at once, and then nothing.
    let chunks = 700;
    let stub = StubServer::agent(move |_, heard| match heard.method().as_str() {
        "SendStreamingMessage" => {
            let mut frames = vec![frame(None, &format!(r#"{{"task":{}}}"#, task("WORKING")))];
            frames.extend((0..chunks).map(|n| frame(None, &chunk(&format!("{n} ")))));
            StubAction::Stream(frames, StreamEnd::Silence)
        }
        "SubscribeToTask" => StubAction::Error(-32004, "not here"),
        _ => {
            let parts: Vec<String> = (0..=chunks).map(|n| format!(r#"{{"text":"{n} "}}"#)).collect();
            let artifacts = format!(r#","artifacts":[{{"artifactId":"a","parts":[{}]}}]}}"#, parts.join(","));
            StubAction::Result(task("COMPLETED").strip_suffix('}').unwrap().to_owned() + &artifacts)
        }
    })
    .await;
    let log = TaskStore::in_memory().log;
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
    // And in so many events: none of it was reported again, as a whole or otherwise.
    let events = log.events(id, sabir_proto::Seq(0), 5000).await.unwrap();
    let has = |text: &str| {
        let told = format!(r#""text":"{text}""#);
        events.iter().filter(|event| String::from_utf8_lossy(&event.json).contains(&told)).count()
    };
    assert_eq!((has("0 "), has("300 "), has("699 "), has("700 ")), (1, 1, 1, 1));
}
