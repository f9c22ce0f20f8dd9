//! How much may be tried again: a share of what is tried at all.
//!
//! When an upstream is in trouble every call is followed by others, and what was a trouble becomes a flood. So repetitions
//! are paid for: each call that is no repetition puts a fraction aside, each that is one takes a whole. A little comes in
//! with time, or those who wait would wait for ever where nobody calls any more.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a first call puts aside.
const SHARE: f64 = 0.2;
/// What comes in by itself, per second.
const TRICKLE: f64 = 1.0;
/// What can be put aside, and is there at the beginning.
const RESERVE: f64 = 10.0;

/// The repetitions that an upstream has left.
#[derive(Debug)]
pub struct Budget(Mutex<(f64, Instant)>);

impl Default for Budget {
    fn default() -> Self {
        Self(Mutex::new((RESERVE, Instant::now())))
    }
}

impl Budget {
    /// A call that is no repetition.
    pub fn first(&self) {
        self.change(|tokens| ((tokens + SHARE).min(RESERVE), ()));
    }

    /// A repetition: whether it may be made now. Otherwise after how long.
    pub fn again(&self) -> Result<(), Duration> {
        self.change(|tokens| match tokens {
            1.0.. => (tokens - 1.0, Ok(())),
            _ => (tokens, Err(Duration::from_secs(1))),
        })
    }

    fn change<T>(&self, change: impl FnOnce(f64) -> (f64, T)) -> T {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let come_in = now.duration_since(held.1).as_secs_f64() * TRICKLE;
        let (tokens, answer) = change((held.0 + come_in).min(RESERVE));
        *held = (tokens, now);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_a_share_of_the_calls() {
        let budget = Budget::default();
        let spend = |budget: &Budget| (0..1000).filter(|_| budget.again().is_ok()).count();
        // What trickles in while this runs is not much.
        let spent = spend(&budget);
        assert!((10..15).contains(&spent), "{spent}");
        (0..25).for_each(|_| budget.first());
        let spent = spend(&budget);
        assert!((5..10).contains(&spent), "{spent}");
        (0..1000).for_each(|_| budget.first());
        let spent = spend(&budget);
        assert!((10..15).contains(&spent), "no more than the reserve: {spent}");
    }
}
