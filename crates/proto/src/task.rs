//! Tasks: a unit of work with a state, outputs and a history.

use crate::lenient::{null_default, object};
use crate::{
    Artifact, ContextId, Event, Gap, HANDOFF, Json, Message, Object, TaskId, TaskRef, Timestamp, Transfer,
    direct_message, transfer,
};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The state of a task.
///
/// `Transferred` is an addition of ours: the task was handed over to another server. Encoders of dialects must
/// translate it; the log writes it as `TASK_STATE_TRANSFERRED`.
///
/// `Unspecified` is never a state of our own tasks: another server sends it, or sends a state that we do not know. Such
/// a task is neither settled nor interrupted, so a waiting client keeps waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum TaskState {
    Submitted,
    Working,
    Completed,
    Failed,
    Canceled,
    InputRequired,
    Rejected,
    AuthRequired,
    Transferred,
    Unspecified,
}

impl TaskState {
    /// Every state of our own tasks, in the order of the specification's numbers.
    pub const ALL: [Self; 9] = [
        Self::Submitted,
        Self::Working,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::InputRequired,
        Self::Rejected,
        Self::AuthRequired,
        Self::Transferred,
    ];

    /// Whether the state is final: no event follows.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected | Self::Transferred => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired | Self::Unspecified => false,
        }
    }

    /// Whether the task waits for input or authorization from the caller.
    pub const fn is_interrupted(self) -> bool {
        match self {
            Self::InputRequired | Self::AuthRequired => true,
            Self::Submitted
            | Self::Working
            | Self::Completed
            | Self::Failed
            | Self::Canceled
            | Self::Rejected
            | Self::Transferred
            | Self::Unspecified => false,
        }
    }

    /// The number in the protobuf enum; 9, which is ours, for `Transferred`.
    pub const fn number(self) -> u8 {
        match self {
            Self::Submitted => 1,
            Self::Working => 2,
            Self::Completed => 3,
            Self::Failed => 4,
            Self::Canceled => 5,
            Self::InputRequired => 6,
            Self::Rejected => 7,
            Self::AuthRequired => 8,
            Self::Transferred => 9,
            Self::Unspecified => 0,
        }
    }

    /// The inverse of [`TaskState::number`], for states of our own tasks.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|s| i64::from(s.number()) == number)
    }

    /// The name in JSON, such as `TASK_STATE_WORKING`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submitted => "TASK_STATE_SUBMITTED",
            Self::Working => "TASK_STATE_WORKING",
            Self::Completed => "TASK_STATE_COMPLETED",
            Self::Failed => "TASK_STATE_FAILED",
            Self::Canceled => "TASK_STATE_CANCELED",
            Self::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            Self::Rejected => "TASK_STATE_REJECTED",
            Self::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
            Self::Transferred => "TASK_STATE_TRANSFERRED",
            Self::Unspecified => "TASK_STATE_UNSPECIFIED",
        }
    }

    /// Parses the name of a state of our own tasks, or its number as ProtoJSON allows. 9 is refused, because only we
    /// use it.
    pub fn from_name(name: &str) -> Option<Self> {
        let by_number = || Self::from_number(name.parse().ok()?).filter(|state| *state != Self::Transferred);
        Self::ALL.into_iter().find(|s| s.name() == name).or_else(by_number)
    }

    /// Parses the state that another server sends, by name or number: an unknown state is `Unspecified`. `None` for a
    /// text of another form, such as a word of another protocol version.
    pub fn of_peer(name: &str) -> Option<Self> {
        let is_theirs = name.starts_with("TASK_STATE_") || name.is_empty() || name.parse::<i64>().is_ok();
        Self::from_name(name).or_else(|| is_theirs.then_some(Self::Unspecified))
    }
}

