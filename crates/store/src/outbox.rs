//! The outbox: deliveries to push configurations.
//!
//! A row says that a configuration is to receive some events of its task, in order; it is written in the commit of the
//! events themselves. Of each configuration only the oldest event is ever due, so deliveries to one receiver are in
//! order and deliveries to several go side by side. A delivered event is removed from the row, and the row with its
//! last event: the outbox holds only what is still to be delivered.
//!
//! Updates of deliveries are cheap and may be lost when the machine dies: then an event is delivered once more with the
//! same id.

use crate::{StoreFuture, WakeSignal};
use sabir_proto::{PushConfig, Seq, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Attempts that are stored with a row: the latest.
pub const ATTEMPTS_KEPT: usize = 16;
/// Characters of an attempt's problem that are stored.
pub const PROBLEM_CHARS_MAX: usize = 300;

/// The queue of a delivery: those of one owner to one host. Owners and hosts do not keep each other waiting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The owner, see [`crate::Scope::owner`].
    pub owner: i64,
    /// The host of the configuration's URL.
    pub host: Arc<str>,
}

#[cfg(feature = "model")]
impl Lane {
    pub(crate) fn of(scope: &crate::Scope, host: &Arc<str>) -> Self {
        Self { owner: scope.owner(), host: host.clone() }
    }
}

/// A query for due deliveries.
#[derive(Debug, Clone)]
pub struct DueQuery {
    /// Only deliveries that are due by this time.
    pub now: Timestamp,
    /// The maximum number of deliveries …
    pub limit: usize,
    /// … and the maximum of one lane.
    pub lane_limit: usize,
    /// Lanes that are left out.
    pub full_lanes: HashSet<Lane>,
    /// Owners that are left out.
    pub full_owners: HashSet<i64>,
    /// The lane at which the last query stopped, if it had to.
    pub from: Option<Lane>,
}

impl DueQuery {
    /// A query for the first deliveries of all that are due.
    pub fn all(now: Timestamp, limit: usize) -> Self {
        let (full_lanes, full_owners) = (HashSet::new(), HashSet::new());
        Self { now, limit, lane_limit: usize::MAX, full_lanes, full_owners, from: None }
    }

    pub(crate) fn includes(&self, lane: &Lane) -> bool {
        !self.full_owners.contains(&lane.owner) && !self.full_lanes.contains(lane)
    }
}

/// The result of a query for due deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDeliveries {
    /// The due deliveries, at most one of each configuration.
    pub deliveries: Vec<DueDelivery>,
    /// Whether more deliveries may be due.
    pub remainder: DueRemainder,
}

/// What a query left out, besides the lanes and owners it was told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueRemainder {
    /// Nothing more is due.
    Nothing,
    /// More may be due; this is [`DueQuery::from`] of the next query.
    ContinueFrom(Option<Lane>),
}

/// A due delivery: the oldest pending event of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    /// The number of the row.
    pub number: i64,
    pub task: TaskId,
    /// The id of the configuration.
    pub config: String,
    /// The queue it waits in.
    pub lane: Lane,
    /// The event to deliver.
    pub seq: Seq,
    /// The last event of the row; the row covers all events up to it.
    pub last: Seq,
    /// The time at which the events were committed.
    pub at: Timestamp,
    /// The time from which the retry deadline is counted.
    pub since: Timestamp,
    /// The number of attempts for this event so far.
    pub attempts: u32,
}

/// A registered push receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReceiver {
    /// The configuration, with its secrets.
    pub config: PushConfig,
    /// The dialect in which it was registered.
    pub dialect: Arc<str>,
}

/// One attempt at delivering an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The end of the attempt, in milliseconds since 1970.
    pub at_ms: i64,
    /// The duration in milliseconds.
    pub took_ms: u64,
    /// The HTTP status of the receiver, if it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong, in words.
    pub problem: String,
}

/// The result of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryMark {
    /// The event was delivered. The next event is due.
    Delivered {
        /// The time of the delivery.
        now: Timestamp,
    },
    /// The event is tried again later; the other events of the configuration wait.
    Postpone {
        /// The time at which it is due again.
        until: Timestamp,
        /// The attempt; `None` if none was made because the receiver is paused.
        attempt: Option<Attempt>,
    },
    /// The event is given up and becomes a dead letter, and the next one is due. Adjacent events that were given up for
    /// the same reason at once, and without an answer, become one dead letter: a receiver that may not be called at all
    /// would fill the store otherwise.
    DeadLetter {
        /// The time of giving up.
        now: Timestamp,
        /// The reason for giving up.
        reason: String,
        /// The last attempt, if there was one.
        attempt: Option<Attempt>,
    },
    /// The receiver is no longer called: all its pending events become dead letters, and so do later ones, until the
    /// configuration is registered anew or an operator retries a dead letter.
    EndReceiver {
        /// The time of the last attempt.
        now: Timestamp,
        /// The reason for stopping.
        reason: String,
        /// The last attempt, if there was one.
        attempt: Option<Attempt>,
    },
}

