//! One of the replicas of an agent elsewhere: its card, cached for a while, and the breakers before it.

use super::astray::Astray;
use super::line::Line;
use super::{CARD_FRESH, Place, Upstream};
use crate::behalf::OnBehalf;
use crate::circuit::{Circuit, Hub, Passage};
use crate::failure_words::{failure_reason, is_absent};
use crate::health::{Checks, Condition, Health};
use crate::keeper::Keeper;
use crate::keeper::by_way;
use crate::scout::{Scout, try_out, vouch};
use crate::wire::WireLog;
use sabir_client::redact;
use sabir_client::{Agent, Audience, Capacity, Client, Egress, Error, Found, Profile, Reference, Timeouts, Version};
use sabir_proto::card::Interface;
use sabir_proto::transfer::same_agent;
use sabir_proto::{AgentCard, Fault, HANDOFF, HANDOFF_LITERAL};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use url::{Origin, Url};

/// How long a card may take, and a check: an agent may think for long, the server of its card does not.
const CARD_TIME: Duration = Duration::from_secs(10);

/// How long trying out the interfaces of a first card may take together: a caller may wait for it.
const TRYING_TIME: Duration = Duration::from_secs(5);

/// Limits the concurrent calls to an upstream: one that hangs must not take everything that we have.
#[derive(Debug)]
pub(super) struct Bulkhead {
    most: Option<usize>,
    under_way: AtomicUsize,
}

/// Room for one call, until it is dropped.
#[derive(Debug)]
pub(super) struct Room(Arc<Bulkhead>);

impl Bulkhead {
    pub(super) const fn new(most: Option<usize>) -> Self {
        Self { most, under_way: AtomicUsize::new(0) }
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.most.is_some_and(|most| self.under_way() >= most)
    }

