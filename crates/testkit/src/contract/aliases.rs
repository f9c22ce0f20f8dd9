//! Promises about aliases, the names that callers give their tasks.

use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{Seq, TaskId, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};

fn name(name: &str, was: Option<&ScriptedTask>) -> Effect {
    Effect::SetAlias { name: name.into(), was: was.map(ScriptedTask::id) }
}

fn named(bench: &dyn LogFixture, scope: &Scope, name: &str) -> Option<TaskId> {
    wait(bench.log().alias(scope, name)).expect("a name can be read")
}

fn names(bench: &dyn LogFixture, story: &ScriptedTask) -> Vec<String> {
    wait(bench.log().aliases_of(story.id())).expect("names can be read")
}

pub(super) fn a_name_belongs_to_its_owner(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(9), owner("ann"), owner("bob"));
    let (mut hers, mut his) = (author.new_task(&ann), author.new_task(&bob));
    assert_eq!(named(bench, &ann, "a"), None, "an owner nobody has heard of has no names");
    bench
        .log()
        .append_ok(Step { effects: vec![name("b", None), name("a", None)], ..hers.open_settled(TaskState::Completed) });
    assert_eq!(named(bench, &bob, "a"), None);
    bench.log().append_ok(Step { effects: vec![name("a", None)], ..his.open(&mut author, &[ScriptedEvent::Chunk]) });
    for _ in 0..2 {
        assert_eq!((named(bench, &ann, "a"), named(bench, &ann, "b")), (Some(hers.id()), Some(hers.id())));
        assert_eq!((named(bench, &bob, "a"), named(bench, &bob, "b")), (Some(his.id()), None));
        assert_eq!((names(bench, &hers), names(bench, &his)), (vec!["a".into(), "b".into()], vec!["a".into()]));
        bench.reopen();
    }
    let stranger = TaskId::new(hers.id().stamp(), 1);
    assert_eq!(wait(bench.log().aliases_of(stranger)), Ok(Vec::new()));
}

pub(super) fn a_name_moves_only_from_where_it_was_seen(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(9), owner("ann"));
    let mut stories: Vec<ScriptedTask> = (0..4).map(|_| author.new_task(&ann)).collect();
    bench.log().append_ok(Step { effects: vec![name("a", None)], ..stories[0].open_settled(TaskState::Completed) });
    let first = stories[0].clone();
    let step = stories[1].open_settled(TaskState::Completed);
    bench.log().append_ok(Step { effects: vec![name("a", Some(&first))], ..step });
    assert_eq!(named(bench, &ann, "a"), Some(stories[1].id()));
    assert_eq!(names(bench, &stories[0]), Vec::<String>::new());
    // Expected free, as the first task's, and an alias that no task has.
    for effect in [name("a", None), name("a", Some(&first)), name("c", Some(&first))] {
        let step = Step { effects: vec![effect], ..stories[2].open_settled(TaskState::Completed) };
        assert_eq!(bench.log().append_refused(step), AppendError::NameMoved);
        assert!(bench.log().stored(stories[2].id()).is_none(), "the task is refused with its name");
    }
    // A task with the same stamp is another task.
    let twin = TaskId::new(stories[1].id().stamp(), 1);
    let effects = vec![Effect::SetAlias { name: "a".into(), was: Some(twin) }];
    let step = Step { effects, ..stories[2].open_settled(TaskState::Completed) };
    assert_eq!(bench.log().append_refused(step), AppendError::NameMoved);
    let second = stories[1].clone();
    let step = stories[3].open(&mut author, &[]);
    bench.log().append_ok(Step { effects: vec![name("a", Some(&second))], ..step });
    bench.reopen();
    assert_eq!(named(bench, &ann, "a"), Some(stories[3].id()));
}

pub(super) fn a_name_is_given_with_its_task_or_not_at_all(bench: &mut dyn LogFixture) {
    let (mut author, ann) = (TaskFactory::new(9), owner("ann"));
    let (mut story, mark, at) = (author.new_task(&ann), author.new_retry_mark(), author.stamp());
    let mut other = author.new_task(&ann);
    let key = Effect::Key { mark, at, until: sabir_proto::Stamp::from_u64(at.get() << 1) };
    bench.log().append_ok(Step { effects: vec![key.clone()], ..other.open(&mut author, &[]) });
    let step = Step { effects: vec![name("a", None), key], ..story.open_settled(TaskState::Completed) };
    assert_eq!(bench.log().append_refused(step), AppendError::KeyTaken);
    assert_eq!(named(bench, &ann, "a"), None);
    // A step without an opening can set an alias too; not for a missing task.
    let late = |story: &ScriptedTask| Step { after: Seq(0), effects: vec![name("a", None)], ..story.empty_step() };
    assert_eq!(bench.log().append_refused(late(&story)), AppendError::Stale);
    bench.log().append_ok(late(&other));
    assert_eq!(named(bench, &ann, "a"), Some(other.id()));
}
