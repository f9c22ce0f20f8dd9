//! The records of envelopes that are being processed.
//!
//! The record of a booking is committed with the booking, but only the endpoint knows where its envelope came from and
//! how it was signed. So the endpoint adds the record here, under a number that travels with the message, and the agent
//! takes it when it books. The endpoint stores a record that the agent did not take.

use sabir_store::Interaction;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The pending records of envelopes that may have an effect.
#[derive(Debug)]
pub(crate) struct PendingRecords {
    records: Mutex<HashMap<u64, (Instant, Box<Interaction>)>>,
    numbers: AtomicU64,
}

impl PendingRecords {
    pub(crate) fn new() -> Self {
        // Begins at a random number, because numbers of earlier processes are in the log and must not match ours.
        Self { records: Mutex::default(), numbers: AtomicU64::new(RandomState::new().hash_one(0)) }
    }

    /// A number that no other envelope has.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds the record of an envelope that arrived at this time. It is pending until the returned value is dropped.
    pub(crate) fn add(self: &Arc<Self>, number: u64, arrived: Instant, record: Interaction) -> PendingRecord {
        self.records().insert(number, (arrived, Box::new(record)));
        PendingRecord { records: self.clone(), number }
    }

    /// Takes the record with this number, as that of a success. It can be taken only once.
    pub(crate) fn take(&self, number: u64) -> Option<Interaction> {
        let (arrived, mut record) = self.records().remove(&number)?;
        record.latency_ms = u32::try_from(arrived.elapsed().as_millis()).unwrap_or(u32::MAX);
        Some(*record)
    }

    fn records(&self) -> MutexGuard<'_, HashMap<u64, (Instant, Box<Interaction>)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One record that is pending.
#[derive(Debug)]
#[must_use = "a passage ends when its ticket is dropped"]
pub(crate) struct PendingRecord {
    records: Arc<PendingRecords>,
    number: u64,
}

impl PendingRecord {
    /// Whether the agent has taken the record to store it with the booking.
    pub(crate) fn is_taken(&self) -> bool {
        !self.records.records().contains_key(&self.number)
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.records.records().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_told_once_and_a_passage_ends_with_its_ticket() {
        let pending = Arc::new(PendingRecords::new());
        let enter = || {
            let (number, record) = (pending.number(), Interaction { status: "ok".into(), ..Interaction::default() });
            (number, pending.add(number, Instant::now(), record))
        };
        let ((first, one), (_, two)) = (enter(), enter());
        assert!(!one.is_taken());
        assert_eq!(pending.take(first).unwrap().status, "ok");
        assert!(one.is_taken() && !two.is_taken() && pending.take(first).is_none());
        drop((one, two));
        assert!(pending.records().is_empty());
    }
}
