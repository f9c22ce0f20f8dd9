//! Answers and events over REST: written by servers, read by clients.

use super::super::files::FileEncoding;
use super::super::grpc::reply::ReceivedEvent;
use super::super::grpc::{LossRecorder, list_not_supported};
use super::{card, read, read_body, text, write};
use crate::decoded_request::AnswerKind;
use crate::losses::Losses;
use crate::path::Path;
use crate::v1::http::{read_refusal, read_stream_error};
use crate::v03::json;
use sabir_proto::{Call, Event, Fault, MessageId, PushPage, WireEvent, WireReply};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Writes the body of an answer. Fails for a list of tasks, which 0.3 does not have, and for a card that no 0.3 client
/// could use. `files` is the client's encoding of files.
pub fn write_answer(
    answer: &WireReply,
    files: FileEncoding,
    losses: &mut Losses,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    match answer {
        WireReply::SentTask(task) => {
            LossRecorder::rest(files, losses).task(task, &Path::Root.member("task"));
            write::json(&write::Response::Task(write::Task::of(task, files)), out);
        }
        WireReply::SentMessage(message) => {
            LossRecorder::rest(files, losses).message(message, &Path::Root.member("message"));
            write::json(&write::Response::Message(write::Message::of(message, files)), out);
        }
        WireReply::Task(task) => {
            LossRecorder::rest(files, losses).task(task, &Path::Root);
            write::json(&write::Task::of(task, files), out);
        }
        WireReply::Push(task, config) => write::json(&write::TaskPush::of(task, config), out),
        WireReply::Pushes(task, page) => write::json(&write::TaskPushes::of(task, page), out),
        WireReply::Deleted => out.extend_from_slice(b"{}"),
        WireReply::Card(card) => card::write(card, losses, out)?,
        WireReply::Tasks { .. } => return Err(list_not_supported()),
    }
    Ok(())
}

/// Writes one event of a stream. `last` says that no event follows; 0.3 clients wait for that.
pub fn write_event(event: &WireEvent, last: bool, files: FileEncoding, losses: &mut Losses, out: &mut Vec<u8>) {
    LossRecorder::rest(files, losses).event(event);
    write::json(&write::Response::of(event, last, files), out);
}

/// Reads the body of the answer to a call. A stream that is answered in one piece reads as a send. `files` is the
/// server's encoding of files in the shape of the proto. An error in a successful response is read as the fault it is.
pub fn read_answer(
    call: &Call,
    body: &[u8],
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    let answer = match call {
        Call::Send(_) | Call::Stream(_) | Call::Subscribe(_) => read_sent(body, losses),
        Call::Get(_) | Call::Cancel(_) => {
            parse(body).map(|task: read::Task| WireReply::Task(Box::new(task.into_canonical(&Path::Root, losses))))
        }
        Call::CreatePush { .. } | Call::GetPush(_) => parse(body).and_then(|config: read::TaskPush| {
            let (task, config) = config.into_canonical(&Path::Root, losses)?;
            Ok(WireReply::Push(task, config))
        }),
        Call::ListPush(list) => read_pushes(body, losses).map(|page| WireReply::Pushes(list.task_id.clone(), page)),
        // Any body will do: some servers send nothing, some an empty object.
        Call::DeletePush(_) => return Ok(WireReply::Deleted),
        Call::ExtendedCard { .. } => match card::read(body, losses)? {
            Some(card) => Ok(WireReply::Card(Box::new(card))),
            None => json_schema_answer(call, body, mint, losses),
        },
        Call::List(_) => return Err(list_not_supported()),
    };
    match answer {
        Ok(mut answer) => {
            files.read_answer(&mut answer);
            Ok(answer)
        }
        Err(_) if has_marks(body) => json_schema_answer(call, body, mint, losses),
        Err(fault) => Err(read_refusal(body).unwrap_or(fault)),
    }
}

fn read_sent(body: &[u8], losses: &mut Losses) -> Result<WireReply, Fault> {
    match parse_event(body, losses)?.event {
        Event::Task(task) => Ok(WireReply::SentTask(Box::new(task))),
        Event::Message(message) => Ok(WireReply::SentMessage(Box::new(message))),
        Event::StatusUpdate(_) | Event::ArtifactUpdate(_) => {
            Err(Fault::InvalidAgentResponse("has exactly one of task, message; this one has none".into()))
        }
    }
}

fn read_pushes(body: &[u8], losses: &mut Losses) -> Result<PushPage, Fault> {
    let page: read::TaskPushes = parse(body)?;
    let list = Path::Root.member("configs");
    let read =
        |(i, config): (usize, read::ListObject<read::TaskPush>)| Ok(config.0.into_canonical(&list.item(i), losses)?.1);
    let configs = page.configs.into_iter().enumerate().map(read).collect::<Result<_, Fault>>()?;
    Ok(PushPage { configs, next_page_token: page.next_page_token })
}

/// Reads one event of a stream. An error that ends the stream is read as its fault.
pub fn read_event(
    data: &[u8],
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<ReceivedEvent, Fault> {
    match parse_event(data, losses) {
        Ok(mut heard) => {
            files.read_event(&mut heard.event);
            Ok(heard)
        }
        Err(_) if has_marks(data) => json_schema_event(data, mint, losses),
        Err(fault) => Err(fault),
    }
    .map_err(|fault| read_stream_error(data).unwrap_or(fault))
}

fn parse_event(body: &[u8], losses: &mut Losses) -> Result<ReceivedEvent, Fault> {
    let one = "has exactly one of task, message, statusUpdate, artifactUpdate; this one has none, or several";
    parse::<read::Response>(body)?.into_canonical(losses).ok_or_else(|| Fault::InvalidAgentResponse(one.into()))
}

/// Reads what a server sent; an error in it is the server's fault.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Fault> {
    text(body).and_then(read_body).map_err(|fault| {
        Fault::InvalidAgentResponse(match fault {
            Fault::InvalidParams(wrong) => {
                let member = |field: &str| if field.is_empty() { String::new() } else { format!("{field}: ") };
                wrong.iter().map(|w| member(&w.field) + &w.description).collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        })
    })
}

/// Whether a body that could not be read has a mark of the JSON-Schema shape: `kind`, the task id of a push
/// configuration, or a list without an object around it.
fn has_marks(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct JsonSchemaMarks {
        kind: Option<IgnoredAny>,
        #[serde(alias = "task_id")]
        task_id: Option<IgnoredAny>,
    }
    let has = |marks: JsonSchemaMarks| marks.kind.is_some() || marks.task_id.is_some();
    body.trim_ascii_start().starts_with(b"[") || serde_json::from_slice(body).is_ok_and(has)
}

/// Reads an answer in the shape of 0.3's JSON Schema.
fn json_schema_answer(
    call: &Call,
    body: &[u8],
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    json::read_answer(AnswerKind::of_call(call), raw(body)?, mint, losses)
}

/// Reads an event in the shape of 0.3's JSON Schema.
fn json_schema_event(
    data: &[u8],
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<ReceivedEvent, Fault> {
    let event = json::read_event(raw(data)?, mint, losses)?;
    let last = event.state().is_some_and(sabir_proto::TaskState::is_settled);
    Ok(ReceivedEvent { event, last })
}

fn raw(body: &[u8]) -> Result<&RawValue, Fault> {
    serde_json::from_slice(body).map_err(|e| Fault::InvalidAgentResponse(e.to_string()))
}
