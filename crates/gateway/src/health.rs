//! How an upstream is doing, as far as anybody can tell from outside.
//!
//! Its card is fetched now and then. That says little about the agent behind it, but it says early when nobody is there;
//! what calls say is in the breaker, and the worse of the two counts.

use crate::breaker::State;
use std::time::Duration;

/// Checks in a row that must fail before somebody counts as down.
const DOWN_AFTER: u32 = 3;
/// A card that takes longer than this is a sign.
const SLOW: Duration = Duration::from_secs(2);

/// In one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// As far as anybody knows.
    Healthy,
    /// It answers late, or not always.
    Degraded,
    /// It does not answer.
    Down,
}

impl Condition {
    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// What checks have found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checks {
    /// How many.
    pub made: u64,
    /// How many of the latest have failed in a row.
    pub failures: u32,
    /// How long the last one took.
    pub took: Duration,
    /// What was wrong the last time, if something was.
    pub problem: Option<String>,
}

impl Checks {
    /// Notes a check.
    pub fn note(&mut self, took: Duration, problem: Option<String>) {
        self.made += 1;
        self.took = took;
        self.failures = if problem.is_some() { self.failures.saturating_add(1) } else { 0 };
        self.problem = problem;
    }

    /// What follows from them and from the breaker.
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

/// How one place of an upstream is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Where it is.
    pub url: String,
    /// In one word.
    pub condition: Condition,
    /// What checks have found.
    pub checks: Checks,
    /// Where its breaker stands.
    pub breaker: State,
    /// Calls under way, to all places of the upstream.
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
