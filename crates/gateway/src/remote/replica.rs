//! One of the replicas of an agent elsewhere: its card, cached for a while, and the breakers before it.

use super::connection::ReplicaConnection;
use super::dead_interfaces::DeadInterfaces;
use super::{CARD_FRESH, Upstream, UpstreamReplica};
use crate::agent_probe::{AgentProbe, check_signature, try_interfaces};
use crate::card_policy::CardPolicy;
use crate::card_policy::with_interface_first;
use crate::circuit::{CallPermit, Circuit, Hub};
use crate::exchange_log::ExchangeLog;
use crate::failure_words::{failure_reason, is_not_listening};
use crate::health::{HealthChecks, HealthStatus, ReplicaHealth};
use crate::user_tokens::UserTokens;
use sabir_client::redact;
use sabir_client::{
    Agent, AgentReference, Capacity, Client, CredentialOrigins, DiscoveredCard, Egress, Error, Timeouts, VendorProfile,
    VersionPolicy,
};
use sabir_proto::card::Interface;
use sabir_proto::transfer::same_agent;
use sabir_proto::{AgentCard, Fault, HANDOFF, HANDOFF_LITERAL};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use url::{Origin, Url};

/// How long a card may take, and a check: an agent may think for long, the server of its card does not.
const CARD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long trying out the interfaces of a first card may take together: a caller may wait for it.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);

/// Limits the concurrent calls to an upstream: one that hangs must not take everything that we have.
#[derive(Debug)]
pub(super) struct Bulkhead {
    calls_max: Option<usize>,
    calls_in_progress: AtomicUsize,
}

/// Room for one call, until it is dropped.
#[derive(Debug)]
pub(super) struct BulkheadPermit(Arc<Bulkhead>);

impl Bulkhead {
    pub(super) const fn new(calls_max: Option<usize>) -> Self {
        Self { calls_max, calls_in_progress: AtomicUsize::new(0) }
    }

    pub(super) fn calls_in_progress(&self) -> usize {
        self.calls_in_progress.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.calls_max.is_some_and(|most| self.calls_in_progress() >= most)
    }

    fn try_acquire(self: &Arc<Self>) -> Option<BulkheadPermit> {
        let room = BulkheadPermit(self.clone());
        // Counted first and given back by the drop, so that two calls cannot take the last place.
        let before = self.calls_in_progress.fetch_add(1, Ordering::Relaxed);
        self.calls_max.is_none_or(|most| before < most).then_some(room)
    }
}

