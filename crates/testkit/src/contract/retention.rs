//! Promises about pruning: settled tasks are removed completely, all others stay.

use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, epoch, owner, put_push_effect};
use crate::wait::wait;
use sabir_proto::{AgentName, Stamp, TaskState, Timestamp};
use sabir_store::{DeliveryMark, DeliveryQuery, DueQuery, Effect, LossNote, Scope, Step, TaskListQuery};
use std::sync::Arc;

fn agent() -> AgentName {
    owner("ann").agent.clone()
}

/// A stamp above every position in use.
fn now(author: &mut TaskFactory) -> Stamp {
    author.advance(1000);
    author.stamp()
}

/// Prunes everything below a position, in as many passes as it takes.
#[track_caller]
fn forget_below(bench: &dyn LogFixture, below: Stamp) -> u64 {
    let (mut from, mut tasks) = (None, 0);
    for _ in 0..10_000 {
        let forgotten = wait(bench.upkeep().prune(&agent(), below, from)).expect("tasks can be forgotten");
        tasks += forgotten.tasks;
        from = forgotten.next;
        if from.is_none() {
            return tasks;
        }
    }
    panic!("forgetting does not end");
}

#[track_caller]
fn check_gone(bench: &dyn LogFixture, story: &ScriptedTask) {
    assert!(bench.log().stored(story.id()).is_none());
    assert!(bench.log().all_events(story.id()).is_empty());
    assert_eq!(wait(bench.log().owner(story.id())), Ok(None));
    assert_eq!(wait(bench.log().loss_notes(story.id())), Ok(Vec::new()));
    assert_eq!(wait(bench.log().aliases_of(story.id())), Ok(Vec::new()));
    assert_eq!(wait(bench.log().pushes(story.id())), Ok(Vec::new()));
}

pub(super) fn settled_tasks_go_whole_and_others_stay(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(11), owner("ann"));
    let (mark, at) = (author.new_retry_mark(), author.stamp());
    let until = Stamp::from_u64(at.get() + 1);
    let effects = vec![Effect::SetAlias { name: "a".into(), was: None }, Effect::Key { mark, at, until }];
    let mut quick = author.new_task(&ann);
    bench.log().append_ok(Step { effects, ..quick.open_settled(TaskState::Completed) });
    let mut long = author.new_task(&ann);
    bench.log().append_ok(long.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Failed)]));
    let mut open = author.new_task(&ann);
    bench.log().append_ok(open.open(&mut author, &[ScriptedEvent::Status(TaskState::InputRequired)]));
    let note = LossNote::new("d", "k", "p", Timestamp::from_millis(1));
    for story in [&quick, &long, &open] {
        wait(bench.log().add_loss_notes(story.id(), vec![note.clone()])).expect("notes are taken");
        assert!(bench.log().stored(story.id()).is_some(), "and it may be kept in memory now");
    }
    let below = now(&mut author);
    assert_eq!(wait(bench.upkeep().settled_count(&agent())), Ok(2));
    assert_eq!(forget_below(bench, below), 2);
    for _ in 0..2 {
        check_gone(bench, &quick);
        check_gone(bench, &long);
        open.assert_stored(bench.log().stored(open.id()).as_ref());
        assert_eq!(wait(bench.log().loss_notes(open.id())), Ok(vec![note.clone()]));
        assert_eq!(wait(bench.log().alias(&ann, "a")), Ok(None));
        assert_eq!(wait(bench.log().explicit_retry(mark.key, at)), Ok(None));
        let listed = bench.log().page(list_everything(&ann));
        assert_eq!((ids(&listed), listed.total), (vec![open.id()], 1));
        assert_eq!(wait(bench.upkeep().settled_count(&agent())), Ok(0));
        assert_eq!(forget_below(bench, below), 0);
        bench.reopen();
    }
    // A free alias can be given again, and an unfinished task goes on.
    let mut other = author.new_task(&ann);
    bench.log().append_ok(Step {
        effects: vec![Effect::SetAlias { name: "a".into(), was: None }],
        ..other.open_settled(TaskState::Completed)
    });
    bench.log().append_ok(open.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    let below = now(&mut author);
    assert_eq!(forget_below(bench, below), 2);
}

pub(super) fn only_what_stands_below_is_forgotten(bench: &mut dyn LogFixture) {
    let (mut author, scopes) = (TaskFactory::new(12), ["ann", "bob", "cat"].map(owner));
    let mut stories: Vec<ScriptedTask> = Vec::new();
    for n in 0..300 {
        let mut story = author.new_task(&scopes[n % 3]);
        let state = [TaskState::Completed, TaskState::Canceled, TaskState::Rejected][n % 7 % 3];
        bench.log().append_ok(story.open_settled(state));
        stories.push(story);
        author.advance(10);
    }
    let total = |scope: &Arc<Scope>| bench.log().page(list_everything(scope)).total;
    assert_eq!(scopes.iter().map(total).sum::<u64>(), 300);
    let oldest = |count| wait(bench.upkeep().oldest_settled(&agent(), count)).expect("places can be read");
    assert_eq!((oldest(1), oldest(120)), (Some(stories[0].id().stamp()), Some(stories[119].id().stamp())));
    assert_eq!((oldest(0), oldest(5000)), (None, Some(stories[299].id().stamp())));
    assert_eq!(forget_below(bench, stories[200].id().stamp()), 200);
    assert_eq!(wait(bench.upkeep().settled_count(&agent())), Ok(100));
    assert_eq!(scopes.iter().map(total).sum::<u64>(), 100);
    for (n, story) in stories.iter().enumerate() {
        assert_eq!(bench.log().stored(story.id()).is_some(), n >= 200, "task {n}");
    }
    assert_eq!(wait(bench.upkeep().agents()), Ok(vec![agent()]));
    let nobody = AgentName::parse("nobody").expect("a legal name");
    assert_eq!(wait(bench.upkeep().settled_count(&nobody)), Ok(0));
    assert_eq!(wait(bench.upkeep().prune(&nobody, Stamp::from_u64(u64::MAX >> 1), None)).map(|f| f.tasks), Ok(0));
}

