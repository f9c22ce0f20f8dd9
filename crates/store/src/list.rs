//! Paging through an owner's tasks.
//!
//! Lists are ordered by the last status, and tasks move up while a caller pages through them. A page token therefore
//! carries the commit of the first page, and later pages show the list as of that commit: a task that moved since is
//! shown at its old position. Backends keep the last moves for that long, see `WALK_MS_MAX`.

use crate::{Scope, StoreError, StoredTask};
use sabir_proto::{ContextId, Stamp, TaskState};
use std::sync::Arc;

/// How long a page token is valid, counted from the first page. Older moves are deleted.
#[cfg(feature = "sqlite")]
pub(crate) const WALK_MS_MAX: i64 = 10 * 60 * 1000;

/// With `since`, matches are counted up to here and no further; the count would otherwise read the whole range.
pub(crate) const COUNT_MAX: u64 = 10_000;

/// A query for a page of an owner's tasks.
#[derive(Debug, Clone)]
pub struct TaskListQuery {
    /// The owner of the tasks.
    pub scope: Arc<Scope>,
    /// Only tasks of this conversation.
    pub context: Option<ContextId>,
    /// Only tasks in one of these states.
    pub state: Option<StateSet>,
    /// Only tasks with a status at or after this stamp.
    pub since: Option<Stamp>,
    /// The maximum number of tasks.
    pub limit: usize,
    /// The maximum number of bytes, see [`StoredTask::bytes`]; but one task, however large.
    pub bytes_max: usize,
    /// The token of the page before.
    pub token: Option<PageToken>,
}

/// A set of task states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateSet(u16);

impl StateSet {
    /// Whether the set has this state.
    pub const fn contains(self, state: TaskState) -> bool {
        self.0 & (1 << state.number()) != 0
    }

    /// The set as a number in which each state has the bit of its own number.
    #[cfg(feature = "sqlite")]
    pub(crate) fn bits(self) -> i64 {
        self.0.into()
    }
}

impl FromIterator<TaskState> for StateSet {
    fn from_iter<I: IntoIterator<Item = TaskState>>(states: I) -> Self {
        Self(states.into_iter().fold(0, |bits, state| bits | 1 << state.number()))
    }
}

impl From<TaskState> for StateSet {
    fn from(state: TaskState) -> Self {
        Self::from_iter([state])
    }
}

/// A page of an owner's tasks.
#[derive(Debug, Clone)]
pub struct StoredTaskPage {
    /// The tasks, latest status first.
    pub tasks: Vec<StoredTask>,
    /// The token of the next page; `None` at the end.
    pub next: Option<PageToken>,
    /// The number of matches in all; capped at [`COUNT_MAX`] when `since` is given.
    pub total: u64,
}

/// The cursor of a list: the commit of its first page, and the last position that was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken {
    /// The list is shown as of this commit.
    pub commit: u64,
    /// Only positions below this one are still to come.
    pub below: Stamp,
}

impl PageToken {
    /// The token as text for a client: 32 hexadecimal digits, opaque to the client.
    pub fn encode(self) -> String {
        format!("{:016x}{:016x}", self.commit, self.below.get())
    }

    /// Parses a token of [`PageToken::encode`].
    pub fn decode(text: &str) -> Result<Self, StoreError> {
        let half = |range| u64::from_str_radix(text.get(range)?, 16).ok();
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(StoreError::PageToken);
        }
        match (half(0..16), half(16..32)) {
            (Some(commit), Some(below)) if below <= u64::MAX >> 1 => Ok(Self { commit, below: Stamp::from_u64(below) }),
            _ => Err(StoreError::PageToken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_nonsense_is_refused() {
        let token = PageToken { commit: 77, below: Stamp::from_u64(123_456) };
        assert_eq!(PageToken::decode(&token.encode()), Ok(token));
        for bad in ["", "1", &"g".repeat(32), &"f".repeat(32), &"0".repeat(33), "é".repeat(16).as_str()] {
            assert_eq!(PageToken::decode(bad), Err(StoreError::PageToken), "{bad}");
        }
    }
}
