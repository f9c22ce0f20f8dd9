//! The health of an upstream, as far as it shows from outside.
//!
//! The card is fetched regularly. That says little about the agent behind it, but it shows early that nothing listens
//! there; the breaker knows the results of calls, and the worse of the two counts.

use crate::breaker::BreakerState;
use std::time::Duration;

/// Failed checks in a row after which a replica counts as down.
const DOWN_AFTER: u32 = 3;
/// A card that takes longer than this is a sign of trouble.
const SLOW: Duration = Duration::from_secs(2);

/// The health of an upstream in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthStatus {
    /// No problem is known.
    Healthy,
    /// It answers late, or not always.
    Degraded,
    /// It does not answer.
    Down,
}

impl HealthStatus {
    /// The word, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// The results of health checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthChecks {
    /// The number of checks that were made.
    pub checks_made: u64,
    /// How many of the latest have failed in a row.
    pub failures: u32,
    /// How long the last check took.
    pub last_duration: Duration,
    /// The problem of the last check, if there was one.
    pub last_problem: Option<String>,
}

impl HealthChecks {
    /// Records the result of a check.
    pub fn record(&mut self, took: Duration, problem: Option<String>) {
        self.checks_made += 1;
        self.last_duration = took;
        self.failures = if problem.is_some() { self.failures.saturating_add(1) } else { 0 };
        self.last_problem = problem;
    }

    /// The health that follows from the checks and from the breaker.
    pub const fn status(&self, breaker: BreakerState) -> HealthStatus {
        match breaker {
            BreakerState::Open => return HealthStatus::Down,
            BreakerState::HalfOpen => return HealthStatus::Degraded,
            BreakerState::Closed => {}
        }
        match self.failures {
            0 if self.last_duration.as_nanos() > SLOW.as_nanos() => HealthStatus::Degraded,
            0 => HealthStatus::Healthy,
            1..DOWN_AFTER => HealthStatus::Degraded,
            DOWN_AFTER.. => HealthStatus::Down,
        }
    }
}

/// The health of one replica of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaHealth {
    /// The URL of the replica.
    pub url: String,
    /// The health in one word.
    pub status: HealthStatus,
    /// The results of its checks.
    pub checks: HealthChecks,
    /// The state of its breaker.
    pub breaker: BreakerState,
    /// Calls in progress, to all replicas of the upstream.
    pub calls_in_progress: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_checks_and_calls_counts() {
        let mut checks = HealthChecks::default();
        assert_eq!(checks.status(BreakerState::Closed), HealthStatus::Healthy);
        checks.record(Duration::from_secs(3), None);
        assert_eq!(checks.status(BreakerState::Closed), HealthStatus::Degraded, "slow");
        for expected in [HealthStatus::Degraded, HealthStatus::Degraded, HealthStatus::Down, HealthStatus::Down] {
            checks.record(Duration::ZERO, Some("nobody there".into()));
            assert_eq!(checks.status(BreakerState::Closed), expected);
        }
        checks.record(Duration::ZERO, None);
        assert_eq!(checks.status(BreakerState::Closed), HealthStatus::Healthy);
        assert_eq!(checks.status(BreakerState::HalfOpen), HealthStatus::Degraded);
        assert_eq!(checks.status(BreakerState::Open), HealthStatus::Down);
    }
}
