//! `POST /a2a/v1`: the envelopes of the booking network, one request and one response.
//!
//! This is one more dialect, in front of the agent of the network. The order of checks, cheap and anonymous ones first:
//!
//! ```text
//! host → TLS → method → type → size → key → quota → JSON → schema → protocol → hops, signature, sender → time
//!      → intent → scope → tier → payload → retry? → time left → the agent
//! ```
//!
//! A sender without a valid key learns nothing of the later checks. An invalid envelope counts as a request of the day
//! for its key. The payload is not interpreted before its signature is verified.

mod addressee;
mod answer;
mod exchange;
mod metrics;
mod record;
mod status;
mod webhooks;

#[cfg(test)]
mod tests;

use super::RequestHead;
use crate::app::App;
use crate::body::{Body, JSON};
use crate::directory::ServedAgent;
use crate::incoming_body::{ReceivedBody, RejectedBody, collect};
use crate::network::Network;
use crate::peer::Peer;
use crate::tokio_host::TokioHost;
use answer::{EnvelopeOutcome, TurnOrigin, from_reply, from_turn};
use exchange::EnvelopeExchange;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_engine::Host as _;
use sabir_guard::authn::agnt::{AGE_MAX, AHEAD_MAX};
use sabir_guard::{Admitted, ReceivedEnvelope};
use sabir_network::intent::{IntentRequest, guard_rule};
use sabir_network::{Recipient, problem, via};
use sabir_proto::{
    Call, Json, Message, MessageId, Object, Part, Role, SendConfiguration, SendMessage, ServiceParameters, Tenant,
    Timestamp,
};
use sabir_store::Digest;
use sabir_wire::HandoffSupport;
use sabir_wire::agnt::{Envelope, Intent, NanoTimestamp, PATH, Problem, ProblemCode, TTL_MAX};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of an envelope.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 256 << 10;
/// The name of this dialect.
pub(crate) const DIALECT: &str = "agnt";

/// The paths under `/a2a/v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvelopePath {
    Envelope,
    Status,
    Webhooks,
}

impl EnvelopePath {
    /// Finds what a path names.
    pub(crate) fn find(path: &str) -> Option<Self> {
        match path.strip_prefix(PATH)? {
            "" => Some(Self::Envelope),
            "/status" => Some(Self::Status),
            rest if webhooks::is_webhook_path(rest) => Some(Self::Webhooks),
            _ => None,
        }
    }
}

/// Serves one request of the booking network.
pub(crate) async fn serve(
    app: &Arc<App>,
    network: &Arc<Network>,
    place: EnvelopePath,
    request: Request<Incoming>,
    peer: &Peer,
) -> Response<Body> {
    match place {
        EnvelopePath::Status => return status::serve(app, network, &request),
        EnvelopePath::Webhooks => return webhooks::serve(app, network, request, peer).await,
        EnvelopePath::Envelope => {}
    }
    let (parts, body) = request.into_parts();
    let mut visit = EnvelopeExchange::begin(app, network, peer);
    let passed = process(&mut visit, &parts, body, peer).await;
    match passed {
        Ok(outcome) => visit.complete(outcome),
        Err(EnvelopeFailure::Refused(problem)) => visit.complete(EnvelopeOutcome::refused(problem)),
        Err(EnvelopeFailure::TimedOut) => visit.complete_late(),
        Err(EnvelopeFailure::RefusedWithStatus(problem, status)) => visit.complete_with_status(&problem, status),
    }
}

/// Why the network does not answer an envelope.
enum EnvelopeFailure {
    /// The request was refused.
    Refused(Problem),
    /// It was refused, with an HTTP status of its own.
    RefusedWithStatus(Problem, StatusCode),
    /// Its time has run out, and a background task finishes the work.
    TimedOut,
}

impl From<Problem> for EnvelopeFailure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

