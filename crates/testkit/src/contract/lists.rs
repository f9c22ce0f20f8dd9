//! Promises about the task list of an owner.

use super::{LogFixture, TaskLogTestExt, ids, list_everything};
use crate::scripted_task::{ScriptedEvent, ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{Stamp, TaskId, TaskState};
use sabir_store::{Scope, StateSet, StoredTask, TaskListQuery};
use std::cmp::Reverse;
use std::sync::Arc;

/// With a time given, totals are counted only up to this.
const COUNT_MAX: u64 = 10_000;

/// The ids of these tasks, latest status first.
pub(super) fn ordered<'a>(stories: impl IntoIterator<Item = &'a ScriptedTask>) -> Vec<TaskId> {
    let mut stories: Vec<&ScriptedTask> = stories.into_iter().collect();
    stories.sort_by_key(|s| Reverse(s.position));
    stories.iter().map(|s| s.id()).collect()
}

/// Some tasks of one owner in every state, none of them at its first position.
pub(super) fn some(
    bench: &dyn LogFixture,
    author: &mut TaskFactory,
    scope: &Arc<Scope>,
    count: usize,
) -> Vec<ScriptedTask> {
    let mut stories: Vec<ScriptedTask> = (0..count).map(|_| author.new_task(scope)).collect();
    for (n, story) in stories.iter_mut().enumerate() {
        let state = TaskState::ALL[n % TaskState::ALL.len()];
        match state {
            TaskState::Submitted => bench.log().append_ok(story.open(author, &[])),
            TaskState::Rejected => bench.log().append_ok(story.open_settled(state)),
            _ => bench.log().append_ok(story.open(author, &[ScriptedEvent::Status(state)])),
        }
    }
    for story in stories.iter_mut().step_by(4).filter(|s| !s.task.status.state.is_settled()) {
        bench.log().append_ok(story.step(author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(TaskState::Working)]));
    }
    stories
}

pub(super) fn lists_are_ordered_by_the_last_status(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    let stories = some(bench, &mut author, &scope, 40);
    let listed = bench.log().page(list_everything(&scope));
    assert_eq!((ids(&listed), listed.total, listed.next), (ordered(&stories), 40, None));
    for stored in &listed.tasks {
        stories.iter().filter(|s| s.id() == stored.id).for_each(|s| s.assert_stored(Some(stored)));
    }
    for limit in [1, 3, 39, 40] {
        let mut listing = TaskListQuery { limit, ..list_everything(&scope) };
        let mut walked = Vec::new();
        loop {
            let page = bench.log().page(listing.clone());
            assert!(page.tasks.len() <= limit && page.total == 40);
            walked.extend(ids(&page));
            let Some(next) = page.next else { break };
            assert_eq!(page.tasks.len(), limit, "only the last page is short");
            listing.token = Some(next);
        }
        assert_eq!(walked, ordered(&stories));
    }
}

pub(super) fn pages_end_at_a_number_of_bytes(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    let stories = some(bench, &mut author, &scope, 20);
    let sizes: Vec<usize> = bench.log().page(list_everything(&scope)).tasks.iter().map(StoredTask::bytes).collect();
    let largest = *sizes.iter().max().unwrap_or(&0);
    for bytes_max in [0, 1, largest, 3 * largest, usize::MAX] {
        let mut listing = TaskListQuery { bytes_max, ..list_everything(&scope) };
        let mut walked = Vec::new();
        loop {
            let page = bench.log().page(listing.clone());
            let bytes: usize = page.tasks.iter().map(StoredTask::bytes).sum();
            assert!(page.tasks.len() == 1 || bytes <= bytes_max, "{} tasks, {bytes} bytes", page.tasks.len());
            walked.extend(ids(&page));
            let Some(next) = page.next else { break };
            // The next task did not fit on this page.
            assert!(bytes + sizes[walked.len()] > bytes_max, "a page of {bytes} bytes is cut too early");
            listing.token = Some(next);
        }
        assert_eq!(walked, ordered(&stories), "{bytes_max}");
    }
}

pub(super) fn lists_filter_by_state_and_time(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    let mut stories = some(bench, &mut author, &scope, 20);
    author.advance(5000);
    let since = author.stamp();
    stories.extend(some(bench, &mut author, &scope, 20));
    let alone = TaskState::ALL.map(|state| Some(StateSet::from(state)));
    let both = StateSet::from_iter([TaskState::Completed, TaskState::Working]);
    for state in alone.into_iter().chain([Some(both), None]) {
        for since in [None, Some(since)] {
            let fits = |s: &&ScriptedTask| {
                state.is_none_or(|states| states.contains(s.task.status.state))
                    && s.position >= since.unwrap_or_default()
            };
            let expected = ordered(stories.iter().filter(fits));
            let listed = bench.log().page(TaskListQuery { state, since, ..list_everything(&scope) });
            assert_eq!((ids(&listed), listed.total), (expected.clone(), u64::try_from(expected.len()).unwrap_or(0)));
        }
    }
}

