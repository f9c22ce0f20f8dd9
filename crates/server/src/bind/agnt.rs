//! `POST /a2a/v1`: the envelope of the booking network, one there and one back.
//!
//! It is one more dialect in front of the agent that the network is. The order of checks, cheap and anonymous ones first:
//!
//! ```text
//! host → TLS → method → type → size → key → quota → JSON → schema → protocol → hops, signature, sender → time
//!      → intent → scope → tier → payload → retry? → time left → the agent
//! ```
//!
//! Nothing after the key is told to strangers, garbage costs its sender a request of the day, and nobody reads what a
//! payload means before its signature is right.

mod answer;
mod metrics;
mod record;
mod status;
mod visit;
mod webhooks;

#[cfg(test)]
mod tests;

pub(crate) use metrics::EnvelopeMetrics;

use super::Head;
use crate::app::{App, Served};
use crate::arriving::Taken;
use crate::body::{Body, JSON};
use crate::host::TokioHost;
use crate::network::Network;
use crate::peer::Peer;
use crate::stack::{Untaken, collect};
use answer::{Outcome, outcome, refusal_of};
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_engine::Host as _;
use sabir_guard::{Admitted, Sealed};
use sabir_network::intent::Ask;
use sabir_network::via;
use sabir_proto::agnt::{Aside, Intent, Problem, ProblemCode};
use sabir_proto::{
    Call, Fault, Json, Message, MessageId, Object, Part, Role, SendConfiguration, SendMessage, Tenant, Terms, Timestamp,
};
use sabir_store::Digest;
use sabir_wire::Handoffs;
use sabir_wire::agnt::{Envelope, Moment, PATH};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use visit::Visit;

/// Bytes of an envelope.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 256 << 10;
/// The longest that any answer may take, whatever the sender allows.
pub(crate) const TTL_MAX: Duration = Duration::from_millis(15_000);
/// How old an envelope may be; exactly this old is not too old.
const AGE_MAX: Duration = Duration::from_secs(300);
/// How far ahead of our clock it may be.
const AHEAD_MAX: Duration = Duration::from_secs(60);
/// How this dialect is called where dialects are named.
pub(crate) const DIALECT: &str = "agnt";

/// The paths of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Envelope,
    Status,
    Webhooks,
}

impl Place {
    /// The place of a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path.strip_prefix(PATH)? {
            "" => Some(Self::Envelope),
            "/status" => Some(Self::Status),
            rest if webhooks::is_here(rest) => Some(Self::Webhooks),
            _ => None,
        }
    }
}

/// Serves one request.
pub(crate) async fn serve(
    app: &Arc<App>,
    network: &Arc<Network>,
    place: Place,
    request: Request<Incoming>,
    peer: &Peer,
) -> Response<Body> {
    match place {
        Place::Status => return status::serve(app, network, &request),
        Place::Webhooks => return webhooks::serve(app, network, request, peer).await,
        Place::Envelope => {}
    }
    let (parts, body) = request.into_parts();
    let mut visit = Visit::begin(app, network, peer);
    let passed = pass(&mut visit, &parts, body, peer).await;
    match passed {
        Ok(outcome) => visit.end(outcome),
        Err(Turned::Away(problem)) => visit.end(Outcome::refused(problem)),
        Err(Turned::Late) => visit.late(),
        Err(Turned::Back(problem, status)) => visit.turn_back(&problem, status),
    }
}

/// Why an envelope has no answer of the network's.
enum Turned {
    /// It was refused.
    Away(Problem),
    /// The same, for a reason that only HTTP knows.
    Back(Problem, StatusCode),
    /// There was no time left, and whoever works on it will see to the rest.
    Late,
}

impl From<Problem> for Turned {
    fn from(problem: Problem) -> Self {
        Self::Away(problem)
    }
}

