//! The ways out of a network: to a venue's own agent, to another network, and to all of them at once.
//!
//! | Addressed to | What happens |
//! |---|---|
//! | a venue with an agent of its own | a signed envelope from us to it: it decides, we keep the books |
//! | another network | the envelope is passed on, with us added to its chain |
//! | [`EVERYWHERE`] | the networks beside us are asked at the same time, and what they find is put together |
//!
//! An envelope to a venue is ours, and so is its timestamp; yet a caller that repeats its envelope must meet the same
//! timestamp again, and two callers of one microsecond must not. So it is the caller's, with the nanoseconds taken from
//! who the caller is. Since a repetition is recognised there, a crash between their booking and our own costs nothing.
//!
//! | Room | What is there |
//! |---|---|
//! | `gather` | putting together what several networks found |

mod gather;

pub use gather::{Heard, gather};

use crate::registry::{Registry, Standing};
use crate::via;
use futures_util::future::join_all;
use sabir_gateway::{Envelope, Envoy, Hop, Mailing, Moment, Peer};
use sabir_guard::authn::agnt::Ring;
use sabir_proto::agnt::{Intent, Problem, ProblemCode};
use sabir_proto::{Object, Timestamp};
use sabir_store::Venue;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// All networks that can be reached from here.
pub const EVERYWHERE: &str = "network:*";
/// How many networks are asked at the same time; where there are more, the time is split.
pub const FAN_OUT_MAX: usize = 16;
/// The time for an answer where the caller does not say.
const TIME: Duration = Duration::from_secs(5);
/// The longest it may take, whatever the caller says.
const TIME_MAX: Duration = Duration::from_secs(15);

/// Somebody beside us: a network, or a venue's agent that wants a key.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// Its id.
    pub id: String,
    /// How it is reached; a venue's agent may say so itself.
    pub mail: Option<Mailing>,
    /// The API key it issued to us, where the venue says where it is.
    pub key: Option<sabir_proto::Secret>,
    /// What is signed with.
    pub ring: Arc<Ring>,
    /// It takes envelopes that were passed on.
    pub via: bool,
    /// Where its registry is read, if it is.
    pub registry: Option<Url>,
}

impl Neighbour {
    /// Whether it is a network.
    pub fn is_network(&self) -> bool {
        self.id.starts_with("network:")
    }

    fn peer(&self) -> Option<Peer> {
        let way = self.mail.clone()?;
        Some(Peer { id: self.id.as_str().into(), way, ring: self.ring.clone() })
    }
}

/// What is asked elsewhere on a caller's behalf.
#[derive(Debug, Clone)]
pub struct Errand {
    /// Who asks.
    pub from: String,
    /// Whom.
    pub to: String,
    /// What for.
    pub intent: Intent,
    /// The arguments, without what signed them.
    pub payload: Object,
    /// What the caller knows it by.
    pub correlation: Option<String>,
    /// When the caller sent it.
    pub timestamp: Option<Moment>,
    /// Who passed it on before us.
    pub via: Vec<Hop>,
    /// The caller's key, by its id: who sends twice is known by it.
    pub key: String,
    /// When it came in.
    pub begun: Instant,
    /// How long the answer may take from then on.
    pub time: Option<Duration>,
    /// The time of day.
    pub now: Timestamp,
}

