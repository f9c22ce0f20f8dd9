//! Routes of a network: to a venue's own agent, to another network, and to all of them at once.
//!
//! | Recipient | Handling |
//! |---|---|
//! | a venue with an agent of its own | a signed envelope from us: the agent decides, we store the booking |
//! | another network | the envelope is forwarded, with us added to its chain |
//! | [`ALL_NETWORKS`] | all peer networks are asked at the same time, and their results are merged |
//!
//! An envelope to a venue is ours, and so is its timestamp; yet a caller that repeats its envelope must get the same
//! timestamp again, and two callers in one microsecond must not. So the timestamp is the caller's, with nanoseconds
//! derived from the caller. Since the venue's agent recognises a repetition by it, a crash between their booking and
//! our own costs nothing.
//!
//! | Module | Content |
//! |---|---|
//! | `merge` | merging the results of several networks |

mod merge;

pub use merge::{PeerAnswer, merge_answers};

use crate::registry::{NetworkHealth, NetworkRegistry};
use crate::via;
use futures_util::future::join_all;
use sabir_gateway::{
    Envelope, EnvelopeHop, EnvelopePeer, EnvelopeRoute, EnvelopeSender, Intent, NanoTimestamp, Problem, ProblemCode,
};
use sabir_guard::authn::agnt::KeyRing;
use sabir_proto::{Object, Timestamp};
use sabir_store::Venue;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// The recipient that stands for all networks that can be reached from here.
pub const ALL_NETWORKS: &str = "network:*";
/// How many networks are asked at the same time; where there are more, the time is split.
pub const FAN_OUT_MAX: usize = 16;
/// The time for an answer where the caller sets none.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The longest time for an answer, whatever the caller sets.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);

/// A configured peer: a network, or a venue's agent that needs a key.
#[derive(Debug, Clone)]
pub struct ConfiguredPeer {
    /// The id of the network or the agent.
    pub id: String,
    /// How envelopes reach it; a venue may give the URL of its agent itself.
    pub route: Option<EnvelopeRoute>,
    /// The API key that it issued to us, where the venue gives the URL.
    pub key: Option<sabir_proto::Secret>,
    /// The keys that sign envelopes to it.
    pub ring: Arc<KeyRing>,
    /// Whether it accepts forwarded envelopes.
    pub accepts_forwarded: bool,
    /// The URL of its registry, if it is to be read.
    pub registry: Option<Url>,
}

impl ConfiguredPeer {
    /// Whether it is a network, and not a venue's agent.
    pub fn is_network(&self) -> bool {
        self.id.starts_with("network:")
    }

    fn peer(&self) -> Option<EnvelopePeer> {
        let way = self.route.clone()?;
        Some(EnvelopePeer { id: self.id.as_str().into(), route: way, key_ring: self.ring.clone() })
    }
}

/// A request that is sent to another agent or network on a caller's behalf.
#[derive(Debug, Clone)]
pub struct ForwardedRequest {
    /// The id of the sender.
    pub from: String,
    /// The id of the recipient.
    pub to: String,
    /// The intent of the request.
    pub intent: Intent,
    /// The payload, without the members of its signature.
    pub payload: Object,
    /// The caller's own id for the request.
    pub correlation: Option<String>,
    /// The time at which the caller sent it.
    pub timestamp: Option<NanoTimestamp>,
    /// The hops that forwarded it before us.
    pub via: Vec<EnvelopeHop>,
    /// The id of the caller's key, by which repeated requests are recognised.
    pub key: String,
    /// The time at which it arrived.
    pub received_at: Instant,
    /// How long the answer may take from then on.
    pub time_max: Option<Duration>,
    /// The current wall-clock time.
    pub now: Timestamp,
}

impl ForwardedRequest {
    /// The remaining time.
    fn time_left(&self) -> Duration {
        self.time_max.unwrap_or(ANSWER_TIME).min(ANSWER_TIME_MAX).saturating_sub(self.received_at.elapsed())
    }

    fn envelope(&self, from: &str, to: &str) -> Result<Envelope, Problem> {
        let mut envelope = Envelope::new(from, self.intent, self.payload.clone());
        envelope.to = to.into();
        envelope.timestamp = self.timestamp;
        if let Some(correlation) = &self.correlation {
            let context = Map::from_iter([("correlation_id".to_owned(), Value::from(correlation.as_str()))]);
            envelope.context = Object::from_map(&context).map_err(|fault| internal(&fault))?;
        }
        Ok(envelope)
    }

    /// The caller's timestamp, with nanoseconds that distinguish it from those of other callers.
    fn disambiguated_timestamp(&self) -> NanoTimestamp {
        let said = self.timestamp.unwrap_or_else(|| NanoTimestamp::from(self.now));
        let mut hash = Sha256::new();
        for part in [&self.key, &self.from] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let apart = i64::from(u16::from_be_bytes([digest[0], digest[1]]) % 1000);
        NanoTimestamp::from_nanos(said.nanos().div_euclid(1000).saturating_mul(1000).saturating_add(apart))
    }
}

