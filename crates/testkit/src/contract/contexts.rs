//! Promises about conversations: opened with a task, brought by a client, or continued.

use super::lists::ordered;
use super::{Ask, Bench, everything, ids};
use crate::story::{Author, News, Story, owner};
use sabir_proto::{ContextId, TaskState};
use sabir_store::{Listing, Scope};
use std::sync::Arc;

#[track_caller]
fn check(bench: &dyn Bench, scope: &Arc<Scope>, context: &ContextId, expected: &[Story]) {
    for state in [None, Some(TaskState::Working), Some(TaskState::Completed)] {
        let fits = expected.iter().filter(|s| state.is_none_or(|state| s.task.status.state == state));
        let expected = ordered(fits);
        let listed = bench.log().page(Listing {
            context: Some(context.clone()),
            state: state.map(Into::into),
            ..everything(scope)
        });
        assert_eq!((ids(&listed), listed.total), (expected.clone(), u64::try_from(expected.len()).unwrap_or(0)));
    }
}

pub(super) fn a_context_is_found_by_the_task_it_was_born_with(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(5), owner("ann"));
    let mut first = author.story(&scope);
    let context = first.task.context_id.clone();
    bench.log().put(first.whole(TaskState::Completed));
    let mut stories = vec![first];
    check(bench, &scope, &context, &stories);
    for _ in 0..3 {
        let mut later = author.story_in(&scope, &context);
        bench.log().put(later.open(&mut author, &[News::Status(TaskState::Working)]));
        stories.push(later);
    }
    let mut other = author.story(&scope);
    bench.log().put(other.whole(TaskState::Completed));
    bench.reopen();
    check(bench, &scope, &context, &stories);
    // The same stamp with other random bits: a context without tasks.
    let stamp = context.stamp().expect("ours has a stamp");
    check(bench, &scope, &ContextId::new(stamp, 99), &[]);
}

pub(super) fn a_context_brought_by_a_client_is_found(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(5), owner("ann"));
    let brought = |text: &str| ContextId::parse(text).expect("a short text is a legal context");
    // The second looks like one of ours, with the stamp of a task that does not exist.
    let contexts = [brought("theirs"), ContextId::new(author.stamp(), 7)];
    for context in &contexts {
        let mut stories: Vec<Story> = (0..3).map(|_| author.story_in(&scope, context)).collect();
        bench.log().put(stories[0].whole(TaskState::Completed));
        bench.log().put(stories[1].open(&mut author, &[News::Status(TaskState::Working)]));
        bench.log().put(stories[2].open(&mut author, &[News::Status(TaskState::Completed)]));
        check(bench, &scope, context, &stories);
        bench.log().put(stories[1].step(&mut author, &[News::Status(TaskState::Completed)]));
        bench.reopen();
        check(bench, &scope, context, &stories);
    }
    check(bench, &scope, &brought("nobody's"), &[]);
}

pub(super) fn owners_may_use_the_same_context(bench: &mut dyn Bench) {
    let (mut author, ann, bob) = (Author::new(5), owner("ann"), owner("bob"));
    let mut hers = author.story(&ann);
    let context = hers.task.context_id.clone();
    bench.log().put(hers.open(&mut author, &[News::Status(TaskState::Working)]));
    check(bench, &bob, &context, &[]);
    let mut his = author.story_in(&bob, &context);
    bench.log().put(his.whole(TaskState::Completed));
    check(bench, &ann, &context, &[hers]);
    check(bench, &bob, &context, &[his]);
}
