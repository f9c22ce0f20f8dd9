//! Subtasks: which task was opened on behalf of which, and what a whole tree of tasks has cost so far.
//!
//! A child names its parent in the step that opens it, and never changes it. A task without a parent has no row here
//! and costs nothing: [`StoredTask::is_child`](crate::StoredTask::is_child) tells readers that there is nothing to look up.

use crate::{Scope, StoreFuture, StoredTask};
use sabir_proto::{Stamp, TaskId, TaskState};
use std::sync::Arc;

/// The link of a child task to its parent and its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentLink {
    /// The task it was opened for.
    pub parent: TaskId,
    /// The root of the tree: the task that no task here opened.
    pub root: TaskId,
    /// The parent's name for the child; no two children of one parent share it.
    pub key: Arc<str>,
    /// The number of agents before it, here and elsewhere.
    pub hops: u32,
    /// Those agents, farthest first.
    pub path: Vec<Arc<str>>,
    /// The id of the tree on the server where it began, if that is another server.
    pub origin: Option<Arc<str>>,
    /// The tools of the child may only read, whatever its agent is allowed otherwise.
    pub readonly: bool,
}

/// The data of a step that opens a child, checked by the store.
///
/// Refused with [`crate::AppendError::ParentSettled`] when the parent has settled or does not exist, with
/// [`crate::AppendError::DuplicateChild`] when it has a child of that key, and with [`crate::AppendError::TooManySubtasks`] when the
/// root has as many tasks below it as it may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildOf {
    /// The parent, the root and the key.
    pub parent_link: ParentLink,
    /// The number of tasks that the root may have below it.
    pub subtasks_max: u64,
}

/// A task of a tree, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTreeNode {
    pub id: TaskId,
    /// The task it was opened for; `None` for the root.
    pub parent: Option<TaskId>,
    /// The owner of the task.
    pub scope: Arc<Scope>,
    pub state: TaskState,
}

/// The cost of a whole tree of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubtaskSpend {
    /// The number of tasks below the root.
    pub calls: u64,
    /// The amount that its agents report as spent, in millionths.
    pub spent: u64,
}

/// A task that waits for input or credentials.
#[derive(Debug, Clone)]
pub struct InterruptedTask {
    /// The task and its content.
    pub task: StoredTask,
    /// The stamp since which it waits; its place in the list.
    pub since: Stamp,
}

/// Trees of subtasks, and tasks that wait for input or credentials, of all owners.
pub trait TaskTree: Send + Sync + 'static {
    /// The parent link of a task; `None` for a task without a parent.
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>>;

    /// The child of this parent with this key.
    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>>;

    /// At most `limit` tasks below a root, oldest first, after the given one.
    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>>;

    /// At most `limit` children of a task, oldest first, after the given one.
    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>>;

    /// At most `limit` unsettled children of tasks that [ended unsuccessfully](is_given_up), oldest first, after the
    /// given one. No parent waits for them any more.
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>>;

    /// The cost of a whole tree of tasks.
    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend>;

    /// At most `limit` tasks that wait for input or credentials, of any owner, the longest waiting first, after the
    /// given stamp.
    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>>;
}

/// Whether a task has ended in a way that leaves no use for its children. A completed task may have begun something
/// that goes on, and a transferred one has left its children to others.
pub const fn ended_unsuccessfully(state: TaskState) -> bool {
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
