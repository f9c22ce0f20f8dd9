//! `[agent.handoff]`: tasks that leave for other agents, and tasks that come from them.

use sabir_gateway::handoff::Unaware;
use sabir_proto::transfer::{DEPTH_DEFAULT, DEPTH_MAX};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// To whom an agent may hand its tasks, and whether it takes those of others. Without the section it does neither.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HandoffConfig {
    /// Names of agents of this server, here or elsewhere.
    pub targets: Vec<String>,
    /// What it may pass on, by the names of capabilities: to `targets`, and to agents that it delegates to. `billing.*`
    /// stands for the names below it that its card has. When absent, it may hand over everything it can do, and its
    /// delegations are not limited.
    pub scope: Option<Vec<String>>,
    /// It takes tasks of others, and holds them until they let go.
    pub accept: bool,
    /// What becomes of a task whose caller does not follow handoffs.
    pub unaware: UnawareConfig,
    /// How often a task may be handed on, here and elsewhere.
    pub depth_max: usize,
    /// Seconds for which the other side is asked to take a task.
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

/// See [`HandoffConfig::unaware`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnawareConfig {
    /// It stays here, and the other agent's work is shown in it.
    Relay,
    /// The caller is told whom to turn to.
    Ask,
    /// It fails.
    Fail,
}

impl From<UnawareConfig> for Unaware {
    fn from(config: UnawareConfig) -> Self {
        match config {
            UnawareConfig::Relay => Self::Relay,
            UnawareConfig::Ask => Self::Ask,
            UnawareConfig::Fail => Self::Fail,
        }
    }
}
