//! One dialect into another, without a server between them.

use crate::detect::speakers;
use crate::hear::{Asked, read_as};
use crate::jsonrpc::{self, Envelope};
use crate::path::Path;
use crate::teller;
use crate::{Dialect, LossKind, Losses, card, codes, native, peer, v1, v03};
use sabir_proto::{Answer, Fault, MessageId, TaskRef, TaskState, TaskStatus, TheirEvent, TheirTask};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::str::FromStr;

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A JSON-RPC request.
    Request,
    /// A JSON-RPC answer, or only its result.
    Reply,
    /// One event of a stream: the data of a frame, or only its result.
    Event,
    /// An agent card.
    Card,
    /// A JSON-RPC answer with an error, or only the error.
    Error,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Request, Self::Reply, Self::Event, Self::Card, Self::Error];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Event => "event",
            Self::Card => "card",
            Self::Error => "error",
        }
    }

    /// What a text looks like.
    pub fn of(text: &str) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Seen<'a> {
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
        // Only configurations are ever listed without an object around them.
        if is_list(text) {
            return Ok(Self::Reply);
        }
        let seen: Seen<'_> = members(text)?;
        Ok(match seen {
            Seen { method: Some(_), .. } => Self::Request,
            Seen { error: Some(_), .. } | Seen { code: Some(_), .. } => Self::Error,
            Seen { skills: Some(_), .. } => Self::Card,
            Seen { result, .. } => {
                let value: serde_json::Value =
                    serde_json::from_str(result.map_or(text, RawValue::get)).unwrap_or_default();
                let event = ["statusUpdate", "artifactUpdate", "artifact", "final"].iter().any(|m| !value[m].is_null());
                let kind = value["kind"].as_str().is_some_and(|k| k.ends_with("-update"));
                if event || kind { Self::Event } else { Self::Reply }
            }
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|k| k.name() == text);
        found.ok_or_else(|| format!("unknown kind {text:?}; there are request, reply, event, card and error"))
    }
}

