//! Cancels that remote agents have not acknowledged.

use super::reader::Reader;
use super::writer::TaskLogWriter;
use super::{key, salt, task_id};
use crate::{PendingCancel, Step};
use bytes::Bytes;
use rusqlite::params;
use sabir_proto::{AgentName, TaskId, Timestamp};

impl TaskLogWriter {
    /// Stores a pending cancel, replacing the one before; or deletes it.
    pub(super) fn put_pending_cancel(&self, k: i64, step: &Step, owed: Option<&PendingCancel>) -> rusqlite::Result<()> {
        let Some(PendingCancel { data, attempts, due }) = owed else {
            self.connection.prepare_cached("DELETE FROM owed_cancel WHERE k = ?1")?.execute([k])?;
            return Ok(());
        };
        let sql = "INSERT INTO owed_cancel (k, salt, data, attempts, due) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (k) DO UPDATE SET data = ?3, attempts = ?4, due = ?5";
        let row = params![k, salt(step.task), &data[..], attempts, due.millis()];
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }
}

impl Reader<'_> {
    pub(super) fn owed_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> rusqlite::Result<Vec<(TaskId, AgentName, PendingCancel)>> {
        let sql = "SELECT o.k, o.salt, t.scope, o.data, o.attempts, o.due
                   FROM owed_cancel o JOIN task t ON t.k = o.k AND t.salt = o.salt
                   WHERE o.k > ?1 ORDER BY o.k LIMIT ?2";
        let (from, limit) = (after.map_or(-1, |id| key(id.stamp())), i64::try_from(limit).unwrap_or(i64::MAX));
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map((from, limit), |row| {
            let Some(scope) = self.shared.scopes.scope(row.get(2)?) else { return Ok(None) };
            let data = Bytes::from(row.get::<_, Vec<u8>>(3)?);
            let owed = PendingCancel { data, attempts: row.get(4)?, due: Timestamp::from_millis(row.get(5)?) };
            Ok(Some((task_id(row.get(0)?, row.get(1)?), scope.agent.clone(), owed)))
        })?;
        rows.filter_map(Result::transpose).collect()
    }
}
