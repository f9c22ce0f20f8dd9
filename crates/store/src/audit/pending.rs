//! Refusals that wait to be written: counted, and bounded.

use super::{AuditOutcome, AuditRecord};
use sabir_proto::{Caller, Timestamp};
use std::collections::HashMap;

/// Different refusals that may be written at once after a quiet time. Also what may wait: a few hundred kilobytes.
pub const REFUSALS_BURST: u64 = 1024;
/// Different refusals written per second on average: at about 300 bytes each some 400 MB a day under a constant attack.
pub const REFUSALS_PER_SECOND: u64 = 16;

const SECOND_MS: i64 = 1000;

/// The refusals that wait.
#[derive(Debug)]
pub(crate) struct PendingRefusals {
    waiting: Vec<AuditRecord>,
    /// The index in `waiting` of the equal refusal; the key has no time and count.
    indexes: HashMap<AuditRecord, usize>,
    /// How many were dropped, and the time of the first of them.
    dropped: u64,
    dropped_at: Option<Timestamp>,
    unreported: u64,
    /// How many different refusals may still come, as of the second in which the last one came.
    budget: u64,
    second: i64,
}

impl Default for PendingRefusals {
    fn default() -> Self {
        let (waiting, places) = Default::default();
        Self {
            waiting,
            indexes: places,
            dropped: 0,
            dropped_at: None,
            unreported: 0,
            budget: REFUSALS_BURST,
            second: 0,
        }
    }
}

impl PendingRefusals {
    /// Adds a refusal; true if it is the first that waits.
    pub(crate) fn add(&mut self, record: AuditRecord) -> bool {
        let was_empty = self.is_empty();
        let second = record.time.millis() / SECOND_MS;
        let alike = AuditRecord { time: Timestamp::from_millis(second * SECOND_MS), count: 0, ..record.clone() };
        if let Some(place) = self.indexes.get(&alike) {
            self.waiting[*place].count += record.count;
            return was_empty;
        }
        let passed = u64::try_from(second - self.second).unwrap_or(0);
        self.budget = self.budget.saturating_add(passed.saturating_mul(REFUSALS_PER_SECOND)).min(REFUSALS_BURST);
        self.second = self.second.max(second);
        if self.budget == 0 {
            self.unreported += record.count;
            self.add_dropped(record.count, record.time);
        } else {
            self.budget -= 1;
            self.indexes.insert(alike, self.waiting.len());
            self.waiting.push(record);
        }
        was_empty
    }

    /// Returns everything that waits, in order of arrival. The dropped ones come last, as a count.
    pub(crate) fn take(&mut self) -> Vec<AuditRecord> {
        self.indexes.clear();
        let mut taken = std::mem::take(&mut self.waiting);
        if let Some(time) = self.dropped_at.take() {
            let base =
                AuditRecord::refusal(time, Caller::named("sabir"), "internal", "audit", "too many, or not written");
            taken.push(AuditRecord {
                outcome: AuditOutcome::Dropped,
                count: std::mem::take(&mut self.dropped),
                ..base
            });
        }
        taken
    }

    /// Adds refusals that could not be written to the dropped count. Returns how many that are.
    pub(crate) fn count_as_dropped(&mut self, taken: &[AuditRecord]) -> u64 {
        taken.iter().for_each(|record| self.add_dropped(record.count, record.time));
        taken.iter().filter(|record| record.outcome != AuditOutcome::Dropped).map(|record| record.count).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.dropped_at.is_none()
    }

    /// The number of refusals dropped since the last call.
    pub(crate) fn newly_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.unreported)
    }

    fn add_dropped(&mut self, count: u64, time: Timestamp) {
        self.dropped += count;
        self.dropped_at = Some(self.dropped_at.map_or(time, |at| at.min(time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(caller: u64, ms: i64) -> AuditRecord {
        let caller = Caller::named(&caller.to_string());
        AuditRecord::refusal(Timestamp::from_millis(ms), caller, "key", "SendMessage", "rate")
    }

    fn counts(taken: &[AuditRecord]) -> Vec<(&str, u64)> {
        taken.iter().map(|r| (r.caller.name(), r.count)).collect()
    }

    #[test]
    fn the_same_within_a_second_is_one() {
        let mut pending = PendingRefusals::default();
        assert!(pending.add(refusal(1, 10_100)));
        for ms in 10_101..10_999 {
            assert!(!pending.add(refusal(1, ms)));
        }
        pending.add(refusal(2, 10_500));
        pending.add(refusal(1, 11_000));
        let taken = pending.take();
        assert_eq!(counts(&taken), [("1", 899), ("2", 1), ("1", 1)]);
        assert_eq!(taken[0].time.millis(), 10_100, "the first of them says when");
        assert!(pending.is_empty() && pending.take().is_empty());
        assert!(pending.add(refusal(1, 11_000)));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut pending = PendingRefusals::default();
        let start = 1_000_000;
        for n in 0..REFUSALS_BURST + 500 {
            pending.add(refusal(n, start));
        }
        // A caller that waits already is still counted.
        pending.add(refusal(0, start));
        assert_eq!((pending.newly_dropped(), pending.newly_dropped()), (500, 0));
        let taken = pending.take();
        assert_eq!(taken.len(), 1025);
        assert_eq!((taken[0].count, taken[1024].count, taken[1024].outcome), (2, 500, AuditOutcome::Dropped));
        // Ten seconds later the budget has grown by ten seconds' worth.
        for n in 0..1000 {
            pending.add(refusal(n, start + 10_000));
        }
        let taken = pending.take();
        assert_eq!(taken.len(), 161);
        assert_eq!(taken[160].count, 840);
        // A clock that goes back adds nothing.
        pending.add(refusal(1, start));
        assert_eq!(counts(&pending.take()), [("sabir", 1)]);
    }

    #[test]
    fn what_could_not_be_written_is_not_forgotten() {
        let mut pending = PendingRefusals::default();
        for ms in 5000..5003 {
            pending.add(refusal(1, ms));
        }
        let taken = pending.take();
        assert_eq!(pending.count_as_dropped(&taken), 3);
        pending.add(refusal(2, 6000));
        let taken = pending.take();
        assert_eq!(counts(&taken), [("2", 1), ("sabir", 3)]);
        assert_eq!(pending.count_as_dropped(&taken), 1, "three of them were known to be lost");
        assert_eq!(counts(&pending.take()), [("sabir", 4)]);
    }
}
