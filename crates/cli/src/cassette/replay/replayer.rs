//! Asks the agent again: sends recorded requests with today's names, and reads the answers.

use crate::call::{Session, TrustedCard};
use crate::cassette::compare::{Difference, NameMap, differences};
use crate::cassette::{RecordedExchange, StreamEnd};
use crate::problem::Stop;
use http::{HeaderName, HeaderValue, Method};
use sabir_client::{ANSWER_BYTES_MAX, Agent, Binding, Error, RequestPreview, message_id};
use sabir_proto::{Call, ListTasks};
use sabir_wire::sse::{EVENT_BYTES_MAX, Parser};
use serde_json::{Value, json};
use std::time::Duration;

/// How long an agent may be silent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of one exchange.
pub(super) enum ReplayOutcome {
    /// The answers were compared.
    Compared(Vec<Difference>),
    /// It could not be asked.
    Skipped(String),
}

/// Asks one request after the other.
pub(super) struct Replayer<'a> {
    session: &'a Session,
    found: TrustedCard,
    agents: Vec<(Binding, Agent)>,
    names: NameMap,
    ignored: Vec<String>,
}

/// An answer, as far as it is compared.
struct ComparableAnswer {
    status: u16,
    media_type: String,
    bodies: Vec<Value>,
    ended: Option<StreamEnd>,
}

impl<'a> Replayer<'a> {
    pub(super) fn new(session: &'a Session, found: TrustedCard, ignored: Vec<String>) -> Self {
        Self { session, found, agents: Vec::new(), names: NameMap::default(), ignored }
    }

    pub(super) async fn ask(&mut self, exchange: &RecordedExchange) -> Result<ReplayOutcome, Stop> {
        let Ok(binding) = exchange.binding.parse::<Binding>() else {
            return Ok(ReplayOutcome::Skipped(format!("{} is not spoken", exchange.binding)));
        };
        let Some(agent) = self.agent(binding).await? else {
            return Ok(ReplayOutcome::Skipped(format!("the agent does not offer {binding}")));
        };
        let recorded = self.recorded(exchange);
        let written = self.written(&agent, exchange).map_err(|error| self.session.problem(error, None))?;
        let events = exchange.response.frames.as_ref().map(|frames| (frames.len(), recorded.ended));
        let now = match send_and_read(&agent, written, events).await {
            Ok(now) => now,
            Err(error) => return Err(self.session.problem(error, Some(&self.found)).into()),
        };
        let mut found = Vec::new();
        let mut plain = |path: &str, recorded: Value, now: Value, names: &mut NameMap| {
            let differing = differences(&json!({ path: recorded }), &json!({ path: now }), names, &self.ignored);
            found.extend(differing);
        };
        plain("status", recorded.status.into(), now.status.into(), &mut self.names);
        plain("mediaType", recorded.media_type.into(), now.media_type.into(), &mut self.names);
        match &exchange.response.frames {
            None => {
                let body = |bodies: Vec<Value>| bodies.into_iter().next().unwrap_or_default();
                plain("body", body(recorded.bodies), body(now.bodies), &mut self.names);
            }
            Some(_) => {
                plain("events", recorded.bodies.into(), now.bodies.into(), &mut self.names);
                let ended = |ended: Option<StreamEnd>| json!(ended);
                if recorded.ended != Some(StreamEnd::Left) {
                    plain("ended", ended(recorded.ended), ended(now.ended), &mut self.names);
                }
            }
        }
        Ok(ReplayOutcome::Compared(found))
    }

    /// The agent over this binding, if its card has it.
    async fn agent(&mut self, binding: Binding) -> Result<Option<Agent>, Stop> {
        if let Some((_, agent)) = self.agents.iter().find(|(known, _)| *known == binding) {
            return Ok(Some(agent.clone()));
        }
        let mut only = self.found.clone();
        only.card.supported_interfaces.retain(|interface| interface.protocol_binding.parse() == Ok(binding));
        if only.card.supported_interfaces.is_empty() {
            return Ok(None);
        }
        let agent = self.session.unobserved_agent(only).await?;
        self.agents.push((binding, agent.clone()));
        Ok(Some(agent))
    }

