//! Reads, inline on the caller's thread: the file is in the page cache, and a hop to another thread costs more than the
//! read. Connections are pooled, one per thread that reads at the same time.

use super::{LogBackend, SqliteLog, StoreState, key, lock, number, salt, schema, seq, stamp, store_error, task_id};
use crate::{Digest, RetryMark, Scope, StoreError, StoreFuture, StoredRetry, StoredTask, TaskSnapshot, TurnProgress};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{FrozenEvent, FrozenTask, PushConfig, Seq, Stamp, TaskId, TaskState};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes that one read of events brings into memory, without the last row: thousands of slow readers may do it at once.
const REPLAY_BYTES: usize = 256 << 10;
/// Idle connections beyond this are closed.
const IDLE_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.into(), idle: Mutex::default() }
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = lock(&self.idle).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::open_reader(&self.path)?,
        };
        let outcome = read(&connection);
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        outcome
    }
}

impl SqliteLog {
    /// Reads on a connection of the pool, or in memory on the only one.
    pub(super) fn read_now<T>(&self, read: impl FnOnce(&Reader<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let read = |connection: &Connection| read(&Reader { connection, shared: &self.shared });
        let outcome = match &self.backend {
            LogBackend::Threaded { readers, .. } | LogBackend::Inline { readers: Some(readers), .. } => {
                readers.with(read)
            }
            LogBackend::Inline { readers: None, writer } => read(&lock(writer).connection),
        };
        outcome.map_err(|e| {
            let error = match e {
                rusqlite::Error::InvalidQuery => StoreError::PageToken,
                e => store_error(&e),
            };
            self.shared.record_damage(&error);
            error
        })
    }

    /// Like [`SqliteLog::read_now`], as the future that the traits return.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Reader<'_>) -> rusqlite::Result<T>) -> StoreFuture<T> {
        StoreFuture::ready(self.read_now(read))
    }
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) connection: &'a Connection,
    pub(super) shared: &'a StoreState,
}

const COLUMNS: &str = "k, salt, scope, state, head, turn, attempt, history_at, artifacts_at, body, child, adopted";