async fn process(
    visit: &mut EnvelopeExchange,
    parts: &Parts,
    body: Incoming,
    peer: &Peer,
) -> Result<EnvelopeOutcome, EnvelopeFailure> {
    let app = &visit.app.clone();
    let network = &visit.network.clone();
    let taken = receive(app, parts, body, peer).await?;
    let begun = Instant::now();
    let Some(served) = app.agent(&network.agent) else {
        return Err(Problem::new(ProblemCode::Internal, "the network is not here at present").into());
    };
    let head = RequestHead { uri: &parts.uri, headers: &parts.headers, peer };
    let evidence = head.evidence(app, None);
    let admitted =
        app.guard.admit_key(&served.rules, &evidence).await.map_err(|refusal| problem::of_guard(&refusal))?;
    visit.set_identity(admitted.identity());
    let envelope = Envelope::read(&taken.body).map_err(|misread| {
        visit.sketch = *misread.head;
        misread.problem
    })?;
    drop(taken);
    visit.set_envelope(&envelope);
    envelope.check_protocol()?;
    let payload = verify_signature(visit, &served, &admitted, &envelope).await?;
    check_chain(network, &envelope)?;
    visit.payload = Some(payload.clone());
    check_time(envelope.timestamp, NanoTimestamp::from(evidence.now))?;
    let intent = envelope.intent()?;
    visit.intent = Some(intent);
    if intent.has_effect() && envelope.timestamp.is_none() {
        let message = format!("timestamp is missing: {intent} is done once for each, so it must say when it was sent");
        return Err(Problem::new(ProblemCode::InvalidEnvelope, message).into());
    }
    let call = compose_call(visit, intent, payload.clone(), &envelope);
    let cleared = app
        .guard
        .clear(&served.rules, admitted, &call, evidence.now)
        .await
        .map_err(|refusal| problem::of_guard(&refusal))?;
    IntentRequest::read(intent, &payload)?;
    if visit.time_left().is_zero() {
        return Err(too_late().into());
    }
    let moment = envelope.timestamp.filter(|_| intent.has_effect());
    let terms = ServiceParameters {
        idempotency_key: moment.map(|moment| retry_key(&envelope, moment)),
        sent_at: moment.map(|moment| Timestamp::from_millis(moment.nanos().div_euclid(1_000_000))),
        dialect: DIALECT,
        attachment: visit.attachment(&envelope, intent),
        ..ServiceParameters::default()
    };
    let addressee = network.addressee(app, cleared.identity(), &envelope.to, intent);
    let permit = app.permit(&served, cleared, call, evidence.now).await.map_err(|fault| problem::of_fault(&fault))?;
    let addressee = addressee.unwrap_or(served);
    network.metrics.checked(begun.elapsed());
    let app = app.clone();
    let event = envelope.timestamp.filter(|_| intent == Intent::BookingSearch);
    let event = event.map(|moment| search_event(visit, &envelope, &payload, moment));
    let searches = network.search_cache.clone();
    let mut work = Box::pin(async move {
        let reply = app.engine.serve(&addressee, permit, &terms, HandoffSupport::Unaware);
        if let Some(event) = event {
            let ask = async { from_reply(reply.await.map(|(reply, _)| reply), TurnOrigin::ThisEnvelope).result };
            let (said, replay) = searches.answer(event, ask).await;
            return EnvelopeOutcome::searched(said, replay);
        }
        from_turn(reply.await.map(|(reply, _)| reply), &terms.attachment)
    });
    match tokio::time::timeout(visit.time_left(), &mut work).await {
        Ok(outcome) => Ok(outcome),
        Err(_) if intent.has_effect() => {
            // The work may be done by now or soon. A sender that sends it again gets the result.
            visit.finish_in_background(work);
            Err(EnvelopeFailure::TimedOut)
        }
        Err(_) => Err(too_late().into()),
    }
}

/// The checks before authentication.
async fn receive(app: &App, parts: &Parts, body: Incoming, peer: &Peer) -> Result<ReceivedBody, EnvelopeFailure> {
    let back = |status: StatusCode, words: &str| {
        EnvelopeFailure::RefusedWithStatus(Problem::new(ProblemCode::InvalidEnvelope, words), status)
    };
    if let Err((status, words)) = app.origin_check.check_host(&parts.uri, &parts.headers) {
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
    collect(app, &parts.headers, body, most).await.map_err(|RejectedBody { status, fault }| match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let words = format!("an envelope has at most {most} bytes");
            Problem::new(ProblemCode::PayloadTooLarge, words).into()
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            let problem = Problem::new(ProblemCode::Internal, fault.to_string());
            EnvelopeFailure::RefusedWithStatus(
                problem.with_retry_after(Duration::from_secs(crate::body::RETRY_AFTER_SECONDS)),
                status,
            )
        }
        status => back(status, &fault.to_string()),
    })
}

