//! A2A 1.0 in JSON, shared by JSON-RPC and HTTP+JSON: requests by method name, replies and events as bytes.

use crate::decoded_request::AnswerKind;
use crate::jsonrpc::JsonRpcEnvelope;
use crate::path::Path;
use crate::v1::repair;
use crate::v03::json::{reply, text};
use crate::{LossKind, Losses, card};
use sabir_proto::lenient::{empty_none, null_default};
use sabir_proto::{
    AgentCard, ArtifactUpdate, Authentication, Call, ContextId, Fault, FrozenEvent, FrozenTask, Json, Message,
    PushConfig, PushPage, Reply, SendReply, StatusUpdate, TaskPage, TaskRef, TaskState, TaskStatus, Tenant, WireEvent,
    WireReply, WireTask,
};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Reads the call of an envelope.
pub fn read_call(envelope: &JsonRpcEnvelope<'_>) -> Result<Call, Fault> {
    Ok(match &*envelope.method {
        "SendMessage" => Call::Send(envelope.params()?),
        "SendStreamingMessage" => Call::Stream(envelope.params()?),
        "GetTask" => Call::Get(envelope.params()?),
        "ListTasks" => Call::List(envelope.params()?),
        "CancelTask" => Call::Cancel(envelope.params()?),
        "SubscribeToTask" => Call::Subscribe(envelope.params()?),
        "CreateTaskPushNotificationConfig" => envelope.params::<TaskPushConfig>()?.try_into()?,
        "GetTaskPushNotificationConfig" => Call::GetPush(envelope.params()?),
        "ListTaskPushNotificationConfigs" => Call::ListPush(envelope.params()?),
        "DeleteTaskPushNotificationConfig" => Call::DeletePush(envelope.params()?),
        "GetExtendedAgentCard" => Call::ExtendedCard { tenant: envelope.params::<TenantParams>()?.tenant },
        unknown => return Err(Fault::MethodNotFound(unknown.chars().take(64).collect())),
    })
}

#[derive(Serialize, Deserialize)]
struct TenantParams {
    #[serde(default, skip_serializing_if = "Tenant::is_none")]
    tenant: Tenant,
}

/// Writes a request: the method and its parameters.
pub fn write_call(call: &Call) -> (&'static str, String) {
    let params = match call {
        Call::Send(request) | Call::Stream(request) => text(request),
        Call::Get(call) => text(call),
        Call::List(call) => text(call),
        Call::Cancel(call) => text(call),
        Call::Subscribe(call) => text(call),
        Call::CreatePush { tenant, task, config } => {
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct CreatePushParams<'a> {
                #[serde(skip_serializing_if = "Tenant::is_none")]
                tenant: &'a Tenant,
                task_id: &'a TaskRef,
                #[serde(flatten)]
                config: &'a PushConfig,
            }
            text(&CreatePushParams { tenant, task_id: task, config })
        }
        Call::GetPush(call) => text(call),
        Call::ListPush(call) => text(call),
        Call::DeletePush(call) => text(call),
        Call::ExtendedCard { tenant } => text(&TenantParams { tenant: tenant.clone() }),
    };
    (call.operation(), params)
}

/// The answer to a send, or an event of a stream: the member that is set tells which. Members of later versions are
/// ignored, and `null` counts as absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamResponseIn {
    #[serde(default)]
    task: Option<WireTask>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default, alias = "status_update")]
    status_update: Option<StatusUpdate<TaskRef, Option<ContextId>>>,
    #[serde(default, alias = "artifact_update")]
    artifact_update: Option<ArtifactUpdate<TaskRef, Option<ContextId>>>,
}

/// Reads one event of a stream.
pub fn read_event(result: &RawValue) -> Result<WireEvent, Fault> {
    let read: StreamResponseIn = read_or_repair(result, repair::event)?;
    match (read.task, read.message, read.status_update, read.artifact_update) {
        (Some(task), None, None, None) => Ok(WireEvent::Task(task)),
        (None, Some(message), None, None) => Ok(WireEvent::Message(message)),
        (None, None, Some(update), None) => Ok(WireEvent::StatusUpdate(update)),
        (None, None, None, Some(update)) => Ok(WireEvent::ArtifactUpdate(update)),
        _ => Err(Fault::InvalidAgentResponse(
            "has exactly one of task, message, statusUpdate, artifactUpdate; this one has none or several".into(),
        )),
    }
}

/// Reads what a server sent; if that fails, repairs it and reads it again.
fn read_or_repair<T: for<'de> Deserialize<'de>>(
    result: &RawValue,
    mend: fn(&RawValue) -> Box<RawValue>,
) -> Result<T, Fault> {
    // JSON that does not parse, or names a member twice, is not repaired.
    reply(result).or_else(|fault| if Json::parse(result.get()).is_ok() { reply(&mend(result)) } else { Err(fault) })
}

