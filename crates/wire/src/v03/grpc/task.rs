//! Tasks, their states, and their events in protobuf.

use super::message::{
    read_artifact, read_context, read_message, read_task_ref, write_artifact, write_context, write_message,
};
use super::reply::ReceivedEvent;
use crate::losses::{LossKind, Losses};
use crate::path::{MemberError, Path};
use crate::pb::a2a_v03 as pb;
use crate::v1::grpc::value::{read_optional_struct, read_time, write_struct, write_time};
use pb::stream_response::Payload;
use sabir_proto::{ArtifactUpdate, Event, StatusUpdate, Task, TaskState, TaskStatus, WireEvent, WireTask};

pub(super) fn read_task(task: pb::Task, path: &Path<'_>, losses: &mut Losses) -> Result<WireTask, MemberError> {
    Ok(Task {
        id: read_task_ref(&task.id, &path.member("id"))?,
        context_id: read_context(&task.context_id, &path.member("contextId"))?,
        status: read_status(task.status, &path.member("status"), losses)?,
        metadata: read_optional_struct(task.metadata, &path.member("metadata"))?,
        history: path.member("history").each(task.history, read_message)?,
        artifacts: path.member("artifacts").each(task.artifacts, read_artifact)?,
    })
}

pub(super) fn write_task(task: &WireTask) -> pb::Task {
    pb::Task {
        id: task.id.to_string(),
        context_id: write_context(task.context_id.as_ref()),
        status: Some(write_status(&task.status)),
        artifacts: task.artifacts.iter().map(write_artifact).collect(),
        history: task.history.iter().map(write_message).collect(),
        metadata: task.metadata.as_ref().map(write_struct),
    }
}

fn read_status(
    status: Option<pb::TaskStatus>,
    path: &Path<'_>,
    losses: &mut Losses,
) -> Result<TaskStatus, MemberError> {
    let status = path.required(status)?;
    Ok(TaskStatus {
        state: read_state(status.state, &path.member("state"), losses),
        message: status.update.map(|message| read_message(message, &path.member("message"))).transpose()?,
        timestamp: status.timestamp.map(|time| read_time(time, &path.member("timestamp"))).transpose()?,
    })
}

fn write_status(status: &TaskStatus) -> pb::TaskStatus {
    pb::TaskStatus {
        state: write_state(status.state).into(),
        update: status.message.as_ref().map(write_message),
        timestamp: status.timestamp.map(write_time),
    }
}

fn read_state(number: i32, path: &Path<'_>, losses: &mut Losses) -> TaskState {
    let state = pb::TaskState::try_from(number).unwrap_or_else(|_| {
        losses.note(LossKind::State, path);
        pb::TaskState::Unspecified
    });
    match state {
        // 0.3 writes its `unknown` like this.
        pb::TaskState::Unspecified => TaskState::Unspecified,
        pb::TaskState::Submitted => TaskState::Submitted,
        pb::TaskState::Working => TaskState::Working,
        pb::TaskState::Completed => TaskState::Completed,
        pb::TaskState::Failed => TaskState::Failed,
        pb::TaskState::Cancelled => TaskState::Canceled,
        pb::TaskState::InputRequired => TaskState::InputRequired,
        pb::TaskState::Rejected => TaskState::Rejected,
        pb::TaskState::AuthRequired => TaskState::AuthRequired,
    }
}

const fn write_state(state: TaskState) -> pb::TaskState {
    match state {
        TaskState::Submitted => pb::TaskState::Submitted,
        TaskState::Working => pb::TaskState::Working,
        // Only we have `Transferred`; for a reader of 0.3 the work here is done.
        TaskState::Completed | TaskState::Transferred => pb::TaskState::Completed,
        TaskState::Failed => pb::TaskState::Failed,
        TaskState::Canceled => pb::TaskState::Cancelled,
        TaskState::InputRequired => pb::TaskState::InputRequired,
        TaskState::Rejected => pb::TaskState::Rejected,
        TaskState::AuthRequired => pb::TaskState::AuthRequired,
        TaskState::Unspecified => pb::TaskState::Unspecified,
    }
}

pub(super) fn read_event(
    response: pb::StreamResponse,
    path: &Path<'_>,
    losses: &mut Losses,
) -> Result<ReceivedEvent, MemberError> {
    let missing = || path.error("has exactly one of task, message, statusUpdate, artifactUpdate; this one has none");
    Ok(match response.payload.ok_or_else(missing)? {
        Payload::Task(task) => ReceivedEvent::more(Event::Task(read_task(task, &path.member("task"), losses)?)),
        Payload::Msg(message) => ReceivedEvent::last(Event::Message(read_message(message, &path.member("message"))?)),
        Payload::StatusUpdate(update) => {
            let path = path.member("statusUpdate");
            let event = Event::StatusUpdate(StatusUpdate {
                task_id: read_task_ref(&update.task_id, &path.member("taskId"))?,
                context_id: read_context(&update.context_id, &path.member("contextId"))?,
                status: read_status(update.status, &path.member("status"), losses)?,
                metadata: read_optional_struct(update.metadata, &path.member("metadata"))?,
            });
            ReceivedEvent { event, last: update.r#final }
        }
        Payload::ArtifactUpdate(update) => {
            let path = path.member("artifactUpdate");
            let artifact = path.member("artifact");
            ReceivedEvent::more(Event::ArtifactUpdate(ArtifactUpdate {
                task_id: read_task_ref(&update.task_id, &path.member("taskId"))?,
                context_id: read_context(&update.context_id, &path.member("contextId"))?,
                artifact: read_artifact(artifact.required(update.artifact)?, &artifact)?,
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: read_optional_struct(update.metadata, &path.member("metadata"))?,
            }))
        }
    })
}

pub(super) fn write_event(event: &WireEvent, last: bool) -> pb::StreamResponse {
    let payload = match event {
        Event::Task(task) => Payload::Task(write_task(task)),
        Event::Message(message) => Payload::Msg(write_message(message)),
        Event::StatusUpdate(update) => Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
            task_id: update.task_id.to_string(),
            context_id: write_context(update.context_id.as_ref()),
            status: Some(write_status(&update.status)),
            r#final: last,
            metadata: update.metadata.as_ref().map(write_struct),
        }),
        Event::ArtifactUpdate(update) => Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
            task_id: update.task_id.to_string(),
            context_id: write_context(update.context_id.as_ref()),
            artifact: Some(write_artifact(&update.artifact)),
            append: update.append,
            last_chunk: update.last_chunk,
            metadata: update.metadata.as_ref().map(write_struct),
        }),
    };
    pb::StreamResponse { payload: Some(payload) }
}
