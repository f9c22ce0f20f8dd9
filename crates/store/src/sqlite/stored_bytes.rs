//! How many bytes each caller has in the task log, for the limit `stored_bytes_max`.
//!
//! Counted are the lines of events, the text of tasks that have settled, and what agents keep with a task. Indexes, the
//! snapshot of a task that is still open, and the outbox are not: a snapshot is at most as large as what is counted of its
//! task, and is gone when the task settles.
//!
//! The file has one number for each owner (a caller at an agent). It changes in the transaction that writes or deletes the
//! bytes, so both are there after a crash or neither is. Memory has the sum for each caller, over all agents and tenants: a
//! caller may choose a tenant, and must not escape the limit by choosing many.
//!
//! A file is counted as long as a limit is configured. The start that begins to count reads the lengths of all rows once;
//! every other start reads one row for each owner. Where no limit is configured, no step pays for the count.

use super::{StoreState, schema, unsigned};
use crate::{ByteCounting, OpenError};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use sabir_proto::Caller;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// What one row of `task`, and what an agent keeps with it, have in bytes. The row is called `t`.
const ROW_BYTES: &str = "ifnull(length(t.body), 0) + ifnull(length(t.events), 0)
    + ifnull((SELECT length(d.data) FROM agent_data d WHERE d.k = t.k), 0)";

/// What all the rows of events of a task have in bytes. The row of the task is called `t`.
const EVENT_BYTES: &str = "ifnull((SELECT sum(length(e.lines)) FROM event e WHERE e.k = t.k), 0)";

/// The sums for each caller, as of the latest commit.
#[derive(Debug, Default)]
pub(super) struct StoredBytes {
    is_counted: AtomicBool,
    by_caller: RwLock<HashMap<Caller, i64>>,
}

impl StoredBytes {
    /// Whether the bytes are counted. It does not change while the file is open.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// The bytes of a caller; zero where they are not counted.
    pub(super) fn of(&self, caller: &Caller) -> u64 {
        let by_caller = self.by_caller.read().unwrap_or_else(PoisonError::into_inner);
        by_caller.get(caller).copied().map_or(0, unsigned)
    }

    /// Adds what a transaction changed, once it is committed.
    fn add(&self, caller: &Caller, bytes: i64) {
        let mut by_caller = self.by_caller.write().unwrap_or_else(PoisonError::into_inner);
        match by_caller.get_mut(caller) {
            Some(sum) => *sum += bytes,
            None => drop(by_caller.insert(caller.clone(), bytes)),
        }
    }
}

impl StoreState {
    /// Begins or ends the count as it is wanted, and reads the sums. The owners must be known by now.
    pub(super) fn open_stored_bytes(&self, connection: &mut Connection, wanted: ByteCounting) -> rusqlite::Result<()> {
        let found = is_counted(connection)?;
        let is_counted = match wanted {
            ByteCounting::AsFound => found,
            ByteCounting::On => true,
            ByteCounting::Off => false,
        };
        if is_counted != found {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("DELETE FROM stored_bytes", [])?;
            if is_counted {
                transaction.execute(&count_sql(), [])?;
            }
            transaction.execute("UPDATE stored_bytes_counting SET is_counted = ?1", [is_counted])?;
            transaction.commit()?;
        }
        self.stored_bytes.is_counted.store(is_counted, Ordering::Relaxed);
        let mut statement = connection.prepare("SELECT scope, n FROM stored_bytes")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(scope) = self.scopes.scope(row.get(0)?) {
                self.stored_bytes.add(&scope.caller, row.get(1)?);
            }
        }
        Ok(())
    }

    /// Tells memory what a committed transaction changed, by number of owner.
    pub(super) fn follow_stored_bytes(&self, changes: &HashMap<i64, i64>) {
        for (scope, bytes) in changes {
            if let Some(scope) = self.scopes.scope(*scope) {
                self.stored_bytes.add(&scope.caller, *bytes);
            }
        }
    }
}

/// The numbers of all owners, from the rows themselves. Events of tasks that are gone count until they are deleted.
fn count_sql() -> String {
    format!(
        "INSERT INTO stored_bytes (scope, n)
         SELECT scope, sum(n) FROM (
             SELECT t.scope AS scope, {ROW_BYTES} + {EVENT_BYTES} AS n FROM task t
             UNION ALL
             SELECT f.scope, length(e.lines) FROM forgotten f JOIN event e ON e.k = f.k WHERE f.scope IS NOT NULL
         ) GROUP BY scope"
    )
}

/// Whether the bytes in a file are counted. A command may look at a file that no server of this version has opened yet.
fn is_counted(connection: &Connection) -> rusqlite::Result<bool> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < schema::COUNTS_BYTES_SINCE {
        return Ok(false);
    }
    connection.query_row("SELECT is_counted FROM stored_bytes_counting", [], |row| row.get(0))
}

/// Writes what a transaction changes, inside of it.
pub(super) fn write_changes(connection: &Connection, changes: &HashMap<i64, i64>) -> rusqlite::Result<()> {
    for (scope, bytes) in changes {
        let sql = "INSERT INTO stored_bytes (scope, n) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET n = n + ?2";
        connection.prepare_cached(sql)?.execute((scope, bytes))?;
    }
    Ok(())
}

/// What a task has in bytes, all its rows together, as this connection sees them.
pub(super) fn task_bytes(connection: &Connection, k: i64) -> rusqlite::Result<i64> {
    let sql = format!("SELECT {ROW_BYTES} + {EVENT_BYTES} FROM task t WHERE t.k = ?1");
    connection.prepare_cached(&sql)?.query_row([k], |row| row.get(0))
}

/// What a task has in bytes beside its rows of events; zero if there is no such task.
pub(super) fn row_bytes(connection: &Connection, k: i64) -> rusqlite::Result<i64> {
    let sql = format!("SELECT {ROW_BYTES} FROM task t WHERE t.k = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([k], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Finds owners whose number is not what their rows have, for `sabir db check`.
pub(super) fn wrong_counts(view: &Connection) -> rusqlite::Result<Vec<String>> {
    if !is_counted(view)? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT scope, sum(counted), sum(told) FROM (
             SELECT t.scope AS scope, {ROW_BYTES} + {EVENT_BYTES} AS counted, 0 AS told FROM task t
             UNION ALL
             SELECT f.scope, length(e.lines), 0 FROM forgotten f JOIN event e ON e.k = f.k WHERE f.scope IS NOT NULL
             UNION ALL
             SELECT scope, 0, n FROM stored_bytes
         ) GROUP BY scope HAVING sum(counted) <> sum(told)"
    );
    let mut statement = view.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        let (scope, counted, told): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!("owner {scope} has {counted} bytes stored, the counter says {told}"))
    })?;
    rows.collect()
}

/// The bytes of a caller, for a command that looks at a file which a server may have open. `None` where they are not
/// counted: no server has run on the file with a limit, or the last one ran without.
pub(crate) fn stored_bytes(task_log: &Path, caller: &Caller) -> Result<Option<u64>, OpenError> {
    let connection = schema::open_existing(task_log, &schema::TASK_LOG)?;
    let read = || -> rusqlite::Result<Option<u64>> {
        if !is_counted(&connection)? {
            return Ok(None);
        }
        let sql = "SELECT sum(b.n) FROM scope s JOIN stored_bytes b ON b.scope = s.n WHERE s.caller = ?1";
        let sum: Option<i64> = connection.query_row(sql, [caller.name()], |row| row.get(0))?;
        Ok(Some(sum.map_or(0, unsigned)))
    };
    read().map_err(|e| OpenError::Io { path: task_log.into(), reason: e.to_string() })
}
