//! Ranks agents for a message, with the code that passes messages on.

use crate::agents::dispatch::{DispatchCandidates, DispatchVerdict};
use crate::auth_setup;
use crate::card::{self, CardContent};
use crate::config::Config;
use crate::config::agent::{AgentConfig, Kind};
use crate::config::registry::section;
use crate::directory::peers::{PeerAgent, names};
use crate::public_address::public_address;
use sabir_proto::AgentName;
pub use sabir_store::RankingMatch;
use sabir_store::StoredCard;
use std::collections::BTreeMap;

/// Which agents would get a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRanking {
    /// The scores of all agents, best first.
    pub fits: Vec<RankingMatch>,
    /// The agent that would get it; several if the caller would be asked, none if no agent fits.
    pub chosen: Vec<String>,
    /// The agent that would get it if no agent fits.
    pub fallback: Option<String>,
}

/// Ranks the agents of a configuration for a text. The settings are those of the named agent, else of the first one of
/// kind `dispatch`, else the default ones. Agents that were added at run time count too, and remote agents count with
/// their stored cards.
pub async fn rank(
    config: &Config,
    dispatcher: Option<&str>,
    skill: Option<&str>,
    text: &str,
) -> Result<MessageRanking, String> {
    let kind = |entry: &&AgentConfig| entry.kind == Kind::Dispatch;
    let entry = match dispatcher {
        Some(name) => {
            let found = config.agent.iter().filter(kind).find(|entry| entry.name == name);
            Some(found.ok_or_else(|| format!("there is no agent {name:?} of kind \"dispatch\""))?)
        }
        None => config.agent.iter().find(kind),
    };
    let terms = entry.and_then(|entry| entry.dispatch.clone()).unwrap_or_default();
    terms.check()?;
    let own = entry.map_or("", |entry| &entry.name);
    let known = StoredAgents::read(config).await?;
    let all = config.agent.iter().chain(&known.added).filter(|entry| entry.name != own);
    let all = all.filter_map(|entry| known.peer(config, entry)).collect();
    let candidates = DispatchCandidates::new(all, None, &names("dispatch.agents", &terms.agents)?);
    let (fits, chosen) = match candidates.choose(skill, text, &terms).map_err(|failure| failure.0)? {
        DispatchVerdict::Sure { agent, fits } => (fits, vec![agent.to_string()]),
        DispatchVerdict::Unsure { agents, fits } => (fits, agents.iter().map(ToString::to_string).collect()),
        DispatchVerdict::NoAgent { fits } => (fits, Vec::new()),
    };
    Ok(MessageRanking { fits, chosen, fallback: terms.fallback })
}

/// The agents in the store, besides those of the configuration.
#[derive(Default)]
struct StoredAgents {
    /// Agents that were added at run time.
    added: Vec<AgentConfig>,
    /// The card in use of each remote agent, by name.
    cards: BTreeMap<String, StoredCard>,
}

impl StoredAgents {
    async fn read(config: &Config) -> Result<Self, String> {
        // A command that only reads must not create a store.
        if !config.store_url()?.has_guard() {
            return Ok(Self::default());
        }
        let store = auth_setup::open_guard_store(config).map_err(|e| e.to_string())?;
        let added = store.registered_agents().await.map_err(|e| e.to_string())?;
        let cards = store.used_cards().await.map_err(|e| e.to_string())?;
        Ok(Self {
            added: added.iter().filter(|agent| agent.enabled).flat_map(section).collect(),
            cards: cards.into_iter().map(|card| (card.observation.agent.to_string(), card)).collect(),
        })
    }

    /// An agent as the server would list it.
    fn peer(&self, config: &Config, entry: &AgentConfig) -> Option<PeerAgent> {
        let Some(card) = self.cards.get(&entry.name) else { return PeerAgent::configured(entry) };
        let name = AgentName::parse(&entry.name).ok()?;
        let (public, skills) = card::build(entry, &public_address(config, config.server.listen));
        let face = card::merge(&CardContent { public, skills, xpr: None, replaced_url: None }, &entry.card, card);
        Some(PeerAgent::of_card(&name, &face.public, entry.auth.is_some()))
    }
}
