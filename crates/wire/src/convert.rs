//! Converts a text of one dialect into another, without a server between them.

use crate::decoded_request::{AnswerForm, AnswerKind, read_as_dialect};
use crate::detect::dialects_with_method;
use crate::jsonrpc::{self, JsonRpcEnvelope, error_text, present};
use crate::path::Path;
use crate::stream_encoder;
use crate::tagged_json::task::task_from_message;
use crate::{Dialect, LossKind, Losses, card, client_codec, codes, native, v1, v03};
use sabir_proto::{Call, Fault, MessageId, TaskRef, TaskState, TaskStatus, WireEvent, WireReply, WireTask};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::str::FromStr;

/// The kind of message that a text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A JSON-RPC request.
    Request,
    /// A JSON-RPC answer, or only its result.
    Reply,
    /// An event of a stream: the data of a frame, or only its result.
    Event,
    /// An agent card.
    Card,
    /// A JSON-RPC answer with an error, or only the error.
    Error,
}

impl TextKind {
    /// Every kind that a text can have.
    pub const ALL: [Self; 5] = [Self::Request, Self::Reply, Self::Event, Self::Card, Self::Error];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Event => "event",
            Self::Card => "card",
            Self::Error => "error",
        }
    }

    /// Recognises the kind of a text.
    pub fn of(text: &str) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct TextMembers<'a> {
            #[serde(default)]
            method: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            error: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            code: Option<serde::de::IgnoredAny>,
            #[serde(default)]
            skills: Option<serde::de::IgnoredAny>,
            #[serde(borrow, default, deserialize_with = "present")]
            result: Option<&'a RawValue>,
        }
        // Only push configurations are ever listed without an object around them.
        if is_list(text) {
            return Ok(Self::Reply);
        }
        let seen: TextMembers<'_> = members(text)?;
        Ok(match seen {
            TextMembers { method: Some(_), .. } => Self::Request,
            TextMembers { error: Some(_), .. } | TextMembers { code: Some(_), .. } => Self::Error,
            TextMembers { skills: Some(_), .. } => Self::Card,
            TextMembers { result, .. } => {
                let value: serde_json::Value =
                    serde_json::from_str(result.map_or(text, RawValue::get)).unwrap_or_default();
                let event = ["statusUpdate", "artifactUpdate", "artifact", "final"].iter().any(|m| !value[m].is_null());
                let kind = value["kind"].as_str().is_some_and(|k| k.ends_with("-update"));
                if event || kind { Self::Event } else { Self::Reply }
            }
        })
    }
}

impl FromStr for TextKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|k| k.name() == text);
        found.ok_or_else(|| format!("unknown kind {text:?}; there are request, reply, event, card and error"))
    }
}