/// A query for deliveries, as operators see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryQuery {
    /// Dead letters, or pending deliveries.
    pub dead: bool,
    /// Only deliveries of this task.
    pub task: Option<TaskId>,
    /// Only those with higher numbers.
    pub after: i64,
    /// The maximum number of results.
    pub limit: usize,
}

/// A row of the outbox, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its number, which is never reused.
    pub number: i64,
    pub task: TaskId,
    /// The id of the configuration.
    pub config: String,
    /// The oldest event of the row.
    pub first: Seq,
    /// The last event of the row.
    pub last: Seq,
    /// The time at which they were committed.
    pub at: Timestamp,
    /// When the oldest is tried next; `None` for dead letters, and for rows behind older ones.
    pub due: Option<Timestamp>,
    /// The number of attempts for the oldest event.
    pub attempts: u32,
    /// The latest of those attempts, oldest first.
    pub recent_attempts: Vec<Attempt>,
    /// When and why it became a dead letter.
    pub dead_letter: Option<(Timestamp, String)>,
}

/// The outbox of push deliveries.
pub trait Outbox: Send + Sync + 'static {
    /// A signal that is set when a delivery may have become due.
    fn due_signal(&self) -> Arc<WakeSignal>;

    /// Due deliveries, at most one of each configuration. The longest due come first; where so much is due that a few
    /// lanes would starve the others, lanes take turns.
    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries>;

    /// The time of the next due delivery after this time.
    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>>;

    /// The receiver of a configuration; `None` once it was deleted.
    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>>;

    /// Stores the result of an attempt; false, and nothing happens, when the event is no longer pending: its
    /// configuration was deleted meanwhile, or an operator retried or discarded it.
    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool>;

    /// Deliveries, ordered by number.
    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>>;

    /// The delivery with this number.
    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>>;

    /// Makes a delivery due now, with a fresh deadline, dead letters as well as pending ones. It goes before younger
    /// events of its configuration. False when there is none of that number.
    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool>;

    /// Deletes a delivery. False when there is none of that number.
    fn discard(&self, number: i64) -> StoreFuture<bool>;
}

/// One change of the outbox, as a backend queues it.
#[derive(Debug, Clone)]
pub(crate) enum OutboxChange {
    Mark { number: i64, seq: Seq, mark: DeliveryMark },
    Retry { number: i64, now: Timestamp },
    Discard { number: i64 },
}

impl OutboxChange {
    pub(crate) fn of(owed: &DueDelivery, mark: DeliveryMark) -> Self {
        Self::Mark { number: owed.number, seq: owed.seq, mark }
    }

    /// Whether an operator waits for the result, so that it must be as durable as a step.
    pub(crate) const fn is_operator_command(&self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Discard { .. })
    }

    /// Whether another delivery may be due after it.
    pub(crate) const fn may_make_due(&self) -> bool {
        !matches!(self, Self::Mark { mark: DeliveryMark::Postpone { .. }, .. })
    }
}

/// The most attempts with which a dead letter is still joined to its neighbour, rather than keeping its own record.
pub(crate) const JOINED_ATTEMPTS_MAX: u32 = 1;

/// Whether an event that is given up may be joined to the dead letter before it: no receiver's answer would be lost.
pub(crate) fn can_join_dead_letter(attempts: u32, tries: &[Attempt]) -> bool {
    attempts <= JOINED_ATTEMPTS_MAX && tries.iter().all(|tried| tried.status.is_none())
}

/// Adds an attempt to the stored ones.
pub(crate) fn push_attempt(tries: &mut Vec<Attempt>, tried: Option<Attempt>) {
    let Some(mut tried) = tried else { return };
    if let Some((end, _)) = tried.problem.char_indices().nth(PROBLEM_CHARS_MAX) {
        tried.problem.truncate(end);
    }
    tries.push(tried);
    tries.drain(..tries.len().saturating_sub(ATTEMPTS_KEPT));
}
