//! The task log: the one source of truth.

use crate::{Answer, AppendError, Family, Listed, Listing, Note, Outbox, OwedCancel, RetryMark, Scope, Step};
use bytes::Bytes;
use sabir_proto::{
    AgentName, Caller, ContextId, Event, FrozenEvent, FrozenTask, PushConfig, Seq, Stamp, TaskId, TaskState,
};
use std::sync::Arc;

/// What a task is read from: a folded image at some point of its log.
#[derive(Debug, Clone)]
pub struct Base {
    /// The last event the image contains.
    pub seq: Seq,
    /// The image.
    pub task: FrozenTask,
}

/// How far an agent got with its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The event after which the turn began.
    pub turn: Seq,
    /// How often it was begun.
    pub attempt: u32,
    /// What the agent left for itself in its last committed step.
    pub checkpoint: Option<Bytes>,
}

/// A task as stored: fold `tail` onto `base` and you have it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The task.
    pub id: TaskId,
    /// Its owner.
    pub scope: Arc<Scope>,
    /// Where it stands.
    pub state: TaskState,
    /// The number of its last event.
    pub head: Seq,
    /// The latest image; absent while the log is young, when event 1 of the tail is the task itself.
    pub base: Option<Base>,
    /// The events after `base`, oldest first.
    pub tail: Vec<FrozenEvent>,
    /// How far the agent got.
    pub progress: Progress,
    /// It was opened for another task; [`Family::kin`] knows which.
    pub is_child: bool,
    /// It was given to whoever it was made for.
    pub is_adopted: bool,
}

impl Stored {
    /// About how many bytes it has in the store, and in memory while it is read.
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

/// A retry key found in the tail of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRetry {
    /// Key and digest.
    pub mark: RetryMark,
    /// The task it made or continued.
    pub task: TaskId,
    /// When.
    pub at: Stamp,
}

/// The task log. One writer per task at a time; any number of readers.
///
/// Nothing that [`append`](Self::append) has not yet answered is visible to any other method.
/// It is an [`Outbox`] as well, since what a step owes is committed with it, and a [`Family`] book.
pub trait TaskLog: Outbox + Family {
    /// Takes a step. When this answers `Ok`, the step has survived a crash (as far as the durability setting
    /// promises); when it answers an error, it left no trace.
    fn append(&self, step: Step) -> Answer<(), AppendError>;

    /// A task with what is needed to fold it.
    fn load(&self, id: TaskId) -> Answer<Option<Stored>>;

    /// At most `limit` events after the cursor, oldest first. Empty means level with the head.
    fn events(&self, id: TaskId, after: Seq, limit: usize) -> Answer<Vec<FrozenEvent>>;

    /// A page of an owner's tasks, latest status first.
    ///
    /// The first page fixes the moment; the pages after it show the list *as it stood then*, so a task that moves
    /// during a walk is neither skipped nor repeated, while its content is always the current one.
    fn list(&self, listing: Listing) -> Answer<Listed>;

    /// Tasks that were being worked on: submitted or working, oldest first, after the given one. Those that cannot be read
    /// any more are left out, and the log of this process says which they are.
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Stored>>;

    /// Cancels that agents elsewhere have not acknowledged, with the agents here that are to tell them; by task, after
    /// the given one.
    fn owed_cancels(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<(TaskId, AgentName, OwedCancel)>>;

    /// Tasks that were handed over since then, oldest first.
    fn handed_over(&self, since: Stamp, limit: usize) -> Answer<Vec<TaskId>>;

    /// Implicit retry keys of steps taken since, oldest first.
    fn recent_retries(&self, since: Stamp, limit: usize) -> Answer<Vec<KeptRetry>>;

    /// The task an explicit retry key belongs to, unless the key has expired.
    fn explicit_retry(&self, key: crate::Digest, now: Stamp) -> Answer<Option<KeptRetry>>;

    /// The last explicit retry key before this one, in the order of bytes, whether it is in force or not.
    fn retry_key_before(&self, key: crate::Digest) -> Answer<Option<crate::Digest>>;

    /// The owner's task of this name.
    fn alias(&self, scope: &Scope, name: &str) -> Answer<Option<TaskId>>;

    /// The names of a task, in order.
    fn aliases_of(&self, task: TaskId) -> Answer<Vec<String>>;

    /// Whose task it is.
    fn owner(&self, task: TaskId) -> Answer<Option<Arc<Scope>>>;

    /// Takes notes beside a task, adding up those that say the same; see [`Note`]. Answers when they are written or were
    /// dropped: because there is no such task, or because more of them wait than anybody cares for. A step never waits
    /// for a note.
    fn note(&self, task: TaskId, notes: Vec<Note>) -> Answer<()>;

    /// The notes beside a task, oldest first.
    fn notes(&self, task: TaskId) -> Answer<Vec<Note>>;

    /// What the task's agent kept with it by [`crate::Effect::KeepData`].
    fn agent_data(&self, task: TaskId) -> Answer<Option<Bytes>>;

    /// A task's push configurations, by id.
    fn pushes(&self, task: TaskId) -> Answer<Vec<PushConfig>>;

    /// How many bytes the tasks of a caller have, at all agents and in all tenants, as of the latest commit. Zero where a
    /// store that counts only on demand was opened without. Answers from memory.
    fn stored_bytes(&self, caller: &Caller) -> u64;

    /// The latest stamp in the store, so that new ones rise above it.
    fn last_stamp(&self) -> Answer<Stamp>;
}
