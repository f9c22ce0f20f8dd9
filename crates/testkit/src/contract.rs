//! The store contract: the promises that every [`TaskLog`] must keep.
//!
//! One suite runs on all backends. A promise is a function that gets an empty log; its name is the promise. Where a
//! promise is about restarts, it closes and reopens the log in between, which does nothing for a log in memory. The
//! contract of the guard store is in [`guard`].

mod adoption;
mod aliases;
mod billing;
mod contexts;
mod effects;
mod group_commits;
mod ledger;
mod lists;
mod notes;
mod opening;
mod outbox;
mod paging;
mod retention;
mod retries;
mod steps;
mod stored_bytes;
mod subscriptions_networks;
mod subtasks;

pub mod guard;
pub mod model;

use sabir_store::{
    AppendError, ByteCounting, Durability, Ledger, OpenOptions, Scope, Step, StoreUrl, StoredTask, StoredTaskPage,
    TaskListQuery, TaskLog, TaskStore, Upkeep, WriterMode, open_tasks,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

use crate::wait::wait;
use sabir_proto::{FrozenEvent, Seq, TaskId};

/// A store of tasks under test.
pub trait LogFixture {
    fn store(&self) -> &TaskStore;
    /// Closes and reopens the store; nothing for a store in memory.
    fn reopen(&mut self) {}
}

impl dyn LogFixture + '_ {
    pub fn log(&self) -> &dyn TaskLog {
        &*self.store().log
    }

    pub fn upkeep(&self) -> &dyn Upkeep {
        &*self.store().upkeep
    }

    pub fn ledger(&self) -> &dyn Ledger {
        &*self.store().ledger
    }
}

