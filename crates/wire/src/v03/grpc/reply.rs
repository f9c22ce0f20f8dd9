//! The replies of the methods: written by servers, `read_…` by clients.
//!
//! Writing fails only for a card that no 0.3 client could use. Reading fails with [`Fault::InvalidAgentResponse`] where
//! the server broke the rules.

use super::card::{read_card as read_card_at, write_card};
use super::loss_recorder::{LossRecorder, NumberEncoding};
use super::message::{read_message as read_message_at, write_message};
use super::push::{read_task_push, write_task_push};
use super::task::{read_event as read_event_at, read_task as read_task_at, write_event, write_task};
use crate::losses::Losses;
use crate::path::{MemberError, Path};
use crate::pb::a2a_v03 as pb;
use pb::send_message_response::Payload;
use sabir_proto::{AgentCard, Fault, Message, PushConfig, PushPage, TaskRef, WireEvent, WireReply, WireTask};

/// An event of a stream, as a client receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// The event, in canonical form.
    pub event: WireEvent,
    /// Whether the server says that no event follows. Some keep the connection open all the same.
    pub last: bool,
}

impl ReceivedEvent {
    pub(in crate::v03) const fn more(event: WireEvent) -> Self {
        Self { event, last: false }
    }

    pub(in crate::v03) const fn last(event: WireEvent) -> Self {
        Self { event, last: true }
    }
}

/// Writes the reply to *get* and *cancel*.
pub fn task(task: &WireTask, losses: &mut Losses) -> pb::Task {
    LossRecorder::new(NumberEncoding::Doubles, losses).task(task, &Path::Root);
    write_task(task)
}

/// Reads the reply to *get* and *cancel*.
pub fn read_task(task: pb::Task, losses: &mut Losses) -> Result<WireTask, Fault> {
    read_task_at(task, &Path::Root, losses).map_err(MemberError::in_reply)
}

/// Writes the reply to *send*: the task in its present state.
pub fn sent_task(task: &WireTask, losses: &mut Losses) -> pb::SendMessageResponse {
    LossRecorder::new(NumberEncoding::Doubles, losses).task(task, &Path::Root.member("task"));
    pb::SendMessageResponse { payload: Some(Payload::Task(write_task(task))) }
}

/// Writes the reply to *send*: a message without a task.
pub fn sent_message(message: &Message, losses: &mut Losses) -> pb::SendMessageResponse {
    LossRecorder::new(NumberEncoding::Doubles, losses).message(message, &Path::Root.member("message"));
    pb::SendMessageResponse { payload: Some(Payload::Msg(write_message(message))) }
}

/// Reads the reply to *send*.
pub fn read_sent(response: pb::SendMessageResponse, losses: &mut Losses) -> Result<WireReply, Fault> {
    let missing = || Path::Root.error("has exactly one of task, message; this one has none");
    let mut read = |payload| match payload {
        Payload::Task(task) => {
            Ok(WireReply::SentTask(Box::new(read_task_at(task, &Path::Root.member("task"), losses)?)))
        }
        Payload::Msg(message) => {
            Ok(WireReply::SentMessage(Box::new(read_message_at(message, &Path::Root.member("message"))?)))
        }
    };
    response.payload.ok_or_else(missing).and_then(&mut read).map_err(MemberError::in_reply)
}

/// Writes one event of *stream* and *subscribe*. `last` says that no event follows; 0.3 clients wait for that.
pub fn event(event: &WireEvent, last: bool, losses: &mut Losses) -> pb::StreamResponse {
    LossRecorder::new(NumberEncoding::Doubles, losses).event(event);
    write_event(event, last)
}

/// Reads one element of a stream.
pub fn read_event(response: pb::StreamResponse, losses: &mut Losses) -> Result<ReceivedEvent, Fault> {
    read_event_at(response, &Path::Root, losses).map_err(MemberError::in_reply)
}

/// Writes the reply to creating and reading a push configuration.
pub fn push(task: &TaskRef, config: &PushConfig) -> pb::TaskPushNotificationConfig {
    write_task_push(task, config)
}

/// Reads the reply to creating and reading a push configuration.
pub fn read_push(config: pb::TaskPushNotificationConfig, losses: &mut Losses) -> Result<(TaskRef, PushConfig), Fault> {
    read_task_push(config, &Path::Root, &Path::Root, losses).map_err(MemberError::in_reply)
}

/// Writes the reply to listing push configurations.
pub fn pushes(task: &TaskRef, page: &PushPage) -> pb::ListTaskPushNotificationConfigResponse {
    pb::ListTaskPushNotificationConfigResponse {
        configs: page.configs.iter().map(|config| write_task_push(task, config)).collect(),
        next_page_token: page.next_page_token.clone(),
    }
}

/// Reads the reply to listing push configurations. The caller knows the task from its request.
pub fn read_pushes(
    response: pb::ListTaskPushNotificationConfigResponse,
    losses: &mut Losses,
) -> Result<PushPage, Fault> {
    let list = Path::Root.member("configs");
    let read = |(i, config)| Ok(read_task_push(config, &list.item(i), &list.item(i), losses)?.1);
    let configs: Result<_, MemberError> = response.configs.into_iter().enumerate().map(read).collect();
    Ok(PushPage { configs: configs.map_err(MemberError::in_reply)?, next_page_token: response.next_page_token })
}

/// Writes the extended card.
pub fn card(card: &AgentCard, losses: &mut Losses) -> Result<pb::AgentCard, Fault> {
    write_card(card, losses)
}

/// Reads the extended card.
pub fn read_card(card: pb::AgentCard, losses: &mut Losses) -> Result<AgentCard, Fault> {
    read_card_at(card, &Path::Root, losses).map_err(MemberError::in_reply)
}
