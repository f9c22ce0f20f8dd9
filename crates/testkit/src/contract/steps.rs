//! Promises about the later steps of a task.

use super::{LogFixture, TaskLogTestExt, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::seeded_rng::SeededRng;
use crate::wait::wait;
use bytes::Bytes;
use sabir_proto::{FrozenEvent, Seq, Stamp, TaskState};
use sabir_store::{AppendError, Step, StoredTask, TurnProgress};

pub(super) fn steps_follow_each_other_and_the_stale_leave_no_trace(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Chunk]));
    let mut behind = story.clone();
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Working), ScriptedEvent::Chunk]));
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Chunk]));
    let mut ahead = story.clone();
    ahead.head = ahead.head.next();
    for liar in [&mut behind, &mut ahead] {
        let mut step = liar.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
        step.turn = Some((Seq(3), 7));
        step.checkpoint = Some(Bytes::from_static(b"lie"));
        step.retry = Some(author.new_retry_mark());
        assert_eq!(bench.log().append_refused(step), AppendError::Stale);
    }
    bench.reopen();
    let stored = bench.log().stored(story.id());
    story.assert_stored(stored.as_ref());
    assert_eq!(stored.map(|s| s.progress), Some(TurnProgress::default()));
    assert_eq!(bench.log().all_events(story.id()).len(), 5);
    assert_eq!(wait(bench.log().recent_retries(sabir_proto::Stamp::default(), 10)), Ok(Vec::new()));
    let mut completed = list_everything(&scope);
    completed.state = Some(TaskState::Completed.into());
    assert_eq!(bench.log().page(completed).total, 0);
}

pub(super) fn settled_means_settled(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let (mut quick, mut slow) = (author.new_task(&scope), author.new_task(&scope));
    bench.log().append_ok(quick.open_settled(TaskState::Completed));
    bench.log().append_ok(slow.open(&mut author, &[]));
    bench.log().append_ok(slow.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Failed)]));
    for story in [quick, slow] {
        for late in [ScriptedEvent::Status(TaskState::Working), ScriptedEvent::Chunk] {
            assert_eq!(bench.log().append_refused(story.clone().step(&mut author, &[late])), AppendError::Stale);
        }
        story.assert_stored(bench.log().stored(story.id()).as_ref());
    }
}

pub(super) fn a_snapshot_shortens_the_tail(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    for n in 0..12 {
        let mut step = story.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Chunk]);
        if n % 3 == 2 {
            step.snapshot = Some(story.image());
        }
        bench.log().append_ok(step);
        let stored = bench.log().stored(story.id());
        // Also right after a snapshot without a status: the head is that of the image.
        story.assert_stored(stored.as_ref());
        assert_eq!(stored.map(|s| s.tail.len()), Some(if n < 2 { 4 + 2 * n } else { (n + 1) % 3 * 2 }));
    }
    bench.reopen();
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    assert_eq!(bench.log().all_events(story.id()).len(), 27, "a snapshot replaces no event");
}

pub(super) fn any_cursor_replays_to_the_same_end(bench: &mut dyn LogFixture) {
    let (mut author, mut chance, scope) = (TaskFactory::new(2), SeededRng::new(2), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Chunk]));
    for _ in 0..8 {
        let mut news = vec![ScriptedEvent::Chunk; chance.below(5)];
        news.push(ScriptedEvent::Status(TaskState::Working));
        bench.log().append_ok(story.step(&mut author, &news));
    }
    for settled in [false, true] {
        if settled {
            bench.log().append_ok(
                story.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Completed)]),
            );
        }
        let all = bench.log().all_events(story.id());
        let numbers: Vec<u64> = all.iter().map(|e| e.seq.0).collect();
        assert_eq!(numbers, (1..=story.head.0).collect::<Vec<_>>());
        for start in 0..=story.head.0 {
            for limit in [1, 2, 3, 7, 100] {
                assert_eq!(replay(bench, &story, start, limit), all[usize::try_from(start).unwrap_or(0)..]);
            }
        }
    }
}

/// Everything after `start`, in pages; most of them begin in the middle of a step.
fn replay(bench: &dyn LogFixture, story: &ScriptedTask, start: u64, limit: usize) -> Vec<FrozenEvent> {
    let mut seen: Vec<FrozenEvent> = Vec::new();
    loop {
        let cursor = seen.last().map_or(Seq(start), |e| e.seq);
        let page = wait(bench.log().events(story.id(), cursor, limit)).expect("events can be read");
        assert!(page.len() <= limit);
        if page.is_empty() {
            return seen;
        }
        seen.extend(page);
    }
}