impl Drop for BulkheadPermit {
    fn drop(&mut self) {
        self.0.calls_in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error for a call that was not made.
pub(super) fn not_called_error(why: &str) -> Error {
    let (fault, retry_after) = (Fault::Unavailable(why.into()), Some(Duration::from_secs(1)));
    Error::Fault { fault, transport: None, retry_after }
}

/// What all replicas of one upstream share.
pub(super) struct UpstreamShares {
    pub(super) bulkhead: Arc<Bulkhead>,
    /// The room for answers.
    pub(super) answers: Capacity,
}

/// A replica of the agent.
pub(super) struct Replica {
    pub(super) config: UpstreamReplica,
    pub(super) circuit: Arc<Circuit>,
    bulkhead: Arc<Bulkhead>,
    checks: Mutex<HealthChecks>,
    client: Client,
    reference: AgentReference,
    /// The origins where the configuration says it is.
    home_origins: Vec<Origin>,
    /// Where its card is looked for as well: of some agents only an interface is known, and their cards are at their
    /// origin.
    origin: Option<AgentReference>,
    current_agent: RwLock<Option<(Instant, Agent)>>,
    /// The agent does not speak as its card says, so another one is fetched before the next call.
    card_outdated: AtomicBool,
    /// No background job fetches its card, so calls do, now and then.
    fetches_own_card: bool,
    /// The agent has shown that it speaks 0.1 and nothing later.
    speaks_v01: AtomicBool,
    /// A call that needs a fresh card waits for the call that fetches it.
    fetching: tokio::sync::Mutex<()>,
    card_policy: Option<Arc<dyn CardPolicy>>,
    dead_interfaces: DeadInterfaces,
    user_tokens: Option<UserTokens>,
    /// A message with an unknown result may be sent again.
    pub(super) idempotent: bool,
    pub(super) exchange_log: ExchangeLog,
    /// Why the last call found nothing listening, if it did.
    absence: Mutex<Option<&'static str>>,
}

impl Replica {
    /// Sends nothing yet; wrong settings are an error here.
    pub(super) fn new(
        upstream: &Upstream,
        place: &UpstreamReplica,
        hub: &Arc<Hub>,
        shares: UpstreamShares,
    ) -> Result<Self, Error> {
        // If there are several, each is told apart by its host; no URL with a secret in it is a name.
        let name = match (AgentReference::parse(&place.url)?, upstream.replicas.len()) {
            (AgentReference::Origin(url) | AgentReference::Url(url), 2..) => {
                format!("{}@{}", upstream.name, url.host_str().unwrap_or_default())
                    + &url.port().map(|port| format!(":{port}")).unwrap_or_default()
            }
            _ => upstream.name.clone(),
        };
        Self::with_metric_name(&name, upstream, place, hub, shares)
    }

    /// A replica with a name of its own in metrics.
    pub(super) fn with_metric_name(
        name: &str,
        upstream: &Upstream,
        place: &UpstreamReplica,
        hub: &Arc<Hub>,
        shares: UpstreamShares,
    ) -> Result<Self, Error> {
        let reference = AgentReference::parse(&place.url)?;
        if matches!(reference, AgentReference::File(_)) {
            return Err(Error::Usage("an agent elsewhere is given by its URL".into()));
        }
        let silence = upstream.wait_limits.silence_max.unwrap_or(Duration::from_secs(3600));
        // Some agents hold their answer back until they are done, even where they are asked not to.
        let timeouts = Timeouts { answer: silence.max(Duration::from_secs(10)), ..Timeouts::default() };
        let mut client = Client::builder()
            .egress(upstream.egress.clone())
            .timeouts(timeouts)
            .version(VersionPolicy::Any)
            .tls(upstream.tls.clone())
            .credentials(upstream.credentials.clone())
            .capacity(shares.answers)
            // The agent may hand tasks over: they are followed.
            .extensions([HANDOFF.to_owned(), HANDOFF_LITERAL.to_owned()])
            // The turn counts its calls, and so do breakers and the budget, so the client does not retry.
            .without_retries();
        if let AgentReference::Origin(url) | AgentReference::Url(url) = &reference
            && let Some(profile) = upstream.profile.or_else(|| VendorProfile::for_url(url))
        {
            client = client.profile(profile);
        }
        if let Some(observer) = hub.exchange_log().observer() {
            client = client.observer(observer);
        }
        let shows =
            !upstream.credentials.is_empty() || upstream.tls.identity.is_some() || upstream.user_tokens.is_some();
        if let (true, AgentReference::Origin(home) | AgentReference::Url(home)) = (shows, &reference) {
            client = client.credential_origins(CredentialOrigins::new(home.clone(), upstream.origins.clone()));
        }
        let homes = match &reference {
            AgentReference::Origin(home) | AgentReference::Url(home) => vec![home.origin()],
            AgentReference::File(_) => Vec::new(),
        };
        let beside = upstream.origins.iter().filter_map(|beside| Url::parse(beside).ok()).map(|url| url.origin());
        let homes = homes.into_iter().chain(beside).collect();
        let client = client.build()?;
        let circuit = hub.circuit(&upstream.name, name, upstream.breaker_rules);
        let (place, checks, kept) = (place.clone(), Mutex::default(), RwLock::new(None));
        // The cards of other replicas are theirs alone: one may be a version on trial.
        let card_policy = upstream.card_policy.clone().filter(|_| upstream.replicas.first() == Some(&place));
        let on_behalf = upstream.user_tokens.clone();
        let fetching = tokio::sync::Mutex::default();
        Ok(Self {
            config: place,
            circuit,
            bulkhead: shares.bulkhead,
            checks,
            client,
            reference,
            home_origins: homes,
            origin: None,
            current_agent: kept,
            card_outdated: AtomicBool::new(false),
            fetches_own_card: false,
            speaks_v01: AtomicBool::new(false),
            fetching,
            card_policy,
            dead_interfaces: DeadInterfaces::default(),
            user_tokens: on_behalf,
            idempotent: upstream.idempotent,
            exchange_log: hub.exchange_log().clone(),
            absence: Mutex::default(),
        })
    }

    /// Looks for its card at the origin of its URL as well, if none is below that.
    pub(super) fn with_origin_fallback(mut self) -> Self {
        if let AgentReference::Url(url) = &self.reference {
            let mut origin = url.clone();
            origin.set_path("/");
            origin.set_query(None);
            origin.set_fragment(None);
            self.origin = Some(AgentReference::Origin(origin));
        }
        self
    }

    /// Has calls fetch the card, where [`super::RemoteAgent::refresh`] is not called for it.
    pub(super) fn fetching_own_card(mut self) -> Self {
        self.fetches_own_card = true;
        self
    }

    /// Asks the breakers for a call that takes no place: a cancel makes room.
    pub(super) fn acquire_without_bulkhead(&self) -> Result<CallPermit, Error> {
        Ok(self.circuit.try_acquire()?)
    }

    /// Takes a place, and asks the breakers for a call.
    pub(super) fn acquire(&self) -> Result<(CallPermit, BulkheadPermit), Error> {
        let room =
            self.bulkhead.try_acquire().ok_or_else(|| not_called_error("as many calls as may be are under way"))?;
        Ok((self.circuit.try_acquire()?, room))
    }

    /// Reports the result of a call to the breakers, and notes whether anything listens here.
    pub(super) fn report_result(&self, permit: CallPermit, error: Option<&Error>) {
        let absence = error.filter(|error| is_not_listening(error)).map(failure_reason);
        *self.absence.lock().unwrap_or_else(PoisonError::into_inner) = absence;
        permit.report_result(error);
    }

    /// Why the last call found nothing listening, if it did.
    pub(super) fn absence(&self) -> Option<&'static str> {
        *self.absence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may succeed, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        self.circuit.retry_after().is_none() && self.health_status() != HealthStatus::Down
    }

    /// Fetches the card to check the health of the replica.
    pub(super) async fn check(&self) {
        let begun = Instant::now();
        let problem = match tokio::time::timeout(CARD_TIME_MAX, self.card()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(redact::process_redactor().agent_text(&error.to_string()).into_owned()),
            Err(_) => Some(format!("its card took longer than {CARD_TIME_MAX:?}")),
        };
        self.checks().record(begun.elapsed(), problem);
    }

    pub(super) fn health_status(&self) -> HealthStatus {
        self.checks().status(self.circuit.status().upstream)
    }

    pub(super) fn health(&self) -> ReplicaHealth {
        let breaker = self.circuit.status().upstream;
        let checks = self.checks().clone();
        let condition = checks.status(breaker);
        ReplicaHealth {
            url: self.config.url.clone(),
            status: condition,
            checks,
            breaker,
            calls_in_progress: self.bulkhead.calls_in_progress(),
        }
    }

    fn checks(&self) -> MutexGuard<'_, HealthChecks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the card, whatever the breakers say: no caller waits for it where it is fetched for its own sake, and
    /// that a card is there says little about the agent.
    pub(super) async fn card(&self) -> Result<AgentCard, Error> {
        let agent = self.connect().await?;
        let card = agent.card().clone();
        self.set_current_agent(agent);
        Ok(card)
    }

    /// A probe of the replica, for use before it is called.
    pub(super) fn probe(&self, egress: &Egress) -> AgentProbe {
        AgentProbe::new(self.client.clone(), egress.clone(), self.reference.clone())
    }

    /// A connection to the agent; the caller is named where that is configured.
    pub(super) async fn connection(self: &Arc<Self>, caller: &str) -> Result<ReplicaConnection, Error> {
        let agent = self.agent().await?;
        let shown = self.user_tokens.as_ref().and_then(|on_behalf| on_behalf.credentials(caller));
        let agent = match shown {
            Some(credentials) => self.client.agent_with(agent.discovered_card().clone(), &credentials)?,
            None => agent,
        };
        Ok(ReplicaConnection::new(agent, self.clone()))
    }

    /// A connection for handing tasks over; by a card that is fetched now where what it says decides.
    pub(super) async fn handoff_connection(
        self: &Arc<Self>,
        caller: &str,
        anew: bool,
    ) -> Result<ReplicaConnection, Error> {
        if anew {
            self.card().await?;
        }
        let found = self.agent().await?.discovered_card().clone();
        let client = self.client.with_extensions([HANDOFF.to_owned()]);
        let shown = self.user_tokens.as_ref().and_then(|on_behalf| on_behalf.credentials(caller));
        let agent = match shown {
            Some(credentials) => client.agent_with(found, &credentials)?,
            None => client.agent(found)?,
        };
        Ok(ReplicaConnection::new(agent, self.clone()))
    }

    /// Whether a card has a valid signature. One with keys that cannot be fetched in time does not count.
    pub(super) async fn has_valid_signature(&self, found: &DiscoveredCard) -> bool {
        let voucher = tokio::time::timeout(CARD_TIME_MAX, check_signature(&self.client, found)).await;
        voucher.is_ok_and(|voucher| voucher.signer.is_some())
    }

    /// The URL of the interface that is called, as far as it is known.
    pub(super) fn endpoint(&self) -> Option<String> {
        let kept = self.current_agent.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|(_, agent)| agent.interface().url.clone())
    }