impl Reader<'_> {
    /// Runs several statements on one view of the file.
    pub(super) fn snapshot<T>(&self, read: impl FnOnce() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.connection.prepare_cached("BEGIN")?.execute([])?;
        let outcome = read();
        // Ends the view; a read transaction has nothing to lose.
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        outcome
    }

    /// Tasks that were transferred since then, oldest first.
    pub(super) fn handed_over(&self, since: Stamp, limit: usize) -> rusqlite::Result<Vec<TaskId>> {
        let sql = "SELECT k, salt FROM task INDEXED BY task_handed_over
                   WHERE state = 9 AND position >= ?1 ORDER BY position LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        statement.query_map((key(since), limit), |row| Ok(task_id(row.get(0)?, row.get(1)?)))?.collect()
    }

    pub(super) fn load(&self, id: TaskId) -> rusqlite::Result<Option<StoredTask>> {
        match self.row(key(id.stamp()))? {
            Some(found) if found.id != id => Ok(None),
            Some(settled) if settled.base.is_some() => Ok(Some(settled)),
            // Loading takes several statements from here on, so the first is repeated inside one view.
            Some(_) => self.snapshot(|| self.load_at(key(id.stamp()))),
            None => Ok(None),
        }
    }

    /// The data that the agent of a task stored with it.
    pub(super) fn agent_data(&self, task: TaskId) -> rusqlite::Result<Option<Bytes>> {
        let sql = "SELECT data FROM agent_data JOIN task USING (k) WHERE k = ?1 AND salt = ?2";
        let row = (key(task.stamp()), salt(task));
        let data: Option<Vec<u8>> = self.connection.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?;
        Ok(data.map(Bytes::from))
    }

    pub(super) fn load_at(&self, k: i64) -> rusqlite::Result<Option<StoredTask>> {
        let Some(mut stored) = self.row(k)? else { return Ok(None) };
        if stored.base.is_none() {
            self.fill(k, &mut stored)?;
        }
        Ok(Some(stored))
    }

    fn row(&self, k: i64) -> rusqlite::Result<Option<StoredTask>> {
        let sql = format!("SELECT {COLUMNS} FROM task WHERE k = ?1");
        let row = self.connection.prepare_cached(&sql)?.query_row([k], |row| self.stored(row)).optional()?;
        Ok(row.flatten())
    }

    fn stored(&self, row: &Row<'_>) -> rusqlite::Result<Option<StoredTask>> {
        let Some(scope) = self.shared.scopes.scope(row.get(2)?) else { return Ok(None) };
        let state = state(row.get(3)?)?;
        let head = seq(row.get(4)?);
        let base = match row.get::<_, Option<Vec<u8>>>(9)? {
            Some(json) => {
                let task = whole(json, state, row.get(7)?, row.get(8)?)?;
                Some(TaskSnapshot { seq: head, task })
            }
            None => None,
        };
        let turn = seq(row.get::<_, Option<i64>>(5)?.unwrap_or(0));
        let attempt = row.get::<_, Option<u32>>(6)?.unwrap_or(0);
        let progress = TurnProgress { turn, attempt, checkpoint: None };
        let (id, is_child) = (task_id(row.get(0)?, row.get(1)?), row.get::<_, Option<i64>>(10)?.is_some());
        let is_adopted = row.get::<_, Option<i64>>(11)?.is_some();
        Ok(Some(StoredTask {
            id,
            scope,
            state,
            head,
            base,
            tail: Vec::new(),
            progress,
            is_child,
            is_claimed: is_adopted,
        }))
    }

    /// Reads what an unsettled task has outside its row.
    fn fill(&self, k: i64, stored: &mut StoredTask) -> rusqlite::Result<()> {
        let state = stored.state;
        let sql = "SELECT seq, history_at, artifacts_at, json FROM snapshot WHERE k = ?1";
        stored.base = self
            .connection
            .prepare_cached(sql)?
            .query_row([k], |row| {
                let json: Vec<u8> = row.get(3)?;
                let task = whole(json, state, row.get(1)?, row.get(2)?)?;
                Ok(TaskSnapshot { seq: seq(row.get(0)?), task })
            })
            .optional()?;
        let from = stored.base.as_ref().map_or(Seq(0), |b| b.seq);
        stored.tail = self.stepped_events(k, from, usize::MAX, usize::MAX)?;
        // The row is only updated by events that moved the task; a snapshot may be later than that, and the tail empty.
        stored.head = stored.tail.last().map_or(from.max(stored.head), |last| last.seq);
        let sql = "SELECT data FROM checkpoint WHERE k = ?1";
        let data: Option<Vec<u8>> = self.connection.prepare_cached(sql)?.query_row([k], |r| r.get(0)).optional()?;
        stored.progress.checkpoint = data.map(Bytes::from);
        Ok(())
    }

    pub(super) fn events(&self, id: TaskId, after: Seq, limit: usize) -> rusqlite::Result<Vec<FrozenEvent>> {
        let k = key(id.stamp());
        if !self.holds(id)? {
            return Ok(Vec::new());
        }
        let stepped = self.stepped_events(k, after, limit, REPLAY_BYTES)?;
        if !stepped.is_empty() || after > Seq(0) && self.has_steps(k)? {
            return Ok(stepped);
        }
        // A one-row task has its events, or its only event, in its row.
        let sql = "SELECT state, history_at, artifacts_at, body, events FROM task WHERE k = ?1 AND body IS NOT NULL";
        let whole = self.connection.prepare_cached(sql)?.query_row([k], |row| {
            if let Some(lines) = row.get::<_, Option<Vec<u8>>>(4)? {
                return split(Seq(1), lines, after, limit);
            }
            let json: Vec<u8> = row.get(3)?;
            let (history_at, artifacts_at) = (row.get(1)?, row.get(2)?);
            let task = whole(json, state(row.get(0)?)?, history_at, artifacts_at)?;
            let only = FrozenEvent::of_task(Seq(1), &task);
            Ok(if after < Seq(1) && limit > 0 { vec![only] } else { Vec::new() })
        });
        Ok(whole.optional()?.unwrap_or_default())
    }

    pub(super) fn has_tasks(&self) -> rusqlite::Result<bool> {
        self.connection.query_row("SELECT EXISTS (SELECT 1 FROM task)", [], |row| row.get(0))
    }

    /// Whether this very task is here: a stamp finds a row, but only all bits of an id identify it.
    pub(super) fn holds(&self, id: TaskId) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM task WHERE k = ?1 AND salt = ?2)";
        self.connection.prepare_cached(sql)?.query_row((key(id.stamp()), salt(id)), |r| r.get(0))
    }

    fn has_steps(&self, k: i64) -> rusqlite::Result<bool> {
        self.connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM event WHERE k = ?1)")?.query_row([k], |r| r.get(0))
    }

    /// At most `limit` events; reading stops after the row that reaches `bytes_max`.
    fn stepped_events(&self, k: i64, after: Seq, limit: usize, bytes_max: usize) -> rusqlite::Result<Vec<FrozenEvent>> {
        // Steps are contiguous, so the step that holds `after + 1` is the last one that begins at or before it.
        let sql = "SELECT first, lines FROM event WHERE k = ?1 AND first >= ifnull(
                       (SELECT max(first) FROM event WHERE k = ?1 AND first <= ?2 + 1), 0) ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query((k, number(after)))?;
        let mut events: Vec<FrozenEvent> = Vec::new();
        let mut bytes = 0;
        while events.len() < limit
            && bytes < bytes_max
            && let Some(row) = rows.next()?
        {
            let lines: Vec<u8> = row.get(1)?;
            bytes += lines.len();
            events.extend(split(seq(row.get(0)?), lines, after, limit - events.len())?);
        }
        Ok(events)
    }

    pub(super) fn unfinished(&self, after: Option<TaskId>, limit: usize) -> rusqlite::Result<Vec<StoredTask>> {
        // Owners first, then two short ranges of each: the other way round would read the whole index at every start.
        let sql = "SELECT t.k FROM scope s CROSS JOIN task t INDEXED BY task_order
                   WHERE t.scope = s.n AND t.state IN (1, 2) AND t.k > ?1 ORDER BY t.k LIMIT ?2";
        let mut from = after.map_or(-1, |id| key(id.stamp()));
        self.snapshot(|| {
            let mut statement = self.connection.prepare_cached(sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            loop {
                let keys = statement.query_map((from, limit), |r| r.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
                let Some(last) = keys.last() else { return Ok(Vec::new()) };
                from = *last;
                let found: Vec<StoredTask> =
                    keys.into_iter().filter_map(|k| self.load_readable(k).transpose()).collect::<Result<_, _>>()?;
                // The caller would take an empty page for the end.
                if !found.is_empty() {
                    return Ok(found);
                }
            }
        })
    }

    /// Loads a task; an unreadable one is logged and skipped, so that it does not keep all others from being served.
    fn load_readable(&self, k: i64) -> rusqlite::Result<Option<StoredTask>> {
        match self.load_at(k) {
            Err(error) if matches!(store_error(&error), StoreError::Corrupt(_)) => {
                self.shared.record_damage(&store_error(&error));
                let salt =
                    self.connection.prepare_cached("SELECT salt FROM task WHERE k = ?1")?.query_row([k], |r| r.get(0));
                let task = salt.map_or_else(|_| k.to_string(), |salt| task_id(k, salt).to_string());
                tracing::error!(task, %error, "an unfinished task cannot be read; it is left as it is");
                Ok(None)
            }
            loaded => loaded,
        }
    }

    pub(super) fn recent_retries(&self, since: Stamp, limit: usize) -> rusqlite::Result<Vec<StoredRetry>> {
        let sql = "SELECT k, salt, retry, at FROM (
                       SELECT k, salt, retry, k AS at FROM task INDEXED BY task_retry
                       WHERE k >= ?1 AND retry IS NOT NULL
                       UNION ALL
                       SELECT e.k, t.salt, e.retry, e.at FROM event e INDEXED BY event_retry CROSS JOIN task t ON t.k = e.k
                       WHERE e.at >= ?1 AND e.retry IS NOT NULL
                   ) ORDER BY at DESC LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((key(since), limit), |row| {
            Ok(StoredRetry {
                mark: mark(&row.get::<_, Vec<u8>>(2)?),
                task: task_id(row.get(0)?, row.get(1)?),
                at: stamp(row.get(3)?),
            })
        })?;
        let mut kept = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        kept.reverse();
        Ok(kept)
    }

    pub(super) fn explicit_retry(&self, wanted: Digest, now: Stamp) -> rusqlite::Result<Option<StoredRetry>> {
        let sql = "SELECT k, salt, digest, at FROM retry_key WHERE key = ?1 AND until > ?2";
        let found = self.connection.prepare_cached(sql)?.query_row(params![wanted, key(now)], |row| {
            let mark = RetryMark { key: wanted, digest: row.get(2)? };
            Ok(StoredRetry { mark, task: task_id(row.get(0)?, row.get(1)?), at: stamp(row.get(3)?) })
        });
        found.optional()
    }

    pub(super) fn retry_key_before(&self, key: Digest) -> rusqlite::Result<Option<Digest>> {
        let sql = "SELECT key FROM retry_key WHERE key < ?1 ORDER BY key DESC LIMIT 1";
        self.connection.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()
    }

    pub(super) fn alias(&self, scope: &Scope, name: &str) -> rusqlite::Result<Option<TaskId>> {
        let Some(scope) = self.shared.scopes.number(scope) else { return Ok(None) };
        let sql = "SELECT k, salt FROM alias WHERE scope = ?1 AND name = ?2";
        let named = |row: &Row<'_>| Ok(task_id(row.get(0)?, row.get(1)?));
        self.connection.prepare_cached(sql)?.query_row((scope, name), named).optional()
    }

    pub(super) fn aliases_of(&self, task: TaskId) -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM alias WHERE k = ?1 AND salt = ?2 ORDER BY name";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_map((key(task.stamp()), salt(task)), |row| row.get(0))?.collect()
    }

    pub(super) fn owner(&self, task: TaskId) -> rusqlite::Result<Option<Arc<Scope>>> {
        let sql = "SELECT scope FROM task WHERE k = ?1 AND salt = ?2";
        let scope = self.connection.prepare_cached(sql)?.query_row((key(task.stamp()), salt(task)), |row| row.get(0));
        Ok(scope.optional()?.and_then(|scope| self.shared.scopes.scope(scope)))
    }

    pub(super) fn pushes(&self, task: TaskId) -> rusqlite::Result<Vec<PushConfig>> {
        if !self.holds(task)? {
            return Ok(Vec::new());
        }
        let mut statement = self.connection.prepare_cached("SELECT json FROM push_config WHERE k = ?1 ORDER BY id")?;
        let rows = statement.query_map([key(task.stamp())], |row| row.get::<_, Vec<u8>>(0))?;
        rows.map(|json| PushConfig::from_json(&json?).ok_or_else(|| damaged("push configuration"))).collect()
    }

    pub(super) fn last_stamp(&self) -> Stamp {
        // Commits are numbered at or above every stamp that was committed.
        Stamp::from_u64(self.shared.commit.load(Ordering::Acquire))
    }
}