/// The routes of a network to venues and other networks.
pub struct Routes {
    own_id: String,
    /// The name of our key in chains.
    kid: String,
    /// The keys that sign where a peer has none of its own.
    ring: Option<Arc<KeyRing>>,
    sender: EnvelopeSender,
    registry: Arc<NetworkRegistry>,
    peers: Vec<ConfiguredPeer>,
    hops_max: usize,
    /// The requests to each peer, and its answers.
    answer_counts: Mutex<HashMap<String, (u32, u32)>>,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Routes").field("own", &self.own_id).finish_non_exhaustive()
    }
}

impl Routes {
    /// The routes of a network with this id. Its key is called `kid` in chains.
    pub fn new(
        (own_id, kid): (String, String),
        ring: Option<Arc<KeyRing>>,
        sender: EnvelopeSender,
        registry: Arc<NetworkRegistry>,
        peers: Vec<ConfiguredPeer>,
        hops_max: usize,
    ) -> Self {
        Self { own_id, kid, ring, sender, registry, peers, hops_max, answer_counts: Mutex::default() }
    }

    /// The id of our own network.
    pub fn own_id(&self) -> &str {
        &self.own_id
    }

    /// How often an envelope may be forwarded.
    pub const fn hops_max(&self) -> usize {
        self.hops_max
    }

    /// The registry of known networks.
    pub const fn registry(&self) -> &Arc<NetworkRegistry> {
        &self.registry
    }

    /// The configured peers.
    pub fn peers(&self) -> &[ConfiguredPeer] {
        &self.peers
    }

    /// The client that sends our envelopes.
    pub const fn sender(&self) -> &EnvelopeSender {
        &self.sender
    }

    /// The health of a network, as this server has observed it.
    pub fn health(&self, id: &str) -> NetworkHealth {
        let (asked, answered) = self.lock().get(id).copied().unwrap_or_default();
        let permille = (answered.saturating_mul(1000)).checked_div(asked).unwrap_or(1000);
        NetworkHealth { is_available: self.sender.is_callable(id), answered_permille: permille }
    }

    /// The address of a venue's own agent, if it has one.
    fn agent_of(&self, venue: &Venue) -> Option<EnvelopePeer> {
        let known = self.peers.iter().find(|neighbour| neighbour.id == venue.agent_id);
        if let Some(peer) = known.and_then(ConfiguredPeer::peer) {
            return Some(peer);
        }
        let at = venue.endpoint.as_deref().and_then(|endpoint| Url::parse(endpoint).ok())?;
        let ring = known.map(|neighbour| neighbour.ring.clone()).or_else(|| self.ring.clone())?;
        let key = known.and_then(|neighbour| neighbour.key.clone());
        Some(EnvelopePeer {
            id: venue.agent_id.as_str().into(),
            route: EnvelopeRoute::Direct { endpoint: at, key },
            key_ring: ring,
        })
    }

    /// Whether a venue has an agent of its own that can be called.
    pub fn has_agent(&self, venue: &Venue) -> bool {
        self.agent_of(venue).is_some()
    }

    /// Asks the agent of a venue, under our own id.
    pub async fn ask_venue(&self, venue: &Venue, errand: &ForwardedRequest) -> Result<Object, Problem> {
        let unreachable = || Problem::new(ProblemCode::VenueUnreachable, "the venue has no agent that can be asked");
        let peer = self.agent_of(venue).ok_or_else(unreachable)?;
        let mut envelope = errand.envelope(&self.own_id, &venue.agent_id)?;
        envelope.timestamp = Some(errand.disambiguated_timestamp());
        let time = EnvelopeSender::time_for_peer(errand.time_left())?;
        self.sender.send(&peer, envelope, &self.own_id, time).await.map_err(hide_our_refusal)
    }

    /// The next hop on the route to a network, if there is a route.
    fn next_hop(&self, to: &str, now: Timestamp) -> Option<&ConfiguredPeer> {
        let named = |id: &str| self.peers.iter().find(|neighbour| neighbour.id == id && neighbour.route.is_some());
        named(to).or_else(|| {
            let entry = self.registry.get(to, now)?;
            named(entry.through.as_deref()?)
        })
    }

    /// Whether there is a route to a network.
    pub fn has_route(&self, to: &str, now: Timestamp) -> bool {
        to != self.own_id && self.next_hop(to, now).is_some()
    }

    /// Forwards an envelope to another network, and returns its answer.
    pub async fn relay(&self, errand: &ForwardedRequest) -> Result<Object, Problem> {
        let not_found = || Problem::new(ProblemCode::VenueNotFound, "there is no way to that network");
        let next = self.next_hop(&errand.to, errand.now).ok_or_else(not_found)?;
        self.forward(next, errand, &errand.to, errand.time_left()).await
    }

