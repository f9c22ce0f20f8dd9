//! Tests of the engine with well-behaved and misbehaving agents.

use crate::engine_fixture::EngineFixture;
use sabir_proto::{CancelTask, ServiceParameters, Task, TaskState, Tenant};
use sabir_testkit::agents::{ARTIFACT, streamed_text};
use std::task::Poll;
use std::time::Duration;

fn made(task: &Task) -> String {
    let artifact = task.artifacts.iter().find(|a| a.artifact_id.as_str() == ARTIFACT);
    artifact.iter().flat_map(|a| &a.parts).filter_map(sabir_proto::Part::as_text).collect()
}

#[test]
fn an_instant_agent_is_one_step() {
    let mut desk = EngineFixture::new();
    let task = desk.send("echo", "hello", None);
    assert_eq!((task.status.state, made(&task)), (TaskState::Completed, "hello".into()));
    assert_eq!(desk.log.step_count(), 1);
}

#[test]
fn a_stream_shows_every_event_once_and_in_order() {
    let mut desk = EngineFixture::new();
    for (agent, size) in [("echo", 1), ("streams", 9), ("floods", 60), ("panics", 1)] {
        let events = desk.stream(agent, &format!("do {size}"));
        let numbers: Vec<u64> = events.iter().map(|e| e.seq.0).collect();
        assert_eq!(numbers, (1..=u64::try_from(events.len()).unwrap()).collect::<Vec<_>>());
        assert!(events.last().and_then(|e| e.state).is_some_and(TaskState::is_settled));
    }
}

#[test]
fn a_question_waits_for_its_answer() {
    let mut desk = EngineFixture::new();
    let mut task = desk.send("asks", "ask 2", None);
    for _ in 0..2 {
        assert_eq!(task.status.state, TaskState::InputRequired);
        task = desk.send("asks", "an answer", Some(&task));
    }
    assert_eq!(task.status.state, TaskState::Completed);
    // Three messages of the caller and two questions; the closing message is in the status.
    assert_eq!(task.history.len(), 5);
}

#[test]
fn a_panic_fails_its_task_and_nothing_else() {
    let mut desk = EngineFixture::new();
    let other = desk.send_without_waiting("streams", "do 5");
    let task = desk.send("panics", "do 1", None);
    assert_eq!(task.status.state, TaskState::Failed);
    desk.run(desk.executor.sleep(Duration::from_secs(10)));
    assert_eq!(made(&get(&desk, "streams", &other)), streamed_text(5));
    assert_eq!((desk.tracker.active_turns(), desk.engine.running()), (0, 0));
}

#[test]
fn a_flood_is_taken_in_steps_of_bounded_size() {
    let mut desk = EngineFixture::new();
    let task = desk.send("floods", "do 100", None);
    assert_eq!(made(&task), streamed_text(1000));
    // At most 256 events are uncommitted at once; the opening is a step of its own.
    assert_eq!(desk.log.step_count(), 1 + 1000_usize.div_ceil(256));
}

#[test]
fn a_canceled_agent_is_stopped_and_has_no_last_word() {
    let mut desk = EngineFixture::new();
    let task = desk.send_without_waiting("tardy", "do 1");
    desk.run(desk.executor.sleep(Duration::from_secs(1)));
    assert_eq!(desk.tracker.active_turns(), 1);
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent("tardy"), desk.scope("tardy"));
    let call = CancelTask { tenant: Tenant::none(), id: task.id.into(), metadata: None };
    let canceled = desk.run(async move { engine.cancel(&scope, &resident, &call).await }).unwrap().thaw().unwrap();
    assert_eq!(canceled.status.state, TaskState::Canceled);
    assert_eq!(desk.tracker.active_turns(), 0, "whoever is told that it was stopped may rely on it");
    assert_eq!(desk.metrics.late_reports.get(), 1, "refused and counted");
    assert_eq!(get(&desk, "tardy", &task), canceled);
}

#[test]
fn a_crash_is_survived_as_each_agent_declares() {
    for (agent, expected) in [
        ("streams", TaskState::Completed),
        ("steady", TaskState::Completed),
        ("fragile", TaskState::Failed),
        ("tardy", TaskState::Failed),
    ] {
        let mut desk = EngineFixture::new();
        let task = desk.send_without_waiting(agent, "do 6");
        desk.run(desk.executor.sleep(Duration::from_millis(120)));
        let goes_on = usize::from(expected == TaskState::Completed);
        assert_eq!(desk.crash(), (goes_on, 1 - goes_on), "{agent}");
        desk.run(desk.executor.sleep(Duration::from_secs(10)));
        let task = get(&desk, agent, &task);
        assert_eq!(task.status.state, expected, "{agent}");
        if expected == TaskState::Completed {
            assert_eq!(made(&task), streamed_text(6), "{agent}");
        }
        assert_eq!(desk.tracker.concurrent_turns(), Vec::<String>::new());
    }
}

