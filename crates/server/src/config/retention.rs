//! `[retention]`: how long settled tasks are kept.

use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// `[retention]`: the default of all agents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Days that a task is kept after its last status; 0 for ever.
    pub days: u32,
    /// Settled tasks of an agent that are kept, the latest ones; 0 for all.
    pub tasks: u64,
    /// Seconds that a settled task is kept in any case, because its caller may still be reading it.
    pub grace_seconds: u64,
    /// Seconds between two runs of the deletion.
    pub every_seconds: u64,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { days: 0, tasks: 0, grace_seconds: 600, every_seconds: 60 }
    }
}

/// `[agent.retention]`: values of one agent, in place of those of `[retention]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentRetention {
    /// Days that a task is kept after its last status; 0 for ever.
    pub days: Option<u32>,
    /// Settled tasks that are kept, the latest ones; 0 for all.
    pub tasks: Option<u64>,
}

/// The retention of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetentionRule {
    /// Tasks older than this are deleted.
    pub(crate) age: Option<Duration>,
    /// Only this many tasks are kept.
    pub(crate) tasks: Option<u64>,
}

impl RetentionConfig {
    /// The rule for one agent.
    pub(crate) fn rule(&self, own: &AgentRetention) -> RetentionRule {
        let (days, tasks) = (own.days.unwrap_or(self.days), own.tasks.unwrap_or(self.tasks));
        let age = (days > 0).then(|| Duration::from_secs(u64::from(days) * 24 * 60 * 60));
        RetentionRule { age, tasks: (tasks > 0).then_some(tasks) }
    }
}

impl RetentionRule {
    /// Whether no task is ever deleted.
    pub(crate) const fn keeps_all(self) -> bool {
        self.age.is_none() && self.tasks.is_none()
    }
}
