//! What is owed to push configurations.
//!
//! A row says that a configuration is owed some events of its task, in order; it is written in the commit of the events
//! themselves. Of each configuration only the oldest event is ever due, so deliveries to one receiver are in order and
//! deliveries to several go side by side. What was delivered is taken off the row, and the row goes when nothing is left
//! of it: the outbox holds what is owed, not what was.
//!
//! Marks are cheap and may be lost when the machine dies: then an event is delivered once more under the same name.

use crate::Scope;
use crate::{Answer, Bell};
use sabir_proto::{PushConfig, Seq, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Attempts kept with a row: the latest.
pub const ATTEMPTS_KEPT: usize = 16;
/// Characters kept of what went wrong.
pub const PROBLEM_CHARS_MAX: usize = 300;

/// Where deliveries queue: those of one owner to one host. Neither of them keeps the others waiting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// See [`Scope::owner`].
    pub owner: i64,
    /// The host of the registration.
    pub host: Arc<str>,
}

impl Lane {
    pub(crate) fn of(scope: &Scope, host: &Arc<str>) -> Self {
        Self { owner: scope.owner(), host: host.clone() }
    }
}

/// What to read of everything that is due.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Due by then.
    pub now: Timestamp,
    /// At most so many events …
    pub limit: usize,
    /// … and so many of one lane.
    pub lane_limit: usize,
    /// Lanes of which nothing more is wanted.
    pub full: HashSet<Lane>,
    /// The same for owners.
    pub full_owners: HashSet<i64>,
    /// Where the last reading stopped, if it had to.
    pub from: Option<Lane>,
}

impl Reading {
    /// The first so many of all that is due.
    pub fn all(now: Timestamp, limit: usize) -> Self {
        let (full, full_owners) = (HashSet::new(), HashSet::new());
        Self { now, limit, lane_limit: usize::MAX, full, full_owners, from: None }
    }

    pub(crate) fn wants(&self, lane: &Lane) -> bool {
        !self.full_owners.contains(&lane.owner) && !self.full.contains(lane)
    }
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// At most one of each configuration.
    pub owed: Vec<Owed>,
    /// Whether that was all.
    pub rest: Rest,
}

/// What a reading left out, besides what it was told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// Nothing.
    Nothing,
    /// There may be more; [`Reading::from`] of the next reading.
    From(Option<Lane>),
}

/// The oldest event owed to a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The row.
    pub number: i64,
    /// The task.
    pub task: TaskId,
    /// The configuration.
    pub config: String,
    /// Where it queues.
    pub lane: Lane,
    /// The event.
    pub seq: Seq,
    /// The last event of the row; those in between are owed, too.
    pub last: Seq,
    /// When the events were committed.
    pub at: Timestamp,
    /// Since when we have tried, or had reason to: patience is counted from here.
    pub since: Timestamp,
    /// How often this event was tried.
    pub attempts: u32,
}

/// A receiver, as it was registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// With its secrets.
    pub config: PushConfig,
    /// The dialect it was registered in.
    pub dialect: Arc<str>,
}

/// One attempt at delivering an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// How long it took.
    pub took_ms: u64,
    /// What the receiver answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong.
    pub problem: String,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Delivered. The next event is due.
    Done {
        /// When.
        now: Timestamp,
    },
    /// To be tried again later; the configuration's other events wait.
    Postpone {
        /// When it is due again.
        until: Timestamp,
        /// The attempt, if there was one: a receiver that is left alone was not tried.
        tried: Option<Attempt>,
    },
    /// Given up: the event becomes a dead letter, and the next one is due. Neighbours that were given up for one reason
    /// at once, and without an answer, are one letter: whoever may not be called at all would fill the store otherwise.
    Bury {
        /// When.
        now: Timestamp,
        /// Why.
        reason: String,
        /// The last attempt.
        tried: Option<Attempt>,
    },
    /// The receiver wants no more: everything owed becomes dead letters, and so does what follows, until the
    /// configuration is registered anew or a letter is tried again.
    End {
        /// When.
        now: Timestamp,
        /// Why.
        reason: String,
        /// The last attempt.
        tried: Option<Attempt>,
    },
}

