//! Pruning: deleting settled tasks when the writer is idle.
//!
//! Candidates are found on a reader, owner by owner and state by state along the index of lists; a few at a time they
//! go to the writer, which checks them again and deletes. One transaction is bounded by rows, because a step may come
//! to wait behind it, and is not synced: what a crash brings back is deleted once more.
//!
//! A task with more events than one transaction may delete disappears with the first one, which stores its key in the
//! table `forgotten`; its events follow in as many transactions as they need, after a crash as well.
//!
//! The freed pages are used by new tasks; the file does not shrink. Giving pages back one by one would need a pointer
//! map in the file, and its upkeep in every commit, to save room that the next tasks need again. A copy has no free
//! pages, and `sabir db prune --compact` makes the file small while no other process uses it.

use super::reader::Reader;
use super::writer::TaskLogWriter;
use super::{LogBackend, SqliteLog, lock, schema, stamp, store_error, stored_bytes, task_id};
use crate::retention::{OLDEST_MAX, PruneCursor, PruneProgress, Retention};
use crate::{OpenError, StoreError, StoreFuture};
use rusqlite::{Connection, OptionalExtension};
use sabir_proto::{AgentName, Stamp, TaskId, TaskState};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Tasks in one transaction.
const TASKS_AT_ONCE: usize = 64;
/// Rows of events in one transaction.
const EVENTS_AT_ONCE: u64 = 512;
/// Owners examined in one call.
const OWNERS_AT_ONCE: usize = 256;

/// The cursor before the first owner.
const BEGINNING: PruneCursor = PruneCursor { scope: 0, state: 0, position: -1 };

/// The conditions that keep a task: it has pending deliveries, or the client may still repeat the send that made it and
/// must not get a second task. Dead letters do not keep it, and go with it. The latest commit is the time here: it is
/// never ahead.
const NOT_OWED: &str = "NOT EXISTS (SELECT 1 FROM outbox o WHERE o.k = t.k AND o.buried IS NULL)
    AND NOT EXISTS (SELECT 1 FROM retry_key r WHERE r.k = t.k AND r.until > (SELECT number FROM latest))";

fn settled_states() -> impl Iterator<Item = TaskState> {
    TaskState::ALL.into_iter().filter(|state| state.is_settled())
}

/// The result of one pruning transaction.
struct PrunePass {
    /// The deleted tasks.
    gone: Vec<TaskId>,
    /// The last candidate that was handled.
    last: Option<PruneCursor>,
    /// Whether it did as much as it may, and there may be more.
    is_full: bool,
    /// What it took off the bytes of each owner, where those are counted.
    freed: HashMap<i64, i64>,
}

/// A task that may be deleted: its key, its salt and its position.
type Candidate = (i64, i64, PruneCursor);

impl Reader<'_> {
    fn owners(&self, agent: &AgentName) -> rusqlite::Result<Vec<i64>> {
        let mut statement = self.connection.prepare_cached("SELECT n FROM scope WHERE agent = ?1 ORDER BY n")?;
        statement.query_map([agent.as_str()], |row| row.get(0))?.collect()
    }

    fn agents(&self) -> rusqlite::Result<Vec<AgentName>> {
        let mut statement = self.connection.prepare_cached("SELECT DISTINCT agent FROM scope ORDER BY agent")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        // A name that is no longer legal belongs to no agent.
        names.filter_map(|name| name.map(|name| AgentName::parse(&name).ok()).transpose()).collect()
    }

    fn settled(&self, agent: &AgentName) -> rusqlite::Result<u64> {
        let sql = "SELECT ifnull(sum(c.n), 0) FROM counter c JOIN scope s ON s.n = c.scope
                   WHERE s.agent = ?1 AND c.state = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let count =
            |state: TaskState| statement.query_row((agent.as_str(), state.number()), |row| row.get::<_, i64>(0));
        Ok(settled_states().map(count).sum::<rusqlite::Result<i64>>()?.try_into().unwrap_or(0))
    }

    fn oldest(&self, agent: &AgentName, count: u64) -> rusqlite::Result<Option<Stamp>> {
        let count = count.min(OLDEST_MAX);
        let sql = "SELECT position FROM task WHERE scope = ?1 AND state = ?2 ORDER BY position LIMIT ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut places: Vec<i64> = Vec::new();
        for scope in self.owners(agent)? {
            for state in settled_states() {
                let rows = statement.query_map((scope, state.number(), count.cast_signed()), |row| row.get(0))?;
                for place in rows {
                    places.push(place?);
                }
            }
            // Bounds the memory, however many owners there are.
            if u64::try_from(places.len()).is_ok_and(|places| places > 2 * OLDEST_MAX) {
                keep_lowest(&mut places, count);
            }
        }
        keep_lowest(&mut places, count);
        Ok(places.last().copied().map(stamp))
    }

    /// The next tasks that may be deleted, and where to go on after them.
    fn candidates(
        &self,
        agent: &AgentName,
        below: i64,
        from: Option<PruneCursor>,
    ) -> rusqlite::Result<(Vec<Candidate>, Option<PruneCursor>)> {
        let sql = format!(
            "SELECT t.k, t.salt, t.position FROM task t INDEXED BY task_order
             WHERE t.scope = ?1 AND t.state = ?2 AND t.position > ?3 AND t.position < ?4 AND {NOT_OWED}
             ORDER BY t.position LIMIT ?5"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found: Vec<Candidate> = Vec::new();
        let owners = self.owners(agent)?;
        let (mut looked, mut last) = (0, None);
        for &scope in owners.iter().filter(|&&scope| from.is_none_or(|from| scope >= from.scope)) {
            if looked == OWNERS_AT_ONCE {
                return Ok((found, last));
            }
            looked += 1;
            for state in settled_states().map(TaskState::number) {
                let after = match from.filter(|from| from.scope == scope) {
                    Some(from) if state < from.state => continue,
                    Some(from) if state == from.state => from.position,
                    _ => -1,
                };
                let room = i64::try_from(TASKS_AT_ONCE - found.len()).unwrap_or(0);
                let rows = statement.query_map((scope, state, after, below, room), |row| {
                    Ok((row.get(0)?, row.get(1)?, PruneCursor { scope, state, position: row.get(2)? }))
                })?;
                for row in rows {
                    found.push(row?);
                }
                if found.len() == TASKS_AT_ONCE {
                    let next = found.last().map(|(_, _, at)| *at);
                    return Ok((found, next));
                }
                last = Some(PruneCursor { scope, state, position: below });
            }
        }
        Ok((found, None))
    }
}

