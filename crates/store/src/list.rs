//! Paging through an owner's tasks.
//!
//! Lists are ordered by the last status, and tasks move up while a caller pages through them. A page token therefore
//! carries the commit of the first page, and later pages show the list as of that commit: a task that moved since is
//! shown at its old position. Backends keep the last moves for that long, see `WALK_MS_MAX`. A token goes on with the
//! query that it came from, and with no other.

use crate::{Hash, Scope, StoreError, StoredTask};
use sabir_proto::{ContextId, Stamp, TaskState};
use std::sync::Arc;

/// How long a page token is valid, counted from the first page. Older moves are deleted.
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
    /// The token of the page before, of the same query.
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

/// The cursor of a list. Only stores know what its bytes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(Vec<u8>);

/// The most bytes of a token.
const TOKEN_BYTES_MAX: usize = 64;

impl PageToken {
    /// The token as text for a client: hexadecimal digits, opaque to the client.
    pub fn encode(&self) -> String {
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// Parses a token of [`PageToken::encode`].
    pub fn decode(text: &str) -> Result<Self, StoreError> {
        if text.is_empty() || text.len() > 2 * TOKEN_BYTES_MAX || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(StoreError::PageToken);
        }
        let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(pair).collect();
        bytes.map(Self).ok_or(StoreError::PageToken)
    }
}

/// What the stores of this crate write into a page token.
pub(crate) struct ListCursor {
    /// The list is shown as of this commit.
    pub(crate) commit: u64,
    /// Only positions below this one are still to come.
    pub(crate) below: Stamp,
}

impl ListCursor {
    /// Where a query goes on. Without a token it begins now, at the last commit. A token of another query is refused.
    pub(crate) fn of(query: &TaskListQuery, last: u64) -> Result<Self, StoreError> {
        let Some(token) = &query.token else { return Ok(Self { commit: last, below: Stamp::from_u64(u64::MAX) }) };
        Self::read(token, query).ok_or(StoreError::PageToken)
    }

    fn read(PageToken(bytes): &PageToken, query: &TaskListQuery) -> Option<Self> {
        let (numbers, of) = bytes.split_at_checked(16)?;
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        let (commit, below) = (number(&numbers[..8])?, number(&numbers[8..])?);
        (of == query.hash()).then(|| Self { commit, below: Stamp::from_u64(below) })
    }

    pub(crate) fn token(&self, query: &TaskListQuery) -> PageToken {
        PageToken([self.commit.to_be_bytes(), self.below.get().to_be_bytes(), query.hash()].concat())
    }
}

impl TaskListQuery {
    /// Eight bytes of a hash of what the query asks for: enough to notice a token of another one.
    fn hash(&self) -> [u8; 8] {
        let context = self.context.as_ref().map(ContextId::to_string).unwrap_or_default();
        let states = self.state.map_or(-1, StateSet::bits).to_be_bytes();
        let since = self.since.map_or(u64::MAX, Stamp::get).to_be_bytes();
        let (owner, agent) = (self.scope.owner().to_be_bytes(), self.scope.agent.as_str().as_bytes());
        let hash = Hash::of(&[&owner, &states, &since, agent, &[0], context.as_bytes()]);
        hash.as_bytes()[..8].try_into().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_nonsense_is_refused() {
        let token = PageToken(vec![0, 77, 255]);
        assert_eq!((&*token.encode(), PageToken::decode("004dff")), ("004dff", Ok(token.clone())));
        for bad in ["", "1", &"g".repeat(32), &"0".repeat(33), &"f".repeat(130), "é".repeat(16).as_str()] {
            assert_eq!(PageToken::decode(bad), Err(StoreError::PageToken), "{bad}");
        }
    }
}
