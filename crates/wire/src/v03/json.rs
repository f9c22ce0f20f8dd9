//! A2A 0.3 and 0.2 as JSON-RPC: requests by method name, answers and events by `kind`.

use crate::decoded_request::{AnswerForm, AnswerKind, DecodedCall};
use crate::jsonrpc::{error_text, read_params};
use crate::path::{MemberError, Path};
use crate::tagged_json::push::TaggedPushConfig;
use crate::tagged_json::send::SendIn;
use crate::tagged_json::task::{self, ArtifactIn, ArtifactOut, StatusIn, StatusOut, TaskIn};
use crate::tagged_json::{Mint, StrictObject, TaggedStyle, message, message::MessageIn};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::lenient::{empty_none, int32, is_false, null_default, object, optional_object};
use sabir_proto::{
    ArtifactUpdate, Call, CancelTask, ContextId, DeletePush, Fault, GetPush, GetTask, ListPush, Object, PushConfig,
    PushPage, SendMessage, StatusUpdate, Subscribe, TaskRef, Tenant, WireEvent, WireReply,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The number of push configurations that a reply lists: 0.3 has no pages, and a task has far fewer.
const PUSHES_MAX: i32 = 100;

/// Reads a request other than a send.
pub(crate) fn read_call(method: &str, params: &str, losses: &mut Losses) -> Result<DecodedCall, Fault> {
    let tenant = Tenant::none();
    let call = match method {
        "tasks/get" => {
            let p: TaskQuery = read_params(params)?;
            Call::Get(GetTask { tenant, id: p.id, history_length: p.history_length })
        }
        "tasks/cancel" => {
            let p: TaskQuery = read_params(params)?;
            Call::Cancel(CancelTask { tenant, id: p.id, metadata: p.metadata })
        }
        "tasks/resubscribe" => Call::Subscribe(Subscribe { tenant, id: read_params::<TaskQuery>(params)?.id }),
        "tasks/pushNotificationConfig/set" => {
            let p: TaskConfig = read_params(params)?;
            let mut config = p.push_notification_config.read(&Path::Root, losses);
            // The id is optional here. SDKs of 0.3 then use that of the task, so that setting a webhook twice replaces
            // it.
            config.id.get_or_insert_with(|| p.task_id.to_string());
            Call::CreatePush { tenant, task: p.task_id, config }
        }
        "tasks/pushNotificationConfig/get" => {
            let p: ConfigQuery = read_params(params)?;
            match p.push_notification_config_id {
                Some(id) => Call::GetPush(GetPush { tenant, task_id: p.id, id }),
                // Without an id the client wants the first one.
                None => return Ok(DecodedCall { call: list_push(p.id, 1), form: AnswerForm::FirstPush }),
            }
        }
        "tasks/pushNotificationConfig/list" => list_push(read_params::<ConfigQuery>(params)?.id, PUSHES_MAX),
        "tasks/pushNotificationConfig/delete" => {
            let p: ConfigQuery = read_params(params)?;
            let id = p.push_notification_config_id;
            let id = id.ok_or_else(|| Fault::invalid("pushNotificationConfigId", "is required"))?;
            Call::DeletePush(DeletePush { tenant, task_id: p.id, id })
        }
        "agent/getAuthenticatedExtendedCard" => Call::ExtendedCard { tenant },
        other => return Err(Fault::MethodNotFound(other.into())),
    };
    Ok(call.into())
}

pub(crate) fn list_push(task_id: TaskRef, page_size: i32) -> Call {
    Call::ListPush(ListPush { tenant: Tenant::none(), task_id, page_size: Some(page_size), page_token: String::new() })
}

/// Reads a send by the rules of 0.3, where a message needs an id.
pub(crate) fn read_send(send: SendIn, mint: Mint<'_>, losses: &mut Losses) -> Result<Box<SendMessage>, Fault> {
    if !send.message.has_id() {
        return Err(Fault::invalid("message.messageId", "is required"));
    }
    if let Some(problem) = send.message.role_problem() {
        return Err(Fault::invalid("message.role", problem));
    }
    Ok(Box::new(send.read(mint, losses)?))
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigQuery {
    id: TaskRef,
    #[serde(default, deserialize_with = "empty_none")]
    push_notification_config_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskConfig {
    // a2a-js sends the method of 0.2 with the members of 0.1.
    #[serde(alias = "id")]
    task_id: TaskRef,
    #[serde(deserialize_with = "object")]
    push_notification_config: TaggedPushConfig,
}

impl TaskConfig {
    fn of(task: &TaskRef, config: &PushConfig) -> Self {
        Self { task_id: task.clone(), push_notification_config: TaggedPushConfig::write(config) }
    }
}

/// Writes the result of a call.
pub(crate) fn write_answer(
    answer: &WireReply,
    dialect: Dialect,
    losses: &mut Losses,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let style = TaggedStyle::of(dialect);
    match answer {
        WireReply::SentTask(task) | WireReply::Task(task) => {
            write_json(&task::write(task, style, &Path::Root, losses), out)
        }
        WireReply::SentMessage(message) => write_json(&message::write(message, style, &Path::Root, losses), out),
        WireReply::Push(task, config) => write_json(&TaskConfig::of(task, config), out),
        WireReply::Pushes(task, page) => {
            if !page.next_page_token.is_empty() {
                losses.note(LossKind::Paging, "nextPageToken");
            }
            write_json(&page.configs.iter().map(|c| TaskConfig::of(task, c)).collect::<Vec<_>>(), out);
        }
        WireReply::Deleted => out.extend_from_slice(b"null"),
        WireReply::Card(card) => out.extend(crate::card::write(card, crate::card::CardSchema::of(dialect), losses)),
        WireReply::Tasks { .. } => return Err(lists_not_supported(dialect)),
    }
    Ok(())
}

/// The fault of a list of tasks, which no dialect before 1.0 has.
pub(crate) fn lists_not_supported(dialect: Dialect) -> Fault {
    Fault::UnsupportedOperation(format!("{dialect} cannot list tasks; ask for them one by one, or speak 1.0"))
}

/// An event as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventOut<'a> {
    kind: &'static str,
    task_id: &'a TaskRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a ContextId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact: Option<ArtifactOut<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    append: bool,
    #[serde(skip_serializing_if = "is_false")]
    last_chunk: bool,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    last: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
}

/// Writes an event. `last`: no event follows it on this stream, which `final` says.
pub(crate) fn write_event(event: &WireEvent, last: bool, dialect: Dialect, losses: &mut Losses, out: &mut Vec<u8>) {
    let (style, root) = (TaggedStyle::of(dialect), Path::Root);
    match event {
        WireEvent::Task(task) => write_json(&task::write(task, style, &root.member("task"), losses), out),
        WireEvent::Message(message) => {
            write_json(&message::write(message, style, &root.member("message"), losses), out)
        }
        WireEvent::StatusUpdate(update) => {
            let path = root.member("statusUpdate");
            write_json(
                &EventOut {
                    kind: "status-update",
                    task_id: &update.task_id,
                    context_id: update.context_id.as_ref(),
                    status: Some(task::write_status(&update.status, style, &path.member("status"), losses)),
                    artifact: None,
                    append: false,
                    last_chunk: false,
                    last: Some(last),
                    metadata: update.metadata.as_ref(),
                },
                out,
            );
        }
        WireEvent::ArtifactUpdate(update) => {
            let path = root.member("artifactUpdate");
            let path = path.member("artifact");
            write_json(
                &EventOut {
                    kind: "artifact-update",
                    task_id: &update.task_id,
                    context_id: update.context_id.as_ref(),
                    status: None,
                    artifact: Some(task::write_artifact(&update.artifact, 0, style, &path, losses)),
                    append: update.append,
                    last_chunk: update.last_chunk,
                    last: None,
                    metadata: update.metadata.as_ref(),
                },
                out,
            );
        }
    }
}

/// Writes a request: the method and its parameters.
pub(crate) fn write_call(call: &Call, losses: &mut Losses) -> Result<(&'static str, String), Fault> {
    let style = TaggedStyle::of(Dialect::V03);
    if call.tenant() != &Tenant::none() {
        losses.note(LossKind::Tenant, "tenant");
    }
    Ok(match call {
        Call::Send(request) => ("message/send", send_params(request, style, losses)),
        Call::Stream(request) => ("message/stream", send_params(request, style, losses)),
        Call::Get(c) => ("tasks/get", task_query(&c.id, c.history_length, None, None)),
        Call::Cancel(c) => ("tasks/cancel", task_query(&c.id, None, c.metadata.as_ref(), None)),
        Call::Subscribe(c) => ("tasks/resubscribe", task_query(&c.id, None, None, None)),
        Call::CreatePush { task, config, .. } => {
            ("tasks/pushNotificationConfig/set", text(&TaskConfig::of(task, config)))
        }
        Call::GetPush(c) => ("tasks/pushNotificationConfig/get", task_query(&c.task_id, None, None, Some(&c.id))),
        Call::ListPush(c) => {
            // A list has no pages here and returns all configurations at once.
            if c.page_size.is_some_and(|size| size != PUSHES_MAX) {
                losses.note(LossKind::Paging, "pageSize");
            }
            if !c.page_token.is_empty() {
                losses.note(LossKind::Paging, "pageToken");
            }
            ("tasks/pushNotificationConfig/list", task_query(&c.task_id, None, None, None))
        }
        Call::DeletePush(c) => ("tasks/pushNotificationConfig/delete", task_query(&c.task_id, None, None, Some(&c.id))),
        Call::ExtendedCard { .. } => ("agent/getAuthenticatedExtendedCard", "{}".into()),
        Call::List(_) => return Err(lists_not_supported(Dialect::V03)),
    })
}

fn send_params(request: &SendMessage, style: TaggedStyle, losses: &mut Losses) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        message: message::MessageOut<'a>,
        configuration: Configuration<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Configuration<'a> {
        // Required in releases until 0.2.5.
        accepted_output_modes: &'a [String],
        blocking: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        push_notification_config: Option<TaggedPushConfig>,
    }
    let given = &request.configuration;
    text(&Params {
        message: message::write(&request.message, style, &Path::Root.member("message"), losses),
        configuration: Configuration {
            accepted_output_modes: &given.accepted_output_modes,
            blocking: !given.return_immediately,
            history_length: given.history_length,
            push_notification_config: given.task_push_notification_config.as_ref().map(TaggedPushConfig::write),
        },
        metadata: request.metadata.as_ref(),
    })
}

