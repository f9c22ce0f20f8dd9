//! What clients have observed, and the first contradiction in it.

use bytes::Bytes;
use sabir_proto::{FrozenEvent, FrozenTask, MessageId, Seq, Task, TaskId};
use sabir_store::Scope;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The observations of one run. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations(Arc<Mutex<ObservationData>>);

#[derive(Debug, Clone, Default)]
pub(super) struct ObservationData {
    /// The first broken promise noticed during the run.
    pub(super) violation: Option<(&'static str, String)>,
    /// Every event that a client has received.
    pub(super) events: BTreeMap<(TaskId, Seq), FrozenEvent>,
    /// Every task image that a client has received, in the order of each client.
    pub(super) images: Vec<ObservedImage>,
    /// The last action of each client.
    pub(super) last_actions: BTreeMap<usize, String>,
    /// Every message that was sent.
    pub(super) sends: BTreeMap<MessageId, SentMessage>,
    /// Every task that was returned for an alias.
    pub(super) named: Vec<(OwnedAlias, TaskId)>,
}

/// An alias and its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OwnedAlias {
    pub(super) scope: Arc<Scope>,
    pub(super) name: Arc<str>,
}

impl std::fmt::Display for OwnedAlias {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} at {}", self.name, self.scope.caller.name(), self.scope.agent)
    }
}

/// A task image that a client has received.
#[derive(Debug, Clone)]
pub(super) struct ObservedImage {
    pub(super) client: usize,
    pub(super) task: TaskId,
    pub(super) json: Bytes,
    /// The event number that came with the image.
    pub(super) at: Option<Seq>,
}

/// A message that a client has sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentMessage {
    /// Whether it had a retry key, so that all its copies count once.
    pub(super) keyed: bool,
    /// The task that answered it, if one has.
    pub(super) answered: Option<TaskId>,
}

impl Observations {
    pub(super) fn lock(&self) -> MutexGuard<'_, ObservationData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a broken promise; only the first one counts.
    pub(super) fn record_violation(&self, promise: &'static str, detail: String) {
        self.lock().violation.get_or_insert((promise, detail));
    }

    /// Records that a client is about to send.
    pub(super) fn record_send(&self, message: &MessageId, keyed: bool) {
        self.lock().sends.insert(message.clone(), SentMessage { keyed, answered: None });
    }

    /// Records the task that answered a message.
    pub(super) fn record_answer(&self, message: &MessageId, task: TaskId) {
        let mut book = self.lock();
        let Some(send) = book.sends.get_mut(message) else { return };
        match send.answered.replace(task) {
            Some(before) if before != task => {
                let detail = format!("message {message} was answered by task {before} and then by task {task}");
                book.violation.get_or_insert(("a_retried_send_makes_one_task", detail));
            }
            _ => {}
        }
    }

    /// Records the task that was returned for an alias.
    pub(super) fn record_alias(&self, named: OwnedAlias, task: TaskId) {
        self.lock().named.push((named, task));
    }

    /// Records an event that a client received.
    pub(super) fn record_event(&self, task: TaskId, event: &FrozenEvent) {
        let mut book = self.lock();
        let known = book.events.entry((task, event.seq)).or_insert_with(|| event.clone());
        if known.json != event.json {
            let detail = format!("event {} of task {task} was shown in two versions", event.seq);
            book.violation.get_or_insert(("every_acknowledged_event_is_replayed_once_and_in_order", detail));
        }
    }

    /// Records a task image that a client received.
    pub(super) fn record_image(&self, client: usize, task: TaskId, json: Bytes, at: Option<Seq>) {
        self.lock().images.push(ObservedImage { client, task, json, at });
    }

    /// Records the image in an answer and parses it.
    pub(super) fn record_image_of_answer(&self, client: usize, image: &FrozenTask) -> Option<Task> {
        let Some(task) = image.thaw() else {
            self.record_violation("every_image_was_true_once", format!("an image cannot be read: {:?}", image.json));
            return None;
        };
        self.record_image(client, task.id, image.json.clone(), None);
        Some(task)
    }
}
