//! Events: reports about a task. Serialised, an event is a v1.0 `StreamResponse`.

use crate::lenient::{is_false, null_default};
use crate::{Artifact, ContextId, Maybe, Message, Object, Task, TaskId, TaskRef, TaskState, TaskStatus};
use serde::{Deserialize, Serialize};

/// One entry of a task's log, or a direct reply without a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event<I = TaskId, C: Maybe = ContextId> {
    /// The whole task; the first event of every log.
    Task(Task<I, C>),
    /// A direct reply. Never part of a log.
    Message(Message),
    /// The status changed, or the agent reports progress in the same state.
    StatusUpdate(StatusUpdate<I, C>),
    /// An artifact, or a chunk of one.
    ArtifactUpdate(ArtifactUpdate<I, C>),
}

/// An event as it is on the wire; see [`crate::WireTask`].
pub type WireEvent = Event<TaskRef, Option<ContextId>>;

impl<I, C: Maybe> Event<I, C> {
    /// The state that this event puts the task in, if it has one.
    pub const fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::StatusUpdate(update) => Some(update.status.state),
            Self::Message(_) | Self::ArtifactUpdate(_) => None,
        }
    }
}

/// A status update of a task (`TaskStatusUpdateEvent`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate<I = TaskId, C: Maybe = ContextId> {
    /// The task that the update is about.
    #[serde(alias = "task_id")]
    pub task_id: I,
    /// The conversation of the task.
    #[serde(alias = "context_id", skip_serializing_if = "Maybe::is_absent")]
    pub context_id: C,
    /// The new status of the task.
    #[serde(deserialize_with = "C::read_status")]
    pub status: TaskStatus,
    /// Metadata of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// A new artifact or a chunk of one (`TaskArtifactUpdateEvent`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate<I = TaskId, C: Maybe = ContextId> {
    /// The task that the update is about.
    #[serde(alias = "task_id")]
    pub task_id: I,
    /// The conversation of the task.
    #[serde(alias = "context_id", skip_serializing_if = "Maybe::is_absent")]
    pub context_id: C,
    /// The artifact, or the chunk to append.
    pub artifact: Artifact,
    /// True: append the parts to the existing ones. False: create or replace the artifact.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "is_false")]
    pub append: bool,
    /// No more chunks follow for this artifact.
    #[serde(alias = "last_chunk", default, deserialize_with = "null_default", skip_serializing_if = "is_false")]
    pub last_chunk: bool,
    /// Metadata of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}