pub(crate) fn task_query(
    id: &TaskRef,
    history_length: Option<i32>,
    metadata: Option<&Object>,
    config: Option<&str>,
) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Query<'a> {
        id: &'a TaskRef,
        #[serde(skip_serializing_if = "Option::is_none")]
        history_length: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        push_notification_config_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
    }
    text(&Query { id, history_length, push_notification_config_id: config, metadata })
}

/// Reads an answer of a server.
pub(crate) fn read_answer(
    asked: AnswerKind,
    result: &RawValue,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    Ok(match asked {
        AnswerKind::Send => match read_event(result, mint, losses)? {
            WireEvent::Task(task) => WireReply::SentTask(Box::new(task)),
            WireEvent::Message(message) => WireReply::SentMessage(Box::new(message)),
            WireEvent::StatusUpdate(_) | WireEvent::ArtifactUpdate(_) => {
                return Err(Fault::InvalidAgentResponse("a send was answered by an event of a stream".into()));
            }
        },
        AnswerKind::Task => match read_event(result, mint, losses)? {
            WireEvent::Task(task) => WireReply::Task(Box::new(task)),
            _ => return Err(Fault::InvalidAgentResponse("expected a task".into())),
        },
        AnswerKind::Push => {
            let found: TaskConfig = reply(result)?;
            WireReply::Push(found.task_id, found.push_notification_config.read(&Path::Root, losses))
        }
        AnswerKind::Pushes => {
            let found: Vec<StrictObject<TaskConfig>> = parse(result)?;
            let task = found.first().map_or_else(|| TaskRef::Alias("".into()), |c| c.0.task_id.clone());
            let configs = found.into_iter().map(|c| c.0.push_notification_config.read(&Path::Root, losses)).collect();
            WireReply::Pushes(task, PushPage { configs, next_page_token: String::new() })
        }
        AnswerKind::Deletion => WireReply::Deleted,
        AnswerKind::Card => {
            let read = crate::card::read(result.get().as_bytes())?;
            WireReply::Card(Box::new(read.card))
        }
        AnswerKind::Tasks => return Err(lists_not_supported(Dialect::V03)),
    })
}