/// Keeps the `count` lowest, in order.
fn keep_lowest(places: &mut Vec<i64>, count: u64) {
    places.sort_unstable();
    places.truncate(usize::try_from(count).unwrap_or(usize::MAX));
}

impl TaskLogWriter {
    /// Deletes the candidates that are still settled and have no pending deliveries, as many as one transaction may.
    fn prune(&mut self, candidates: &[Candidate]) -> Result<PrunePass, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.write_lock);
        let outcome = self.skip_sync().and_then(|()| self.try_prune(candidates));
        // The sync level cannot change inside a transaction.
        self.roll_back();
        let outcome = outcome.and_then(|done| self.require_sync().map(|()| done)).map_err(|e| store_error(&e));
        if let Ok(pass) = &outcome {
            shared.follow_stored_bytes(&pass.freed);
            shared.unsynced_commits.fetch_add(1, Ordering::Release);
        }
        outcome
    }

    fn try_prune(&self, candidates: &[Candidate]) -> rusqlite::Result<PrunePass> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut room = EVENTS_AT_ONCE;
        let (mut gone, mut last) = (Vec::new(), None);
        let mut freed = self.shared.stored_bytes.is_counted().then(HashMap::new);
        // Deletions that an earlier transaction began come first.
        delete_leftover_events(connection, &mut room, &mut freed)?;
        for &(k, salt, at) in candidates {
            if room == 0 {
                break;
            }
            last = Some(at);
            // Read before the row is deleted, and used only if it is.
            let bytes = if freed.is_some() { stored_bytes::row_bytes(connection, k)? } else { 0 };
            let sql = format!(
                "DELETE FROM task AS t WHERE t.k = ?1 AND t.salt = ?2 AND t.state = ?3 AND t.scope = ?4 AND {NOT_OWED}"
            );
            if connection.prepare_cached(&sql)?.execute((k, salt, at.state, at.scope))? == 0 {
                continue;
            }
            for table in [
                "note",
                "alias",
                "retry_key",
                "push_config",
                "outbox",
                "owed_cancel",
                "continuation",
                "snapshot",
                "checkpoint",
                "agent_data",
                "kin",
                "spend",
            ] {
                connection.prepare_cached(&format!("DELETE FROM {table} WHERE k = ?1"))?.execute([k])?;
            }
            let sql = "UPDATE counter SET n = n - 1 WHERE scope = ?1 AND state = ?2";
            connection.prepare_cached(sql)?.execute((at.scope, at.state))?;
            if let Some(freed) = &mut freed {
                *freed.entry(at.scope).or_default() -= bytes;
            }
            let owner = freed.as_ref().map(|_| at.scope);
            connection.prepare_cached("INSERT INTO forgotten (k, scope) VALUES (?1, ?2)")?.execute((k, owner))?;
            gone.push(task_id(k, salt));
            delete_leftover_events(connection, &mut room, &mut freed)?;
        }
        let freed = freed.unwrap_or_default();
        stored_bytes::write_changes(connection, &freed)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(PrunePass { gone, last, is_full: room == 0, freed })
    }
}

