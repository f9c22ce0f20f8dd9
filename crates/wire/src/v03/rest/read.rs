//! The messages of 0.3 as they are read from JSON: camel case or snake case, enums by name or number, `null` for unset.
//!
//! Ids, roles, parts and times become canonical types while they are parsed, so that an error names their member.
//! Messages that can lose something have types of their own here, with a method `into_canonical`.

use super::super::grpc::read_push_in_reply;
use super::super::grpc::reply::ReceivedEvent;
use crate::losses::{LossKind, Losses};
use crate::path::{Path, non_empty};
use crate::tagged_json::part::unwrap_data;
use sabir_proto::lenient::{empty_none, from_text, int32, null_default, object, optional_object};
use sabir_proto::{
    self as proto, ArtifactId, ArtifactUpdate, Authentication, Content, ContextId, Event, Fault, Json, MessageId,
    Object, PushConfig, Role, SendConfiguration, SendMessage, StatusUpdate, TaskRef, TaskState, TaskStatus, Tenant,
    Timestamp, WireTask, decode_base64,
};
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An element of a list that must be an object; see [`object`] for the reason.
#[derive(Deserialize)]
#[serde(transparent, bound = "T: Deserialize<'de>")]
pub(super) struct ListObject<T>(#[serde(deserialize_with = "object")] pub(super) T);

/// Deserializes a text that must not be empty.
fn required_text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    from_text(d, |text| if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) })
}

/// `SendMessageRequest`, the body of a send.
#[derive(Deserialize)]
pub(super) struct SendMessageRequest {
    #[serde(alias = "request", deserialize_with = "object")]
    message: Message,
    #[serde(default, deserialize_with = "optional_object")]
    configuration: Option<Configuration>,
    #[serde(default)]
    metadata: Option<Object>,
}

impl SendMessageRequest {
    /// Whether the message has `parts` instead of `content`, the mark of the JSON-Schema shape.
    pub(super) const fn has_parts(&self) -> bool {
        self.message.parts.is_some() && self.message.content.is_none()
    }

    pub(super) fn into_canonical(self, losses: &mut Losses) -> SendMessage {
        SendMessage {
            tenant: Tenant::none(),
            message: self.message.into_canonical(),
            configuration: self
                .configuration
                .map(|configuration| configuration.into_canonical(losses))
                .unwrap_or_default(),
            metadata: self.metadata,
            alias: None,
            wants_task: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(alias = "accepted_output_modes", default, deserialize_with = "null_default")]
    accepted_output_modes: Vec<String>,
    /// Also accepted under the name it has in JSON-RPC.
    #[serde(
        alias = "push_notification",
        alias = "pushNotificationConfig",
        alias = "push_notification_config",
        default,
        deserialize_with = "optional_object"
    )]
    push_notification: Option<Push>,
    #[serde(alias = "history_length", default, deserialize_with = "int32")]
    history_length: Option<i32>,
    #[serde(default)]
    blocking: Option<bool>,
}

