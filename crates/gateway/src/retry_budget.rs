//! Limits retries to a share of all calls.
//!
//! When an upstream fails, every call is retried, and the retries overload it. So each first call adds a fraction of a
//! token and each retry takes a whole one. A little is added with time as well, or waiting tasks would never be retried
//! when no new calls are made.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The tokens that a first call adds.
const TOKENS_PER_CALL: f64 = 0.2;
/// The tokens that are added each second.
const TOKENS_PER_SECOND: f64 = 1.0;
/// The most tokens a budget holds, and the number it starts with.
const TOKENS_MAX: f64 = 10.0;

/// The retries that an upstream has left.
#[derive(Debug)]
pub struct RetryBudget(Mutex<(f64, Instant)>);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new((TOKENS_MAX, Instant::now())))
    }
}

impl RetryBudget {
    /// Records a call that is no retry.
    pub fn record_call(&self) {
        self.change(|tokens| ((tokens + TOKENS_PER_CALL).min(TOKENS_MAX), ()));
    }

    /// Takes a token for a retry; without one, the error says after how long to ask again.
    pub fn try_take_retry(&self) -> Result<(), Duration> {
        self.change(|tokens| match tokens {
            1.0.. => (tokens - 1.0, Ok(())),
            _ => (tokens, Err(Duration::from_secs(1))),
        })
    }

    fn change<T>(&self, change: impl FnOnce(f64) -> (f64, T)) -> T {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let come_in = now.duration_since(held.1).as_secs_f64() * TOKENS_PER_SECOND;
        let (tokens, answer) = change((held.0 + come_in).min(TOKENS_MAX));
        *held = (tokens, now);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_a_share_of_the_calls() {
        let budget = RetryBudget::default();
        let spend = |budget: &RetryBudget| (0..1000).filter(|_| budget.try_take_retry().is_ok()).count();
        // Few tokens are added while this runs.
        let spent = spend(&budget);
        assert!((10..15).contains(&spent), "{spent}");
        (0..25).for_each(|_| budget.record_call());
        let spent = spend(&budget);
        assert!((5..10).contains(&spent), "{spent}");
        (0..1000).for_each(|_| budget.record_call());
        let spent = spend(&budget);
        assert!((10..15).contains(&spent), "no more than the reserve: {spent}");
    }
}