/// Translates a text. One event may become several; each is a line.
pub fn convert(
    from: Dialect,
    to: Dialect,
    kind: Kind,
    text: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<String, Fault> {
    let mut out = match kind {
        Kind::Request => request(from, to, text, mint, losses)?,
        Kind::Card => {
            let read = card::read(text.as_bytes())?;
            losses.take_except(read.losses, &[]);
            vec![card::write(&read.card, card::Form::of(to), losses)]
        }
        Kind::Reply => {
            let (wrapper, result) = Wrapper::open(text)?;
            let answer = reply(from, result, mint, losses)?;
            let mut payload = Vec::new();
            write_answer(to, answer, losses, &mut payload)?;
            vec![wrapper.around(&payload)]
        }
        Kind::Event => {
            let (wrapper, result) = Wrapper::open(text)?;
            let event = peer::read_event(from, result, mint, losses)?;
            write_event(to, event, is_final(result), losses)?.iter().map(|payload| wrapper.around(payload)).collect()
        }
        Kind::Error => vec![error(from, to, text, losses)?],
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
    let envelope = Envelope::read(text.as_bytes()).map_err(|malformed| malformed.fault)?;
    if !speakers(&envelope.method).contains(&from) {
        return Err(Fault::MethodNotFound(envelope.method.chars().take(64).collect()));
    }
    let (call, key) = read_as(from, &envelope, mint, losses)?;
    let written = peer::write_call(to, &call, key.as_deref(), mint, losses)?;
    let mut out = b"{\"jsonrpc\":\"2.0\"".to_vec();
    if let Some(id) = envelope.id {
        out.extend_from_slice(format!(",\"id\":{}", id.get()).as_bytes());
    }
    out.extend_from_slice(format!(",\"method\":\"{}\",\"params\":{}}}", written.method, written.params).as_bytes());
    Ok(vec![out])
}

/// The shape tells what a result answers: a page, configurations, or what a send and a get have in common.
fn reply(
    from: Dialect,
    result: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Answer, Fault> {
    let value: serde_json::Value = serde_json::from_str(result).map_err(|e| Fault::Parse(e.to_string()))?;
    let has = |member: &str| value.get(member).is_some();
    let asked = match from {
        Dialect::V1 if has("tasks") => Asked::Tasks,
        Dialect::V1 if has("configs") => Asked::Pushes,
        Dialect::V1 if has("status") => Asked::Task,
        Dialect::V1 if has("url") && has("taskId") => Asked::Push,
        _ if has("pushNotificationConfig") => Asked::Push,
        _ if value.is_array() => Asked::Pushes,
        _ if value.is_null() => Asked::Deletion,
        _ => Asked::Send,
    };
    peer::read_answer(from, asked, result, mint, losses)
}

fn write_answer(to: Dialect, answer: Answer, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Fault> {
    crate::Voice::new(to, None).write(answer, losses, out)
}

/// Whether an event says that it is the last.
fn is_final(result: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Last {
        #[serde(default, rename = "final")]
        last: Option<bool>,
    }
    serde_json::from_str::<Last>(result).ok().and_then(|seen| seen.last)
}

fn write_event(
    to: Dialect,
    event: TheirEvent,
    said_last: Option<bool>,
    losses: &mut Losses,
) -> Result<Vec<Vec<u8>>, Fault> {
    // A dialect that does not say so is understood by the state.
    let last =
        said_last.unwrap_or_else(|| event.state().is_some_and(|s| s.is_settled() || s == TaskState::InputRequired));
    let mut out = Vec::new();
    match to {
        Dialect::V1 => v1::json::write_event(&event, &mut out),
        Dialect::V03 | Dialect::V02 => v03::json::write_event(&event, last, to, losses, &mut out),
        Dialect::V01 => return Ok(teller::updates(&event, &mut Vec::new(), None, last, losses)),
        Dialect::Native => {
            let root = Path::Root;
            native::write_task(&whole(event), false, &root.member("task"), losses, &mut out);
        }
        Dialect::Xpr => return Err(Fault::UnsupportedOperation("XPR has no streams".into())),
    }
    Ok(vec![out])
}

/// As much of a task as one event tells.
fn whole(event: TheirEvent) -> TheirTask {
    let task = |id: TaskRef, context_id, state| TheirTask {
        id,
        context_id,
        status: TaskStatus { state, message: None, timestamp: None },
        metadata: None,
        history: Vec::new(),
        artifacts: Vec::new(),
    };
    match event {
        TheirEvent::Task(task) => task,
        TheirEvent::Message(message) => crate::tagged::task::task_of(&message, None, &mut Losses::new()),
        TheirEvent::StatusUpdate(update) => {
            let mut shown = task(update.task_id, update.context_id, update.status.state);
            shown.status = update.status;
            shown
        }
        TheirEvent::ArtifactUpdate(update) => {
            let mut shown = task(update.task_id, update.context_id, TaskState::Working);
            shown.artifacts.push(update.artifact);
            shown
        }
    }
}

fn error(from: Dialect, to: Dialect, text: &str, losses: &mut Losses) -> Result<Vec<u8>, Fault> {
    #[derive(Deserialize)]
    struct Seen<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    let seen: Seen<'_> = members(text)?;
    let fault = peer::read_error(from, seen.error.map_or(text, RawValue::get));
    if let Fault::InvalidAgentResponse(_) = fault {
        return Err(fault);
    }
    if to != Dialect::V1 && has_details(seen.error.map_or(text, RawValue::get)) {
        losses.note(LossKind::ErrorDetails, "error.data");
    }
    let mut out = Vec::new();
    let id = seen.id.map_or("null", RawValue::get);
    match to {
        Dialect::V1 => jsonrpc::write_error(Some(id), &fault, &mut out),
        other => codes::write_older_error(other, Some(id), &fault, &mut out),
    }
    Ok(out)
}

/// Whether an error has details, as 1.0 has them. Before, an error was a number and words.
fn has_details(error: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(error).unwrap_or_default();
    value["data"].as_array().is_some_and(|details| !details.is_empty())
}

/// Whether a text is a JSON list.
fn is_list(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

/// Reads some members of an object. A derived reader alone would take a list of their values, too.
fn members<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    serde_json::from_str::<&RawValue>(text).map_err(|e| Fault::Parse(e.to_string()))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::invalid("", "must be an object"));
    }
    serde_json::from_str(text).map_err(|e| Fault::Parse(e.to_string()))
}

/// A member that is there, be it `null`: that is the answer to a deletion.
fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// The JSON-RPC answer around a result, where there is one.
struct Wrapper {
    id: Option<Box<str>>,
}

impl Wrapper {
    fn open(text: &str) -> Result<(Self, &str), Fault> {
        #[derive(Deserialize)]
        struct Seen<'a> {
            #[serde(default)]
            jsonrpc: Option<serde::de::IgnoredAny>,
            #[serde(borrow, default)]
            id: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            result: Option<&'a RawValue>,
        }
        // A bare list has no members at all.
        let seen: Option<Seen<'_>> = members(text).ok();
        match seen {
            Some(Seen { jsonrpc: Some(_), id, result: Some(result) }) => {
                Ok((Self { id: Some(id.map_or("null", RawValue::get).into()) }, result.get()))
            }
            _ => {
                serde_json::from_str::<&RawValue>(text).map_err(|e| Fault::Parse(e.to_string()))?;
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

/// The body of a webhook: 1.0 sends the event, everybody before the task as it stands.
pub fn write_push_payload(
    to: Dialect,
    event: &TheirEvent,
    task: &TheirTask,
    losses: &mut Losses,
) -> Result<(&'static str, Vec<u8>), Fault> {
    let mut out = Vec::new();
    if to == Dialect::V1 {
        v1::json::write_event(event, &mut out);
        return Ok(("application/a2a+json", out));
    }
    write_answer(to, Answer::Task(Box::new(task.clone())), losses, &mut out)?;
    Ok(("application/json", out))
}

/// Reads the body of a webhook.
pub fn read_push_payload(
    from: Dialect,
    body: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<TheirEvent, Fault> {
    match from {
        // What a webhook gets is a task there, never an event; there are no streams that it could be part of.
        Dialect::Xpr => match peer::read_answer(from, Asked::Task, body, mint, losses)? {
            Answer::Task(task) => Ok(TheirEvent::Task(*task)),
            _ => Err(Fault::InvalidAgentResponse("expected a task".into())),
        },
        _ => peer::read_event(from, body, mint, losses),
    }
}
