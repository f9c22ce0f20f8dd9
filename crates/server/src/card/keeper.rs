//! Tracks the stored cards of one remote agent: which one is used, and what happens when a new one arrives.
//!
//! The first card is used: trust on first use. A significant change later is logged and kept in the history. With
//! `on_drift = "hold"` the previous card stays in use, with its pinned interface, until an operator approves the new
//! one.

use super::drift;
use crate::config::registry::OnDrift;
use crate::host::TokioHost;
use sabir_engine::{BoxFuture, Host as _};
use sabir_gateway::{Error, Found, May, Voucher, Way, leads_to};
use sabir_proto::{AgentName, Fault};
use sabir_store::{CardStanding, KeptCard, Notice, Noticed, Registry, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Tracks the cards of one remote agent.
pub(crate) struct Keeper {
    agent: AgentName,
    registry: Arc<dyn Registry>,
    on_drift: OnDrift,
    /// The addresses of this server, as `host:port`.
    ours: Arc<[String]>,
    /// The location of the agent's card. Cards from other locations do not count.
    place: String,
    used: RwLock<Option<KeptCard>>,
    is_held: AtomicBool,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// The decision about a fetched card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is the card that is in use.
    Same,
    /// It is the first card, and is used from now on.
    First,
    /// It is used from now on, with these changes.
    Used(Vec<String>),
    /// It waits for approval, with these changes to the card in use.
    Held(Vec<String>),
}

impl Keeper {
    pub(crate) fn new(
        agent: AgentName,
        registry: Arc<dyn Registry>,
        on_drift: OnDrift,
        ours: Arc<[String]>,
        place: String,
        used: Option<KeptCard>,
    ) -> Self {
        let used = used.filter(|card| drift::is_of(card, &place));
        // The first fetch finds out whether a card is held.
        Self { agent, registry, on_drift, ours, place, used: RwLock::new(used), is_held: AtomicBool::new(true) }
    }

    /// The card that is in use.
    pub(crate) fn used(&self) -> Option<KeptCard> {
        self.used.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses a card that an operator or another process has accepted. Returns whether it is new.
    pub(crate) fn take(&self, card: KeptCard) -> bool {
        let mut used = self.used.write().unwrap_or_else(PoisonError::into_inner);
        let known = used.as_ref().is_some_and(|used| used.number == card.number);
        if known || !drift::is_of(&card, &self.place) {
            return false;
        }
        *used = Some(card);
        true
    }

    /// Decides about a fetched card.
    pub(crate) async fn weigh(&self, found: &Found, voucher: &Voucher, may: May<'_>) -> Result<Settled, String> {
        if voucher.wrong {
            return Err(format!("its signature {}", voucher.words));
        }
        let way = sabir_gateway::way(found).ok_or("it offers no interface that we speak")?;
        let before = self.used();
        // Checks all interfaces, because another one is called if the first is down.
        if leads_to(found, &self.ours) {
            tracing::warn!(agent = %self.agent, address = way.address, "its card leads back to this server");
            return Err(CIRCLE.into());
        }
        let way = before.as_ref().map_or(way.clone(), |before| stay(before, found, way));
        may(&sabir_gateway::by_way(found.clone(), &way))?;
        let mut card = drift::noticed(&self.agent, (found, voucher), way, before.as_ref(), TokioHost.now());
        let same = |b: &KeptCard| b.seen.digest == card.digest && b.seen.pin.signer == card.pin.signer;
        let is_same = before.as_ref().is_some_and(same);
        if is_same && !self.is_held.load(Ordering::Relaxed) {
            return Ok(Settled::Same);
        }
        let holds = before.is_some() && self.on_drift == OnDrift::Hold && drift::is_grave(&card.changes);
        if holds {
            card.standing = CardStanding::Held;
        }
        let changes = card.changes.clone();
        let notice = self.keep(card).await.map_err(|error| error.to_string())?;
        self.is_held.store(!is_same && holds, Ordering::Relaxed);
        Ok(match (before, notice) {
            (_, Notice::Known) => Settled::Same,
            (None, _) => Settled::First,
            (Some(_), _) if holds => Settled::Held(changes),
            (Some(_), _) => Settled::Used(changes),
        })
    }

    async fn keep(&self, card: Noticed) -> Result<Notice, StoreError> {
        let notice = self.registry.notice(card.clone()).await?;
        if let (Notice::New(number), CardStanding::Used) = (&notice, card.standing) {
            let kept = KeptCard { number: *number, seen: card };
            *self.used.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        }
        Ok(notice)
    }

    /// Logs a decision that operators should see.
    fn tell(&self, settled: &Result<Settled, String>) {
        let agent = &self.agent;
        match settled {
            Ok(Settled::Same | Settled::First) => {}
            Ok(Settled::Used(changes)) if drift::is_grave(changes) => {
                tracing::warn!(%agent, ?changes, "the card of an agent elsewhere has changed; the new one is used");
            }
            Ok(Settled::Used(changes)) => {
                tracing::info!(%agent, ?changes, "the card of an agent elsewhere has changed");
            }
            Ok(Settled::Held(changes)) => {
                tracing::warn!(
                    %agent, ?changes,
                    "the card of an agent elsewhere has changed; it is held until sabir agent approve {agent}"
                );
            }
            Err(problem) => tracing::warn!(%agent, %problem, "the card of an agent elsewhere is not used"),
        }
    }
}

impl sabir_gateway::Keeper for Keeper {
    fn settle<'a>(&'a self, found: Found, voucher: Voucher, may: May<'a>) -> BoxFuture<'a, Result<Found, Error>> {
        Box::pin(async move {
            let settled = self.weigh(&found, &voucher, may).await;
            self.tell(&settled);
            match settled {
                // The fetched card, because it has facts that are not stored, such as its server.
                Ok(Settled::Same | Settled::First | Settled::Used(_)) => Ok(match self.used() {
                    Some(used) => sabir_gateway::by_way(found, &drift::way(&used.seen.pin)),
                    None => found,
                }),
                Ok(Settled::Held(_)) => {
                    self.kept().ok_or_else(|| unused("it is held, and the one before cannot be read"))
                }
                Err(problem) => self.kept().ok_or_else(|| unused(&problem)),
            }
        })
    }

    fn kept(&self) -> Option<Found> {
        self.used().as_ref().and_then(drift::found)
    }
}

/// Callers are told this too, because the loop concerns them.
const CIRCLE: &str = "its card leads back to this server itself";

fn unused(problem: &str) -> Error {
    if problem == CIRCLE {
        let fault = Fault::InvalidAgentResponse(CIRCLE.into());
        return Error::Fault { fault, transport: None, retry_after: None };
    }
    // These words are ours and not the agent's, so callers do not get them.
    Error::Usage(format!("its card is not used: {problem}"))
}

/// The pinned interface, as long as the card still has it: a different order of interfaces is no reason to call another
/// one.
fn stay(before: &KeptCard, found: &Found, otherwise: Way) -> Way {
    let pinned = drift::way(&before.seen.pin);
    let there = |i: &sabir_proto::card::Interface| {
        i.url == pinned.address && i.protocol_binding.eq_ignore_ascii_case(&pinned.binding)
    };
    if found.card.supported_interfaces.iter().any(there) { pinned } else { otherwise }
}
