//! The JSON-RPC of agent-native: parts by `type`, `async`, whole tasks as events, actions.

use crate::decoded_request::{AnswerForm, AnswerKind, DecodedCall};
use crate::jsonrpc::read_params;
use crate::path::{MemberError, Path};
use crate::tagged_json::message::{self, MessageOut};
use crate::tagged_json::send::SendIn;
use crate::tagged_json::task::{self, TaskIn};
use crate::tagged_json::{Mint, TaggedStyle};
use crate::v03::json::{reply, text, write_json};
use crate::{Dialect, LossKind, Losses};
use sabir_proto::lenient::int32;
use sabir_proto::{
    Call, CancelTask, ContextId, Fault, GetTask, Json, Message, MessageId, Object, Part, Role, SendConfiguration,
    SendMessage, TaskRef, TaskState, Tenant, WireEvent, WireReply, WireTask,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

const STYLE: TaggedStyle = TaggedStyle::of(Dialect::Native);

/// Longest retry key, in characters.
const KEY_CHARS_MAX: usize = 128;
/// Longest name of an action, in characters.
const ACTION_CHARS_MAX: usize = 200;
/// Largest input of an action, in bytes of JSON.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Reads a request other than a send.
pub(crate) fn read_call(method: &str, params: &str, mint: Mint<'_>) -> Result<DecodedCall, Fault> {
    let tenant = Tenant::none();
    Ok(match method {
        "tasks/get" => {
            let p: TaskQuery = read_params(params)?;
            let call = Call::Get(GetTask { tenant, id: p.id, history_length: p.history_length });
            DecodedCall { call, form: AnswerForm::Polled }
        }
        "tasks/cancel" => {
            Call::Cancel(CancelTask { tenant, id: read_params::<TaskQuery>(params)?.id, metadata: None }).into()
        }
        "actions/invoke" => read_action(params, mint)?,
        other => return Err(Fault::MethodNotFound(other.into())),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskQuery {
    id: TaskRef,
    #[serde(default, deserialize_with = "int32")]
    history_length: Option<i32>,
}

/// Reads a send, and the retry key it may have.
pub(crate) fn read_send(
    mut send: SendIn,
    mint: Mint<'_>,
    losses: &mut Losses,
) -> Result<(Box<SendMessage>, Option<String>), Fault> {
    let key = match send.idempotency_key.take() {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => {
            let key = key.trim();
            let legal = (1..=KEY_CHARS_MAX).contains(&key.chars().count()) && !key.chars().any(char::is_control);
            if !legal {
                return Err(Fault::invalid("idempotencyKey", "is invalid; it has 1 to 128 characters"));
            }
            Some(key.to_owned())
        }
        Some(_) => return Err(Fault::invalid("idempotencyKey", "must be a string")),
    };
    // A message without an id takes the retry key as its id, so that its repeat is the same message.
    let mut named = || key.as_deref().and_then(|key| MessageId::parse(key).ok()).unwrap_or_else(&mut *mint);
    if send.approved_actions.is_some() {
        losses.note(LossKind::Configuration, "approvedActions");
    }
    // Only the boolean counts; the text "true" does not.
    let at_once = send.asynchronous == Some(Value::Bool(true));
    let context = send.context_id.take();
    let mut request = send.read(&mut named, losses)?;
    request.message.context_id = context.or(request.message.context_id);
    request.configuration.return_immediately = at_once;
    Ok((Box::new(request), key))
}

/// Reads `actions/invoke`: a skill by name, with its input as data.
fn read_action(params: &str, mint: Mint<'_>) -> Result<DecodedCall, Fault> {
    #[derive(Deserialize)]
    struct Action {
        #[serde(default)]
        action: Option<Value>,
        #[serde(default)]
        input: Option<Json>,
        #[serde(default)]
        metadata: Option<Object>,
    }
    let p: Action = read_params(params)?;
    let Some(Value::String(action)) = p.action else { return Err(Fault::invalid("action", "must be a string")) };
    if !(1..=ACTION_CHARS_MAX).contains(&action.chars().count()) {
        return Err(Fault::invalid("action", format!("has 1 to {ACTION_CHARS_MAX} characters")));
    }
    let input = p.input.filter(|i| i.as_str().starts_with('{'));
    let input = input.ok_or_else(|| Fault::invalid("input", "must be an object"))?;
    if input.as_str().len() > INPUT_BYTES_MAX {
        return Err(Fault::invalid("input", format!("is over the limit of {INPUT_BYTES_MAX} bytes")));
    }
    let mut message = Message::text(mint(), Role::User, "");
    message.parts = vec![Part::data(input)];
    let mut named = serde_json::Map::new();
    named.insert("skillId".into(), Value::String(action.clone()));
    message.metadata = Object::from_map(&named).ok();
    let request = SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: p.metadata,
        alias: None,
        wants_task: false,
    };
    Ok(DecodedCall { call: Call::Send(Box::new(request)), form: AnswerForm::Action(action) })
}

/// Writes an answer. [`place_answer`](task::place_answer) must have moved the agent's answer already.
pub(crate) fn write_answer(
    answer: &WireReply,
    form: &AnswerForm,
    losses: &mut Losses,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    match answer {
        WireReply::SentTask(task) | WireReply::Task(task) => match form {
            AnswerForm::Action(action) => write_action_outcome(action, task, out),
            AnswerForm::Polled | AnswerForm::Plain | AnswerForm::FirstPush | AnswerForm::Canceled => {
                write_task(task, *form == AnswerForm::Polled, &Path::Root, losses, out);
            }
        },
        WireReply::SentMessage(_)
        | WireReply::Push(..)
        | WireReply::Pushes(..)
        | WireReply::Deleted
        | WireReply::Card(_)
        | WireReply::Tasks { .. } => {
            return Err(Fault::UnsupportedOperation("agent-native has no words for this answer".into()));
        }
    }
    Ok(())
}

/// Writes a whole task.
pub(crate) fn write_task(task: &WireTask, polled: bool, path: &Path<'_>, losses: &mut Losses, out: &mut Vec<u8>) {
    let mut written = task::write(task, STYLE, path, losses);
    if polled {
        written.status.state = STYLE.polled_state(written.status.state);
    }
    write_json(&written, out);
}

/// Writes the outcome of an action: `{action, status, output}`.
fn write_action_outcome(action: &str, task: &WireTask, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct ActionOutcome<'a> {
        action: &'a str,
        status: &'static str,
        output: String,
    }
    let status = if task.status.state == TaskState::Completed { "completed" } else { "failed" };
    let output = task.status.message.as_ref().map(Message::joined_text).unwrap_or_default();
    write_json(&ActionOutcome { action, status, output }, out);
}

/// Reads an event of a stream: always a whole task.
pub(crate) fn read_event(result: &RawValue, mint: Mint<'_>, losses: &mut Losses) -> Result<WireEvent, Fault> {
    read_task(result, mint, losses).map(WireEvent::Task)
}

fn read_task(result: &RawValue, mint: Mint<'_>, losses: &mut Losses) -> Result<WireTask, Fault> {
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
        AnswerKind::Push | AnswerKind::Pushes | AnswerKind::Deletion | AnswerKind::Card | AnswerKind::Tasks => {
            return Err(Fault::UnsupportedOperation("agent-native has no such method".into()));
        }
    })
}