async fn pass(visit: &mut Visit, parts: &Parts, body: Incoming, peer: &Peer) -> Result<Outcome, Turned> {
    let app = &visit.app.clone();
    let network = &visit.network.clone();
    let taken = arrive(app, parts, body, peer).await?;
    let begun = Instant::now();
    let Some(served) = app.agent(&network.agent) else {
        return Err(Problem::new(ProblemCode::Internal, "the network is not here at present").into());
    };
    let head = Head { uri: &parts.uri, headers: &parts.headers, peer };
    let knock = head.knock(app, None);
    let admitted = app.guard.admit_key(&served.rules, &knock).await.map_err(|refusal| refusal.problem())?;
    visit.know(admitted.identity());
    let envelope = Envelope::read(&taken.body).map_err(|misread| {
        visit.sketch = *misread.known;
        misread.problem
    })?;
    drop(taken);
    visit.read(&envelope);
    envelope.check_protocol()?;
    let payload = unseal(visit, &served, &admitted, &envelope).await?;
    check_chain(network, &envelope)?;
    visit.payload = Some(payload.clone());
    check_time(envelope.timestamp, Moment::from(knock.now))?;
    let intent = envelope.intent()?;
    visit.intent = Some(intent);
    if intent.has_effect() && envelope.timestamp.is_none() {
        let message = format!("timestamp is missing: {intent} is done once for each, so it must say when it was sent");
        return Err(Problem::new(ProblemCode::InvalidEnvelope, message).into());
    }
    let call = compose(visit, intent, payload.clone(), &envelope);
    let cleared =
        app.guard.clear(&served.rules, admitted, &call, knock.now).await.map_err(|refusal| refusal.problem())?;
    Ask::read(intent, &payload)?;
    if visit.left().is_zero() {
        return Err(too_late().into());
    }
    let moment = envelope.timestamp.filter(|_| intent.has_effect());
    let terms = Terms {
        idempotency_key: moment.map(|moment| retry_key(&envelope, moment)),
        sent_at: moment.map(|moment| Timestamp::from_millis(moment.nanos().div_euclid(1_000_000))),
        dialect: DIALECT,
        ..Terms::default()
    };
    let addressee = network.addressee(app, cleared.identity(), &envelope.to, intent);
    let permit = app.permit(&served, cleared, call, knock.now).await.map_err(|fault| refusal_of(&fault))?;
    let addressee = addressee.unwrap_or(served);
    network.metrics.checked(begun.elapsed());
    let (app, number) = (app.clone(), visit.number);
    let ticket = intent.has_effect().then(|| visit.enter());
    let event = envelope.timestamp.filter(|_| intent == Intent::BookingSearch);
    let event = event.map(|moment| search_event(visit, &envelope, &payload, moment));
    let searches = network.searches.clone();
    let mut work = Box::pin(async move {
        let reply = app.route.serve(&addressee, permit, (&terms, Handoffs::Unaware));
        if let Some(event) = event {
            let ask = async { outcome(number, reply.await.map(|(reply, _)| reply)).said };
            let (said, replay) = searches.answer(event, ask).await;
            return Outcome::found(said, replay);
        }
        let mut outcome = outcome(number, reply.await.map(|(reply, _)| reply));
        // What is done is in the log with its record, and what is not took its record along.
        outcome.recorded = outcome.is_first() && ticket.is_some_and(|ticket| ticket.is_taken());
        outcome
    });
    match tokio::time::timeout(visit.left(), &mut work).await {
        Ok(outcome) => Ok(outcome),
        Err(_) if intent.has_effect() => {
            // It may be done by now, or about to be, and whoever sends it again is told.
            visit.leave(work);
            Err(Turned::Late)
        }
        Err(_) => Err(too_late().into()),
    }
}

/// What can be said of a request before anybody asks who sends it.
async fn arrive(app: &App, parts: &Parts, body: Incoming, peer: &Peer) -> Result<Taken, Turned> {
    let back =
        |status: StatusCode, words: &str| Turned::Back(Problem::new(ProblemCode::InvalidEnvelope, words), status);
    if let Err((status, words)) = app.door.check_host(&parts.uri, &parts.headers) {
        return Err(back(StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN), words));
    }
    check_channel(app.production, peer)?;
    if parts.method != Method::POST {
        return Err(back(StatusCode::METHOD_NOT_ALLOWED, "envelopes are sent by POST"));
    }
    if !is_json(parts) {
        let words = "send the envelope as application/json";
        return Err(Problem::new(ProblemCode::UnsupportedMediaType, words).into());
    }
    let most = ENVELOPE_BYTES_MAX.min(app.limits.body_bytes_max);
    collect(app, &parts.headers, body, most).await.map_err(|Untaken { status, fault }| match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let words = format!("an envelope has at most {most} bytes");
            Problem::new(ProblemCode::PayloadTooLarge, words).into()
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let problem = Problem::new(ProblemCode::Internal, fault.to_string());
            Turned::Back(problem.after(Duration::from_secs(crate::stack::CROWDED_SECONDS)), status)
        }
        status => back(status, &fault.to_string()),
    })
}

/// A bearer key is as good as money, so it goes over TLS. Elsewhere than in production a key may stay on this machine. To
/// lead the sender to TLS instead would be too late: it has sent its key.
fn check_channel(production: bool, peer: &Peer) -> Result<(), Problem> {
    let words = match (peer.tls, production) {
        (true, true) if peer.is_older_tls => "TLS 1.3 is required here",
        (true, _) => return Ok(()),
        (false, false) if peer.address.is_loopback() => return Ok(()),
        (false, _) => "envelopes are taken over TLS only; the key that came with this one should be replaced",
    };
    Err(Problem::new(ProblemCode::TlsRequired, words))
}

fn is_json(parts: &Parts) -> bool {
    let essence = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or("");
        text.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case(JSON)
    };
    parts.headers.get(CONTENT_TYPE).is_some_and(essence)
}

