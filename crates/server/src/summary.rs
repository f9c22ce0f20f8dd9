//! A summary of a started server, for the operator who started it.

use crate::app::App;
use crate::config::{Config, Durability};
use crate::server::Server;
use sabir_guard::config::AcceptedCredential;
use std::path::{Path, PathBuf};

/// The URL, agents and settings of a started server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The URL at which it listens.
    pub url: String,
    /// Whether only programs on this machine can reach it.
    pub is_local: bool,
    /// The agents by name, the default agent first.
    pub agents: Vec<AgentSummary>,
    /// The file of the store; `None` for a store in memory.
    pub store: Option<PathBuf>,
    /// Whether a reply waits until the disk has its events.
    pub is_synced: bool,
    /// The credentials that the agents accept; empty if they demand none.
    pub accepted: Vec<&'static str>,
    /// The configured agents that demand no credential.
    pub open_agents: Vec<String>,
    /// Whether it is in production, where every call to an agent without authentication is refused.
    pub is_production: bool,
    /// Notes on where settings come from, and which values are not used.
    pub notes: Vec<String>,
    /// Warnings about settings that are probably wrong.
    pub warnings: Vec<String>,
}

/// One agent of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// The name of the agent.
    pub name: String,
    /// Its path on the server.
    pub path: String,
    /// The description in its card.
    pub description: String,
    /// The versions of A2A and the bindings in which it can be called, such as `1.0 JSONRPC`.
    pub interfaces: Vec<String>,
}

impl Server {
    /// Summarises this server.
    pub fn summary(&self, config: &Config) -> Summary {
        let entries =
            || std::iter::once(&config.auth).chain(config.agent.iter().filter_map(|agent| agent.auth.as_ref()));
        let mut accepted: Vec<&str> =
            entries().flat_map(|auth| auth.accepted()).map(AcceptedCredential::name).collect();
        accepted.sort_unstable();
        accepted.dedup();
        Summary {
            url: self.url(),
            is_local: config.reachable_by().is_none(),
            agents: agents(self.app()),
            store: config.store_url().ok().and_then(|url| url.file().map(Path::to_owned)),
            is_synced: config.store.durability == Durability::Full,
            accepted,
            open_agents: config.open_agents().map(str::to_owned).collect(),
            is_production: config.is_production(),
            notes: config.sources.notes(),
            warnings: config.warnings(),
        }
    }
}

fn agents(app: &App) -> Vec<AgentSummary> {
    let default = app.default_agent().map(|served| served.hosted.name.clone());
    let mut agents: Vec<AgentSummary> = Vec::new();
    for served in app.directory.all().values() {
        let (name, card) = (served.hosted.name.to_string(), served.cards.public());
        let is_default = default.as_ref() == Some(&served.hosted.name);
        let path = if is_default { "/".to_owned() } else { format!("/agents/{name}") };
        let mut interfaces: Vec<String> = Vec::new();
        for interface in &card.supported_interfaces {
            let text = format!("{} {}", interface.protocol_version, interface.protocol_binding);
            if !interfaces.contains(&text) {
                interfaces.push(text);
            }
        }
        let agent = AgentSummary { name, path, description: card.description.clone(), interfaces };
        let at = if is_default { 0 } else { agents.len() };
        agents.insert(at, agent);
    }
    agents
}
