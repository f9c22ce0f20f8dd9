//! Streams: whether there is one, how it begins, how long it is silent, and how it ends.

use super::Exam;
use super::ask::{Meaning, excerpt, id_of, of_error, result_of};
use super::interface::{GREETING, words};
use super::lines::Line::{
    RpcId, StreamContent, StreamCut, StreamDeclared, StreamEnd, StreamEndless, StreamFirst, StreamSilence,
};
use super::place::millis;
use sabir_client::{Agent, Binding, Error, Exchange, Follow, message_id, text_message};
use sabir_proto::{Call, TaskRef, TheirEvent};
use sabir_wire::sse::Parser;
use sabir_wire::{Dialect, Losses, read_event, v1, v03};
use std::time::{Duration, Instant};

/// How long a stream is watched whose task does not end.
const WATCHED_MAX: Duration = Duration::from_secs(30);
/// The largest event that is taken.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// What came of watching a stream.
#[derive(Debug)]
struct Watched {
    /// What the first event was.
    first: Option<&'static str>,
    /// Whose it is.
    task: Option<TaskRef>,
    /// The task has settled, needs somebody, or there was none.
    over: bool,
    longest: Duration,
    end: End,
}

#[derive(Debug)]
enum End {
    /// In good order.
    Closed,
    Cut(String),
    Silent,
    /// Open long after the last event.
    Endless,
    /// We went.
    Left,
    OtherId(String),
    Misread(String),
}

/// Looks at the stream of a message. Tells whether it can be used.
pub(super) async fn look(exam: &mut Exam<'_>, agent: &Agent) -> bool {
    if !agent.streams() {
        let why = if agent.dialect().reach().streams { "the card does not declare it" } else { "the dialect has none" };
        for line in [StreamDeclared, StreamContent, StreamFirst, StreamSilence, StreamCut, StreamEnd, StreamEndless] {
            exam.report.skip(line, why);
        }
        return false;
    }
    exam.report.doing("watching a stream");
    let watched = match agent.binding() {
        Binding::Grpc | Binding::Envelope => by_client(exam, agent).await,
        Binding::JsonRpc | Binding::HttpJson => by_hand(exam, agent).await,
    };
    let Some(watched) = watched else { return false };
    let usable = judge(exam, agent, &watched);
    if let (false, Some(task)) = (watched.over, watched.task) {
        exam.leave(agent, task).await;
    }
    usable
}

/// Opens the stream and reads its bytes. `None`: there is none, which has been said.
async fn by_hand(exam: &mut Exam<'_>, agent: &Agent) -> Option<Watched> {
    let call = Call::Stream(Box::new(text_message(GREETING)));
    let written = agent.written(call).ok()?;
    let id = id_of(written.body.as_deref());
    let begun = Instant::now();
    let exchange = match tokio::time::timeout(exam.gap, agent.exchange(written)).await {
        Ok(Ok(exchange)) => exchange,
        Ok(Err(error)) => {
            exam.report.skip(StreamDeclared, format!("cannot be told: {}", words(&of_error(error))));
            return None;
        }
        Err(_) => {
            let silence = format!("not a byte for {} after the request", exam.shown_gap());
            exam.report.bad(StreamSilence, silence);
            return None;
        }
    };
    // agent-native servers may send events without saying so.
    let unsaid = agent.dialect() == Dialect::Native && exchange.media_type().is_empty();
    if exchange.status.is_success() && (exchange.media_type() == "text/event-stream" || unsaid) {
        let reader = Reader { agent, id: &id, gap: exam.gap, begun };
        return Some(reader.watch(exchange).await);
    }
    let (status, kind) = (exchange.status.as_u16(), exchange.media_type());
    let body = exam.soon(exchange.body(EVENT_BYTES_MAX)).await.unwrap_or_default();
    let refused = match agent.binding() {
        Binding::JsonRpc => result_of(agent.dialect(), &id, status, &body).err(),
        _ if (200..=299).contains(&status) => None,
        _ => Some(Meaning::Refused(v1::http::read_error(status, &body))),
    };
    match refused {
        None => {
            exam.report.ok(StreamDeclared, "the request is accepted");
            exam.report.bad(StreamContent, format!("answered in one piece, as {kind:?}"));
        }
        Some(Meaning::Refused(fault)) => {
            exam.report.bad(StreamDeclared, format!("refused: {}", excerpt(&fault.to_string())));
        }
        Some(Meaning::NotJson(text)) if (200..=299).contains(&status) => {
            exam.report.ok(StreamDeclared, "the request is accepted");
            exam.report.bad(StreamContent, format!("neither a stream nor JSON, sent as {kind:?}: {text}"));
        }
        Some(other) => exam.report.skip(StreamDeclared, format!("cannot be told: {}", words(&other))),
    }
    None
}

