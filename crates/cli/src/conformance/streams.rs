//! Streams: how they begin, what they hold, and that they end.
//!
//! Over the two HTTP bindings they are read as they stand on the wire. Over gRPC a stream is read by the client, which
//! leaves when the task is settled; whether the agent would have closed it is then not seen, and not claimed.

use super::operations::{expect_refusal, unknown_task};
use super::report::ConformanceReport;
use sabir_client::{Agent, Binding, Error, FollowOptions, RawResponse, TaskEvents, text_message};
use sabir_proto::{Call, FaultCode, Subscribe, TaskRef, TaskState, Tenant, WireTask};
use sabir_wire::sse::{EVENT_BYTES_MAX, Parser};
use serde_json::Value;
use std::time::Duration;

/// How long an agent may think between two events.
const EVENT_PATIENCE: Duration = Duration::from_secs(60);
/// How long a stream may stay open after its task is settled.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// Most events of one stream that are looked at.
const EVENTS_MAX: usize = 10_000;

pub(super) async fn check(agent: &Agent, text: &str, settled: Option<&WireTask>, report: &mut ConformanceReport<'_>) {
    if !agent.streams() {
        for id in ["CORE-STREAM-001", "CORE-STREAM-002", "CORE-STREAM-003", "STREAM-SUB-001"] {
            report.skip(id, "the card does not offer streaming");
        }
        for id in ["STREAM-SUB-002", "STREAM-SUB-003", "STREAM-SUB-004", framing(agent)] {
            report.skip(id, "the card does not offer streaming");
        }
        return;
    }
    report.record("STREAM-SUB-004", expect_refusal(subscription(agent, unknown_task()).await, FaultCode::TaskNotFound));
    if let Some(settled) = settled {
        let outcome = subscription(agent, settled.id.clone()).await;
        report.record("STREAM-SUB-003", expect_refusal(outcome, FaultCode::UnsupportedOperation));
    }
    let mut stream = match open(agent, Call::Stream(Box::new(text_message(text)))).await {
        Ok(stream) => stream,
        Err(reason) => {
            report.record(framing(agent), Err(reason.clone()));
            return report.record("CORE-STREAM-001", Err(reason));
        }
    };
    report.record(framing(agent), Ok(()));
    let mut events = Vec::new();
    let ended = loop {
        match stream.next().await {
            Ok(Some(event)) if events.len() < EVENTS_MAX => {
                let last = is_last(&event);
                events.push(event);
                if last {
                    break Ok(());
                }
            }
            Ok(Some(_)) => break Err(format!("more than {EVENTS_MAX} events")),
            Ok(None) => break Err("the stream closed before the task was settled".to_owned()),
            Err(reason) => break Err(reason),
        }
    };
    let Some(first) = events.first() else {
        return report.record("CORE-STREAM-001", Err(ended.err().unwrap_or_else(|| "there were no events".into())));
    };
    report.record("CORE-STREAM-001", Ok(()));
    if first.get("message").is_some() {
        stream.check_closes("CORE-STREAM-002", report).await;
        return report.skip("CORE-STREAM-003", "the agent answered with a message");
    }
    report.skip("CORE-STREAM-002", "the agent answered with a task");
    if first.get("task").is_none() {
        let kind = first.as_object().and_then(|event| event.keys().next().cloned()).unwrap_or_default();
        return report.record("CORE-STREAM-003", Err(format!("it begins with {kind:?}")));
    }
    match (ended, state(events.last().unwrap_or(first))) {
        (Err(reason), _) => report.record("CORE-STREAM-003", Err(reason)),
        // The specification leaves open whether a stream stays open while the task waits for input.
        (Ok(()), Some(state)) if state.is_interrupted() => {
            report.skip("CORE-STREAM-003", "the task waits for input or credentials; try another --text");
        }
        (Ok(()), _) => stream.check_closes("CORE-STREAM-003", report).await,
    }
}

/// Subscribes to a task that is under way.
pub(super) async fn subscribe(
    agent: &Agent,
    id: &TaskRef,
    report: &mut ConformanceReport<'_>,
) -> Option<CheckedStream> {
    let call = Call::Subscribe(Subscribe { tenant: Tenant::none(), id: id.clone() });
    let first = match open(agent, call).await {
        Ok(mut stream) => stream.next().await.map(|event| (stream, event)),
        Err(reason) => Err(reason),
    };
    match first {
        Ok((stream, Some(event))) if event.get("task").is_some() => {
            report.record("STREAM-SUB-001", Ok(()));
            Some(stream)
        }
        Ok((_, Some(_))) => {
            report.record("STREAM-SUB-001", Err("the first event is not the task".into()));
            None
        }
        // There is nothing to subscribe to where the agent was quicker than we were.
        Ok((_, None)) | Err(_) if is_settled(agent, id).await => {
            let quick = "the task was done before it could be subscribed to; keep the agent busy with --slow-text";
            report.skip("STREAM-SUB-001", quick);
            report.skip("STREAM-SUB-002", quick);
            None
        }
        Ok((_, None)) => {
            report.record("STREAM-SUB-001", Err("the stream closed without an event".into()));
            None
        }
        Err(reason) => {
            report.record("STREAM-SUB-001", Err(reason));
            None
        }
    }
}

async fn is_settled(agent: &Agent, id: &TaskRef) -> bool {
    agent.task(id).await.is_ok_and(|said| said.value.status.state.is_settled())
}

fn framing(agent: &Agent) -> &'static str {
    match agent.binding() {
        Binding::JsonRpc => "JSONRPC-SSE-001",
        // Envelopes have no streams, so nothing of them gets here.
        Binding::HttpJson | Binding::Envelope => "HTTP_JSON-SSE-001",
        Binding::Grpc => "GRPC-ERR-003",
    }
}

