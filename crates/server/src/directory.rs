//! The agents that this server serves at the moment.
//!
//! [`AgentDirectory`] is the one answer to the question which agents are here. It exists before its agents do, because
//! agents that work with others look them up in it: to pass a message on, to hand a task over, to follow one. They hold
//! it weakly, because it holds them.
//!
//! Agents are added and removed while the server runs, so a lookup returns a shared reference, and a call ends with the
//! agent that it began with. A lookup takes a lock that is free except while an agent is added or removed, and one step
//! in a map.
//!
//! | Module | What is there |
//! |---|---|
//! | here | the lookup, and the replacement of all agents |
//! | `served_agent` | an agent with its card and its rules |
//! | `peers` | what an agent needs to know about another one |
//! | `remote_agents` | the remote agents, and which of them a caller may reach |
//!
//! `agent_factory` makes the agents, and `registry_sync` adds and removes those of the registry. The default agent is
//! one of the file, and stays for as long as the server runs.

pub(crate) mod peers;
mod remote_agents;
mod served_agent;

pub(crate) use served_agent::ServedAgent;

use crate::handoff_check;
use crate::tokio_host::TokioHost;
use peers::PeerAgent;
use sabir_engine::{AgentStatus, Host as _, HostedAgent};
use sabir_guard::Guard;
use sabir_proto::{AgentName, Caller, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// All served agents, by name, at one moment.
pub(crate) type Agents = BTreeMap<String, Arc<ServedAgent>>;

/// The agents that are served now.
pub(crate) struct AgentDirectory {
    agents: RwLock<Arc<Agents>>,
    /// Agents added at run time that are not served now: they are disabled or cannot be made.
    unavailable: RwLock<BTreeSet<String>>,
    default: OnceLock<Arc<ServedAgent>>,
    /// Decides which agents a caller may call.
    guard: Guard,
}

impl std::fmt::Debug for AgentDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

impl AgentDirectory {
    /// A directory without agents.
    pub(crate) fn new(guard: Guard) -> Self {
        Self { agents: RwLock::default(), unavailable: RwLock::default(), default: OnceLock::new(), guard }
    }

    /// Sets the agent at the root. Only the first call has an effect.
    pub(crate) fn set_default(&self, default: Arc<ServedAgent>) {
        // The configuration has one default agent, so there is one call.
        drop(self.default.set(default));
    }

    /// Replaces all agents. `away` are those that may be served again later.
    pub(crate) fn replace(&self, agents: Agents, away: BTreeSet<String>) {
        *self.unavailable.write().unwrap_or_else(PoisonError::into_inner) = away;
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
    }

    /// The agent with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<ServedAgent>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The status of the agent of a task.
    pub(crate) fn status(&self, name: &AgentName) -> AgentStatus {
        match self.get(name.as_str()) {
            Some(served) => AgentStatus::Serving(served.hosted.clone()),
            None if self.unavailable.read().unwrap_or_else(PoisonError::into_inner).contains(name.as_str()) => {
                AgentStatus::Unavailable
            }
            None => AgentStatus::Removed,
        }
    }

    /// The agent at the root.
    pub(crate) fn default_agent(&self) -> Option<&Arc<ServedAgent>> {
        self.default.get()
    }

    /// All agents, at this moment.
    pub(crate) fn all(&self) -> Arc<Agents> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All agents, as other agents see them.
    pub(crate) fn peers(&self) -> Vec<PeerAgent> {
        self.all().values().map(|served| PeerAgent::new(served)).collect()
    }

    /// The agent of a name, as other agents see it.
    pub(crate) fn peer(&self, name: &AgentName) -> Option<PeerAgent> {
        self.get(name.as_str()).map(|served| PeerAgent::new(&served))
    }

    /// The agents that a caller may call directly, with this skill if one is named, as far as the guard can decide from
    /// the caller's name. No caller reaches an agent through another one that it could not call directly, unless the
    /// configuration allows it.
    pub(crate) async fn callable_by(&self, caller: &Caller, skill: Option<&str>) -> Vec<PeerAgent> {
        let recalled = match self.guard.recall(caller).await {
            Ok(recalled) => recalled,
            Err(problem) => {
                tracing::warn!(caller = caller.name(), %problem, "no agent can be found for a caller that the guard does not know");
                return Vec::new();
            }
        };
        let mut callable = Vec::new();
        for served in self.all().values() {
            if Guard::would_be_served(&served.rules, &recalled, skill, TokioHost.now()).await {
                callable.push(PeerAgent::new(served));
            }
        }
        callable
    }
}

/// The engine passes tasks on to all agents of the directory.
impl sabir_engine::AgentDirectory for AgentDirectory {
    fn find(&self, name: &AgentName) -> Option<Arc<HostedAgent>> {
        self.get(name.as_str()).map(|served| served.hosted.clone())
    }

    fn delegation_scope(&self, agent: &AgentName) -> Option<Vec<String>> {
        self.get(agent.as_str())?.grants.clone()
    }

    fn narrow_scope(&self, to: &AgentName, granted: Vec<String>, skill: Option<&str>) -> Result<Vec<String>, Fault> {
        match self.get(to.as_str()) {
            Some(served) => handoff_check::narrow_grants(&served, granted, skill),
            // The caller of this method reports a missing agent.
            None => Ok(granted),
        }
    }
}
