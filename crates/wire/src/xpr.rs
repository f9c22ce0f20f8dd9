//! The JSON-RPC of XPR agents: accounts and jobs of a chain beside the message, tasks with an owner.
//!
//! The members beside the message (`xpr:callerAccount`, `metadata` with its `xpr:jobId`) are kept in the message's own
//! metadata, where an agent sees them and the log keeps them, and go back to their place when the message is written.

use crate::decoded_request::{AnswerKind, DecodedCall};
use crate::jsonrpc::read_params;
use crate::native::configuration_losses;
use crate::path::{MemberError, Path};
use crate::tagged_json::message::{self, MessageOut};
use crate::tagged_json::send::SendIn;
use crate::tagged_json::task::{self, TaskIn, opened_at};
use crate::tagged_json::{Mint, TaggedStyle};
use crate::v03::json::{reply, text, write_json};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::{
    CALLER_ACCOUNT, Call, CancelTask, ContextId, Fault, GetTask, Object, Role, SendMessage, TaskRef, Tenant, WireReply,
    WireTask,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

const STYLE: TaggedStyle = TaggedStyle::of(Dialect::Xpr);

/// Reads a request other than a send.
pub(crate) fn read_call(method: &str, params: &str) -> Result<DecodedCall, Fault> {
    #[derive(Deserialize)]
    struct TaskQuery {
        id: TaskRef,
    }
    let tenant = Tenant::none();
    let query = || read_params::<TaskQuery>(params);
    Ok(match method {
        "tasks/get" => Call::Get(GetTask { tenant, id: query()?.id, history_length: None }).into(),
        "tasks/cancel" => Call::Cancel(CancelTask { tenant, id: query()?.id, metadata: None }).into(),
        other => return Err(Fault::MethodNotFound(other.into())),
    })
}

/// Reads a send. `id` is the caller's own id for the task: it continues the unfinished task with that id.
pub(crate) fn read_send(mut send: SendIn, mint: Mint<'_>, losses: &mut Losses) -> Result<Box<SendMessage>, Fault> {
    let alias = match send.id.take() {
        None => None,
        Some(id) => Some(TaskRef::parse(&id).map_err(|e| Fault::invalid("id", e.to_string()))?.to_string().into()),
    };
    let context = send.context_id.take();
    let mut beside = send.metadata.take().map(|m| m.to_map()).unwrap_or_default();
    if let Some(account) = send.caller_account.take() {
        beside.insert(CALLER_ACCOUNT.into(), Value::String(account));
    }
    let mut request = send.read(mint, losses)?;
    request.alias = alias;
    let message = &mut request.message;
    message.context_id = context.or_else(|| message.context_id.take());
    if !beside.is_empty() {
        let mut metadata = message.metadata.take().map(|m| m.to_map()).unwrap_or_default();
        metadata.extend(beside);
        message.metadata = Object::from_map(&metadata).ok();
    }
    Ok(Box::new(request))
}

/// The metadata of a task in XPR: that of its first user message and its own, without the caller's account.
fn shown_metadata(task: &WireTask) -> Option<Object> {
    let said = task.history.iter().find(|m| m.role == Role::User).and_then(|m| m.metadata.as_ref());
    let mut members: Map<String, Value> = said.map(Object::to_map).unwrap_or_default();
    members.remove(CALLER_ACCOUNT);
    if let Some(own) = &task.metadata {
        members.extend(own.to_map());
    }
    if members.is_empty() { None } else { Object::from_map(&members).ok() }
}

/// Writes an answer for a task of `owner`, with the id `name` if the caller chose one.
/// [`place_answer`](task::place_answer) must have moved the agent's answer already.
pub(crate) fn write_answer(
    answer: &WireReply,
    name: Option<&TaskRef>,
    owner: Option<&str>,
    losses: &mut Losses,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    match answer {
        WireReply::SentTask(task) | WireReply::Task(task) => {
            let made = opened_at(&task.id);
            let renamed = name.map(|name| WireTask { id: name.clone(), ..(**task).clone() });
            let task = renamed.as_ref().unwrap_or(task);
            let mut written = task::write(task, STYLE, &Path::Root, losses);
            written.owner = owner;
            written.created_at = made.map(sabir_proto::Timestamp::millis);
            let shown = shown_metadata(task);
            let members = |metadata: Option<&Object>| metadata.map(Object::to_map).unwrap_or_default();
            if members(shown.as_ref()) != members(task.metadata.as_ref()) {
                losses.note(LossKind::Metadata, "metadata");
            }
            written.metadata = shown.map(Cow::Owned);
            write_json(&written, out);
            Ok(())
        }
        WireReply::SentMessage(_)
        | WireReply::Push(..)
        | WireReply::Pushes(..)
        | WireReply::Deleted
        | WireReply::Card(_)
        | WireReply::Tasks { .. } => Err(Fault::UnsupportedOperation("XPR has no words for this answer".into())),
    }
}

/// Reads an answer of a server.
pub(crate) fn read_answer(
    asked: AnswerKind,
    result: &RawValue,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    let mut task =
        || reply::<TaskIn>(result)?.read(&Path::Root, mint, losses).map(Box::new).map_err(MemberError::in_reply);
    Ok(match asked {
        AnswerKind::Send => WireReply::SentTask(task()?),
        AnswerKind::Task => WireReply::Task(task()?),
        AnswerKind::Push | AnswerKind::Pushes | AnswerKind::Deletion | AnswerKind::Card | AnswerKind::Tasks => {
            return Err(Fault::UnsupportedOperation("XPR has no such method".into()));
        }
    })
}

/// Writes a request: the method and its parameters.
pub(crate) fn write_call(call: &Call, losses: &mut Losses) -> Result<(&'static str, String), Fault> {
    #[derive(Serialize)]
    struct Query<'a> {
        id: &'a TaskRef,
    }
    if call.tenant() != &Tenant::none() {
        losses.note(LossKind::Tenant, "tenant");
    }
    Ok(match call {
        Call::Send(request) => ("message/send", send_params(request, losses)),
        Call::Get(c) => {
            if c.history_length.is_some() {
                losses.note(LossKind::History, "historyLength");
            }
            ("tasks/get", text(&Query { id: &c.id }))
        }
        Call::Cancel(c) => {
            if c.metadata.is_some() {
                losses.note(LossKind::Metadata, "metadata");
            }
            ("tasks/cancel", text(&Query { id: &c.id }))
        }
        Call::Stream(_)
        | Call::Subscribe(_)
        | Call::CreatePush { .. }
        | Call::GetPush(_)
        | Call::ListPush(_)
        | Call::DeletePush(_)
        | Call::ExtendedCard { .. }
        | Call::List(_) => return Err(Fault::UnsupportedOperation(format!("XPR has no {}", call.operation()))),
    })
}