/// The form for people, such as `input-required`.
impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::InputRequired => "input-required",
            Self::Rejected => "rejected",
            Self::AuthRequired => "auth-required",
            Self::Transferred => "transferred",
            Self::Unspecified => "unspecified",
        })
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TaskState {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        enum_name(d, |name| Self::from_name(name).ok_or_else(|| format!("unknown task state {name:?}")))
    }
}

/// ProtoJSON readers accept an enum by name or by number; `read` gets both as text.
pub(crate) fn enum_name<'de, D: Deserializer<'de>, T>(
    d: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct NameVisitor<F>(F);
    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for NameVisitor<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an enum value by its name")
        }
        fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
            (self.0)(name).map_err(E::custom)
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            (self.0)(&number.to_string()).map_err(E::custom)
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            (self.0)(&number.to_string()).map_err(E::custom)
        }
        // `null` is how ProtoJSON writes the zero value.
        fn visit_unit<E: Error>(self) -> Result<T, E> {
            (self.0)("0").map_err(E::custom)
        }
    }
    d.deserialize_any(NameVisitor(read))
}

/// The state of a task, with a message about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The state of the task.
    pub state: TaskState,
    /// The message of the agent about the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// A complete task.
///
/// The member order is part of the storage format: the members that a caller may leave out (history, artifacts) come
/// last, so that leaving them out cuts bytes off the end; see [`crate::FrozenTask`].
///
/// By default the ids are those of this server. A task of another server is a [`WireTask`], a different type, so the
/// two cannot be confused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task<I = TaskId, C: Maybe = ContextId> {
    /// The id, unique on its server.
    pub id: I,
    /// The conversation of the task.
    #[serde(alias = "context_id", skip_serializing_if = "Maybe::is_absent")]
    pub context_id: C,
    /// The status of the task.
    #[serde(deserialize_with = "C::read_status")]
    pub status: TaskStatus,
    /// Metadata of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// The messages of the task, oldest first.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// The outputs of the task.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A task as it is on the wire: with an id of any server or client, and perhaps without a context. Every dialect
/// encodes this form and decodes into it.
pub type WireTask = Task<TaskRef, Option<ContextId>>;

/// A context id that may be absent; it distinguishes wire tasks from our own tasks.
pub trait Maybe {
    /// Whether the context id is absent.
    fn is_absent(&self) -> bool;

    /// Deserialises the status of a task with such a context id.
    fn read_status<'de, D: Deserializer<'de>>(d: D) -> Result<TaskStatus, D::Error>;
}

impl Maybe for ContextId {
    fn is_absent(&self) -> bool {
        false
    }

    fn read_status<'de, D: Deserializer<'de>>(d: D) -> Result<TaskStatus, D::Error> {
        TaskStatus::deserialize(d)
    }
}

impl Maybe for Option<ContextId> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn read_status<'de, D: Deserializer<'de>>(d: D) -> Result<TaskStatus, D::Error> {
        /// The same members, but the state may be unknown to us, and ProtoJSON leaves out the unspecified state.
        #[derive(Deserialize)]
        struct WireStatus {
            #[serde(default = "unspecified", deserialize_with = "their_state")]
            state: TaskState,
            #[serde(default)]
            message: Option<Message>,
            #[serde(default)]
            timestamp: Option<Timestamp>,
            /// The target of a handoff, in the literal form of the extension.
            #[serde(default)]
            transfer: Option<Json>,
        }
        let WireStatus { state, message, timestamp, transfer } = object(d)?;
        let mut status = TaskStatus { state, message, timestamp };
        if let Some(Ok(transfer)) = transfer.map(|transfer| transfer.read::<Transfer>()) {
            transfer.add_to_status(&mut status);
        }
        Ok(status)
    }
}

const fn unspecified() -> TaskState {
    TaskState::Unspecified
}

fn their_state<'de, D: Deserializer<'de>>(d: D) -> Result<TaskState, D::Error> {
    enum_name(d, |name| match name {
        transfer::TRANSFERRED => Ok(TaskState::Transferred),
        name => TaskState::of_peer(name).ok_or_else(|| format!("unknown task state {name:?}")),
    })
}