/// The payload without what signs it.
async fn unseal(
    visit: &mut Visit,
    served: &Served,
    admitted: &Admitted,
    envelope: &Envelope,
) -> Result<Object, Problem> {
    let via: Vec<&str> = envelope.via.iter().map(|hop| &*hop.agent).collect();
    let sealed = Sealed {
        payload: envelope.payload.as_str(),
        from: &envelope.from,
        to: &envelope.to,
        intent: &envelope.intent,
        moment: envelope.timestamp.map(Moment::nanos),
        via: &via,
    };
    let (guard, seals) = (&visit.app.guard, visit.network.seals.as_deref());
    let now = TokioHost.now();
    let unsealed =
        guard.unseal(&served.rules, seals, admitted, sealed, now).await.map_err(|refusal| refusal.problem())?;
    visit.signed = unsealed.signed;
    match unsealed.payload {
        None => Ok(envelope.payload.clone()),
        Some(text) => Json::parse(&text)
            .and_then(Object::new)
            .map_err(|fault| Problem::new(ProblemCode::InvalidPayload, fault.to_string())),
    }
}

/// Whether whoever passed it on last has signed for the whole chain. That it may pass on at all, its key has said.
fn check_chain(network: &Network, envelope: &Envelope) -> Result<(), Problem> {
    let Some(seals) = network.seals.as_deref().filter(|_| !envelope.via.is_empty()) else { return Ok(()) };
    via::check(envelope, &network.id, network.federation.routes().hops_max(), &seals.ring, TokioHost.now())
}

fn check_time(sent: Option<Moment>, now: Moment) -> Result<(), Problem> {
    let Some(sent) = sent else { return Ok(()) };
    let age = i128::from(now.nanos()) - i128::from(sent.nanos());
    let nanos = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    if age <= nanos(AGE_MAX) && age >= -nanos(AHEAD_MAX) {
        return Ok(());
    }
    let (old, ahead) = (AGE_MAX.as_secs(), AHEAD_MAX.as_secs());
    let words = format!("timestamp {sent} is more than {old} s old or {ahead} s ahead; it is {now} here");
    Err(Problem::new(ProblemCode::StaleTimestamp, words))
}

fn too_late() -> Problem {
    Problem::new(ProblemCode::TtlExceeded, "there was no answer within ttl_ms; send it again with the same timestamp")
}

/// What an envelope is known again by: one sender does one thing once at each moment. Whose key it is counts as well, and
/// is part of whom the engine takes for its caller.
fn retry_key(envelope: &Envelope, moment: Moment) -> String {
    // A sender has no white space in its name.
    format!("{DIALECT} {} {} {}", envelope.from, envelope.intent, moment.nanos())
}

/// The event that a search is: whose key it came with, who sent it, to whom, when, and what it looks for.
fn search_event(visit: &Visit, envelope: &Envelope, payload: &Object, moment: Moment) -> Digest {
    let key = visit.key.as_deref().unwrap_or_default();
    // Names have no line end in them, and the payload comes last.
    let hash = Sha256::digest(format!("{key}\n{}\n{}\n{}", envelope.to, retry_key(envelope, moment), payload.as_str()));
    let mut event = Digest::default();
    let length = event.len();
    event.copy_from_slice(&hash[..length]);
    event
}

/// The message to the network's agent.
fn compose(visit: &Visit, intent: Intent, payload: Object, envelope: &Envelope) -> Call {
    // The same on every retry, as everything is that is part of the message.
    let id = match envelope.timestamp.filter(|_| intent.has_effect()) {
        None => DIALECT.to_owned(),
        Some(moment) => {
            let hash = Sha256::digest(retry_key(envelope, moment));
            format!("{DIALECT}-{}", sabir_proto::digest::hex(&hash[..16]))
        }
    };
    let id = MessageId::parse(&id).unwrap_or_else(|_| visit.app.route.mint());
    let mut message = Message::text(id, Role::User, "");
    message.parts = vec![Part::data(payload.as_json().clone())];
    let left = u64::try_from(visit.left().as_millis()).unwrap_or(u64::MAX);
    let aside = Aside {
        passage: intent.has_effect().then_some(visit.number),
        from: Some(envelope.from.clone()),
        to: Some(envelope.to.clone()),
        correlation_id: record::correlation(&envelope.context),
        timestamp: envelope.timestamp.map(|moment| moment.to_string()),
        ttl_ms: Some(left),
        tier: visit.tier.clone(),
        agent_id: visit.agent_id.clone(),
        via: envelope.via.clone(),
    };
    message.metadata = aside.with_skill(intent.name());
    Call::Send(Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        wants_task: false,
    }))
}

/// How long an answer may take, of what its sender allows.
fn budget(ttl_ms: u64) -> Duration {
    Duration::from_millis(ttl_ms).min(TTL_MAX)
}

/// The time that is left of a budget.
fn left(arrived: Instant, ttl_ms: u64) -> Duration {
    budget(ttl_ms).saturating_sub(arrived.elapsed())
}

/// What a request to another method than POST is told besides.
fn allow(response: &mut Response<Body>) {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
}

/// What went wrong on the way to the agent, for those who look only at the fault.
fn internal(fault: &Fault) -> Problem {
    Problem::new(ProblemCode::Internal, fault.to_string())
}
