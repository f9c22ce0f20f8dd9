//! Promises about paging through a changing list: the pages show it as it was when the paging began.

use super::lists::{ordered, some};
use super::{LogFixture, MemoryLogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{ContextId, TaskId, TaskState};
use sabir_store::{PageToken, StoreError, TaskListQuery};

/// Reads all pages of `limit`, and calls `between` after each but the last.
fn walk(
    bench: &mut dyn LogFixture,
    mut listing: TaskListQuery,
    mut between: impl FnMut(&mut dyn LogFixture),
) -> Vec<TaskId> {
    let mut seen = Vec::new();
    loop {
        let page = bench.log().page(listing.clone());
        seen.extend(ids(&page));
        let Some(next) = page.next else { return seen };
        // The token in the form that a client sends back.
        listing.token = Some(PageToken::decode(&next.encode()).expect("our own token reads back"));
        between(bench);
    }
}

/// Tasks at work, in this context or each in its own.
fn at_work(
    bench: &dyn LogFixture,
    author: &mut TaskFactory,
    count: usize,
    context: Option<&ContextId>,
) -> Vec<ScriptedTask> {
    let scope = owner("ann");
    let begin = |_| {
        let mut story = match context {
            Some(context) => author.new_task_in(&scope, context),
            None => author.new_task(&scope),
        };
        bench.log().append_ok(story.open(author, &[ScriptedEvent::Status(TaskState::Working)]));
        story
    };
    (0..count).map(begin).collect()
}

/// Pages through a list with changes of every kind between the pages: last tasks move to the front, first ones move
/// again, one task moves twice, and new ones appear.
fn walk_while_moving(
    bench: &mut dyn LogFixture,
    author: &mut TaskFactory,
    stories: &mut [ScriptedTask],
    listing: &TaskListQuery,
) {
    for limit in [1, 2, 3, 5] {
        let expected = ordered(stories.iter());
        let mut round = 0;
        let seen = walk(bench, TaskListQuery { limit, ..listing.clone() }, |bench| {
            let count = stories.len();
            for at in [round % count, count - 1 - round % count, round * 7 % count] {
                let again =
                    stories[at].step(author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Working)]);
                bench.log().append_ok(again);
            }
            if round % 3 == 0 {
                let mut new = author.new_task_in(&listing.scope, &stories[0].task.context_id);
                bench.log().append_ok(new.open(author, &[ScriptedEvent::Status(TaskState::Working)]));
                bench.log().append_ok(new.step(author, &[ScriptedEvent::Status(TaskState::Working)]));
                // Moved to a state and a time that the next listing does not ask for.
                bench.log().append_ok(new.step(author, &[ScriptedEvent::Status(TaskState::Canceled)]));
            }
            round += 1;
        });
        let known: Vec<TaskId> = seen.iter().copied().filter(|id| expected.contains(id)).collect();
        assert_eq!(known, expected, "pages of {limit}");
        let mut unique = seen.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), seen.len(), "pages of {limit} repeat a task");
    }
}

pub(super) fn a_walk_neither_skips_nor_repeats_what_moves(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(4);
    let mut stories = at_work(bench, &mut author, 17, None);
    walk_while_moving(bench, &mut author, &mut stories, &list_everything(&owner("ann")));
}

pub(super) fn a_walk_within_a_state_is_as_steady(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(4);
    let scope = owner("ann");
    let mut stories = at_work(bench, &mut author, 11, None);
    drop(some(bench, &mut author, &owner("bob"), 9));
    walk_while_moving(
        bench,
        &mut author,
        &mut stories,
        &TaskListQuery { state: Some(TaskState::Working.into()), ..list_everything(&scope) },
    );
    // A task that leaves the state meanwhile is not listed, since pages show current tasks.
    let gone = ordered(stories.iter()).pop();
    let seen = walk(
        bench,
        TaskListQuery { state: Some(TaskState::Working.into()), limit: 4, ..list_everything(&scope) },
        |bench| {
            if let Some(story) = stories.iter_mut().find(|s| Some(s.id()) == gone && !s.task.status.state.is_settled())
            {
                bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
            }
        },
    );
    assert!(seen.len() == 10 && !seen.contains(&gone.expect("eleven are at work")));
}

pub(super) fn a_walk_within_a_context_is_as_steady(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(4);
    let scope = owner("ann");
    let brought = ContextId::parse("theirs").expect("a short text is a legal context");
    let mut first = author.new_task(&scope);
    bench.log().append_ok(first.open(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
    let born = first.task.context_id.clone();
    let mut of_born = at_work(bench, &mut author, 8, Some(&born));
    of_born.push(first);
    let mut of_brought = at_work(bench, &mut author, 9, Some(&brought));
    for (context, stories) in [(born, &mut of_born), (brought, &mut of_brought)] {
        for state in [None, Some(TaskState::Working)] {
            let listing = TaskListQuery {
                context: Some(context.clone()),
                state: state.map(Into::into),
                ..list_everything(&scope)
            };
            walk_while_moving(bench, &mut author, stories, &listing);
        }
    }
}

pub(super) fn a_walk_goes_on_after_a_restart(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(4);
    let mut stories = at_work(bench, &mut author, 12, None);
    let expected = ordered(&stories);
    // The listing begins at a commit that changed no position: no task's row has its number.
    bench.log().append_ok(stories[11].step(&mut author, &[ScriptedEvent::Chunk]));
    let mut round = 0;
    let seen = walk(bench, TaskListQuery { limit: 2, ..list_everything(&owner("ann")) }, |bench| {
        bench.reopen();
        bench.log().append_ok(stories[round].step(&mut author, &[ScriptedEvent::Status(TaskState::Working)]));
        bench.reopen();
        round += 1;
    });
    assert_eq!(seen, expected);
}

pub(super) fn tokens_of_nobody_are_refused(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(4);
    let stories = at_work(bench, &mut author, 3, None);
    let refused = |token: PageToken, listing: TaskListQuery| {
        let listed = wait(bench.log().list(TaskListQuery { token: Some(token), ..listing }));
        assert!(matches!(listed, Err(StoreError::PageToken)), "{listed:?}");
    };
    let all = list_everything(&stories[0].scope);
    for text in ["00".to_owned(), "f".repeat(32), "0".repeat(48), "7".repeat(48)] {
        refused(PageToken::decode(&text).expect("digits"), all.clone());
    }
    let first = bench.log().page(TaskListQuery { limit: 1, ..all.clone() });
    let token = || first.next.clone().expect("there are more");
    let (context, since) = (stories[0].task.context_id.clone(), stories[0].position);
    refused(token(), list_everything(&owner("bob")));
    refused(token(), TaskListQuery { context: Some(context), ..all.clone() });
    refused(token(), TaskListQuery { state: Some(TaskState::Working.into()), ..all.clone() });
    refused(token(), TaskListQuery { since: Some(since), ..all.clone() });
    // Another store that has later commits.
    let ahead: &dyn LogFixture = &MemoryLogFixture::default();
    author.advance(1000);
    at_work(ahead, &mut author, 3, None);
    let page = ahead.log().page(TaskListQuery { limit: 1, ..all.clone() });
    refused(page.next.expect("there are more"), all.clone());
    // The size of a page may change.
    let rest = bench.log().page(TaskListQuery { token: Some(token()), limit: 9, ..all });
    assert_eq!((ids(&first).len(), ids(&rest).len()), (1, 2));
}