impl Configuration {
    fn into_canonical(self, losses: &mut Losses) -> SendConfiguration {
        let path = Path::Root.member("configuration");
        let path = path.member("taskPushNotificationConfig");
        SendConfiguration {
            accepted_output_modes: self.accepted_output_modes,
            task_push_notification_config: self.push_notification.map(|push| push.into_canonical(&path, losses)),
            // Zero is "no limit", as in the proto.
            history_length: self.history_length.filter(|n| *n != 0),
            // The JSON of protobuf leaves out a `false`, so clients of all SDKs that do not wait send no `blocking`. A
            // client that waits sets it, or sends no configuration at all.
            return_immediately: !self.blocking.unwrap_or(false),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    #[serde(alias = "message_id")]
    message_id: MessageId,
    #[serde(alias = "context_id", default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(alias = "task_id", default, deserialize_with = "empty_none")]
    task_id: Option<TaskRef>,
    role: Role,
    #[serde(default)]
    content: Option<Vec<Part>>,
    /// A member of the JSON-Schema shape.
    #[serde(default)]
    parts: Option<IgnoredAny>,
    #[serde(default)]
    metadata: Option<Object>,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<String>,
}

impl Message {
    pub(super) fn into_canonical(self) -> proto::Message {
        proto::Message {
            message_id: self.message_id,
            context_id: self.context_id,
            task_id: self.task_id,
            role: self.role,
            parts: self.content.unwrap_or_default().into_iter().map(|part| part.0).collect(),
            metadata: self.metadata,
            extensions: self.extensions,
            reference_task_ids: Vec::new(),
        }
    }
}

struct Part(proto::Part);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RestPartMembers {
            text: Option<String>,
            #[serde(default, deserialize_with = "optional_object")]
            file: Option<File>,
            #[serde(default, deserialize_with = "optional_object")]
            data: Option<Data>,
            metadata: Option<Object>,
        }
        // Only an object with this member: a data part without its inner `data` is refused rather than read as empty.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Data {
            #[serde(default)]
            data: Option<Object>,
        }
        let members: RestPartMembers = object(d)?;
        let part = match (members.text, members.file, members.data) {
            (Some(text), None, None) => proto::Part::text(text),
            (None, Some(file), None) => file.into_canonical().map_err(D::Error::custom)?,
            (None, None, Some(data)) => {
                let empty = || Json::parse("{}").map_err(D::Error::custom);
                proto::Part::data(data.data.map_or_else(empty, |object| Ok(object.as_json().clone()))?)
            }
            (None, None, None) => {
                return Err(D::Error::custom("a part has exactly one of text, file, data; this one has none"));
            }
            _ => return Err(D::Error::custom("a part has exactly one of text, file, data; this one has several")),
        };
        let mut part = proto::Part { metadata: members.metadata, ..part };
        unwrap_data(&mut part);
        Ok(Self(part))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(alias = "file_with_uri")]
    file_with_uri: Option<String>,
    #[serde(alias = "file_with_bytes")]
    file_with_bytes: Option<String>,
    #[serde(alias = "mime_type", default, deserialize_with = "empty_none")]
    mime_type: Option<String>,
    #[serde(default, deserialize_with = "empty_none")]
    name: Option<String>,
}

impl File {
    fn into_canonical(self) -> Result<proto::Part, &'static str> {
        let part = match (self.file_with_uri, self.file_with_bytes) {
            (Some(uri), None) => proto::Part::new(Content::Url(uri)),
            (None, Some(text)) => {
                proto::Part::new(Content::Raw(decode_base64(&text).map_err(|_| "fileWithBytes is not base64")?))
            }
            (None, None) => return Err("a file has exactly one of fileWithUri, fileWithBytes; this one has none"),
            (Some(_), Some(_)) => {
                return Err("a file has exactly one of fileWithUri, fileWithBytes; this one has both");
            }
        };
        Ok(proto::Part { media_type: self.mime_type, filename: self.name, ..part })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    #[serde(alias = "artifact_id")]
    artifact_id: ArtifactId,
    #[serde(default, deserialize_with = "empty_none")]
    name: Option<String>,
    #[serde(default, deserialize_with = "empty_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    parts: Vec<Part>,
    #[serde(default)]
    metadata: Option<Object>,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<String>,
}

impl Artifact {
    fn into_canonical(self) -> proto::Artifact {
        proto::Artifact {
            artifact_id: self.artifact_id,
            name: self.name,
            description: self.description,
            parts: self.parts.into_iter().map(|part| part.0).collect(),
            metadata: self.metadata,
            extensions: self.extensions,
        }
    }
}

#[derive(Deserialize)]
struct Status {
    #[serde(default, deserialize_with = "state")]
    state: State,
    #[serde(alias = "update", default, deserialize_with = "optional_object")]
    message: Option<Message>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
}

impl Status {
    fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> TaskStatus {
        let state = match self.state {
            State::Known(state) => state,
            // 0.3 writes its `unknown` like this.
            State::Unspecified => TaskState::Unspecified,
            State::Unknown => {
                losses.note(LossKind::State, path.member("state"));
                TaskState::Unspecified
            }
        };
        TaskStatus { state, message: self.message.map(Message::into_canonical), timestamp: self.timestamp }
    }
}

