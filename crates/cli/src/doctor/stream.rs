//! Streams: whether there is one, how it begins, how long it is silent, and how it ends.

use super::Examination;
use super::checks::DoctorCheck::{
    RpcId, StreamContent, StreamCut, StreamDeclared, StreamEnd, StreamEndless, StreamFirst, StreamSilence,
};
use super::host::millis_text;
use super::interface::{GREETING, reason_text};
use super::probe::{AnswerMeaning, excerpt, id_of, of_error, result_of};
use sabir_client::{Agent, Binding, Error, FollowOptions, RawResponse, message_id, text_message};
use sabir_proto::{Call, TaskRef, WireEvent};
use sabir_wire::sse::Parser;
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::{Losses, read_event, read_http_event, v1};
use std::time::{Duration, Instant};

/// How long a stream is watched whose task does not end.
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest event that is taken.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// What was observed of a stream.
#[derive(Debug)]
struct StreamObservation {
    /// The kind of the first event.
    first: Option<&'static str>,
    /// The task of the stream.
    task: Option<TaskRef>,
    /// The task has settled or waits for input or credentials, or there was none.
    over: bool,
    longest_silence: Duration,
    end: ObservedEnd,
}

#[derive(Debug)]
enum ObservedEnd {
    /// In good order.
    Closed,
    Cut(String),
    Silent,
    /// Still open long after the last event.
    Endless,
    /// The check stopped reading.
    StoppedReading,
    OtherId(String),
    Malformed(String),
}

/// Looks at the stream of a message. Tells whether it can be used.
pub(super) async fn check(exam: &mut Examination<'_>, agent: &Agent) -> bool {
    if !agent.streams() {
        let why =
            if agent.dialect().features().streams { "the card does not declare it" } else { "the dialect has none" };
        for check in [StreamDeclared, StreamContent, StreamFirst, StreamSilence, StreamCut, StreamEnd, StreamEndless] {
            exam.report.skip(check, why);
        }
        return false;
    }
    exam.report.set_step("watching a stream");
    let observation = match agent.binding() {
        Binding::Grpc | Binding::Envelope => by_client(exam, agent).await,
        Binding::JsonRpc | Binding::HttpJson => over_http(exam, agent).await,
    };
    let Some(observation) = observation else { return false };
    let usable = report_observation(exam, agent, &observation);
    if let (false, Some(task)) = (observation.over, observation.task) {
        exam.cancel_quietly(agent, task).await;
    }
    usable
}

/// Opens the stream and reads its bytes. `None`: there is no stream, and the report says so.
async fn over_http(exam: &mut Examination<'_>, agent: &Agent) -> Option<StreamObservation> {
    let call = Call::Stream(Box::new(text_message(GREETING)));
    let written = agent.preview(call).ok()?;
    let id = id_of(written.body.as_deref());
    let begun = Instant::now();
    let exchange = match tokio::time::timeout(exam.gap, agent.send_raw(written)).await {
        Ok(Ok(exchange)) => exchange,
        Ok(Err(error)) => {
            exam.report.skip(StreamDeclared, format!("cannot be told: {}", reason_text(&of_error(error))));
            return None;
        }
        Err(_) => {
            let silence = format!("not a byte for {} after the request", exam.gap_text());
            exam.report.report_fault(StreamSilence, silence);
            return None;
        }
    };
    let unsaid = !agent.dialect().features().marked_streams && exchange.media_type().is_empty();
    if exchange.status.is_success() && (exchange.media_type() == "text/event-stream" || unsaid) {
        let reader = StreamReader { agent, id: &id, gap: exam.gap, begun };
        return Some(reader.watch(exchange).await);
    }
    let (status, kind) = (exchange.status.as_u16(), exchange.media_type());
    let body = exam.within_timeout(exchange.body(EVENT_BYTES_MAX)).await.unwrap_or_default();
    let refused = match agent.binding() {
        Binding::JsonRpc => result_of(agent.dialect(), &id, status, &body).err(),
        _ if (200..=299).contains(&status) => None,
        _ => Some(AnswerMeaning::Refused(v1::http::read_error(status, &body))),
    };
    match refused {
        None => {
            exam.report.ok(StreamDeclared, "the request is accepted");
            exam.report.report_fault(StreamContent, format!("answered in one piece, as {kind:?}"));
        }
        Some(AnswerMeaning::Refused(fault)) => {
            exam.report.report_fault(StreamDeclared, format!("refused: {}", excerpt(&fault.to_string())));
        }
        Some(AnswerMeaning::NotJson(text)) if (200..=299).contains(&status) => {
            exam.report.ok(StreamDeclared, "the request is accepted");
            exam.report.report_fault(StreamContent, format!("neither a stream nor JSON, sent as {kind:?}: {text}"));
        }
        Some(other) => exam.report.skip(StreamDeclared, format!("cannot be told: {}", reason_text(&other))),
    }
    None
}

