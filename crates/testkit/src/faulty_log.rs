//! A log wrapper that refuses writes or delays reads when a test asks for it.

use crate::wait::at_once;
use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, Timestamp};
use sabir_store::{
    AppendError, Delivery, DeliveryMark, DeliveryQuery, Digest, DueDeliveries, DueDelivery, DueQuery, InterruptedTask,
    LossNote, Outbox, ParentLink, PendingCancel, PushReceiver, Scope, Step, StoreError, StoreFuture, StoredRetry,
    StoredTask, StoredTaskPage, SubtaskSpend, TaskListQuery, TaskLog, TaskTree, TaskTreeNode, WakeSignal,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Passes all calls on to a log that answers inline, except for the injected faults.
pub struct FaultyLog {
    inner: Arc<dyn TaskLog>,
    faults: Mutex<InjectedFaults>,
}

#[derive(Default)]
struct InjectedFaults {
    write_error: Option<StoreError>,
    reads_held: bool,
    damaged_config: Option<String>,
    held: Vec<Box<dyn FnOnce() + Send>>,
}

impl FaultyLog {
    /// Wraps another log, without faults.
    pub fn new(inner: Arc<dyn TaskLog>) -> Self {
        Self { inner, faults: Mutex::default() }
    }

    fn faults(&self) -> MutexGuard<'_, InjectedFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses every write with this error; `None` accepts them again.
    pub fn set_write_error(&self, error: Option<StoreError>) {
        self.faults().write_error = error;
    }

    /// Makes this push configuration unreadable.
    pub fn damage_config(&self, config: &str) {
        self.faults().damaged_config = Some(config.to_owned());
    }

    /// Holds all reads back, or answers the held ones.
    pub fn hold_reads(&self, held: bool) {
        let mut mood = self.faults();
        mood.reads_held = held;
        let answers = if held { Vec::new() } else { std::mem::take(&mut mood.held) };
        drop(mood);
        answers.into_iter().for_each(|answer| answer());
    }

    fn write<T>(&self, write: impl FnOnce(&dyn TaskLog) -> StoreFuture<T>) -> StoreFuture<T> {
        match self.faults().write_error.clone() {
            Some(error) => StoreFuture::ready(Err(error)),
            None => write(&*self.inner),
        }
    }

    fn read<T: Send + 'static>(&self, answer: StoreFuture<T>) -> StoreFuture<T> {
        let mut mood = self.faults();
        if !mood.reads_held {
            return answer;
        }
        let found = at_once(answer);
        let (sender, receiver) = oneshot::channel();
        // The reader may have been dropped.
        mood.held.push(Box::new(move || drop(sender.send(found))));
        StoreFuture::from_receiver(receiver)
    }
}

impl std::fmt::Debug for FaultyLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FickleLog").field("refusing", &self.faults().write_error).finish_non_exhaustive()
    }
}

impl TaskLog for FaultyLog {
    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.inner.stored_bytes(caller)
    }

    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>> {
        self.read(self.inner.handed_over(since, limit))
    }

    fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        match self.faults().write_error.clone() {
            Some(error) => StoreFuture::ready(Err(error.into())),
            None => self.inner.append(step),
        }
    }

    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>> {
        self.read(self.inner.load(id))
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>> {
        self.read(self.inner.events(id, after, limit))
    }

    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage> {
        self.read(self.inner.list(listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>> {
        self.read(self.inner.unfinished(after, limit))
    }

    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>> {
        self.read(self.inner.pending_cancels(after, limit))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>> {
        self.read(self.inner.recent_retries(since, limit))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>> {
        self.read(self.inner.explicit_retry(key, now))
    }

    fn retry_key_before(&self, key: Digest) -> StoreFuture<Option<Digest>> {
        self.read(self.inner.retry_key_before(key))
    }

    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>> {
        self.read(self.inner.alias(scope, name))
    }

    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>> {
        self.read(self.inner.aliases_of(task))
    }

    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>> {
        self.read(self.inner.owner(task))
    }

    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        self.read(self.inner.add_loss_notes(task, notes))
    }

    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>> {
        self.read(self.inner.loss_notes(task))
    }

    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>> {
        self.read(self.inner.agent_data(task))
    }

    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>> {
        self.read(self.inner.pushes(task))
    }

    fn last_stamp(&self) -> StoreFuture<Stamp> {
        self.read(self.inner.last_stamp())
    }
}

impl Outbox for FaultyLog {
    fn due_signal(&self) -> Arc<WakeSignal> {
        self.inner.due_signal()
    }

    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        self.read(self.inner.due(reading))
    }

    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>> {
        self.read(self.inner.next_due(after))
    }

    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>> {
        if self.faults().damaged_config.as_deref() == Some(config) {
            return StoreFuture::ready(Err(StoreError::Corrupt("unreadable push configuration".into())));
        }
        self.read(self.inner.receiver(task, config))
    }

    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        self.write(|log| log.mark(owed, mark))
    }

    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>> {
        self.read(self.inner.deliveries(letters))
    }

    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>> {
        self.read(self.inner.delivery(number))
    }

    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool> {
        self.write(|log| log.retry(number, now))
    }

    fn discard(&self, number: i64) -> StoreFuture<bool> {
        self.write(|log| log.discard(number))
    }
}

impl TaskTree for FaultyLog {
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>> {
        self.read(self.inner.parent_link(task))
    }

    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>> {
        self.read(self.inner.child(parent, key))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(self.inner.descendants(root, after, limit))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(self.inner.children(parent, after, limit))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.read(self.inner.orphans(after, limit))
    }

    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend> {
        self.read(self.inner.subtask_spend(root))
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>> {
        self.read(self.inner.interrupted(after, limit))
    }
}