impl Errand {
    /// What is left of the time.
    fn left(&self) -> Duration {
        self.time.unwrap_or(TIME).min(TIME_MAX).saturating_sub(self.begun.elapsed())
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

    /// The caller's timestamp, told apart from those of other callers by what is smaller than a microsecond.
    fn own_timestamp(&self) -> Moment {
        let said = self.timestamp.unwrap_or_else(|| Moment::from(self.now));
        let mut hash = Sha256::new();
        for part in [&self.key, &self.from] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let apart = i64::from(u16::from_be_bytes([digest[0], digest[1]]) % 1000);
        Moment::from_nanos(said.nanos().div_euclid(1000).saturating_mul(1000).saturating_add(apart))
    }
}

/// The ways out.
pub struct Routes {
    own: String,
    /// The name of our key in chains.
    kid: String,
    /// What is signed with where a neighbour has no key of its own.
    ring: Option<Arc<Ring>>,
    envoy: Envoy,
    registry: Arc<Registry>,
    neighbours: Vec<Neighbour>,
    hops_max: usize,
    /// Who was asked how often, and answered.
    tally: Mutex<HashMap<String, (u32, u32)>>,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Routes").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Routes {
    /// The ways out of a network with this id. Its key is called `kid` in chains.
    pub fn new(
        (own, kid): (String, String),
        ring: Option<Arc<Ring>>,
        envoy: Envoy,
        registry: Arc<Registry>,
        neighbours: Vec<Neighbour>,
        hops_max: usize,
    ) -> Self {
        Self { own, kid, ring, envoy, registry, neighbours, hops_max, tally: Mutex::default() }
    }

    /// What we are called.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// How often an envelope may be passed on.
    pub const fn hops_max(&self) -> usize {
        self.hops_max
    }

    /// Who covers what, as far as we know.
    pub const fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Those beside us.
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// Who sends envelopes for us.
    pub const fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// How a network does, as far as we know.
    pub fn standing(&self, id: &str) -> Standing {
        let (asked, answered) = self.lock().get(id).copied().unwrap_or_default();
        let permille = (answered.saturating_mul(1000)).checked_div(asked).unwrap_or(1000);
        Standing { open: self.envoy.is_open_to(id), answered_permille: permille }
    }

    /// How the agent of a venue is reached, if it has one of its own.
    fn agent_of(&self, venue: &Venue) -> Option<Peer> {
        let known = self.neighbours.iter().find(|neighbour| neighbour.id == venue.agent_id);
        if let Some(peer) = known.and_then(Neighbour::peer) {
            return Some(peer);
        }
        let at = venue.endpoint.as_deref().and_then(|endpoint| Url::parse(endpoint).ok())?;
        let ring = known.map(|neighbour| neighbour.ring.clone()).or_else(|| self.ring.clone())?;
        let key = known.and_then(|neighbour| neighbour.key.clone());
        Some(Peer { id: venue.agent_id.as_str().into(), way: Mailing::Direct { at, key }, ring })
    }

    /// Whether a venue has an agent of its own that can be asked.
    pub fn has_agent(&self, venue: &Venue) -> bool {
        self.agent_of(venue).is_some()
    }

    /// Asks the agent of a venue, as ourselves.
    pub async fn venue(&self, venue: &Venue, errand: &Errand) -> Result<Object, Problem> {
        let unreachable = || Problem::new(ProblemCode::VenueUnreachable, "the venue has no agent that can be asked");
        let peer = self.agent_of(venue).ok_or_else(unreachable)?;
        let mut envelope = errand.envelope(&self.own, &venue.agent_id)?;
        envelope.timestamp = Some(errand.own_timestamp());
        let time = Envoy::allowance(errand.left())?;
        self.envoy.send(&peer, envelope, &self.own, time).await.map_err(of_ours)
    }

    /// Who stands next on the way to a network, if there is a way.
    fn next_hop(&self, to: &str, now: Timestamp) -> Option<&Neighbour> {
        let named = |id: &str| self.neighbours.iter().find(|neighbour| neighbour.id == id && neighbour.mail.is_some());
        named(to).or_else(|| {
            let entry = self.registry.get(to, now)?;
            named(entry.through.as_deref()?)
        })
    }

    /// Whether there is a way to a network.
    pub fn leads_to(&self, to: &str, now: Timestamp) -> bool {
        to != self.own && self.next_hop(to, now).is_some()
    }

    /// Passes an envelope on to another network, and gives its answer.
    pub async fn relay(&self, errand: &Errand) -> Result<Object, Problem> {
        let nobody = || Problem::new(ProblemCode::VenueNotFound, "there is no way to that network");
        let next = self.next_hop(&errand.to, errand.now).ok_or_else(nobody)?;
        self.pass_on(next, errand, &errand.to, errand.left()).await
    }

