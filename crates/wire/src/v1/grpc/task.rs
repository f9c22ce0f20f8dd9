//! Tasks, their states, and their events in protobuf.

use super::message::{read_artifact, read_context, read_message, read_task_ref, write_artifact, write_message};
use super::value::{read_optional_struct, read_time, write_struct, write_time};
use crate::path::{MemberError, Path};
use crate::pb::lf_a2a_v1 as pb;
use crate::pb::lf_a2a_v1::stream_response::Payload;
use sabir_proto::{ArtifactUpdate, ContextId, Event, StatusUpdate, Task, TaskState, TaskStatus, WireEvent, WireTask};

pub(super) fn read_task(task: pb::Task, path: &Path<'_>) -> Result<WireTask, MemberError> {
    Ok(Task {
        id: read_task_ref(&task.id, &path.member("id"))?,
        context_id: read_optional_context(&task.context_id, &path.member("contextId"))?,
        status: read_status(task.status, &path.member("status"))?,
        metadata: read_optional_struct(task.metadata, &path.member("metadata"))?,
        history: path.member("history").each(task.history, read_message)?,
        artifacts: path.member("artifacts").each(task.artifacts, read_artifact)?,
    })
}

pub(super) fn write_task(task: WireTask) -> pb::Task {
    pb::Task {
        id: task.id.to_string(),
        context_id: write_context(task.context_id.as_ref()),
        status: Some(write_status(task.status)),
        artifacts: task.artifacts.into_iter().map(write_artifact).collect(),
        history: task.history.into_iter().map(write_message).collect(),
        metadata: task.metadata.as_ref().map(write_struct),
    }
}

fn read_status(status: Option<pb::TaskStatus>, path: &Path<'_>) -> Result<TaskStatus, MemberError> {
    let status = path.required(status)?;
    Ok(TaskStatus {
        state: read_their_state(status.state),
        message: status.message.map(|message| read_message(message, &path.member("message"))).transpose()?,
        timestamp: status.timestamp.map(|time| read_time(time, &path.member("timestamp"))).transpose()?,
    })
}

fn write_status(status: TaskStatus) -> pb::TaskStatus {
    pb::TaskStatus {
        state: write_state(status.state).into(),
        message: status.message.map(write_message),
        timestamp: status.timestamp.map(write_time),
    }
}

/// Reads a state to filter by; `None` for the enum's zero value, which means any state.
pub(super) fn read_filter(number: i32, path: &Path<'_>) -> Result<Option<TaskState>, MemberError> {
    let state = pb::TaskState::try_from(number).map_err(|_| path.error(format_args!("unknown task state {number}")))?;
    Ok(Some(read_state(state)).filter(|state| *state != TaskState::Unspecified))
}

/// Reads the state of another server's task; an unknown state is unspecified.
fn read_their_state(number: i32) -> TaskState {
    read_state(pb::TaskState::try_from(number).unwrap_or_default())
}

const fn read_state(state: pb::TaskState) -> TaskState {
    match state {
        pb::TaskState::Unspecified => TaskState::Unspecified,
        pb::TaskState::Submitted => TaskState::Submitted,
        pb::TaskState::Working => TaskState::Working,
        pb::TaskState::Completed => TaskState::Completed,
        pb::TaskState::Failed => TaskState::Failed,
        pb::TaskState::Canceled => TaskState::Canceled,
        pb::TaskState::InputRequired => TaskState::InputRequired,
        pb::TaskState::Rejected => TaskState::Rejected,
        pb::TaskState::AuthRequired => TaskState::AuthRequired,
    }
}

pub(super) const fn write_state(state: TaskState) -> pb::TaskState {
    match state {
        TaskState::Submitted => pb::TaskState::Submitted,
        TaskState::Working => pb::TaskState::Working,
        // Only we have `Transferred`; for a reader of 1.0 the work here is done.
        TaskState::Completed | TaskState::Transferred => pb::TaskState::Completed,
        TaskState::Failed => pb::TaskState::Failed,
        TaskState::Canceled => pb::TaskState::Canceled,
        TaskState::InputRequired => pb::TaskState::InputRequired,
        TaskState::Rejected => pb::TaskState::Rejected,
        TaskState::AuthRequired => pb::TaskState::AuthRequired,
        TaskState::Unspecified => pb::TaskState::Unspecified,
    }
}

pub(super) fn read_event(response: pb::StreamResponse, path: &Path<'_>) -> Result<WireEvent, MemberError> {
    let missing = || path.error("has exactly one of task, message, statusUpdate, artifactUpdate; this one has none");
    Ok(match response.payload.ok_or_else(missing)? {
        Payload::Task(task) => Event::Task(read_task(task, &path.member("task"))?),
        Payload::Message(message) => Event::Message(read_message(message, &path.member("message"))?),
        Payload::StatusUpdate(update) => {
            let path = path.member("statusUpdate");
            Event::StatusUpdate(StatusUpdate {
                task_id: read_task_ref(&update.task_id, &path.member("taskId"))?,
                context_id: read_optional_context(&update.context_id, &path.member("contextId"))?,
                status: read_status(update.status, &path.member("status"))?,
                metadata: read_optional_struct(update.metadata, &path.member("metadata"))?,
            })
        }
        Payload::ArtifactUpdate(update) => {
            let path = path.member("artifactUpdate");
            let artifact = path.member("artifact");
            Event::ArtifactUpdate(ArtifactUpdate {
                task_id: read_task_ref(&update.task_id, &path.member("taskId"))?,
                context_id: read_optional_context(&update.context_id, &path.member("contextId"))?,
                artifact: read_artifact(artifact.required(update.artifact)?, &artifact)?,
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: read_optional_struct(update.metadata, &path.member("metadata"))?,
            })
        }
    })
}

pub(super) fn write_event(event: WireEvent) -> pb::StreamResponse {
    let payload = match event {
        Event::Task(task) => Payload::Task(write_task(task)),
        Event::Message(message) => Payload::Message(write_message(message)),
        Event::StatusUpdate(update) => Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
            task_id: update.task_id.to_string(),
            context_id: write_context(update.context_id.as_ref()),
            status: Some(write_status(update.status)),
            metadata: update.metadata.as_ref().map(write_struct),
        }),
        Event::ArtifactUpdate(update) => Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
            task_id: update.task_id.to_string(),
            context_id: write_context(update.context_id.as_ref()),
            artifact: Some(write_artifact(update.artifact)),
            append: update.append,
            last_chunk: update.last_chunk,
            metadata: update.metadata.as_ref().map(write_struct),
        }),
    };
    pb::StreamResponse { payload: Some(payload) }
}

/// Reads a context id; proto3 has no absent strings, so an empty one is unset.
fn read_optional_context(text: &str, path: &Path<'_>) -> Result<Option<ContextId>, MemberError> {
    if text.is_empty() { Ok(None) } else { read_context(text, path).map(Some) }
}

fn write_context(context: Option<&ContextId>) -> String {
    context.map(ToString::to_string).unwrap_or_default()
}
