//! Loss notes beside tasks: written when the writer is idle, and never synced.

use super::reader::Reader;
use super::writer::Writer;
use super::{Durability, key, lock, salt, store_error};
use crate::StoreError;
use crate::note::{MORE, NOTES_MAX, Note};
use rusqlite::{Connection, params};
use sabir_proto::{TaskId, Timestamp};
use std::sync::atomic::Ordering;

impl Writer {
    /// Writes loss notes of some tasks, in one transaction and without waiting for the disk: the next step that is
    /// synced makes them durable, and losing them before that does no harm.
    pub(super) fn write_notes(&mut self, noted: &[(TaskId, Vec<Note>)]) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.turn);
        let outcome = self.relax().and_then(|()| self.attempt_notes(noted));
        // The sync level cannot change inside a transaction.
        self.roll_back();
        let outcome = outcome.and(self.tighten()).map_err(|e| store_error(&e));
        match &outcome {
            Ok(()) => drop(shared.noted.fetch_add(1, Ordering::Release)),
            Err(error) => tracing::warn!(%error, "notes could not be written"),
        }
        outcome
    }

    /// Commits without a sync from now on. Not a cached statement: SQLite applies this pragma when it is prepared.
    pub(super) fn relax(&mut self) -> rusqlite::Result<()> {
        if self.durability == Durability::Full {
            self.is_relaxed = true;
            self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        }
        Ok(())
    }

    /// Commits with a sync again, where `durability` requires it. Every commit of a step calls this first, so that no
    /// step is committed without.
    pub(super) fn tighten(&mut self) -> rusqlite::Result<()> {
        if self.is_relaxed {
            self.connection.pragma_update(None, "synchronous", "FULL")?;
            self.is_relaxed = false;
        }
        Ok(())
    }

    fn attempt_notes(&self, noted: &[(TaskId, Vec<Note>)]) -> rusqlite::Result<()> {
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

fn put(connection: &Connection, k: i64, note: &Note) -> rusqlite::Result<()> {
    let add = |note: &Note| {
        let sql = "UPDATE note SET first_at = min(first_at, ?5), count = count + ?6
                   WHERE k = ?1 AND dialect = ?2 AND kind = ?3 AND path = ?4";
        connection.prepare_cached(sql)?.execute(row(k, note))
    };
    if add(note)? > 0 {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM note WHERE k = ?1 AND NOT (dialect = '' AND kind = ?2 AND path = '')";
    let different: u32 = connection.prepare_cached(sql)?.query_row(params![k, MORE], |row| row.get(0))?;
    let more = note.without_details();
    let fits = (different as usize) < NOTES_MAX;
    if !fits && add(&more)? > 0 {
        return Ok(());
    }
    let sql = "INSERT INTO note (k, dialect, kind, path, first_at, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(row(k, if fits { note } else { &more }))?;
    Ok(())
}

fn row(k: i64, note: &Note) -> (i64, &str, &str, &str, i64, i64) {
    let count = i64::try_from(note.count).unwrap_or(i64::MAX);
    (k, &note.dialect, &note.kind, &note.path, note.first_at.millis(), count)
}

impl Reader {
    pub(super) fn notes(&self, task: TaskId) -> rusqlite::Result<Vec<Note>> {
        if !self.holds(task)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT dialect, kind, path, first_at, count FROM note WHERE k = ?1
                   ORDER BY first_at, dialect, kind, path";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([key(task.stamp())], |row| {
            let first_at = Timestamp::from_millis(row.get(3)?);
            let count = u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0);
            Ok(Note { first_at, dialect: row.get(0)?, kind: row.get(1)?, path: row.get(2)?, count })
        })?;
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, Shared, schema};
    use sabir_proto::Stamp;
    use std::sync::Arc;

    #[test]
    fn only_notes_go_without_a_sync() {
        for (durability, level) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let connection = schema::open_writer(&dir.path().join("a.db"), &schema::TASK_LOG, durability).unwrap();
            let options = Options { durability, ..Options::default() };
            let mut writer = Writer::new(connection, Arc::new(Shared::default()), options).unwrap();
            let synchronous =
                |writer: &Writer| writer.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
            for _ in 0..2 {
                let task = TaskId::new(Stamp::from_u64(1), 1);
                let notes = vec![Note::new("d", "k", "p", Timestamp::from_millis(0))];
                writer.write_notes(&[(task, notes)]).unwrap();
                assert_eq!(synchronous(&writer), Ok(level));
                writer.relax().unwrap();
                assert_eq!(synchronous(&writer), Ok(1), "relaxed while notes are written");
                writer.tighten().unwrap();
                assert_eq!(synchronous(&writer), Ok(level));
            }
        }
    }
}