/// Writes a request: the method and its parameters.
pub(crate) fn write_call(call: &Call, key: Option<&str>, losses: &mut Losses) -> Result<(&'static str, String), Fault> {
    #[derive(Serialize)]
    struct Query<'a> {
        id: &'a TaskRef,
    }
    let unsupported = |what: &str| Fault::UnsupportedOperation(format!("agent-native cannot {what}"));
    if call.tenant() != &Tenant::none() {
        losses.note(LossKind::Tenant, "tenant");
    }
    Ok(match call {
        Call::Send(request) if request.message.task_id.is_none() => ("message/send", send_params(request, key, losses)),
        Call::Stream(request) if request.message.task_id.is_none() => {
            ("message/stream", send_params(request, None, losses))
        }
        Call::Send(_) | Call::Stream(_) => return Err(unsupported("continue a task by a message")),
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
        Call::Subscribe(_) => return Err(unsupported("take a stream up again; poll with tasks/get")),
        Call::CreatePush { .. } | Call::GetPush(_) | Call::ListPush(_) | Call::DeletePush(_) => {
            return Err(unsupported("register webhooks"));
        }
        Call::ExtendedCard { .. } => return Err(unsupported("show an extended card")),
        Call::List(_) => return Err(unsupported("list tasks")),
    })
}

fn send_params(request: &SendMessage, key: Option<&str>, losses: &mut Losses) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        message: MessageOut<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        context_id: Option<&'a ContextId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<&'a Object>,
        #[serde(rename = "async", skip_serializing_if = "Option::is_none")]
        asynchronous: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<&'a str>,
    }
    let root = Path::Root;
    configuration_losses(request, losses);
    // agent-native has the context id beside the message.
    let mut bare = Losses::new();
    let message = message::write(&request.message, STYLE, &root.member("message"), &mut bare);
    losses.take_except(bare, &["message.contextId"]);
    text(&Params {
        message,
        context_id: request.message.context_id.as_ref(),
        metadata: request.metadata.as_ref(),
        asynchronous: request.configuration.return_immediately.then_some(true),
        idempotency_key: key,
    })
}

/// Notes what a dialect whose sends have no configuration cannot ask for.
pub(crate) fn configuration_losses(request: &SendMessage, losses: &mut Losses) {
    let (given, root) = (&request.configuration, Path::Root);
    let path = root.member("configuration");
    if !given.accepted_output_modes.is_empty() {
        losses.note(LossKind::Configuration, path.member("acceptedOutputModes"));
    }
    if given.history_length.is_some() {
        losses.note(LossKind::Configuration, path.member("historyLength"));
    }
    if given.task_push_notification_config.is_some() {
        losses.note(LossKind::Configuration, path.member("taskPushNotificationConfig"));
    }
}
