//! `[agent.dispatch]`: an agent that passes each message on to the one that fits best.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[agent.dispatch]`: how the agent chooses.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DispatchConfig {
    /// The agents it may choose; when empty, all others that have no `[agent.auth]` of their own.
    pub agents: Vec<String>,
    /// The agent for messages that no agent fits; without one the caller is asked.
    pub fallback: Option<String>,
    /// The lowest score at which an agent fits.
    pub score_min: f64,
    /// If the second best has at least this share of the best score, the caller is asked.
    pub near: f64,
    /// Maximum number of agents that the caller may choose from.
    pub choices_max: usize,
}

impl Default for DispatchConfig {
    fn default() -> Self {
        Self { agents: Vec::new(), fallback: None, score_min: 1.0, near: 0.8, choices_max: 5 }
    }
}

impl DispatchConfig {
    /// Checks the values. An error names the one that is not legal.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(0.0..=1000.0).contains(&self.score_min) {
            return Err(format!("dispatch.score_min = {} is not between 0 and 1000", self.score_min));
        }
        if !(self.near > 0.0 && self.near <= 1.0) {
            return Err(format!("dispatch.near = {} is not above 0 and at most 1", self.near));
        }
        super::http::check([("dispatch.choices_max", self.choices_max as u64, 2..=20)])
    }
}
