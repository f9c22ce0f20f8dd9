//! Loss notes beside tasks: written when the writer is idle, and never synced.

use super::reader::Reader;
use super::writer::TaskLogWriter;
use super::{key, lock, salt, store_error};
use crate::Durability;
use crate::StoreError;
use crate::loss_note::{LOSS_NOTES_MAX, LossNote, MORE_KIND};
use rusqlite::{Connection, params};
use sabir_proto::{TaskId, Timestamp};
use std::sync::atomic::Ordering;

impl TaskLogWriter {
    /// Writes loss notes of some tasks, in one transaction and without waiting for the disk: the next step that is
    /// synced makes them durable, and losing them before that does no harm.
    pub(super) fn write_loss_notes(&mut self, noted: &[(TaskId, Vec<LossNote>)]) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.write_lock);
        let outcome = self.skip_sync().and_then(|()| self.try_write_loss_notes(noted));
        // The sync level cannot change inside a transaction.
        self.roll_back();
        let outcome = outcome.and(self.require_sync()).map_err(|e| store_error(&e));
        match &outcome {
            Ok(()) => drop(shared.unsynced_commits.fetch_add(1, Ordering::Release)),
            Err(error) => tracing::warn!(%error, "notes could not be written"),
        }
        outcome
    }

    /// Commits without a sync from now on. Not a cached statement: SQLite applies this pragma when it is prepared.
    pub(super) fn skip_sync(&mut self) -> rusqlite::Result<()> {
        if self.durability == Durability::Full {
            self.is_sync_skipped = true;
            self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        }
        Ok(())
    }

    /// Commits with a sync again, where `durability` requires it. Every commit of a step calls this first, so that no
    /// step is committed without.
    pub(super) fn require_sync(&mut self) -> rusqlite::Result<()> {
        if self.is_sync_skipped {
            self.connection.pragma_update(None, "synchronous", "FULL")?;
            self.is_sync_skipped = false;
        }
        Ok(())
    }

    fn try_write_loss_notes(&self, noted: &[(TaskId, Vec<LossNote>)]) -> rusqlite::Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for (task, notes) in noted {
            let k = key(task.stamp());
            let sql = "SELECT EXISTS (SELECT 1 FROM task WHERE k = ?1 AND salt = ?2)";
            if self.connection.prepare_cached(sql)?.query_row((k, salt(*task)), |row| row.get(0))? {
                notes.iter().try_for_each(|note| put(&self.connection, k, note))?;
            }
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

fn put(connection: &Connection, k: i64, note: &LossNote) -> rusqlite::Result<()> {
    let add = |note: &LossNote| {
        let sql = "UPDATE note SET first_at = min(first_at, ?5), count = count + ?6
                   WHERE k = ?1 AND dialect = ?2 AND kind = ?3 AND path = ?4";
        connection.prepare_cached(sql)?.execute(row(k, note))
    };
    if add(note)? > 0 {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM note WHERE k = ?1 AND NOT (dialect = '' AND kind = ?2 AND path = '')";
    let different: u32 = connection.prepare_cached(sql)?.query_row(params![k, MORE_KIND], |row| row.get(0))?;
    let more = note.without_details();
    let fits = (different as usize) < LOSS_NOTES_MAX;
    if !fits && add(&more)? > 0 {
        return Ok(());
    }
    let sql = "INSERT INTO note (k, dialect, kind, path, first_at, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(row(k, if fits { note } else { &more }))?;
    Ok(())
}

fn row(k: i64, note: &LossNote) -> (i64, &str, &str, &str, i64, i64) {
    let count = i64::try_from(note.count).unwrap_or(i64::MAX);
    (k, &note.dialect, &note.kind, &note.path, note.first_at.millis(), count)
}

impl Reader<'_> {
    pub(super) fn loss_notes(&self, task: TaskId) -> rusqlite::Result<Vec<LossNote>> {
        if !self.holds(task)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT dialect, kind, path, first_at, count FROM note WHERE k = ?1
                   ORDER BY first_at, dialect, kind, path";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([key(task.stamp())], |row| {
            let first_at = Timestamp::from_millis(row.get(3)?);
            let count = u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0);
            Ok(LossNote { first_at, dialect: row.get(0)?, kind: row.get(1)?, path: row.get(2)?, count })
        })?;
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::sqlite::{StoreState, schema};
    use sabir_proto::Stamp;
    use std::sync::Arc;

    #[test]
    fn only_notes_go_without_a_sync() {
        for (durability, level) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let connection = schema::open_writer(&dir.path().join("a.db"), &schema::TASK_LOG, durability).unwrap();
            let options = OpenOptions { durability, ..OpenOptions::default() };
            let mut writer = TaskLogWriter::new(connection, Arc::new(StoreState::default()), options).unwrap();
            let synchronous = |writer: &TaskLogWriter| {
                writer.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
            };
            for _ in 0..2 {
                let task = TaskId::new(Stamp::from_u64(1), 1);
                let notes = vec![LossNote::new("d", "k", "p", Timestamp::from_millis(0))];
                writer.write_loss_notes(&[(task, notes)]).unwrap();
                assert_eq!(synchronous(&writer), Ok(level));
                writer.skip_sync().unwrap();
                assert_eq!(synchronous(&writer), Ok(1), "relaxed while notes are written");
                writer.require_sync().unwrap();
                assert_eq!(synchronous(&writer), Ok(level));
            }
        }
    }
}