/// A bearer key is worth money, so it is accepted over TLS only. Outside production a local client may send it without
/// TLS. A redirect to TLS would come too late: the key has been sent already.
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

/// Verifies the signature, and returns the payload without it.
async fn verify_signature(
    visit: &mut EnvelopeExchange,
    served: &ServedAgent,
    admitted: &Admitted,
    envelope: &Envelope,
) -> Result<Object, Problem> {
    let via: Vec<&str> = envelope.via.iter().map(|hop| &*hop.agent).collect();
    let sealed = ReceivedEnvelope {
        payload: envelope.payload.as_str(),
        from: &envelope.from,
        to: &envelope.to,
        intent: &envelope.intent,
        rule: Intent::parse(&envelope.intent).map(guard_rule),
        sent_at_nanos: envelope.timestamp.map(NanoTimestamp::nanos),
        via: &via,
    };
    let (guard, seals) = (&visit.app.guard, visit.network.seals.as_deref());
    let now = TokioHost.now();
    let unsealed = guard
        .verify_envelope(&served.rules, seals, admitted, sealed, now)
        .await
        .map_err(|refusal| problem::of_guard(&refusal))?;
    visit.signed = unsealed.key_slot;
    match unsealed.payload {
        None => Ok(envelope.payload.clone()),
        Some(text) => Json::parse(&text)
            .and_then(Object::new)
            .map_err(|fault| Problem::new(ProblemCode::InvalidPayload, fault.to_string())),
    }
}

/// Checks that the last relay has signed the whole chain. Whether it may relay at all, its key has decided before.
fn check_chain(network: &Network, envelope: &Envelope) -> Result<(), Problem> {
    let Some(seals) = network.seals.as_deref().filter(|_| !envelope.via.is_empty()) else { return Ok(()) };
    via::check(envelope, &network.id, network.federation.routes().hops_max(), &seals.key_ring, TokioHost.now())
}

fn check_time(sent: Option<NanoTimestamp>, now: NanoTimestamp) -> Result<(), Problem> {
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

/// The identity of an effect: one sender does one thing once per timestamp. The key counts too: the engine's caller
/// contains it.
fn retry_key(envelope: &Envelope, moment: NanoTimestamp) -> String {
    // The name of a sender contains no white space.
    format!("{DIALECT} {} {} {}", envelope.from, envelope.intent, moment.nanos())
}

/// The identity of a search: its key, sender, addressee, time and payload.
fn search_event(visit: &EnvelopeExchange, envelope: &Envelope, payload: &Object, moment: NanoTimestamp) -> Digest {
    let key = visit.key.as_deref().unwrap_or_default();
    // Names contain no line break, and the payload comes last.
    let hash = Sha256::digest(format!("{key}\n{}\n{}\n{}", envelope.to, retry_key(envelope, moment), payload.as_str()));
    let mut event = Digest::default();
    let length = event.len();
    event.copy_from_slice(&hash[..length]);
    event
}

/// The message to the agent of the network.
fn compose_call(visit: &EnvelopeExchange, intent: Intent, payload: Object, envelope: &Envelope) -> Call {
    // The same on every retry, like all other parts of the message.
    let id = match envelope.timestamp.filter(|_| intent.has_effect()) {
        None => DIALECT.to_owned(),
        Some(moment) => {
            let hash = Sha256::digest(retry_key(envelope, moment));
            format!("{DIALECT}-{}", sabir_proto::digest::hex(&hash[..16]))
        }
    };
    let id = MessageId::parse(&id).unwrap_or_else(|_| visit.app.engine.new_message_id());
    let mut message = Message::text(id, Role::User, "");
    message.parts = vec![Part::data(payload.as_json().clone())];
    message.metadata = Recipient { to: envelope.to.clone() }.with_skill(intent.name());
    Call::Send(Box::new(SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        wants_task: false,
    }))
}

/// The time for a response, at most what its sender allows.
fn budget(ttl_ms: u64) -> Duration {
    Duration::from_millis(ttl_ms).min(TTL_MAX)
}

/// The rest of the time for a response.
fn time_left(arrived: Instant, ttl_ms: u64) -> Duration {
    budget(ttl_ms).saturating_sub(arrived.elapsed())
}

/// Adds the header that names the allowed method.
fn add_allow_header(response: &mut Response<Body>) {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
}
