//! Sliding rate-limit windows in bounded memory.
//!
//! Callers stand in one list with an index beside it. When the list is full, a cursor goes round it and looks at a few
//! entries at a time, so that no request pays for more than that, however many callers there are.

use super::{RateDecision, RateWindow};
use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::time::Duration;

/// Callers remembered at the same time, each under each rule. Half a kilobyte at most, so 50 MB at the very most.
pub const CALLERS_MAX: usize = 100_000;
/// Buckets per caller. A limit up to this is counted exactly; under a higher one, requests within this fraction of the
/// window share a bucket.
pub const BUCKETS_MAX: u32 = 32;

/// Entries that are examined to find room for a new caller when all are taken.
const PROBES_WHEN_FULL: usize = 64;
/// Entries that are examined on every request, so that idle callers are forgotten also when there is room.
const PROBES_ALWAYS: usize = 2;

/// A caller under a limit: a keyed hash, so that a name of any length costs the same and no caller can aim at a
/// collision.
type CallerKey = (u64, u64);

/// All rate-limit windows of one process.
#[derive(Debug)]
pub(crate) struct SlidingWindows {
    table: Mutex<WindowTable>,
    seeds: (RandomState, RandomState),
}

#[derive(Debug)]
struct WindowTable {
    index: HashMap<CallerKey, usize>,
    windows: Vec<CallerWindow>,
    cursor: usize,
    max: usize,
}

/// The requests of one caller under one limit.
#[derive(Debug)]
struct CallerWindow {
    key: CallerKey,
    length_ms: i64,
    limit: u32,
    buckets: Vec<RequestBucket>,
}

/// Requests that are counted as if all came at the time of the last of them.
#[derive(Debug)]
struct RequestBucket {
    first: i64,
    span: u32,
    count: u32,
}

impl RequestBucket {
    fn last(&self) -> i64 {
        self.first + i64::from(self.span)
    }
}

impl Default for SlidingWindows {
    fn default() -> Self {
        Self::new(CALLERS_MAX)
    }
}

impl SlidingWindows {
    fn new(max: usize) -> Self {
        let (index, lines) = Default::default();
        Self { table: Mutex::new(WindowTable { index, windows: lines, cursor: 0, max }), seeds: Default::default() }
    }

    pub(crate) fn hit(&self, caller: &str, window: RateWindow<'_>, now: Timestamp) -> RateDecision {
        let what = (window.name, caller);
        let key = (self.seeds.0.hash_one(what), self.seeds.1.hash_one(what));
        let mut table = self.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        table.hit(key, window, now.millis())
    }
}

impl WindowTable {
    fn hit(&mut self, key: CallerKey, window: RateWindow<'_>, now: i64) -> RateDecision {
        let length_ms = i64::try_from(window.length.as_millis()).unwrap_or(i64::MAX);
        if window.limit == 0 {
            return RateDecision::Refused { retry_after: window.length };
        }
        self.forget_idle(now);
        let place = match self.index.get(&key).copied() {
            Some(place) => place,
            None if self.windows.len() < self.max || self.make_room(now) => {
                self.windows.push(CallerWindow { key, length_ms, limit: window.limit, buckets: Vec::new() });
                self.index.insert(key, self.windows.len() - 1);
                self.windows.len() - 1
            }
            None => return RateDecision::Crowded,
        };
        let line = &mut self.windows[place];
        // A changed limit applies from the next request on.
        (line.length_ms, line.limit) = (length_ms, window.limit);
        line.hit(now)
    }

    /// Examines a few callers and forgets those that have been idle for a window.
    fn forget_idle(&mut self, now: i64) {
        for _ in 0..PROBES_ALWAYS.min(self.windows.len()) {
            self.cursor = if self.cursor + 1 < self.windows.len() { self.cursor + 1 } else { 0 };
            if self.windows[self.cursor].used(now) == 0 {
                self.remove(self.cursor);
            }
        }
    }

    /// Forgets the least busy of the next few callers, if one of them may be forgotten.
    fn make_room(&mut self, now: i64) -> bool {
        let mut least: Option<(u32, usize)> = None;
        for _ in 0..PROBES_WHEN_FULL.min(self.windows.len()) {
            self.cursor = if self.cursor + 1 < self.windows.len() { self.cursor + 1 } else { 0 };
            let line = &self.windows[self.cursor];
            let used = line.used(now);
            if used < line.limit && least.is_none_or(|(fewest, _)| used < fewest) {
                least = Some((used, self.cursor));
                // Few callers could be less busy; idle ones are removed by `forget_idle`.
                if used <= 1 {
                    break;
                }
            }
        }
        least.map(|(_, place)| self.remove(place)).is_some()
    }

    fn remove(&mut self, place: usize) {
        let gone = self.windows.swap_remove(place);
        self.index.remove(&gone.key);
        if let Some(moved) = self.windows.get(place) {
            self.index.insert(moved.key, place);
        }
    }
}

impl CallerWindow {
    /// The number of requests within the window.
    fn used(&self, now: i64) -> u32 {
        self.buckets.iter().filter(|slot| now - slot.last() < self.length_ms).map(|slot| slot.count).sum()
    }

