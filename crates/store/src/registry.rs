//! The registry: agents that were added at run time, and the cards that agents elsewhere have shown.
//!
//! An agent of the registry is what an `[[agent]]` section of the configuration is, kept here: its name, where it is, and
//! the other keys of the section as they would be written. Secrets are not here, only where they are found.
//!
//! Cards are kept for every agent elsewhere, also for those of the configuration. Of one agent's cards at most one is
//! *used*: what it says is what we show and where we call. At most one is *held*: it came later, and waits for somebody
//! to say that it may be used. All others are *past*.
//!
//! Absent on purpose: what a change of a card means, and what a card is. It is a text with a digest.

use crate::{Answer, By, ChangeError, StoreError};
use sabir_proto::{AgentName, Timestamp};

/// Agents in one registry.
pub const AGENTS_MAX: usize = 10_000;
/// Cards of one agent that are kept: the one that is used, the one that is held, and the latest of the others.
pub const CARDS_KEPT: usize = 50;

/// An agent that was added at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enlisted {
    /// What it is called here.
    pub name: AgentName,
    /// Where it is.
    pub url: String,
    /// The vendor's habits that it follows, if any.
    pub profile: Option<String>,
    /// The other keys of its `[[agent]]` section: a JSON object.
    pub settings: String,
    /// Whether it is served.
    pub enabled: bool,
    /// Since when.
    pub added_at: Timestamp,
}

/// How a card stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardStanding {
    /// It is what is shown and called.
    Used,
    /// It waits to be approved.
    Held,
    /// It was used or held once.
    Past,
}

impl CardStanding {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Held => "held",
            Self::Past => "past",
        }
    }

    /// The standing of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Used, Self::Held, Self::Past].into_iter().find(|standing| standing.name() == text)
    }
}

/// What a card came to when it was looked at: which of its interfaces is called, and who vouches for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pin {
    /// The binding, such as `JSONRPC`.
    pub binding: String,
    /// The address that is called.
    pub address: String,
    /// The dialect that is spoken.
    pub version: String,
    /// The id of the key whose signature was good.
    pub signer: Option<String>,
}

/// A card as it was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noticed {
    /// Whose.
    pub agent: AgentName,
    /// When it was first seen.
    pub at: Timestamp,
    /// Where it was found.
    pub url: Option<String>,
    /// The card, as it was found.
    pub card: String,
    /// What it says, in one number; signatures do not count.
    pub digest: String,
    /// What it came to.
    pub pin: Pin,
    /// What is other than in the card before.
    pub changes: Vec<String>,
    /// How it shall stand if it is new: [`CardStanding::Used`] or [`CardStanding::Held`].
    pub standing: CardStanding,
}

/// A card that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCard {
    /// Its number among those of its agent: 1, 2, 3 …
    pub number: u64,
    /// The card, with its present standing.
    pub seen: Noticed,
}

/// What noticing a card came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It is the one that is used.
    Known,
    /// It is the one that is held.
    StillHeld,
    /// It is another one, and kept under this number.
    New(u64),
}

/// The registry. Other processes may change it at any time.
pub trait Registry: Send + Sync + 'static {
    /// A number that is another one after every change, whoever made it. From memory, and as fresh as
    /// [`crate::Keys::find`].
    fn generation(&self) -> Result<u64, StoreError>;

    /// Adds an agent and the card it showed, with an audit entry, on disk before this answers. A name that is taken is
    /// refused.
    fn enlist(&self, agent: Enlisted, card: Option<Noticed>, by: By) -> Answer<(), ChangeError>;

    /// All agents, by name.
    fn enlisted(&self) -> Answer<Vec<Enlisted>>;

    /// Has an agent served, or not served, with an audit entry; gives it as it is then.
    fn enable(&self, name: AgentName, enabled: bool, by: By) -> Answer<Enlisted, ChangeError>;

    /// Removes an agent and its cards, with an audit entry; gives it.
    fn delist(&self, name: AgentName, by: By) -> Answer<Enlisted, ChangeError>;

    /// Notices a card. One that says what the used one says, with the same signer, is known, and ends whatever was held.
    /// A new one that shall be used replaces the used one and the held one; one that shall be held, only the held one.
    fn notice(&self, card: Noticed) -> Answer<Notice>;

    /// The cards of an agent, oldest first.
    fn cards(&self, name: AgentName) -> Answer<Vec<KeptCard>>;

    /// The used cards of all agents.
    fn used_cards(&self) -> Answer<Vec<KeptCard>>;

    /// Has the held card of an agent used from now on, with an audit entry; gives it, or nothing where none is held.
    fn approve(&self, name: AgentName, by: By) -> Answer<Option<KeptCard>, ChangeError>;
}
