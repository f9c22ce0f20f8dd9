//! The booking network as the rest of the server sees it: what it is called, whose keys it knows, what it keeps.

mod metered;
mod passages;

pub(crate) use metered::register as register_metered;
pub(crate) use passages::{Passages, Ticket};

use crate::app::{App, Served};
use crate::bind::agnt::EnvelopeMetrics;
use sabir_guard::{Identity, Seals};
use sabir_network::words::understand;
use sabir_proto::agnt::{Aside, Intent};
use sabir_proto::{Call, Object};
use sabir_store::{Interaction, Ledger};
use std::sync::Arc;

/// The network of this server.
pub(crate) struct Network {
    /// Its id, which envelopes carry as `to`.
    pub(crate) id: String,
    /// What it calls its version.
    pub(crate) version: String,
    /// The agent that it is.
    pub(crate) agent: String,
    /// The keys that payloads are signed with.
    pub(crate) seals: Option<Arc<Seals>>,
    pub(crate) metrics: EnvelopeMetrics,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Envelopes that are on their way.
    pub(crate) passages: Arc<Passages>,
}

impl Network {
    pub(crate) fn new(
        (id, version, agent): (&str, &str, &str),
        seals: Option<Arc<Seals>>,
        ledger: Arc<dyn Ledger>,
        metrics: EnvelopeMetrics,
    ) -> Self {
        let passages = Arc::new(Passages::new());
        let (id, version, agent) = (id.to_owned(), version.to_owned(), agent.to_owned());
        Self { id, version, agent, seals, metrics, ledger, passages }
    }

    /// Whether an agent is the network's.
    pub(crate) fn is(&self, served: &Served) -> bool {
        served.resident.name.as_str() == self.agent
    }

    /// The agent of this server that an envelope names as its recipient: one that has the intent among its skills and
    /// stands behind the same door as the network. One with a door of its own is reached through that alone.
    pub(crate) fn addressee(&self, app: &App, own: &Arc<Served>, to: &str, intent: Intent) -> Option<Arc<Served>> {
        let found = app.agent(to).filter(|served| !self.is(served))?;
        let has_skill = found.skills.iter().any(|skill| skill.id == intent.name());
        (has_skill && Arc::ptr_eq(&found.rules.entrance, &own.rules.entrance)).then_some(found)
    }

    /// Says beside a message in another dialect who its sender is, and what it asks for where its words tell: the guard
    /// decides by that. What the sender says there itself is taken away.
    pub(crate) fn introduce(&self, identity: &Identity, call: &mut Call) {
        let (Call::Send(request) | Call::Stream(request)) = call else { return };
        let message = &mut request.message;
        Aside::strip(message);
        if message.skill().is_none()
            && let Some((intent, _)) = understand(None, &message.joined_text())
        {
            let mut members = message.metadata.as_ref().map(Object::to_map).unwrap_or_default();
            members.insert("urn:sabir:ext:skill:v1".into(), intent.name().into());
            message.metadata = Object::from_map(&members).ok();
        }
        let agent_id = match &*identity.senders() {
            [only] => Some((*only).to_owned()),
            _ => None,
        };
        let tier = identity.key().and_then(|key| key.terms.tier.clone());
        Aside { tier, agent_id, ..Aside::default() }.put(message);
    }

    /// Keeps the record of an envelope. Nobody waits for it: it goes with the next commit.
    pub(crate) fn record(&self, interaction: Interaction) {
        // One that is dropped, since too many wait, is counted there.
        self.ledger.record(interaction);
    }

    /// What it can do beyond the intents.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        vec!["via", "payment.authorize", "registry"]
    }

    /// Whether the way to all venues is closed at present.
    pub(crate) fn is_broken(&self) -> bool {
        self.breaker() != "closed"
    }

    /// How the breaker stands that all venues share.
    pub(crate) fn breaker(&self) -> &'static str {
        "closed"
    }
}
