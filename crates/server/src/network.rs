//! The booking network of this server: its name, its keys, its pending records and its federation.

mod metered;
mod passages;
mod searches;

pub(crate) use metered::register as register_metered;
pub(crate) use passages::{Passages, Ticket};
pub(crate) use searches::Searches;

use crate::app::{App, Served};
use crate::bind::agnt::EnvelopeMetrics;
use sabir_gateway::Outbound;
use sabir_guard::config::Accept;
use sabir_guard::entrance::Posture;
use sabir_guard::{Guard, Identity, Seals};
use sabir_network::federation::Federation;
use sabir_network::words::understand;
use sabir_proto::agnt::{Aside, Intent};
use sabir_proto::{Call, Object};
use sabir_store::{Interaction, Ledger};
use std::sync::Arc;

/// The booking network of this server.
pub(crate) struct Network {
    /// Its id, which envelopes carry as `to`.
    pub(crate) id: String,
    /// The version that it reports.
    pub(crate) version: String,
    /// The name of its agent.
    pub(crate) agent: String,
    /// The keys that sign payloads.
    pub(crate) seals: Option<Arc<Seals>>,
    pub(crate) metrics: EnvelopeMetrics,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The records of envelopes that are being processed.
    pub(crate) passages: Arc<Passages>,
    /// The recent answers to searches.
    pub(crate) searches: Arc<Searches>,
    /// Whether it accepts payments.
    pays: bool,
    /// The neighbouring networks, and the routes to them.
    pub(crate) federation: Arc<Federation<Outbound>>,
}

impl Network {
    pub(crate) fn new(
        (id, version, agent): (&str, &str, &str),
        seals: Option<Arc<Seals>>,
        ledger: Arc<dyn Ledger>,
        metrics: EnvelopeMetrics,
        federation: Arc<Federation<Outbound>>,
    ) -> Self {
        let passages = Arc::new(Passages::new());
        let (id, version, agent) = (id.to_owned(), version.to_owned(), agent.to_owned());
        let searches = Arc::default();
        Self { id, version, agent, seals, metrics, ledger, passages, searches, pays: false, federation }
    }

    /// Sets whether it accepts payments.
    pub(crate) fn paying(self, pays: bool) -> Self {
        Self { pays, ..self }
    }

    /// The intents that it accepts.
    pub(crate) fn intents(&self) -> Vec<&'static str> {
        let taken = |intent: &Intent| self.pays || *intent != Intent::PaymentAuthorize;
        Intent::ALL.into_iter().filter(taken).map(Intent::name).collect()
    }

    /// Whether this is the agent of the network.
    pub(crate) fn is(&self, served: &Served) -> bool {
        served.resident.name.as_str() == self.agent
    }

    /// The agent that an envelope names as its recipient: it has the intent among its skills, and the key may call it.
    /// An agent with authentication of its own is not reached through the network.
    pub(crate) fn addressee(&self, app: &App, sender: &Identity, to: &str, intent: Intent) -> Option<Arc<Served>> {
        let found = app.agent(to).filter(|served| !self.is(served))?;
        let has_skill = found.skills.iter().any(|skill| skill.id == intent.name());
        let door = &found.rules.entrance;
        let takes_keys = door.posture() == Posture::Open || door.accepts().contains(&Accept::ApiKey);
        let may = Guard::is_for(&found.rules, sender);
        (has_skill && may && takes_keys && Arc::ptr_eq(door, &app.root_rules.entrance)).then_some(found)
    }

    /// Writes into the metadata of a message in another dialect who its sender is, and which intent its words name: the
    /// guard decides by that. What the sender wrote there itself is removed.
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

    /// Stores the record of an envelope with the next commit; no request waits for it.
    pub(crate) fn record(&self, interaction: Interaction) {
        // The ledger counts a record that it drops because too many wait.
        self.ledger.record(interaction);
    }

    /// Its features besides the intents.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        // A forwarded envelope is signed, and only a key can verify it.
        let features = [("via", self.seals.is_some()), ("payment.authorize", self.pays), ("registry", true)];
        features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }

    /// Whether the circuit breaker of all venues is open.
    pub(crate) fn is_broken(&self) -> bool {
        self.breaker() != "closed"
    }

    /// The state of the circuit breaker that all venues share.
    pub(crate) fn breaker(&self) -> &'static str {
        self.federation.routes().envoy().state().name()
    }
}
