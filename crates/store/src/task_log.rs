//! The task log, which is the source of truth for tasks and their events.

use crate::{
    AppendError, LossNote, Outbox, PendingCancel, RetryMark, Scope, Step, StoreFuture, StoredTaskPage, TaskListQuery,
    TaskTree,
};
use bytes::Bytes;
use sabir_proto::{
    AgentName, Caller, ContextId, Event, FrozenEvent, FrozenTask, PushConfig, Seq, Stamp, TaskId, TaskState,
};
use std::sync::Arc;

/// A folded image of a task at some point of its log.
#[derive(Debug, Clone)]
pub struct TaskSnapshot {
    /// The last event in the image.
    pub seq: Seq,
    pub task: FrozenTask,
}

/// The progress of an agent in its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnProgress {
    /// The event after which the turn began.
    pub turn: Seq,
    /// The number of times the turn was begun.
    pub attempt: u32,
    /// The agent's checkpoint in its last committed step.
    pub checkpoint: Option<Bytes>,
}

/// A task as stored: folding `tail` onto `base` gives its present content.
#[derive(Debug, Clone)]
pub struct StoredTask {
    pub id: TaskId,
    pub scope: Arc<Scope>,
    pub state: TaskState,
    /// The number of its last event.
    pub head: Seq,
    /// The latest image; absent while the log is short, when event 1 of the tail is the task itself.
    pub base: Option<TaskSnapshot>,
    /// The events after `base`, oldest first.
    pub tail: Vec<FrozenEvent>,
    /// The progress of its agent.
    pub progress: TurnProgress,
    /// Whether it was opened for another task; [`TaskTree::kin`] returns which.
    pub is_child: bool,
    /// Whether it was given to the caller that presented the claim.
    pub is_claimed: bool,
}

impl StoredTask {
    /// The approximate bytes of the task in the store, and in memory while it is read.
    pub fn bytes(&self) -> usize {
        let base = self.base.as_ref().map_or(0, |base| base.task.json.len());
        base + self.tail.iter().map(|event| event.json.len()).sum::<usize>()
    }

    /// The conversation; `None` only for a damaged record.
    pub fn context(&self) -> Option<ContextId> {
        match (&self.base, self.tail.first()) {
            (Some(base), _) => base.task.context(),
            (None, Some(opening)) => match opening.thaw()? {
                Event::Task(task) => Some(task.context_id),
                Event::Message(_) | Event::StatusUpdate(_) | Event::ArtifactUpdate(_) => None,
            },
            (None, None) => None,
        }
    }
}

/// A retry key that is stored with a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRetry {
    pub mark: RetryMark,
    /// The task it made or continued.
    pub task: TaskId,
    /// The stamp of the step.
    pub at: Stamp,
}

/// The task log. One writer per task at a time; any number of readers.
///
/// Nothing that [`append`](Self::append) has not yet acknowledged is visible to any other method. It is an [`Outbox`]
/// and a [`TaskTree`] as well, since deliveries and children are committed with steps.
pub trait TaskLog: Outbox + TaskTree {
    /// Commits a step. When this returns `Ok`, the step has survived a crash (as far as the durability setting
    /// promises); when it returns an error, it left no trace.
    fn append(&self, step: Step) -> StoreFuture<(), AppendError>;

    /// A task with the data that is needed to fold it.
    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>>;

    /// At most `limit` events after the cursor, oldest first. Empty means that the reader is level with the head.
    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>>;

    /// A page of an owner's tasks, latest status first.
    ///
    /// The first page fixes the commit; later pages show the list *as it stood then*, so a task that moves between
    /// pages is neither skipped nor repeated, while its content is always the current one.
    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage>;

    /// Tasks that an agent was working on: submitted or working, oldest first, after the given one. Unreadable ones are
    /// left out and logged.
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>>;

    /// Cancels that remote agents have not acknowledged, with the local agents that have to call them; by task, after
    /// the given one.
    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>>;

    /// Tasks that were transferred since then, oldest first.
    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>>;

    /// Implicit retry keys of steps committed since, oldest first.
    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>>;

    /// The task an explicit retry key belongs to, unless the key has expired.
    fn explicit_retry(&self, key: crate::Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>>;

    /// The last explicit retry key before this one, in byte order, expired or not.
    fn retry_key_before(&self, key: crate::Digest) -> StoreFuture<Option<crate::Digest>>;

    /// The owner's task with this alias.
    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>>;

    /// The aliases of a task, sorted.
    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>>;

    /// The owner of a task.
    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>>;

    /// Adds loss notes to a task, counting equal ones together; see [`LossNote`]. Returns when they are written or were
    /// dropped: because there is no such task, or because too many wait. A step never waits for a loss note.
    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()>;

    /// The loss notes of a task, oldest first.
    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>>;

    /// The data that the task's agent stored by [`crate::Effect::StoreAgentData`].
    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>>;

    /// A task's push configurations, by id.
    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>>;

    /// How many bytes the tasks of a caller have, at all agents and in all tenants, as of the latest commit. Zero where a
    /// store that counts only on demand was opened without. Answers from memory.
    fn stored_bytes(&self, caller: &Caller) -> u64;

    /// The latest stamp in the store, so that new ones are later.
    fn last_stamp(&self) -> StoreFuture<Stamp>;
}
