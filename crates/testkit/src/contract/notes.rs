//! Promises about notes beside tasks: counted, bounded, and without effect on the task.

use super::{Ask, Bench, everything, ids};
use crate::story::{Author, News, Story, owner};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState, Timestamp};
use sabir_store::{MORE, NOTES_MAX, Note};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn take(bench: &dyn Bench, story: &Story, notes: Vec<Note>) {
    wait(bench.log().note(story.id(), notes)).expect("notes are taken");
}

fn notes(bench: &dyn Bench, story: &Story) -> Vec<Note> {
    wait(bench.log().notes(story.id())).expect("notes can be read")
}

fn some_task(bench: &dyn Bench, author: &mut Author) -> Story {
    let mut story = author.story(&owner("ann"));
    bench.log().put(story.open(author, &[News::Chunk]));
    story
}

pub(super) fn notes_that_say_the_same_are_one(bench: &mut dyn Bench) {
    let mut author = Author::new(10);
    let (one, other) = (some_task(bench, &mut author), some_task(bench, &mut author));
    assert_eq!(notes(bench, &one), Vec::new());
    take(
        bench,
        &one,
        vec![Note::new("v0.1", "part", "history[0]", at(50)), Note::new("v0.1", "state", "status", at(20))],
    );
    let many = Note { count: 6, ..Note::new("v0.1", "part", "history[0]", at(40)) };
    take(bench, &one, vec![many, Note::new("v0.1", "part", "history[0]", at(60))]);
    // Notes that differ in one member are different notes.
    take(
        bench,
        &one,
        vec![Note::new("v0.2", "part", "history[0]", at(70)), Note::new("v0.1", "part", "history[1]", at(70))],
    );
    take(bench, &other, vec![Note::new("v0.1", "part", "history[0]", at(5))]);
    take(bench, &other, Vec::new());
    let expected = [
        Note::new("v0.1", "state", "status", at(20)),
        Note { count: 8, ..Note::new("v0.1", "part", "history[0]", at(40)) },
        Note::new("v0.1", "part", "history[1]", at(70)),
        Note::new("v0.2", "part", "history[0]", at(70)),
    ];
    for _ in 0..2 {
        assert_eq!(notes(bench, &one), expected, "oldest first");
        assert_eq!(notes(bench, &other), [Note::new("v0.1", "part", "history[0]", at(5))]);
        bench.reopen();
    }
}

pub(super) fn notes_are_bounded(bench: &mut dyn Bench) {
    let mut author = Author::new(10);
    let story = some_task(bench, &mut author);
    let note = |n: usize| Note::new("d", "k", format!("{n:03}"), at(1000));
    for n in 0..NOTES_MAX - 1 {
        take(bench, &story, vec![note(n)]);
    }
    take(bench, &story, (0..NOTES_MAX + 10).map(note).collect());
    take(bench, &story, vec![Note { count: 5, ..note(999) }, Note { first_at: at(900), ..note(998) }, note(0)]);
    bench.reopen();
    let kept = notes(bench, &story);
    assert_eq!(kept.len(), NOTES_MAX + 1);
    let more = Note { count: 10 + 5 + 1, ..Note::new("", MORE, "", at(900)) };
    assert_eq!(kept[0], more, "what found no room is counted");
    assert_eq!(kept[1], Note { count: 3, ..note(0) }, "what has a row goes on counting");
    assert_eq!(kept[NOTES_MAX], note(NOTES_MAX - 1));
    assert_eq!(kept.iter().map(|n| n.count).sum::<u64>(), 63 + 74 + 7);
}

pub(super) fn notes_of_nobody_are_dropped(bench: &mut dyn Bench) {
    let mut author = Author::new(10);
    let story = some_task(bench, &mut author);
    let unborn = author.story(&owner("ann"));
    let twin = TaskId::new(story.id().stamp(), 1);
    for id in [unborn.id(), twin] {
        assert_eq!(wait(bench.log().note(id, vec![Note::new("d", "k", "p", at(1))])), Ok(()));
        assert_eq!(wait(bench.log().notes(id)), Ok(Vec::new()));
        assert_eq!(wait(bench.log().owner(id)), Ok(None));
    }
    assert_eq!(notes(bench, &story), Vec::new());
    assert_eq!(wait(bench.log().owner(story.id())), Ok(Some(owner("ann"))));
}

pub(super) fn a_note_moves_nothing(bench: &mut dyn Bench) {
    let mut author = Author::new(10);
    let mut story = some_task(bench, &mut author);
    let newer = some_task(bench, &mut author);
    let before = (wait(bench.log().last_stamp()), bench.log().all_events(story.id()));
    take(bench, &story, vec![Note::new("d", "k", "p", at(i64::MAX))]);
    assert_eq!((wait(bench.log().last_stamp()), bench.log().all_events(story.id())), before);
    assert_eq!(ids(&bench.log().page(everything(&owner("ann")))), [newer.id(), story.id()]);
    story.check(bench.log().stored(story.id()).as_ref());
    bench.log().put(story.step(&mut author, &[News::Status(TaskState::Completed)]));
    take(bench, &story, vec![Note::new("d", "k", "p", at(0))]);
    story.check(bench.log().stored(story.id()).as_ref());
    assert_eq!(
        notes(bench, &story),
        [Note { count: 2, ..Note::new("d", "k", "p", at(0)) }],
        "also when it has settled"
    );
}