    fn hit(&mut self, now: i64) -> RateDecision {
        if self.buckets.last().is_some_and(|slot| slot.last() > now) {
            // The clock was set back. Past requests count as made now, or callers would wait for the old time.
            for slot in &mut self.buckets {
                (slot.first, slot.span) = (slot.first.min(now), 0);
            }
        }
        let length_ms = self.length_ms;
        self.buckets.retain(|slot| now - slot.last() < length_ms);
        let used = self.used(now);
        if used >= self.limit {
            // Enough of the oldest buckets must expire for one request to fit; after a limit was lowered, more than the
            // first.
            let mut above = used - self.limit;
            let freeing = self.buckets.iter().find(|slot| {
                let enough = slot.count > above;
                above = above.saturating_sub(slot.count);
                enough
            });
            let wait = freeing.map_or(length_ms, |slot| slot.last() + length_ms - now);
            return RateDecision::Refused { retry_after: Duration::from_millis(wait.unsigned_abs()) };
        }
        let share = if self.limit > BUCKETS_MAX { length_ms / i64::from(BUCKETS_MAX) } else { 0 };
        match self.buckets.last_mut() {
            Some(slot) if now - slot.first <= share => {
                slot.span = u32::try_from(now - slot.first).unwrap_or(u32::MAX);
                slot.count += 1;
            }
            _ => self.buckets.push(RequestBucket { first: now, span: 0, count: 1 }),
        }
        RateDecision::Admitted { left: self.limit - used - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn hit(sliding: &SlidingWindows, caller: impl ToString, limit: u32, now: i64) -> RateDecision {
        let window = RateWindow { name: "w", length: MINUTE, limit };
        sliding.hit(&caller.to_string(), window, Timestamp::from_millis(now))
    }

    fn is_admitted(hit: RateDecision) -> bool {
        matches!(hit, RateDecision::Admitted { .. })
    }

    #[test]
    fn a_high_limit_is_kept_within_a_slot() {
        let sliding = SlidingWindows::default();
        // A thousand a minute, evenly spread, for ten minutes: all are admitted …
        let step = 62;
        for n in 0..9600 {
            assert!(is_admitted(hit(&sliding, "steady", 1000, n * step)), "{n}");
        }
        // … and of twice as many never more than the limit within any minute, and nearly as many.
        let admitted: Vec<i64> =
            (0..20_000).map(|n| n * 30).filter(|at| is_admitted(hit(&sliding, "greedy", 1000, *at))).collect();
        for (n, at) in admitted.iter().enumerate() {
            let within = admitted[n..].iter().take_while(|later| *later - at < 60_000).count();
            assert!(within <= 1000, "{within} within a minute from {at}");
        }
        assert!(admitted.len() > 9600, "{} in ten minutes", admitted.len());
        assert!(sliding.table.lock().unwrap().windows.iter().all(|line| line.buckets.len() <= 34));
    }

    #[test]
    fn memory_is_bounded_and_whoever_is_at_its_limit_is_remembered() {
        let sliding = SlidingWindows::new(1000);
        for caller in 0..10 {
            (0..2).for_each(|_| assert!(is_admitted(hit(&sliding, format!("bad{caller}"), 2, 0))));
        }
        for caller in 0..100_000 {
            assert!(is_admitted(hit(&sliding, caller, 2, 1000)), "{caller}");
        }
        for caller in 0..10 {
            let refused = RateDecision::Refused { retry_after: Duration::from_millis(58_000) };
            assert_eq!(hit(&sliding, format!("bad{caller}"), 2, 2000), refused);
        }
        let table = sliding.table.lock().unwrap();
        assert_eq!((table.windows.len(), table.index.len()), (1000, 1000));
        assert!(table.windows.iter().enumerate().all(|(place, line)| table.index[&line.key] == place));
    }

    #[test]
    fn a_newcomer_waits_where_everybody_is_at_the_limit() {
        let sliding = SlidingWindows::new(100);
        (0..100).for_each(|caller| assert!(is_admitted(hit(&sliding, caller, 1, 0))));
        assert_eq!(hit(&sliding, "new", 1, 59_999), RateDecision::Crowded);
        assert!(is_admitted(hit(&sliding, "new", 1, 60_000)));
        // The other callers are idle: they are removed little by little, also when there is room.
        for _ in 0..60 {
            assert!(!is_admitted(hit(&sliding, "new", 1, 60_001)));
        }
        assert_eq!(sliding.table.lock().unwrap().windows.len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let sliding = SlidingWindows::default();
        let hour = 3_600_000;
        (0..3).for_each(|n| assert!(is_admitted(hit(&sliding, "a", 3, hour + n))));
        assert_eq!(hit(&sliding, "a", 3, 0), RateDecision::Refused { retry_after: MINUTE });
        assert!(is_admitted(hit(&sliding, "a", 3, 60_000)));
    }

    #[test]
    fn another_limit_holds_from_the_next_request_on() {
        let sliding = SlidingWindows::default();
        (0..10).for_each(|n| assert!(is_admitted(hit(&sliding, "a", 10, n * 1000))));
        assert_eq!(hit(&sliding, "a", 5, 10_000), RateDecision::Refused { retry_after: Duration::from_secs(55) });
        assert_eq!(hit(&sliding, "a", 12, 10_000), RateDecision::Admitted { left: 1 });
    }
}
