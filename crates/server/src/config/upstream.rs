//! What an `[[agent]]` of `kind = "a2a"` may say about the agent it stands for.

use sabir_gateway::Rules;
use serde::Deserialize;
use std::time::Duration;

/// `[agent.breaker]`: when an agent elsewhere is left alone, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// Failures within the window after which nobody is called.
    pub failures: u32,
    /// Seconds that a failure counts.
    pub window_seconds: u64,
    /// Seconds until one call is let through, to see.
    pub cooldown_seconds: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let Rules { failures, window, cooldown, .. } = Rules::UPSTREAM;
        Self { failures, window_seconds: window.as_secs(), cooldown_seconds: cooldown.as_secs() }
    }
}

impl BreakerConfig {
    /// The same, as the gateway has it.
    pub(crate) fn rules(self) -> Result<Rules, String> {
        if self.failures == 0 || self.window_seconds == 0 {
            return Err("breaker: failures and window_seconds are at least 1".into());
        }
        let (window, cooldown) = (Duration::from_secs(self.window_seconds), Duration::from_secs(self.cooldown_seconds));
        Ok(Rules { failures: self.failures, window, cooldown, ..Rules::UPSTREAM })
    }
}
