//! The agents that this server serves at the moment.
//!
//! Agents are added and removed while the server runs, so a lookup returns a shared reference, and a call ends with the
//! agent that it began with. A lookup takes a lock that is free except while an agent is added or removed, and one step
//! in a map.
//!
//! | Module | What is there |
//! |---|---|
//! | here | the lookup, and the replacement of all agents |
//! | `registry_sync` | agents added at run time: which ones commands have added, removed or changed |
//! | `agent_factory` | makes a served agent from its configuration |
//!
//! The default agent is one of the file, and stays for as long as the server runs.

mod agent_factory;
mod registry_sync;

pub(crate) use agent_factory::{AgentFactory, ServedAgent};
pub(crate) use registry_sync::RegistrySync;

use crate::handoff_check;
use sabir_engine::{AgentDirectory, AgentStatus, HostedAgent};
use sabir_proto::{AgentName, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

/// All served agents, by name, at one moment.
pub(crate) type Agents = BTreeMap<String, Arc<ServedAgent>>;

/// The agents that are served now.
pub(crate) struct Directory {
    agents: RwLock<Arc<Agents>>,
    /// Agents added at run time that are not served now: they are disabled or cannot be made.
    unavailable: RwLock<BTreeSet<String>>,
    default: Option<Arc<ServedAgent>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

impl Directory {
    pub(crate) fn new(agents: Agents, default: Option<Arc<ServedAgent>>) -> Self {
        Self { agents: RwLock::new(Arc::new(agents)), unavailable: RwLock::default(), default }
    }

    /// Replaces all agents. `away` are those that may be served again later.
    fn replace(&self, agents: Agents, away: BTreeSet<String>) {
        *self.unavailable.write().unwrap_or_else(PoisonError::into_inner) = away;
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
    }

    /// The agent with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<ServedAgent>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The status of the agent of a task.
    pub(crate) fn status(&self, name: &AgentName) -> AgentStatus {
        match self.find(name) {
            Some(resident) => AgentStatus::Serving(resident),
            None if self.unavailable.read().unwrap_or_else(PoisonError::into_inner).contains(name.as_str()) => {
                AgentStatus::Unavailable
            }
            None => AgentStatus::Removed,
        }
    }

    /// The agent at the root.
    pub(crate) const fn default_agent(&self) -> Option<&Arc<ServedAgent>> {
        self.default.as_ref()
    }

    /// All agents, at this moment.
    pub(crate) fn all(&self) -> Arc<Agents> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The engine passes tasks on to all agents of the directory.
impl AgentDirectory for Directory {
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
