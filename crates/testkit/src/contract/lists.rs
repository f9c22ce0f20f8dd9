//! Promises about the task list of an owner.

use super::{Ask, Bench, everything, ids};
use crate::story::{Author, News, Story, owner};
use crate::wait::wait;
use sabir_proto::{Stamp, TaskId, TaskState};
use sabir_store::{Listing, Scope, States, Stored};
use std::cmp::Reverse;
use std::sync::Arc;

/// With a time given, totals are counted only up to this.
const COUNT_MAX: u64 = 10_000;

/// The ids of these tasks, latest status first.
pub(super) fn ordered<'a>(stories: impl IntoIterator<Item = &'a Story>) -> Vec<TaskId> {
    let mut stories: Vec<&Story> = stories.into_iter().collect();
    stories.sort_by_key(|s| Reverse(s.position));
    stories.iter().map(|s| s.id()).collect()
}

/// Some tasks of one owner in every state, none of them at its first position.
pub(super) fn some(bench: &dyn Bench, author: &mut Author, scope: &Arc<Scope>, count: usize) -> Vec<Story> {
    let mut stories: Vec<Story> = (0..count).map(|_| author.story(scope)).collect();
    for (n, story) in stories.iter_mut().enumerate() {
        let state = TaskState::ALL[n % TaskState::ALL.len()];
        match state {
            TaskState::Submitted => bench.log().put(story.open(author, &[])),
            TaskState::Rejected => bench.log().put(story.whole(state)),
            _ => bench.log().put(story.open(author, &[News::Status(state)])),
        }
    }
    for story in stories.iter_mut().step_by(4).filter(|s| !s.task.status.state.is_settled()) {
        bench.log().put(story.step(author, &[News::Chunk, News::Status(TaskState::Working)]));
    }
    stories
}

