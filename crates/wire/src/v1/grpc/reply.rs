//! The replies of the methods: written by servers, `read_…` by clients.
//!
//! Writing fails only if a stored record is damaged. Reading fails with [`Fault::InvalidAgentResponse`] where the
//! server broke the rules.

use super::message::read_task_ref;
use super::message::{read_message as read_message_at, write_message};
use super::push::{read_push as read_push_at, write_push};
use super::repair;
use super::task::{read_event as read_event_at, read_task as read_task_at, write_event, write_task};
use crate::path::{MemberError, Path};
use crate::pb::lf_a2a_v1 as pb;
use crate::pb::lf_a2a_v1::send_message_response::Payload;
use sabir_proto::{
    AgentCard, Fault, FrozenTask, PushConfig, PushPage, SendReply, TaskId, TaskPage, TaskRef, View, WireEvent,
    WireReply, WireTask,
};

/// The reference in the fault of a record that can no longer be read. It is the same for all records: this is pure
/// translation, so the caller writes the log line with the key of the record.
const DAMAGED: &str = "damaged-record";

/// Writes the reply to *get* and *cancel*: the task, cut to `view`.
pub fn task(task: &FrozenTask, view: View) -> Result<pb::Task, Fault> {
    let damaged = || Fault::Internal(DAMAGED.into());
    // Cutting panics on offsets that lie outside the text.
    let (history_at, artifacts_at) = (task.history_at as usize, task.artifacts_at as usize);
    if history_at > artifacts_at || artifacts_at > task.json.len() {
        return Err(damaged());
    }
    // Cut before parsing: a page of tasks without artifacts then costs nothing for the artifacts.
    let mut json = Vec::with_capacity(task.json.len());
    task.write(view, &mut json);
    let task: WireTask = serde_json::from_slice(&json).map_err(|_| damaged())?;
    Ok(write_task(task))
}

/// Reads the reply to *get* and *cancel*.
pub fn read_task(mut task: pb::Task) -> Result<WireTask, Fault> {
    repair::task(&mut task);
    read_task_at(task, &Path::Root).map_err(MemberError::in_reply)
}

/// Writes the reply to *send*.
pub fn sent(sent: SendReply) -> Result<pb::SendMessageResponse, Fault> {
    let payload = match sent {
        SendReply::Task(frozen, view) => Payload::Task(task(&frozen, view)?),
        SendReply::Message(message) => Payload::Message(write_message(*message)),
    };
    Ok(pb::SendMessageResponse { payload: Some(payload) })
}

/// Reads the reply to *send*.
pub fn read_sent(mut response: pb::SendMessageResponse) -> Result<WireReply, Fault> {
    repair::sent(&mut response);
    let read = |payload| match payload {
        Payload::Task(task) => Ok(WireReply::SentTask(Box::new(read_task_at(task, &Path::Root.member("task"))?))),
        Payload::Message(message) => {
            Ok(WireReply::SentMessage(Box::new(read_message_at(message, &Path::Root.member("message"))?)))
        }
    };
    let missing = || Path::Root.error("has exactly one of task, message; this one has none");
    response.payload.ok_or_else(missing).and_then(read).map_err(MemberError::in_reply)
}

/// Writes the reply to *list*.
pub fn page(page: &TaskPage) -> Result<pb::ListTasksResponse, Fault> {
    Ok(pb::ListTasksResponse {
        tasks: page.tasks.iter().map(|frozen| task(frozen, page.view)).collect::<Result<_, _>>()?,
        next_page_token: page.next_page_token.clone(),
        page_size: i32::try_from(page.page_size).unwrap_or(i32::MAX),
        // An int32 on the wire; no client pages past two thousand million tasks.
        total_size: i32::try_from(page.total_size).unwrap_or(i32::MAX),
    })
}

/// Reads the reply to *list*.
pub fn read_page(mut response: pb::ListTasksResponse) -> Result<WireReply, Fault> {
    response.tasks.iter_mut().for_each(repair::task);
    // Some servers send -1 for a total that they do not know.
    let count = |number: i32| u32::try_from(number).unwrap_or_default();
    Ok(WireReply::Tasks {
        tasks: Path::Root.member("tasks").each(response.tasks, read_task_at).map_err(MemberError::in_reply)?,
        next_page_token: response.next_page_token,
        page_size: count(response.page_size),
        total_size: count(response.total_size).into(),
    })
}

/// Writes the reply to creating and reading a push configuration.
pub fn push(task: TaskId, config: PushConfig) -> pb::TaskPushNotificationConfig {
    write_push(String::new(), task.to_string(), config)
}

/// Reads the reply to creating and reading a push configuration.
pub fn read_push(config: pb::TaskPushNotificationConfig) -> Result<(TaskRef, PushConfig), Fault> {
    let task = read_task_ref(&config.task_id, &Path::Root.member("taskId")).map_err(MemberError::in_reply)?;
    Ok((task, read_push_at(config, &Path::Root).map_err(MemberError::in_reply)?))
}

/// Writes the reply to listing push configurations.
pub fn pushes(task: TaskId, page: PushPage) -> pb::ListTaskPushNotificationConfigsResponse {
    pb::ListTaskPushNotificationConfigsResponse {
        configs: page.configs.into_iter().map(|config| push(task, config)).collect(),
        next_page_token: page.next_page_token,
    }
}

/// Reads the reply to listing push configurations. The caller knows the task from its request.
pub fn read_pushes(response: pb::ListTaskPushNotificationConfigsResponse) -> Result<PushPage, Fault> {
    let configs = Path::Root.member("configs").each(response.configs, read_push_at).map_err(MemberError::in_reply)?;
    Ok(PushPage { configs, next_page_token: response.next_page_token })
}

/// Writes one event of *stream* and *subscribe*.
pub fn event(event: WireEvent) -> pb::StreamResponse {
    write_event(event)
}

/// Reads one element of a stream.
pub fn read_event(mut response: pb::StreamResponse) -> Result<WireEvent, Fault> {
    repair::event(&mut response);
    read_event_at(response, &Path::Root).map_err(MemberError::in_reply)
}

/// Writes the extended card.
pub fn card(card: &AgentCard) -> pb::AgentCard {
    super::card::write_card(card)
}

/// Reads the extended card.
pub fn read_card(card: pb::AgentCard) -> Result<AgentCard, Fault> {
    super::card::read_card(card, &Path::Root).map_err(MemberError::in_reply)
}
