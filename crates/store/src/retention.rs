//! Forgetting tasks that have settled.
//!
//! A task goes whole or not at all: its events, notes, names, retry keys and push configurations go with it. A task that
//! has not settled is never forgotten, nor is one whose events are still owed to somebody.
//!
//! Which tasks are old enough is not decided here. A task is as old as its last status, which is its place in lists.

use crate::Answer;
use sabir_proto::{AgentName, Stamp};

/// Forgetting, a little at a time: whoever sends must not notice.
pub trait Retention: Send + Sync + 'static {
    /// The agents that ever had tasks here.
    fn agents(&self) -> Answer<Vec<AgentName>>;

    /// How many tasks of an agent have settled.
    fn settled(&self, agent: &AgentName) -> Answer<u64>;

    /// The place of the last among the `count` oldest settled tasks of an agent; `None` if there are none. Counts no
    /// further than [`OLDEST_MAX`].
    fn oldest(&self, agent: &AgentName, count: u64) -> Answer<Option<Stamp>>;

    /// Forgets some of the settled tasks of an agent that stand below a place, and says where to go on.
    fn forget(&self, agent: &AgentName, below: Stamp, from: Option<Bookmark>) -> Answer<Forgotten>;
}

/// The oldest tasks are counted up to here; more are found the next time.
pub const OLDEST_MAX: u64 = 10_000;

/// What was forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// How many tasks.
    pub tasks: u64,
    /// Where to go on; `None` when there is nothing more to do.
    pub next: Option<Bookmark>,
}

/// How far forgetting has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bookmark {
    /// The owner, by number.
    pub(crate) scope: i64,
    /// The state, by number.
    pub(crate) state: u8,
    /// The last place that was looked at.
    pub(crate) position: i64,
}