pub(super) fn lists_are_ordered_by_the_last_status(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    let stories = some(bench, &mut author, &scope, 40);
    let listed = bench.log().page(everything(&scope));
    assert_eq!((ids(&listed), listed.total, listed.next), (ordered(&stories), 40, None));
    for stored in &listed.tasks {
        stories.iter().filter(|s| s.id() == stored.id).for_each(|s| s.check(Some(stored)));
    }
    for limit in [1, 3, 39, 40] {
        let mut listing = Listing { limit, ..everything(&scope) };
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

pub(super) fn pages_end_at_a_number_of_bytes(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    let stories = some(bench, &mut author, &scope, 20);
    let sizes: Vec<usize> = bench.log().page(everything(&scope)).tasks.iter().map(Stored::bytes).collect();
    let largest = *sizes.iter().max().unwrap_or(&0);
    for bytes_max in [0, 1, largest, 3 * largest, usize::MAX] {
        let mut listing = Listing { bytes_max, ..everything(&scope) };
        let mut walked = Vec::new();
        loop {
            let page = bench.log().page(listing.clone());
            let bytes: usize = page.tasks.iter().map(Stored::bytes).sum();
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

pub(super) fn lists_filter_by_state_and_time(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    let mut stories = some(bench, &mut author, &scope, 20);
    author.pass(5000);
    let since = author.stamp();
    stories.extend(some(bench, &mut author, &scope, 20));
    let alone = TaskState::ALL.map(|state| Some(States::from(state)));
    let both = States::from_iter([TaskState::Completed, TaskState::Working]);
    for state in alone.into_iter().chain([Some(both), None]) {
        for since in [None, Some(since)] {
            let fits = |s: &&Story| {
                state.is_none_or(|states| states.contains(s.task.status.state))
                    && s.position >= since.unwrap_or_default()
            };
            let expected = ordered(stories.iter().filter(fits));
            let listed = bench.log().page(Listing { state, since, ..everything(&scope) });
            assert_eq!((ids(&listed), listed.total), (expected.clone(), u64::try_from(expected.len()).unwrap_or(0)));
        }
    }
}

pub(super) fn owners_see_only_their_own(bench: &mut dyn Bench) {
    let mut author = Author::new(3);
    let plain = owner("ann");
    let tenant = sabir_proto::Tenant::parse("acme").expect("a plain word is a legal tenant");
    let agent = sabir_proto::AgentName::parse("other").expect("a plain word is a legal name");
    let scopes = [
        plain.clone(),
        owner("bob"),
        Arc::new(Scope { tenant, ..(*plain).clone() }),
        Arc::new(Scope { agent, ..(*plain).clone() }),
    ];
    let stories: Vec<Vec<Story>> =
        scopes.iter().enumerate().map(|(n, scope)| some(bench, &mut author, scope, 5 + n)).collect();
    bench.reopen();
    for (scope, stories) in scopes.iter().zip(&stories) {
        let listed = bench.log().page(everything(scope));
        assert_eq!((ids(&listed), listed.total), (ordered(stories), u64::try_from(stories.len()).unwrap_or(0)));
    }
    let listed = bench.log().page(everything(&owner("nobody")));
    assert_eq!((ids(&listed), listed.total), (Vec::new(), 0));
}

pub(super) fn totals_follow_every_move(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    let mut story = author.story(&scope);
    let count = |bench: &dyn Bench, state| {
        bench.log().page(Listing { state: Some(States::from(state)), ..everything(&scope) }).total
    };
    bench.log().put(story.open(&mut author, &[]));
    assert_eq!(count(bench, TaskState::Submitted), 1);
    let course =
        [TaskState::Working, TaskState::Working, TaskState::InputRequired, TaskState::Working, TaskState::Failed];
    for state in course {
        bench.log().put(story.step(&mut author, &[News::Chunk, News::Status(state)]));
        for other in TaskState::ALL {
            assert_eq!(count(bench, other), u64::from(other == state));
        }
        assert_eq!(bench.log().page(everything(&scope)).total, 1);
    }
}

pub(super) fn counts_since_a_time_are_capped(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    let since = Some(author.stamp());
    let most = COUNT_MAX + 30;
    let context = sabir_proto::ContextId::parse("one for all").expect("a short text is a legal context");
    let answers: Vec<_> =
        (0..most).map(|_| bench.log().append(author.story_in(&scope, &context).whole(TaskState::Completed))).collect();
    answers.into_iter().for_each(|answer| wait(answer).expect("a good step is taken"));
    let total = |since, context| bench.log().page(Listing { since, context, limit: 3, ..everything(&scope) }).total;
    assert_eq!(total(since, None), COUNT_MAX);
    assert_eq!(total(since, Some(context.clone())), COUNT_MAX);
    assert_eq!(total(None, None), most, "kept, not counted");
    assert_eq!(total(None, Some(context)), most);
    assert_eq!(total(Some(author.stamp()), None), 0);
}

pub(super) fn a_list_shows_everything_after_a_restart(bench: &mut dyn Bench) {
    let (mut author, scope) = (Author::new(3), owner("ann"));
    // Committed in another order than opened, and settled later than opened: commit numbers must not fall behind
    // either.
    let mut stories: Vec<Story> = (0..6).map(|_| author.story(&scope)).collect();
    for story in stories.iter_mut().rev() {
        bench.log().put(story.open(&mut author, &[News::Status(TaskState::Completed)]));
        bench.reopen();
        assert_eq!(bench.log().page(everything(&scope)).tasks.first().map(|t| t.id), Some(story.id()));
    }
    for story in stories.iter_mut().take(3) {
        let mut again = author.story(&scope);
        bench.log().put(again.whole(TaskState::Completed));
        *story = again;
        bench.reopen();
    }
    let listed = bench.log().page(everything(&scope));
    assert_eq!((listed.tasks.len(), listed.total), (9, 9));
    assert!(stories.iter().take(3).all(|s| ids(&listed).contains(&s.id())));
    assert_eq!(bench.log().page(Listing { since: Some(Stamp::default()), ..everything(&scope) }).tasks.len(), 9);
}
