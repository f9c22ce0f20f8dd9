//! Write health: the result of the last write, and a probe.

use super::writer::TaskLogWriter;
use super::{LogBackend, SqliteLog, StoreState, lock, store_error};
use crate::write_health::WriteHealth;
use crate::{StoreError, StoreFuture};

/// Bytes that a probe writes: more than the last pages have room for, as a task would.
const PROBE_BYTES: u32 = 64 << 10;

impl StoreState {
    /// Stores the first error that shows damaged bytes.
    pub(super) fn record_damage(&self, error: &StoreError) {
        if let StoreError::Corrupt(_) = error {
            lock(&self.damage).get_or_insert_with(|| error.clone());
        }
    }
}

impl TaskLogWriter {
    /// Stores whether the last write worked.
    pub(super) fn record_outcome<T>(&self, outcome: &Result<T, StoreError>) {
        let trouble = outcome.as_ref().err().cloned();
        self.metrics.store_trouble.set(i64::from(trouble.is_some()));
        *lock(&self.shared.write_error) = trouble;
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.write_lock);
        // No task has this key, and only this transaction sees the row. The pages stay, free for new tasks.
        let sql = format!(
            "BEGIN IMMEDIATE; INSERT INTO checkpoint (k, data) VALUES (-1, zeroblob({PROBE_BYTES}));
             DELETE FROM checkpoint WHERE k = -1; UPDATE latest SET number = number; COMMIT"
        );
        let outcome =
            self.require_sync().and_then(|()| self.connection.execute_batch(&sql)).map_err(|e| store_error(&e));
        self.roll_back();
        self.record_outcome(&outcome);
        outcome
    }
}

impl WriteHealth for SqliteLog {
    fn write_error(&self) -> Option<StoreError> {
        lock(&self.shared.write_error).clone()
    }

    fn damage(&self) -> Option<StoreError> {
        lock(&self.shared.damage).clone()
    }

    fn probe(&self) -> StoreFuture<()> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.when_idle(TaskLogWriter::probe),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(lock(writer).probe()),
        }
    }
}