/// The same over gRPC, as far as its client shows it.
async fn by_client(exam: &mut Exam<'_>, agent: &Agent) -> Option<Watched> {
    let follow = Follow { resume: false, ..Follow::default() };
    let opened = exam.soon(agent.stream(text_message(GREETING), follow)).await;
    let mut events = match opened {
        Ok(events) => events,
        Err(Meaning::Refused(fault)) => {
            exam.report.bad(StreamDeclared, format!("refused: {}", excerpt(&fault.to_string())));
            return None;
        }
        Err(other) => {
            exam.report.skip(StreamDeclared, format!("cannot be told: {}", words(&other)));
            return None;
        }
    };
    let mut watched = Watched { first: None, task: None, over: false, longest: Duration::ZERO, end: End::Left };
    let reading = async {
        while let Some(event) = events.next().await {
            match event {
                Ok(said) => watched.take(&said.value),
                Err(Error::StreamLost { reason, .. }) if reason.contains("closed it before") => {
                    watched.end = End::Closed;
                }
                Err(error) => watched.end = End::Cut(error.to_string()),
            }
        }
    };
    // Whether a silent stream is alive, gRPC knows below what can be seen from here.
    _ = tokio::time::timeout(WATCHED_MAX, reading).await;
    Some(watched)
}

impl Watched {
    fn take(&mut self, event: &TheirEvent) {
        let (kind, task) = match event {
            TheirEvent::Task(task) => ("task", Some(&task.id)),
            TheirEvent::Message(_) => ("message", None),
            TheirEvent::StatusUpdate(update) => ("statusUpdate", Some(&update.task_id)),
            TheirEvent::ArtifactUpdate(update) => ("artifactUpdate", Some(&update.task_id)),
        };
        self.first.get_or_insert(kind);
        if self.task.is_none() {
            self.task = task.cloned();
        }
        let ends = |state: sabir_proto::TaskState| state.is_settled() || state.is_interrupted();
        self.over = self.over || kind == "message" || event.state().is_some_and(ends);
    }
}

struct Reader<'a> {
    agent: &'a Agent,
    id: &'a str,
    gap: Duration,
    begun: Instant,
}

