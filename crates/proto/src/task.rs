//! Tasks: a unit of work with a state, outputs and a history.

use crate::lenient::null_default;
use crate::{Artifact, ContextId, Event, Message, Object, TaskId, TaskRef, Timestamp};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Where a task stands.
///
/// `Transferred` is ours: the task left for another server. No dialect's encoder may show it without saying so; the
/// log writes it as `TASK_STATE_TRANSFERRED`.
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
}

impl TaskState {
    /// Every state, in the order of the specification's numbers.
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

    /// Settled means settled: no event follows.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected | Self::Transferred => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    /// Waiting for the other side.
    pub const fn is_interrupted(self) -> bool {
        match self {
            Self::InputRequired | Self::AuthRequired => true,
            Self::Submitted
            | Self::Working
            | Self::Completed
            | Self::Failed
            | Self::Canceled
            | Self::Rejected
            | Self::Transferred => false,
        }
    }

    /// The number of the protobuf enum; 9, ours, for `Transferred`.
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
        }
    }

    /// The inverse of [`TaskState::number`].
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|s| i64::from(s.number()) == number)
    }

    /// The name in JSON.
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
        }
    }

    /// Reads a name, or a number as ProtoJSON allows.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name).or_else(|| Self::from_number(name.parse().ok()?))
    }
}

/// In words for people: `input-required`.
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

/// ProtoJSON readers take an enum by name or by number; both arrive at `read` as text.
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

/// The state of a task with the words that go with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Where the task stands.
    pub state: TaskState,
    /// What the agent says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
}

/// A task, whole.
///
/// Member order is part of how tasks are stored: what a caller may ask to leave out (history, artifacts) comes last, so
/// that leaving it out is a matter of cutting bytes; see [`crate::FrozenTask`].
///
/// The names in it are ours, unless said otherwise: a task of another server is a [`TheirTask`], and the two cannot be
/// mistaken for each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task<I = TaskId, C: Maybe = ContextId> {
    /// Its name.
    pub id: I,
    /// The conversation.
    #[serde(alias = "context_id", skip_serializing_if = "Maybe::is_absent")]
    pub context_id: C,
    /// Where it stands.
    pub status: TaskStatus,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// What was said, oldest first.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// What was produced.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A task as outsiders see it: with whatever name its server or its client gave it, and perhaps outside any
/// conversation. Every dialect is written from this form and read into it.
pub type TheirTask = Task<TaskRef, Option<ContextId>>;

/// A conversation that may be unknown.
pub trait Maybe {
    /// Whether there is none.
    fn is_absent(&self) -> bool;
}

impl Maybe for ContextId {
    fn is_absent(&self) -> bool {
        false
    }
}

impl Maybe for Option<ContextId> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<I, C: Maybe> Task<I, C> {
    /// Applies one event. `heard` is the message the event answers to, if it answers to one.
    pub fn apply(&mut self, event: Event<I, C>, heard: Option<Message>) {
        match event {
            Event::Task(whole) => *self = whole,
            Event::StatusUpdate(update) => {
                // A question is part of the conversation and stays in the history once it is answered; progress notes
                // are not.
                if self.status.state.is_interrupted()
                    && let Some(question) = self.status.message.take()
                {
                    self.history.push(question);
                }
                self.history.extend(heard);
                self.status = update.status;
            }
            Event::ArtifactUpdate(update) => {
                let known = self.artifacts.iter_mut().find(|a| a.artifact_id == update.artifact.artifact_id);
                match known {
                    Some(artifact) if update.append => artifact.append(update.artifact),
                    Some(artifact) => *artifact = update.artifact,
                    // A chunk whose beginning we never saw: better its end than nothing.
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
            assert_eq!(serde_json::from_str::<TaskState>(&state.number().to_string()).unwrap(), state);
        }
        for bad in ["0", "10", "-1", "1.5", "\"working\"", "\"TASK_STATE_UNSPECIFIED\"", "null", "[]"] {
            assert!(serde_json::from_str::<TaskState>(bad).is_err(), "{bad}");
        }
    }
}
