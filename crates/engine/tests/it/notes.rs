//! Tests of notes beside tasks: visible to their owner only, and without other effects.

use crate::engine_fixture::EngineFixture;
use sabir_engine::LossNote;
use sabir_proto::{Caller, Fault, TaskRef, Timestamp};
use sabir_store::Scope;
use std::sync::Arc;
use std::time::Duration;

fn note(path: impl Into<String>) -> LossNote {
    LossNote::new("v0.1", "part", path, Timestamp::from_millis(7))
}

fn notes(desk: &EngineFixture, scope: Arc<Scope>, task: TaskRef) -> Result<Vec<LossNote>, Fault> {
    let engine = desk.engine.clone();
    desk.run(async move { engine.notes(&scope, &task).await })
}

fn pass(desk: &EngineFixture) {
    desk.run(desk.executor.sleep(Duration::from_millis(1)));
}

#[test]
fn notes_are_for_the_owner_of_the_task() {
    let mut desk = EngineFixture::new();
    let mut request = desk.request("hello", None);
    request.alias = Some("job".into());
    let (task, mine) = (desk.deliver("echo", request), desk.scope("echo"));
    let stranger = Arc::new(Scope { caller: Caller::named("stranger"), ..(*mine).clone() });
    desk.engine.note(&mine, task.id, vec![note("a"), note("b")]);
    desk.engine.note(&mine, task.id, vec![note("a")]);
    desk.engine.note(&mine, task.id, Vec::new());
    desk.engine.note(&stranger, task.id, vec![note("a"), note("theirs")]);
    pass(&desk);
    let kept = [LossNote { count: 2, ..note("a") }, note("b")];
    for name in [task.id.into(), TaskRef::Alias("job".into())] {
        assert_eq!(notes(&desk, mine.clone(), name).unwrap(), kept);
    }
    assert!(matches!(notes(&desk, stranger, task.id.into()), Err(Fault::TaskNotFound(_))));
    assert_eq!(desk.log.step_count(), 1, "a note is no step");
    desk.crash();
    assert_eq!(notes(&desk, mine, task.id.into()).unwrap(), kept);
}

#[test]
fn a_path_is_cut_to_the_length_of_an_id() {
    let mut desk = EngineFixture::new();
    let (task, mine) = (desk.send("echo", "hello", None), desk.scope("echo"));
    desk.engine.note(&mine, task.id, vec![note("x".repeat(300)), note(format!("{}é", "y".repeat(255)))]);
    pass(&desk);
    let kept = notes(&desk, mine, task.id.into()).unwrap();
    assert_eq!(kept.iter().map(|n| &*n.path).collect::<Vec<_>>(), ["x".repeat(256), "y".repeat(255)]);
}
