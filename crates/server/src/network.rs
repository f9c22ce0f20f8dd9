//! The booking network of this server: its name, its keys, its cache of searches and its federation.

mod metering;
mod search_cache;

pub(crate) use metering::register_metering as register_metered;
pub(crate) use search_cache::SearchCache;

use crate::app::{App, ServedAgent};
use crate::bind::agnt::EnvelopeMetrics;
use sabir_gateway::DocumentFetcher;
use sabir_guard::authenticator::AuthMode;
use sabir_guard::config::AcceptedCredential;
use sabir_guard::{EnvelopeKeys, Guard, Identity};
use sabir_network::Recipient;
use sabir_network::federation::Federation;
use sabir_network::plain_text::parse;
use sabir_proto::{Call, Object};
use sabir_store::{Interaction, Ledger};
use sabir_wire::agnt::Intent;
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
    pub(crate) seals: Option<Arc<EnvelopeKeys>>,
    pub(crate) metrics: EnvelopeMetrics,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The recent answers to searches.
    pub(crate) search_cache: Arc<SearchCache>,
    /// Whether it accepts payments.
    accepts_payments: bool,
    /// The neighbouring networks, and the routes to them.
    pub(crate) federation: Arc<Federation<DocumentFetcher>>,
}

impl Network {
    pub(crate) fn new(
        (id, version, agent): (&str, &str, &str),
        seals: Option<Arc<EnvelopeKeys>>,
        ledger: Arc<dyn Ledger>,
        metrics: EnvelopeMetrics,
        federation: Arc<Federation<DocumentFetcher>>,
    ) -> Self {
        let (id, version, agent) = (id.to_owned(), version.to_owned(), agent.to_owned());
        let search_cache = Arc::default();
        Self { id, version, agent, seals, metrics, ledger, search_cache, accepts_payments: false, federation }
    }

    /// Sets whether it accepts payments.
    pub(crate) fn with_payments(self, pays: bool) -> Self {
        Self { accepts_payments: pays, ..self }
    }

    /// The intents that it accepts.
    pub(crate) fn intents(&self) -> Vec<&'static str> {
        let taken = |intent: &Intent| self.accepts_payments || *intent != Intent::PaymentAuthorize;
        Intent::ALL.into_iter().filter(taken).map(Intent::name).collect()
    }

    /// Whether this is the agent of the network.
    pub(crate) fn is_agent(&self, served: &ServedAgent) -> bool {
        served.hosted.name.as_str() == self.agent
    }

    /// The agent that an envelope names as its recipient: it has the intent among its skills, and the key may call it.
    /// An agent with authentication of its own is not reached through the network.
    pub(crate) fn addressee(&self, app: &App, sender: &Identity, to: &str, intent: Intent) -> Option<Arc<ServedAgent>> {
        let found = app.agent(to).filter(|served| !self.is_agent(served))?;
        let has_skill = found.skills.iter().any(|skill| skill.id == intent.name());
        let door = &found.rules.authenticator;
        let takes_keys = door.mode() == AuthMode::Open || door.accepted().contains(&AcceptedCredential::ApiKey);
        let may = Guard::is_for(&found.rules, sender);
        (has_skill && may && takes_keys && Arc::ptr_eq(door, &app.root_rules.authenticator)).then_some(found)
    }

    /// Writes into the metadata of a message in another dialect which intent its words name: the guard decides by that.
    /// What only envelopes may say there is removed.
    pub(crate) fn name_intent(&self, call: &mut Call) {
        let (Call::Send(request) | Call::Stream(request)) = call else { return };
        let message = &mut request.message;
        Recipient::strip(message);
        if message.skill().is_none()
            && let Some((intent, _)) = parse(None, &message.joined_text())
        {
            let mut members = message.metadata.as_ref().map(Object::to_map).unwrap_or_default();
            members.insert("urn:sabir:ext:skill:v1".into(), intent.name().into());
            message.metadata = Object::from_map(&members).ok();
        }
    }

    /// Stores the record of an envelope with the next commit; no request waits for it.
    pub(crate) fn record(&self, interaction: Interaction) {
        // The ledger counts a record that it drops because too many wait.
        self.ledger.record_interaction(interaction);
    }

    /// Its features besides the intents.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        // A forwarded envelope is signed, and only a key can verify it.
        let features =
            [("via", self.seals.is_some()), ("payment.authorize", self.accepts_payments), ("registry", true)];
        features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }

    /// Whether the circuit breaker of all venues is open.
    pub(crate) fn is_broken(&self) -> bool {
        self.breaker() != "closed"
    }

    /// The state of the circuit breaker that all venues share.
    pub(crate) fn breaker(&self) -> &'static str {
        self.federation.routes().sender().shared_breaker_state().name()
    }
}