/// Converts a text. One event may become several; each is then a line.
pub fn convert(
    from: Dialect,
    to: Dialect,
    kind: TextKind,
    text: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<String, Fault> {
    let mut out = match kind {
        TextKind::Request => request(from, to, text, mint, losses)?,
        TextKind::Card => {
            let read = card::read(text.as_bytes())?;
            losses.take_except(read.losses, &[]);
            vec![card::write(&read.card, card::CardSchema::of(to), losses)]
        }
        TextKind::Reply => {
            let (wrapper, result) = JsonRpcWrapper::open(text)?;
            let answer = reply(from, result, mint, losses)?;
            let mut payload = Vec::new();
            write_answer(to, answer, losses, &mut payload)?;
            vec![wrapper.around(&payload)]
        }
        TextKind::Event => {
            let (wrapper, result) = JsonRpcWrapper::open(text)?;
            let event = client_codec::read_event(from, result, mint, losses)?;
            write_event(to, event, is_final(result), losses)?.iter().map(|payload| wrapper.around(payload)).collect()
        }
        TextKind::Error => vec![error(from, to, text, losses)?],
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|e| Fault::Internal(e.to_string()));
    let lines = out.drain(..).map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(lines.join("\n"))
}

fn request(
    from: Dialect,
    to: Dialect,
    text: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Vec<Vec<u8>>, Fault> {
    let envelope = JsonRpcEnvelope::read(text.as_bytes()).map_err(|malformed| malformed.fault)?;
    if !dialects_with_method(&envelope.method).contains(&from) {
        return Err(Fault::MethodNotFound(envelope.method.chars().take(64).collect()));
    }
    let (said, key) = read_as_dialect(from, &envelope, mint, losses)?;
    let first = match (&said.call, said.form) {
        (Call::ListPush(list), AnswerForm::FirstPush) => client_codec::write_first_push(to, &list.task_id),
        _ => None,
    };
    let written = match first {
        Some(written) => written,
        None => client_codec::write_call(to, &said.call, key.as_deref(), mint, losses)?,
    };
    let mut out = b"{\"jsonrpc\":\"2.0\"".to_vec();
    if let Some(id) = envelope.id {
        out.extend_from_slice(format!(",\"id\":{}", id.get()).as_bytes());
    }
    out.extend_from_slice(format!(",\"method\":\"{}\",\"params\":{}}}", written.method, written.params).as_bytes());
    Ok(vec![out])
}

/// The members of a result tell what it answers: a list of tasks, push configurations, or what a send and a get have in
/// common.
fn reply(
    from: Dialect,
    result: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    let value: serde_json::Value = serde_json::from_str(result).map_err(|e| Fault::Parse(error_text(&e)))?;
    let has = |member: &str| value.get(member).is_some();
    let asked = match from {
        Dialect::V1 if has("tasks") => AnswerKind::Tasks,
        Dialect::V1 if has("configs") => AnswerKind::Pushes,
        Dialect::V1 if has("status") => AnswerKind::Task,
        Dialect::V1 if has("url") && has("taskId") => AnswerKind::Push,
        Dialect::V1 if value.as_object().is_some_and(serde_json::Map::is_empty) => AnswerKind::Deletion,
        _ if has("pushNotificationConfig") => AnswerKind::Push,
        _ if has("skills") => AnswerKind::Card,
        _ if value.is_array() => AnswerKind::Pushes,
        _ if value.is_null() => AnswerKind::Deletion,
        _ => AnswerKind::Send,
    };
    client_codec::read_answer(from, asked, result, mint, losses)
}

fn write_answer(to: Dialect, answer: WireReply, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Fault> {
    crate::Responder::new(to, None).write(answer, losses, out)
}

/// Reads whether an event says that it is the last.
fn is_final(result: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct FinalFlag {
        #[serde(default, rename = "final")]
        last: Option<bool>,
    }
    serde_json::from_str::<FinalFlag>(result).ok().and_then(|seen| seen.last)
}

fn write_event(
    to: Dialect,
    event: WireEvent,
    said_last: Option<bool>,
    losses: &mut Losses,
) -> Result<Vec<Vec<u8>>, Fault> {
    let event = match event {
        WireEvent::Message(message) if to.features().streams && !to.features().direct_replies => {
            WireEvent::Task(task_from_message(&message, None, losses))
        }
        other => other,
    };
    // Where the source does not say so, the state tells.
    let last =
        said_last.unwrap_or_else(|| event.state().is_some_and(|s| s.is_settled() || s == TaskState::InputRequired));
    let mut out = Vec::new();
    match to {
        Dialect::V1 => {
            let mut event = event;
            v1::json::hide_transferred_in_event(&mut event, losses);
            v1::json::write_event(&event, &mut out);
        }
        Dialect::V03 | Dialect::V02 => v03::json::write_event(&event, last, to, losses, &mut out),
        Dialect::V01 => return Ok(stream_encoder::v01_updates(&event, &mut Vec::new(), None, last, losses)),
        Dialect::Native => {
            let root = Path::Root;
            native::write_task(&task_from_event(event, losses), false, &root.member("task"), losses, &mut out);
        }
        Dialect::Xpr => return Err(Fault::UnsupportedOperation("XPR has no streams".into())),
    }
    Ok(vec![out])
}

/// Makes a task of one event, with what the event says of it. Members that only updates have are noted as losses.
fn task_from_event(event: WireEvent, losses: &mut Losses) -> WireTask {
    let task = |id: TaskRef, context_id, state| WireTask {
        id,
        context_id,
        status: TaskStatus { state, message: None, timestamp: None },
        metadata: None,
        history: Vec::new(),
        artifacts: Vec::new(),
    };
    match event {
        WireEvent::Task(task) => task,
        WireEvent::Message(message) => task_from_message(&message, None, losses),
        WireEvent::StatusUpdate(update) => {
            if update.metadata.is_some() {
                losses.note(LossKind::Metadata, "statusUpdate.metadata");
            }
            let mut shown = task(update.task_id, update.context_id, update.status.state);
            shown.status = update.status;
            shown
        }
        WireEvent::ArtifactUpdate(update) => {
            if update.metadata.is_some() {
                losses.note(LossKind::Metadata, "artifactUpdate.metadata");
            }
            if update.append {
                losses.note(LossKind::Part, "artifactUpdate.append");
            }
            if update.last_chunk {
                losses.note(LossKind::Part, "artifactUpdate.lastChunk");
            }
            // An artifact update does not tell the state; that the task is still working is the most likely.
            losses.note(LossKind::State, "task.status");
            let mut shown = task(update.task_id, update.context_id, TaskState::Working);
            shown.artifacts.push(update.artifact);
            shown
        }
    }
}

fn error(from: Dialect, to: Dialect, text: &str, losses: &mut Losses) -> Result<Vec<u8>, Fault> {
    #[derive(Deserialize)]
    struct ErrorMembers<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let seen: ErrorMembers<'_> = members(text)?;
    let given = seen.error.map_or(text, RawValue::get);
    let fault = client_codec::read_error(from, given);
    if let Fault::InvalidAgentResponse(_) = fault {
        return Err(fault);
    }
    error_losses(from, to, given, &fault, losses);
    let mut out = Vec::new();
    let id = seen.id.map_or("null", RawValue::get);
    match to {
        Dialect::V1 => jsonrpc::write_error(Some(id), &fault, &mut out),
        other => {
            let has_task = codes::names_task(other, fault.code());
            codes::write_older_error(other, has_task, Some(id), &fault, &mut out);
        }
    }
    Ok(out)
}

/// Notes what an error loses. It keeps its text, and its code if the other dialect has a number for it. Of its data,
/// only the task exists in all dialects.
fn error_losses(from: Dialect, to: Dialect, given: &str, fault: &Fault, losses: &mut Losses) {
    let given: serde_json::Value = serde_json::from_str(given).unwrap_or_default();
    let (code, data) = (fault.code(), &given["data"]);
    let only = |value: &serde_json::Value, known: &[&str]| {
        value.as_object().is_some_and(|members| members.keys().all(|name| known.contains(&&**name)))
    };
    let info = |detail: &serde_json::Value| {
        detail["domain"] == codes::DOMAIN
            && only(detail, &["@type", "reason", "domain", "metadata"])
            && (detail["metadata"].is_null() || only(&detail["metadata"], &["taskId"]))
    };
    let understood = match data.as_array().map(Vec::as_slice) {
        None => data.is_null() || only(data, &["taskId"]),
        Some([]) => true,
        Some([detail]) => info(detail),
        Some(_) => false,
    };
    let reasoned = data.get(0).is_some_and(info);
    let numbered = reasoned || given["code"] == codes::json_rpc(code, from);
    let exact = to == Dialect::V1 || codes::code_of(codes::json_rpc(code, to), to) == code;
    let tells_task = codes::names_task(to, code);
    if !numbered || !exact {
        losses.note(LossKind::ErrorDetails, "code");
    }
    if !understood || !exact || (fault.task().is_some() && !tells_task) {
        losses.note(LossKind::ErrorDetails, "data");
    }
}

/// Whether a text is a JSON list.
fn is_list(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

/// Reads some members of an object. A derived reader alone would also accept a list of their values.
fn members<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    serde_json::from_str::<&RawValue>(text).map_err(|e| Fault::Parse(error_text(&e)))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::invalid("", "must be an object"));
    }
    serde_json::from_str(text).map_err(|e| Fault::Parse(error_text(&e)))
}

/// The JSON-RPC answer around a result, if there is one.
struct JsonRpcWrapper {
    id: Option<Box<str>>,
}

impl JsonRpcWrapper {
    fn open(text: &str) -> Result<(Self, &str), Fault> {
        #[derive(Deserialize)]
        struct AnswerMembers<'a> {
            #[serde(default)]
            jsonrpc: Option<serde::de::IgnoredAny>,
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            // A deletion is answered with `null`, which is a result like any other.
            #[serde(borrow, default, deserialize_with = "present")]
            result: Option<&'a RawValue>,
            #[serde(default)]
            error: Option<serde::de::IgnoredAny>,
        }
        // A list has no members, so it reads as `None`.
        let seen: Option<AnswerMembers<'_>> = members(text).ok();
        match seen {
            // The Python SDKs before 1.0 leave out a result that is `null`.
            Some(AnswerMembers { jsonrpc: Some(_), id, result, error: None }) => {
                let id = Some(id.map_or("null", RawValue::get).into());
                Ok((Self { id }, result.map_or("null", RawValue::get)))
            }
            _ => {
                serde_json::from_str::<&RawValue>(text).map_err(|e| Fault::Parse(error_text(&e)))?;
                Ok((Self { id: None }, text))
            }
        }
    }

    fn around(&self, payload: &[u8]) -> Vec<u8> {
        let Some(id) = &self.id else { return payload.to_vec() };
        let mut out = Vec::with_capacity(payload.len() + 64);
        jsonrpc::open_result(Some(id), &mut out);
        out.extend_from_slice(payload);
        out.push(b'}');
        out
    }
}