pub(super) fn a_walk_goes_on_over_what_was_forgotten(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(13), owner("ann"));
    let mut stories: Vec<ScriptedTask> = Vec::new();
    for n in 0..60 {
        let mut story = author.new_task(&ann);
        bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
        if n % 2 == 0 {
            bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
        }
        stories.push(story);
    }
    let first = bench.log().page(TaskListQuery { limit: 20, ..list_everything(&ann) });
    let below = now(&mut author);
    assert_eq!(forget_below(bench, below), 30);
    let mut seen = ids(&first);
    let mut token = first.next;
    while let Some(at) = token {
        let page = bench.log().page(TaskListQuery { limit: 7, token: Some(at), ..list_everything(&ann) });
        assert_eq!(page.total, 30);
        seen.extend(ids(&page));
        token = page.next;
    }
    for (n, story) in stories.iter().enumerate().filter(|(n, _)| n % 2 == 1) {
        assert_eq!(seen.iter().filter(|id| **id == story.id()).count(), 1, "task {n} is seen once");
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "nothing is seen twice");
}

pub(super) fn a_task_with_many_steps_goes_as_one(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(14), owner("ann"));
    let (mut long, mut after) = (author.new_task(&ann), author.new_task(&ann));
    bench.log().append_ok(long.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    for _ in 0..1500 {
        bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Chunk]));
    }
    bench.log().append_ok(long.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
    bench.log().append_ok(after.open_settled(TaskState::Completed));
    let below = now(&mut author);
    // A pass is begun, interrupted, and completed by the next one.
    let begun = wait(bench.upkeep().prune(&agent(), below, None)).expect("tasks can be forgotten");
    assert!(begun.tasks >= 1);
    check_gone(bench, &long);
    bench.reopen();
    check_gone(bench, &long);
    assert_eq!(begun.tasks + forget_below(bench, below), 2);
    check_gone(bench, &after);
    assert_eq!(bench.log().page(list_everything(&ann)).total, 0);
}

pub(super) fn a_key_that_may_be_used_again_keeps_its_task(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(16), owner("ann"));
    let (mark, at) = (author.new_retry_mark(), author.stamp());
    let until = Stamp::from_u64(at.get() + (60_000 << 15));
    let mut keyed = author.new_task(&ann);
    bench
        .log()
        .append_ok(Step { effects: vec![Effect::Key { mark, at, until }], ..keyed.open_settled(TaskState::Completed) });
    let below = now(&mut author);
    assert_eq!(forget_below(bench, below), 0);
    assert!(wait(bench.log().explicit_retry(mark.key, below)).is_ok_and(|kept| kept.is_some()));
    author.advance(60_000);
    let mut later = author.new_task(&ann);
    bench.log().append_ok(later.open_settled(TaskState::Completed));
    assert_eq!(forget_below(bench, below), 1, "until its time is over");
    check_gone(bench, &keyed);
}

pub(super) fn what_is_owed_keeps_its_task(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(15), owner("ann"));
    let (mut owed, mut dead) = (author.new_task(&ann), author.new_task(&ann));
    for story in [&mut owed, &mut dead] {
        let step = story.open_settled(TaskState::Completed);
        bench.log().append_ok(Step { notify: Some(epoch()), effects: vec![put_push_effect("a", 3)], ..step });
    }
    let due = wait(bench.log().due(DueQuery::all(epoch(), 10))).expect("what is due can be read").deliveries;
    let mark = |story: &ScriptedTask, mark: DeliveryMark| {
        let owed = due.iter().find(|owed| owed.task == story.id()).expect("it is due");
        assert_eq!(wait(bench.log().mark(owed, mark)), Ok(true));
    };
    let below = now(&mut author);
    assert_eq!(forget_below(bench, below), 0, "both are owed");
    mark(&dead, DeliveryMark::DeadLetter { now: epoch(), reason: "in vain".into(), attempt: None });
    assert_eq!(forget_below(bench, below), 1, "a dead letter keeps nobody");
    check_gone(bench, &dead);
    let letters = |dead| {
        wait(bench.log().deliveries(DeliveryQuery { dead, task: None, after: 0, limit: 10 })).map(|all| all.len())
    };
    assert_eq!((letters(true), letters(false)), (Ok(0), Ok(1)));
    owed.assert_stored(bench.log().stored(owed.id()).as_ref());
    mark(&owed, DeliveryMark::Delivered { now: epoch() });
    assert_eq!(forget_below(bench, below), 1);
    check_gone(bench, &owed);
}
