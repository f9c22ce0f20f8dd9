//! Prints the answer as it comes.

use super::request::RawRequest;
use crate::call::Session;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Stop};
use crate::render::dangerous;
use sabir_client::{Agent, Binding, Error, FollowOptions, RawResponse};
use sabir_proto::Call;
use sabir_wire::sse::Parser;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The largest answer, in bytes: files travel inside answers.
const ANSWER_BYTES_MAX: usize = sabir_client::ANSWER_BYTES_MAX;
/// How long a stream may be silent.
const IDLE: Duration = Duration::from_secs(90);

/// Asks, and prints what comes back.
pub(super) async fn print_answer(session: &Session, agent: &Agent, request: RawRequest) -> Outcome {
    let failed = |error: Error| Stop::from(session.failed(error));
    if agent.binding() == Binding::Grpc {
        return print_grpc(session, agent, request.call(agent.dialect()).map_err(failed)?).await;
    }
    let written = request.written(agent).map_err(failed)?;
    let exchange = agent.send_raw(written).await.map_err(failed)?;
    let exit = match exchange.status.as_u16() {
        401 | 403 => Exit::Auth,
        400.. => Exit::Failed,
        _ => Exit::Done,
    };
    if exchange.media_type() == "text/event-stream" {
        return stream(session, exchange, exit).await;
    }
    let status = exchange.status;
    let body = exchange.body(ANSWER_BYTES_MAX).await.map_err(failed)?;
    let text = String::from_utf8_lossy(&body);
    if text.trim().is_empty() {
        session.out.note(&format!("HTTP {status}, and nothing more"));
        return Ok(exit);
    }
    print(&session.out, &text)?;
    Ok(if exit == Exit::Done && is_error(&text) { Exit::Failed } else { exit })
}

/// Whether a text is an error of JSON-RPC.
fn is_error(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value["jsonrpc"] == "2.0" && value["error"].is_object()
}

/// Prints each event on a line.
async fn stream(session: &Session, mut exchange: RawResponse, mut exit: Exit) -> Outcome {
    let lost = |reason: String| Stop::from(session.failed(Error::StreamLost { task: None, reason }));
    let mut parser = Parser::new(ANSWER_BYTES_MAX);
    loop {
        while let Some(frame) = parser.next().map_err(|error| lost(error.to_string()))? {
            if frame.data.trim().is_empty() {
                continue;
            }
            session.out.payload(&(escape_controls(&frame.data.replace('\n', " ")) + "\n"))?;
            if is_error(&frame.data) {
                exit = Exit::Failed;
            }
        }
        match exchange.next_chunk(IDLE).await {
            Ok(Some(bytes)) => parser.push(&bytes),
            Ok(None) if parser.is_mid_event() => return Err(lost("the connection closed in mid-event".into())),
            Ok(None) => return Ok(exit),
            Err(Error::Unreachable { reason, .. }) => return Err(lost(reason)),
            Err(Error::Timeout { after, .. }) => {
                return Err(lost(format!("no sign of life for {} seconds", after.as_secs())));
            }
            Err(error) => return Err(session.failed(error).into()),
        }
    }
}

/// gRPC has no text to receive; its answers are printed as JSON.
async fn print_grpc(session: &Session, agent: &Agent, call: Call) -> Outcome {
    let failed = |error: Error| Stop::from(session.failed(error));
    let follow = FollowOptions { resume: false, ..FollowOptions::default() };
    let mut events = match call {
        Call::Stream(send) => agent.stream(*send, follow).await.map_err(failed)?,
        Call::Subscribe(subscribe) => agent.subscribe(subscribe.id, follow).await.map_err(failed)?,
        call => {
            let said = agent.call(call).await.map_err(failed)?;
            print(&session.out, said.json())?;
            return Ok(Exit::Done);
        }
    };
    while let Some(event) = events.next().await {
        session.out.line(event.map_err(failed)?.json())?;
    }
    Ok(Exit::Done)
}

/// Prints an answer: laid out if JSON was asked for, otherwise as it was received.
fn print(out: &Output, text: &str) -> Result<(), Stop> {
    if out.is_json() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return out.document(text);
    }
    out.payload(&(escape_controls(text.trim_end()) + "\n"))
}

/// The same text with control characters escaped as in JSON, which changes nothing for a JSON parser.
fn escape_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            _ if dangerous(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    _ = write!(shown, "\\u{unit:04x}");
                }
            }
            _ => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_parses_to_the_same_and_steers_nothing() {
        let text = "{\"a\":\r\n \"b\u{9b}31m\u{202e}é\"}";
        let shown = escape_controls(text);
        assert_eq!(shown, "{\"a\":\n \"b\\u009b31m\\u202eé\"}");
        let (one, other): (Value, Value) = (serde_json::from_str(text).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(one, other);
    }

    #[test]
    fn errors_are_noticed() {
        assert!(is_error(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001}}"#));
        assert!(!is_error(r#"{"jsonrpc":"2.0","id":1,"result":{"error":{}}}"#));
        assert!(!is_error("not json"));
    }
}
