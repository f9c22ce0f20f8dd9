//! Promises about tasks that change their owner.

use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner, put_push_effect};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};
use std::sync::Arc;

fn adopt(story: &ScriptedTask, by: &Arc<Scope>) -> Step {
    Step { effects: vec![Effect::Claim(by.clone())], ..story.empty_step() }
}

fn listed(bench: &dyn LogFixture, scope: &Arc<Scope>) -> (Vec<TaskId>, u64) {
    let found = bench.log().page(list_everything(scope));
    (ids(&found), found.total)
}

pub(super) fn a_task_changes_hands_once_and_whole(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(9), owner("ann"), owner("bob"));
    let mut story = author.new_task(&ann);
    let named = Effect::SetAlias { name: "a".into(), was: None };
    let opening = story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]);
    bench.log().append_ok(Step { effects: vec![named, put_push_effect("p", 3)], ..opening });
    bench.log().append_ok(adopt(&story, &bob));
    for by in [&ann, &bob] {
        assert_eq!(bench.log().append_refused(adopt(&story, by)), AppendError::Stale, "it was given away");
    }
    for _ in 0..2 {
        assert_eq!(wait(bench.log().owner(story.id())), Ok(Some(bob.clone())));
        assert_eq!(*bench.log().stored(story.id()).expect("the task").scope, *bob);
        assert_eq!((listed(bench, &ann), listed(bench, &bob)), ((vec![], 0), (vec![story.id()], 1)));
        assert_eq!(wait(bench.log().alias(&ann, "a")), Ok(None), "a name of its first owner's");
        assert_eq!(wait(bench.log().aliases_of(story.id())), Ok(Vec::new()));
        assert_eq!(wait(bench.log().pushes(story.id())).map(|pushes| pushes.len()), Ok(0), "nor is the first one told");
        bench.reopen();
    }
    // The task goes on unchanged.
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    assert_eq!((listed(bench, &ann).1, listed(bench, &bob).1), (0, 1));
    let stranger = author.new_task(&ann);
    assert_eq!(bench.log().append_refused(adopt(&stranger, &bob)), AppendError::Stale, "there is no such task");
}

pub(super) fn a_task_that_is_given_to_its_owner_stays_as_it_is(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(9), owner("ann"), owner("bob"));
    let mut story = author.new_task(&ann);
    let named = Effect::SetAlias { name: "a".into(), was: None };
    let opening = story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]);
    bench.log().append_ok(Step { effects: vec![named, put_push_effect("p", 3)], ..opening });
    bench.log().append_ok(adopt(&story, &ann));
    assert_eq!(wait(bench.log().alias(&ann, "a")), Ok(Some(story.id())));
    assert_eq!(wait(bench.log().pushes(story.id())).map(|pushes| pushes.len()), Ok(1));
    assert!(bench.log().stored(story.id()).expect("the task").is_claimed);
    assert_eq!(
        bench.log().append_refused(adopt(&story, &bob)),
        AppendError::Stale,
        "and is nobody else's from then on"
    );
}

pub(super) fn a_settled_task_changes_hands(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(9), owner("ann"), owner("bob"));
    let mut story = author.new_task(&ann);
    bench.log().append_ok(story.open_settled(TaskState::Completed));
    // A cache of the backend may still have the old owner.
    assert_eq!(*bench.log().stored(story.id()).expect("the task").scope, *ann);
    bench.log().append_ok(adopt(&story, &bob));
    assert_eq!(wait(bench.log().owner(story.id())), Ok(Some(bob.clone())));
    assert_eq!(*bench.log().stored(story.id()).expect("the task").scope, *bob);
    assert_eq!((listed(bench, &ann), listed(bench, &bob)), ((vec![], 0), (vec![story.id()], 1)));
}
