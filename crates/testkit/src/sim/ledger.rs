//! What clients were told, and the first thing that cannot be true.

use bytes::Bytes;
use sabir_proto::{FrozenEvent, FrozenTask, MessageId, Seq, Task, TaskId};
use sabir_store::Scope;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ledger of one run. Clones are the same ledger.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Clone, Default)]
pub(super) struct Book {
    /// The first broken promise that was noticed on the way.
    pub(super) violation: Option<(&'static str, String)>,
    /// Every event that was shown to anybody.
    pub(super) events: BTreeMap<(TaskId, Seq), FrozenEvent>,
    /// Every image that was shown, in the order in which each client saw them.
    pub(super) images: Vec<Image>,
    /// What each client did last.
    pub(super) doing: BTreeMap<usize, String>,
    /// Every message that was sent.
    pub(super) sends: BTreeMap<MessageId, Send>,
    /// Every task that answered to a name.
    pub(super) named: Vec<(Named, TaskId)>,
}

/// A name, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Named {
    pub(super) scope: Arc<Scope>,
    pub(super) name: Arc<str>,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} at {}", self.name, self.scope.caller.name(), self.scope.agent)
    }
}

/// A task as somebody saw it.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) client: usize,
    pub(super) task: TaskId,
    pub(super) json: Bytes,
    /// The event it was said to be the image at.
    pub(super) at: Option<Seq>,
}

/// A message that somebody sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Send {
    /// It had a key, so that however often it was sent it counts once.
    pub(super) keyed: bool,
    /// The task that answered it; `None` while nobody has.
    pub(super) answered: Option<TaskId>,
}

impl Ledger {
    pub(super) fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a broken promise; only the first one counts.
    pub(super) fn broken(&self, promise: &'static str, detail: String) {
        self.lock().violation.get_or_insert((promise, detail));
    }

    /// A client is about to send.
    pub(super) fn sending(&self, message: &MessageId, keyed: bool) {
        self.lock().sends.insert(message.clone(), Send { keyed, answered: None });
    }

    /// A client was told that this task has its message.
    pub(super) fn answered(&self, message: &MessageId, task: TaskId) {
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

    /// A client was told that this task has the name.
    pub(super) fn named(&self, named: Named, task: TaskId) {
        self.lock().named.push((named, task));
    }

    /// A client saw an event.
    pub(super) fn event(&self, task: TaskId, event: &FrozenEvent) {
        let mut book = self.lock();
        let known = book.events.entry((task, event.seq)).or_insert_with(|| event.clone());
        if known.json != event.json {
            let detail = format!("event {} of task {task} was shown in two versions", event.seq);
            book.violation.get_or_insert(("every_acknowledged_event_is_replayed_once_and_in_order", detail));
        }
    }

    /// A client saw a task.
    pub(super) fn image(&self, client: usize, task: TaskId, json: Bytes, at: Option<Seq>) {
        self.lock().images.push(Image { client, task, json, at });
    }

    /// The same, for an answer that is yet to be parsed.
    pub(super) fn answer(&self, client: usize, image: &FrozenTask) -> Option<Task> {
        let Some(task) = image.thaw() else {
            self.broken("every_image_was_true_once", format!("an image cannot be read: {:?}", image.json));
            return None;
        };
        self.image(client, task.id, image.json.clone(), None);
        Some(task)
    }
}
