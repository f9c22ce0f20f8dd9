//! The booking network as the rest of the server sees it: what it is called, whose keys it knows, what it keeps.

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
    /// What searches were answered.
    pub(crate) searches: Arc<Searches>,
    /// Whether it takes payments.
    pays: bool,
    /// The networks beside it, and the ways to them.
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

    /// The same, taking payments or not.
    pub(crate) fn paying(self, pays: bool) -> Self {
        Self { pays, ..self }
    }

    /// What can be asked of it.
    pub(crate) fn intents(&self) -> Vec<&'static str> {
        let taken = |intent: &Intent| self.pays || *intent != Intent::PaymentAuthorize;
        Intent::ALL.into_iter().filter(taken).map(Intent::name).collect()
    }

    /// Whether an agent is the network's.
    pub(crate) fn is(&self, served: &Served) -> bool {
        served.resident.name.as_str() == self.agent
    }

    /// The agent of this server that an envelope names as its recipient: one that has the intent among its skills, and
    /// whose door opens to this key as well. One with a door of its own is reached through that alone.
    pub(crate) fn addressee(&self, app: &App, sender: &Identity, to: &str, intent: Intent) -> Option<Arc<Served>> {
        let found = app.agent(to).filter(|served| !self.is(served))?;
        let has_skill = found.skills.iter().any(|skill| skill.id == intent.name());
        let door = &found.rules.entrance;
        let takes_keys = door.posture() == Posture::Open || door.accepts().contains(&Accept::ApiKey);
        let may = Guard::is_for(&found.rules, sender);
        (has_skill && may && takes_keys && Arc::ptr_eq(door, &app.root_rules.entrance)).then_some(found)
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
        // What was passed on is signed, so it takes a key to check it with.
        let features = [("via", self.seals.is_some()), ("payment.authorize", self.pays), ("registry", true)];
        features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }

    /// Whether the way to all venues is closed at present.
    pub(crate) fn is_broken(&self) -> bool {
        self.breaker() != "closed"
    }

    /// How the breaker stands that all venues share.
    pub(crate) fn breaker(&self) -> &'static str {
        self.federation.routes().envoy().state().name()
    }
}
