//! Tests with a store that refuses writes for long: every task ends afterwards, without a restart.

use crate::engine_fixture::EngineFixture;
use sabir_proto::{
    CancelTask, Fault, GetTask, SendMessage, SendReply, ServiceParameters, Subscribe, Task, TaskState, Tenant,
};
use sabir_store::StoreError;
use sabir_store::TaskStore;
use sabir_testkit::agents::ARTIFACT;
use sabir_testkit::faulty_log::FaultyLog;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a runner retries, and than the longest pause of the retry loop.
const LONG: Duration = Duration::from_secs(60);

fn desk() -> (EngineFixture, Arc<FaultyLog>) {
    let log = Arc::new(FaultyLog::new(TaskStore::in_memory().log));
    (EngineFixture::on(log.clone()), log)
}

fn pass(desk: &EngineFixture, time: Duration) {
    desk.run(desk.executor.sleep(time));
}

fn get(desk: &EngineFixture, agent: &str, task: &Task) -> Task {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    let call = GetTask { tenant: Tenant::none(), id: task.id.into(), history_length: None };
    desk.run(async move { engine.get(&scope, &call).await }).unwrap().0.thaw().unwrap()
}

fn send(desk: &EngineFixture, agent: &str, request: Box<SendMessage>) -> Result<SendReply, Fault> {
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
    desk.run(async move { engine.send(&resident, scope, request, &ServiceParameters::default()).await })
}

fn cancel(desk: &EngineFixture, agent: &str, task: &Task) -> Result<TaskState, Fault> {
    let (engine, resident, scope) = (desk.engine.clone(), desk.agent(agent), desk.scope(agent));
    let call = CancelTask { tenant: Tenant::none(), id: task.id.into(), metadata: None };
    desk.run(async move { engine.cancel(&scope, &resident, &call).await }).map(|task| task.state)
}

/// Waits for the first item of a subscription after the snapshot.
fn follow(desk: &EngineFixture, agent: &str, task: &Task) -> Result<(), Fault> {
    let (engine, scope) = (desk.engine.clone(), desk.scope(agent));
    let call = Subscribe { tenant: Tenant::none(), id: task.id.into() };
    desk.run(async move {
        let mut watch = engine.subscribe(&scope, &call, &ServiceParameters::default()).await?;
        watch.next().await.transpose()?;
        watch.next().await.transpose().map(drop)
    })
}

#[track_caller]
fn unavailable<T: std::fmt::Debug>(answer: Result<T, Fault>) {
    match answer {
        Err(Fault::Unavailable(why)) => assert!(why.contains("store"), "{why}"),
        other => panic!("{other:?} instead of being told that nothing can be stored"),
    }
}

fn words(task: &Task) -> String {
    task.status.message.as_ref().map(sabir_proto::Message::joined_text).unwrap_or_default()
}

#[test]
fn a_task_given_up_for_want_of_room_fails_once_there_is_room() {
    for error in [StoreError::Full, StoreError::Io("the disk is on fire".into())] {
        let (mut desk, log) = desk();
        let mut request = desk.request("do 500", None);
        request.configuration.return_immediately = true;
        let task = desk.deliver("streams", request.clone());
        pass(&desk, Duration::from_millis(200));
        log.set_write_error(Some(error));
        pass(&desk, LONG);
        assert_eq!(desk.tracker.active_turns(), 0, "the agent works in vain and is stopped");
        assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (1, 1), "its task is not forgotten");

        let shown = get(&desk, "streams", &task);
        assert_eq!(shown.status.state, TaskState::Working);
        request.configuration.return_immediately = false;
        unavailable(send(&desk, "streams", request.clone()));
        let more = desk.request("are you there?", Some(&task));
        unavailable(send(&desk, "streams", more));
        unavailable(cancel(&desk, "streams", &task));
        unavailable(follow(&desk, "streams", &task));

        log.set_write_error(None);
        pass(&desk, Duration::from_secs(6));
        let settled = get(&desk, "streams", &task);
        assert_eq!(settled.status.state, TaskState::Failed);
        assert!(words(&settled).contains("could not store"), "{}", words(&settled));
        assert_eq!(settled.artifacts, shown.artifacts, "what was committed is still there");
        assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (0, 0));
        let Ok(SendReply::Task(again, _)) = send(&desk, "streams", request) else { panic!("a repeat is answered") };
        assert_eq!((again.thaw().unwrap().id, again.state), (task.id, TaskState::Failed));
        assert!(matches!(cancel(&desk, "streams", &task), Err(Fault::TaskNotCancelable { .. })));
    }
}

