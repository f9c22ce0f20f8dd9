//! The JSON-RPC transport, for every dialect.

use super::sse::{Framing, SseEvents};
use super::{AgentTransport, EventStream, answer_response, body_limit, lineage, new_message_id, single_event_stream};
use crate::http_client::IncomingResponse;
use crate::{AgentResponse, Error, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use rand::RngExt as _;
use sabir_proto::{Call, Fault, WireReply};
use sabir_wire::{AnswerKind, Losses, read_answer, read_error, write_call};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

#[derive(Deserialize)]
struct JsonRpcReply<'a> {
    #[serde(default)]
    jsonrpc: Option<&'a str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    /// `null` is a result: the JavaScript SDK answers a deletion with it.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

/// A JSON-RPC error. Gateways put their own errors into the same member.
#[derive(Deserialize)]
struct JsonRpcError {
    code: i64,
    #[serde(default)]
    message: String,
}

impl<'a> JsonRpcReply<'a> {
    fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The error, if it is a JSON-RPC error, whose codes are negative.
    fn json_rpc_error(&self) -> Option<JsonRpcError> {
        let refusal: JsonRpcError = serde_json::from_str(self.error?.get()).ok()?;
        (refusal.code < 0).then_some(refusal)
    }

    /// Whether this is an answer. The Python SDK of 0.3 answers a deletion with neither result nor error.
    fn answers(&self, asked: AnswerKind) -> bool {
        let bare_deletion = asked == AnswerKind::Deletion && self.jsonrpc.is_some();
        self.result.is_some() || self.json_rpc_error().is_some() || bare_deletion
    }
}

/// A request that is ready to be sent.
struct PreparedRequest {
    id: String,
    asked: AnswerKind,
    body: Bytes,
    losses: Losses,
}

pub(super) async fn send_call(
    line: &AgentTransport,
    call: &Call,
    retry_key: Option<&str>,
) -> Result<AgentResponse<WireReply>, Error> {
    let ready = prepare(line, call, retry_key)?;
    // These headers are the same for every call, so they are built once.
    let mut headers = line.json_headers.get_or_init(|| headers(line, "application/json")).clone();
    lineage::add_lineage_header(call, &mut headers);
    if let Some(key) = retry_key {
        headers.insert("idempotency-key", HeaderValue::from_str(key).map_err(|_| bad_key())?);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    read_whole_answer(line, &ready, answer).await.map(|(said, _)| said)
}

pub(super) async fn open_stream(
    line: &Arc<AgentTransport>,
    call: &Call,
    after: Option<&str>,
) -> Result<EventStream, Error> {
    let ready = prepare(line, call, None)?;
    let mut headers = headers(line, "text/event-stream, application/json");
    lineage::add_lineage_header(call, &mut headers);
    if let Some(after) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("last-event-id", after);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    let is_stream = match answer.media_type().as_str() {
        "text/event-stream" => true,
        "" => !line.chosen.dialect.features().marked_streams,
        _ => false,
    };
    if answer.status.is_success() && is_stream {
        let events = SseEvents::new(line.clone(), answer, Framing::JsonRpc(ready.id));
        return Ok(EventStream::Sse(Box::new(events)));
    }
    let (said, result) = read_whole_answer(line, &ready, answer).await?;
    single_event_stream(line.chosen.dialect, said, std::str::from_utf8(&result).ok())
}

/// Previews a call without sending it.
pub(super) fn preview(
    line: &AgentTransport,
    call: &Call,
) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let accept = match call {
        Call::Stream(_) | Call::Subscribe(_) => "text/event-stream, application/json",
        _ => "application/json",
    };
    let body = String::from_utf8_lossy(&prepare(line, call, None)?.body).into_owned();
    let mut headers = headers(line, accept);
    lineage::add_lineage_header(call, &mut headers);
    Ok((Method::POST, line.chosen.url.to_string(), headers, Some(body)))
}

fn headers(line: &AgentTransport, accept: &'static str) -> HeaderMap {
    let mut headers = line.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers
}

/// A request id that is unique across connections, so that answers to other requests are not taken for ours.
fn next_id() -> String {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(rand::rng().random::<u64>() >> 1));
    format!("{:016x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn bad_key() -> Error {
    Error::Usage("the retry key holds characters that no header can carry".into())
}

fn prepare(line: &AgentTransport, call: &Call, retry_key: Option<&str>) -> Result<PreparedRequest, Error> {
    let mut losses = Losses::new();
    let request = write_call(line.chosen.dialect, call, retry_key, &mut new_message_id, &mut losses)?;
    let id = next_id();
    let body = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{}","params":{}}}"#, request.method, request.params);
    Ok(PreparedRequest { id, asked: request.answer_kind, body: body.into(), losses })
}

/// Reads an answer that comes in one piece; returns the value and the bytes of its `result`.
async fn read_whole_answer(
    line: &AgentTransport,
    ready: &PreparedRequest,
    answer: IncomingResponse,
) -> Result<(AgentResponse<WireReply>, Bytes), Error> {
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let html = answer.media_type() == "text/html";
    let body = answer.body("the answer", body_limit(status)).await?;
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let reply = JsonRpcReply::read(text).filter(|reply| reply.answers(ready.asked));
    let Some(reply) = reply else {
        return Err(match (status.is_success(), html) {
            (false, _) => line.status_error(status, retry_after, &host),
            (true, true) => invalid_answer("a web page"),
            (true, false) => invalid_answer("not a JSON-RPC answer"),
        });
    };
    // The status decides about authentication, whatever the error code: agent-native sends the code of an unknown task.
    if let (401 | 403, Some(refusal)) = (status.as_u16(), reply.json_rpc_error()) {
        return Err(line.auth_error(refusal.message, TransportCode::Http(status.as_u16())));
    }
    let result = result(line, &ready.id, &reply, ready.asked).map_err(|e| match e {
        Error::Fault { fault, transport, .. } => Error::Fault { fault, transport, retry_after },
        other => other,
    })?;
    let mut losses = ready.losses.clone();
    let dialect = line.chosen.dialect;
    let answer = read_answer(dialect, ready.asked, result, &mut new_message_id, &mut losses)?;
    // A default that we filled in is not part of the received bytes.
    let result = match reply.result.filter(|theirs| theirs.get() == result) {
        Some(theirs) => body.slice_ref(theirs.get().as_bytes()),
        None => Bytes::copy_from_slice(result.as_bytes()),
    };
    let said = match dialect.features().canonical_json {
        true => AgentResponse::from_bytes(answer, result.clone(), losses),
        false => answer_response(dialect, answer, std::str::from_utf8(&result).ok(), losses),
    };
    Ok((said, result))
}

/// The `result` of one event of a stream.
pub(super) fn event_result<'a>(line: &AgentTransport, id: &str, text: &'a str) -> Result<&'a str, Error> {
    let reply = JsonRpcReply::read(text).ok_or_else(|| invalid_answer("not a JSON-RPC answer"))?;
    result(line, id, &reply, AnswerKind::Task)
}

