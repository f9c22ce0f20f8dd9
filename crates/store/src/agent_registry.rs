//! The agent registry: agents that were added at run time, and the cards of remote agents.
//!
//! A registered agent is what an `[[agent]]` section of the configuration is, stored here: its name, its URL, and the
//! other keys of the section as they would be written. Secrets are not here, only references to them.
//!
//! Cards are stored for every remote agent, also for those of the configuration. Of one agent's cards at most one is
//! *used*: this server shows what it says and calls the interface it names. At most one is *held*: it came later, and
//! waits for an operator to approve it. All others are *past*.
//!
//! Absent on purpose: what a change of a card means, and the form of a card. It is a text with a digest.

use crate::{AuditActor, ChangeError, StoreError, StoreFuture};
use sabir_proto::{AgentName, Timestamp};

/// The most agents in one registry.
pub const AGENTS_MAX: usize = 10_000;
/// Cards of one agent that are stored: the used one, the held one, and the latest of the others.
pub const CARDS_KEPT: usize = 50;

/// An agent that was added at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredAgent {
    /// The name of the agent on this server.
    pub name: AgentName,
    /// The URL of the agent.
    pub url: String,
    /// The name of a vendor profile, if the agent needs one.
    pub profile: Option<String>,
    /// The other keys of its `[[agent]]` section: a JSON object.
    pub settings: String,
    /// Whether the server serves the agent.
    pub enabled: bool,
    pub added_at: Timestamp,
}

/// The state of a stored card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardState {
    /// The card that is shown and called.
    Used,
    /// It waits for an operator's approval.
    Held,
    /// It was used or held before.
    Past,
}

impl CardState {
    /// The word that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Held => "held",
            Self::Past => "past",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Used, Self::Held, Self::Past].into_iter().find(|standing| standing.name() == text)
    }
}

/// The interface of a card that is called, and the key that signed the card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinnedInterface {
    /// The protocol binding, such as `JSONRPC`.
    pub binding: String,
    /// The URL that is called.
    pub address: String,
    /// The version of the dialect.
    pub version: String,
    /// The id of the key whose signature was valid.
    pub signer: Option<String>,
}

/// A card as the server fetched it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardObservation {
    /// The agent that published it.
    pub agent: AgentName,
    /// When it was first fetched.
    pub at: Timestamp,
    /// The URL it was fetched from.
    pub url: Option<String>,
    /// The card, as it was fetched.
    pub card: String,
    /// A digest of the content without the signatures.
    pub digest: String,
    /// The interface to call, and the signer.
    pub pin: PinnedInterface,
    /// The differences to the card before.
    pub changes: Vec<String>,
    /// The state it gets if it is new: [`CardState::Used`] or [`CardState::Held`].
    pub state: CardState,
}

/// A stored card with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCard {
    /// The number among the cards of its agent: 1, 2, 3 …
    pub number: u64,
    /// The card, with its present state.
    pub observation: CardObservation,
}

/// How a fetched card relates to the stored ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardChange {
    /// It is the used card.
    Unchanged,
    /// It is the held card.
    StillHeld,
    /// It is a new card, stored under this number.
    New(u64),
}

/// The registry. Other processes may change it at any time.
pub trait AgentRegistry: Send + Sync + 'static {
    /// A number that rises with every change, by whichever process. From memory, and as fresh as [`crate::Keys::find`].
    fn generation(&self) -> Result<u64, StoreError>;

    /// Adds an agent and its card, with an audit entry, on disk before this returns. A name that is taken is refused.
    fn register_agent(
        &self,
        agent: RegisteredAgent,
        card: Option<CardObservation>,
        by: AuditActor,
    ) -> StoreFuture<(), ChangeError>;

    /// All registered agents, by name.
    fn registered_agents(&self) -> StoreFuture<Vec<RegisteredAgent>>;

    /// Enables or disables an agent, with an audit entry; returns it with the change.
    fn enable_agent(&self, name: AgentName, enabled: bool, by: AuditActor)
    -> StoreFuture<RegisteredAgent, ChangeError>;

    /// Removes an agent and its cards, with an audit entry; returns it.
    fn remove_agent(&self, name: AgentName, by: AuditActor) -> StoreFuture<RegisteredAgent, ChangeError>;

    /// Stores a fetched card. One with the content and the signer of the used card changes nothing, and ends the held
    /// one. A new one that is to be used replaces the used and the held card; one that is to be held, only the held
    /// card.
    fn observe_card(&self, card: CardObservation) -> StoreFuture<CardChange>;

    /// The cards of an agent, oldest first.
    fn cards(&self, name: AgentName) -> StoreFuture<Vec<StoredCard>>;

    /// The used cards of all agents.
    fn used_cards(&self) -> StoreFuture<Vec<StoredCard>>;

    /// Makes the held card of an agent the used one, with an audit entry; returns it, or `None` where none is held.
    fn approve_card(&self, name: AgentName, by: AuditActor) -> StoreFuture<Option<StoredCard>, ChangeError>;
}
