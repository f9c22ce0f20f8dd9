//! Questions that operators ask about the tasks of all callers at once.
//!
//! A list has the newest task first; a feed has the changes of status in the order of their commits. One page costs a bounded number of rows, whatever the filter: a page that found few matches is short, and
//! says where the next one goes on.

#[cfg(feature = "model")]
use crate::model::ModelLog;
use crate::{Scope, StateSet, StoreFuture};
use sabir_proto::{AgentName, TaskId, TaskState, Timestamp};
use std::sync::Arc;

/// Tasks that one page looks at, at most.
pub const TASKS_SCANNED_MAX: usize = 2_000;
/// Tasks whose text one page reads, at most.
pub const TASK_TEXTS_SCANNED_MAX: usize = 200;

/// The place of a task in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangePlace {
    /// The commit that gave the task its present status.
    pub commit: u64,
    /// The stamp in the id of the task, which orders the tasks of one commit.
    pub task: u64,
}

/// Which tasks a list of operators has.
#[derive(Debug, Clone, Default)]
pub struct AllTasksQuery {
    /// Only tasks of this agent.
    pub agent: Option<AgentName>,
    /// Only tasks in one of these states.
    pub states: Option<StateSet>,
    /// Only tasks that were created at this time or later.
    pub since: Option<Timestamp>,
    /// Only tasks that were created before.
    pub before: Option<Timestamp>,
    /// Only tasks with this text in them, in any case of its letters.
    pub text: Option<String>,
    /// The maximum number of tasks.
    pub limit: usize,
    /// Only tasks that are older than the one with this stamp.
    pub after: Option<u64>,
}

/// A task without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSummary {
    pub id: TaskId,
    pub scope: Arc<Scope>,
    pub state: TaskState,
    /// When the task got its present status.
    pub changed_at: Timestamp,
    pub place: ChangePlace,
}

/// A page of the tasks of all callers.
#[derive(Debug, Clone, Default)]
pub struct TaskSummaryPage {
    pub tasks: Vec<TaskSummary>,
    /// The stamp of the task after which the next page goes on; `None` at the end.
    pub next: Option<u64>,
}

/// Changes of status, in the order of their commits.
#[derive(Debug, Clone, Default)]
pub struct ChangePage {
    pub tasks: Vec<TaskSummary>,
    /// Behind this place are the changes that follow; `None` if there was no change.
    pub end: Option<ChangePlace>,
    /// Nothing has changed behind it yet.
    pub is_last: bool,
}

/// How many tasks of one agent are in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTaskCount {
    pub agent: AgentName,
    pub state: TaskState,
    pub count: u64,
}

/// What the outbox has, in short. A difference to an earlier one tells of deliveries that were added, made or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxMark {
    /// The number of the newest delivery that waits or is dead; 0 without any.
    pub newest: i64,
    /// How many are dead, counted up to [`DEAD_COUNTED_MAX`].
    pub dead: u64,
}

/// Dead letters are counted up to here and no further.
pub const DEAD_COUNTED_MAX: u64 = 10_000;

/// The queries of operators.
pub trait AdminQueries: Send + Sync + 'static {
    /// A random number that the store was given when it was made. Its copies have the same.
    fn store_identity(&self) -> StoreFuture<u64>;

    /// A page of the tasks of all callers, the newest first.
    fn all_tasks(&self, query: AllTasksQuery) -> StoreFuture<TaskSummaryPage>;

    /// The next changes behind a place, at most `limit` of them. A task that changed again later is left out, because its
    /// later change follows. `None` if the store no longer knows all changes since then.
    fn changes_after(&self, after: ChangePlace, limit: usize) -> StoreFuture<Option<ChangePage>>;

    /// The number of the last commit.
    fn last_commit(&self) -> StoreFuture<u64>;

    /// What the outbox has at present.
    fn outbox_mark(&self) -> StoreFuture<OutboxMark>;

    /// How many tasks of each agent are in each state.
    fn task_counts(&self) -> StoreFuture<Vec<AgentTaskCount>>;
}

/// The model has no operators.
#[cfg(feature = "model")]
impl AdminQueries for ModelLog {
    fn store_identity(&self) -> StoreFuture<u64> {
        StoreFuture::ready(Ok(0))
    }

    fn all_tasks(&self, _: AllTasksQuery) -> StoreFuture<TaskSummaryPage> {
        StoreFuture::ready(Ok(TaskSummaryPage::default()))
    }

    fn changes_after(&self, _: ChangePlace, _: usize) -> StoreFuture<Option<ChangePage>> {
        StoreFuture::ready(Ok(Some(ChangePage::default())))
    }

    fn last_commit(&self) -> StoreFuture<u64> {
        StoreFuture::ready(Ok(0))
    }

    fn outbox_mark(&self) -> StoreFuture<OutboxMark> {
        StoreFuture::ready(Ok(OutboxMark::default()))
    }

    fn task_counts(&self) -> StoreFuture<Vec<AgentTaskCount>> {
        StoreFuture::ready(Ok(Vec::new()))
    }
}
