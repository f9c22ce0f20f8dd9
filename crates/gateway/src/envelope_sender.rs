//! Sends envelopes to venues' own agents and to other booking networks, through two breakers: that of the peer, then
//! the one that all peers share.
//!
//! Every envelope is signed. It is posted to the peer's own endpoint, or into its inbox at a ClawPulse gateway, where
//! the peer fetches it later and we get only a receipt. Nothing is sent twice here: our caller holds the timestamp, and
//! with it the right to repeat.
//!
//! These count against a peer: no connection, no answer in at least a second, a status of 500 or more that is not its
//! report about a party behind it, an answer that cannot be read or whose signature is wrong. A refusal is an answer.

use crate::breaker::{BreakerRules, BreakerState, CallOutcome};
use crate::circuit::{Circuit, Hub};
use crate::exchange_log::ExchangeLog;
use crate::metrics::Metrics;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_client::envelope::{
    Envelope, EnvelopeError, EnvelopeMac, EnvelopeTransport, NetworkAnswer, Problem, ProblemCode, sign_envelope,
    verify_payload,
};
use sabir_client::redact::{self, Redact};
use sabir_client::{Capacity, Egress, EndpointClient, Error, Timeouts, Tls, TransportCode};
use sabir_guard::authn::agnt::KeyRing;
use sabir_proto::{Fault, Json, Object, Secret, Timestamp};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// The time that an answer needs on its way back through us.
pub const ANSWER_MARGIN: Duration = Duration::from_millis(50);
/// The maximum number of peers with breakers; beyond it, peers whose breaker is closed are forgotten.
pub const CIRCUITS_MAX: usize = 10_000;
/// The path at which a ClawPulse gateway takes messages.
const INBOX_PATH: &str = "api/agents/message";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A recipient of envelopes.
#[derive(Debug, Clone)]
pub struct EnvelopePeer {
    /// The id of the peer, which also names its breaker.
    pub id: Arc<str>,
    /// The way on which the peer is reached.
    pub route: EnvelopeRoute,
    /// The keys that sign envelopes, and check answers that are signed.
    pub key_ring: Arc<KeyRing>,
}

/// How a peer is reached.
#[derive(Debug, Clone)]
pub enum EnvelopeRoute {
    /// At its own endpoint, with the API key that it gave us.
    Direct {
        /// The URL to which envelopes are posted.
        endpoint: Url,
        /// The API key it issued to us.
        key: Option<Secret>,
    },
    /// In its inbox at a gateway.
    ClawPulse {
        /// The URL of the gateway.
        gateway: Url,
        /// Our API key at the gateway.
        key: Secret,
    },
}

/// Sends envelopes to peers.
pub struct EnvelopeSender {
    post: EnvelopeTransport,
    hub: Arc<Hub>,
    breaker_rules: BreakerRules,
    circuits: Mutex<HashMap<Arc<str>, Arc<Circuit>>>,
}

impl std::fmt::Debug for EnvelopeSender {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Envoy").field("hub", &self.hub).finish_non_exhaustive()
    }
}

impl EnvelopeSender {
    /// A sender under an address policy, with the breakers of the booking network.
    pub fn new(egress: Egress, tls: &Tls, metrics: Metrics) -> Result<Self, Error> {
        Self::with(egress, tls, metrics, BreakerRules::UPSTREAM)
    }

    /// A sender with other breaker rules for each peer.
    pub fn with(egress: Egress, tls: &Tls, metrics: Metrics, rules: BreakerRules) -> Result<Self, Error> {
        let endpoint = EndpointClient::new(egress, tls, Timeouts::default())?;
        let hub = Hub::with_rules(BreakerRules::NETWORK, metrics, ExchangeLog::off(), Capacity::default());
        Ok(Self {
            post: EnvelopeTransport::from_endpoint(&endpoint),
            hub,
            breaker_rules: rules,
            circuits: Mutex::default(),
        })
    }

    /// Limits the memory that the answers of all peers may take.
    #[must_use]
    pub fn with_answer_capacity(self, room: Capacity) -> Self {
        Self { post: self.post.with_capacity(room), ..self }
    }

    /// The state of the breaker that all peers share.
    pub fn shared_breaker_state(&self) -> BreakerState {
        self.hub.state()
    }