impl Reader<'_> {
    async fn watch(&self, mut exchange: Exchange) -> Watched {
        let mut watched = Watched { first: None, task: None, over: false, longest: exchange.elapsed, end: End::Left };
        let mut parser = Parser::new(EVENT_BYTES_MAX);
        let mut over_since: Option<Instant> = None;
        while self.begun.elapsed() < WATCHED_MAX {
            let waiting = Instant::now();
            let patience = over_since.map_or(self.gap, |since| self.gap.saturating_sub(since.elapsed()));
            match exchange.piece(patience).await {
                Ok(Some(bytes)) => parser.push(&bytes),
                Ok(None) if parser.is_mid_event() && !watched.over => {
                    watched.end = End::Cut("closed in the middle of an event".into());
                    return watched;
                }
                Ok(None) => {
                    watched.end = End::Closed;
                    return watched;
                }
                Err(Error::Timeout { .. }) => {
                    watched.end = if watched.over { End::Endless } else { End::Silent };
                    watched.longest = watched.longest.max(waiting.elapsed());
                    return watched;
                }
                // What breaks after the last event has broken nothing.
                Err(error) => {
                    watched.end = if watched.over { End::Closed } else { End::Cut(error.to_string()) };
                    return watched;
                }
            }
            if !watched.over {
                watched.longest = watched.longest.max(waiting.elapsed());
            }
            loop {
                match parser.next() {
                    Ok(Some(frame)) if frame.data.trim().is_empty() => {}
                    Ok(Some(frame)) => match self.read(&frame.data) {
                        Ok(event) => watched.take(&event),
                        Err(end) => {
                            watched.end = end;
                            return watched;
                        }
                    },
                    Ok(None) => break,
                    Err(error) => {
                        watched.end = End::Misread(error.to_string());
                        return watched;
                    }
                }
            }
            if watched.over {
                over_since.get_or_insert_with(Instant::now);
            }
        }
        watched
    }

    fn read(&self, data: &str) -> Result<TheirEvent, End> {
        let dialect = self.agent.dialect();
        let mut losses = Losses::new();
        let event = match (self.agent.binding(), dialect) {
            (Binding::HttpJson, Dialect::V1) => v1::http::read_event(data),
            (Binding::HttpJson, _) => {
                v03::rest::read_event(data.as_bytes(), v03::files::Form::Base64, &mut message_id, &mut losses)
                    .map(|heard| heard.event)
            }
            // Events of agent-native have the id 0, whatever was asked.
            (_, Dialect::Native) => match result_of(dialect, "", 200, data.replacen("\"id\":0,", "", 1).as_bytes()) {
                Ok(result) => read_event(dialect, &result, &mut message_id, &mut losses),
                Err(other) => return Err(End::Misread(words(&other))),
            },
            _ => match result_of(dialect, self.id, 200, data.as_bytes()) {
                Ok(result) => read_event(dialect, &result, &mut message_id, &mut losses),
                Err(Meaning::OtherId(why)) => return Err(End::OtherId(why)),
                Err(other) => return Err(End::Misread(words(&other))),
            },
        };
        event.map_err(|fault| End::Misread(fault.to_string()))
    }
}

/// Says what was seen. Tells whether the stream can be used.
fn judge(exam: &mut Exam<'_>, agent: &Agent, watched: &Watched) -> bool {
    exam.report.ok(StreamDeclared, "there is a stream");
    let grpc = agent.binding() == Binding::Grpc;
    if grpc {
        exam.report.skip(StreamContent, "gRPC streams have one form");
    } else if let End::Misread(why) = &watched.end {
        exam.report.bad(StreamContent, format!("an event cannot be read: {why}"));
        return false;
    } else {
        exam.report.ok(StreamContent, "text/event-stream");
    }
    if let End::OtherId(why) = &watched.end {
        exam.report.bad(RpcId, format!("in a stream: {why}"));
        return false;
    }
    match watched.first {
        _ if agent.dialect() != Dialect::V1 => exam.report.skip(StreamFirst, "only 1.0 has a rule for it"),
        Some("task" | "message") | None => {
            exam.report.ok(StreamFirst, watched.first.unwrap_or("nothing came"));
        }
        Some(other) => exam.report.bad(StreamFirst, format!("the first event is a {other}")),
    }
    let silent = matches!(watched.end, End::Silent);
    if grpc {
        exam.report.skip(StreamSilence, "gRPC keeps connections alive below what can be seen");
    } else {
        let wrong = silent.then(|| format!("no bytes for {} while working", exam.shown_gap()));
        exam.report.judge(StreamSilence, format!("longest silence {}", millis(watched.longest)), wrong);
    }
    match &watched.end {
        End::Cut(why) => exam.report.bad(StreamCut, why.clone()),
        End::Closed if !watched.over => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.bad(StreamEnd, "closed in good order before the task was done");
        }
        End::Closed | End::Endless => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.ok(StreamEnd, "ends with its task");
            let wrong = matches!(watched.end, End::Endless)
                .then(|| format!("still open {} after the final event", exam.shown_gap()));
            exam.report.judge(StreamEndless, "closes after the final event", wrong);
        }
        End::Left if watched.over => {
            exam.report.ok(StreamCut, "not cut");
            exam.report.ok(StreamEnd, "ends with its task");
            exam.report.skip(StreamEndless, "the client closes gRPC streams itself");
        }
        End::Silent | End::Left => {
            let why = if silent { "left when it fell silent" } else { "left while the task was at work" };
            for line in [StreamCut, StreamEnd, StreamEndless] {
                exam.report.skip(line, why);
            }
        }
        End::OtherId(_) | End::Misread(_) => {}
    }
    watched.over
}
