//! `[push]` and `[egress]`: retries of webhooks, and the addresses that webhooks and other calls may reach.

use super::network::IpNetwork;
use sabir_gateway::{ATTEMPT_TIME_MAX, Egress};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// `[egress]`: the addresses that may be called.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// Addresses and networks that may be called besides public ones. No caller can make the server call others.
    pub allow: Vec<IpNetwork>,
}

impl EgressConfig {
    /// The policy for addresses that callers name.
    pub(crate) fn policy(&self) -> Egress {
        self.allow.iter().fold(Egress::public(), |policy, network| policy.and_network(network.net()))
    }
}

/// `[push]`: the delivery of push notifications.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PushConfig {
    /// Attempts before a delivery becomes a dead letter.
    pub attempts: u32,
    /// Hours after which a delivery becomes a dead letter in any case.
    pub deadline_hours: u64,
    /// Seconds that one attempt may take.
    pub timeout_seconds: u64,
    /// Deliveries that run at the same time.
    pub workers: usize,
    /// The secrets that sign deliveries: `file:PATH` or `env:NAME`, with one secret `whsec_…` on each line.
    pub webhook_secret: Option<String>,
}

impl Default for PushConfig {
    fn default() -> Self {
        let engine = sabir_engine::Limits::default();
        Self {
            attempts: engine.push_attempts_max,
            deadline_hours: engine.push_time_max.as_secs() / 3600,
            timeout_seconds: ATTEMPT_TIME_MAX.as_secs(),
            workers: engine.push_workers_max,
            webhook_secret: None,
        }
    }
}

impl PushConfig {
    /// Checks the values. An error names the one that is not legal.
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

    /// The limits of the engine, with these settings.
    pub(crate) fn limit(&self, limits: sabir_engine::Limits) -> sabir_engine::Limits {
        sabir_engine::Limits {
            push_workers_max: self.workers,
            // A host that hangs must not occupy all workers, also if there are few.
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
