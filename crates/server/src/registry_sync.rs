//! Keeps the directory in sync with the registry: the agents that commands have added at run time.
//!
//! The registry is a file that commands change. Its generation number shows a change; then the server reads all of it
//! again and applies the differences: agents are added, removed and changed, and an approved card is used. So a change
//! takes effect within a second, and a restart reaches the same agents by the same steps.
//!
//! An agent that cannot be made is logged and left out; the others are served.

use crate::agent_factory::AgentFactory;
use crate::config::registry::section;
use crate::directory::{AgentDirectory, Agents};
use crate::engine_access::EngineAccess;
use crate::start_error::StartError;
use sabir_proto::AgentName;
use sabir_store::{RegisteredAgent, StoreError, StoredCard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often the generation is read, which is in memory.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Keeps a directory in sync with the registry.
pub(crate) struct RegistrySync {
    factory: AgentFactory,
    directory: Arc<AgentDirectory>,
    /// The enabled agents of the registry.
    served: BTreeMap<String, RegisteredAgent>,
    /// The names of all agents of the registry, disabled ones included.
    registered: BTreeSet<String>,
    /// Agents that were added or removed, whose tasks are not recovered yet.
    changed: BTreeSet<String>,
    generation: u64,
}

impl RegistrySync {
    /// Fills the directory with the agents of the file and those of the registry.
    pub(crate) async fn open(workshop: AgentFactory, directory: Arc<AgentDirectory>) -> Result<Self, StartError> {
        let registry = workshop.registry();
        let generation = registry.generation()?;
        let mut used = by_name(registry.used_cards().await?);
        let (mut agents, mut default) = (Agents::new(), None);
        for entry in &workshop.config().agent {
            let wrong = |problem: String| StartError::Config(format!("agent {:?}: {problem}", entry.name));
            let served = workshop.make(entry, used.remove(&entry.name)).map_err(wrong)?;
            if agents.insert(entry.name.clone(), served.clone()).is_some() {
                return Err(wrong("there are two agents with this name".into()));
            }
            if entry.default && default.replace(served).is_some() {
                return Err(wrong("another agent is the default already".into()));
            }
        }
        let enlisted = registry.registered_agents().await?;
        for one in &enlisted {
            if let Some(entry) = workshop.config().agent.iter().find(|entry| entry.name == one.name.as_str()) {
                let there = entry.url.as_deref().map(|url| format!(" ({url})")).unwrap_or_default();
                return Err(StartError::Config(format!(
                    "there are two agents with the name {:?}: one in the configuration{there} and one that was added at \
                     run time ({}); rename the one in the file, or remove the other with sabir agent remove {}",
                    entry.name, one.url, one.name
                )));
            }
        }
        directory.replace(agents, BTreeSet::new());
        if let Some(default) = default {
            directory.set_default(default);
        }
        let mut registrar = Self {
            factory: workshop,
            directory,
            served: BTreeMap::new(),
            registered: BTreeSet::new(),
            changed: BTreeSet::new(),
            generation,
        };
        registrar.apply(enlisted, used);
        // The start of the server recovers all tasks.
        registrar.changed.clear();
        if registrar.directory.all().is_empty() {
            let problem = "no agent is configured; add an [[agent]] section, or sabir agent add URL";
            return Err(StartError::Config(problem.into()));
        }
        Ok(registrar)
    }

    pub(crate) const fn factory(&self) -> &AgentFactory {
        &self.factory
    }

    /// Follows the registry, and recovers the tasks of changed agents; never ends.
    pub(crate) async fn follow(mut self, route: Arc<EngineAccess>) {
        let mut is_blind = false;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let looked = self.refresh().await;
            match looked.and(self.recover_tasks(&route).await) {
                Ok(()) => is_blind = false,
                Err(error) if !is_blind => {
                    is_blind = true;
                    tracing::error!(%error, "the registry cannot be read; agents stay as they are");
                }
                Err(_) => {}
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), StoreError> {
        let registry = self.factory.registry().clone();
        let generation = registry.generation()?;
        if generation == self.generation {
            return Ok(());
        }
        let (enlisted, used) = (registry.registered_agents().await?, registry.used_cards().await?);
        self.generation = generation;
        self.apply(enlisted, by_name(used));
        Ok(())
    }

    /// Resumes the tasks that waited for agents which are back, and fails those of removed agents. Running turns go on
    /// with the agent that they began with.
    async fn recover_tasks(&mut self, route: &EngineAccess) -> Result<(), StoreError> {
        while let Some(name) = self.changed.first().cloned() {
            if let Ok(agent) = AgentName::parse(&name) {
                let (resumed, failed) = route.recover_of(&agent, self.directory.status(&agent)).await?;
                if resumed + failed > 0 {
                    tracing::info!(%agent, resumed, failed, "looked after the tasks of an agent of the registry");
                }
            }
            // Only after success: if the store cannot be read, the next round tries again.
            self.changed.remove(&name);
        }
        Ok(())
    }

    /// Serves these agents of the registry, with these cards, and no others.
    fn apply(&mut self, enlisted: Vec<RegisteredAgent>, mut used: BTreeMap<String, StoredCard>) {
        let mut agents = (*self.directory.all()).clone();
        let names: BTreeSet<String> = enlisted.iter().map(|one| one.name.to_string()).collect();
        self.changed.extend(self.registered.difference(&names).cloned());
        let wanted: BTreeMap<String, RegisteredAgent> =
            enlisted.into_iter().filter(|one| one.enabled).map(|one| (one.name.to_string(), one)).collect();
        let before = std::mem::take(&mut self.served);
        for (name, _) in before.iter().filter(|(name, one)| wanted.get(*name) != Some(one)) {
            agents.remove(name);
            tracing::info!(agent = %name, "an agent of the registry is no longer served");
        }
        for (name, one) in wanted.iter().filter(|(name, one)| before.get(*name) != Some(one)) {
            if agents.contains_key(name) {
                tracing::error!(agent = %name, "an agent of the registry has the name of one in the file; it is left out");
                continue;
            }
            let made = section(one).and_then(|entry| self.factory.make(&entry, used.remove(name)));
            match made {
                Ok(served) => {
                    agents.insert(name.clone(), served);
                    self.changed.insert(name.clone());
                    tracing::info!(agent = %name, url = %one.url, "an agent of the registry is served");
                }
                Err(problem) => tracing::error!(agent = %name, %problem, "an agent of the registry cannot be served"),
            }
        }
        self.served = wanted;
        let away = names.iter().filter(|name| !agents.contains_key(*name)).cloned().collect();
        self.registered = names;
        self.directory.replace(agents, away);
        let agents = self.directory.all();
        for (name, card) in used {
            if let Some(served) = agents.get(&name)
                && let Some(elsewhere) = &served.remote_card
                && elsewhere.adopt(card)
            {
                elsewhere.update(&served.cards);
            }
        }
    }
}

fn by_name(cards: Vec<StoredCard>) -> BTreeMap<String, StoredCard> {
    cards.into_iter().map(|card| (card.observation.agent.to_string(), card)).collect()
}
