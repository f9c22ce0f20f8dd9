//! Retention: deleting tasks that have settled.
//!
//! A task is deleted whole or not at all: its events, loss notes, aliases, retry keys and push configurations go with
//! it. A task that has not settled is never deleted, nor is one with pending deliveries.
//!
//! The caller decides which tasks are old enough. The age of a task is that of its last status, which is its position
//! in lists.

use crate::StoreFuture;
use sabir_proto::{AgentName, Stamp};

/// Deletes tasks a little at a time, so that senders do not notice.
pub trait Retention: Send + Sync + 'static {
    /// The agents that have or had tasks here.
    fn agents(&self) -> StoreFuture<Vec<AgentName>>;

    /// The number of settled tasks of an agent.
    fn settled_count(&self, agent: &AgentName) -> StoreFuture<u64>;

    /// The position of the last among the `count` oldest settled tasks of an agent; `None` if there are none. Counts no
    /// further than [`OLDEST_MAX`].
    fn oldest_settled(&self, agent: &AgentName, count: u64) -> StoreFuture<Option<Stamp>>;

    /// Deletes some of the settled tasks of an agent below a position, and returns where to go on.
    fn prune(&self, agent: &AgentName, below: Stamp, from: Option<PruneCursor>) -> StoreFuture<PruneProgress>;
}

/// The oldest tasks are counted up to here; more are found the next time.
pub const OLDEST_MAX: u64 = 10_000;

/// The progress of a pruning pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneProgress {
    /// The number of deleted tasks.
    pub tasks: u64,
    /// Where to go on; `None` when there is nothing more to do.
    pub next: Option<PruneCursor>,
}

/// The cursor of a pruning pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PruneCursor {
    pub(crate) scope: i64,
    pub(crate) state: u8,
    /// The last position that was looked at.
    pub(crate) position: i64,
}
