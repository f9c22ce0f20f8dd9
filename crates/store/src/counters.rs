//! Rate and quota counters: how many requests a caller made within a window, and how much of a day's quota a key has
//! used.
//!
//! Windows slide, are short, and are in memory: a restart forgets them, which costs a server at most one window's worth
//! of requests. Quotas are long and paid for, so they are stored.

mod sliding;

pub(crate) use sliding::SlidingWindows;
pub use sliding::{BUCKETS_MAX, CALLERS_MAX};

use crate::{KeyId, StoreFuture};
use sabir_proto::Timestamp;
use std::time::Duration;

const DAY_MS: i64 = 86_400_000;

/// A limit on the number of requests within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWindow<'a> {
    /// Distinguishes the limits that apply to one caller: an agent, a tier.
    pub name: &'a str,
    /// The length of the window.
    pub length: Duration,
    /// Requests within the window; zero admits none.
    pub limit: u32,
}

/// The decision on one request under a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    /// The request is admitted and counted.
    Admitted {
        /// How many more would be admitted right now.
        left: u32,
    },
    /// The request is refused and not counted.
    Refused {
        /// How long until a request is admitted again.
        retry_after: Duration,
    },
    /// There is no room to count this caller: callers at their limit take all of it.
    Crowded,
}

/// The decision on one request under a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaDecision {
    /// The request is within the quota and counted.
    Within {
        /// The day's requests, this one included.
        used: u64,
    },
    /// The quota is used up; the request is not counted.
    Exhausted {
        /// The time at which the next day begins.
        resets_at: Timestamp,
    },
}

/// A day in UTC, numbered from the first of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(pub(crate) i64);

impl Day {
    pub(crate) const fn of(time: Timestamp) -> Self {
        Self(time.millis().div_euclid(DAY_MS))
    }

    pub(crate) fn end(self) -> Timestamp {
        Timestamp::from_millis((self.0 + 1).saturating_mul(DAY_MS))
    }
}

/// The rate and quota counters of one server.
pub trait Counters: Send + Sync + 'static {
    /// Counts one request of a caller, unless the limit is reached. A request is within the window while it is younger
    /// than its length, so at `limit = 20` and a minute the 21st is refused until the first is 60,000 ms old. Exact up
    /// to [`BUCKETS_MAX`] requests; above that, one may be counted for up to 1/[`BUCKETS_MAX`] of the window too long.
    ///
    /// At most [`CALLERS_MAX`] callers are remembered. When there are more, callers that have been idle for a window
    /// are forgotten first, then callers below their limit; **never** one that has reached its limit, so a caller
    /// cannot get rid of a refusal by bringing others along.
    fn hit(&self, caller: &str, window: RateWindow<'_>, now: Timestamp) -> StoreFuture<RateDecision>;

    /// Uses one of a key's quota for the UTC day, unless the quota is used up. Exact: of any number of concurrent
    /// calls, `limit` are within. The count survives the end of the process before this returns, and is forgotten after
    /// the next day.
    fn spend_quota(&self, key: &KeyId, limit: u64, now: Timestamp) -> StoreFuture<QuotaDecision>;

    /// How much of its quota a key has used on this day.
    fn quota_used(&self, key: &KeyId, now: Timestamp) -> StoreFuture<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_at_midnight() {
        let day = |text: &str| Day::of(Timestamp::parse(text).unwrap());
        assert_eq!(day("2026-06-01T00:00:00Z"), day("2026-06-01T23:59:59.999Z"));
        assert_eq!(day("2026-06-01T10:00:00Z").end(), Timestamp::parse("2026-06-02T00:00:00Z").unwrap());
    }
}
