//! The HTTP+JSON transport of 1.0, and the REST transport of 0.3.

use super::sse::{Framing, SseEvents};
use super::{AgentTransport, EventStream, answer_response, body_limit, lineage, new_message_id, single_event_stream};
use crate::http_client::IncomingResponse;
use crate::{AgentResponse, Error, TransportCode};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sabir_proto::{Call, Fault, WireReply};
use sabir_wire::{HttpRequest, Losses, read_http_answer, read_http_error, write_http_call};
use std::sync::Arc;
use url::Url;

/// The media type that 1.0.1 prefers; below it the one that 1.0.0 and 0.3 know.
const A2A_JSON: &str = "application/a2a+json";
const JSON: &str = "application/json";

pub(super) async fn send_call(line: &AgentTransport, call: &Call) -> Result<AgentResponse<WireReply>, Error> {
    let mut losses = Losses::new();
    let request = build_request(line, call, &mut losses)?;
    let mut headers = headers(line, JSON);
    lineage::add_lineage_header(call, &mut headers);
    let answer = send(line, &request, headers).await?;
    read_whole_answer(line, call, answer, losses).await
}

pub(super) async fn open_stream(
    line: &Arc<AgentTransport>,
    call: &Call,
    after: Option<&str>,
) -> Result<EventStream, Error> {
    let mut losses = Losses::new();
    let mut request = build_request(line, call, &mut losses)?;
    let mut headers = headers(line, "text/event-stream, application/json");
    lineage::add_lineage_header(call, &mut headers);
    if let Some(after) = after.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("last-event-id", after);
    }
    let mut answer = send(line, &request, headers.clone()).await?;
    // The text of the specification subscribes by POST, its proto by GET; each server supports one of the two.
    let other_verb = matches!(call, Call::Subscribe(_))
        && match answer.status {
            // FastAPI answers this with JSON.
            StatusCode::METHOD_NOT_ALLOWED => true,
            // With a JSON body the task was not found, otherwise the path was not found.
            StatusCode::NOT_FOUND => !answer.media_type().ends_with("json"),
            _ => false,
        };
    if other_verb {
        request.method = Method::GET;
        request.body = None;
        answer = send(line, &request, headers).await?;
    }
    if answer.status.is_success() && answer.media_type() == "text/event-stream" {
        return Ok(EventStream::Sse(Box::new(SseEvents::new(line.clone(), answer, Framing::Bare))));
    }
    let said = read_whole_answer(line, call, answer, losses).await?;
    single_event_stream(line.chosen.dialect, said, None)
}

/// Previews a call without sending it.
pub(super) fn preview(
    line: &AgentTransport,
    call: &Call,
) -> Result<(Method, String, HeaderMap, Option<String>), Error> {
    let accept = match call {
        Call::Stream(_) | Call::Subscribe(_) => "text/event-stream, application/json",
        _ => JSON,
    };
    let request = build_request(line, call, &mut Losses::new())?;
    let mut headers = headers(line, accept);
    lineage::add_lineage_header(call, &mut headers);
    if request.body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(body_type(line)));
    }
    let body = request.body.map(|body| String::from_utf8_lossy(&body).into_owned());
    Ok((request.method, address(line, &request.path), headers, body))
}

/// Appends a path with its query to the URL of the card, which may have its own query.
fn address(line: &AgentTransport, path: &str) -> String {
    let mut base = line.chosen.url.clone();
    let own = base.query().map(str::to_owned);
    base.set_query(None);
    let joint = match own {
        Some(own) if path.contains('?') => format!("&{own}"),
        Some(own) => format!("?{own}"),
        None => String::new(),
    };
    format!("{}{path}{joint}", base.as_str().trim_end_matches('/'))
}

fn body_type(line: &AgentTransport) -> &'static str {
    line.chosen.dialect.features().json_media_type
}

fn build_request(line: &AgentTransport, call: &Call, losses: &mut Losses) -> Result<HttpRequest, Error> {
    Ok(write_http_call(line.chosen.dialect, call, line.files, losses)?)
}

fn headers(line: &AgentTransport, accept: &'static str) -> HeaderMap {
    let mut headers = line.headers();
    let accept = match accept {
        JSON if body_type(line) == A2A_JSON => "application/a2a+json, application/json",
        accept => accept,
    };
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers
}

async fn send(line: &AgentTransport, request: &HttpRequest, mut headers: HeaderMap) -> Result<IncomingResponse, Error> {
    let url = address(line, &request.path);
    let url: Url = url.parse().map_err(|e| Error::Usage(format!("{url} is not a URL: {e}")))?;
    let body = request.body.clone().map(Bytes::from);
    let body_type = body_type(line);
    if body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(body_type));
    }
    let answer = line.request(request.method.clone(), url.clone(), headers.clone(), body.clone()).await?;
    // Servers of 1.0.0 may know only the older media type. They have done nothing with a body that they could not read.
    if answer.status == StatusCode::UNSUPPORTED_MEDIA_TYPE && body.is_some() && body_type == A2A_JSON {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        return line.request(request.method.clone(), url, headers, body).await;
    }
    Ok(answer)
}

async fn read_whole_answer(
    line: &AgentTransport,
    call: &Call,
    answer: IncomingResponse,
    mut losses: Losses,
) -> Result<AgentResponse<WireReply>, Error> {
    let (status, retry_after, host) = (answer.status, answer.retry_after(), answer.host.clone());
    let html = answer.media_type() == "text/html";
    let body = answer.body("the answer", body_limit(status)).await?;
    let transport = TransportCode::Http(status.as_u16());
    if !status.is_success() {
        if !is_error_object(&body) {
            return Err(line.status_error(status, retry_after, &host));
        }
        let fault = read_http_error(line.chosen.dialect, status.as_u16(), &body);
        return Err(line.fault_error(fault, transport, retry_after));
    }
    // The Go SDK encodes an empty list as `null`.
    let body = match call {
        Call::ListPush(_) if body.trim_ascii() == b"null" => Bytes::from_static(br#"{"configs":[]}"#),
        _ => body,
    };
    let dialect = line.chosen.dialect;
    let answer = read_http_answer(dialect, call, &body, line.files, &mut new_message_id, &mut losses);
    let answer = answer.map_err(|fault| match fault {
        // An error object with a success status: the server has answered, and has done nothing.
        fault @ Fault::Peer { .. } => line.fault_error(fault, transport, retry_after),
        _ if html => Error::local(Fault::InvalidAgentResponse("a web page".into())),
        fault => Error::local(fault),
    })?;
    let text = std::str::from_utf8(&body).ok().filter(|t| !t.trim().is_empty());
    Ok(answer_response(dialect, answer, text, losses))
}

/// Whether a body is an error of an agent, and not a page of a proxy.
fn is_error_object(body: &[u8]) -> bool {
    serde_json::from_slice::<std::collections::HashMap<&str, &serde_json::value::RawValue>>(body)
        .is_ok_and(|map| ["error", "code", "message", "reason", "detail"].iter().any(|k| map.contains_key(*k)))
}