/// The same over gRPC, as far as its client shows it.
async fn by_client(exam: &mut Examination<'_>, agent: &Agent) -> Option<StreamObservation> {
    let follow = FollowOptions { resume: false, ..FollowOptions::default() };
    let opened = exam.within_timeout(agent.stream(text_message(GREETING), follow)).await;
    let mut events = match opened {
        Ok(events) => events,
        Err(AnswerMeaning::Refused(fault)) => {
            exam.report.report_fault(StreamDeclared, format!("refused: {}", excerpt(&fault.to_string())));
            return None;
        }
        Err(other) => {
            exam.report.skip(StreamDeclared, format!("cannot be told: {}", reason_text(&other)));
            return None;
        }
    };
    let mut observation = StreamObservation {
        first: None,
        task: None,
        over: false,
        longest_silence: Duration::ZERO,
        end: ObservedEnd::StoppedReading,
    };
    let reading = async {
        while let Some(event) = events.next().await {
            match event {
                Ok(said) => observation.record_event(&said.value),
                Err(Error::StreamLost { reason, .. }) if reason.contains("closed it before") => {
                    observation.end = ObservedEnd::Closed;
                }
                Err(error) => observation.end = ObservedEnd::Cut(error.to_string()),
            }
        }
    };
    // gRPC keeps connections alive below what can be seen here, so silence says nothing.
    _ = tokio::time::timeout(WATCH_TIMEOUT, reading).await;
    Some(observation)
}

impl StreamObservation {
    fn record_event(&mut self, event: &WireEvent) {
        let (kind, task) = match event {
            WireEvent::Task(task) => ("task", Some(&task.id)),
            WireEvent::Message(_) => ("message", None),
            WireEvent::StatusUpdate(update) => ("statusUpdate", Some(&update.task_id)),
            WireEvent::ArtifactUpdate(update) => ("artifactUpdate", Some(&update.task_id)),
        };
        self.first.get_or_insert(kind);
        if self.task.is_none() {
            self.task = task.cloned();
        }
        let ends = |state: sabir_proto::TaskState| state.is_settled() || state.is_interrupted();
        self.over = self.over || kind == "message" || event.state().is_some_and(ends);
    }
}

struct StreamReader<'a> {
    agent: &'a Agent,
    id: &'a str,
    gap: Duration,
    begun: Instant,
}

impl StreamReader<'_> {
    async fn watch(&self, mut exchange: RawResponse) -> StreamObservation {
        let mut observation = StreamObservation {
            first: None,
            task: None,
            over: false,
            longest_silence: exchange.elapsed,
            end: ObservedEnd::StoppedReading,
        };
        let mut parser = Parser::new(EVENT_BYTES_MAX);
        let mut over_since: Option<Instant> = None;
        while self.begun.elapsed() < WATCH_TIMEOUT {
            let waiting = Instant::now();
            let answer_timeout = over_since.map_or(self.gap, |since| self.gap.saturating_sub(since.elapsed()));
            match exchange.next_chunk(answer_timeout).await {
                Ok(Some(bytes)) => parser.push(&bytes),
                Ok(None) if parser.is_mid_event() && !observation.over => {
                    observation.end = ObservedEnd::Cut("closed in the middle of an event".into());
                    return observation;
                }
                Ok(None) => {
                    observation.end = ObservedEnd::Closed;
                    return observation;
                }
                Err(Error::Timeout { .. }) => {
                    observation.end = if observation.over { ObservedEnd::Endless } else { ObservedEnd::Silent };
                    observation.longest_silence = observation.longest_silence.max(waiting.elapsed());
                    return observation;
                }
                // An error after the last event harms no client.
                Err(error) => {
                    observation.end =
                        if observation.over { ObservedEnd::Closed } else { ObservedEnd::Cut(error.to_string()) };
                    return observation;
                }
            }
            if !observation.over {
                observation.longest_silence = observation.longest_silence.max(waiting.elapsed());
            }
            loop {
                match parser.next() {
                    Ok(Some(frame)) if frame.data.trim().is_empty() => {}
                    Ok(Some(frame)) => match self.read(&frame.data) {
                        Ok(event) => observation.record_event(&event),
                        Err(end) => {
                            observation.end = end;
                            return observation;
                        }
                    },
                    Ok(None) => break,
                    Err(error) => {
                        observation.end = ObservedEnd::Malformed(error.to_string());
                        return observation;
                    }
                }
            }
            if observation.over {
                over_since.get_or_insert_with(Instant::now);
            }
        }
        observation
    }

    fn read(&self, data: &str) -> Result<WireEvent, ObservedEnd> {
        let dialect = self.agent.dialect();
        let mut losses = Losses::new();
        let event = match (self.agent.binding(), dialect.features().marked_streams) {
            (Binding::HttpJson, _) => {
                read_http_event(dialect, data, FileEncoding::Base64, &mut message_id, &mut losses)
            }
            // Events of agent-native have the id 0, whatever was asked.
            (_, false) => match result_of(dialect, "", 200, data.replacen("\"id\":0,", "", 1).as_bytes()) {
                Ok(result) => read_event(dialect, &result, &mut message_id, &mut losses),
                Err(other) => return Err(ObservedEnd::Malformed(reason_text(&other))),
            },
            _ => match result_of(dialect, self.id, 200, data.as_bytes()) {
                Ok(result) => read_event(dialect, &result, &mut message_id, &mut losses),
                Err(AnswerMeaning::OtherId(why)) => return Err(ObservedEnd::OtherId(why)),
                Err(other) => return Err(ObservedEnd::Malformed(reason_text(&other))),
            },
        };
        event.map_err(|fault| ObservedEnd::Malformed(fault.to_string()))
    }
}

