//! A log wrapper that refuses writes or delays reads when a test asks for it.

use crate::wait::at_once;
use bytes::Bytes;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, Timestamp};
use sabir_store::{
    Answer, AppendError, Asking, Bell, Digest, Due, Family, KeptRetry, Kin, Letter, Letters, Listed, Listing, Mark,
    Note, Outbox, Owed, OwedCancel, Reading, Receiver, Relative, Scope, Step, StoreError, Stored, TaskLog, Toll,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Passes all calls on to a log that answers inline, except for the injected faults.
pub struct FickleLog {
    inner: Arc<dyn TaskLog>,
    mood: Mutex<Mood>,
}

#[derive(Default)]
struct Mood {
    refusing: Option<StoreError>,
    reads_held: bool,
    damaged: Option<String>,
    held: Vec<Box<dyn FnOnce() + Send>>,
}

impl FickleLog {
    /// Wraps another log, without faults.
    pub fn new(inner: Arc<dyn TaskLog>) -> Self {
        Self { inner, mood: Mutex::default() }
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses every write with this error; `None` accepts them again.
    pub fn refuse(&self, error: Option<StoreError>) {
        self.mood().refusing = error;
    }

    /// Makes this push configuration unreadable.
    pub fn damage(&self, config: &str) {
        self.mood().damaged = Some(config.to_owned());
    }

    /// Holds all reads back, or answers the held ones.
    pub fn hold_reads(&self, held: bool) {
        let mut mood = self.mood();
        mood.reads_held = held;
        let answers = if held { Vec::new() } else { std::mem::take(&mut mood.held) };
        drop(mood);
        answers.into_iter().for_each(|answer| answer());
    }

    fn write<T>(&self, write: impl FnOnce(&dyn TaskLog) -> Answer<T>) -> Answer<T> {
        match self.mood().refusing.clone() {
            Some(error) => Answer::now(Err(error)),
            None => write(&*self.inner),
        }
    }

    fn read<T: Send + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let mut mood = self.mood();
        if !mood.reads_held {
            return answer;
        }
        let found = at_once(answer);
        let (sender, receiver) = oneshot::channel();
        // The reader may have been dropped.
        mood.held.push(Box::new(move || drop(sender.send(found))));
        Answer::later(receiver)
    }
}

impl std::fmt::Debug for FickleLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FickleLog").field("refusing", &self.mood().refusing).finish_non_exhaustive()
    }
}

impl TaskLog for FickleLog {
    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.inner.stored_bytes(caller)
    }

    fn handed_over(&self, since: Stamp, limit: usize) -> Answer<Vec<TaskId>> {
        self.read(self.inner.handed_over(since, limit))
    }

    fn append(&self, step: Step) -> Answer<(), AppendError> {
        match self.mood().refusing.clone() {
            Some(error) => Answer::now(Err(error.into())),
            None => self.inner.append(step),
        }
    }

    fn load(&self, id: TaskId) -> Answer<Option<Stored>> {
        self.read(self.inner.load(id))
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> Answer<Vec<FrozenEvent>> {
        self.read(self.inner.events(id, after, limit))
    }

    fn list(&self, listing: Listing) -> Answer<Listed> {
        self.read(self.inner.list(listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Stored>> {
        self.read(self.inner.unfinished(after, limit))
    }

    fn owed_cancels(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<(TaskId, AgentName, OwedCancel)>> {
        self.read(self.inner.owed_cancels(after, limit))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> Answer<Vec<KeptRetry>> {
        self.read(self.inner.recent_retries(since, limit))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> Answer<Option<KeptRetry>> {
        self.read(self.inner.explicit_retry(key, now))
    }

    fn retry_key_before(&self, key: Digest) -> Answer<Option<Digest>> {
        self.read(self.inner.retry_key_before(key))
    }

    fn alias(&self, scope: &Scope, name: &str) -> Answer<Option<TaskId>> {
        self.read(self.inner.alias(scope, name))
    }

    fn aliases_of(&self, task: TaskId) -> Answer<Vec<String>> {
        self.read(self.inner.aliases_of(task))
    }

    fn owner(&self, task: TaskId) -> Answer<Option<Arc<Scope>>> {
        self.read(self.inner.owner(task))
    }

    fn note(&self, task: TaskId, notes: Vec<Note>) -> Answer<()> {
        self.read(self.inner.note(task, notes))
    }

    fn notes(&self, task: TaskId) -> Answer<Vec<Note>> {
        self.read(self.inner.notes(task))
    }

    fn agent_data(&self, task: TaskId) -> Answer<Option<Bytes>> {
        self.read(self.inner.agent_data(task))
    }

    fn pushes(&self, task: TaskId) -> Answer<Vec<PushConfig>> {
        self.read(self.inner.pushes(task))
    }

    fn last_stamp(&self) -> Answer<Stamp> {
        self.read(self.inner.last_stamp())
    }
}

impl Outbox for FickleLog {
    fn bell(&self) -> Arc<Bell> {
        self.inner.bell()
    }

    fn due(&self, reading: Reading) -> Answer<Due> {
        self.read(self.inner.due(reading))
    }

    fn next_due(&self, after: Timestamp) -> Answer<Option<Timestamp>> {
        self.read(self.inner.next_due(after))
    }

    fn receiver(&self, task: TaskId, config: &str) -> Answer<Option<Receiver>> {
        if self.mood().damaged.as_deref() == Some(config) {
            return Answer::now(Err(StoreError::Corrupt("unreadable push configuration".into())));
        }
        self.read(self.inner.receiver(task, config))
    }

    fn mark(&self, owed: &Owed, mark: Mark) -> Answer<bool> {
        self.write(|log| log.mark(owed, mark))
    }

    fn letters(&self, letters: Letters) -> Answer<Vec<Letter>> {
        self.read(self.inner.letters(letters))
    }

    fn letter(&self, number: i64) -> Answer<Option<Letter>> {
        self.read(self.inner.letter(number))
    }

    fn retry(&self, number: i64, now: Timestamp) -> Answer<bool> {
        self.write(|log| log.retry(number, now))
    }

    fn discard(&self, number: i64) -> Answer<bool> {
        self.write(|log| log.discard(number))
    }
}

impl Family for FickleLog {
    fn kin(&self, task: TaskId) -> Answer<Option<Kin>> {
        self.read(self.inner.kin(task))
    }

    fn child(&self, parent: TaskId, key: &str) -> Answer<Option<TaskId>> {
        self.read(self.inner.child(parent, key))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.read(self.inner.descendants(root, after, limit))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.read(self.inner.children(parent, after, limit))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        self.read(self.inner.orphans(after, limit))
    }

    fn toll(&self, root: TaskId) -> Answer<Toll> {
        self.read(self.inner.toll(root))
    }

    fn asking(&self, after: Option<Stamp>, limit: usize) -> Answer<Vec<Asking>> {
        self.read(self.inner.asking(after, limit))
    }
}
