//! Promises about notes beside tasks: counted, bounded, and without effect on the task.

use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState, Timestamp};
use sabir_store::{LOSS_NOTES_MAX, LossNote, MORE_KIND};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn take(bench: &dyn LogFixture, story: &ScriptedTask, notes: Vec<LossNote>) {
    wait(bench.log().add_loss_notes(story.id(), notes)).expect("notes are taken");
}

fn notes(bench: &dyn LogFixture, story: &ScriptedTask) -> Vec<LossNote> {
    wait(bench.log().loss_notes(story.id())).expect("notes can be read")
}

fn some_task(bench: &dyn LogFixture, author: &mut TaskFactory) -> ScriptedTask {
    let mut story = author.new_task(&owner("ann"));
    bench.log().append_ok(story.open(author, &[ScriptedEvent::Chunk]));
    story
}

pub(super) fn notes_that_say_the_same_are_one(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(10);
    let (one, other) = (some_task(bench, &mut author), some_task(bench, &mut author));
    assert_eq!(notes(bench, &one), Vec::new());
    take(
        bench,
        &one,
        vec![LossNote::new("v0.1", "part", "history[0]", at(50)), LossNote::new("v0.1", "state", "status", at(20))],
    );
    let many = LossNote { count: 6, ..LossNote::new("v0.1", "part", "history[0]", at(40)) };
    take(bench, &one, vec![many, LossNote::new("v0.1", "part", "history[0]", at(60))]);
    // Notes that differ in one member are different notes.
    take(
        bench,
        &one,
        vec![LossNote::new("v0.2", "part", "history[0]", at(70)), LossNote::new("v0.1", "part", "history[1]", at(70))],
    );
    take(bench, &other, vec![LossNote::new("v0.1", "part", "history[0]", at(5))]);
    take(bench, &other, Vec::new());
    let expected = [
        LossNote::new("v0.1", "state", "status", at(20)),
        LossNote { count: 8, ..LossNote::new("v0.1", "part", "history[0]", at(40)) },
        LossNote::new("v0.1", "part", "history[1]", at(70)),
        LossNote::new("v0.2", "part", "history[0]", at(70)),
    ];
    for _ in 0..2 {
        assert_eq!(notes(bench, &one), expected, "oldest first");
        assert_eq!(notes(bench, &other), [LossNote::new("v0.1", "part", "history[0]", at(5))]);
        bench.reopen();
    }
}

pub(super) fn notes_are_bounded(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(10);
    let story = some_task(bench, &mut author);
    let note = |n: usize| LossNote::new("d", "k", format!("{n:03}"), at(1000));
    for n in 0..LOSS_NOTES_MAX - 1 {
        take(bench, &story, vec![note(n)]);
    }
    take(bench, &story, (0..LOSS_NOTES_MAX + 10).map(note).collect());
    take(bench, &story, vec![LossNote { count: 5, ..note(999) }, LossNote { first_at: at(900), ..note(998) }, note(0)]);
    bench.reopen();
    let kept = notes(bench, &story);
    assert_eq!(kept.len(), LOSS_NOTES_MAX + 1);
    let more = LossNote { count: 10 + 5 + 1, ..LossNote::new("", MORE_KIND, "", at(900)) };
    assert_eq!(kept[0], more, "what found no room is counted");
    assert_eq!(kept[1], LossNote { count: 3, ..note(0) }, "what has a row goes on counting");
    assert_eq!(kept[LOSS_NOTES_MAX], note(LOSS_NOTES_MAX - 1));
    assert_eq!(kept.iter().map(|n| n.count).sum::<u64>(), 63 + 74 + 7);
}

pub(super) fn notes_of_nobody_are_dropped(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(10);
    let story = some_task(bench, &mut author);
    let unborn = author.new_task(&owner("ann"));
    let twin = TaskId::new(story.id().stamp(), 1);
    for id in [unborn.id(), twin] {
        assert_eq!(wait(bench.log().add_loss_notes(id, vec![LossNote::new("d", "k", "p", at(1))])), Ok(()));
        assert_eq!(wait(bench.log().loss_notes(id)), Ok(Vec::new()));
        assert_eq!(wait(bench.log().owner(id)), Ok(None));
    }
    assert_eq!(notes(bench, &story), Vec::new());
    assert_eq!(wait(bench.log().owner(story.id())), Ok(Some(owner("ann"))));
}

pub(super) fn a_note_moves_nothing(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(10);
    let mut story = some_task(bench, &mut author);
    let newer = some_task(bench, &mut author);
    let before = (wait(bench.log().last_stamp()), bench.log().all_events(story.id()));
    take(bench, &story, vec![LossNote::new("d", "k", "p", at(i64::MAX))]);
    assert_eq!((wait(bench.log().last_stamp()), bench.log().all_events(story.id())), before);
    assert_eq!(ids(&bench.log().page(list_everything(&owner("ann")))), [newer.id(), story.id()]);
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    take(bench, &story, vec![LossNote::new("d", "k", "p", at(0))]);
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    assert_eq!(
        notes(bench, &story),
        [LossNote { count: 2, ..LossNote::new("d", "k", "p", at(0)) }],
        "also when it has settled"
    );
}
