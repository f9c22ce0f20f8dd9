//! The health of an upstream, as far as it shows from outside.
//!
//! The card is fetched regularly. That says little about the agent behind it, but it shows early that nothing listens
//! there; the breaker knows the results of calls, and the worse of the two counts.

use crate::breaker::State;
use std::time::Duration;

/// Failed checks in a row after which a replica counts as down.
const DOWN_AFTER: u32 = 3;
/// A card that takes longer than this is a sign of trouble.
const SLOW: Duration = Duration::from_secs(2);

/// The health of an upstream in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// No problem is known.
    Healthy,
    /// It answers late, or not always.
    Degraded,
    /// It does not answer.
    Down,
}

impl Condition {
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
pub struct Checks {
    /// The number of checks that were made.
    pub made: u64,
    /// How many of the latest have failed in a row.
    pub failures: u32,
    /// How long the last check took.
    pub took: Duration,
    /// The problem of the last check, if there was one.
    pub problem: Option<String>,
}

impl Checks {
    /// Records the result of a check.
    pub fn note(&mut self, took: Duration, problem: Option<String>) {
        self.made += 1;
        self.took = took;
        self.failures = if problem.is_some() { self.failures.saturating_add(1) } else { 0 };
        self.problem = problem;
    }

    /// The health that follows from the checks and from the breaker.
    pub const fn condition(&self, breaker: State) -> Condition {
        match breaker {
            State::Open => return Condition::Down,
            State::HalfOpen => return Condition::Degraded,
            State::Closed => {}
        }
        match self.failures {
            0 if self.took.as_nanos() > SLOW.as_nanos() => Condition::Degraded,
            0 => Condition::Healthy,
            1..DOWN_AFTER => Condition::Degraded,
            DOWN_AFTER.. => Condition::Down,
        }
    }
}

/// The health of one replica of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The URL of the replica.
    pub url: String,
    /// The health in one word.
    pub condition: Condition,
    /// The results of its checks.
    pub checks: Checks,
    /// The state of its breaker.
    pub breaker: State,
    /// Calls in progress, to all replicas of the upstream.
    pub in_flight: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_checks_and_calls_counts() {
        let mut checks = Checks::default();
        assert_eq!(checks.condition(State::Closed), Condition::Healthy);
        checks.note(Duration::from_secs(3), None);
        assert_eq!(checks.condition(State::Closed), Condition::Degraded, "slow");
        for expected in [Condition::Degraded, Condition::Degraded, Condition::Down, Condition::Down] {
            checks.note(Duration::ZERO, Some("nobody there".into()));
            assert_eq!(checks.condition(State::Closed), expected);
        }
        checks.note(Duration::ZERO, None);
        assert_eq!(checks.condition(State::Closed), Condition::Healthy);
        assert_eq!(checks.condition(State::HalfOpen), Condition::Degraded);
        assert_eq!(checks.condition(State::Open), Condition::Down);
    }
}
