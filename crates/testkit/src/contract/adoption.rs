//! Promises about tasks that change their owner.

use super::{Ask, Bench, everything, ids};
use crate::story::{Author, News, Story, owner, registers};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};
use std::sync::Arc;

fn adopt(story: &Story, by: &Arc<Scope>) -> Step {
    Step { effects: vec![Effect::Adopt(by.clone())], ..story.bare() }
}

fn listed(bench: &dyn Bench, scope: &Arc<Scope>) -> (Vec<TaskId>, u64) {
    let found = bench.log().page(everything(scope));
    (ids(&found), found.total)
}

pub(super) fn a_task_changes_hands_once_and_whole(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(9), owner("ann"), owner("bob"));
    let mut story = author.story(&ann);
    let named = Effect::Alias { name: "a".into(), was: None };
    let opening = story.open(&mut author, &[News::Status(TaskState::Working)]);
    bench.log().put(Step { effects: vec![named, registers("p", 3)], ..opening });
    bench.log().put(adopt(&story, &bob));
    for by in [&ann, &bob] {
        assert_eq!(bench.log().refused(adopt(&story, by)), AppendError::Stale, "it was given away");
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
    bench.log().put(story.step(&mut author, &[News::Status(TaskState::Completed)]));
    assert_eq!((listed(bench, &ann).1, listed(bench, &bob).1), (0, 1));
    let stranger = author.story(&ann);
    assert_eq!(bench.log().refused(adopt(&stranger, &bob)), AppendError::Stale, "there is no such task");
}

pub(super) fn a_task_that_is_given_to_its_owner_stays_as_it_is(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(9), owner("ann"), owner("bob"));
    let mut story = author.story(&ann);
    let named = Effect::Alias { name: "a".into(), was: None };
    let opening = story.open(&mut author, &[News::Status(TaskState::Working)]);
    bench.log().put(Step { effects: vec![named, registers("p", 3)], ..opening });
    bench.log().put(adopt(&story, &ann));
    assert_eq!(wait(bench.log().alias(&ann, "a")), Ok(Some(story.id())));
    assert_eq!(wait(bench.log().pushes(story.id())).map(|pushes| pushes.len()), Ok(1));
    assert!(bench.log().stored(story.id()).expect("the task").is_adopted);
    assert_eq!(bench.log().refused(adopt(&story, &bob)), AppendError::Stale, "and is nobody else's from then on");
}

pub(super) fn a_settled_task_changes_hands(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(9), owner("ann"), owner("bob"));
    let mut story = author.story(&ann);
    bench.log().put(story.whole(TaskState::Completed));
    // A cache of the backend may still have the old owner.
    assert_eq!(*bench.log().stored(story.id()).expect("the task").scope, *ann);
    bench.log().put(adopt(&story, &bob));
    assert_eq!(wait(bench.log().owner(story.id())), Ok(Some(bob.clone())));
    assert_eq!(*bench.log().stored(story.id()).expect("the task").scope, *bob);
    assert_eq!((listed(bench, &ann), listed(bench, &bob)), ((vec![], 0), (vec![story.id()], 1)));
}