/// A state as it is read.
#[derive(Default)]
enum State {
    /// The enum's zero value.
    #[default]
    Unspecified,
    Known(TaskState),
    /// A name or number of the right form that 0.3 does not have.
    Unknown,
}

/// Deserializes a state by name or number.
fn state<'de, D: Deserializer<'de>>(d: D) -> Result<State, D::Error> {
    let text = Box::<RawValue>::deserialize(d)?;
    let name = text.get().trim_matches('"');
    match name {
        "null" | "0" | "" | "TASK_STATE_UNSPECIFIED" => Ok(State::Unspecified),
        "TASK_STATE_CANCELLED" => Ok(State::Known(TaskState::Canceled)),
        // Also reads the spelling of 1.0.
        _ => match TaskState::of_peer(name) {
            Some(TaskState::Unspecified | TaskState::Transferred) => Ok(State::Unknown),
            Some(state) => Ok(State::Known(state)),
            None => Err(D::Error::custom(format_args!("unknown task state {:.64}", text.get()))),
        },
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    id: TaskRef,
    #[serde(alias = "context_id", default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    status: Status,
    #[serde(default, deserialize_with = "null_default")]
    artifacts: Vec<ListObject<Artifact>>,
    #[serde(default, deserialize_with = "null_default")]
    history: Vec<ListObject<Message>>,
    #[serde(default)]
    metadata: Option<Object>,
}

impl Task {
    pub(super) fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> WireTask {
        proto::Task {
            id: self.id,
            context_id: self.context_id,
            status: self.status.into_canonical(&path.member("status"), losses),
            metadata: self.metadata,
            history: self.history.into_iter().map(|message| message.0.into_canonical()).collect(),
            artifacts: self.artifacts.into_iter().map(|artifact| artifact.0.into_canonical()).collect(),
        }
    }
}

/// `SendMessageResponse` and `StreamResponse`; the former has only the first two members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    #[serde(default, deserialize_with = "optional_object")]
    task: Option<Task>,
    #[serde(alias = "msg", default, deserialize_with = "optional_object")]
    message: Option<Message>,
    #[serde(alias = "status_update", default, deserialize_with = "optional_object")]
    status_update: Option<Update>,
    #[serde(alias = "artifact_update", default, deserialize_with = "optional_object")]
    artifact_update: Option<ArtifactChunk>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    #[serde(alias = "task_id")]
    task_id: TaskRef,
    #[serde(alias = "context_id", default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    status: Status,
    #[serde(default, deserialize_with = "null_default")]
    r#final: bool,
    #[serde(default)]
    metadata: Option<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactChunk {
    #[serde(alias = "task_id")]
    task_id: TaskRef,
    #[serde(alias = "context_id", default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    artifact: Artifact,
    #[serde(default, deserialize_with = "null_default")]
    append: bool,
    #[serde(alias = "last_chunk", default, deserialize_with = "null_default")]
    last_chunk: bool,
    #[serde(default)]
    metadata: Option<Object>,
}

impl Response {
    /// Converts to the canonical event. `None` unless exactly one member is set.
    pub(super) fn into_canonical(self, losses: &mut Losses) -> Option<ReceivedEvent> {
        Some(match (self.task, self.message, self.status_update, self.artifact_update) {
            (Some(task), None, None, None) => {
                ReceivedEvent::more(Event::Task(task.into_canonical(&Path::Root.member("task"), losses)))
            }
            (None, Some(message), None, None) => ReceivedEvent::last(Event::Message(message.into_canonical())),
            (None, None, Some(update), None) => {
                let path = Path::Root.member("statusUpdate");
                let event = Event::StatusUpdate(StatusUpdate {
                    task_id: update.task_id,
                    context_id: update.context_id,
                    status: update.status.into_canonical(&path.member("status"), losses),
                    metadata: update.metadata,
                });
                ReceivedEvent { event, last: update.r#final }
            }
            (None, None, None, Some(update)) => ReceivedEvent::more(Event::ArtifactUpdate(ArtifactUpdate {
                task_id: update.task_id,
                context_id: update.context_id,
                artifact: update.artifact.into_canonical(),
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: update.metadata,
            })),
            _ => return None,
        })
    }
}

/// `PushNotificationConfig`, as it is read.
#[derive(Deserialize)]
pub(super) struct Push {
    #[serde(default, deserialize_with = "empty_none")]
    id: Option<String>,
    #[serde(deserialize_with = "required_text")]
    url: String,
    #[serde(default, deserialize_with = "empty_none")]
    token: Option<String>,
    #[serde(default)]
    authentication: Option<AuthenticationIn>,
}

impl Push {
    pub(super) fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> PushConfig {
        if self.authentication.as_ref().is_some_and(|schemes| schemes.several) {
            losses.note(LossKind::PushAuthentication, path.member("authentication").member("scheme"));
        }
        let authentication = self.authentication.and_then(|schemes| schemes.first);
        PushConfig { id: self.id, url: self.url, token: self.token, authentication }
    }
}

/// `AuthenticationInfo`: its first scheme, and whether there are more.
struct AuthenticationIn {
    first: Option<Authentication>,
    several: bool,
}

impl<'de> Deserialize<'de> for AuthenticationIn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct AuthenticationMembers {
            #[serde(default, deserialize_with = "null_default")]
            schemes: Vec<String>,
            #[serde(default, deserialize_with = "empty_none")]
            credentials: Option<String>,
        }
        let AuthenticationMembers { schemes, credentials } = object(d)?;
        let mut schemes = schemes.into_iter().filter_map(non_empty);
        match (schemes.next(), credentials) {
            // The member is there but empty.
            (None, None) => Ok(Self { first: None, several: false }),
            (None, Some(_)) => Err(D::Error::custom("credentials need one of schemes")),
            (Some(scheme), credentials) => {
                let first = Some(Authentication { scheme, credentials });
                Ok(Self { first, several: schemes.next().is_some() })
            }
        }
    }
}

