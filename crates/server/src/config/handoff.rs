//! `[agent.handoff]`: tasks that are handed over to other agents, and tasks that are accepted from them.

use sabir_gateway::handoff::UnawareCallers;
use sabir_proto::transfer::{DEPTH_DEFAULT, DEPTH_MAX};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// The agents that an agent may hand tasks over to, and whether it accepts tasks. Without the section it does neither.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffConfig {
    /// Names of agents of this server, remote ones included.
    pub targets: Vec<String>,
    /// The capabilities that it may pass on to `targets` and to agents that it delegates to. `billing.*` covers the
    /// names below it that the card has. When absent, it may hand over all of its capabilities, and its delegations are
    /// not limited.
    pub scope: Option<Vec<String>>,
    /// Whether it accepts tasks, and holds them until their sender releases them.
    pub accept: bool,
    /// What happens to a task whose caller does not follow handoffs.
    pub unaware: UnawareConfig,
    /// How often a task may be handed over, on all servers together.
    pub depth_max: usize,
    /// Seconds for which the target is asked to accept a task.
    pub patience_seconds: u64,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            scope: None,
            accept: true,
            unaware: UnawareConfig::Relay,
            depth_max: DEPTH_DEFAULT,
            patience_seconds: 60,
        }
    }
}

impl HandoffConfig {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.depth_max == 0 || self.depth_max > DEPTH_MAX {
            return Err(format!("handoff.depth_max is between 1 and {DEPTH_MAX}"));
        }
        Ok(())
    }

    pub(crate) const fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
    }
}

/// The values of [`HandoffConfig::unaware`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnawareConfig {
    /// The task stays here, and shows the other agent's work.
    Relay,
    /// The caller is told which agent to call.
    Ask,
    /// The task fails with an error.
    Fail,
}

impl From<UnawareConfig> for UnawareCallers {
    fn from(config: UnawareConfig) -> Self {
        match config {
            UnawareConfig::Relay => Self::Relay,
            UnawareConfig::Ask => Self::Ask,
            UnawareConfig::Fail => Self::Fail,
        }
    }
}