#[test]
fn an_answer_that_was_finished_is_kept_until_there_is_room() {
    let (mut desk, log) = desk();
    let (done, canceled) = (desk.send_without_waiting("fragile", "do 1"), desk.send_without_waiting("tardy", "do 1"));
    pass(&desk, Duration::from_millis(1));
    log.set_write_error(Some(StoreError::Full));
    unavailable(cancel(&desk, "tardy", &canceled));
    pass(&desk, LONG);
    assert_eq!(desk.metrics.endings_owed.get(), 2);
    log.set_write_error(None);
    pass(&desk, Duration::from_secs(6));
    let done = get(&desk, "fragile", &done);
    assert_eq!((done.status.state, &*words(&done)), (TaskState::Completed, "done"));
    assert_eq!(done.artifacts[0].artifact_id.as_str(), ARTIFACT);
    assert_eq!(get(&desk, "tardy", &canceled).status.state, TaskState::Canceled);
    assert_eq!(desk.engine.running(), 0);
}

#[test]
fn a_question_that_cannot_be_answered_stays_a_question() {
    let (mut desk, log) = desk();
    let task = desk.send("asks", "ask 1", None);
    let answer = desk.request("an answer", Some(&task));
    log.set_write_error(Some(StoreError::Full));
    unavailable(send(&desk, "asks", answer.clone()));
    unavailable(cancel(&desk, "asks", &task));
    pass(&desk, Duration::from_secs(6));
    assert_eq!(get(&desk, "asks", &task), task);
    assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (0, 0), "nobody is owed anything");
    log.set_write_error(None);
    let Ok(SendReply::Task(answered, _)) = send(&desk, "asks", answer) else { panic!("the answer is taken now") };
    assert_eq!(answered.state, TaskState::Completed);
}

#[test]
fn what_a_crash_ended_is_told_once_there_is_room() {
    let (mut desk, log) = desk();
    let tasks: Vec<Task> = (0..40).map(|_| desk.send_without_waiting("fragile", "do 6")).collect();
    pass(&desk, Duration::from_millis(1));
    log.set_write_error(Some(StoreError::Full));
    assert_eq!(desk.crash(), (0, 40));
    pass(&desk, LONG);
    assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (40, 40));
    unavailable(cancel(&desk, "fragile", &tasks[7]));
    log.set_write_error(None);
    pass(&desk, Duration::from_secs(6));
    for task in &tasks {
        let task = get(&desk, "fragile", task);
        assert_eq!(task.status.state, TaskState::Failed);
        assert!(words(&task).contains("the server stopped"), "{}", words(&task));
    }
    assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (0, 0));
}

#[test]
fn a_stop_does_not_wait_for_room() {
    let (mut desk, log) = desk();
    let (owed, trying) = (desk.send_without_waiting("streams", "do 9"), desk.send_without_waiting("steady", "do 9000"));
    pass(&desk, Duration::from_millis(1));
    log.set_write_error(Some(StoreError::Full));
    pass(&desk, LONG);
    log.set_write_error(None);
    let late = desk.send_without_waiting("streams", "do 900");
    log.set_write_error(Some(StoreError::Full));
    pass(&desk, Duration::from_secs(2));
    let before = desk.executor.now();
    desk.stop();
    assert!(desk.executor.now() - before <= 10, "{} ms", desk.executor.now() - before);
    assert_eq!((desk.engine.running(), desk.metrics.endings_owed.get()), (0, 0));
    log.set_write_error(None);
    // Their endings were never stored, so they are not ended.
    assert_eq!(desk.crash(), (3, 0));
    pass(&desk, LONG);
    assert_eq!(get(&desk, "streams", &owed).status.state, TaskState::Completed);
    for (agent, task) in [("steady", &trying), ("streams", &late)] {
        assert!(!get(&desk, agent, task).status.state.is_settled());
    }
    assert_eq!(desk.engine.running(), 2);
}