/// A status or artifact update of a stream, as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateIn {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default, deserialize_with = "empty_none")]
    task_id: Option<TaskRef>,
    #[serde(default, deserialize_with = "empty_none")]
    context_id: Option<ContextId>,
    #[serde(default, deserialize_with = "optional_object")]
    status: Option<StatusIn>,
    #[serde(default, deserialize_with = "optional_object")]
    artifact: Option<ArtifactIn>,
    #[serde(default, deserialize_with = "null_default")]
    append: bool,
    #[serde(default, deserialize_with = "null_default")]
    last_chunk: bool,
    #[serde(default)]
    metadata: Option<Object>,
}

/// The members that tell the kind of a result.
#[derive(Deserialize)]
struct KindIn {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    artifact: Option<serde::de::IgnoredAny>,
    #[serde(default, rename = "taskId")]
    task_id: Option<serde::de::IgnoredAny>,
}

/// Reads an event of a stream, or the result of a send. `kind` tells them apart; if a server leaves it out, the other
/// members do.
pub(crate) fn read_event(result: &RawValue, mint: Mint<'_>, losses: &mut Losses) -> Result<WireEvent, Fault> {
    let seen: KindIn = reply(result)?;
    let kind = seen.kind.as_deref().unwrap_or(match (&seen.status, &seen.artifact, &seen.task_id) {
        (_, Some(_), _) => "artifact-update",
        (Some(_), None, Some(_)) => "status-update",
        (Some(_), None, None) => "task",
        (None, None, _) => "message",
    });
    let root = Path::Root;
    let event = match kind {
        "task" => {
            let task: TaskIn = reply(result)?;
            WireEvent::Task(task.read(&root, mint, losses).map_err(MemberError::in_reply)?)
        }
        "message" => WireEvent::Message(reply::<MessageIn>(result)?.into_message(mint)),
        "status-update" | "artifact-update" => update(reply(result)?, mint, losses).map_err(MemberError::in_reply)?,
        other => {
            let shown: String = other.chars().take(32).collect();
            return Err(Fault::InvalidAgentResponse(format!("unknown kind {shown:?}")));
        }
    };
    Ok(event)
}

