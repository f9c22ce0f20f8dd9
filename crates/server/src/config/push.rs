//! `[push]` and `[egress]`: how hard webhooks are tried, and where they and other calls may go.

use super::network::Network;
use sabir_gateway::{ATTEMPT_TIME, Egress};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// `[egress]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// Addresses and networks that may be called besides public ones. Nothing else is called for a caller.
    pub allow: Vec<Network>,
}

impl EgressConfig {
    /// The policy for addresses that callers name.
    pub(crate) fn policy(&self) -> Egress {
        self.allow.iter().fold(Egress::public(), |policy, network| policy.and(network.net()))
    }
}

/// `[push]`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PushConfig {
    /// How often a delivery is tried before it is a dead letter.
    pub attempts: u32,
    /// Hours after which it is one in any case.
    pub deadline_hours: u64,
    /// Seconds that one attempt may take.
    pub timeout_seconds: u64,
    /// Deliveries at the same time.
    pub workers: usize,
    /// Where the secrets are with which deliveries are signed: `file:PATH` or `env:NAME`, each secret `whsec_…` on a line.
    pub webhook_secret: Option<String>,
}

impl Default for PushConfig {
    fn default() -> Self {
        let engine = sabir_engine::Limits::default();
        Self {
            attempts: engine.push_attempts_max,
            deadline_hours: engine.push_time_max.as_secs() / 3600,
            timeout_seconds: ATTEMPT_TIME.as_secs(),
            workers: engine.push_workers_max,
            webhook_secret: None,
        }
    }
}

impl PushConfig {
    /// What cannot be meant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let bounds = [
            ("attempts", u64::from(self.attempts), 1..=1000),
            ("deadline_hours", self.deadline_hours, 1..=24 * 365),
            ("timeout_seconds", self.timeout_seconds, 1..=300),
            ("workers", self.workers as u64, 1..=10_000),
        ];
        match bounds.into_iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, range)) => {
                Err(format!("push.{name} = {value} is not between {} and {}", range.start(), range.end()))
            }
        }
    }

    /// The engine's share.
    pub(crate) fn limit(&self, limits: sabir_engine::Limits) -> sabir_engine::Limits {
        sabir_engine::Limits {
            push_workers_max: self.workers,
            // A host that hangs leaves room for others, also where there are few workers.
            push_host_workers_max: limits.push_host_workers_max.min(self.workers.div_ceil(2)),
            push_attempts_max: self.attempts,
            push_time_max: Duration::from_secs(self.deadline_hours * 3600),
            ..limits
        }
    }

    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}