/// Which letters to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letters {
    /// Dead ones, or those that wait.
    pub dead: bool,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only with higher numbers.
    pub after: i64,
    /// At most so many.
    pub limit: usize,
}

/// A row as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its number; never given twice.
    pub number: i64,
    /// The task.
    pub task: TaskId,
    /// The configuration.
    pub config: String,
    /// The oldest event it holds.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// When they were committed.
    pub at: Timestamp,
    /// When the oldest is tried next; `None` for the dead, and for those that wait for older ones.
    pub due: Option<Timestamp>,
    /// How often the oldest was tried.
    pub attempts: u32,
    /// The latest of those attempts, oldest first.
    pub tries: Vec<Attempt>,
    /// When and why it was given up.
    pub buried: Option<(Timestamp, String)>,
}

/// What is owed to push configurations, and what became of it.
pub trait Outbox: Send + Sync + 'static {
    /// Rung when something may have become due that was not before.
    fn bell(&self) -> Arc<Bell>;

    /// Events whose time has come, at most one of each configuration. The longest due come first, unless so much is due
    /// that reading by time would never get past those of a few lanes: then lanes take turns.
    fn due(&self, reading: Reading) -> Answer<Due>;

    /// When something is due next, after this moment.
    fn next_due(&self, after: Timestamp) -> Answer<Option<Timestamp>>;

    /// Whom a configuration names; `None` once it was deleted.
    fn receiver(&self, task: TaskId, config: &str) -> Answer<Option<Receiver>>;

    /// Notes what became of an attempt; false, and nothing happens, when the event is no longer owed: its configuration
    /// was deleted meanwhile, or an operator took the matter into their own hands.
    fn mark(&self, owed: &Owed, mark: Mark) -> Answer<bool>;

    /// Letters by number.
    fn letters(&self, letters: Letters) -> Answer<Vec<Letter>>;

    /// One letter.
    fn letter(&self, number: i64) -> Answer<Option<Letter>>;

    /// Makes a letter due now, with fresh patience, the dead as well as those that wait. It goes before whatever younger
    /// events its configuration is owed. False when there is none of that number.
    fn retry(&self, number: i64, now: Timestamp) -> Answer<bool>;

    /// Forgets a letter. False when there is none of that number.
    fn discard(&self, number: i64) -> Answer<bool>;
}

/// One change of the outbox, as a backend queues it.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Mark { number: i64, seq: Seq, mark: Mark },
    Retry { number: i64, now: Timestamp },
    Discard { number: i64 },
}

impl Change {
    pub(crate) fn of(owed: &Owed, mark: Mark) -> Self {
        Self::Mark { number: owed.number, seq: owed.seq, mark }
    }

    /// Somebody was told that it is done, so it must survive as much as a step does.
    #[cfg(feature = "sqlite")]
    pub(crate) const fn is_order(&self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Discard { .. })
    }

    /// Something else may be due after it.
    pub(crate) const fn moves_on(&self) -> bool {
        !matches!(self, Self::Mark { mark: Mark::Postpone { .. }, .. })
    }
}

/// Attempts after which a letter keeps its own record rather than being joined to its dead neighbour.
pub(crate) const JOINED_ATTEMPTS_MAX: u32 = 1;

/// Whether a letter that is given up may be joined to its neighbour: nobody has answered anything that would be lost.
pub(crate) fn joins(attempts: u32, tries: &[Attempt]) -> bool {
    attempts <= JOINED_ATTEMPTS_MAX && tries.iter().all(|tried| tried.status.is_none())
}

/// Adds an attempt to those kept.
pub(crate) fn keep_attempt(tries: &mut Vec<Attempt>, tried: Option<Attempt>) {
    let Some(mut tried) = tried else { return };
    if let Some((end, _)) = tried.problem.char_indices().nth(PROBLEM_CHARS_MAX) {
        tried.problem.truncate(end);
    }
    tries.push(tried);
    tries.drain(..tries.len().saturating_sub(ATTEMPTS_KEPT));
}