/// Reads an answer of a server.
pub fn read_answer(asked: AnswerKind, result: &RawValue) -> Result<WireReply, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PageIn {
        #[serde(default, deserialize_with = "null_default")]
        tasks: Vec<WireTask>,
        #[serde(default, alias = "next_page_token", deserialize_with = "null_default")]
        next_page_token: String,
        #[serde(default, alias = "page_size")]
        page_size: Option<Number>,
        #[serde(default, alias = "total_size")]
        total_size: Option<Number>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PushIn {
        #[serde(default, alias = "task_id", deserialize_with = "empty_none")]
        task_id: Option<TaskRef>,
        #[serde(flatten)]
        config: PushConfig,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PushesIn {
        #[serde(default, deserialize_with = "null_default")]
        configs: Vec<PushIn>,
        #[serde(default, alias = "next_page_token", deserialize_with = "null_default")]
        next_page_token: String,
    }
    // An empty list does not name its task, and some servers never do; the caller knows the task from its request.
    let or_empty = |task: Option<TaskRef>| task.unwrap_or_else(|| TaskRef::Alias("".into()));
    Ok(match asked {
        AnswerKind::Send => match read_event(result)? {
            WireEvent::Task(task) => WireReply::SentTask(Box::new(task)),
            WireEvent::Message(message) => WireReply::SentMessage(Box::new(message)),
            WireEvent::StatusUpdate(_) | WireEvent::ArtifactUpdate(_) => {
                return Err(Fault::InvalidAgentResponse("a send was answered by an event of a stream".into()));
            }
        },
        AnswerKind::Task => WireReply::Task(Box::new(read_or_repair(result, repair::task)?)),
        AnswerKind::Tasks => {
            let PageIn { tasks, next_page_token, page_size, total_size } = read_or_repair(result, repair::page)?;
            // Some servers send -1 for a total that they do not know.
            let count = |number: Option<Number>| number.and_then(|n| n.as_u64()).unwrap_or_default();
            let page_size = u32::try_from(count(page_size)).unwrap_or(u32::MAX);
            WireReply::Tasks { tasks, next_page_token, page_size, total_size: count(total_size) }
        }
        AnswerKind::Push => {
            let PushIn { task_id, config } = reply(result)?;
            WireReply::Push(or_empty(task_id), config)
        }
        AnswerKind::Pushes => {
            let PushesIn { configs, next_page_token } = reply(result)?;
            let task = or_empty(configs.first().and_then(|c| c.task_id.clone()));
            let configs = configs.into_iter().map(|c| c.config).collect();
            WireReply::Pushes(task, PushPage { configs, next_page_token })
        }
        AnswerKind::Deletion => WireReply::Deleted,
        AnswerKind::Card => WireReply::Card(Box::new(reply(result).or_else(|_| {
            // The reader of foreign cards accepts more, and its error says better what is wrong.
            card::read(result.get().as_bytes()).map(|read| read.card)
        })?)),
    })
}

/// `TaskPushNotificationConfig` as it is read, with its task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPushConfig {
    #[serde(default)]
    pub(crate) tenant: Tenant,
    #[serde(default)]
    pub(crate) id: Option<String>,
    #[serde(alias = "task_id", default)]
    pub(crate) task_id: String,
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) token: Option<String>,
    #[serde(default)]
    pub(crate) authentication: Option<Authentication>,
}

impl TryFrom<TaskPushConfig> for Call {
    type Error = Fault;

    fn try_from(wire: TaskPushConfig) -> Result<Self, Fault> {
        let task = TaskRef::parse(&wire.task_id).map_err(|e| Fault::invalid("taskId", e.to_string()))?;
        let unset = |text: &String| !text.is_empty();
        let config = PushConfig {
            id: wire.id.filter(unset),
            url: wire.url,
            token: wire.token.filter(unset),
            authentication: wire.authentication,
        };
        Ok(Self::CreatePush { tenant: wire.tenant, task, config })
    }
}

/// Writes the value of a reply. A stream has none; its events are written one by one.
pub fn write_reply<S>(reply: &Reply<S>, out: &mut Vec<u8>) {
    match reply {
        Reply::Sent(SendReply::Task(task, view)) => {
            out.extend_from_slice(b"{\"task\":");
            without_transferred(task).write(*view, out);
            out.push(b'}');
        }
        Reply::Sent(SendReply::Message(message)) => write_message(message, out),
        Reply::Task(task, view) => without_transferred(task).write(*view, out),
        Reply::Tasks(page) => write_page(page, out),
        Reply::Push(task, config) => write_push(&(*task).into(), config, out),
        Reply::Pushes(task, page) => write_pushes(&(*task).into(), page, out),
        Reply::Deleted | Reply::Stream(_) => out.extend_from_slice(b"{}"),
        Reply::Card(card) => write_card(card, out),
    }
}

