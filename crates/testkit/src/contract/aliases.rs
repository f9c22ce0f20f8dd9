//! Promises about aliases, the names that callers give their tasks.

use super::{Ask, Bench};
use crate::story::{Author, News, Story, owner};
use crate::wait::wait;
use sabir_proto::{Seq, TaskId, TaskState};
use sabir_store::{AppendError, Effect, Scope, Step};

fn name(name: &str, was: Option<&Story>) -> Effect {
    Effect::Alias { name: name.into(), was: was.map(Story::id) }
}

fn named(bench: &dyn Bench, scope: &Scope, name: &str) -> Option<TaskId> {
    wait(bench.log().alias(scope, name)).expect("a name can be read")
}

fn names(bench: &dyn Bench, story: &Story) -> Vec<String> {
    wait(bench.log().aliases_of(story.id())).expect("names can be read")
}

pub(super) fn a_name_belongs_to_its_owner(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(9), owner("ann"), owner("bob"));
    let (mut hers, mut his) = (author.story(&ann), author.story(&bob));
    assert_eq!(named(bench, &ann, "a"), None, "an owner nobody has heard of has no names");
    bench.log().put(Step { effects: vec![name("b", None), name("a", None)], ..hers.whole(TaskState::Completed) });
    assert_eq!(named(bench, &bob, "a"), None);
    bench.log().put(Step { effects: vec![name("a", None)], ..his.open(&mut author, &[News::Chunk]) });
    for _ in 0..2 {
        assert_eq!((named(bench, &ann, "a"), named(bench, &ann, "b")), (Some(hers.id()), Some(hers.id())));
        assert_eq!((named(bench, &bob, "a"), named(bench, &bob, "b")), (Some(his.id()), None));
        assert_eq!((names(bench, &hers), names(bench, &his)), (vec!["a".into(), "b".into()], vec!["a".into()]));
        bench.reopen();
    }
    let stranger = TaskId::new(hers.id().stamp(), 1);
    assert_eq!(wait(bench.log().aliases_of(stranger)), Ok(Vec::new()));
}

pub(super) fn a_name_moves_only_from_where_it_was_seen(bench: &mut dyn Bench) {
    let (mut author, ann) = (Author::new(9), owner("ann"));
    let mut stories: Vec<Story> = (0..4).map(|_| author.story(&ann)).collect();
    bench.log().put(Step { effects: vec![name("a", None)], ..stories[0].whole(TaskState::Completed) });
    let first = stories[0].clone();
    let step = stories[1].whole(TaskState::Completed);
    bench.log().put(Step { effects: vec![name("a", Some(&first))], ..step });
    assert_eq!(named(bench, &ann, "a"), Some(stories[1].id()));
    assert_eq!(names(bench, &stories[0]), Vec::<String>::new());
    // Expected free, as the first task's, and an alias that no task has.
    for effect in [name("a", None), name("a", Some(&first)), name("c", Some(&first))] {
        let step = Step { effects: vec![effect], ..stories[2].whole(TaskState::Completed) };
        assert_eq!(bench.log().refused(step), AppendError::NameMoved);
        assert!(bench.log().stored(stories[2].id()).is_none(), "the task is refused with its name");
    }
    // A task with the same stamp is another task.
    let twin = TaskId::new(stories[1].id().stamp(), 1);
    let effects = vec![Effect::Alias { name: "a".into(), was: Some(twin) }];
    let step = Step { effects, ..stories[2].whole(TaskState::Completed) };
    assert_eq!(bench.log().refused(step), AppendError::NameMoved);
    let second = stories[1].clone();
    let step = stories[3].open(&mut author, &[]);
    bench.log().put(Step { effects: vec![name("a", Some(&second))], ..step });
    bench.reopen();
    assert_eq!(named(bench, &ann, "a"), Some(stories[3].id()));
}

pub(super) fn a_name_is_given_with_its_task_or_not_at_all(bench: &mut dyn Bench) {
    let (mut author, ann) = (Author::new(9), owner("ann"));
    let (mut story, mark, at) = (author.story(&ann), author.mark(), author.stamp());
    let mut other = author.story(&ann);
    let key = Effect::Key { mark, at, until: sabir_proto::Stamp::from_u64(at.get() << 1) };
    bench.log().put(Step { effects: vec![key.clone()], ..other.open(&mut author, &[]) });
    let step = Step { effects: vec![name("a", None), key], ..story.whole(TaskState::Completed) };
    assert_eq!(bench.log().refused(step), AppendError::KeyTaken);
    assert_eq!(named(bench, &ann, "a"), None);
    // A step without an opening can set an alias too; not for a missing task.
    let late = |story: &Story| Step { after: Seq(0), effects: vec![name("a", None)], ..story.bare() };
    assert_eq!(bench.log().refused(late(&story)), AppendError::Stale);
    bench.log().put(late(&other));
    assert_eq!(named(bench, &ann, "a"), Some(other.id()));
}
