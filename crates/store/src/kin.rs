//! Families of tasks: which task was opened on behalf of which, and what a whole family has cost so far.
//!
//! A child names its parent in the step that opens it, and never changes it. A task without a parent has no row here and
//! pays nothing: its readers learn from [`Stored::is_child`](crate::Stored::is_child) that there is nothing to look up.

use crate::{Answer, Scope, Stored};
use sabir_proto::{Stamp, TaskId, TaskState};
use std::sync::Arc;

/// Whose child a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kin {
    /// The task it was opened for.
    pub parent: TaskId,
    /// The task that nobody here opened for another: the top of the family.
    pub root: TaskId,
    /// The parent's name for it; no two children of one parent share it.
    pub key: Arc<str>,
    /// How many agents stand before it, here and elsewhere.
    pub hops: u32,
    /// Those agents, farthest first.
    pub path: Vec<Arc<str>>,
    /// What the family is called where it began, if that was elsewhere.
    pub origin: Option<Arc<str>>,
    /// Its tools may only look, whatever its agent is allowed otherwise.
    pub readonly: bool,
}

/// A birth: what a step that opens a child says, and what it is refused for.
///
/// Refused with [`crate::AppendError::Orphan`] when the parent has settled or is not there, with
/// [`crate::AppendError::Twin`] when it has a child of that key, and with [`crate::AppendError::TooManyKin`] when the
/// family is as large as it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// Whose child.
    pub kin: Kin,
    /// How many tasks the root may have below it.
    pub family_max: u64,
}

/// A task of a family, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// The task.
    pub id: TaskId,
    /// The task it was opened for; `None` for the root.
    pub parent: Option<TaskId>,
    /// Its owner.
    pub scope: Arc<Scope>,
    /// Where it stands.
    pub state: TaskState,
}

/// What a family has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Toll {
    /// Tasks below the root.
    pub calls: u64,
    /// What its agents say they have spent, in millionths.
    pub spent: u64,
}

/// A task that waits for somebody.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The task.
    pub task: Stored,
    /// Where it stands in the list: since when it asks.
    pub since: Stamp,
}

/// What the log knows of families, and of tasks that ask, whoever owns them.
pub trait Family: Send + Sync + 'static {
    /// Whose child a task is; `None` for a task without a parent.
    fn kin(&self, task: TaskId) -> Answer<Option<Kin>>;

    /// The child of this key.
    fn child(&self, parent: TaskId, key: &str) -> Answer<Option<TaskId>>;

    /// At most `limit` tasks below a root, oldest first, after the given one.
    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>>;

    /// At most `limit` children of a task, oldest first, after the given one.
    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>>;

    /// At most `limit` unsettled children of tasks that were [given up](is_given_up), oldest first, after the given one.
    /// Nobody waits for them any more.
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>>;

    /// What a family has cost.
    fn toll(&self, root: TaskId) -> Answer<Toll>;

    /// At most `limit` tasks that wait for input or credentials, of whatever owner, the longest waiting first, after the
    /// given place.
    fn asking(&self, after: Option<Stamp>, limit: usize) -> Answer<Vec<Asking>>;
}

/// Whether a task has ended in a way that leaves no use for its children. One that completed may have begun something that
/// goes on, and one that was handed over has left it to others.
pub const fn is_given_up(state: TaskState) -> bool {
    match state {
        TaskState::Failed | TaskState::Canceled | TaskState::Rejected => true,
        TaskState::Submitted
        | TaskState::Working
        | TaskState::Completed
        | TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Transferred
        | TaskState::Unspecified => false,
    }
}