/// `TaskPushNotificationConfig`, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPush {
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(alias = "push_notification_config", deserialize_with = "object")]
    push_notification_config: Push,
}

impl TaskPush {
    /// Converts to the canonical configuration. Its id is its own, or else the one in its name.
    pub(super) fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> Result<(TaskRef, PushConfig), Fault> {
        let (task, id) = read_push_in_reply(&self.name).map_err(|wrong| wrong.in_reply())?;
        let mut config = self.push_notification_config.into_canonical(path, losses);
        config.id = config.id.or(id);
        Ok((task, config))
    }
}

/// `ListTaskPushNotificationConfigResponse`, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPushes {
    #[serde(default, deserialize_with = "null_default")]
    pub(super) configs: Vec<ListObject<TaskPush>>,
    #[serde(alias = "next_page_token", default, deserialize_with = "null_default")]
    pub(super) next_page_token: String,
}

/// `CreateTaskPushNotificationConfigRequest`, or the `TaskPushNotificationConfig` in it: the proto says that the body
/// is the latter, and SDKs send both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatePush {
    #[serde(alias = "config_id", default, deserialize_with = "empty_none")]
    config_id: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    config: Option<TaskPush>,
    #[serde(alias = "push_notification_config", default, deserialize_with = "optional_object")]
    push_notification_config: Option<Push>,
}

impl CreatePush {
    /// The id beside the configuration, and the configuration. Names in the body are ignored, because the server
    /// chooses them.
    pub(super) fn into_canonical(self, losses: &mut Losses) -> Result<(Option<String>, PushConfig), Fault> {
        let push = match (self.config, self.push_notification_config) {
            (Some(config), None) => config.push_notification_config,
            (None, Some(push)) => push,
            (None, None) => return Err(Fault::invalid("config", "is required")),
            (Some(_), Some(_)) => return Err(Fault::invalid("config", "is given twice")),
        };
        Ok((self.config_id, push.into_canonical(&Path::Root, losses)))
    }
}