    /// Whether the breakers permit a call to a peer now.
    pub fn is_callable(&self, peer: &str) -> bool {
        self.circuit(peer).retry_after().is_none()
    }

    /// The time that a peer gets of the time that we have left; an error if there is none.
    pub fn time_for_peer(left: Duration) -> Result<Duration, Problem> {
        let time = left.saturating_sub(ANSWER_MARGIN);
        if time.is_zero() {
            return Err(Problem::new(ProblemCode::TtlExceeded, "there is no time left to ask"));
        }
        Ok(time)
    }

    /// Sends an envelope once, signed as `sender`, and returns the answer if it comes within `time`.
    pub async fn send(
        &self,
        peer: &EnvelopePeer,
        mut envelope: Envelope,
        sender: &str,
        time: Duration,
    ) -> Result<Object, Problem> {
        let permit = self.circuit(&peer.id).try_acquire().map_err(|refused| {
            Problem::new(ProblemCode::CircuitOpen, "circuit breaker is open").with_retry_after(refused.retry_after)
        })?;
        envelope.ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let sealer = RingSealer(&peer.key_ring);
        // A signing error says nothing about the peer: the passage is given back as it is dropped.
        sign_envelope(&mut envelope, sender, unix_seconds(), &sealer)
            .map_err(|error| Problem::new(ProblemCode::InvalidPayload, error.to_string()))?;
        let answered = match &peer.route {
            EnvelopeRoute::Direct { endpoint: at, key } => self.post.exchange(at, key.as_ref(), &envelope, time).await,
            EnvelopeRoute::ClawPulse { gateway, key } => {
                self.post_to_inbox(gateway, key, &envelope, sender, time).await
            }
        };
        let answered = answered.and_then(|answered| {
            let read = verify_payload(answered.payload, Some(&sealer));
            read.map_err(|reason| EnvelopeError::Malformed { reason, http: 200 })
        });
        match answered {
            Ok(payload) => {
                permit.report(&CallOutcome::Answered);
                Ok(payload)
            }
            Err(unserved) => {
                let error = breaker_error(&unserved, time);
                match (&peer.route, error) {
                    // All peers share the gateway, so its failures are not held against one of them.
                    (EnvelopeRoute::ClawPulse { .. }, Some(error)) => permit.report_shared_failure(&error),
                    (_, error) => permit.report_result(error.as_ref()),
                }
                Err(problem_for_caller(&peer.id, unserved))
            }
        }
    }

    /// Posts a signed payload to an inbox. The receipt is the only answer.
    async fn post_to_inbox(
        &self,
        gateway: &Url,
        key: &Secret,
        envelope: &Envelope,
        sender: &str,
        time: Duration,
    ) -> Result<NetworkAnswer, EnvelopeError> {
        #[derive(Serialize)]
        struct Message<'a> {
            to: &'a str,
            from: &'a str,
            payload: &'a Object,
            priority: &'static str,
        }
        let message = Message { to: &envelope.to, from: sender, payload: &envelope.payload, priority: "normal" };
        let body = Json::of(&message).map_err(|fault| Error::Usage(fault.to_string()))?;
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_str(key.expose())
            .map_err(|_| Error::Usage("the key of the gateway holds characters that no header can carry".into()))?;
        key.set_sensitive(true);
        headers.insert(API_KEY, key);
        let at =
            inbox_url(gateway).ok_or_else(|| Error::Usage("the address of the gateway cannot be called".into()))?;
        let body = Bytes::from(body.as_str().to_owned());
        let (http, _, body) = self.post.post(&at, headers, body, time).await?;
        if !(200..300).contains(&http) {
            return Err(EnvelopeError::Malformed { reason: "the gateway did not take the message".into(), http });
        }
        // A body that is an object is the receipt; any other body is ignored.
        let receipt = std::str::from_utf8(&body).ok().and_then(|text| Json::parse(text).and_then(Object::new).ok());
        let payload = match receipt {
            Some(payload) => payload,
            None => Object::from_map(&serde_json::Map::new()).map_err(|fault| Error::Usage(fault.to_string()))?,
        };
        Ok(NetworkAnswer { from: envelope.to.clone(), payload, context: envelope.context.clone() })
    }

    fn circuit(&self, peer: &str) -> Arc<Circuit> {
        let mut circuits = lock(&self.circuits);
        if let Some(circuit) = circuits.get(peer) {
            return circuit.clone();
        }
        if circuits.len() >= CIRCUITS_MAX {
            circuits.retain(|_, circuit| {
                circuit.status().upstream != BreakerState::Closed || Arc::strong_count(circuit) > 1
            });
        }
        let circuit = self.hub.circuit(peer, peer, self.breaker_rules);
        circuits.insert(peer.into(), circuit.clone());
        circuit
    }
}

