//! Envelopes to venues' own agents and to other networks, each through two breakers: its own first, then the one that
//! all of them share.
//!
//! What leaves is always signed. It goes to the peer's own endpoint, or is laid into its inbox at a ClawPulse gateway,
//! where it is fetched later and nothing but a receipt comes back. Nobody is asked twice here: whoever asked us holds the
//! timestamp, and with it the right to repeat.
//!
//! What counts against a peer: no connection, no answer in at least a second, a status of 500 or more that is not its
//! word about somebody else, an answer that cannot be read or whose signature is wrong. What it refuses is an answer.

use crate::breaker::{Rules, State, Verdict};
use crate::circuit::{Circuit, Hub};
use crate::metrics::Metrics;
use crate::wire::WireLog;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sabir_client::envelope::{Answered, Envelope, Post, Seal, Unserved, seal, unseal};
use sabir_client::redact::{self, Redact};
use sabir_client::{Capacity, Egress, Endpoint, Error, Timeouts, Tls, TransportCode};
use sabir_guard::authn::agnt::Ring;
use sabir_proto::agnt::{Problem, ProblemCode};
use sabir_proto::{Fault, Json, Object, Secret, Timestamp};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// What an answer still needs on its way back through us.
pub const MARGIN: Duration = Duration::from_millis(50);
/// How many peers are remembered by their breakers; past that those are forgotten that have nothing against them.
pub const CIRCUITS_MAX: usize = 10_000;
/// Where a ClawPulse gateway takes messages.
const INBOX: &str = "api/agents/message";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Somebody who is sent envelopes.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its id; its breaker is known by it.
    pub id: Arc<str>,
    /// How it is reached.
    pub way: Mailing,
    /// What is signed with, and what its answers are signed with where they are.
    pub ring: Arc<Ring>,
}

/// How a peer is reached.
#[derive(Debug, Clone)]
pub enum Mailing {
    /// At its own endpoint, with the key it gave us.
    Direct {
        /// Where envelopes are posted.
        at: Url,
        /// The API key it issued to us.
        key: Option<Secret>,
    },
    /// In its inbox at a gateway.
    ClawPulse {
        /// The gateway.
        gateway: Url,
        /// Our key there.
        key: Secret,
    },
}

/// Sends envelopes.
pub struct Envoy {
    post: Post,
    hub: Arc<Hub>,
    rules: Rules,
    circuits: Mutex<HashMap<Arc<str>, Arc<Circuit>>>,
}

impl std::fmt::Debug for Envoy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Envoy").field("hub", &self.hub).finish_non_exhaustive()
    }
}

impl Envoy {
    /// A way out under a policy, with the breakers of the booking network.
    pub fn new(egress: Egress, tls: &Tls, metrics: Metrics) -> Result<Self, Error> {
        Self::with(egress, tls, metrics, Rules::UPSTREAM)
    }

    /// The same with other rules for each peer.
    pub fn with(egress: Egress, tls: &Tls, metrics: Metrics, rules: Rules) -> Result<Self, Error> {
        let endpoint = Endpoint::new(egress, tls, Timeouts::default())?;
        let hub = Hub::with(Rules::NETWORK, metrics, WireLog::off(), Capacity::default());
        Ok(Self { post: Post::over(&endpoint), hub, rules, circuits: Mutex::default() })
    }

    /// The same with so much room for what all peers answer.
    #[must_use]
    pub fn room(self, room: Capacity) -> Self {
        Self { post: self.post.room(room), ..self }
    }

    /// Where the breaker that all peers share stands.
    pub fn state(&self) -> State {
        self.hub.state()
    }

    /// Whether a peer would be called now.
    pub fn is_open_to(&self, peer: &str) -> bool {
        self.circuit(peer).refusal().is_none()
    }

    /// What is left for a peer of the time that is left to us; nothing, if asking it would be in vain.
    pub fn allowance(left: Duration) -> Result<Duration, Problem> {
        let time = left.saturating_sub(MARGIN);
        if time.is_zero() {
            return Err(Problem::new(ProblemCode::TtlExceeded, "there is no time left to ask"));
        }
        Ok(time)
    }

    /// Sends an envelope once, signed as `sender`, and gives what is answered within `time`.
    pub async fn send(
        &self,
        peer: &Peer,
        mut envelope: Envelope,
        sender: &str,
        time: Duration,
    ) -> Result<Object, Problem> {
        let passage = self.circuit(&peer.id).pass().map_err(|refused| {
            Problem::new(ProblemCode::CircuitOpen, "circuit breaker is open").after(refused.after)
        })?;
        envelope.ttl_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        let sealer = Sealer(&peer.ring);
        // What cannot be signed says nothing about the peer: the passage is given back as it is dropped.
        seal(&mut envelope, sender, seconds(), &sealer)
            .map_err(|error| Problem::new(ProblemCode::InvalidPayload, error.to_string()))?;
        let answered = match &peer.way {
            Mailing::Direct { at, key } => self.post.exchange(at, key.as_ref(), &envelope, time).await,
            Mailing::ClawPulse { gateway, key } => self.lay_down(gateway, key, &envelope, sender, time).await,
        };
        let answered = answered.and_then(|answered| {
            let read = unseal(answered.payload, Some(&sealer));
            read.map_err(|reason| Unserved::Nonsense { reason, http: 200 })
        });
        match answered {
            Ok(payload) => {
                passage.report(&Verdict::Alive);
                Ok(payload)
            }
            Err(unserved) => {
                let error = evidence(&unserved, time);
                match (&peer.way, error) {
                    // The gateway is on everybody's way, so its failures are nobody's but the way's.
                    (Mailing::ClawPulse { .. }, Some(error)) => passage.blame_the_way(&error),
                    (_, error) => passage.judge(error.as_ref()),
                }
                Err(told(&peer.id, unserved))
            }
        }
    }

