//! Promises about the opening step of a task.

use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, TaskFactory, owner};
use sabir_proto::{FrozenEvent, Seq, TaskId, TaskState};
use sabir_store::AppendError;

pub(super) fn a_task_that_opens_and_settles_is_one_event(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(1), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open_settled(TaskState::Completed));
    for _ in 0..2 {
        let log = bench.log();
        let stored = log.stored(story.id());
        story.assert_stored(stored.as_ref());
        assert!(stored.is_some_and(|s| s.tail.is_empty()), "one row needs no folding");
        assert_eq!(log.all_events(story.id()), [FrozenEvent::of_task(Seq(1), &story.image())]);
        let after = crate::wait::wait(log.events(story.id(), Seq(1), 10));
        assert_eq!(after, Ok(Vec::new()));
        assert_eq!(ids(&log.page(list_everything(&scope))), [story.id()]);
        bench.reopen();
    }
}

pub(super) fn an_opening_may_bring_its_whole_log(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(1), owner("ann"));
    let mut story = author.new_task(&scope);
    let step = story.open(
        &mut author,
        &[ScriptedEvent::Status(TaskState::Working), ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Completed)],
    );
    let told = step.events.clone();
    bench.log().append_ok(step);
    for _ in 0..2 {
        story.assert_stored(bench.log().stored(story.id()).as_ref());
        for after in 0..=4_usize {
            let seq = Seq(u64::try_from(after).unwrap_or(0));
            for limit in 0..=4 {
                let read = crate::wait::wait(bench.log().events(story.id(), seq, limit));
                assert_eq!(read, Ok(told.iter().skip(after).take(limit).cloned().collect()));
            }
        }
        bench.reopen();
    }
}

pub(super) fn an_opening_that_goes_on_is_unfinished(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(1), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[]));
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    bench.reopen();
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    let unfinished = crate::wait::wait(bench.log().unfinished(None, 10)).expect("unfinished tasks can be read");
    assert_eq!(unfinished.len(), 1);
    story.assert_stored(unfinished.first());
}

pub(super) fn an_id_is_taken_only_once(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(1), owner("ann"), owner("bob"));
    let mut story = author.new_task(&ann);
    let mut thief = story.clone();
    thief.scope = bob.clone();
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Chunk]));
    assert_eq!(bench.log().append_refused(thief.clone().open_settled(TaskState::Completed)), AppendError::Stale);
    assert_eq!(bench.log().append_refused(thief.open(&mut author, &[])), AppendError::Stale);
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    assert_eq!(bench.log().all_events(story.id()).len(), 2);
    assert_eq!(bench.log().page(list_everything(&bob)).total, 0);
}

pub(super) fn a_stranger_with_the_same_stamp_is_not_found(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(1), owner("ann"));
    let (mut running, mut done) = (author.new_task(&scope), author.new_task(&scope));
    let mut step = running.open(&mut author, &[]);
    step.effects.push(crate::scripted_task::put_push_effect("p", 1));
    bench.log().append_ok(step);
    bench.log().append_ok(done.open_settled(TaskState::Completed));
    for story in [running, done] {
        // The stamp finds the row, and the other bits must match: an id with a guessed stamp is not found.
        let stranger = TaskId::new(story.id().stamp(), 42);
        assert!(bench.log().stored(stranger).is_none());
        assert_eq!(bench.log().all_events(stranger), []);
        assert_eq!(crate::wait::wait(bench.log().pushes(stranger)), Ok(Vec::new()));
        let step = sabir_store::Step { task: stranger, ..story.empty_step() };
        assert_eq!(bench.log().append_refused(step), AppendError::Stale);
    }
}