/// Signs and checks with a key ring.
struct RingSealer<'a>(&'a KeyRing);

impl EnvelopeMac for RingSealer<'_> {
    fn mac(&self, text: &[u8]) -> String {
        self.0.sign(text)
    }

    fn verify(&self, text: &[u8], mac: &str) -> bool {
        self.0.key_slot_of(text, mac, Timestamp::from_millis(unix_seconds().saturating_mul(1000))).is_some()
    }
}

/// The failure that the breakers count; `None` if the peer answered.
fn breaker_error(unserved: &EnvelopeError, time: Duration) -> Option<Error> {
    let status = |http: u16, words: &str| {
        let fault = Fault::InvalidAgentResponse(words.to_owned());
        Error::Fault { fault, transport: Some(TransportCode::Http(http)), retry_after: None }
    };
    match unserved {
        EnvelopeError::Refused(problem) => match problem.code {
            ProblemCode::Internal => Some(status(problem.code.http(), "an error of its own")),
            ProblemCode::TtlExceeded => Some(Error::Timeout { what: "waiting for an answer", after: time }),
            // These are its reports about a party behind it.
            _ => None,
        },
        EnvelopeError::Unknown { http: 500.., .. } => Some(status(500, "an error of its own")),
        EnvelopeError::Unknown { .. } => None,
        // A proxy or another kind of server answers 4xx without an envelope; that no network is there is the peer's
        // failure.
        EnvelopeError::Malformed { http, .. } => {
            Some(status(if *http < 500 { 502 } else { *http }, "no answer of a network"))
        }
        EnvelopeError::Transport(error) => Some(error.clone()),
        _ => None,
    }
}

/// The problem that our own caller gets. The peer's words are passed on without our secrets, and with the peer's name.
fn problem_for_caller(peer: &str, unserved: EnvelopeError) -> Problem {
    let problem = match unserved {
        EnvelopeError::Refused(problem) => problem,
        EnvelopeError::Transport(Error::Timeout { .. }) => {
            Problem::new(ProblemCode::TtlExceeded, "there was no answer in time")
        }
        EnvelopeError::Transport(Error::Refused(refusal)) => {
            // The address concerns the operator, and not the caller.
            tracing::warn!(%peer, %refusal, "a peer's address may not be called");
            Problem::new(ProblemCode::VenueUnreachable, "its address may not be called from here")
        }
        EnvelopeError::Transport(error) => {
            tracing::info!(%peer, %error, "a peer could not be reached");
            Problem::new(ProblemCode::VenueUnreachable, "it cannot be reached")
        }
        EnvelopeError::Unknown { code, message, retryable: true, .. } => {
            Problem::new(ProblemCode::VenueUnreachable, format!("{code}: {message}"))
        }
        EnvelopeError::Unknown { code, message, .. } => {
            Problem::new(ProblemCode::InvalidPayload, format!("{code}: {message}"))
        }
        other => Problem::new(ProblemCode::VenueUnreachable, other.to_string()),
    };
    let mut problem = name_hop(problem, peer);
    problem.message.redact(redact::process_redactor());
    problem.details.redact(redact::process_redactor());
    problem
}

/// Names the hop that failed, unless one closer to it is named.
fn name_hop(problem: Problem, hop: &str) -> Problem {
    let mut details = problem.details.as_ref().map(Object::to_map).unwrap_or_default();
    details.entry("hop").or_insert_with(|| hop.into());
    match Object::from_map(&details) {
        Ok(details) => problem.with_details(details),
        Err(_) => problem,
    }
}

/// The URL of the inboxes of a gateway, with or without a slash at the end of the gateway's URL.
fn inbox_url(gateway: &Url) -> Option<Url> {
    let mut base = gateway.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.join(INBOX_PATH).ok()
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
