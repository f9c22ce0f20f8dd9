//! Promises about conversations: opened with a task, brought by a client, or continued.

use super::lists::ordered;
use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use sabir_proto::{ContextId, TaskState};
use sabir_store::{Scope, TaskListQuery};
use std::sync::Arc;

#[track_caller]
fn check(bench: &dyn LogFixture, scope: &Arc<Scope>, context: &ContextId, expected: &[ScriptedTask]) {
    for state in [None, Some(TaskState::Working), Some(TaskState::Completed)] {
        let fits = expected.iter().filter(|s| state.is_none_or(|state| s.task.status.state == state));
        let expected = ordered(fits);
        let listed = bench.log().page(TaskListQuery {
            context: Some(context.clone()),
            state: state.map(Into::into),
            ..list_everything(scope)
        });
        assert_eq!((ids(&listed), listed.total), (expected.clone(), u64::try_from(expected.len()).unwrap_or(0)));
    }
}

pub(super) fn a_context_is_found_by_the_task_it_was_born_with(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(5), owner("ann"));
    let mut first = author.new_task(&scope);
    let context = first.task.context_id.clone();
    bench.log().append_ok(first.open_settled(TaskState::Completed));
    let mut stories = vec![first];
    check(bench, &scope, &context, &stories);
    for _ in 0..3 {
        let mut later = author.new_task_in(&scope, &context);
        bench.log().append_ok(later.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
        stories.push(later);
    }
    let mut other = author.new_task(&scope);
    bench.log().append_ok(other.open_settled(TaskState::Completed));
    bench.reopen();
    check(bench, &scope, &context, &stories);
    // The same stamp with other random bits: a context without tasks.
    let stamp = context.stamp().expect("ours has a stamp");
    check(bench, &scope, &ContextId::new(stamp, 99), &[]);
}

pub(super) fn a_context_brought_by_a_client_is_found(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(5), owner("ann"));
    let brought = |text: &str| ContextId::parse(text).expect("a short text is a legal context");
    // The second looks like one of ours, with the stamp of a task that does not exist.
    let contexts = [brought("theirs"), ContextId::new(author.stamp(), 7)];
    for context in &contexts {
        let mut stories: Vec<ScriptedTask> = (0..3).map(|_| author.new_task_in(&scope, context)).collect();
        bench.log().append_ok(stories[0].open_settled(TaskState::Completed));
        bench.log().append_ok(stories[1].open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
        bench.log().append_ok(stories[2].open(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
        check(bench, &scope, context, &stories);
        bench.log().append_ok(stories[1].step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
        bench.reopen();
        check(bench, &scope, context, &stories);
    }
    check(bench, &scope, &brought("nobody's"), &[]);
}

pub(super) fn owners_may_use_the_same_context(bench: &mut dyn LogFixture) {
    let (mut author, ann, bob) = (TaskFactory::new(5), owner("ann"), owner("bob"));
    let mut hers = author.new_task(&ann);
    let context = hers.task.context_id.clone();
    bench.log().append_ok(hers.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    check(bench, &bob, &context, &[]);
    let mut his = author.new_task_in(&bob, &context);
    bench.log().append_ok(his.open_settled(TaskState::Completed));
    check(bench, &ann, &context, &[hers]);
    check(bench, &bob, &context, &[his]);
}
