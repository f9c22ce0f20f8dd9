//! The queries of operators, on the index of commits.

use super::reader::Reader;
use super::{SqliteLog, key, stamp, task_id};
use crate::{
    AdminQueries, AgentTaskCount, AllTasksQuery, ChangePlace, DEAD_COUNTED_MAX, OutboxMark, StoreFuture,
    TASK_TEXTS_SCANNED_MAX, TASKS_SCANNED_MAX, TaskSummary, TaskSummaryPage,
};
use rusqlite::{OptionalExtension, Row};
use sabir_proto::{AgentName, Stamp, TaskState, Timestamp};
use std::collections::BTreeMap;

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

    fn tasks_changed_after(&self, after: ChangePlace, limit: usize) -> StoreFuture<Vec<TaskSummary>> {
        self.read(|reader| reader.tasks_changed_after(after, limit))
    }

    fn last_change(&self) -> StoreFuture<Option<ChangePlace>> {
        let sql = "SELECT moved, k FROM task ORDER BY moved DESC, k DESC LIMIT 1";
        let read = |reader: &Reader<'_>| {
            reader.connection.prepare_cached(sql)?.query_row([], |row| Ok(place(row.get(0)?, row.get(1)?))).optional()
        };
        self.read(read)
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
        let since = query.since.map_or(0, first);
        // The place behind which the page begins, and the end of the time that was asked for.
        let end = query.before.map_or(i64::MAX, first);
        let (below, below_k) = match query.after {
            Some(after) => (after.commit.cast_signed(), after.task.cast_signed()),
            None => (end, i64::MIN),
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM task INDEXED BY task_moved
             WHERE moved <= ?1 AND (moved < ?1 OR k < ?2) AND moved >= ?3 ORDER BY moved DESC, k DESC"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((below.min(end), below_k, since))?;
        let mut page = TaskSummaryPage::default();
        let (mut scanned, mut texts) = (0, 0);
        while let Some(row) = rows.next()? {
            let here = place(row.get(5)?, row.get(0)?);
            scanned += 1;
            let fits = |summary: &TaskSummary| {
                query.agent.as_ref().is_none_or(|agent| summary.scope.agent == *agent)
                    && query.states.is_none_or(|states| states.contains(summary.state))
            };
            if let Some(summary) = self.summary(row)?.filter(fits) {
                texts += 1;
                let has_text = match &query.text {
                    Some(text) => self.has_text(summary.place, text)?,
                    None => true,
                };
                if has_text {
                    page.tasks.push(summary);
                }
            }
            let is_text_full = query.text.is_some() && texts == TASK_TEXTS_SCANNED_MAX;
            if page.tasks.len() == query.limit || scanned == TASKS_SCANNED_MAX || is_text_full {
                page.next = Some(here);
                break;
            }
        }
        Ok(page)
    }

    fn tasks_changed_after(&self, after: ChangePlace, limit: usize) -> rusqlite::Result<Vec<TaskSummary>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM task INDEXED BY task_moved
             WHERE moved >= ?1 AND (moved > ?1 OR k > ?2) ORDER BY moved, k LIMIT ?3"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query((after.commit.cast_signed(), after.task.cast_signed(), limit))?;
        let mut tasks = Vec::new();
        while let Some(row) = rows.next()? {
            tasks.extend(self.summary(row)?);
        }
        Ok(tasks)
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
            place: place(row.get(5)?, row.get(0)?),
        }))
    }

    /// Whether the task at a place has this text in its messages, its artifacts or its metadata.
    fn has_text(&self, place: ChangePlace, text: &str) -> rusqlite::Result<bool> {
        let Some(stored) = self.load_at(place.task.cast_signed())? else { return Ok(false) };
        let text = text.to_lowercase();
        let has = |json: &[u8]| String::from_utf8_lossy(json).to_lowercase().contains(&text);
        Ok(stored.base.is_some_and(|base| has(&base.task.json)) || stored.tail.iter().any(|event| has(&event.json)))
    }
}

const fn place(moved: i64, k: i64) -> ChangePlace {
    ChangePlace { commit: moved.cast_unsigned(), task: k.cast_unsigned() }
}
