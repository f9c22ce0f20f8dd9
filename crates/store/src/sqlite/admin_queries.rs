//! The queries of operators.

use super::reader::Reader;
use super::recent_changes::ChangeEntry;
use super::{SqliteLog, key, stamp, task_id};
use crate::{
    AdminQueries, AgentTaskCount, AllTasksQuery, ChangePage, ChangePlace, DEAD_COUNTED_MAX, OutboxMark, StoreFuture,
    TASK_TEXTS_SCANNED_MAX, TASKS_SCANNED_MAX, TaskSummary, TaskSummaryPage,
};
use rusqlite::Row;
use sabir_proto::{AgentName, Stamp, TaskState, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// The columns of a task without its content.
const COLUMNS: &str = "k, salt, scope, state, position, moved";

impl AdminQueries for SqliteLog {
    fn store_identity(&self) -> StoreFuture<u64> {
        let sql = "SELECT number FROM store_identity";
        let read =
            |reader: &Reader<'_>| reader.connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
        StoreFuture::ready(self.read_now(read).map(i64::cast_unsigned))
    }

    fn all_tasks(&self, query: AllTasksQuery) -> StoreFuture<TaskSummaryPage> {
        self.read(|reader| reader.snapshot(|| reader.all_tasks(&query)))
    }

    fn changes_after(&self, after: ChangePlace, limit: usize) -> StoreFuture<Option<ChangePage>> {
        let place = (after.commit, after.task.cast_signed());
        let Some(entries) = self.shared.recent_changes.after(place, limit) else {
            return StoreFuture::ready(Ok(None));
        };
        let is_last = entries.len() < limit;
        self.read(|reader| Ok(Some(ChangePage { is_last, ..reader.changes(&entries)? })))
    }

    fn last_commit(&self) -> StoreFuture<u64> {
        StoreFuture::ready(Ok(self.shared.commit.load(Ordering::Acquire)))
    }

    fn outbox_mark(&self) -> StoreFuture<OutboxMark> {
        let sql = "SELECT ifnull((SELECT max(n) FROM outbox), 0),
                          (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE buried IS NOT NULL LIMIT ?1))";
        let read = |reader: &Reader<'_>| {
            reader.connection.prepare_cached(sql)?.query_row([DEAD_COUNTED_MAX.cast_signed()], |row| {
                Ok(OutboxMark { newest: row.get(0)?, dead: super::unsigned(row.get(1)?) })
            })
        };
        self.read(read)
    }

    fn task_counts(&self) -> StoreFuture<Vec<AgentTaskCount>> {
        self.read(|reader| reader.task_counts())
    }
}

impl Reader<'_> {
    fn all_tasks(&self, query: &AllTasksQuery) -> rusqlite::Result<TaskSummaryPage> {
        let first = |time: Timestamp| key(Stamp::first_of(time));
        let below = query.before.map_or(i64::MAX, first).min(query.after.map_or(i64::MAX, u64::cast_signed));
        let sql = format!("SELECT {COLUMNS} FROM task WHERE k < ?1 AND k >= ?2 ORDER BY k DESC");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((below, query.since.map_or(0, first)))?;
        let mut page = TaskSummaryPage::default();
        let (mut scanned, mut texts) = (0, 0);
        while let Some(row) = rows.next()? {
            let here: i64 = row.get(0)?;
            scanned += 1;
            let fits = |summary: &TaskSummary| {
                query.agent.as_ref().is_none_or(|agent| summary.scope.agent == *agent)
                    && query.states.is_none_or(|states| states.contains(summary.state))
            };
            if let Some(summary) = self.summary(row)?.filter(fits) {
                texts += 1;
                let has_text = match &query.text {
                    Some(text) => self.has_text(here, text)?,
                    None => true,
                };
                if has_text {
                    page.tasks.push(summary);
                }
            }
            let is_text_full = query.text.is_some() && texts == TASK_TEXTS_SCANNED_MAX;
            if page.tasks.len() == query.limit || scanned == TASKS_SCANNED_MAX || is_text_full {
                page.next = Some(here.cast_unsigned());
                break;
            }
        }
        Ok(page)
    }

    /// The tasks of these changes that have not changed again.
    fn changes(&self, entries: &[ChangeEntry]) -> rusqlite::Result<ChangePage> {
        let end = entries.last().map(|(commit, k)| place(*commit, *k));
        let mut page = ChangePage { end, ..ChangePage::default() };
        let sql = format!("SELECT {COLUMNS} FROM task WHERE k = ?1 AND moved = ?2");
        let mut statement = self.connection.prepare_cached(&sql)?;
        for (commit, k) in entries {
            let mut rows = statement.query((k, commit.cast_signed()))?;
            if let Some(row) = rows.next()? {
                page.tasks.extend(self.summary(row)?);
            }
        }
        Ok(page)
    }

    fn task_counts(&self) -> rusqlite::Result<Vec<AgentTaskCount>> {
        let sql = "SELECT o.agent, c.state, sum(c.n) FROM counter c JOIN scope o ON o.n = c.scope
                   GROUP BY o.agent, c.state HAVING sum(c.n) > 0";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut counts = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (agent, state, count): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (Ok(agent), Some(state)) = (AgentName::parse(&agent), TaskState::from_number(state)) else { continue };
            counts.insert(
                (agent.to_string(), state.number()),
                AgentTaskCount { agent, state, count: super::unsigned(count) },
            );
        }
        Ok(counts.into_values().collect())
    }

    /// A task whose owner is known.
    fn summary(&self, row: &Row<'_>) -> rusqlite::Result<Option<TaskSummary>> {
        let (Some(scope), Some(state)) = (self.shared.scopes.scope(row.get(2)?), TaskState::from_number(row.get(3)?))
        else {
            return Ok(None);
        };
        Ok(Some(TaskSummary {
            id: task_id(row.get(0)?, row.get(1)?),
            scope,
            state,
            changed_at: stamp(row.get(4)?).time(),
            place: place(row.get::<_, i64>(5)?.cast_unsigned(), row.get(0)?),
        }))
    }

    /// Whether a task has this text in its messages, its artifacts or its metadata.
    fn has_text(&self, k: i64, text: &str) -> rusqlite::Result<bool> {
        let Some(stored) = self.load_at(k)? else { return Ok(false) };
        let text = text.to_lowercase();
        let has = |json: &[u8]| String::from_utf8_lossy(json).to_lowercase().contains(&text);
        Ok(stored.base.is_some_and(|base| has(&base.task.json)) || stored.tail.iter().any(|event| has(&event.json)))
    }
}

const fn place(commit: u64, k: i64) -> ChangePlace {
    ChangePlace { commit, task: k.cast_unsigned() }
}