/// Writes an answer in full: for a value that is not from our log, such as another server's.
pub fn write_answer(answer: &WireReply, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Sent<'a> {
        Task(&'a WireTask),
        Message(&'a Message),
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Page<'a> {
        tasks: &'a [WireTask],
        next_page_token: &'a str,
        page_size: u32,
        total_size: u64,
    }
    match answer {
        WireReply::SentTask(task) => write(&Sent::Task(task), out),
        WireReply::SentMessage(message) => write(&Sent::Message(message), out),
        WireReply::Task(task) => write(task, out),
        WireReply::Tasks { tasks, next_page_token, page_size, total_size } => {
            write(&Page { tasks, next_page_token, page_size: *page_size, total_size: *total_size }, out);
        }
        WireReply::Push(task, config) => write_push(task, config, out),
        WireReply::Pushes(task, page) => write_pushes(task, page, out),
        WireReply::Deleted => out.extend_from_slice(b"{}"),
        WireReply::Card(card) => write_card(card, out),
    }
}

fn write_page(page: &TaskPage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"tasks\":[");
    for (i, task) in page.tasks.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        without_transferred(task).write(page.view, out);
    }
    out.extend_from_slice(b"],\"nextPageToken\":");
    write(&page.next_page_token, out);
    // An int32 on the wire; no client pages past two thousand million tasks.
    let total = i32::try_from(page.total_size).unwrap_or(i32::MAX);
    out.extend_from_slice(format!(",\"pageSize\":{},\"totalSize\":{total}}}", page.page_size).as_bytes());
}

fn write_pushes(task: &TaskRef, page: &PushPage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"configs\":[");
    for (i, config) in page.configs.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_push(task, config, out);
    }
    out.extend_from_slice(b"],\"nextPageToken\":");
    write(&page.next_page_token, out);
    out.push(b'}');
}

fn write_push(task: &TaskRef, config: &PushConfig, out: &mut Vec<u8>) {
    write(&TaskPushOut { task_id: task, config }, out);
}

/// `TaskPushNotificationConfig` as it is written, without the tenant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskPushOut<'a> {
    pub(crate) task_id: &'a TaskRef,
    #[serde(flatten)]
    pub(crate) config: &'a PushConfig,
}

/// Writes a direct reply as a `StreamResponse` or `SendMessageResponse`; both have the same member.
pub fn write_message(message: &Message, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"message\":");
    write(message, out);
    out.push(b'}');
}

/// Writes an event in full: for a value that is not from our log, such as another server's.
pub fn write_event(event: &WireEvent, out: &mut Vec<u8>) {
    write(event, out);
}

/// Writes a card of 1.0.
pub fn write_card(card: &AgentCard, out: &mut Vec<u8>) {
    write(card, out);
}

/// The bytes of an event in 1.0: as committed, except that 1.0 has no `Transferred`.
pub fn event_bytes(event: &FrozenEvent) -> Cow<'_, [u8]> {
    if event.state != Some(TaskState::Transferred) {
        return Cow::Borrowed(&event.json);
    }
    let text = String::from_utf8_lossy(&event.json);
    Cow::Owned(text.replace(TRANSFERRED, COMPLETED).into_bytes())
}

const TRANSFERRED: &str = "\"state\":\"TASK_STATE_TRANSFERRED\"";
const COMPLETED: &str = "\"state\":\"TASK_STATE_COMPLETED\"";

/// Replaces `Transferred` in a status that is not from our log, and notes the loss.
pub(crate) fn hide_transferred(status: &mut TaskStatus, path: &Path<'_>, losses: &mut Losses) {
    if status.state == TaskState::Transferred {
        status.state = TaskState::Completed;
        losses.note(LossKind::State, path.member("status").member("state"));
    }
}

/// Replaces `Transferred` in an event that is not from our log.
pub(crate) fn hide_transferred_in_event(event: &mut WireEvent, losses: &mut Losses) {
    match event {
        WireEvent::Task(task) => hide_transferred(&mut task.status, &Path::Root.member("task"), losses),
        WireEvent::StatusUpdate(update) => {
            hide_transferred(&mut update.status, &Path::Root.member("statusUpdate"), losses);
        }
        WireEvent::Message(_) | WireEvent::ArtifactUpdate(_) => {}
    }
}

/// The task without `Transferred`: only we have this state, and a strict reader refuses unknown enum values.
fn without_transferred(task: &FrozenTask) -> Cow<'_, FrozenTask> {
    if task.state != TaskState::Transferred {
        return Cow::Borrowed(task);
    }
    let Some(mut thawed) = task.thaw() else { return Cow::Borrowed(task) };
    thawed.status.state = TaskState::Completed;
    Cow::Owned(FrozenTask::freeze(&thawed))
}

fn write<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("our types serialise");
}
