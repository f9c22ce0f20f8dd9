//! Tracks the stored cards of one remote agent: which one is used, and what happens when a new one arrives.
//!
//! The first card is used: trust on first use. A significant change later is logged and kept in the history. With
//! `on_drift = "hold"` the previous card stays in use, with its pinned interface, until an operator approves the new
//! one.

use super::drift;
use crate::config::registry::OnDrift;
use crate::tokio_host::TokioHost;
use sabir_engine::{BoxFuture, Host as _};
use sabir_gateway::{CardCheck, ChosenInterface, DiscoveredCard, Error, SignatureCheck, has_interface_at};
use sabir_proto::{AgentName, Fault};
use sabir_store::{AgentRegistry, CardChange, CardObservation, CardState, StoreError, StoredCard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Tracks the cards of one remote agent.
pub(crate) struct CardTracker {
    agent: AgentName,
    registry: Arc<dyn AgentRegistry>,
    on_drift: OnDrift,
    /// The addresses of this server, as `host:port`.
    ours: Arc<[String]>,
    /// The location of the agent's card. Cards from other locations do not count.
    location: String,
    used: RwLock<Option<StoredCard>>,
    is_held: AtomicBool,
}

impl std::fmt::Debug for CardTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// The decision about a fetched card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CardDecision {
    /// It is the card that is in use.
    Unchanged,
    /// It is the first card, and is used from now on.
    First,
    /// It is used from now on, with these changes.
    Replaced(Vec<String>),
    /// It waits for approval, with these changes to the card in use.
    Held(Vec<String>),
}

impl CardTracker {
    pub(crate) fn new(
        agent: AgentName,
        registry: Arc<dyn AgentRegistry>,
        on_drift: OnDrift,
        ours: Arc<[String]>,
        location: String,
        used: Option<StoredCard>,
    ) -> Self {
        let used = used.filter(|card| drift::is_from(card, &location));
        // The first fetch finds out whether a card is held.
        Self { agent, registry, on_drift, ours, location, used: RwLock::new(used), is_held: AtomicBool::new(true) }
    }