impl<I, C: Maybe> Task<I, C> {
    /// Copies the target of a handoff into the metadata of the task, where it stays readable when the history is cut.
    fn copy_transfer_to_metadata(&mut self) {
        if self.status.state != TaskState::Transferred {
            return;
        }
        let said = self.status.message.as_ref().and_then(|message| message.metadata.as_ref()?.get(HANDOFF));
        if let Some(said) = said {
            self.metadata = Some(transfer::with_member(self.metadata.as_ref(), HANDOFF, said));
        }
    }

    /// The target of the handoff, if the task was handed over.
    pub fn transfer(&self) -> Option<Transfer> {
        Transfer::of(self.status.state, self.status.message.as_ref(), self.metadata.as_ref())
    }

    /// Applies one event. `heard` is the caller's message that the event answers, if there is one.
    pub fn apply(&mut self, event: Event<I, C>, heard: Option<Message>) {
        match event {
            Event::Task(whole) => *self = whole,
            Event::StatusUpdate(update) => {
                // A question stays in the history after its answer, because it is part of the conversation; progress
                // notes do not.
                if self.status.state.is_interrupted()
                    && let Some(question) = self.status.message.take()
                {
                    self.history.push(question);
                }
                self.history.extend(heard);
                if let Some(gap) = Gap::of(update.metadata.as_ref()) {
                    self.metadata = gap.put(self.metadata.as_ref());
                }
                if direct_message::is_marked(update.metadata.as_ref()) {
                    self.metadata = direct_message::mark(self.metadata.as_ref());
                }
                self.status = update.status;
                self.copy_transfer_to_metadata();
            }
            Event::ArtifactUpdate(update) => {
                let known = self.artifacts.iter_mut().find(|a| a.artifact_id == update.artifact.artifact_id);
                match known {
                    Some(artifact) if update.append => artifact.append(update.artifact),
                    Some(artifact) => *artifact = update.artifact,
                    // The start of this artifact is missing; the end alone is better than nothing.
                    None => self.artifacts.push(update.artifact),
                }
            }
            // A direct reply belongs to no task.
            Event::Message(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_by_name_and_number() {
        for state in TaskState::ALL {
            assert_eq!(serde_json::from_str::<TaskState>(&serde_json::to_string(&state).unwrap()).unwrap(), state);
        }
        for state in &TaskState::ALL[..8] {
            assert_eq!(serde_json::from_str::<TaskState>(&state.number().to_string()).unwrap(), *state);
        }
        for bad in ["0", "9", "10", "-1", "1.5", "\"working\"", "\"TASK_STATE_UNSPECIFIED\"", "null", "[]"] {
            assert!(serde_json::from_str::<TaskState>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_others_what_we_do_not_know_is_unspecified() {
        let task = |state: &str| {
            let task = serde_json::from_str::<WireTask>(&format!(r#"{{"id":"t","status":{{{state}}}}}"#));
            task.map(|task| task.status.state)
        };
        for state in ["0", "9", "10", "-1", "null", "\"\"", "\"TASK_STATE_UNSPECIFIED\"", "\"TASK_STATE_PAUSED\""] {
            assert_eq!(task(&format!(r#""state":{state}"#)).unwrap(), TaskState::Unspecified, "{state}");
        }
        assert_eq!(task("").unwrap(), TaskState::Unspecified, "ProtoJSON leaves the zero value out");
        for bad in ["\"working\"", "1.5", "[]", "{}"] {
            assert!(task(&format!(r#""state":{bad}"#)).is_err(), "{bad}");
        }
        let ours =
            r#"{"id":"018bcfe5-687b-7000-8000-000000000000","contextId":"c","status":{"state":"TASK_STATE_PAUSED"}}"#;
        assert!(serde_json::from_str::<Task>(ours).is_err());
        assert!(serde_json::from_str::<Task>(&ours.replace("PAUSED", "WORKING")).is_ok());
    }
}