fn update(read: UpdateIn, mint: Mint<'_>, losses: &mut Losses) -> Result<WireEvent, MemberError> {
    let root = Path::Root;
    let task_id = root.member("taskId").required(read.task_id)?;
    let (context_id, metadata) = (read.context_id, read.metadata);
    if read.kind.as_deref() == Some("artifact-update") || read.status.is_none() {
        let path = root.member("artifact");
        let chunk = path.required(read.artifact)?.read(0, &path)?;
        let (append, last_chunk) = (read.append, read.last_chunk);
        return Ok(WireEvent::ArtifactUpdate(ArtifactUpdate {
            task_id,
            context_id,
            artifact: chunk.artifact,
            append,
            last_chunk,
            metadata,
        }));
    }
    let path = root.member("status");
    let status = path.required(read.status)?.read(&path, mint, losses)?;
    Ok(WireEvent::StatusUpdate(StatusUpdate { task_id, context_id, status, metadata }))
}

/// Reads an object that a server sent; an error in it is the server's fault.
pub(crate) fn reply<T: for<'de> Deserialize<'de>>(result: &RawValue) -> Result<T, Fault> {
    if !result.get().starts_with('{') {
        return Err(Fault::InvalidAgentResponse("must be an object".into()));
    }
    parse(result)
}

fn parse<T: for<'de> Deserialize<'de>>(result: &RawValue) -> Result<T, Fault> {
    serde_json::from_str(result.get()).map_err(|e| Fault::InvalidAgentResponse(error_text(&e)))
}

pub(crate) fn write_json<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("our types serialise");
}

pub(crate) fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our types serialise")
}
