//! Sends a question to an agent and keeps everything about the answer: its meaning, its status and its headers.
//!
//! Over HTTP the answer is read here from its bytes, since a client that forgives would hide what is looked for. gRPC has
//! no bytes worth looking at, so there the client asks.

use http::{HeaderMap, HeaderValue};
use sabir_client::{Agent, Binding, Error, message_id};
use sabir_proto::{Call, Fault, FaultCode, GetTask, TaskRef, Tenant, WireReply};
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::{AnswerKind, Dialect, Losses, read_answer, read_error, read_http_answer, read_http_error};
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;

/// The largest answer that is read. Nothing that is asked for here has a reason to be large.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What an answer means.
#[derive(Debug)]
pub(super) enum AnswerMeaning {
    Answer(Box<WireReply>),
    /// The agent said no.
    Refused(Fault),
    /// It wants credentials, or other ones.
    Unauthorized(String),
    NotJson(String),
    /// JSON, but not what was asked for.
    Malformed(String),
    /// To another request.
    OtherId(String),
    /// No server answers.
    Unreachable(String),
    TimedOut,
}

/// An answer and how it was said.
#[derive(Debug)]
pub(super) struct ProbeAnswer {
    pub(super) meaning: AnswerMeaning,
    /// The result, or the body of HTTP+JSON, as it was written; null over gRPC.
    pub(super) result: Value,
    pub(super) status: Option<u16>,
    pub(super) headers: HeaderMap,
    /// The media type; empty over gRPC.
    pub(super) media_type: String,
}

impl ProbeAnswer {
    fn without_response(meaning: AnswerMeaning) -> Self {
        let (result, status, headers) = (Value::Null, None, HeaderMap::new());
        Self { meaning, result, status, headers, media_type: String::new() }
    }

    /// The code of a refusal.
    pub(super) fn refusal(&self) -> Option<FaultCode> {
        match &self.meaning {
            AnswerMeaning::Refused(fault) => Some(fault.code()),
            _ => None,
        }
    }

    /// Whether the agent dealt with the request, one way or the other.
    pub(super) fn is_served(&self) -> bool {
        matches!(self.meaning, AnswerMeaning::Answer(_) | AnswerMeaning::Refused(_))
    }
}

/// A question about a task that does not exist: the cheapest thing to ask, and it changes nothing.
pub(super) fn unknown_task_call() -> Call {
    let id = TaskRef::parse(&format!("sabir-doctor-{}", message_id())).expect("a legal id");
    Call::Get(GetTask { tenant: Tenant::none(), id, history_length: None })
}

/// Sends a call and reads its answer. A `version` replaces the version in the headers.
pub(super) async fn ask(
    agent: &Agent,
    call: Call,
    version: Option<&'static str>,
    answer_timeout: Duration,
) -> ProbeAnswer {
    let asking = async {
        match agent.binding() {
            Binding::Grpc | Binding::Envelope => by_client(agent, call).await,
            Binding::JsonRpc | Binding::HttpJson => over_http(agent, call, version).await,
        }
    };
    tokio::time::timeout(answer_timeout, asking)
        .await
        .unwrap_or_else(|_| ProbeAnswer::without_response(AnswerMeaning::TimedOut))
}

async fn by_client(agent: &Agent, call: Call) -> ProbeAnswer {
    ProbeAnswer::without_response(match agent.call(call).await {
        Ok(said) => AnswerMeaning::Answer(Box::new(said.value)),
        Err(error) => of_error(error),
    })
}

/// What a failure of the client means.
pub(super) fn of_error(error: Error) -> AnswerMeaning {
    match error {
        Error::CredentialsMissing { .. } | Error::AuthFailed { .. } => AnswerMeaning::Unauthorized(error.to_string()),
        Error::Fault { fault: Fault::InvalidAgentResponse(why), .. } => AnswerMeaning::Malformed(why),
        Error::Fault { fault, .. } => AnswerMeaning::Refused(fault),
        Error::Timeout { .. } => AnswerMeaning::TimedOut,
        // The alert of TLS 1.3 for a missing client certificate.
        Error::Unreachable { reason, .. } if reason.contains("CertificateRequired") => {
            AnswerMeaning::Unauthorized("the server wants a certificate of its clients".into())
        }
        other => AnswerMeaning::Unreachable(other.to_string()),
    }
}

async fn over_http(agent: &Agent, call: Call, version: Option<&'static str>) -> ProbeAnswer {
    let mut written = match agent.preview(call.clone()) {
        Ok(written) => written,
        Err(error) => return ProbeAnswer::without_response(of_error(error)),
    };
    if let Some(version) = version {
        written.headers.insert(sabir_wire::version::HEADER, HeaderValue::from_static(version));
    }
    let id = id_of(written.body.as_deref());
    let exchange = match agent.send_raw(written).await {
        Ok(exchange) => exchange,
        Err(error) => return ProbeAnswer::without_response(of_error(error)),
    };
    let (status, headers, media_type) = (exchange.status.as_u16(), exchange.headers.clone(), exchange.media_type());
    let body = match exchange.body(ANSWER_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => {
            return ProbeAnswer {
                status: Some(status),
                ..ProbeAnswer::without_response(AnswerMeaning::NotJson(error.to_string()))
            };
        }
    };
    let (meaning, result) = match agent.binding() {
        Binding::JsonRpc => read_rpc(agent.dialect(), AnswerKind::of_call(&call), &id, status, &body),
        _ => read_http(agent.dialect(), &call, status, &body),
    };
    ProbeAnswer { meaning, result, status: Some(status), headers, media_type }
}