    /// The card that is in use.
    pub(crate) fn used(&self) -> Option<StoredCard> {
        self.used.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses a card that an operator or another process has accepted. Returns whether it is new.
    pub(crate) fn adopt(&self, card: StoredCard) -> bool {
        let mut used = self.used.write().unwrap_or_else(PoisonError::into_inner);
        let known = used.as_ref().is_some_and(|used| used.number == card.number);
        if known || !drift::is_from(&card, &self.location) {
            return false;
        }
        *used = Some(card);
        true
    }

    /// Decides about a fetched card.
    pub(crate) async fn decide(
        &self,
        found: &DiscoveredCard,
        voucher: &SignatureCheck,
        may: CardCheck<'_>,
    ) -> Result<CardDecision, String> {
        if voucher.is_invalid {
            return Err(format!("its signature {}", voucher.summary));
        }
        let way = sabir_gateway::chosen_interface(found).ok_or("it offers no interface that we speak")?;
        let before = self.used();
        // Checks all interfaces, because another one is called if the first is down.
        if has_interface_at(found, &self.ours) {
            tracing::warn!(agent = %self.agent, address = way.address, "its card leads back to this server");
            return Err(LEADS_BACK.into());
        }
        let way = before.as_ref().map_or(way.clone(), |before| keep_pinned(before, found, way));
        may(&sabir_gateway::with_interface_first(found.clone(), &way))?;
        let mut card = drift::observation(&self.agent, found, voucher, way, before.as_ref(), TokioHost.now());
        let same = |b: &StoredCard| b.observation.digest == card.digest && b.observation.pin.signer == card.pin.signer;
        let is_same = before.as_ref().is_some_and(same);
        if is_same && !self.is_held.load(Ordering::Relaxed) {
            return Ok(CardDecision::Unchanged);
        }
        let holds = before.is_some() && self.on_drift == OnDrift::Hold && drift::is_significant(&card.changes);
        if holds {
            card.state = CardState::Held;
        }
        let changes = card.changes.clone();
        let notice = self.store(card).await.map_err(|error| error.to_string())?;
        self.is_held.store(!is_same && holds, Ordering::Relaxed);
        Ok(match (before, notice) {
            (_, CardChange::Unchanged) => CardDecision::Unchanged,
            (None, _) => CardDecision::First,
            (Some(_), _) if holds => CardDecision::Held(changes),
            (Some(_), _) => CardDecision::Replaced(changes),
        })
    }

    async fn store(&self, card: CardObservation) -> Result<CardChange, StoreError> {
        let notice = self.registry.observe_card(card.clone()).await?;
        if let (CardChange::New(number), CardState::Used) = (&notice, card.state) {
            let kept = StoredCard { number: *number, observation: card };
            *self.used.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        Ok(notice)
    }

    /// Logs a decision that operators should see.
    fn log_decision(&self, settled: &Result<CardDecision, String>) {
        let agent = &self.agent;
        match settled {
            Ok(CardDecision::Unchanged | CardDecision::First) => {}
            Ok(CardDecision::Replaced(changes)) if drift::is_significant(changes) => {
                tracing::warn!(%agent, ?changes, "the card of an agent elsewhere has changed; the new one is used");
            }
            Ok(CardDecision::Replaced(changes)) => {
                tracing::info!(%agent, ?changes, "the card of an agent elsewhere has changed");
            }
            Ok(CardDecision::Held(changes)) => {
                tracing::warn!(
                    %agent, ?changes,
                    "the card of an agent elsewhere has changed; it is held until sabir agent approve {agent}"
                );
            }
            Err(problem) => tracing::warn!(%agent, %problem, "the card of an agent elsewhere is not used"),
        }
    }
}

impl sabir_gateway::CardPolicy for CardTracker {
    fn accept<'a>(
        &'a self,
        found: DiscoveredCard,
        voucher: SignatureCheck,
        may: CardCheck<'a>,
    ) -> BoxFuture<'a, Result<DiscoveredCard, Error>> {
        Box::pin(async move {
            let settled = self.decide(&found, &voucher, may).await;
            self.log_decision(&settled);
            match settled {
                // The fetched card, because it has facts that are not stored, such as its server.
                Ok(CardDecision::Unchanged | CardDecision::First | CardDecision::Replaced(_)) => {
                    Ok(match self.used() {
                        Some(used) => {
                            sabir_gateway::with_interface_first(found, &drift::pinned_interface(&used.observation.pin))
                        }
                        None => found,
                    })
                }
                Ok(CardDecision::Held(_)) => {
                    self.stored_card().ok_or_else(|| unused_card_error("it is held, and the one before cannot be read"))
                }
                Err(problem) => self.stored_card().ok_or_else(|| unused_card_error(&problem)),
            }
        })
    }

    fn stored_card(&self) -> Option<DiscoveredCard> {
        self.used().as_ref().and_then(drift::read_kept)
    }
}

/// Callers are told this too, because the loop concerns them.
const LEADS_BACK: &str = "its card leads back to this server itself";

fn unused_card_error(problem: &str) -> Error {
    if problem == LEADS_BACK {
        let fault = Fault::InvalidAgentResponse(LEADS_BACK.into());
        return Error::Fault { fault, transport: None, retry_after: None };
    }
    // These words are ours and not the agent's, so callers do not get them.
    Error::Usage(format!("its card is not used: {problem}"))
}

/// The pinned interface, as long as the card still has it: a different order of interfaces is no reason to call another
/// one.
fn keep_pinned(before: &StoredCard, found: &DiscoveredCard, otherwise: ChosenInterface) -> ChosenInterface {
    let pinned = drift::pinned_interface(&before.observation.pin);
    let there = |i: &sabir_proto::card::Interface| {
        i.url == pinned.address && i.protocol_binding.eq_ignore_ascii_case(&pinned.binding)
    };
    if found.card.supported_interfaces.iter().any(there) { pinned } else { otherwise }
}
