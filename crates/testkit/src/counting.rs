//! A log wrapper that counts what is written.

use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, Timestamp};
use sabir_store::{
    Answer, AppendError, Asking, Bell, Digest, Due, Family, KeptRetry, Kin, Letter, Letters, Listed, Listing, Mark,
    Note, Outbox, Owed, OwedCancel, Reading, Receiver, Relative, Scope, Step, Stored, TaskLog, Toll,
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
    pub fn steps(&self) -> usize {
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

    fn handed_over(&self, since: Stamp, limit: usize) -> Answer<Vec<TaskId>> {
        self.inner.handed_over(since, limit)
    }

    fn append(&self, step: Step) -> Answer<(), AppendError> {
        let bytes: usize = step.events.iter().map(|e| e.json.len() + e.heard.as_ref().map_or(0, |h| h.len())).sum();
        self.events.fetch_add(bytes, Ordering::Relaxed);
        self.snapshots.fetch_add(step.snapshot.as_ref().map_or(0, |s| s.json.len()), Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.inner.append(step)
    }

    fn load(&self, id: TaskId) -> Answer<Option<Stored>> {
        self.inner.load(id)
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> Answer<Vec<FrozenEvent>> {
        self.inner.events(id, after, limit)
    }

    fn list(&self, listing: Listing) -> Answer<Listed> {
        self.inner.list(listing)
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Stored>> {
        self.inner.unfinished(after, limit)
    }

    fn owed_cancels(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<(TaskId, AgentName, OwedCancel)>> {
        self.inner.owed_cancels(after, limit)
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> Answer<Vec<KeptRetry>> {
        self.inner.recent_retries(since, limit)
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> Answer<Option<KeptRetry>> {
        self.inner.explicit_retry(key, now)
    }

    fn retry_key_before(&self, key: Digest) -> Answer<Option<Digest>> {
        self.inner.retry_key_before(key)
    }

    fn alias(&self, scope: &Scope, name: &str) -> Answer<Option<TaskId>> {
        self.inner.alias(scope, name)
    }

    fn aliases_of(&self, task: TaskId) -> Answer<Vec<String>> {
        self.inner.aliases_of(task)
    }

    fn owner(&self, task: TaskId) -> Answer<Option<Arc<Scope>>> {
        self.inner.owner(task)
    }

    fn note(&self, task: TaskId, notes: Vec<Note>) -> Answer<()> {
        self.inner.note(task, notes)
    }

    fn notes(&self, task: TaskId) -> Answer<Vec<Note>> {
        self.inner.notes(task)
    }

    fn agent_data(&self, task: TaskId) -> Answer<Option<Bytes>> {
        self.inner.agent_data(task)
    }

    fn pushes(&self, task: TaskId) -> Answer<Vec<PushConfig>> {
        self.inner.pushes(task)
    }

    fn last_stamp(&self) -> Answer<Stamp> {
        self.inner.last_stamp()
    }
}

impl Outbox for CountingLog {
    fn bell(&self) -> Arc<Bell> {
        self.inner.bell()
    }

    fn due(&self, reading: Reading) -> Answer<Due> {
        self.inner.due(reading)
    }

    fn next_due(&self, after: Timestamp) -> Answer<Option<Timestamp>> {
        self.inner.next_due(after)
    }

    fn receiver(&self, task: TaskId, config: &str) -> Answer<Option<Receiver>> {
        self.inner.receiver(task, config)
    }

    fn mark(&self, owed: &Owed, mark: Mark) -> Answer<bool> {
        self.inner.mark(owed, mark)
    }

    fn letters(&self, letters: Letters) -> Answer<Vec<Letter>> {
        self.inner.letters(letters)
    }

    fn letter(&self, number: i64) -> Answer<Option<Letter>> {
        self.inner.letter(number)
    }

    fn retry(&self, number: i64, now: Timestamp) -> Answer<bool> {
        self.inner.retry(number, now)
    }

    fn discard(&self, number: i64) -> Answer<bool> {
        self.inner.discard(number)
    }
}

impl Family for CountingLog {
    fn kin(&self, task: TaskId) -> Answer<Option<Kin>> {
        self.inner.kin(task)
    }

    fn child(&self, parent: TaskId, key: &str) -> Answer<Option<TaskId>> {
        self.inner.child(parent, key)
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.inner.descendants(root, after, limit)
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.inner.children(parent, after, limit)
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.inner.orphans(after, limit)
    }

    fn toll(&self, root: TaskId) -> Answer<Toll> {
        self.inner.toll(root)
    }

    fn asking(&self, after: Option<Stamp>, limit: usize) -> Answer<Vec<Asking>> {
        self.inner.asking(after, limit)
    }
}