    /// Lays a signed payload into an inbox. The receipt is all that comes back.
    async fn lay_down(
        &self,
        gateway: &Url,
        key: &Secret,
        envelope: &Envelope,
        sender: &str,
        time: Duration,
    ) -> Result<Answered, Unserved> {
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
        let at = below(gateway).ok_or_else(|| Error::Usage("the address of the gateway cannot be called".into()))?;
        let body = Bytes::from(body.as_str().to_owned());
        let (http, _, body) = self.post.post(&at, headers, body, time).await?;
        if !(200..300).contains(&http) {
            return Err(Unserved::Nonsense { reason: "the gateway did not take the message".into(), http });
        }
        // Whatever the gateway says beyond that is a receipt, if it is an object at all.
        let receipt = std::str::from_utf8(&body).ok().and_then(|text| Json::parse(text).and_then(Object::new).ok());
        let payload = match receipt {
            Some(payload) => payload,
            None => Object::from_map(&serde_json::Map::new()).map_err(|fault| Error::Usage(fault.to_string()))?,
        };
        Ok(Answered { from: envelope.to.clone(), payload, context: envelope.context.clone() })
    }

    fn circuit(&self, peer: &str) -> Arc<Circuit> {
        let mut circuits = lock(&self.circuits);
        if let Some(circuit) = circuits.get(peer) {
            return circuit.clone();
        }
        if circuits.len() >= CIRCUITS_MAX {
            circuits
                .retain(|_, circuit| circuit.standing().upstream != State::Closed || Arc::strong_count(circuit) > 1);
        }
        let circuit = self.hub.circuit(peer, peer, self.rules);
        circuits.insert(peer.into(), circuit.clone());
        circuit
    }
}

/// A ring, for whoever signs with it.
struct Sealer<'a>(&'a Ring);

impl Seal for Sealer<'_> {
    fn mac(&self, text: &[u8]) -> String {
        self.0.sign(text)
    }

    fn is_ours(&self, text: &[u8], mac: &str) -> bool {
        self.0.slot_of(text, mac, Timestamp::from_millis(seconds().saturating_mul(1000))).is_some()
    }
}

/// What a failure is to the breakers; `None` if it is an answer.
fn evidence(unserved: &Unserved, time: Duration) -> Option<Error> {
    let status = |http: u16, words: &str| {
        let fault = Fault::InvalidAgentResponse(words.to_owned());
        Error::Fault { fault, transport: Some(TransportCode::Http(http)), retry_after: None }
    };
    match unserved {
        Unserved::Refused(problem) => match problem.code {
            ProblemCode::Internal => Some(status(problem.code.http(), "an error of its own")),
            ProblemCode::TtlExceeded => Some(Error::Timeout { what: "waiting for an answer", after: time }),
            // These are its word about somebody behind it.
            _ => None,
        },
        Unserved::Unknown { http: 500.., .. } => Some(status(500, "an error of its own")),
        Unserved::Unknown { .. } => None,
        // 4xx without an envelope is what a proxy or another kind of server says; that it is no network is its failure.
        Unserved::Nonsense { http, .. } => {
            Some(status(if *http < 500 { 502 } else { *http }, "no answer of a network"))
        }
        Unserved::Failed(error) => Some(error.clone()),
        _ => None,
    }
}

/// What our own caller is told. The peer's words are passed on, without our secrets and with who said them.
fn told(peer: &str, unserved: Unserved) -> Problem {
    let problem = match unserved {
        Unserved::Refused(problem) => problem,
        Unserved::Failed(Error::Timeout { .. }) => {
            Problem::new(ProblemCode::TtlExceeded, "there was no answer in time")
        }
        Unserved::Failed(Error::Refused(refusal)) => {
            // The address is the operator's affair, and not the caller's.
            tracing::warn!(%peer, %refusal, "a peer's address may not be called");
            Problem::new(ProblemCode::VenueUnreachable, "its address may not be called from here")
        }
        Unserved::Failed(error) => {
            tracing::info!(%peer, %error, "a peer could not be reached");
            Problem::new(ProblemCode::VenueUnreachable, "it cannot be reached")
        }
        Unserved::Unknown { code, message, retryable: true, .. } => {
            Problem::new(ProblemCode::VenueUnreachable, format!("{code}: {message}"))
        }
        Unserved::Unknown { code, message, .. } => {
            Problem::new(ProblemCode::InvalidPayload, format!("{code}: {message}"))
        }
        other => Problem::new(ProblemCode::VenueUnreachable, other.to_string()),
    };
    let mut problem = name_hop(problem, peer);
    problem.message.redact(redact::process());
    problem.details.redact(redact::process());
    problem
}

/// Says which hop failed, unless somebody closer to it has said so.
fn name_hop(problem: Problem, hop: &str) -> Problem {
    let mut details = problem.details.as_ref().map(Object::to_map).unwrap_or_default();
    details.entry("hop").or_insert_with(|| hop.into());
    match Object::from_map(&details) {
        Ok(details) => problem.with(details),
        Err(_) => problem,
    }
}

/// The address of inboxes below a gateway's, whether that ends with a slash or not.
fn below(gateway: &Url) -> Option<Url> {
    let mut base = gateway.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.join(INBOX).ok()
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