pub(super) fn what_was_heard_is_kept(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let mut story = author.new_task(&scope);
    bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]));
    bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Answer, ScriptedEvent::Chunk]));
    bench.reopen();
    story.assert_stored(bench.log().stored(story.id()).as_ref());
    let heard: Vec<bool> = bench.log().all_events(story.id()).iter().map(|e| e.thaw_input().is_some()).collect();
    assert_eq!(heard, [false, false, true, false]);
}

pub(super) fn progress_is_kept_until_the_task_settles(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let mut story = author.new_task(&scope);
    let first = Step { turn: Some((Seq(0), 1)), ..story.open(&mut author, &[]) };
    let noted =
        Step { checkpoint: Some(Bytes::from_static(b"one")), ..story.step(&mut author, &[ScriptedEvent::Chunk]) };
    let again = Step { turn: Some((Seq(0), 2)), ..story.empty_step() };
    let plain = story.step(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]);
    let answered = Step { turn: Some((story.head, 1)), ..story.step(&mut author, &[ScriptedEvent::Answer]) };
    let replaced = Step { checkpoint: Some(Bytes::from_static(b"two")), ..story.empty_step() };
    let ended = story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]);
    let course: [(Step, u64, u32, Option<&[u8]>); 6] = [
        (first, 0, 1, None),
        (noted, 0, 1, Some(b"one")),
        (again, 0, 2, Some(b"one")),
        (plain, 0, 2, Some(b"one")),
        (answered, 3, 1, Some(b"one")),
        (replaced, 3, 1, Some(b"two")),
    ];
    for (step, turn, attempt, checkpoint) in course {
        bench.log().append_ok(step);
        bench.reopen();
        let progress = bench.log().stored(story.id()).map(|s| s.progress);
        let checkpoint = checkpoint.map(Bytes::copy_from_slice);
        assert_eq!(progress, Some(TurnProgress { turn: Seq(turn), attempt, checkpoint }));
    }
    bench.log().append_ok(Step { checkpoint: Some(Bytes::from_static(b"three")), ..ended });
    let progress = bench.log().stored(story.id()).map(|s| s.progress);
    assert_eq!(progress, Some(TurnProgress { turn: Seq(3), attempt: 1, checkpoint: None }), "nobody will ask for it");
}

pub(super) fn unfinished_tasks_are_found_oldest_first(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(2);
    let mut expected = Vec::new();
    let states = [TaskState::Working, TaskState::InputRequired, TaskState::Submitted, TaskState::AuthRequired];
    for n in 0..24 {
        let mut story = author.new_task(&owner(["ann", "bob", "cy"][n % 3]));
        let state = states[n % 4];
        let news = [ScriptedEvent::Status(state)];
        bench.log().append_ok(story.open(&mut author, if state == TaskState::Submitted { &[] } else { &news }));
        if n % 6 == 4 {
            bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Canceled)]));
        } else if n % 2 == 0 {
            expected.push(story);
        }
    }
    bench.reopen();
    for limit in [1, 5, 100] {
        let mut found: Vec<StoredTask> = Vec::new();
        loop {
            let page = wait(bench.log().unfinished(found.last().map(|s| s.id), limit)).expect("they can be read");
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(found.len(), expected.len());
        expected.iter().zip(&found).for_each(|(story, stored)| story.assert_stored(Some(stored)));
    }
}

pub(super) fn stamps_rise_above_everything_stored(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(2), owner("ann"));
    let (mut quick, mut slow) = (author.new_task(&scope), author.new_task(&scope));
    // Settles later than it opened, in one row.
    bench.log().append_ok(quick.open(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    above(bench, &quick);
    bench.log().append_ok(slow.open(&mut author, &[]));
    bench.log().append_ok(slow.step(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    above(bench, &slow);
}

/// Asserts that after a restart the latest stamp is not below this task's, and not ahead of the clock either.
#[track_caller]
fn above(bench: &mut dyn LogFixture, story: &ScriptedTask) {
    bench.reopen();
    let last = wait(bench.log().last_stamp()).expect("the last stamp can be read");
    assert!(last >= story.position && last.time() == story.position.time(), "{last:?} after {:?}", story.position);
}

pub(super) fn tasks_that_were_handed_over_are_found(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(9), owner("ann"), owner("bob"));
    let mut stories = [author.new_task(&ann), author.new_task(&ann), author.new_task(&bob)];
    for (story, state) in stories.iter_mut().zip([TaskState::Transferred, TaskState::Completed, TaskState::Transferred])
    {
        bench.log().append_ok(story.open_settled(state));
    }
    let (first, last) = (stories[0].id(), stories[2].id());
    for _ in 0..2 {
        let found = |since, limit| wait(bench.log().handed_over(since, limit)).expect("it can be read");
        assert_eq!(found(Stamp::default(), 10), [first, last], "whoever owns them, oldest first");
        assert_eq!(found(Stamp::default(), 1), [first]);
        assert_eq!(found(last.stamp(), 10), [last]);
        bench.reopen();
    }
}