pub(super) fn state(number: i64) -> rusqlite::Result<TaskState> {
    TaskState::from_number(number).ok_or_else(|| damaged("task state"))
}

/// A task's text with its offsets, once they are checked: readers slice by them unchecked.
pub(super) fn whole(
    json: Vec<u8>,
    state: TaskState,
    history_at: u32,
    artifacts_at: u32,
) -> rusqlite::Result<FrozenTask> {
    let in_order = history_at <= artifacts_at && (artifacts_at as usize) < json.len();
    if !in_order || !json.starts_with(b"{") || !json.ends_with(b"}") {
        return Err(damaged("task"));
    }
    Ok(FrozenTask { json: json.into(), state, history_at, artifacts_at })
}

fn mark(bytes: &[u8]) -> RetryMark {
    let half = |range: std::ops::Range<usize>| bytes.get(range).and_then(|b| b.try_into().ok()).unwrap_or_default();
    RetryMark { key: half(0..16), digest: half(16..32) }
}

/// The events of a row after the cursor.
pub(super) fn split(first: Seq, lines: Vec<u8>, after: Seq, limit: usize) -> rusqlite::Result<Vec<FrozenEvent>> {
    let lines = Bytes::from(lines);
    let mut events = Vec::new();
    let (mut at, mut number) = (0, first);
    while at <= lines.len() && events.len() < limit {
        let end = lines[at..].iter().position(|b| *b == b'\n').map_or(lines.len(), |n| at + n);
        if number > after {
            events.push(FrozenEvent::read_line(number, lines.slice(at..end)).ok_or_else(|| damaged("event"))?);
        }
        (at, number) = (end + 1, number.next());
    }
    Ok(events)
}

pub(super) fn damaged(what: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(format!("unreadable {what}")))
}
