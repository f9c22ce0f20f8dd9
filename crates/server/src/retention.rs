//! Retention: deletes tasks that settled long ago, or that exceed the number to keep.
//!
//! A job checks every agent at intervals. It deletes in small batches with pauses between them, and the store handles
//! each batch when it is idle. So a send never waits for it, and a stop waits only for one batch. The next run finds
//! the rest.

use crate::config::Config;
use crate::config::retention::{AgentRetention, RetentionRule};
use crate::metrics::Metrics;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_proto::{AgentName, Stamp, Timestamp};
use sabir_store::{Retention, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a long run logs its progress.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The job that deletes old tasks.
pub(crate) struct RetentionJob {
    store: Arc<dyn Retention>,
    default_rule: RetentionRule,
    agent_rules: HashMap<String, RetentionRule>,
    grace: Duration,
    every: Duration,
    metrics: Metrics,
}

impl RetentionJob {
    /// `None` if no task is ever deleted.
    pub(crate) fn new(config: &Config, store: Arc<dyn Retention>, metrics: &Metrics) -> Option<Self> {
        let retention = &config.retention;
        let rule = |entry: &crate::config::agent::AgentConfig| (entry.name.clone(), retention.rule(&entry.retention));
        let own: HashMap<String, RetentionRule> = config.agent.iter().map(rule).collect();
        let usual = retention.rule(&AgentRetention::default());
        if usual.keeps_all() && own.values().all(|rule| rule.keeps_all()) {
            return None;
        }
        let (grace, every) = (Duration::from_secs(retention.grace_seconds), retention.every_seconds.max(1));
        Some(Self {
            store,
            default_rule: usual,
            agent_rules: own,
            grace,
            every: Duration::from_secs(every),
            metrics: metrics.clone(),
        })
    }

    /// Runs at intervals; never ends.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.run_once().await {
                tracing::warn!(%error, "old tasks cannot be forgotten; trying again later");
            }
            tokio::time::sleep(self.every).await;
        }
    }

    async fn run_once(&self) -> Result<(), StoreError> {
        for agent in self.store.agents().await? {
            // The default rule applies to agents that are no longer configured.
            let rule = self.agent_rules.get(agent.as_str()).copied().unwrap_or(self.default_rule);
            if let Some(below) = self.limit(&agent, rule).await? {
                self.forget(&agent, below).await?;
            }
        }
        Ok(())
    }

    /// The stamp below which the tasks of an agent are deleted.
    async fn limit(&self, agent: &AgentName, rule: RetentionRule) -> Result<Option<Stamp>, StoreError> {
        let too_old = rule.age.map(before);
        let too_many = match rule.tasks {
            Some(kept) => {
                let surplus = self.store.settled_count(agent).await?.saturating_sub(kept);
                let last = if surplus > 0 { self.store.oldest_settled(agent, surplus).await? } else { None };
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
            let forgotten = self.store.prune(agent, below, from).await?;
            tasks += forgotten.tasks;
            self.metrics.forgotten(forgotten.tasks);
            from = forgotten.next;
            if from.is_none() {
                break;
            }
            if told.elapsed() > LOG_INTERVAL {
                told = Instant::now();
                tracing::info!(%agent, tasks, "forgetting old tasks …");
            }
            tokio::time::sleep(PAUSE).await;
        }
        if tasks > 0 {
            let left = self.store.settled_count(agent).await?;
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