    async fn forward(
        &self,
        next: &ConfiguredPeer,
        errand: &ForwardedRequest,
        to: &str,
        left: Duration,
    ) -> Result<Object, Problem> {
        let unreachable = |why: &str| Problem::new(ProblemCode::VenueUnreachable, why);
        let peer = next.peer().ok_or_else(|| unreachable("it has no address"))?;
        if !next.accepts_forwarded {
            return Err(unreachable("the next hop takes no envelopes that were passed on"));
        }
        let mut envelope = errand.envelope(&errand.from, to)?;
        envelope.via.clone_from(&errand.via);
        let time =
            via::forward(&mut envelope, (&self.own_id, &self.kid), self.hops_max, &next.ring, (errand.now, left))?;
        let answer = self.sender.send(&peer, envelope, &self.own_id, time).await;
        self.count_answer(&next.id, &answer);
        answer
    }

    /// Asks all peer networks that were not asked yet, and merges their results with our own. A network that does not
    /// answer in time is listed as missing.
    pub async fn ask_all(
        &self,
        errand: &ForwardedRequest,
        own: Map<String, Value>,
        limit: usize,
    ) -> Map<String, Value> {
        let asked_before = |id: &str| id == errand.from || errand.via.iter().any(|hop| hop.agent == id);
        let fresh = |neighbour: &&ConfiguredPeer| {
            neighbour.is_network()
                && neighbour.route.is_some()
                && neighbour.id != self.own_id
                && !asked_before(&neighbour.id)
        };
        let neighbours: Vec<&ConfiguredPeer> = self.peers.iter().filter(fresh).collect();
        let mut heard = vec![PeerAnswer { id: self.own_id.clone(), answer: Ok(own) }];
        let waves = neighbours.len().div_ceil(FAN_OUT_MAX);
        for (number, wave) in neighbours.chunks(FAN_OUT_MAX).enumerate() {
            let waves_left = u32::try_from(waves - number).unwrap_or(u32::MAX);
            let left = errand.time_left() / waves_left;
            let answers = join_all(wave.iter().map(|neighbour| self.forward_or_ask(neighbour, errand, left))).await;
            heard.extend(answers);
        }
        merge_answers(heard, limit)
    }

    async fn forward_or_ask(
        &self,
        neighbour: &ConfiguredPeer,
        errand: &ForwardedRequest,
        left: Duration,
    ) -> PeerAnswer {
        let answer = if neighbour.accepts_forwarded {
            self.forward(neighbour, errand, ALL_NETWORKS, left).await
        } else {
            self.ask_as_ourselves(neighbour, errand, left).await
        };
        PeerAnswer { id: neighbour.id.clone(), answer: answer.map(|payload| payload.to_map()) }
    }

    /// Asks a network that accepts no forwarded envelopes, under our own id.
    async fn ask_as_ourselves(
        &self,
        neighbour: &ConfiguredPeer,
        errand: &ForwardedRequest,
        left: Duration,
    ) -> Result<Object, Problem> {
        let unreachable = || Problem::new(ProblemCode::VenueUnreachable, "it has no address");
        let peer = neighbour.peer().ok_or_else(unreachable)?;
        let mut envelope = errand.envelope(&self.own_id, &neighbour.id)?;
        envelope.timestamp = Some(errand.disambiguated_timestamp());
        let time = EnvelopeSender::time_for_peer(left.saturating_sub(via::MARGIN))?;
        let answer = self.sender.send(&peer, envelope, &self.own_id, time).await;
        self.count_answer(&neighbour.id, &answer);
        answer
    }

    fn count_answer<T>(&self, id: &str, answer: &Result<T, Problem>) {
        let mut tally = self.lock();
        let (asked, answered) = tally.entry(id.to_owned()).or_default();
        // Old counts weigh less than new ones.
        if *asked >= 1000 {
            (*asked, *answered) = (*asked / 2, *answered / 2);
        }
        *asked += 1;
        let passing = answer.as_ref().is_err_and(|problem| problem.code.is_retryable());
        *answered += u32::from(!passing);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u32, u32)>> {
        self.answer_counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces the refusal of our own key or signature by a venue's agent: our caller's credentials were valid.
fn hide_our_refusal(problem: Problem) -> Problem {
    let ours = matches!(
        problem.code,
        ProblemCode::Unauthorized
            | ProblemCode::InvalidSignature
            | ProblemCode::AgentMismatch
            | ProblemCode::TierRequired
            | ProblemCode::ScopeRequired
            | ProblemCode::RateLimited
            | ProblemCode::StaleTimestamp
            | ProblemCode::TlsRequired
    );
    if !ours {
        return problem;
    }
    tracing::warn!(code = problem.code.name(), "a venue's agent does not let us in");
    Problem {
        code: ProblemCode::VenueUnreachable,
        message: "the venue's agent does not take our envelopes".into(),
        ..problem
    }
}

fn internal(fault: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%fault, "an envelope could not be written");
    Problem::new(ProblemCode::Internal, "the envelope could not be written")
}

#[cfg(test)]
mod tests;
