//! The messages of 0.3 as they are written to JSON: camel case, enum names, and only members of the proto. A file's
//! name is written to peers whose proto has it, and files in the encoding of the peer.
//!
//! [`LossRecorder`](super::super::grpc::LossRecorder) notes what is left out.

use super::super::grpc::{push_name, task_name};
use crate::tagged_json::part::{DataOut, metadata_with_mark};
use crate::v03::files::FileEncoding;
use sabir_proto::{
    self as proto, ArtifactId, Content, ContextId, Event, MessageId, Object, PushConfig, PushPage, Role, SendMessage,
    TaskRef, TaskState, TaskStatus, Timestamp, WireEvent, WireTask,
};
use serde::Serialize;
use std::borrow::Cow;

pub(super) fn json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("our types serialise");
}

pub(super) fn body(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    json(value, &mut out);
    out
}

/// `SendMessageRequest`, the body of a send.
#[derive(Serialize)]
pub(super) struct SendMessageRequest<'a> {
    message: Message<'a>,
    /// Always written, so that no server has to guess whether we wait.
    configuration: Configuration<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    accepted_output_modes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notification: Option<Push<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<i32>,
    blocking: bool,
}

impl<'a> SendMessageRequest<'a> {
    pub(super) fn of(send: &'a SendMessage, files: FileEncoding) -> Self {
        let configuration = &send.configuration;
        Self {
            message: Message::of(&send.message, files),
            configuration: Configuration {
                accepted_output_modes: &configuration.accepted_output_modes,
                push_notification: configuration.task_push_notification_config.as_ref().map(Push::of),
                history_length: configuration.history_length,
                blocking: !configuration.return_immediately,
            },
            metadata: send.metadata.as_ref(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    message_id: &'a MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskRef>,
    role: Role,
    content: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extensions: &'a [String],
}

impl<'a> Message<'a> {
    pub(super) fn of(message: &'a proto::Message, files: FileEncoding) -> Self {
        Self {
            message_id: &message.message_id,
            context_id: message.context_id.as_ref(),
            task_id: message.task_id.as_ref(),
            role: message.role,
            content: message.parts.iter().map(|part| Part::of(part, files)).collect(),
            metadata: message.metadata.as_ref(),
            extensions: &message.extensions,
        }
    }
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, Object>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_with_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_with_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct Data<'a> {
    data: DataOut<'a>,
}

impl<'a> Part<'a> {
    fn of(part: &'a proto::Part, files: FileEncoding) -> Self {
        let mime_type = part.media_type.as_deref();
        let name = part.filename.as_deref().filter(|_| files.has_names());
        let file = |file_with_uri, file_with_bytes| Some(File { file_with_uri, file_with_bytes, mime_type, name });
        let mut out = Self { text: None, file: None, data: None, metadata: metadata_with_mark(part) };
        match &part.content {
            Content::Text(text) => out.text = Some(text),
            Content::Url(url) => out.file = file(Some(url), None),
            Content::Raw(bytes) => out.file = file(None, Some(files.to_json(bytes))),
            Content::Data(json) => out.data = Some(Data { data: DataOut::of(json, part.metadata.as_ref()) }),
        }
        out
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact<'a> {
    artifact_id: &'a ArtifactId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parts: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extensions: &'a [String],
}

impl<'a> Artifact<'a> {
    fn of(artifact: &'a proto::Artifact, files: FileEncoding) -> Self {
        Self {
            artifact_id: &artifact.artifact_id,
            name: artifact.name.as_deref(),
            description: artifact.description.as_deref(),
            parts: artifact.parts.iter().map(|part| Part::of(part, files)).collect(),
            metadata: artifact.metadata.as_ref(),
            extensions: &artifact.extensions,
        }
    }
}

#[derive(Serialize)]
pub(super) struct Status<'a> {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Timestamp>,
}

impl<'a> Status<'a> {
    fn of(status: &'a TaskStatus, files: FileEncoding) -> Self {
        Self {
            state: state(status.state),
            message: status.message.as_ref().map(|message| Message::of(message, files)),
            timestamp: status.timestamp,
        }
    }
}

const fn state(state: TaskState) -> &'static str {
    match state {
        // Spelled with two Ls here, with one in 1.0.
        TaskState::Canceled => "TASK_STATE_CANCELLED",
        // Only we have `Transferred`; for a reader of 0.3 the work here is done.
        TaskState::Transferred => TaskState::Completed.name(),
        TaskState::Submitted
        | TaskState::Working
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::InputRequired
        | TaskState::Rejected
        | TaskState::AuthRequired
        | TaskState::Unspecified => state.name(),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    id: &'a TaskRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
    status: Status<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<Artifact<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
}

impl<'a> Task<'a> {
    pub(super) fn of(task: &'a WireTask, files: FileEncoding) -> Self {
        Self {
            id: &task.id,
            context_id: task.context_id.as_ref(),
            status: Status::of(&task.status, files),
            artifacts: task.artifacts.iter().map(|artifact| Artifact::of(artifact, files)).collect(),
            history: task.history.iter().map(|message| Message::of(message, files)).collect(),
            metadata: task.metadata.as_ref(),
        }
    }
}

/// `SendMessageResponse` and `StreamResponse`; the former has only the first two variants.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Response<'a> {
    Task(Task<'a>),
    Message(Message<'a>),
    StatusUpdate {
        task_id: &'a TaskRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_id: Option<&'a ContextId>,
        status: Status<'a>,
        /// Also written if it is false, because the JSON Schema of 0.3 requires it.
        r#final: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    },
    ArtifactUpdate {
        task_id: &'a TaskRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_id: Option<&'a ContextId>,
        artifact: Artifact<'a>,
        #[serde(skip_serializing_if = "proto::lenient::is_false")]
        append: bool,
        #[serde(skip_serializing_if = "proto::lenient::is_false")]
        last_chunk: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    },
}

impl<'a> Response<'a> {
    pub(super) fn of(event: &'a WireEvent, last: bool, files: FileEncoding) -> Self {
        match event {
            Event::Task(task) => Self::Task(Task::of(task, files)),
            Event::Message(message) => Self::Message(Message::of(message, files)),
            Event::StatusUpdate(update) => Self::StatusUpdate {
                task_id: &update.task_id,
                context_id: update.context_id.as_ref(),
                status: Status::of(&update.status, files),
                r#final: last,
                metadata: update.metadata.as_ref(),
            },
            Event::ArtifactUpdate(update) => Self::ArtifactUpdate {
                task_id: &update.task_id,
                context_id: update.context_id.as_ref(),
                artifact: Artifact::of(&update.artifact, files),
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: update.metadata.as_ref(),
            },
        }
    }
}

/// `PushNotificationConfig`, as it is written.
#[derive(Serialize)]
struct Push<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication<'a>>,
}

#[derive(Serialize)]
struct Authentication<'a> {
    schemes: [&'a str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<&'a str>,
}

impl<'a> Push<'a> {
    fn of(config: &'a PushConfig) -> Self {
        Self {
            id: config.id.as_deref(),
            url: &config.url,
            token: config.token.as_deref(),
            authentication: config.authentication.as_ref().map(|authentication| Authentication {
                schemes: [&authentication.scheme],
                credentials: authentication.credentials.as_deref(),
            }),
        }
    }
}

/// `TaskPushNotificationConfig`, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPush<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    push_notification_config: Push<'a>,
}

impl<'a> TaskPush<'a> {
    pub(super) fn of(task: &TaskRef, config: &'a PushConfig) -> Self {
        Self { name: Some(push_name(task, config.id.as_deref())), push_notification_config: Push::of(config) }
    }
}

/// `ListTaskPushNotificationConfigResponse`, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPushes<'a> {
    configs: Vec<TaskPush<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    next_page_token: &'a str,
}

impl<'a> TaskPushes<'a> {
    pub(super) fn of(task: &TaskRef, page: &'a PushPage) -> Self {
        Self {
            configs: page.configs.iter().map(|config| TaskPush::of(task, config)).collect(),
            next_page_token: &page.next_page_token,
        }
    }
}

/// `CreateTaskPushNotificationConfigRequest`, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatePush<'a> {
    parent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_id: Option<&'a str>,
    config: TaskPush<'a>,
}

impl<'a> CreatePush<'a> {
    pub(super) fn of(task: &TaskRef, config: &'a PushConfig) -> Self {
        let id = config.id.as_deref();
        let name = id.map(|id| push_name(task, Some(id)));
        let config = TaskPush { name, push_notification_config: Push::of(config) };
        Self { parent: task_name(task), config_id: id, config }
    }
}