/// The name of a promise and its test.
type LogPromise = (&'static str, fn(&mut dyn LogFixture));

macro_rules! promises {
    ($($room:ident: $($name:ident),+;)+) => {
        const PROMISES: &[LogPromise] = &[$($((stringify!($name), $room::$name)),+),+];
    };
}

promises! {
    opening: a_task_that_opens_and_settles_is_one_event, an_opening_may_bring_its_whole_log,
        an_opening_that_goes_on_is_unfinished, an_id_is_taken_only_once, a_stranger_with_the_same_stamp_is_not_found;
    steps: steps_follow_each_other_and_the_stale_leave_no_trace, settled_means_settled, a_snapshot_shortens_the_tail,
        any_cursor_replays_to_the_same_end, what_was_heard_is_kept, progress_is_kept_until_the_task_settles,
        unfinished_tasks_are_found_oldest_first, tasks_that_were_handed_over_are_found,
        stamps_rise_above_everything_stored;
    lists: lists_are_ordered_by_the_last_status, pages_end_at_a_number_of_bytes, lists_filter_by_state_and_time, owners_see_only_their_own,
        totals_follow_every_move, counts_since_a_time_are_capped, a_list_shows_everything_after_a_restart;
    paging: a_walk_neither_skips_nor_repeats_what_moves, a_walk_within_a_state_is_as_steady,
        a_walk_within_a_context_is_as_steady, a_walk_goes_on_after_a_restart, tokens_of_nobody_are_refused;
    contexts: a_context_is_found_by_the_task_it_was_born_with, a_context_brought_by_a_client_is_found,
        owners_may_use_the_same_context;
    retries: implicit_keys_are_found_after_a_restart, implicit_keys_are_bounded_in_time_and_number,
        explicit_keys_are_taken_until_they_expire;
    effects: push_configs_are_kept_by_id_and_bounded, what_is_owed_is_committed_with_what_it_is_owed_for,
        a_step_without_events_is_held_to_no_head,
        a_cancel_that_is_owed_is_kept_until_it_is_paid,
        what_an_agent_keeps_outlives_the_end_of_its_task;
    outbox: only_the_oldest_event_of_a_configuration_is_due, an_event_that_failed_is_due_again_with_all_its_attempts,
        an_event_that_is_given_up_lets_the_next_one_pass, a_dead_letter_can_be_tried_again_or_dropped,
        a_receiver_that_wants_no_more_is_owed_no_more, a_configuration_that_is_deleted_is_owed_nothing,
        a_late_registration_is_owed_what_follows_or_the_last_turn, whoever_delivers_is_woken,
        much_of_one_lane_hides_no_other, neighbours_that_were_given_up_alike_are_one_letter,
        what_waits_goes_where_its_registration_leads;
    adoption: a_task_changes_hands_once_and_whole, a_settled_task_changes_hands,
        a_task_that_is_given_to_its_owner_stays_as_it_is;
    aliases: a_name_belongs_to_its_owner, a_name_moves_only_from_where_it_was_seen,
        a_name_is_given_with_its_task_or_not_at_all;
    subtasks: a_child_knows_its_parent_and_its_parent_knows_it, a_child_is_born_once_to_a_parent_that_lives,
        a_family_is_bounded, children_of_the_given_up_are_found, what_is_spent_adds_up_by_root,
        whoever_asks_is_found_whosever_it_is, a_child_is_forgotten_with_its_task;
    ledger: venues_are_imported_all_or_none, venues_come_in_order_and_by_what_they_say, a_slot_is_taken_until_it_is_full,
        a_refused_booking_leaves_no_trace, orders_that_come_together_are_refused_alone,
        a_booking_moves_from_where_it_was_seen, envelopes_are_recorded;
    billing: what_is_counted_is_billed_once, what_is_booked_and_what_is_counted_agree,
        a_payment_moves_from_where_it_was_seen, a_payment_is_bounded_and_used_once;
    subscriptions_networks: subscriptions_belong_to_a_key, the_latest_record_of_a_network_is_kept;
    notes: notes_that_say_the_same_are_one, notes_are_bounded, notes_of_nobody_are_dropped, a_note_moves_nothing;
    retention: settled_tasks_go_whole_and_others_stay, only_what_stands_below_is_forgotten,
        a_walk_goes_on_over_what_was_forgotten, a_task_with_many_steps_goes_as_one, what_is_owed_keeps_its_task,
        a_key_that_may_be_used_again_keeps_its_task;
    stored_bytes: bytes_are_counted_for_their_caller_at_all_agents, bytes_of_what_is_forgotten_are_taken_off,
        bytes_go_with_a_task_that_changes_hands, a_refused_step_counts_for_no_bytes;
    group_commits: a_refused_step_leaves_no_trace_and_hurts_no_neighbour, an_effect_that_is_refused_takes_the_others_with_it;
}

/// Runs the whole suite; `make` gives an empty log each time.
///
/// # Panics
/// When promises are broken, naming all of them.
pub fn task_log<B: LogFixture>(make: impl Fn() -> B) {
    let broken = broken_promises(PROMISES.iter().map(|(name, promise)| (*name, || promise(&mut make()))));
    assert!(broken.is_empty(), "broken promises: {broken:#?}");
}

/// Tests all promises and returns the names of the broken ones.
fn broken_promises<F: FnOnce()>(promises: impl Iterator<Item = (&'static str, F)>) -> Vec<&'static str> {
    let is_broken = |promise: F| catch_unwind(AssertUnwindSafe(promise)).is_err();
    promises.filter_map(|(name, promise)| is_broken(promise).then_some(name)).collect()
}

/// The fixture of a store in memory, or of the model.
#[derive(Debug)]
pub struct MemoryLogFixture(TaskStore);

impl Default for MemoryLogFixture {
    fn default() -> Self {
        Self(TaskStore::in_memory())
    }
}

impl MemoryLogFixture {
    pub fn model() -> Self {
        Self(TaskStore::model())
    }
}

impl LogFixture for MemoryLogFixture {
    fn store(&self) -> &TaskStore {
        &self.0
    }
}

/// The fixture of a store in an SQLite file of its own.
#[derive(Debug)]
pub struct SqliteLogFixture {
    store: Option<TaskStore>,
    options: OpenOptions,
    dir: TempDir,
}

impl SqliteLogFixture {
    /// An empty file in a new directory. Without syncing: losses of the operating system are not tested here.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    pub fn new(writer_mode: WriterMode) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (durability, byte_counting) = (Durability::Normal, ByteCounting::On);
        let options = OpenOptions { durability, writer_mode, byte_counting, ..OpenOptions::default() };
        let mut bench = Self { store: None, options, dir };
        bench.reopen();
        bench
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("sabir.db")
    }

    /// The log of the store.
    ///
    /// # Panics
    /// When the store is closed.
    pub fn log(&self) -> &dyn TaskLog {
        &*self.store().log
    }

    /// Closes the store and keeps its file.
    pub fn close(&mut self) {
        self.store = None;
    }
}

impl LogFixture for SqliteLogFixture {
    fn store(&self) -> &TaskStore {
        self.store.as_ref().expect("open between calls")
    }

    fn reopen(&mut self) {
        self.close();
        self.store = Some(open_tasks(&url_of(&self.path()), self.options.clone()).expect("our own file opens"));
    }
}

/// The URL of the store with this file.
///
/// # Panics
/// Never: every path makes a URL.
pub fn url_of(file: &Path) -> StoreUrl {
    StoreUrl::parse(&format!("sqlite:{}", file.display()), Path::new("")).expect("a path makes a URL")
}

/// Calls of the promises on a log, without futures.
trait TaskLogTestExt {
    fn append_ok(&self, step: Step);
    fn append_refused(&self, step: Step) -> AppendError;
    fn stored(&self, id: TaskId) -> Option<StoredTask>;
    fn all_events(&self, id: TaskId) -> Vec<FrozenEvent>;
    fn page(&self, listing: TaskListQuery) -> StoredTaskPage;
}

impl TaskLogTestExt for dyn TaskLog + '_ {
    #[track_caller]
    fn append_ok(&self, step: Step) {
        wait(self.append(step)).expect("a good step is taken");
    }

    #[track_caller]
    fn append_refused(&self, step: Step) -> AppendError {
        wait(self.append(step)).expect_err("a bad step is refused")
    }

    #[track_caller]
    fn stored(&self, id: TaskId) -> Option<StoredTask> {
        wait(self.load(id)).expect("a task can be read")
    }

    #[track_caller]
    fn all_events(&self, id: TaskId) -> Vec<FrozenEvent> {
        wait(self.events(id, Seq(0), usize::MAX)).expect("events can be read")
    }

    #[track_caller]
    fn page(&self, listing: TaskListQuery) -> StoredTaskPage {
        wait(self.list(listing)).expect("a list can be read")
    }
}

/// A query for all tasks of an owner, on one page.
fn list_everything(scope: &Arc<Scope>) -> TaskListQuery {
    TaskListQuery {
        scope: scope.clone(),
        context: None,
        state: None,
        since: None,
        limit: 100_000,
        bytes_max: usize::MAX,
        token: None,
    }
}

fn ids(listed: &StoredTaskPage) -> Vec<TaskId> {
    listed.tasks.iter().map(|t| t.id).collect()
}
