//! `[agent.dispatch]`: an agent that finds the right one.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[agent.dispatch]`
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DispatchConfig {
    /// Whom it may choose; all others that have no `[agent.auth]` of their own when empty.
    pub agents: Vec<String>,
    /// Who answers what nobody fits; without one the caller is asked.
    pub fallback: Option<String>,
    /// A score below this fits nobody.
    pub score_min: f64,
    /// The second best is as good as the best from this share of its score on, and the caller is asked.
    pub near: f64,
    /// Agents among which the caller chooses.
    pub choices_max: usize,
}

impl Default for DispatchConfig {
    fn default() -> Self {
        Self { agents: Vec::new(), fallback: None, score_min: 1.0, near: 0.8, choices_max: 5 }
    }
}

impl DispatchConfig {
    /// What cannot be meant.
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
