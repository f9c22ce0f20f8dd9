//! Virtual time: a number that moves only when no job is ready, and the wakers that wait for it.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

/// The start of every simulation: 1 June 2026, 10:00 UTC, in milliseconds since 1970.
pub const EPOCH_MS: u64 = 1_780_308_000_000;

/// A clock with timers. It never moves by itself.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Milliseconds since the start.
    now: u64,
    timers: BTreeMap<Timer, Waker>,
    next: u64,
}

/// A timer: when it fires, and a number that tells it from others of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    at: u64,
    number: u64,
}

impl Clock {
    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// The time after this duration; a fraction of a millisecond counts as a whole one.
    pub(crate) fn after(&self, duration: Duration) -> u64 {
        let ms = duration.as_nanos().div_ceil(1_000_000);
        self.now.saturating_add(u64::try_from(ms).unwrap_or(u64::MAX))
    }

    pub(crate) fn set(&mut self, at: u64, waker: Waker) -> Timer {
        self.next += 1;
        let timer = Timer { at, number: self.next };
        self.timers.insert(timer, waker);
        timer
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.timers.remove(&timer);
    }

    /// Milliseconds until the next timer fires.
    pub(crate) fn until_next(&self) -> Option<u64> {
        self.timers.keys().next().map(|timer| timer.at.saturating_sub(self.now))
    }

    /// Moves to the next timer and returns all wakers of that time; empty without a timer.
    pub(crate) fn advance(&mut self) -> Vec<Waker> {
        let Some(at) = self.timers.keys().next().map(|t| t.at) else { return Vec::new() };
        self.now = self.now.max(at);
        let later = self.timers.split_off(&Timer { at: at.saturating_add(1), number: 0 });
        std::mem::replace(&mut self.timers, later).into_values().collect()
    }
}