/// The id of a JSON-RPC request that was written.
pub(super) fn id_of(body: Option<&str>) -> String {
    let body: Value = body.and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
    body["id"].as_str().unwrap_or_default().to_owned()
}

/// Reads an answer of JSON-RPC.
pub(super) fn read_rpc(
    dialect: Dialect,
    asked: AnswerKind,
    id: &str,
    status: u16,
    body: &[u8],
) -> (AnswerMeaning, Value) {
    let result = match result_of(dialect, id, status, body) {
        Ok(result) => result,
        Err(meaning) => return (meaning, Value::Null),
    };
    let value: Value = serde_json::from_str(&result).unwrap_or_default();
    let meaning = match read_answer(dialect, asked, &result, &mut message_id, &mut Losses::new()) {
        Ok(answer) => AnswerMeaning::Answer(Box::new(answer)),
        Err(fault) => AnswerMeaning::Malformed(fault.to_string()),
    };
    (meaning, value)
}

/// The `result` of an answer to the request with this id.
pub(super) fn result_of(dialect: Dialect, id: &str, status: u16, body: &[u8]) -> Result<String, AnswerMeaning> {
    if matches!(status, 401 | 403) {
        return Err(AnswerMeaning::Unauthorized(format!("HTTP {status}")));
    }
    let text = String::from_utf8_lossy(body);
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Err(match status {
            404 | 405 | 501..=504 => AnswerMeaning::Unreachable(format!("HTTP {status}")),
            200..=299 => AnswerMeaning::NotJson(excerpt(&text)),
            _ => AnswerMeaning::NotJson(format!("HTTP {status}: {}", excerpt(&text))),
        });
    };
    let is_reply = value.get("result").is_some() || value.get("error").is_some_and(Value::is_object);
    if !is_reply {
        return Err(match status {
            404 | 405 | 501..=504 => AnswerMeaning::Unreachable(format!("HTTP {status}")),
            _ => AnswerMeaning::Malformed(format!("neither a result nor an error: {}", excerpt(&text))),
        });
    }
    if let Some(theirs) = value.get("id").filter(|theirs| !theirs.is_null() && theirs.as_str() != Some(id)) {
        return Err(AnswerMeaning::OtherId(format!("asked with id {id:?}, answered with {theirs}")));
    }
    if let Some(error) = value.get("error").filter(|error| error.is_object()) {
        let fault = read_error(dialect, &error.to_string());
        return Err(match fault.code() {
            FaultCode::Unauthenticated | FaultCode::Forbidden => AnswerMeaning::Unauthorized(fault.to_string()),
            _ => AnswerMeaning::Refused(fault),
        });
    }
    // As it was written, numbers included.
    #[derive(serde::Deserialize)]
    struct RpcReply<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    let reply: Result<RpcReply<'_>, _> = serde_json::from_str(&text);
    reply.map(|reply| reply.result.get().to_owned()).map_err(|error| AnswerMeaning::Malformed(error.to_string()))
}

/// Reads an answer of HTTP+JSON.
fn read_http(dialect: Dialect, call: &Call, status: u16, body: &[u8]) -> (AnswerMeaning, Value) {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let meaning = match status {
        401 | 403 => AnswerMeaning::Unauthorized(format!("HTTP {status}")),
        502..=504 => AnswerMeaning::Unreachable(format!("HTTP {status}")),
        200..=299 => {
            let files = FileEncoding::Base64;
            let answer = read_http_answer(dialect, call, body, files, &mut message_id, &mut Losses::new());
            match (answer, &value) {
                (Ok(answer), _) => AnswerMeaning::Answer(Box::new(answer)),
                (Err(_), None) => AnswerMeaning::NotJson(excerpt(&String::from_utf8_lossy(body))),
                (Err(fault), Some(_)) => AnswerMeaning::Malformed(fault.to_string()),
            }
        }
        _ => AnswerMeaning::Refused(read_http_error(dialect, status, body)),
    };
    (meaning, value.unwrap_or_default())
}

/// The beginning of a text from the agent.
pub(super) fn excerpt(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if line.chars().count() > SHOWN_CHARS_MAX { "…" } else { "" };
    format!("{shown:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(status: u16, body: &str) -> AnswerMeaning {
        read_rpc(Dialect::V1, AnswerKind::Send, "mine", status, body.as_bytes()).0
    }

    #[test]
    fn answers_of_json_rpc_are_told_apart() {
        assert!(matches!(meaning(200, "upstream connect error"), AnswerMeaning::NotJson(_)));
        assert!(matches!(meaning(404, "<html>"), AnswerMeaning::Unreachable(_)));
        assert!(matches!(meaning(401, "{}"), AnswerMeaning::Unauthorized(_)));
        assert!(matches!(meaning(200, "{}"), AnswerMeaning::Malformed(_)));
        assert!(matches!(meaning(200, r#"{"id":"not-yours","result":{}}"#), AnswerMeaning::OtherId(_)));
        let refused = meaning(200, r#"{"id":"mine","error":{"code":-32601,"message":"no"}}"#);
        assert!(matches!(refused, AnswerMeaning::Refused(fault) if fault.code() == FaultCode::MethodNotFound));
        // The bare task of another version.
        assert!(matches!(
            meaning(200, r#"{"id":"mine","result":{"id":"t","status":{}}}"#),
            AnswerMeaning::Malformed(_)
        ));
        let task = r#"{"id":"mine","result":{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}"#;
        assert!(
            matches!(meaning(200, task), AnswerMeaning::Answer(answer) if matches!(*answer, WireReply::SentTask(_)))
        );
    }
}
