//! The JSON-RPC transport, for every dialect.

use super::sse::{Events, Framing};
use super::{Line, Opened, body_limit, lineage, mint, only_event, said_answer};
use crate::door::Incoming;
use crate::{Error, Said, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use rand::RngExt as _;
use sabir_proto::{Answer, Call, Fault};
use sabir_wire::{Asked, Dialect, Losses, read_answer, read_error, write_call};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

#[derive(Deserialize)]
struct Reply<'a> {
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
struct Refusal {
    code: i64,
    #[serde(default)]
    message: String,
}

impl<'a> Reply<'a> {
    fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The error, if it is a JSON-RPC error, whose codes are negative.
    fn refusal(&self) -> Option<Refusal> {
        let refusal: Refusal = serde_json::from_str(self.error?.get()).ok()?;
        (refusal.code < 0).then_some(refusal)
    }

    /// Whether this is an answer. The Python SDK of 0.3 answers a deletion with neither result nor error.
    fn answers(&self, asked: Asked) -> bool {
        let bare_deletion = asked == Asked::Deletion && self.jsonrpc.is_some();
        self.result.is_some() || self.refusal().is_some() || bare_deletion
    }
}

/// A request that is ready to be sent.
struct Ready {
    id: String,
    asked: Asked,
    body: Bytes,
    losses: Losses,
}

pub(super) async fn ask(line: &Line, call: &Call, retry_key: Option<&str>) -> Result<Said<Answer>, Error> {
    let ready = write(line, call, retry_key)?;
    // These headers are the same for every call, so they are built once.
    let mut headers = line.asking.get_or_init(|| headers(line, "application/json")).clone();
    lineage::tell(call, &mut headers);
    if let Some(key) = retry_key {
        headers.insert("idempotency-key", HeaderValue::from_str(key).map_err(|_| bad_key())?);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    whole(line, &ready, answer).await.map(|(said, _)| said)
}

pub(super) async fn open(line: &Arc<Line>, call: &Call, after: Option<&str>) -> Result<Opened, Error> {
    let ready = write(line, call, None)?;
    let mut headers = headers(line, "text/event-stream, application/json");
    lineage::tell(call, &mut headers);
    if let Some(after) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("last-event-id", after);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    let is_stream = match answer.media_type().as_str() {
        "text/event-stream" => true,
        // Some servers of @agent-native/core send no content type.
        "" => line.chosen.dialect == Dialect::Native,
        _ => false,
    };
    if answer.status.is_success() && is_stream {
        let events = Events::new(line.clone(), answer, Framing::JsonRpc(ready.id));
        return Ok(Opened::Sse(Box::new(events)));
    }
    let (said, result) = whole(line, &ready, answer).await?;
    only_event(line.chosen.dialect, said, std::str::from_utf8(&result).ok())
}

/// Previews a call without sending it.
pub(super) fn written(line: &Line, call: &Call) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let accept = match call {
        Call::Stream(_) | Call::Subscribe(_) => "text/event-stream, application/json",
        _ => "application/json",
    };
    let body = String::from_utf8_lossy(&write(line, call, None)?.body).into_owned();
    let mut headers = headers(line, accept);
    lineage::tell(call, &mut headers);
    Ok((Method::POST, line.chosen.url.to_string(), headers, Some(body)))
}

fn headers(line: &Line, accept: &'static str) -> HeaderMap {
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

fn write(line: &Line, call: &Call, retry_key: Option<&str>) -> Result<Ready, Error> {
    let mut losses = Losses::new();
    let request = write_call(line.chosen.dialect, call, retry_key, &mut mint, &mut losses)?;
    let id = next_id();
    let body = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{}","params":{}}}"#, request.method, request.params);
    Ok(Ready { id, asked: request.asked, body: body.into(), losses })
}

/// Reads an answer that comes in one piece; returns the value and the bytes of its `result`.
async fn whole(line: &Line, ready: &Ready, answer: Incoming) -> Result<(Said<Answer>, Bytes), Error> {
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let html = answer.media_type() == "text/html";
    let body = answer.body("the answer", body_limit(status)).await?;
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let reply = Reply::read(text).filter(|reply| reply.answers(ready.asked));
    let Some(reply) = reply else {
        return Err(match (status.is_success(), html) {
            (false, _) => line.bare_status(status, retry_after, &host),
            (true, true) => invalid("a web page"),
            (true, false) => invalid("not a JSON-RPC answer"),
        });
    };
    // The status decides about authentication, whatever the error code: agent-native sends the code of an unknown task.
    if let (401 | 403, Some(refusal)) = (status.as_u16(), reply.refusal()) {
        return Err(line.shut_out(refusal.message, TransportCode::Http(status.as_u16())));
    }
    let result = result(line, &ready.id, &reply, ready.asked).map_err(|e| match e {
        Error::Fault { fault, transport, .. } => Error::Fault { fault, transport, retry_after },
        other => other,
    })?;
    let mut losses = ready.losses.clone();
    let dialect = line.chosen.dialect;
    let answer = read_answer(dialect, ready.asked, result, &mut mint, &mut losses)?;
    // A default that we filled in is not part of the received bytes.
    let result = match reply.result.filter(|theirs| theirs.get() == result) {
        Some(theirs) => body.slice_ref(theirs.get().as_bytes()),
        None => Bytes::copy_from_slice(result.as_bytes()),
    };
    let said = match dialect {
        Dialect::V1 => Said::within(answer, result.clone(), losses),
        _ => said_answer(dialect, answer, std::str::from_utf8(&result).ok(), losses),
    };
    Ok((said, result))
}

/// The `result` of one event of a stream.
pub(super) fn event<'a>(line: &Line, id: &str, text: &'a str) -> Result<&'a str, Error> {
    let reply = Reply::read(text).ok_or_else(|| invalid("not a JSON-RPC answer"))?;
    result(line, id, &reply, Asked::Task)
}

/// The `result` of the answer to the request with this id.
fn result<'a>(line: &Line, id: &str, reply: &Reply<'a>, asked: Asked) -> Result<&'a str, Error> {
    // An answer with another id is refused. An answer without an id belongs to the connection's request.
    let theirs = reply.id.map(RawValue::get).filter(|id| *id != "null");
    // The servers of @agent-native/core use id 0 for the events of every stream, and its client ignores ids.
    let unnumbered = line.chosen.dialect == Dialect::Native;
    if !unnumbered && theirs.is_some_and(|theirs| theirs.trim_matches('"') != id) {
        return Err(invalid("an answer to another request: its id is not ours"));
    }
    if let Some(error) = reply.error.filter(|e| e.get() != "null") {
        let Some(refusal) = reply.refusal() else { return Err(invalid("an error without a number")) };
        return Err(line.refused(
            read_error(line.chosen.dialect, error.get()),
            TransportCode::JsonRpc(refusal.code),
            None,
        ));
    }
    match reply.result {
        // The Go SDK encodes an empty list as `null`.
        Some(result) if asked == Asked::Pushes && result.get() == "null" => Ok(match line.chosen.dialect {
            Dialect::V1 => r#"{"configs":[]}"#,
            _ => "[]",
        }),
        Some(result) => Ok(result.get()),
        None if asked == Asked::Deletion => Ok("null"),
        None => Err(invalid("neither a result nor an error")),
    }
}

/// The error for an answer that violates the protocol; the agent sent no code.
fn invalid(what: &str) -> Error {
    Error::local(Fault::InvalidAgentResponse(what.into()))
}