/// Deletes events of tasks that are gone, while there is room, and takes their bytes off their owners.
fn delete_leftover_events(
    connection: &Connection,
    room: &mut u64,
    freed: &mut Option<HashMap<i64, i64>>,
) -> rusqlite::Result<()> {
    while *room > 0 {
        let begun = connection
            .prepare_cached("SELECT k, scope FROM forgotten LIMIT 1")?
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)));
        let Some((k, owner)) = begun.optional()? else { return Ok(()) };
        if let (Some(freed), Some(owner)) = (freed.as_mut(), owner) {
            let sql = "SELECT ifnull(sum(n), 0) FROM (
                           SELECT length(lines) AS n FROM event WHERE k = ?1 ORDER BY first LIMIT ?2)";
            let bytes: i64 = connection.prepare_cached(sql)?.query_row((k, room.cast_signed()), |row| row.get(0))?;
            *freed.entry(owner).or_default() -= bytes;
        }
        let sql = "DELETE FROM event WHERE k = ?1 AND first IN
                       (SELECT first FROM event WHERE k = ?1 ORDER BY first LIMIT ?2)";
        let deleted = connection.prepare_cached(sql)?.execute((k, room.cast_signed()))?;
        let deleted = u64::try_from(deleted).unwrap_or(u64::MAX);
        if deleted < *room {
            connection.prepare_cached("DELETE FROM forgotten WHERE k = ?1")?.execute([k])?;
        }
        // A task without events costs a row as well.
        *room = room.saturating_sub(deleted.max(1));
    }
    Ok(())
}

impl Retention for SqliteLog {
    fn agents(&self) -> StoreFuture<Vec<AgentName>> {
        self.read(|r| r.agents())
    }

    fn settled_count(&self, agent: &AgentName) -> StoreFuture<u64> {
        self.read(|r| r.settled(agent))
    }

    fn oldest_settled(&self, agent: &AgentName, count: u64) -> StoreFuture<Option<Stamp>> {
        self.read(|r| r.oldest(agent, count))
    }

    fn prune(&self, agent: &AgentName, below: Stamp, from: Option<PruneCursor>) -> StoreFuture<PruneProgress> {
        let (candidates, next) = match self.read_now(|r| r.candidates(agent, super::key(below), from)) {
            Ok(found) => found,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        let unfinished = self.read_now(|r| {
            r.connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM forgotten)")?.query_row([], |row| row.get(0))
        });
        if candidates.is_empty() && unfinished == Ok(false) {
            return StoreFuture::ready(Ok(PruneProgress { tasks: 0, next }));
        }
        let work = move |writer: &mut TaskLogWriter| {
            let PrunePass { gone, last, is_full, .. } = writer.prune(&candidates)?;
            writer.shared.settled.forget(&gone);
            let tasks = u64::try_from(gone.len()).unwrap_or(0);
            // If there was no room for all, it goes on behind the last that was handled.
            let next = if is_full { last.or(from).or(Some(BEGINNING)) } else { next };
            Ok(PruneProgress { tasks, next })
        };
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.when_idle(work),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(work(&mut lock(writer))),
        }
    }
}

/// The number of tasks of each agent that could be deleted below a position. Other processes may have the file open.
pub(crate) fn prunable_tasks(task_log: &Path, below: Stamp) -> Result<Vec<(AgentName, u64)>, OpenError> {
    let connection = schema::open_existing(task_log, &schema::TASK_LOG)?;
    let states: Vec<String> = settled_states().map(|state| state.number().to_string()).collect();
    let sql = format!(
        "SELECT s.agent, count(*) FROM scope s CROSS JOIN task t INDEXED BY task_order ON t.scope = s.n
         WHERE t.state IN ({}) AND t.position < ?1 AND {NOT_OWED} GROUP BY s.agent ORDER BY s.agent",
        states.join(", ")
    );
    let read = || -> rusqlite::Result<Vec<(AgentName, u64)>> {
        let mut statement = connection.prepare(&sql)?;
        let rows =
            statement.query_map([super::key(below)], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut counts = Vec::new();
        for row in rows {
            let (agent, count) = row?;
            if let Ok(agent) = AgentName::parse(&agent) {
                counts.push((agent, u64::try_from(count).unwrap_or(0)));
            }
        }
        Ok(counts)
    };
    read().map_err(|e| OpenError::Io { path: task_log.into(), reason: e.to_string() })
}
