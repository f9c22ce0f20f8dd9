//! Tasks: a unit of work with a state, outputs and a history.

use crate::lenient::null_default;
use crate::{Artifact, ContextId, Message, Object, TaskId, Timestamp};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Made by us.
    pub id: TaskId,
    /// The conversation.
    pub context_id: ContextId,
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
