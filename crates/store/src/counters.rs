//! Counters: how often a caller came within a window, and how much of a day's quota a key has used.
//!
//! Windows slide, are short, and live in memory: a restart forgets them, which costs a server at most one window's worth
//! of requests. Quotas are long and paid for, so they are kept in the store.

mod sliding;

pub(crate) use sliding::Sliding;
pub use sliding::{CALLERS_MAX, SLOTS_MAX};

use crate::{Answer, KeyId};
use sabir_proto::Timestamp;
use std::time::Duration;

const DAY_MS: i64 = 86_400_000;

/// A rule about how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<'a> {
    /// Tells the rules apart that one caller is under: an agent, a tier.
    pub name: &'a str,
    /// How long.
    pub length: Duration,
    /// How many within that; zero for none at all.
    pub limit: u32,
}

/// Whether one more is within the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// Yes, and it is counted.
    Admitted {
        /// How many more would be, right now.
        left: u32,
    },
    /// No, and it is not counted.
    Refused {
        /// When one will be again.
        retry_after: Duration,
    },
    /// There is no room to count this caller, because the room is taken by callers at their limit.
    Crowded,
}

/// Whether one more is within the quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// Yes, and it is counted.
    Within {
        /// How many that makes today, this one included.
        used: u64,
    },
    /// No, and it is not counted.
    Exhausted {
        /// When the next day begins.
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

/// The counters of one server.
pub trait Counters: Send + Sync + 'static {
    /// Counts one request of a caller, unless the limit is reached. A request is within the window while it is younger
    /// than its length, so at `limit = 20` and a minute the 21st is refused until the first is 60,000 ms old. Exact up to
    /// [`SLOTS_MAX`] requests; above that, one may be counted for up to 1/[`SLOTS_MAX`] of the window too long.
    ///
    /// At most [`CALLERS_MAX`] callers are remembered. When there are more, whoever has been idle for a window is
    /// forgotten first, then whoever is below its limit; **never** one that has reached its limit, so nobody gets rid of
    /// a refusal by bringing others along.
    fn hit(&self, caller: &str, window: Window<'_>, now: Timestamp) -> Answer<Hit>;

    /// Uses one of a key's quota for the UTC day, unless the quota is used up. Exact: of any number of calls at the same
    /// time, `limit` are within. The count survives the end of the process before this answers, and is forgotten after
    /// the next day.
    fn spend(&self, key: &KeyId, limit: u64, now: Timestamp) -> Answer<Spent>;

    /// How much of its quota a key has used on this day.
    fn spent(&self, key: &KeyId, now: Timestamp) -> Answer<u64>;
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
