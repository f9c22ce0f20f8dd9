//! Who would get a message, told by the same ranking that passes messages on.

use crate::agents::dispatch::{Candidates, Verdict};
use crate::agents::peers::{Peer, names};
use crate::config::Config;
use crate::config::agent::Kind;
pub use sabir_store::Fit;

/// What would happen to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Scores, best first.
    pub fits: Vec<Fit>,
    /// Who would get it; several where the caller would be asked, nobody where none fits.
    pub chosen: Vec<String>,
    /// Who would get it where none fits.
    pub fallback: Option<String>,
}

/// Ranks the agents of a configuration for a text. The terms are those of the agent `desk`, of the first of kind `dispatch`
/// where none is named, or the usual ones where there is none. What agents elsewhere say about themselves is not known here.
pub fn rank(config: &Config, desk: Option<&str>, skill: Option<&str>, text: &str) -> Result<Ranked, String> {
    let kind = |entry: &&crate::config::agent::AgentConfig| entry.kind == Kind::Dispatch;
    let entry = match desk {
        Some(name) => {
            let found = config.agent.iter().filter(kind).find(|entry| entry.name == name);
            Some(found.ok_or_else(|| format!("there is no agent {name:?} of kind \"dispatch\""))?)
        }
        None => config.agent.iter().find(kind),
    };
    let terms = entry.and_then(|entry| entry.dispatch.clone()).unwrap_or_default();
    terms.check()?;
    let own = entry.map_or("", |entry| &entry.name);
    let all = config.agent.iter().filter(|entry| entry.name != own).filter_map(Peer::configured).collect();
    let candidates = Candidates::new(all, None, &names("dispatch.agents", &terms.agents)?);
    let (fits, chosen) = match candidates.judge(skill, text, &terms).map_err(|failure| failure.0)? {
        Verdict::Sure { agent, fits } => (fits, vec![agent.to_string()]),
        Verdict::Unsure { agents, fits } => (fits, agents.iter().map(ToString::to_string).collect()),
        Verdict::Nobody { fits } => (fits, Vec::new()),
    };
    Ok(Ranked { fits, chosen, fallback: terms.fallback })
}
