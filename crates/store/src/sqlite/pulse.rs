//! Write health: the result of the last write, and a probe.

use super::writer::Writer;
use super::{Backend, Shared, SqliteLog, lock, store_error};
use crate::pulse::Pulse;
use crate::{Answer, StoreError};

/// Bytes that a probe writes: more than the last pages have room for, as a task would.
const PROBE_BYTES: u32 = 64 << 10;

impl Shared {
    /// Stores the first error that shows damaged bytes.
    pub(super) fn note_damage(&self, error: &StoreError) {
        if let StoreError::Corrupt(_) = error {
            lock(&self.damage).get_or_insert_with(|| error.clone());
        }
    }
}

impl Writer {
    /// Stores whether the last write worked.
    pub(super) fn felt<T>(&self, outcome: &Result<T, StoreError>) {
        let trouble = outcome.as_ref().err().cloned();
        self.metrics.store_trouble.set(i64::from(trouble.is_some()));
        *lock(&self.shared.trouble) = trouble;
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.turn);
        // No task has this key, and only this transaction sees the row. The pages stay, free for new tasks.
        let sql = format!(
            "BEGIN IMMEDIATE; INSERT INTO checkpoint (k, data) VALUES (-1, zeroblob({PROBE_BYTES}));
             DELETE FROM checkpoint WHERE k = -1; UPDATE latest SET number = number; COMMIT"
        );
        let outcome = self.tighten().and_then(|()| self.connection.execute_batch(&sql)).map_err(|e| store_error(&e));
        self.roll_back();
        self.felt(&outcome);
        outcome
    }
}

impl Pulse for SqliteLog {
    fn trouble(&self) -> Option<StoreError> {
        lock(&self.shared.trouble).clone()
    }

    fn damage(&self) -> Option<StoreError> {
        lock(&self.shared.damage).clone()
    }

    fn probe(&self) -> Answer<()> {
        match &self.writing {
            Backend::Threaded { queue, .. } => queue.when_idle(Writer::probe),
            Backend::Inline(writer) => Answer::now(lock(writer).probe()),
        }
    }
}
