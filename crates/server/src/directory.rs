//! The agents that are served: who is here, now.
//!
//! Agents come and go while the server runs, so whoever looks one up gets a share of it and keeps it for as long as it is
//! of use: a call that has begun ends with the agent it began with. A lookup takes a lock that is free but for the moment
//! in which an agent comes or goes, and one step in a map.
//!
//! | Room | What is there |
//! |---|---|
//! | here | looking up, coming and going |
//! | `registrar` | agents of the registry: who is added, removed, changed by somebody else |
//! | `workshop` | making an agent as it is served, from its configuration |
//!
//! The default agent is one of the file and stays as long as the server does.

mod registrar;
mod workshop;

pub(crate) use registrar::Registrar;
pub(crate) use workshop::{Served, Workshop};

use crate::handed;
use sabir_engine::{Presence, Resident, Residents};
use sabir_proto::{AgentName, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

/// All agents, by name, as of one moment.
pub(crate) type Agents = BTreeMap<String, Arc<Served>>;

/// Who is here.
pub(crate) struct Directory {
    agents: RwLock<Arc<Agents>>,
    /// Agents of the registry that are not served now: disabled, or they cannot be made.
    away: RwLock<BTreeSet<String>>,
    default: Option<Arc<Served>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

impl Directory {
    pub(crate) fn new(agents: Agents, default: Option<Arc<Served>>) -> Self {
        Self { agents: RwLock::new(Arc::new(agents)), away: RwLock::default(), default }
    }

    /// Has other agents served from now on, and knows who may come back.
    fn replace(&self, agents: Agents, away: BTreeSet<String>) {
        *self.away.write().unwrap_or_else(PoisonError::into_inner) = away;
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
    }

    /// The agent of a name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Served>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// What is known of the agent of a task.
    pub(crate) fn presence(&self, name: &AgentName) -> Presence {
        match self.find(name) {
            Some(resident) => Presence::Here(resident),
            None if self.away.read().unwrap_or_else(PoisonError::into_inner).contains(name.as_str()) => Presence::Away,
            None => Presence::Gone,
        }
    }

    /// The agent at the root.
    pub(crate) const fn default_agent(&self) -> Option<&Arc<Served>> {
        self.default.as_ref()
    }

    /// Everybody, as of now.
    pub(crate) fn all(&self) -> Arc<Agents> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whom tasks are passed on to: everybody who is here.
impl Residents for Directory {
    fn find(&self, name: &AgentName) -> Option<Arc<Resident>> {
        self.get(name.as_str()).map(|served| served.resident.clone())
    }

    fn scope_of(&self, agent: &AgentName) -> Option<Vec<String>> {
        self.get(agent.as_str())?.grants.clone()
    }

    fn narrow(&self, to: &AgentName, granted: Vec<String>, skill: Option<&str>) -> Result<Vec<String>, Fault> {
        match self.get(to.as_str()) {
            Some(served) => handed::narrow(&served, granted, skill),
            // That it is not here is said by whoever looks for it.
            None => Ok(granted),
        }
    }
}