#[test]
fn a_brief_turn_is_one_step_unless_somebody_waits_for_its_task() {
    let mut desk = EngineFixture::new();
    let task = desk.send("brief", "do 1", None);
    assert_eq!((made(&task), desk.log.step_count()), (streamed_text(1), 1));
    assert_eq!(get(&desk, "brief", &task), task, "whole, from its one row");
    // This turn takes longer than 100 ms.
    let task = desk.send("brief", "do 4", None);
    assert_eq!((made(&task), desk.log.step_count()), (streamed_text(4), 3));
    // The caller does not wait, so the task must be stored first.
    let task = desk.send_without_waiting("brief", "do 1");
    assert_eq!((task.status.state, desk.log.step_count()), (TaskState::Submitted, 4));
    desk.run(desk.executor.sleep(Duration::from_secs(1)));
    assert_eq!((made(&get(&desk, "brief", &task)), desk.log.step_count()), (streamed_text(1), 5));
}

#[test]
fn a_brief_turn_goes_on_without_whoever_asked_for_it() {
    let mut desk = EngineFixture::new();
    let request = desk.request("do 1", None);
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent("brief"), desk.scope("brief"));
    let first = request.clone();
    // The caller disconnects in the middle of it.
    desk.run(async move {
        let terms = ServiceParameters::default();
        let mut sending = std::pin::pin!(engine.send(&resident, scope, first, &terms));
        let left = std::future::poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx).is_pending())).await;
        assert!(left, "it takes a moment");
    });
    assert_eq!(desk.tracker.active_turns(), 1, "a caller that leaves cancels nobody");
    // The repeated message finds its task at work.
    let task = desk.deliver("brief", request);
    assert_eq!((task.status.state, made(&task)), (TaskState::Completed, streamed_text(1)));
    assert_eq!(desk.tracker.concurrent_turns(), Vec::<String>::new());
    assert_eq!(desk.log.step_count(), 2, "opened, and done: once");
    assert_eq!((desk.tracker.active_turns(), desk.engine.running()), (0, 0));
}

#[test]
fn a_turn_that_kills_the_process_three_times_is_given_up() {
    let mut desk = EngineFixture::new();
    let task = desk.send_without_waiting("steady", "do 6");
    for expected in [(1, 0), (1, 0), (0, 1)] {
        assert_eq!(desk.crash(), expected);
        desk.run(desk.executor.sleep(Duration::from_millis(5)));
    }
    assert_eq!(get(&desk, "steady", &task).status.state, TaskState::Failed);
}

#[test]
fn a_turn_that_is_taken_up_again_has_the_same_past() {
    // The second one takes a snapshot within its turn; the task before the turn is then only in the log.
    for (agent, request, turns, crash_after) in [("asks", "ask 3", 3, 1), ("tells", "do 1", 1, 600)] {
        let mut desk = EngineFixture::new();
        let mut task = desk.send(agent, request, None);
        for _ in 0..turns {
            assert_eq!(task.status.state, TaskState::InputRequired);
            let mut answer = desk.request("an answer", Some(&task));
            answer.configuration.return_immediately = true;
            desk.deliver(agent, answer);
            for pause in [crash_after, 1] {
                desk.run(desk.executor.sleep(Duration::from_millis(pause)));
                assert_eq!(desk.crash(), (1, 0));
            }
            desk.run(desk.executor.sleep(Duration::from_secs(10)));
            task = get(&desk, agent, &task);
        }
        assert_eq!(task.status.state, TaskState::Completed, "{agent}");
        assert_eq!(desk.tracker.changed_pasts(), Vec::<String>::new());
    }
}

#[test]
fn an_orderly_stop_is_no_crash() {
    let mut desk = EngineFixture::new();
    let task = desk.send_without_waiting("steady", "do 6");
    for _ in 0..5 {
        desk.run(desk.executor.sleep(Duration::from_millis(5)));
        desk.stop();
        assert_eq!((desk.tracker.active_turns(), desk.engine.running()), (0, 0));
        assert_eq!(desk.crash(), (1, 0));
    }
    desk.run(desk.executor.sleep(Duration::from_secs(10)));
    assert_eq!(made(&get(&desk, "steady", &task)), streamed_text(6));
}

fn get(desk: &EngineFixture, agent: &str, task: &Task) -> Task {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    let call = sabir_proto::GetTask { tenant: Tenant::none(), id: task.id.into(), history_length: None };
    desk.run(async move { engine.get(&scope, &call).await }).unwrap().0.thaw().unwrap()
}
