//! The guard store contract: the promises that every [`GuardStore`] must keep.
//!
//! One suite runs on all backends, like that of the task log.

mod audit;
mod counters;
mod keys;
mod organisations;
mod registry;
mod replay;

use super::{broken_promises, url_of};
use sabir_proto::{Caller, Timestamp};
use sabir_store::{
    AuditActor, AuditEntry, Durability, GuardStore, LinkedEntry, OpenOptions, WriterMode, guard_in_memory, open_guard,
};
use std::sync::Arc;
use tempfile::TempDir;

use crate::clock::EPOCH_MS;
use crate::wait::wait;

/// A guard store under test.
pub trait GuardFixture {
    fn store(&self) -> &dyn GuardStore;
    /// Closes and reopens the store; false for a store that keeps nothing across restarts, which stays open.
    fn reopen(&mut self) -> bool {
        false
    }
}

type GuardPromise = (&'static str, fn(&mut dyn GuardFixture));

macro_rules! promises {
    ($($room:ident: $($name:ident),+;)+) => {
        const PROMISES: &[GuardPromise] = &[$($((stringify!($name), $room::$name)),+),+];
    };
}

promises! {
    keys: a_key_is_found_by_its_text_and_by_nothing_else, a_key_is_kept_with_all_its_terms,
        a_key_is_valid_until_it_expires, a_revoked_key_stays_revoked, a_rotated_key_has_two_texts_for_a_while,
        a_rotated_key_takes_its_terms_along, replaced_texts_are_bounded, ids_and_texts_are_taken_only_once,
        a_use_is_shown_and_changes_nothing, every_change_of_a_key_is_audited, keys_are_listed_by_age;
    organisations: a_domain_is_found_however_it_is_spelled, a_secret_can_be_replaced,
        every_change_of_an_organisation_is_audited;
    registry: an_agent_is_kept_as_it_was_added, a_name_is_taken_once, an_agent_comes_and_goes,
        of_the_cards_of_an_agent_one_is_used, a_held_card_waits_to_be_approved, a_card_that_went_back_is_no_longer_held,
        old_cards_are_forgotten_and_the_used_one_is_not, every_change_of_the_registry_changes_its_number,
        every_change_of_an_agent_is_audited;
    replay: the_first_is_first_and_the_others_are_not, a_mark_is_kept_to_its_last_moment, scopes_are_apart,
        of_many_at_once_one_is_first, a_restart_forgets_no_mark,
        a_mark_stands_for_what_it_stood_for_first;
    counters: a_window_slides, windows_and_callers_are_apart, a_limit_of_nothing_admits_nothing,
        a_hundred_thousand_callers_do_not_wash_one_away, of_many_at_once_the_limit_is_admitted,
        a_quota_is_used_up_and_comes_back_at_midnight, a_quota_is_exact_for_many_at_once,
        a_restart_gives_no_quota_back, a_raised_limit_leaves_what_is_between;
    audit: entries_are_numbered_and_follow_each_other, entries_say_what_was_recorded, callers_are_cut_to_length,
        refusals_that_say_the_same_are_one, refusals_come_before_what_came_after_them,
        too_many_refusals_are_counted, a_flood_of_refusals_is_cheap, many_writers_make_one_chain,
        a_known_place_is_checked;
}

/// Runs the whole suite; `make` gives an empty store each time.
///
/// # Panics
/// When promises are broken, naming all of them.
pub fn guard_store<B: GuardFixture>(make: impl Fn() -> B) {
    let broken = broken_promises(PROMISES.iter().map(|(name, promise)| (*name, || promise(&mut make()))));
    assert!(broken.is_empty(), "broken promises: {broken:#?}");
}

/// The fixture of a guard store in memory.
#[derive(Debug)]
pub struct MemoryGuardFixture(Arc<dyn GuardStore>);

impl Default for MemoryGuardFixture {
    fn default() -> Self {
        Self(guard_in_memory())
    }
}

impl GuardFixture for MemoryGuardFixture {
    fn store(&self) -> &dyn GuardStore {
        &*self.0
    }
}

/// The fixture of a guard store in an SQLite file of its own.
#[derive(Debug)]
pub struct SqliteGuardFixture {
    guard: Option<Arc<dyn GuardStore>>,
    options: OpenOptions,
    dir: TempDir,
}

impl SqliteGuardFixture {
    /// An empty file in a new directory. Without syncing: losses of the operating system are not tested here.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    pub fn new(writer_mode: WriterMode) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = OpenOptions { durability: Durability::Normal, writer_mode, ..OpenOptions::default() };
        let mut bench = Self { guard: None, options, dir };
        bench.reopen();
        bench
    }
}

impl GuardFixture for SqliteGuardFixture {
    fn store(&self) -> &dyn GuardStore {
        self.guard.as_deref().expect("open between calls")
    }

    fn reopen(&mut self) -> bool {
        self.guard = None;
        let url = url_of(&self.dir.path().join("sabir.db"));
        self.guard = Some(open_guard(&url, self.options.clone()).expect("our own file opens"));
        true
    }
}

/// This many milliseconds after the start of simulated time.
fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(EPOCH_MS).unwrap_or(0) + ms)
}

/// The operator Ann, at the console, at this time.
fn ann(ms: i64) -> AuditActor {
    AuditActor { caller: Caller::named("ann"), scheme: "console", at: at(ms) }
}

fn entries(bench: &dyn GuardFixture) -> Vec<LinkedEntry> {
    wait(bench.store().flush()).expect("refusals are written");
    wait(bench.store().entries(0, usize::MAX)).expect("the audit can be read")
}

/// The changes in the audit, as operation and subject, all made by Ann.
fn changes(bench: &dyn GuardFixture) -> Vec<(String, String)> {
    let said = |entry: AuditEntry| {
        assert_eq!((&*entry.caller, &*entry.scheme), ("ann", "console"));
        (entry.operation, entry.about.unwrap_or_default())
    };
    entries(bench).into_iter().map(|linked| said(linked.entry)).collect()
}

/// Runs a function on several threads at once.
fn on_threads<T: Send>(threads: usize, each: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (barrier, each) = (&std::sync::Barrier::new(threads), &each);
    std::thread::scope(|scope| {
        let run = |n: usize| {
            scope.spawn(move || {
                barrier.wait();
                each(n)
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().map(|thread| thread.join().expect("nobody breaks down")).collect()
    })
}