    async fn pass_on(&self, next: &Neighbour, errand: &Errand, to: &str, left: Duration) -> Result<Object, Problem> {
        let unreachable = |why: &str| Problem::new(ProblemCode::VenueUnreachable, why);
        let peer = next.peer().ok_or_else(|| unreachable("it has no address"))?;
        if !next.via {
            return Err(unreachable("the next hop takes no envelopes that were passed on"));
        }
        let mut envelope = errand.envelope(&errand.from, to)?;
        envelope.via.clone_from(&errand.via);
        let time = via::pass_on(&mut envelope, (&self.own, &self.kid), self.hops_max, &next.ring, (errand.now, left))?;
        let answer = self.envoy.send(&peer, envelope, &self.own, time).await;
        self.count(&next.id, &answer);
        answer
    }

    /// Asks all networks beside us that were not asked yet, and puts what they find to what we have found ourselves.
    /// Whoever does not answer in time is named.
    pub async fn everywhere(&self, errand: &Errand, own: Map<String, Value>, limit: usize) -> Map<String, Value> {
        let asked_before = |id: &str| id == errand.from || errand.via.iter().any(|hop| hop.agent == id);
        let fresh = |neighbour: &&Neighbour| {
            neighbour.is_network()
                && neighbour.mail.is_some()
                && neighbour.id != self.own
                && !asked_before(&neighbour.id)
        };
        let neighbours: Vec<&Neighbour> = self.neighbours.iter().filter(fresh).collect();
        let mut heard = vec![Heard { id: self.own.clone(), answer: Ok(own) }];
        let waves = neighbours.len().div_ceil(FAN_OUT_MAX);
        for (number, wave) in neighbours.chunks(FAN_OUT_MAX).enumerate() {
            let waves_left = u32::try_from(waves - number).unwrap_or(u32::MAX);
            let left = errand.left() / waves_left;
            let answers = join_all(wave.iter().map(|neighbour| self.look(neighbour, errand, left))).await;
            heard.extend(answers);
        }
        gather(heard, limit)
    }

    async fn look(&self, neighbour: &Neighbour, errand: &Errand, left: Duration) -> Heard {
        let answer = if neighbour.via {
            self.pass_on(neighbour, errand, EVERYWHERE, left).await
        } else {
            self.ask(neighbour, errand, left).await
        };
        Heard { id: neighbour.id.clone(), answer: answer.map(|payload| payload.to_map()) }
    }

    /// Asks a network that passes nothing on, as ourselves.
    async fn ask(&self, neighbour: &Neighbour, errand: &Errand, left: Duration) -> Result<Object, Problem> {
        let nobody = || Problem::new(ProblemCode::VenueUnreachable, "it has no address");
        let peer = neighbour.peer().ok_or_else(nobody)?;
        let mut envelope = errand.envelope(&self.own, &neighbour.id)?;
        envelope.timestamp = Some(errand.own_timestamp());
        let time = Envoy::allowance(left.saturating_sub(via::MARGIN))?;
        let answer = self.envoy.send(&peer, envelope, &self.own, time).await;
        self.count(&neighbour.id, &answer);
        answer
    }

    fn count<T>(&self, id: &str, answer: &Result<T, Problem>) {
        let mut tally = self.lock();
        let (asked, answered) = tally.entry(id.to_owned()).or_default();
        // What was long ago counts less than what is new.
        if *asked >= 1000 {
            (*asked, *answered) = (*asked / 2, *answered / 2);
        }
        *asked += 1;
        let passing = answer.as_ref().is_err_and(|problem| problem.code.is_retryable());
        *answered += u32::from(!passing);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u32, u32)>> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That a venue does not take our own key or signature is between it and us: our caller has shown its own.
fn of_ours(problem: Problem) -> Problem {
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
