//! What an agent that works with others needs to know about another agent.

use super::ServedAgent;
use crate::config::agent::{AgentConfig, SkillConfig};
use sabir_proto::card::Skill;
use sabir_proto::{AgentCard, AgentName};
use sabir_store::RankingCandidate;

/// Another agent, with what a possible caller needs to know about it.
#[derive(Debug, Clone)]
pub(crate) struct PeerAgent {
    pub(crate) name: AgentName,
    /// The display name of the agent.
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) skills: Vec<Skill>,
    /// It has authentication rules of its own, so a caller of other agents may not be allowed to call it.
    pub(crate) guarded: bool,
}

impl PeerAgent {
    /// A served agent as its public card describes it now.
    pub(super) fn new(served: &ServedAgent) -> Self {
        Self::of_card(&served.hosted.name, &served.cards.public(), served.has_own_auth)
    }

    /// An agent as a card describes it.
    pub(crate) fn of_card(name: &AgentName, card: &AgentCard, guarded: bool) -> Self {
        Self {
            name: name.clone(),
            title: card.name.clone(),
            description: card.description.clone(),
            skills: card.skills.clone(),
            guarded,
        }
    }

    /// An agent as its configuration describes it.
    pub(crate) fn configured(entry: &AgentConfig) -> Option<Self> {
        Some(Self {
            name: AgentName::parse(&entry.name).ok()?,
            title: entry.card.name.clone().unwrap_or_else(|| entry.name.clone()),
            description: entry.card.description.clone().unwrap_or_default(),
            skills: entry.card.skills.iter().filter(|skill| skill.public).map(skill).collect(),
            guarded: entry.auth.is_some(),
        })
    }

    /// The texts by which a search finds it.
    pub(crate) fn search_document(&self) -> RankingCandidate {
        let all = |field: fn(&Skill) -> String| self.skills.iter().map(field).collect::<Vec<_>>().join("\n");
        RankingCandidate {
            key: self.name.to_string(),
            fields: [
                format!("{} {}", self.name, self.title),
                all(|skill| format!("{} {} {}", skill.id, skill.name, skill.description)),
                all(|skill| skill.tags.join(" ")),
                all(|skill| skill.examples.join("\n")),
                self.description.clone(),
            ],
        }
    }

    /// One line for a caller that has to choose.
    pub(crate) fn summary_line(&self) -> String {
        let skills: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).take(5).collect();
        let about = match (self.description.is_empty(), skills.is_empty()) {
            (false, _) => self.description.clone(),
            (true, false) => skills.join(", "),
            (true, true) => String::new(),
        };
        if about.is_empty() { self.name.to_string() } else { format!("{}: {about}", self.name) }
    }
}

fn skill(config: &SkillConfig) -> Skill {
    config.into()
}

/// Parses the names of agents in a configuration.
pub(crate) fn names(key: &str, given: &[String]) -> Result<Vec<AgentName>, String> {
    given.iter().map(|name| AgentName::parse(name).map_err(|e| format!("{key}: {name:?} {e}"))).collect()
}
