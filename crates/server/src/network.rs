//! The booking network of this server: its name, its keys, its cache of searches and its federation.

mod envelope_metrics;
mod metering;
mod search_cache;

pub(crate) use envelope_metrics::{DeliveryLabels, EnvelopeLabels, EnvelopeMetrics, IntentLabels, RetryLabels};
pub(crate) use metering::register_metering as register_metered;
pub(crate) use search_cache::SearchCache;

use crate::directory::ServedAgent;
use sabir_gateway::DocumentFetcher;
use sabir_guard::EnvelopeKeys;
use sabir_network::Recipient;
use sabir_network::federation::Federation;
use sabir_network::plain_text::parse;
use sabir_proto::{Call, Object};
use sabir_store::{Interaction, Ledger};
use sabir_wire::agnt::Intent;
use std::sync::Arc;

/// How the network is called.
#[derive(Debug)]
pub(crate) struct NetworkName {
    pub(crate) id: String,
    pub(crate) version: String,
    /// The name of its agent.
    pub(crate) agent: String,
}

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
        name: NetworkName,
        seals: Option<Arc<EnvelopeKeys>>,
        ledger: Arc<dyn Ledger>,
        metrics: EnvelopeMetrics,
        federation: Arc<Federation<DocumentFetcher>>,
    ) -> Self {
        let NetworkName { id, version, agent } = name;
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
