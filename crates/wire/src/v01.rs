//! A2A 0.1 as JSON-RPC: `tasks/send`, `tasks/sendSubscribe`, task ids chosen by the client, sessions, artifacts by
//! index.

use crate::decoded_request::{AnswerForm, AnswerKind, DecodedCall};
use crate::jsonrpc::read_params;
use crate::path::{MemberError, Path};
use crate::tagged_json::message::{self, MessageIn, MessageOut};
use crate::tagged_json::push::TaggedPushConfig;
use crate::tagged_json::send::media_types;
use crate::tagged_json::task::{self, ArtifactIn, ArtifactOut, StatusIn, StatusOut, TaskIn, one_context};
use crate::tagged_json::{Mint, TaggedStyle};
use crate::v03::json::{list_push, lists_not_supported, reply, text, write_json};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::lenient::{empty_none, int32, null_default, object, optional_object};
use sabir_proto::{
    ArtifactUpdate, Call, CancelTask, ContextId, Fault, GetTask, Object, PushConfig, SendConfiguration, SendMessage,
    StatusUpdate, Subscribe, TaskRef, Tenant, WireEvent, WireReply,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const STYLE: TaggedStyle = TaggedStyle::of(Dialect::V01);

/// `TaskSendParams`, the parameters of a send.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskSendParams {
    id: String,
    #[serde(default, deserialize_with = "empty_none")]
    session_id: Option<ContextId>,
    // A member of later versions; refused only if it disagrees with `sessionId`.
    #[serde(default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(deserialize_with = "object")]
    message: MessageIn,
    #[serde(default, deserialize_with = "null_default")]
    accepted_output_modes: Vec<String>,
    #[serde(default, deserialize_with = "optional_object")]
    push_notification: Option<TaggedPushConfig>,
    #[serde(default, deserialize_with = "int32")]
    history_length: Option<i32>,
    #[serde(default)]
    metadata: Option<Object>,
}

/// Reads the call of a method.
pub(crate) fn read_call(method: &str, params: &str, mint: Mint<'_>, losses: &mut Losses) -> Result<DecodedCall, Fault> {
    let tenant = Tenant::none();
    Ok(match method {
        "tasks/send" => Call::Send(read_send(params, mint, losses)?).into(),
        "tasks/sendSubscribe" => Call::Stream(read_send(params, mint, losses)?).into(),
        "tasks/get" => {
            let p: TaskQuery = read_params(params)?;
            Call::Get(GetTask { tenant, id: p.id, history_length: history(p.history_length) }).into()
        }
        "tasks/cancel" => {
            let p: TaskQuery = read_params(params)?;
            let call = Call::Cancel(CancelTask { tenant, id: p.id, metadata: p.metadata });
            DecodedCall { call, form: AnswerForm::Canceled }
        }
        "tasks/resubscribe" => {
            let p: TaskQuery = read_params(params)?;
            if p.history_length.is_some() {
                losses.note(LossKind::History, "historyLength");
            }
            Call::Subscribe(Subscribe { tenant, id: p.id }).into()
        }
        "tasks/pushNotification/set" => {
            let p: TaskConfig = read_params(params)?;
            let mut config = p.push_notification_config.read(&Path::Root, losses);
            // A task has one configuration here, which needs no id. With the task's own id a second one replaces it.
            config.id = Some(p.id.to_string());
            Call::CreatePush { tenant, task: p.id, config }.into()
        }
        "tasks/pushNotification/get" => {
            let p: TaskQuery = read_params(params)?;
            DecodedCall { call: list_push(p.id, 1), form: AnswerForm::FirstPush }
        }
        other => return Err(Fault::MethodNotFound(other.into())),
    })
}

fn read_send(params: &str, mint: Mint<'_>, losses: &mut Losses) -> Result<Box<SendMessage>, Fault> {
    let p: TaskSendParams = read_params(params)?;
    let alias = TaskRef::parse(&p.id).map_err(|e| Fault::invalid("id", e.to_string()))?;
    let root = Path::Root;
    let context = one_context(p.context_id, p.session_id, &root)?;
    let mut message = p.message.into_message(mint);
    message.context_id = context.or(message.context_id);
    let path = root.member("configuration");
    let path = path.member("taskPushNotificationConfig");
    let mut push = p.push_notification.map(|c| c.read(&path, losses));
    if let Some(config) = &mut push {
        config.id = Some(p.id.clone());
    }
    Ok(Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration {
            accepted_output_modes: media_types(p.accepted_output_modes),
            task_push_notification_config: push,
            history_length: history(p.history_length),
            return_immediately: false,
        },
        metadata: p.metadata,
        alias: Some(alias.to_string().into()),
        wants_task: true,
    }))
}

