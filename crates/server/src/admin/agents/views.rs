//! Agents and their cards, as operators see them.

use sabir_proto::{Json, Timestamp};
use sabir_store::{PinnedInterface, RegisteredAgent, StoredCard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The agents of a server, by name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    pub agents: Vec<AgentView>,
}

/// An agent of a server.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    pub name: String,
    /// The URL of a remote agent.
    pub url: Option<String>,
    /// The vendor profile of an agent that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The other keys of the section of an agent that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Value>,
    /// Whether an agent that was added is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub added_at: Option<Timestamp>,
    /// The kind, as the configuration file writes it.
    pub kind: String,
    pub origin: AgentOrigin,
    /// The card in use of a remote agent.
    pub card: Option<StoredCardView>,
    /// The card that waits for approval.
    pub held: Option<StoredCardView>,
}

/// Where the registration of an agent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentOrigin {
    /// The configuration file.
    File,
    /// A command or a request at run time.
    Added,
}

/// An agent that was added at run time.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredAgentView {
    pub name: String,
    pub url: String,
    pub profile: Option<String>,
    /// The other keys of its section.
    pub settings: Value,
    /// Whether the server serves it.
    pub enabled: bool,
    #[schemars(with = "String")]
    pub added_at: Timestamp,
}

/// A card as the server fetched it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredCardView {
    /// The number among the cards of its agent: 1, 2, 3 …
    pub number: u64,
    /// `used`, `held` or `past`.
    pub standing: String,
    #[schemars(with = "String")]
    pub seen_at: Timestamp,
    /// The URL it was fetched from.
    pub url: Option<String>,
    /// A digest of the content without the signatures.
    pub digest: String,
    /// The differences to the card before.
    pub changes: Vec<String>,
    pub interface: PinnedInterfaceView,
    /// The id of the key whose signature was valid.
    pub signer: Option<String>,
}

/// The interface that the server calls.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PinnedInterfaceView {
    pub binding: String,
    pub url: String,
    pub version: String,
}

/// The cards of an agent, the oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentHistory {
    pub name: String,
    pub cards: Vec<StoredCardView>,
}

/// A card as the server shows it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentCardDocument {
    #[schemars(with = "Value")]
    pub card: Json,
}

/// The result of adding an agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddedAgentView {
    #[serde(flatten)]
    pub agent: RegisteredAgentView,
    /// The card that it is pinned to.
    pub card: StoredCardView,
    /// The result of the check of the card's signature, in words.
    pub signature: String,
    /// The interfaces that were tried, with the result of each.
    pub tried: Vec<TriedInterface>,
    /// Where the card breaks the rules of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// An interface that was tried.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TriedInterface {
    /// Binding, version and address, as the card has them.
    pub interface: String,
    /// Why it cannot be called; `null` where it answered.
    pub problem: Option<String>,
}

/// The decision about a card that was fetched.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefreshedAgent {
    pub name: String,
    /// `same`, `first`, `used` or `held`.
    pub card: String,
    /// The differences to the card before.
    pub changes: Vec<String>,
}

impl From<RegisteredAgent> for RegisteredAgentView {
    fn from(agent: RegisteredAgent) -> Self {
        let RegisteredAgent { name, url, profile, settings, enabled, added_at } = agent;
        let settings = serde_json::from_str(&settings).unwrap_or_default();
        Self { name: name.to_string(), url, profile, settings, enabled, added_at }
    }
}

impl From<StoredCard> for StoredCardView {
    fn from(StoredCard { number, observation: seen }: StoredCard) -> Self {
        let PinnedInterface { binding, address, version, signer } = seen.pin;
        Self {
            number,
            standing: seen.state.name().to_owned(),
            seen_at: seen.at,
            url: seen.url,
            digest: seen.digest,
            changes: seen.changes,
            interface: PinnedInterfaceView { binding, url: address, version },
            signer,
        }
    }
}