/// The `result` of the answer to the request with this id.
fn result<'a>(line: &AgentTransport, id: &str, reply: &JsonRpcReply<'a>, asked: AnswerKind) -> Result<&'a str, Error> {
    // An answer with another id is refused. An answer without an id belongs to the connection's request.
    let theirs = reply.id.map(RawValue::get).filter(|id| *id != "null");
    if line.chosen.dialect.features().marked_streams && theirs.is_some_and(|theirs| theirs.trim_matches('"') != id) {
        return Err(invalid_answer("an answer to another request: its id is not ours"));
    }
    if let Some(error) = reply.error.filter(|e| e.get() != "null") {
        let Some(refusal) = reply.json_rpc_error() else { return Err(invalid_answer("an error without a number")) };
        return Err(line.fault_error(
            read_error(line.chosen.dialect, error.get()),
            TransportCode::JsonRpc(refusal.code),
            None,
        ));
    }
    match reply.result {
        // The Go SDK encodes an empty list as `null`.
        Some(result) if asked == AnswerKind::Pushes && result.get() == "null" => {
            Ok(line.chosen.dialect.features().empty_push_list)
        }
        Some(result) => Ok(result.get()),
        None if asked == AnswerKind::Deletion => Ok("null"),
        None => Err(invalid_answer("neither a result nor an error")),
    }
}

/// The error for an answer that violates the protocol; the agent sent no code.
fn invalid_answer(what: &str) -> Error {
    Error::local(Fault::InvalidAgentResponse(what.into()))
}
