//! A log wrapper that counts what is written.

use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, Timestamp};
use sabir_store::{
    AppendError, Delivery, DeliveryMark, DeliveryQuery, Digest, DueDeliveries, DueDelivery, DueQuery, InterruptedTask,
    LossNote, Outbox, ParentLink, PendingCancel, PushReceiver, Scope, Step, StoreFuture, StoredRetry, StoredTask,
    StoredTaskPage, SubtaskSpend, TaskListQuery, TaskLog, TaskTree, TaskTreeNode, WakeSignal,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Passes all calls on, and adds up the bytes of events and snapshots.
pub struct CountingLog {
    inner: Arc<dyn TaskLog>,
    events: AtomicUsize,
    snapshots: AtomicUsize,
    steps: AtomicUsize,
}

impl CountingLog {
    /// Wraps another log, with counts at zero.
    pub fn new(inner: Arc<dyn TaskLog>) -> Self {
        Self { inner, events: AtomicUsize::new(0), snapshots: AtomicUsize::new(0), steps: AtomicUsize::new(0) }
    }

    /// Bytes of all events, as a stream would carry them.
    pub fn event_bytes(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }

    /// Bytes of all snapshots.
    pub fn snapshot_bytes(&self) -> usize {
        self.snapshots.load(Ordering::Relaxed)
    }

    /// The number of steps appended.
    pub fn step_count(&self) -> usize {
        self.steps.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for CountingLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountingLog").field("events", &self.events).field("snapshots", &self.snapshots).finish()
    }
}

impl TaskLog for CountingLog {
    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.inner.stored_bytes(caller)
    }

    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>> {
        self.inner.handed_over(since, limit)
    }

    fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        let bytes: usize = step.events.iter().map(|e| e.json.len() + e.input.as_ref().map_or(0, |h| h.len())).sum();
        self.events.fetch_add(bytes, Ordering::Relaxed);
        self.snapshots.fetch_add(step.snapshot.as_ref().map_or(0, |s| s.json.len()), Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.inner.append(step)
    }

    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>> {
        self.inner.load(id)
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>> {
        self.inner.events(id, after, limit)
    }

    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage> {
        self.inner.list(listing)
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>> {
        self.inner.unfinished(after, limit)
    }

    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>> {
        self.inner.pending_cancels(after, limit)
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>> {
        self.inner.recent_retries(since, limit)
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>> {
        self.inner.explicit_retry(key, now)
    }

    fn retry_key_before(&self, key: Digest) -> StoreFuture<Option<Digest>> {
        self.inner.retry_key_before(key)
    }

    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>> {
        self.inner.alias(scope, name)
    }

    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>> {
        self.inner.aliases_of(task)
    }

    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>> {
        self.inner.owner(task)
    }

    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        self.inner.add_loss_notes(task, notes)
    }

    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>> {
        self.inner.loss_notes(task)
    }

    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>> {
        self.inner.agent_data(task)
    }

    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>> {
        self.inner.pushes(task)
    }

    fn last_stamp(&self) -> StoreFuture<Stamp> {
        self.inner.last_stamp()
    }
}

impl Outbox for CountingLog {
    fn due_signal(&self) -> Arc<WakeSignal> {
        self.inner.due_signal()
    }

    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        self.inner.due(reading)
    }

    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>> {
        self.inner.next_due(after)
    }

    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>> {
        self.inner.receiver(task, config)
    }

    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        self.inner.mark(owed, mark)
    }

    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>> {
        self.inner.deliveries(letters)
    }

    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>> {
        self.inner.delivery(number)
    }

    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool> {
        self.inner.retry(number, now)
    }

    fn discard(&self, number: i64) -> StoreFuture<bool> {
        self.inner.discard(number)
    }
}

impl TaskTree for CountingLog {
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>> {
        self.inner.parent_link(task)
    }

    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>> {
        self.inner.child(parent, key)
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.inner.descendants(root, after, limit)
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.inner.children(parent, after, limit)
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        self.inner.orphans(after, limit)
    }

    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend> {
        self.inner.subtask_spend(root)
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>> {
        self.inner.interrupted(after, limit)
    }
}