/// A subscription up to its first event: over gRPC, a refusal may come no sooner.
async fn subscription(agent: &Agent, id: TaskRef) -> Result<(), Error> {
    let mut events = agent.subscribe(id, without_resume()).await?;
    match events.next().await {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Follows a stream without resuming it.
fn without_resume() -> FollowOptions {
    FollowOptions { resume: false, ..FollowOptions::default() }
}

/// A stream that is being read.
pub(super) enum CheckedStream {
    Wire { answer: Box<RawResponse>, parser: Box<Parser>, wrapped: bool },
    Client(Box<TaskEvents>),
}

async fn open(agent: &Agent, call: Call) -> Result<CheckedStream, String> {
    if agent.binding() == Binding::Grpc {
        let events = match call {
            Call::Stream(request) => agent.stream(*request, without_resume()).await,
            Call::Subscribe(request) => agent.subscribe(request.id, without_resume()).await,
            _ => return Err("only streams are opened".into()),
        };
        return events.map(|events| CheckedStream::Client(Box::new(events))).map_err(|error| error.to_string());
    }
    let written = agent.preview(call).map_err(|error| error.to_string())?;
    let answer = agent.send_raw(written).await.map_err(|error| error.to_string())?;
    if !answer.status.is_success() {
        return Err(format!("HTTP {}", answer.status));
    }
    match answer.media_type() {
        media_type if media_type == "text/event-stream" => Ok(CheckedStream::Wire {
            answer: Box::new(answer),
            parser: Box::new(Parser::new(EVENT_BYTES_MAX)),
            wrapped: agent.binding() == Binding::JsonRpc,
        }),
        other => Err(format!("the media type is {other:?}")),
    }
}

impl CheckedStream {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> Result<Option<Value>, String> {
        self.next_within(EVENT_PATIENCE).await
    }

    async fn next_within(&mut self, patience: Duration) -> Result<Option<Value>, String> {
        match self {
            Self::Client(events) => match tokio::time::timeout(patience, events.next()).await {
                Ok(None) => Ok(None),
                Ok(Some(said)) => {
                    let said = said.map_err(|error| error.to_string())?;
                    serde_json::from_str(said.json()).map(Some).map_err(|error| error.to_string())
                }
                Err(_) => Err(silence_reason(patience)),
            },
            Self::Wire { answer, parser, wrapped } => loop {
                if let Some(frame) = parser.next().map_err(|error| error.to_string())? {
                    if frame.data.trim().is_empty() {
                        continue;
                    }
                    let value: Value =
                        serde_json::from_str(&frame.data).map_err(|error| format!("an event is not JSON: {error}"))?;
                    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
                        return Err(format!("the stream ends in an error: {error}"));
                    }
                    if !*wrapped {
                        return Ok(Some(value));
                    }
                    return match value.get("result") {
                        Some(result) if value["jsonrpc"] == "2.0" => Ok(Some(result.clone())),
                        _ => Err("an event is not a JSON-RPC response".into()),
                    };
                }
                match tokio::time::timeout(patience, answer.next_chunk(patience)).await {
                    Ok(Ok(Some(bytes))) => parser.push(&bytes),
                    Ok(Ok(None)) if parser.is_mid_event() => return Err("the stream breaks off in an event".into()),
                    Ok(Ok(None)) => return Ok(None),
                    Ok(Err(Error::Timeout { .. })) | Err(_) => return Err(silence_reason(patience)),
                    Ok(Err(error)) => return Err(error.to_string()),
                }
            },
        }
    }

    /// Records whether the stream ends by itself soon, with nothing more to say but the task once again.
    pub(super) async fn check_closes(self, id: &'static str, report: &mut ConformanceReport<'_>) {
        match self {
            Self::Client(_) => report.skip(id, "whether the agent closes the stream is not seen over gRPC"),
            Self::Wire { .. } => report.record(id, self.ends().await),
        }
    }

    async fn ends(mut self) -> Result<(), String> {
        let closing = async {
            for _ in 0..EVENTS_MAX {
                match self.next_within(CLOSE_PATIENCE).await? {
                    None => return Ok(()),
                    Some(event) if event.get("message").is_some() => return Err("there is more after it".into()),
                    Some(_) => {}
                }
            }
            Err(format!("more than {EVENTS_MAX} events"))
        };
        match tokio::time::timeout(CLOSE_PATIENCE, closing).await {
            Ok(closed) => closed,
            Err(_) => Err(format!("it is still open after {} s", CLOSE_PATIENCE.as_secs())),
        }
    }
}

fn silence_reason(patience: Duration) -> String {
    format!("nothing came for {} s", patience.as_secs())
}

/// The state that an event tells.
fn state(event: &Value) -> Option<TaskState> {
    let status = match event.get("task") {
        Some(task) => &task["status"],
        None => &event["statusUpdate"]["status"],
    };
    status["state"].as_str().and_then(TaskState::of_peer)
}

fn is_last(event: &Value) -> bool {
    event.get("message").is_some() || state(event).is_some_and(|state| state.is_settled() || state.is_interrupted())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stream_is_over_when_nothing_more_is_to_come() {
        let status = |state: &str| json!({"statusUpdate":{"taskId":"t","status":{"state":state}}});
        assert!(!is_last(&status("TASK_STATE_WORKING")) && is_last(&status("TASK_STATE_FAILED")));
        assert!(is_last(&json!({"message":{}})) && is_last(&status("TASK_STATE_INPUT_REQUIRED")));
        assert!(!is_last(&json!({"artifactUpdate":{}})));
        assert_eq!(state(&json!({"task":{"status":{"state":"TASK_STATE_COMPLETED"}}})), Some(TaskState::Completed));
    }
}
