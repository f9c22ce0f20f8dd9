//! JSON-RPC over HTTP, whatever is said in it.

use super::sse::{Events, Framing};
use super::{Line, Opened, mint, only_event, said_answer};
use crate::door::{ANSWER_BYTES_MAX, Incoming};
use crate::{Error, Said, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use sabir_proto::{Answer, Call, Fault};
use sabir_wire::{Asked, Losses, read_answer, read_error, write_call};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::Arc;

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A request, ready to leave.
struct Ready {
    id: String,
    asked: Asked,
    body: Bytes,
    losses: Losses,
}

pub(super) async fn ask(line: &Line, call: &Call, retry_key: Option<&str>) -> Result<Said<Answer>, Error> {
    let ready = write(line, call, retry_key)?;
    let mut headers = headers(line, "application/json");
    if let Some(key) = retry_key {
        headers.insert("idempotency-key", HeaderValue::from_str(key).map_err(|_| bad_key())?);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    whole(line, &ready, answer).await.map(|(said, _)| said)
}

pub(super) async fn open(line: &Arc<Line>, call: &Call, after: Option<&str>) -> Result<Opened, Error> {
    let ready = write(line, call, None)?;
    let mut headers = headers(line, "text/event-stream, application/json");
    if let Some(after) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("last-event-id", after);
    }
    let answer = line.post(headers, ready.body.clone()).await?;
    if answer.status.is_success() && answer.media_type() == "text/event-stream" {
        let events = Events::new(line.clone(), answer, Framing::JsonRpc(ready.id));
        return Ok(Opened::Sse(Box::new(events)));
    }
    let (said, result) = whole(line, &ready, answer).await?;
    only_event(line.chosen.dialect, said, Some(&result))
}

/// A call as it would leave.
pub(super) fn written(line: &Line, call: &Call) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let accept = match call {
        Call::Stream(_) | Call::Subscribe(_) => "text/event-stream, application/json",
        _ => "application/json",
    };
    let body = String::from_utf8_lossy(&write(line, call, None)?.body).into_owned();
    Ok((Method::POST, line.chosen.url.to_string(), headers(line, accept), Some(body)))
}

fn headers(line: &Line, accept: &'static str) -> HeaderMap {
    let mut headers = line.headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers
}

pub(super) fn bad_key() -> Error {
    Error::Usage("the retry key holds characters that no header can carry".into())
}

fn write(line: &Line, call: &Call, retry_key: Option<&str>) -> Result<Ready, Error> {
    let mut losses = Losses::new();
    let request = write_call(line.chosen.dialect, call, retry_key, &mut mint, &mut losses)?;
    let id = uuid::Uuid::now_v7().to_string();
    let body = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{}","params":{}}}"#, request.method, request.params);
    Ok(Ready { id, asked: request.asked, body: body.into(), losses })
}

/// Reads an answer that comes in one piece, and gives its `result` beside what it means.
async fn whole(line: &Line, ready: &Ready, answer: Incoming) -> Result<(Said<Answer>, String), Error> {
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let html = answer.media_type() == "text/html";
    let body = answer.body("the answer", ANSWER_BYTES_MAX).await?;
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let is_reply = serde_json::from_str::<Reply<'_>>(text).is_ok_and(|r| r.result.is_some() || r.error.is_some());
    if !is_reply && !status.is_success() {
        return Err(line.bare_status(status, retry_after, &host));
    }
    if !is_reply {
        let what = if html { "a web page" } else { "not a JSON-RPC answer" };
        return Err(invalid(what));
    }
    let result = result(line, &ready.id, text, TransportCode::Http(status.as_u16())).map_err(|e| match e {
        Error::Fault { fault, transport, .. } => Error::Fault { fault, transport, retry_after },
        other => other,
    })?;
    let mut losses = ready.losses.clone();
    let dialect = line.chosen.dialect;
    let answer = read_answer(dialect, ready.asked, result, &mut mint, &mut losses)?;
    Ok((said_answer(dialect, answer, Some(result), losses), result.to_owned()))
}

/// The `result` of an answer to the request with this id.
pub(super) fn result<'a>(line: &Line, id: &str, text: &'a str, http: TransportCode) -> Result<&'a str, Error> {
    let reply: Reply<'a> = serde_json::from_str(text).map_err(|_| invalid("not a JSON-RPC answer"))?;
    if let Some(error) = reply.error.filter(|e| e.get() != "null") {
        let number = serde_json::from_str::<serde_json::Value>(error.get()).ok().and_then(|e| e["code"].as_i64());
        let transport = number.map_or(http, TransportCode::JsonRpc);
        return Err(line.refused(read_error(line.chosen.dialect, error.get()), transport, None));
    }
    // An answer to somebody else's question must not be taken for ours. One without an id is ours by the connection.
    let theirs = reply.id.map(RawValue::get).filter(|id| *id != "null");
    if theirs.is_some_and(|theirs| theirs.trim_matches('"') != id) {
        return Err(invalid("an answer to another request: its id is not ours"));
    }
    reply.result.map(RawValue::get).ok_or_else(|| invalid("neither a result nor an error"))
}

/// What breaks the protocol has no code of the agent's.
fn invalid(what: &str) -> Error {
    Error::local(Fault::InvalidAgentResponse(what.into()))
}
