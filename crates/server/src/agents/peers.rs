//! The other agents of this server, for agents that work with others.
//!
//! An agent is made before all others exist, and others are added and removed later. So an agent holds this list and
//! reads it when it needs it. The server sets where the list comes from.

use crate::config::agent::{AgentConfig, SkillConfig};
use sabir_engine::BoxFuture;
use sabir_proto::card::Skill;
use sabir_proto::{AgentCard, AgentName, Caller};
use sabir_store::RankingCandidate;
use std::collections::HashSet;
use std::sync::OnceLock;

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

type PeerSource = dyn Fn() -> Vec<PeerAgent> + Send + Sync;
type AccessCheck = dyn Fn(Caller, Option<String>) -> BoxFuture<'static, HashSet<AgentName>> + Send + Sync;

/// The agents that are served at this moment.
#[derive(Default)]
pub(crate) struct PeerAgents {
    source: OnceLock<Box<PeerSource>>,
    access_check: OnceLock<Box<AccessCheck>>,
}

impl std::fmt::Debug for PeerAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all().iter().map(|peer| &peer.name)).finish()
    }
}

impl PeerAgents {
    /// Sets the source of the agents. Only the first call has an effect: later changes come from the source.
    pub(crate) fn set_source(&self, source: impl Fn() -> Vec<PeerAgent> + Send + Sync + 'static) {
        // A second call would set the same source.
        drop(self.source.set(Box::new(source)));
    }

    /// Sets the check that decides which agents a caller may call. Only the first call has an effect.
    pub(crate) fn set_access_check(
        &self,
        access_check: impl Fn(Caller, Option<String>) -> BoxFuture<'static, HashSet<AgentName>> + Send + Sync + 'static,
    ) {
        drop(self.access_check.set(Box::new(access_check)));
    }

    /// The agents that a caller may call directly, with this skill if one is named. No caller reaches an agent through
    /// another one that it could not call directly, unless the configuration allows it.
    pub(crate) async fn callable_by(&self, caller: &Caller, skill: Option<String>) -> Vec<PeerAgent> {
        let Some(doorkeeper) = self.access_check.get() else { return self.all() };
        let open = doorkeeper(caller.clone(), skill).await;
        self.all().into_iter().filter(|peer| open.contains(&peer.name)).collect()
    }

    /// All agents that are served.
    pub(crate) fn all(&self) -> Vec<PeerAgent> {
        self.source.get().map(|source| source()).unwrap_or_default()
    }

    /// The agent of a name.
    pub(crate) fn find(&self, name: &AgentName) -> Option<PeerAgent> {
        self.all().into_iter().find(|peer| peer.name == *name)
    }
}

impl PeerAgent {
    /// An agent as its public card describes it.
    pub(crate) fn new(name: &AgentName, card: &AgentCard, guarded: &HashSet<String>) -> Self {
        Self {
            name: name.clone(),
            title: card.name.clone(),
            description: card.description.clone(),
            skills: card.skills.clone(),
            guarded: guarded.contains(name.as_str()),
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
