//! Retention: deletes tasks that settled long ago, or that exceed the number to keep.
//!
//! A job checks every agent at intervals. It deletes in small batches with pauses between them, and the store handles
//! each batch when it is idle. So a send never waits for it, and a stop waits only for one batch. The next run finds
//! the rest.

use crate::config::Config;
use crate::config::retention::{AgentRetention, Rule};
use crate::host::TokioHost;
use crate::metrics::Metrics;
use sabir_engine::Host as _;
use sabir_proto::{AgentName, Stamp, Timestamp};
use sabir_store::{Retention, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a long run logs its progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The job that deletes old tasks.
pub(crate) struct Keeper {
    store: Arc<dyn Retention>,
    usual: Rule,
    own: HashMap<String, Rule>,
    grace: Duration,
    every: Duration,
    metrics: Metrics,
}

impl Keeper {
    /// `None` if no task is ever deleted.
    pub(crate) fn new(config: &Config, store: Arc<dyn Retention>, metrics: &Metrics) -> Option<Self> {
        let retention = &config.retention;
        let rule = |entry: &crate::config::agent::AgentConfig| (entry.name.clone(), retention.rule(&entry.retention));
        let own: HashMap<String, Rule> = config.agent.iter().map(rule).collect();
        let usual = retention.rule(&AgentRetention::default());
        if usual.keeps_all() && own.values().all(|rule| rule.keeps_all()) {
            return None;
        }
        let (grace, every) = (Duration::from_secs(retention.grace_seconds), retention.every_seconds.max(1));
        Some(Self { store, usual, own, grace, every: Duration::from_secs(every), metrics: metrics.clone() })
    }

    /// Runs at intervals; never ends.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "old tasks cannot be forgotten; trying again later");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        for agent in self.store.agents().await? {
            // The default rule applies to agents that are no longer configured.
            let rule = self.own.get(agent.as_str()).copied().unwrap_or(self.usual);
            if let Some(below) = self.limit(&agent, rule).await? {
                self.forget(&agent, below).await?;
            }
        }
        Ok(())
    }

    /// The stamp below which the tasks of an agent are deleted.
    async fn limit(&self, agent: &AgentName, rule: Rule) -> Result<Option<Stamp>, StoreError> {
        let too_old = rule.age.map(before);
        let too_many = match rule.tasks {
            Some(kept) => {
                let surplus = self.store.settled(agent).await?.saturating_sub(kept);
                let last = if surplus > 0 { self.store.oldest(agent, surplus).await? } else { None };
                last.map(|last| Stamp::from_u64(last.get() + 1))
            }
            None => None,
        };
        Ok(too_old.max(too_many).map(|below| below.min(before(self.grace))))
    }

    async fn forget(&self, agent: &AgentName, below: Stamp) -> Result<(), StoreError> {
        let (mut from, mut tasks) = (None, 0);
        let mut told = Instant::now();
        loop {
            let forgotten = self.store.forget(agent, below, from).await?;
            tasks += forgotten.tasks;
            self.metrics.forgotten(forgotten.tasks);
            from = forgotten.next;
            if from.is_none() {
                break;
            }
            if told.elapsed() > TELL_EVERY {
                told = Instant::now();
                tracing::info!(%agent, tasks, "forgetting old tasks …");
            }
            tokio::time::sleep(PAUSE).await;
        }
        if tasks > 0 {
            let left = self.store.settled(agent).await?;
            tracing::info!(%agent, tasks, left, "forgot old tasks");
        }
        Ok(())
    }
}

/// The first stamp of the time that was this long ago.
pub(crate) fn before(age: Duration) -> Stamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Stamp::first_of(Timestamp::from_millis(TokioHost.now().millis().saturating_sub(age)))
}
