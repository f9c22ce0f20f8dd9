//! Tests of retries: a repeated send is the same send, whatever happened to the first one.

use crate::engine_fixture::EngineFixture;
use sabir_proto::{Fault, SendReply, ServiceParameters, Stamp, TaskState};
use sabir_store::TaskStore;
use sabir_testkit::faulty_log::FaultyLog;
use sabir_testkit::wait::wait;
use std::sync::Arc;
use std::time::Duration;

/// A caller that disconnects before its message is accepted has not sent it: the next copy is the first.
#[test]
fn a_caller_that_leaves_early_does_not_lock_itself_out() {
    let explicit = ServiceParameters { idempotency_key: Some("k".into()), ..ServiceParameters::default() };
    for (terms, follow_up) in [(ServiceParameters::default(), true), (explicit.clone(), true), (explicit, false)] {
        let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
        let mut desk = EngineFixture::on(log.clone());
        let asks = desk.send("asks", "ask 1", None);
        let request = desk.request("do 1", follow_up.then_some(&asks));
        let send = || {
            let (engine, resident, scope) = (desk.engine.clone(), desk.agent("asks"), desk.scope("asks"));
            let (request, terms) = (request.clone(), terms.clone());
            async move { engine.send(&resident, scope, request, &terms).await }
        };
        log.hold_reads(true);
        let waiting = send();
        let job = desk.executor.spawn(9, Box::pin(async move { drop(waiting.await) }));
        desk.run(desk.executor.sleep(Duration::from_millis(1)));
        assert_eq!(desk.executor.alive(9), 1, "it waits for the log");
        desk.executor.abort(job);
        log.hold_reads(false);
        let Ok(SendReply::Task(task, _)) = desk.run(send()) else { panic!("the second copy is refused") };
        let expected = if follow_up { TaskState::Completed } else { TaskState::InputRequired };
        assert_eq!(task.state, expected);
    }
}

/// A repeat in progress at a stop is refused: the unfinished task would look like an answer.
#[test]
fn a_repeat_during_a_stop_is_answered_at_rest_or_not_at_all() {
    let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
    let mut desk = EngineFixture::on(log.clone());
    let mut request = desk.request("do 9", None);
    request.configuration.return_immediately = true;
    let (task, rested) = (desk.deliver("streams", request.clone()), desk.request("do 1", None));
    desk.deliver("echo", rested.clone());
    desk.run(desk.executor.sleep(Duration::from_millis(100)));
    request.configuration.return_immediately = false;
    log.hold_reads(true);
    let (sender, answers) = std::sync::mpsc::channel();
    for (agent, request) in [("streams", request.clone()), ("echo", rested)] {
        let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
        let sender = sender.clone();
        let repeat = async move {
            let answer = engine.send(&resident, scope, request, &ServiceParameters::default()).await;
            sender.send((agent, answer)).unwrap();
        };
        desk.executor.spawn(9, Box::pin(repeat));
    }
    desk.run(desk.executor.sleep(Duration::from_millis(1)));
    desk.stop();
    log.hold_reads(false);
    desk.run(desk.executor.sleep(Duration::from_millis(1)));
    for (agent, answer) in answers.try_iter().collect::<Vec<_>>() {
        match (agent, answer) {
            ("streams", Err(Fault::Unavailable(why))) => assert!(why.contains("stopping"), "{why}"),
            ("echo", Ok(SendReply::Task(task, _))) => assert_eq!(task.state, TaskState::Completed),
            (agent, other) => panic!("{agent}: {other:?}"),
        }
    }
    assert_eq!(desk.executor.alive(9), 0, "both are answered");
    // A later send is refused.
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent("streams"), desk.scope("streams"));
    let late = request.clone();
    let answer = desk.run(async move { engine.send(&resident, scope, late, &ServiceParameters::default()).await });
    assert!(matches!(answer, Err(Fault::Unavailable(_))), "{answer:?}");
    assert_eq!(desk.crash(), (1, 0));
    assert_eq!(desk.deliver("streams", request).id, task.id, "sent again, it is the same task");
}

/// A send whose task was pruned is not a repeat, and its sender is not told to wait.
#[test]
fn a_send_whose_task_was_forgotten_is_a_new_one() {
    let TaskStore { log, upkeep, .. } = TaskStore::in_memory();
    let mut desk = EngineFixture::on(log);
    let request = desk.request("hello", None);
    let first = desk.deliver("echo", request.clone());
    assert_eq!(desk.deliver("echo", request.clone()).id, first.id, "a repeat");
    desk.run(desk.executor.sleep(Duration::from_secs(120)));
    assert_eq!(desk.deliver("echo", request.clone()).id, first.id, "still");
    let all = Stamp::from_u64(u64::MAX >> 1);
    let gone = wait(upkeep.prune(&desk.agent("echo").name, all, None)).unwrap();
    assert_eq!(gone.tasks, 1);
    let again = desk.deliver("echo", request.clone());
    assert_ne!(again.id, first.id);
    assert_eq!(desk.deliver("echo", request).id, again.id);
}
