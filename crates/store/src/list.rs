//! Paging through an owner's tasks.
//!
//! Lists are ordered by the last status, and tasks move up while somebody walks down. A page token therefore carries
//! the commit the walk began at, and later pages show the list as of that commit: a task that moved since is taken
//! from where it stood then. Backends keep the last moves for that long, see `WALK_MS_MAX`.

use crate::{Scope, StoreError, Stored};
use sabir_proto::{ContextId, Stamp, TaskState};
use std::sync::Arc;

/// How long a walk may take from its first page on. Moves older than this are forgotten.
#[cfg(feature = "sqlite")]
pub(crate) const WALK_MS_MAX: i64 = 10 * 60 * 1000;

/// With `since`, matches are counted up to here and no further; the count would otherwise cost the whole range.
pub(crate) const COUNT_MAX: u64 = 10_000;

/// Which tasks.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Whose.
    pub scope: Arc<Scope>,
    /// Only of this conversation.
    pub context: Option<ContextId>,
    /// Only in one of these states.
    pub state: Option<States>,
    /// Only with a status at or after this stamp.
    pub since: Option<Stamp>,
    /// At most this many.
    pub limit: usize,
    /// At most this many bytes, see [`Stored::bytes`]; but one task, however large.
    pub bytes_max: usize,
    /// Where the last page ended.
    pub token: Option<PageToken>,
}

/// Some states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct States(u16);

impl States {
    /// Whether this is one of them.
    pub const fn contains(self, state: TaskState) -> bool {
        self.0 & (1 << state.number()) != 0
    }

    /// As a number of which each state has a bit: the one that its own number says.
    #[cfg(feature = "sqlite")]
    pub(crate) fn bits(self) -> i64 {
        self.0.into()
    }
}

impl FromIterator<TaskState> for States {
    fn from_iter<I: IntoIterator<Item = TaskState>>(states: I) -> Self {
        Self(states.into_iter().fold(0, |bits, state| bits | 1 << state.number()))
    }
}

impl From<TaskState> for States {
    fn from(state: TaskState) -> Self {
        Self::from_iter([state])
    }
}

/// A page.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The tasks, latest status first.
    pub tasks: Vec<Stored>,
    /// Where to go on; `None` at the end.
    pub next: Option<PageToken>,
    /// How many match in all; capped at [`COUNT_MAX`] when `since` is given.
    pub total: u64,
}

/// Where a walk stands: the commit it began at, and the last position it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken {
    /// The list is shown as of this commit.
    pub commit: u64,
    /// Only positions below this one are still to come.
    pub below: Stamp,
}

impl PageToken {
    /// As text for a client: 32 hexadecimal digits, opaque to it.
    pub fn encode(self) -> String {
        format!("{:016x}{:016x}", self.commit, self.below.get())
    }

    /// Reads a token of [`PageToken::encode`].
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