pub(super) fn owners_see_only_their_own(bench: &mut dyn LogFixture) {
    let mut author = TaskFactory::new(3);
    let plain = owner("ann");
    let tenant = sabir_proto::Tenant::parse("acme").expect("a plain word is a legal tenant");
    let agent = sabir_proto::AgentName::parse("other").expect("a plain word is a legal name");
    let scopes = [
        plain.clone(),
        owner("bob"),
        Arc::new(Scope { tenant, ..(*plain).clone() }),
        Arc::new(Scope { agent, ..(*plain).clone() }),
    ];
    let stories: Vec<Vec<ScriptedTask>> =
        scopes.iter().enumerate().map(|(n, scope)| some(bench, &mut author, scope, 5 + n)).collect();
    bench.reopen();
    for (scope, stories) in scopes.iter().zip(&stories) {
        let listed = bench.log().page(list_everything(scope));
        assert_eq!((ids(&listed), listed.total), (ordered(stories), u64::try_from(stories.len()).unwrap_or(0)));
    }
    let listed = bench.log().page(list_everything(&owner("nobody")));
    assert_eq!((ids(&listed), listed.total), (Vec::new(), 0));
}

pub(super) fn totals_follow_every_move(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    let mut story = author.new_task(&scope);
    let count = |bench: &dyn LogFixture, state| {
        bench.log().page(TaskListQuery { state: Some(StateSet::from(state)), ..list_everything(&scope) }).total
    };
    bench.log().append_ok(story.open(&mut author, &[]));
    assert_eq!(count(bench, TaskState::Submitted), 1);
    let course =
        [TaskState::Working, TaskState::Working, TaskState::InputRequired, TaskState::Working, TaskState::Failed];
    for state in course {
        bench.log().append_ok(story.step(&mut author, &[ScriptedEvent::Chunk, ScriptedEvent::Status(state)]));
        for other in TaskState::ALL {
            assert_eq!(count(bench, other), u64::from(other == state));
        }
        assert_eq!(bench.log().page(list_everything(&scope)).total, 1);
    }
}

pub(super) fn counts_since_a_time_are_capped(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    let since = Some(author.stamp());
    let most = COUNT_MAX + 30;
    let context = sabir_proto::ContextId::parse("one for all").expect("a short text is a legal context");
    let answers: Vec<_> = (0..most)
        .map(|_| bench.log().append(author.new_task_in(&scope, &context).open_settled(TaskState::Completed)))
        .collect();
    answers.into_iter().for_each(|answer| wait(answer).expect("a good step is taken"));
    let total =
        |since, context| bench.log().page(TaskListQuery { since, context, limit: 3, ..list_everything(&scope) }).total;
    assert_eq!(total(since, None), COUNT_MAX);
    assert_eq!(total(since, Some(context.clone())), COUNT_MAX);
    assert_eq!(total(None, None), most, "kept, not counted");
    assert_eq!(total(None, Some(context)), most);
    assert_eq!(total(Some(author.stamp()), None), 0);
}

pub(super) fn a_list_shows_everything_after_a_restart(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(3), owner("ann"));
    // Committed in another order than opened, and settled later than opened: commit numbers must not fall behind
    // either.
    let mut stories: Vec<ScriptedTask> = (0..6).map(|_| author.new_task(&scope)).collect();
    for story in stories.iter_mut().rev() {
        bench.log().append_ok(story.open(&mut author, &[ScriptedEvent::Status(TaskState::Completed)]));
        bench.reopen();
        assert_eq!(bench.log().page(list_everything(&scope)).tasks.first().map(|t| t.id), Some(story.id()));
    }
    for story in stories.iter_mut().take(3) {
        let mut again = author.new_task(&scope);
        bench.log().append_ok(again.open_settled(TaskState::Completed));
        *story = again;
        bench.reopen();
    }
    let listed = bench.log().page(list_everything(&scope));
    assert_eq!((listed.tasks.len(), listed.total), (9, 9));
    assert!(stories.iter().take(3).all(|s| ids(&listed).contains(&s.id())));
    assert_eq!(
        bench.log().page(TaskListQuery { since: Some(Stamp::default()), ..list_everything(&scope) }).tasks.len(),
        9
    );
}
