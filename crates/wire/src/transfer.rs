//! Shows a task that was handed over, in the form that each reader understands.
//!
//! No version of A2A has a state for it, and a strict reader refuses a message with an unknown state. So the form
//! depends on the extensions that the reader has activated:
//!
//! | Activated | State | Where the task went |
//! |---|---|---|
//! | `urn:sabir:ext:handoff:v1` | completed: over, and no error | `metadata` of status message and task |
//! | the same with `:literal` | in 1.0 as JSON `TRANSFERRED`, elsewhere as above | also in `status.transfer` |
//! | neither | failed: "completed" would mean that all is done | the same metadata, and the text |
//!
//! The log has a state of its own. Encoders that do not know this module show it as completed, which is right for a
//! reader that has activated the extension. So only the other two rows need work here, and only for tasks that were
//! handed over.

use sabir_proto::transfer::TRANSFERRED;
use sabir_proto::{
    Event, FrozenEvent, FrozenTask, HANDOFF, HANDOFF_LITERAL, Message, Part, Reply, SendReply, Task, TaskState,
    TaskStatus, Transfer,
};
use serde_json::Value;

/// How far a reader understands handoffs, by the extensions it has activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffSupport {
    /// The reader has not activated the extension.
    Unaware,
    /// The reader has activated the extension.
    Aware,
    /// The reader has activated the extension in its literal form.
    Literal,
}

impl HandoffSupport {
    /// The support of a reader with these active extensions.
    pub fn of(active: &[String]) -> Self {
        let has = |uri: &str| active.iter().any(|active| active == uri);
        match (has(HANDOFF_LITERAL), has(HANDOFF)) {
            (true, _) => Self::Literal,
            (false, true) => Self::Aware,
            (false, false) => Self::Unaware,
        }
    }

    /// The states in our log that this reader sees as the state it filters by.
    pub fn stored_states(self, asked: TaskState) -> Vec<TaskState> {
        let shown = match self {
            Self::Unaware => TaskState::Failed,
            Self::Aware | Self::Literal => TaskState::Completed,
        };
        if asked == shown { vec![asked, TaskState::Transferred] } else { vec![asked] }
    }

    /// Converts a reply to the form for this reader.
    pub fn show<S>(self, reply: Reply<S>) -> Reply<S> {
        match reply {
            Reply::Sent(SendReply::Task(task, view)) => Reply::Sent(SendReply::Task(self.task(task), view)),
            Reply::Task(task, view) => Reply::Task(self.task(task), view),
            Reply::Tasks(mut page) => {
                page.tasks = page.tasks.into_iter().map(|task| self.task(task)).collect();
                Reply::Tasks(page)
            }
            other => other,
        }
    }

    /// Converts a task to the form for this reader.
    pub fn task(self, task: FrozenTask) -> FrozenTask {
        if task.state != TaskState::Transferred || self == Self::Aware {
            return task;
        }
        let Some(mut thawed) = task.thaw() else { return task };
        if self == Self::Literal {
            return literal_task(&thawed);
        }
        show_as_failed(&mut thawed.status);
        FrozenTask::freeze(&thawed)
    }

    /// Converts an event to the form for this reader.
    pub fn event(self, event: FrozenEvent) -> FrozenEvent {
        if event.state != Some(TaskState::Transferred) || self == Self::Aware {
            return event;
        }
        let Some(mut thawed) = event.thaw() else { return event };
        let status = match &mut thawed {
            Event::Task(task) => &mut task.status,
            Event::StatusUpdate(update) => &mut update.status,
            Event::Message(_) | Event::ArtifactUpdate(_) => return event,
        };
        if self == Self::Unaware {
            show_as_failed(status);
            return FrozenEvent { input: event.input, ..FrozenEvent::freeze(event.seq, &thawed) };
        }
        let member = if matches!(thawed, Event::Task(_)) { "task" } else { "statusUpdate" };
        let Ok(mut json) = serde_json::to_value(&thawed) else { return event };
        write_literal(&mut json[member]);
        let json = json.to_string().into_bytes().into();
        FrozenEvent { seq: event.seq, state: Some(TaskState::Completed), json, input: event.input }
    }
}

/// For a reader without the extension the task did not end well here, and the text says where it went.
fn show_as_failed(status: &mut TaskStatus) {
    status.state = TaskState::Failed;
    let said = status.message.as_ref().and_then(|message| Transfer::of_metadata(message.metadata.as_ref()));
    if let (Some(message), Some(transfer)) = (&mut status.message, said) {
        explain_transfer(message, &transfer);
    }
}

fn explain_transfer(message: &mut Message, transfer: &Transfer) {
    let words = format!("{} This client did not ask to follow handoffs ({HANDOFF}).", transfer.description());
    message.parts = vec![Part::text(words)];
}

/// Sets the state and the target as the literal form has them, in a task or an update.
fn write_literal(json: &mut Value) {
    let target = json["status"]["message"]["metadata"][HANDOFF]["transfer"].clone();
    json["status"]["state"] = TRANSFERRED.into();
    if !target.is_null() {
        json["status"]["transfer"] = target;
    }
}

/// Writes the literal form. History and artifacts come last, as in any frozen task, so that a view can cut them off.
fn literal_task(task: &Task) -> FrozenTask {
    let mut head = task.clone();
    let (history, artifacts) = (std::mem::take(&mut head.history), std::mem::take(&mut head.artifacts));
    let whole = FrozenTask::freeze(&Task { history, artifacts, ..head.clone() });
    let head = FrozenTask::freeze(&head);
    let Ok(mut json) = serde_json::from_slice::<Value>(&head.json) else { return whole };
    write_literal(&mut json);
    let mut bytes = json.to_string().into_bytes();
    bytes.pop();
    let at = |offset: u32| u32::try_from(bytes.len()).unwrap_or(u32::MAX) + (offset - whole.history_at);
    let (history_at, artifacts_at) = (at(whole.history_at), at(whole.artifacts_at));
    bytes.extend_from_slice(&whole.json[whole.history_at as usize..]);
    FrozenTask { json: bytes.into(), state: TaskState::Completed, history_at, artifacts_at }
}