    fn recorded(&self, exchange: &RecordedExchange) -> ComparableAnswer {
        let told = &exchange.response;
        let bodies = match &told.frames {
            None => vec![without_envelope(told.body.value())],
            Some(frames) => frames.iter().map(|frame| without_envelope(frame.data.value())).collect(),
        };
        let media_type = told.headers.get("content-type").map(|value| media_type_essence(value)).unwrap_or_default();
        ComparableAnswer { status: told.status, media_type, bodies, ended: told.ended }
    }

    /// The request in today's names. A message gets a new name, since agents may take a known one for a repetition.
    fn written(&self, agent: &Agent, exchange: &RecordedExchange) -> Result<RequestPreview, Error> {
        let asked = &exchange.request;
        let mut written = agent.preview(Call::List(ListTasks::default()))?;
        written.method = asked.method.parse().unwrap_or(Method::POST);
        let mut body = asked.body.value();
        self.names.replace_names(&mut body);
        let message = if body.get("params").is_some() { &mut body["params"]["message"] } else { &mut body["message"] };
        if message.get("messageId").is_some() {
            message["messageId"] = message_id().to_string().into();
        }
        written.body = Some(body).filter(|body| !body.is_null()).map(|body| body.to_string());
        let segments: Vec<String> = asked.path.split('/').map(|segment| self.renamed_segment(segment)).collect();
        let at = agent.chosen_interface().url.as_str();
        let path = segments.join("/");
        written.url = if path.is_empty() { at.to_owned() } else { format!("{}{path}", at.trim_end_matches('/')) };
        for (name, value) in &asked.headers {
            // This is an event id of the recorded server, which means nothing today.
            if name == "last-event-id" {
                continue;
            }
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                written.headers.insert(name, value);
            }
        }
        Ok(written)
    }

    /// A segment of a path, its query and its verb aside, in today's names.
    fn renamed_segment(&self, segment: &str) -> String {
        let end = segment.find([':', '?']).unwrap_or(segment.len());
        format!("{}{}", self.names.current(&segment[..end]), &segment[end..])
    }
}

/// Sends a request and reads its answer. Of a stream that was recorded in part, as much is read.
async fn send_and_read(
    agent: &Agent,
    written: RequestPreview,
    events: Option<(usize, Option<StreamEnd>)>,
) -> Result<ComparableAnswer, Error> {
    let mut answer = agent.send_raw(written).await?;
    let (status, media_type) = (answer.status.as_u16(), answer.media_type());
    if media_type != "text/event-stream" {
        let body = answer.body(ANSWER_BYTES_MAX).await?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        return Ok(ComparableAnswer { status, media_type, bodies: vec![without_envelope(body)], ended: None });
    }
    let wanted = match events {
        Some((count, Some(StreamEnd::Left | StreamEnd::Broken))) => count,
        _ => usize::MAX,
    };
    let mut parser = Parser::new(EVENT_BYTES_MAX);
    let mut bodies = Vec::new();
    let ended = 'reading: loop {
        while let Ok(Some(frame)) = parser.next() {
            bodies.push(without_envelope(serde_json::from_str(&frame.data).unwrap_or_default()));
            if bodies.len() >= wanted {
                break 'reading StreamEnd::Left;
            }
        }
        match answer.next_chunk(ANSWER_TIMEOUT).await {
            Ok(Some(bytes)) => parser.push(&bytes),
            Ok(None) => break StreamEnd::Closed,
            Err(_) => break StreamEnd::Broken,
        }
    };
    Ok(ComparableAnswer { status, media_type, bodies, ended: Some(ended) })
}

/// What an envelope of JSON-RPC holds: its id is the request's, and not part of the answer.
fn without_envelope(mut value: Value) -> Value {
    if value.get("jsonrpc").is_some()
        && let Some(members) = value.as_object_mut()
    {
        members.remove("id");
        members.remove("jsonrpc");
    }
    value
}

fn media_type_essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