/// The history length of a request: servers of 0.1 send no history unless the client asks for it.
pub(crate) fn history(asked: Option<i32>) -> Option<i32> {
    asked.or(Some(0))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskQuery {
    id: TaskRef,
    #[serde(default, deserialize_with = "int32")]
    history_length: Option<i32>,
    #[serde(default)]
    metadata: Option<Object>,
}

/// `TaskPushNotificationConfig`, with the id of the task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskConfig {
    id: TaskRef,
    #[serde(deserialize_with = "object")]
    push_notification_config: TaggedPushConfig,
}

impl TaskConfig {
    fn of(task: &TaskRef, config: &PushConfig, losses: &mut Losses) -> Self {
        let push_notification_config = TaggedPushConfig::write_unnamed(config, &task.to_string(), &Path::Root, losses);
        Self { id: task.clone(), push_notification_config }
    }
}

/// Writes an answer. [`place_answer`](task::place_answer) must have moved the agent's answer already.
pub(crate) fn write_answer(answer: &WireReply, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Fault> {
    match answer {
        WireReply::SentTask(task) | WireReply::Task(task) => {
            write_json(&task::write(task, STYLE, &Path::Root, losses), out)
        }
        WireReply::Push(task, config) => write_json(&TaskConfig::of(task, config, losses), out),
        WireReply::SentMessage(_)
        | WireReply::Pushes(..)
        | WireReply::Deleted
        | WireReply::Card(_)
        | WireReply::Tasks { .. } => {
            return Err(lists_not_supported(Dialect::V01));
        }
    }
    Ok(())
}

/// An event as it is written: a status, or an artifact.
#[derive(Serialize)]
pub(crate) struct EventOut<'a> {
    pub(crate) id: &'a TaskRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<StatusOut<'a>>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifact: Option<ArtifactOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<&'a Object>,
}

/// An event as it is read. Some servers send the whole task, `artifacts` and all, and no `final`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventIn {
    id: TaskRef,
    #[serde(default, deserialize_with = "empty_none")]
    session_id: Option<ContextId>,
    #[serde(default, deserialize_with = "optional_object")]
    status: Option<StatusIn>,
    #[serde(default, deserialize_with = "optional_object")]
    artifact: Option<ArtifactIn>,
    #[serde(default)]
    artifacts: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    history: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    metadata: Option<Object>,
}

/// Reads an event of a stream.
pub(crate) fn read_event(result: &RawValue, mint: Mint<'_>, losses: &mut Losses) -> Result<WireEvent, Fault> {
    let read: EventIn = reply(result)?;
    if read.artifacts.is_some() || read.history.is_some() {
        return read_task(result, mint, losses).map(WireEvent::Task);
    }
    read_update(read, mint, losses).map_err(MemberError::in_reply)
}

fn read_update(read: EventIn, mint: Mint<'_>, losses: &mut Losses) -> Result<WireEvent, MemberError> {
    let root = Path::Root;
    let EventIn { id: task_id, session_id: context_id, metadata, .. } = read;
    match (read.artifact, read.status) {
        (Some(artifact), _) => {
            let chunk = artifact.read(0, &root.member("artifact"))?;
            Ok(WireEvent::ArtifactUpdate(ArtifactUpdate {
                task_id,
                context_id,
                artifact: chunk.artifact,
                append: chunk.append,
                last_chunk: chunk.last,
                metadata,
            }))
        }
        (None, Some(status)) => {
            let status = status.read(&root.member("status"), mint, losses)?;
            Ok(WireEvent::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata }))
        }
        (None, None) => Err(root.error("an event has a status or an artifact; this one has neither")),
    }
}

fn read_task(result: &RawValue, mint: Mint<'_>, losses: &mut Losses) -> Result<sabir_proto::WireTask, Fault> {
    reply::<TaskIn>(result)?.read(&Path::Root, mint, losses).map_err(MemberError::in_reply)
}