fn send_params(request: &SendMessage, losses: &mut Losses) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        message: MessageOut<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_id: Option<&'a ContextId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Object>,
        // The last member, as in the SDK's client.
        #[serde(rename = "xpr:callerAccount", skip_serializing_if = "Option::is_none")]
        caller_account: Option<String>,
    }
    let root = Path::Root;
    configuration_losses(request, losses);
    if request.configuration.return_immediately {
        losses.note(LossKind::Configuration, root.member("configuration").member("returnImmediately"));
    }
    if request.metadata.is_some() {
        losses.note(LossKind::Metadata, "metadata");
    }
    let message = &request.message;
    let mut beside = message.metadata.as_ref().map(Object::to_map).unwrap_or_default();
    let caller_account = match beside.remove(CALLER_ACCOUNT) {
        Some(Value::String(account)) => Some(account),
        Some(other) => {
            // The value is not an account, so it stays where it was.
            beside.insert(CALLER_ACCOUNT.into(), other);
            None
        }
        None => None,
    };
    // XPR has the context and task ids beside the message.
    let mut bare = Losses::new();
    let mut written = message::write(message, STYLE, &root.member("message"), &mut bare);
    written.move_metadata();
    losses.take_except(bare, &["message.contextId", "message.taskId"]);
    let named = message.task_id.as_ref().map(|id| Cow::Owned(id.to_string()));
    text(&Params {
        message: written,
        id: request.alias.as_deref().map(Cow::Borrowed).or(named),
        context_id: message.context_id.as_ref(),
        metadata: if beside.is_empty() { None } else { Object::from_map(&beside).ok() },
        caller_account,
    })
}
