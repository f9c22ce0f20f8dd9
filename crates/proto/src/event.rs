//! Events: what can be reported about a task. Serialised, an event is a v1.0 `StreamResponse`.

use crate::lenient::is_false;
use crate::{Artifact, ContextId, Message, Object, Task, TaskId, TaskState, TaskStatus};
use serde::{Deserialize, Serialize};

/// One entry of a task's log, or a direct reply without a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Event {
    /// The whole task: opens every log.
    Task(Task),
    /// A direct reply. Never part of a log.
    Message(Message),
    /// The status changed, or was confirmed with news.
    StatusUpdate(StatusUpdate),
    /// An artifact, or a chunk of one.
    ArtifactUpdate(ArtifactUpdate),
}

impl Event {
    /// The state this event puts the task in, if it says so.
    pub const fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::StatusUpdate(update) => Some(update.status.state),
            Self::Message(_) | Self::ArtifactUpdate(_) => None,
        }
    }
}

/// `TaskStatusUpdateEvent`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    /// The task.
    pub task_id: TaskId,
    /// Its conversation.
    pub context_id: ContextId,
    /// The new status.
    pub status: TaskStatus,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// `TaskArtifactUpdateEvent`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: TaskId,
    /// Its conversation.
    pub context_id: ContextId,
    /// The artifact, or the chunk.
    pub artifact: Artifact,
    /// True: the parts follow those already there. False: create or replace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub append: bool,
    /// No more chunks follow for this artifact.
    #[serde(default, skip_serializing_if = "is_false")]
    pub last_chunk: bool,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}