    /// Whether this is an interface of the agent here: at the host that the configuration names, or at one that may see
    /// its credentials. A card may name any other, and so pose as the agent there.
    pub(super) async fn is_at(&self, endpoint: &Url) -> bool {
        if !self.home_origins.iter().any(|home| *home == endpoint.origin()) {
            return false;
        }
        let offers = |card: &AgentCard| {
            card.supported_interfaces.iter().any(|interface| same_agent(&interface.url, endpoint.as_str()))
        };
        if let Some(agent) = self.last_agent() {
            return offers(agent.card());
        }
        if let Some(found) = self.card_policy.as_ref().and_then(|card_policy| card_policy.stored_card()) {
            return offers(&found.card);
        }
        self.agent().await.is_ok_and(|agent| offers(agent.card()))
    }

    /// The client for the agent. A cached card is used at once, however old: the server refreshes cards in the
    /// background, and an agent whose card hangs can be called all the same.
    async fn agent(&self) -> Result<Agent, Error> {
        match self.usable_agent() {
            Some(agent) => Ok(agent),
            None => Box::pin(self.fetch()).await,
        }
    }

    async fn fetch(&self) -> Result<Agent, Error> {
        let _fetching = self.fetching.lock().await;
        if let Some(agent) = self.usable_agent() {
            return Ok(agent);
        }
        let is_enough = !self.fetches_own_card && !self.card_outdated.load(Ordering::Relaxed);
        if is_enough && let Some(agent) = self.agent_of_stored_card() {
            self.set_current_agent(agent.clone());
            return Ok(agent);
        }
        let old = self.last_agent();
        let (permit, _room) = self.acquire()?;
        let found = self.connect().await;
        self.report_result(permit, found.as_ref().err());
        match (found, old.or_else(|| self.agent_of_stored_card())) {
            (Ok(agent), _) => {
                self.set_current_agent(agent.clone());
                Ok(agent)
            }
            (Err(error), Some(agent)) => {
                tracing::warn!(agent = %self.config.url, %error, "its card cannot be fetched; the old one is used");
                Ok(agent)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The client as it is used, unless its card is in doubt.
    fn usable_agent(&self) -> Option<Agent> {
        let kept = self.current_agent.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = |since: Instant| !self.fetches_own_card || since.elapsed() < CARD_FRESH;
        let (_, agent) =
            kept.as_ref().filter(|(since, _)| fresh(*since) && !self.card_outdated.load(Ordering::Relaxed))?;
        Some(agent.clone())
    }

    /// The client that was used last.
    fn last_agent(&self) -> Option<Agent> {
        self.current_agent.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, agent)| agent.clone())
    }

    /// The client for the stored card that counts, as an earlier process left it.
    fn agent_of_stored_card(&self) -> Option<Agent> {
        self.agent_by_live_interface(self.card_policy.as_ref()?.stored_card()?).ok()
    }

    /// Forgets the client: the next connection is made from the card that counts.
    pub(super) fn forget_agent(&self) {
        *self.current_agent.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The next connection is made from a fresh card, if there is one.
    pub(super) fn mark_card_outdated(&self) {
        self.card_outdated.store(true, Ordering::Relaxed);
    }

    pub(super) fn switch_to_v01(&self, agent: Agent) {
        self.speaks_v01.store(true, Ordering::Relaxed);
        self.set_current_agent(agent);
    }

    /// Fetches the card, and makes a client for the one that counts.
    async fn connect(&self) -> Result<Agent, Error> {
        let found = tokio::time::timeout(CARD_TIME_MAX, self.find()).await;
        let found = found.map_err(|_| Error::Timeout { what: "the card", after: CARD_TIME_MAX })??;
        let agent = match &self.card_policy {
            None => self.agent_by_live_interface(found)?,
            Some(card_policy) => {
                let voucher = check_signature(&self.client, &found).await;
                // The first card is pinned, so its interfaces are tried before. A card with a bad signature is not
                // called at all, and of a foreign agent's card only the named interface is.
                let found = match card_policy.stored_card() {
                    None if !voucher.is_invalid && !self.fetches_own_card => {
                        self.with_answering_interface_first(found).await
                    }
                    _ => found,
                };
                let may = |found: &DiscoveredCard| {
                    self.client.check_credential_origins(found).map_err(|error| error.to_string())
                };
                self.agent_by_live_interface(card_policy.accept(found, voucher, &may).await?)?
            }
        };
        if !self.speaks_v01.load(Ordering::Relaxed) {
            return Ok(agent);
        }
        let first = agent.in_v01();
        // Its card names another version by now.
        self.speaks_v01.store(first.is_some(), Ordering::Relaxed);
        Ok(first.unwrap_or(agent))
    }

    async fn find(&self) -> Result<DiscoveredCard, Error> {
        match (self.client.card(&self.reference).await, &self.origin) {
            (Err(Error::CardNotFound { .. } | Error::CardInvalid { .. }), Some(origin)) => {
                self.client.card(origin).await
            }
            (found, _) => found,
        }
    }

    /// A card with the interface first that answers, where it has several. One without any stays as it is: the agent
    /// may be asleep.
    async fn with_answering_interface_first(&self, found: DiscoveredCard) -> DiscoveredCard {
        if found.card.supported_interfaces.len() < 2 {
            return found;
        }
        match tokio::time::timeout(PROBE_TIME_MAX, try_interfaces(&self.client, &found)).await {
            Ok(Ok((way, _))) => with_interface_first(found, &way),
            Ok(Err(_)) | Err(_) => found,
        }
    }

    /// The client for a card, by an interface that is not known to be dead, if it has one by which it may be called.
    fn agent_by_live_interface(&self, found: DiscoveredCard) -> Result<Agent, Error> {
        match self.dead_interfaces.with_dead_interfaces_last(&found) {
            Some(other) => self.client.agent(other).or_else(|_| self.client.agent(found)),
            None => self.client.agent(found),
        }
    }

    /// An interface could not be reached: for a while the next one of the card is called, if there is one.
    pub(super) fn mark_interface_dead(&self, interface: &Interface) {
        self.dead_interfaces.record(interface);
        let mut kept = self.current_agent.write().unwrap_or_else(PoisonError::into_inner);
        // An earlier call that failed has switched already.
        let Some((_, agent)) = kept.as_mut().filter(|(_, agent)| agent.interface() == interface) else { return };
        if let Ok(other) = self.agent_by_live_interface(agent.discovered_card().clone())
            && other.interface() != interface
        {
            tracing::warn!(agent = %self.config.url, lost = %interface.url, now = %other.interface().url,
                "an interface cannot be reached; another one of its card is called");
            *agent = other;
        }
    }

    /// Whether another interface is called than the one that could not be reached.
    pub(super) fn has_other_interface(&self) -> bool {
        let kept = self.current_agent.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().is_some_and(|(_, agent)| {
            self.dead_interfaces.replaces_dead_interface(agent.discovered_card(), agent.interface())
        })
    }

    fn set_current_agent(&self, agent: Agent) {
        self.card_outdated.store(false, Ordering::Relaxed);
        *self.current_agent.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), agent));
    }
}
