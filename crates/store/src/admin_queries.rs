//! Questions that operators ask about the tasks of all callers at once.
//!
//! Tasks are in the order of the commit that gave them their present status: the latest first in a list, the oldest first
//! in a feed. One page costs a bounded number of rows, whatever the filter: a page that found few matches is short, and
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
    /// Only tasks whose status is not older.
    pub since: Option<Timestamp>,
    /// Only tasks whose status is older.
    pub before: Option<Timestamp>,
    /// Only tasks with this text in them, in any case of its letters.
    pub text: Option<String>,
    /// The maximum number of tasks.
    pub limit: usize,
    /// Only tasks behind this place.
    pub after: Option<ChangePlace>,
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
    /// Where the next page goes on; `None` at the end.
    pub next: Option<ChangePlace>,
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

    /// A page of the tasks of all callers, the latest status first.
    fn all_tasks(&self, query: AllTasksQuery) -> StoreFuture<TaskSummaryPage>;

    /// At most `limit` tasks that got their present status behind this place, the oldest first. A task that changed
    /// twice is there once.
    fn tasks_changed_after(&self, after: ChangePlace, limit: usize) -> StoreFuture<Vec<TaskSummary>>;

    /// The place of the task that changed last; `None` if there is no task.
    fn last_change(&self) -> StoreFuture<Option<ChangePlace>>;

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

    fn tasks_changed_after(&self, _: ChangePlace, _: usize) -> StoreFuture<Vec<TaskSummary>> {
        StoreFuture::ready(Ok(Vec::new()))
    }

    fn last_change(&self) -> StoreFuture<Option<ChangePlace>> {
        StoreFuture::ready(Ok(None))
    }

    fn outbox_mark(&self) -> StoreFuture<OutboxMark> {
        StoreFuture::ready(Ok(OutboxMark::default()))
    }

    fn task_counts(&self) -> StoreFuture<Vec<AgentTaskCount>> {
        StoreFuture::ready(Ok(Vec::new()))
    }
}