/// Reads an answer of a server.
pub(crate) fn read_answer(
    asked: AnswerKind,
    result: &RawValue,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    Ok(match asked {
        AnswerKind::Send => WireReply::SentTask(Box::new(read_task(result, mint, losses)?)),
        AnswerKind::Task => WireReply::Task(Box::new(read_task(result, mint, losses)?)),
        AnswerKind::Push => {
            let found: TaskConfig = reply(result)?;
            let mut config = found.push_notification_config.read(&Path::Root, losses);
            config.id = Some(found.id.to_string());
            WireReply::Push(found.id, config)
        }
        AnswerKind::Pushes | AnswerKind::Deletion | AnswerKind::Card | AnswerKind::Tasks => {
            return Err(lists_not_supported(Dialect::V01));
        }
    })
}

/// Writes a request. A task without an id gets one from `mint`, because the client chooses it here.
pub(crate) fn write_call(call: &Call, mint: Mint<'_>, losses: &mut Losses) -> Result<(&'static str, String), Fault> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Query<'a> {
        id: &'a TaskRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    }
    if call.tenant() != &Tenant::none() {
        losses.note(LossKind::Tenant, "tenant");
    }
    let unsupported = || Fault::UnsupportedOperation(format!("A2A 0.1 has no {}", call.operation()));
    Ok(match call {
        Call::Send(request) => ("tasks/send", send_params(request, mint, losses)),
        Call::Stream(request) => ("tasks/sendSubscribe", send_params(request, mint, losses)),
        Call::Get(c) => {
            let history_length = write_history(c.history_length, &Path::Root, losses);
            ("tasks/get", text(&Query { id: &c.id, history_length, metadata: None }))
        }
        Call::Cancel(c) => {
            ("tasks/cancel", text(&Query { id: &c.id, history_length: None, metadata: c.metadata.as_ref() }))
        }
        Call::Subscribe(c) => ("tasks/resubscribe", text(&Query { id: &c.id, history_length: None, metadata: None })),
        Call::CreatePush { task, config, .. } => {
            ("tasks/pushNotification/set", text(&TaskConfig::of(task, config, losses)))
        }
        Call::GetPush(c) => {
            losses.note(LossKind::PushConfigId, "id");
            ("tasks/pushNotification/get", text(&Query { id: &c.task_id, history_length: None, metadata: None }))
        }
        Call::ListPush(_) | Call::DeletePush(_) | Call::ExtendedCard { .. } | Call::List(_) => {
            return Err(unsupported());
        }
    })
}

fn send_params(request: &SendMessage, mint: Mint<'_>, losses: &mut Losses) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<&'a ContextId>,
        message: MessageOut<'a>,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        accepted_output_modes: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        push_notification: Option<TaggedPushConfig>,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    }
    let message = &request.message;
    let named = message.task_id.as_ref().map(ToString::to_string);
    let id = request.alias.as_deref().map(str::to_owned).or(named).unwrap_or_else(|| mint().to_string());
    let given = &request.configuration;
    let root = Path::Root;
    let configuration = root.member("configuration");
    if given.return_immediately {
        losses.note(LossKind::Configuration, configuration.member("returnImmediately"));
    }
    let push = configuration.member("taskPushNotificationConfig");
    // The context and task ids stand beside the message here, so they are not lost.
    let mut bare = Losses::new();
    let written = message::write(message, STYLE, &root.member("message"), &mut bare);
    losses.take_except(bare, &["message.contextId", "message.taskId"]);
    let config = given.task_push_notification_config.as_ref();
    let push_notification = config.map(|c| TaggedPushConfig::write_unnamed(c, &id, &push, losses));
    text(&Params {
        id,
        session_id: message.context_id.as_ref(),
        message: written,
        accepted_output_modes: &given.accepted_output_modes,
        push_notification,
        history_length: write_history(given.history_length, &configuration, losses),
        metadata: request.metadata.as_ref(),
    })
}

/// The inverse of [`history`]: without the member the client asks for none, and it cannot ask for all.
fn write_history(asked: Option<i32>, path: &Path<'_>, losses: &mut Losses) -> Option<i32> {
    if asked.is_none() {
        losses.note(LossKind::History, path.member("historyLength"));
    }
    asked.filter(|messages| *messages != 0)
}
