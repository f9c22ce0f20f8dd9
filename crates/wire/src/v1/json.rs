//! 1.0 in JSON: requests by method name, replies and events as bytes. JSON-RPC and HTTP+JSON share it.

use crate::jsonrpc::Envelope;
use sabir_proto::{
    AgentCard, Authentication, Call, Fault, FrozenEvent, FrozenTask, Message, PushConfig, Reply, Sent, TaskId,
    TaskPage, TaskRef, TaskState, Tenant,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Reads the operation an envelope asks for.
pub fn read_call(envelope: &Envelope<'_>) -> Result<Call, Fault> {
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
        "GetExtendedAgentCard" => Call::ExtendedCard { tenant: envelope.params::<OnlyTenant>()?.tenant },
        unknown => return Err(Fault::MethodNotFound(unknown.chars().take(64).collect())),
    })
}

#[derive(Deserialize)]
struct OnlyTenant {
    #[serde(default)]
    tenant: Tenant,
}

/// `TaskPushNotificationConfig` as the wire has it: with the task it belongs to.
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
        Reply::Sent(Sent::Task(task, view)) => {
            out.extend_from_slice(b"{\"task\":");
            shown(task).write(*view, out);
            out.push(b'}');
        }
        Reply::Sent(Sent::Message(message)) => write_message(message, out),
        Reply::Task(task, view) => shown(task).write(*view, out),
        Reply::Tasks(page) => write_page(page, out),
        Reply::Push(task, config) => write_push(*task, config, out),
        Reply::Pushes(task, page) => {
            out.extend_from_slice(b"{\"configs\":[");
            for (i, config) in page.configs.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_push(*task, config, out);
            }
            out.extend_from_slice(b"],\"nextPageToken\":");
            write(&page.next_page_token, out);
            out.push(b'}');
        }
        Reply::Deleted | Reply::Stream(_) => out.extend_from_slice(b"{}"),
        Reply::Card(card) => write_card(card, out),
    }
}

fn write_page(page: &TaskPage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"tasks\":[");
    for (i, task) in page.tasks.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        shown(task).write(page.view, out);
    }
    out.extend_from_slice(b"],\"nextPageToken\":");
    write(&page.next_page_token, out);
    // An int32 on the wire; nobody pages past two thousand million tasks.
    let total = i32::try_from(page.total_size).unwrap_or(i32::MAX);
    out.extend_from_slice(format!(",\"pageSize\":{},\"totalSize\":{total}}}", page.page_size).as_bytes());
}

fn write_push(task: TaskId, config: &PushConfig, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        task_id: TaskId,
        #[serde(flatten)]
        config: &'a PushConfig,
    }
    write(&Wire { task_id: task, config }, out);
}

/// Writes a direct reply as a `StreamResponse` or `SendMessageResponse`; both have the same member.
pub fn write_message(message: &Message, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"message\":");
    write(message, out);
    out.push(b'}');
}

/// Writes a card.
pub fn write_card(card: &AgentCard, out: &mut Vec<u8>) {
    write(card, out);
}

/// The bytes of an event as 1.0 shows it: as committed, but for the one state that 1.0 does not have.
pub fn event_bytes(event: &FrozenEvent) -> Cow<'_, [u8]> {
    if event.state != Some(TaskState::Transferred) {
        return Cow::Borrowed(&event.json);
    }
    let text = String::from_utf8_lossy(&event.json);
    Cow::Owned(text.replace(TRANSFERRED, COMPLETED).into_bytes())
}

const TRANSFERRED: &str = "\"state\":\"TASK_STATE_TRANSFERRED\"";
const COMPLETED: &str = "\"state\":\"TASK_STATE_COMPLETED\"";

/// A task as 1.0 shows it: `Transferred` is ours alone, and a strict reader refuses enum values it does not know.
fn shown(task: &FrozenTask) -> Cow<'_, FrozenTask> {
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