    fn enter(self: &Arc<Self>) -> Option<Room> {
        let room = Room(self.clone());
        // Counted first and given back by the drop, so that two calls cannot take the last place.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        self.most.is_none_or(|most| before < most).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error for a call that was not made.
pub(super) fn held(why: &str) -> Error {
    let (fault, retry_after) = (Fault::Unavailable(why.into()), Some(Duration::from_secs(1)));
    Error::Fault { fault, transport: None, retry_after }
}

/// A replica of the agent.
pub(super) struct Replica {
    pub(super) place: Place,
    pub(super) circuit: Arc<Circuit>,
    bulkhead: Arc<Bulkhead>,
    checks: Mutex<Checks>,
    client: Client,
    reference: Reference,
    /// The origins where the configuration says it is.
    homes: Vec<Origin>,
    /// Where its card is looked for as well: of some agents only an interface is known, and their cards are at their
    /// origin.
    origin: Option<Reference>,
    kept: RwLock<Option<(Instant, Agent)>>,
    /// The agent does not speak as its card says, so another one is fetched before the next call.
    doubted: AtomicBool,
    /// No background job fetches its card, so calls do, now and then.
    unattended: bool,
    /// The agent has shown that it speaks 0.1 and nothing later.
    first_version: AtomicBool,
    /// A call that needs a fresh card waits for the call that fetches it.
    fetching: tokio::sync::Mutex<()>,
    keeper: Option<Arc<dyn Keeper>>,
    astray: Astray,
    on_behalf: Option<OnBehalf>,
    /// A message with an unknown result may be sent again.
    pub(super) idempotent: bool,
    pub(super) wire: WireLog,
    /// Why the last call found nothing listening, if it did.
    absence: Mutex<Option<&'static str>>,
}

impl Replica {
    /// Sends nothing yet; wrong settings are an error here.
    pub(super) fn new(
        upstream: &Upstream,
        place: &Place,
        hub: &Arc<Hub>,
        (bulkhead, answers): (Arc<Bulkhead>, Capacity),
    ) -> Result<Self, Error> {
        // If there are several, each is told apart by its host; no URL with a secret in it is a name.
        let name = match (Reference::parse(&place.url)?, upstream.places.len()) {
            (Reference::Origin(url) | Reference::At(url), 2..) => {
                format!("{}@{}", upstream.name, url.host_str().unwrap_or_default())
                    + &url.port().map(|port| format!(":{port}")).unwrap_or_default()
            }
            _ => upstream.name.clone(),
        };
        Self::named(&name, upstream, place, hub, (bulkhead, answers))
    }

    /// A replica with a name of its own in metrics.
    pub(super) fn named(
        name: &str,
        upstream: &Upstream,
        place: &Place,
        hub: &Arc<Hub>,
        (bulkhead, answers): (Arc<Bulkhead>, Capacity),
    ) -> Result<Self, Error> {
        let reference = Reference::parse(&place.url)?;
        if matches!(reference, Reference::File(_)) {
            return Err(Error::Usage("an agent elsewhere is given by its URL".into()));
        }
        let silence = upstream.patience.silence.unwrap_or(Duration::from_secs(3600));
        // Some agents hold their answer back until they are done, even where they are asked not to.
        let timeouts = Timeouts { answer: silence.max(Duration::from_secs(10)), ..Timeouts::default() };
        let mut client = Client::builder()
            .egress(upstream.egress.clone())
            .timeouts(timeouts)
            .version(Version::Any)
            .tls(upstream.tls.clone())
            .credentials(upstream.credentials.clone())
            .room(answers)
            // The agent may hand tasks over: they are followed.
            .extensions([HANDOFF.to_owned(), HANDOFF_LITERAL.to_owned()])
            // The turn counts its calls, and so do breakers and the budget, so the client does not retry.
            .once();
        if let Reference::Origin(url) | Reference::At(url) = &reference
            && let Some(profile) = upstream.profile.or_else(|| Profile::recognised(url))
        {
            client = client.profile(profile);
        }
        if let Some(observer) = hub.wire().observer() {
            client = client.observer(observer);
        }
        let shows = !upstream.credentials.is_empty() || upstream.tls.identity.is_some() || upstream.on_behalf.is_some();
        if let (true, Reference::Origin(home) | Reference::At(home)) = (shows, &reference) {
            client = client.audience(Audience::new(home.clone(), upstream.origins.clone()));
        }
        let homes = match &reference {
            Reference::Origin(home) | Reference::At(home) => vec![home.origin()],
            Reference::File(_) => Vec::new(),
        };
        let beside = upstream.origins.iter().filter_map(|beside| Url::parse(beside).ok()).map(|url| url.origin());
        let homes = homes.into_iter().chain(beside).collect();
        let client = client.build()?;
        let circuit = hub.circuit(&upstream.name, name, upstream.breaker);
        let (place, checks, kept) = (place.clone(), Mutex::default(), RwLock::new(None));
        // The cards of other replicas are theirs alone: one may be a version on trial.
        let keeper = upstream.keeper.clone().filter(|_| upstream.places.first() == Some(&place));
        let on_behalf = upstream.on_behalf.clone();
        let fetching = tokio::sync::Mutex::default();
        Ok(Self {
            place,
            circuit,
            bulkhead,
            checks,
            client,
            reference,
            homes,
            origin: None,
            kept,
            doubted: AtomicBool::new(false),
            unattended: false,
            first_version: AtomicBool::new(false),
            fetching,
            keeper,
            astray: Astray::default(),
            on_behalf,
            idempotent: upstream.idempotent,
            wire: hub.wire().clone(),
            absence: Mutex::default(),
        })
    }

    /// Looks for its card at the origin of its URL as well, if none is below that.
    pub(super) fn or_at_its_origin(mut self) -> Self {
        if let Reference::At(url) = &self.reference {
            let mut origin = url.clone();
            origin.set_path("/");
            origin.set_query(None);
            origin.set_fragment(None);
            self.origin = Some(Reference::Origin(origin));
        }
        self
    }

    /// Has calls fetch the card, where [`super::RemoteAgent::refresh`] is not called for it.
    pub(super) fn unattended(mut self) -> Self {
        self.unattended = true;
        self
    }

    /// Asks the breakers for a call that takes no place: a cancel makes room.
    pub(super) fn pass_by(&self) -> Result<Passage, Error> {
        Ok(self.circuit.pass()?)
    }

    /// Takes a place, and asks the breakers for a call.
    pub(super) fn pass(&self) -> Result<(Passage, Room), Error> {
        let room = self.bulkhead.enter().ok_or_else(|| held("as many calls as may be are under way"))?;
        Ok((self.circuit.pass()?, room))
    }

    /// Reports the result of a call to the breakers, and notes whether anything listens here.
    pub(super) fn judge(&self, passage: Passage, error: Option<&Error>) {
        let absence = error.filter(|error| is_absent(error)).map(failure_reason);
        *self.absence.lock().unwrap_or_else(PoisonError::into_inner) = absence;
        passage.judge(error);
    }

    /// Why the last call found nothing listening, if it did.
    pub(super) fn absence(&self) -> Option<&'static str> {
        *self.absence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may succeed, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        self.circuit.refusal().is_none() && self.condition() != Condition::Down
    }

    /// Fetches the card to check the health of the replica.
    pub(super) async fn check(&self) {
        let begun = Instant::now();
        let problem = match tokio::time::timeout(CARD_TIME, self.card()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(redact::process().words(&error.to_string()).into_owned()),
            Err(_) => Some(format!("its card took longer than {CARD_TIME:?}")),
        };
        self.checks().note(begun.elapsed(), problem);
    }

    pub(super) fn condition(&self) -> Condition {
        self.checks().condition(self.circuit.standing().upstream)
    }

    pub(super) fn health(&self) -> Health {
        let breaker = self.circuit.standing().upstream;
        let checks = self.checks().clone();
        let condition = checks.condition(breaker);
        Health { url: self.place.url.clone(), condition, checks, breaker, in_flight: self.bulkhead.under_way() }
    }

    fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the card, whatever the breakers say: no caller waits for it where it is fetched for its own sake, and
    /// that a card is there says little about the agent.
    pub(super) async fn card(&self) -> Result<AgentCard, Error> {
        let agent = self.connect().await?;
        let card = agent.card().clone();
        self.keep(agent);
        Ok(card)
    }

    /// A probe of the replica, for use before it is called.
    pub(super) fn scout(&self, egress: &Egress) -> Scout {
        Scout::new(self.client.clone(), egress.clone(), self.reference.clone())
    }

    /// A connection to the agent; the caller is named where that is configured.
    pub(super) async fn line(self: &Arc<Self>, caller: &str) -> Result<Line, Error> {
        let agent = self.agent().await?;
        let shown = self.on_behalf.as_ref().and_then(|on_behalf| on_behalf.credentials(caller));
        let agent = match shown {
            Some(credentials) => self.client.agent_with(agent.found().clone(), &credentials)?,
            None => agent,
        };
        Ok(Line::new(agent, self.clone()))
    }

    /// A connection for handing tasks over; by a card that is fetched now where what it says decides.
    pub(super) async fn handing(self: &Arc<Self>, caller: &str, anew: bool) -> Result<Line, Error> {
        if anew {
            self.card().await?;
        }
        let found = self.agent().await?.found().clone();
        let client = self.client.supporting([HANDOFF.to_owned()]);
        let shown = self.on_behalf.as_ref().and_then(|on_behalf| on_behalf.credentials(caller));
        let agent = match shown {
            Some(credentials) => client.agent_with(found, &credentials)?,
            None => client.agent(found)?,
        };
        Ok(Line::new(agent, self.clone()))
    }

    /// Whether a card has a valid signature. One with keys that cannot be fetched in time does not count.
    pub(super) async fn is_vouched_for(&self, found: &Found) -> bool {
        let voucher = tokio::time::timeout(CARD_TIME, vouch(&self.client, found)).await;
        voucher.is_ok_and(|voucher| voucher.signer.is_some())
    }

    /// The URL of the interface that is called, as far as it is known.
    pub(super) fn endpoint(&self) -> Option<String> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|(_, agent)| agent.interface().url.clone())
    }

    /// Whether this is an interface of the agent here: at the host that the configuration names, or at one that may see
    /// its credentials. A card may name any other, and so pose as the agent there.
    pub(super) async fn is_at(&self, endpoint: &Url) -> bool {
        if !self.homes.iter().any(|home| *home == endpoint.origin()) {
            return false;
        }
        let offers = |card: &AgentCard| {
            card.supported_interfaces.iter().any(|interface| same_agent(&interface.url, endpoint.as_str()))
        };
        if let Some(agent) = self.called() {
            return offers(agent.card());
        }
        if let Some(found) = self.keeper.as_ref().and_then(|keeper| keeper.kept()) {
            return offers(&found.card);
        }
        self.agent().await.is_ok_and(|agent| offers(agent.card()))
    }

    /// The client for the agent. A cached card is used at once, however old: the server refreshes cards in the
    /// background, and an agent whose card hangs can be called all the same.
    async fn agent(&self) -> Result<Agent, Error> {
        match self.at_hand() {
            Some(agent) => Ok(agent),
            None => Box::pin(self.fetch()).await,
        }
    }

    async fn fetch(&self) -> Result<Agent, Error> {
        let _fetching = self.fetching.lock().await;
        if let Some(agent) = self.at_hand() {
            return Ok(agent);
        }
        let is_enough = !self.unattended && !self.doubted.load(Ordering::Relaxed);
        if is_enough && let Some(agent) = self.remembered() {
            self.keep(agent.clone());
            return Ok(agent);
        }
        let old = self.called();
        let (passage, _room) = self.pass()?;
        let found = self.connect().await;
        self.judge(passage, found.as_ref().err());
        match (found, old.or_else(|| self.remembered())) {
            (Ok(agent), _) => {
                self.keep(agent.clone());
                Ok(agent)
            }
            (Err(error), Some(agent)) => {
                tracing::warn!(agent = %self.place.url, %error, "its card cannot be fetched; the old one is used");
                Ok(agent)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The client as it is used, unless its card is in doubt.
    fn at_hand(&self) -> Option<Agent> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = |since: Instant| !self.unattended || since.elapsed() < CARD_FRESH;
        let (_, agent) = kept.as_ref().filter(|(since, _)| fresh(*since) && !self.doubted.load(Ordering::Relaxed))?;
        Some(agent.clone())
    }

    /// The client that was used last.
    fn called(&self) -> Option<Agent> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, agent)| agent.clone())
    }

    /// The client for the stored card that counts, as an earlier process left it.
    fn remembered(&self) -> Option<Agent> {
        self.by_open_way(self.keeper.as_ref()?.kept()?).ok()
    }

    /// Forgets the client: the next connection is made from the card that counts.
    pub(super) fn hang_up(&self) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The next connection is made from a fresh card, if there is one.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    pub(super) fn speak_the_first_version(&self, agent: Agent) {
        self.first_version.store(true, Ordering::Relaxed);
        self.keep(agent);
    }

    /// Fetches the card, and makes a client for the one that counts.
    async fn connect(&self) -> Result<Agent, Error> {
        let found = tokio::time::timeout(CARD_TIME, self.find()).await;
        let found = found.map_err(|_| Error::Timeout { what: "the card", after: CARD_TIME })??;
        let agent = match &self.keeper {
            None => self.by_open_way(found)?,
            Some(keeper) => {
                let voucher = vouch(&self.client, &found).await;
                // The first card is pinned, so its interfaces are tried before. A card with a bad signature is not
                // called at all, and of a foreign agent's card only the named interface is.
                let found = match keeper.kept() {
                    None if !voucher.wrong && !self.unattended => self.tried_out(found).await,
                    _ => found,
                };
                let may = |found: &Found| self.client.admit(found).map_err(|error| error.to_string());
                self.by_open_way(keeper.settle(found, voucher, &may).await?)?
            }
        };
        if !self.first_version.load(Ordering::Relaxed) {
            return Ok(agent);
        }
        let first = agent.in_the_first_version();
        // Its card names another version by now.
        self.first_version.store(first.is_some(), Ordering::Relaxed);
        Ok(first.unwrap_or(agent))
    }

    async fn find(&self) -> Result<Found, Error> {
        match (self.client.card(&self.reference).await, &self.origin) {
            (Err(Error::CardNotFound { .. } | Error::CardInvalid { .. }), Some(origin)) => {
                self.client.card(origin).await
            }
            (found, _) => found,
        }
    }

    /// A card with the interface first that answers, where it has several. One without any stays as it is: the agent
    /// may be asleep.
    async fn tried_out(&self, found: Found) -> Found {
        if found.card.supported_interfaces.len() < 2 {
            return found;
        }
        match tokio::time::timeout(TRYING_TIME, try_out(&self.client, &found)).await {
            Ok(Ok((way, _))) => by_way(found, &way),
            Ok(Err(_)) | Err(_) => found,
        }
    }

    /// The client for a card, by an interface that is not known to be dead, if it has one by which it may be called.
    fn by_open_way(&self, found: Found) -> Result<Agent, Error> {
        match self.astray.behind(&found) {
            Some(other) => self.client.agent(other).or_else(|_| self.client.agent(found)),
            None => self.client.agent(found),
        }
    }

    /// An interface could not be reached: for a while the next one of the card is called, if there is one.
    pub(super) fn lose(&self, interface: &Interface) {
        self.astray.note(interface);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        // An earlier call that failed has switched already.
        let Some((_, agent)) = kept.as_mut().filter(|(_, agent)| agent.interface() == interface) else { return };
        if let Ok(other) = self.by_open_way(agent.found().clone())
            && other.interface() != interface
        {
            tracing::warn!(agent = %self.place.url, lost = %interface.url, now = %other.interface().url,
                "an interface cannot be reached; another one of its card is called");
            *agent = other;
        }
    }

    /// Whether another interface is called than the one that could not be reached.
    pub(super) fn has_another_way(&self) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().is_some_and(|(_, agent)| self.astray.is_passed_over(agent.found(), agent.interface()))
    }

    fn keep(&self, agent: Agent) {
        self.doubted.store(false, Ordering::Relaxed);
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), agent));
    }
}