/// Reports what was observed. Returns whether the stream can be used.
fn report_observation(exam: &mut Examination<'_>, agent: &Agent, observation: &StreamObservation) -> bool {
    exam.report.ok(StreamDeclared, "there is a stream");
    let grpc = agent.binding() == Binding::Grpc;
    if grpc {
        exam.report.skip(StreamContent, "gRPC streams have one form");
    } else if let ObservedEnd::Malformed(why) = &observation.end {
        exam.report.report_fault(StreamContent, format!("an event cannot be read: {why}"));
        return false;
    } else {
        exam.report.ok(StreamContent, "text/event-stream");
    }
    if let ObservedEnd::OtherId(why) = &observation.end {
        exam.report.report_fault(RpcId, format!("in a stream: {why}"));
        return false;
    }
    match observation.first {
        _ if !agent.dialect().features().first_event_specified => {
            exam.report.skip(StreamFirst, "only 1.0 has a rule for it")
        }
        Some("task" | "message") | None => {
            exam.report.ok(StreamFirst, observation.first.unwrap_or("nothing came"));
        }
        Some(other) => exam.report.report_fault(StreamFirst, format!("the first event is a {other}")),
    }
    let silent = matches!(observation.end, ObservedEnd::Silent);
    if grpc {
        exam.report.skip(StreamSilence, "gRPC keeps connections alive below what can be seen");
    } else {
        let wrong = silent.then(|| format!("no bytes for {} while working", exam.gap_text()));
        exam.report.report_result(
            StreamSilence,
            format!("longest silence {}", millis_text(observation.longest_silence)),
            wrong,
        );
    }
    match &observation.end {
        ObservedEnd::Cut(why) => exam.report.report_fault(StreamCut, why.clone()),
        ObservedEnd::Closed if !observation.over => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.report_fault(StreamEnd, "closed in good order before the task was done");
        }
        ObservedEnd::Closed | ObservedEnd::Endless => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.ok(StreamEnd, "ends with its task");
            let wrong = matches!(observation.end, ObservedEnd::Endless)
                .then(|| format!("still open {} after the final event", exam.gap_text()));
            exam.report.report_result(StreamEndless, "closes after the final event", wrong);
        }
        ObservedEnd::StoppedReading if observation.over => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.ok(StreamEnd, "ends with its task");
            exam.report.skip(StreamEndless, "the client closes gRPC streams itself");
        }
        ObservedEnd::Silent | ObservedEnd::StoppedReading => {
            let why = if silent { "left when it fell silent" } else { "left while the task was at work" };
            for check in [StreamCut, StreamEnd, StreamEndless] {
                exam.report.skip(check, why);
            }
        }
        ObservedEnd::OtherId(_) | ObservedEnd::Malformed(_) => {}
    }
    observation.over
}
