//! Lists, as of the commit of their first page; see [`crate::TaskListQuery`] for why.

use super::reader::Reader;
use super::{key, stamp};
use crate::list::{COUNT_MAX, ListCursor, StateSet, StoredTaskPage, TaskListQuery, WALK_MS_MAX};
use rusqlite::params;
use sabir_proto::{ContextId, Stamp, TaskState};
use std::sync::atomic::Ordering;

/// A task on the list: its position at that commit, and its key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ListEntry {
    position: i64,
    k: i64,
}

/// The parameters that the queries of one page share.
struct PageQuery<'a> {
    reader: &'a Reader<'a>,
    query: &'a TaskListQuery,
    scope: i64,
    commit: i64,
    below: i64,
    since: i64,
    /// One more than wanted, to learn whether there is another page.
    rows_max: usize,
}

pub(super) fn list(reader: &Reader<'_>, listing: &TaskListQuery) -> rusqlite::Result<StoredTaskPage> {
    // Read before the view opens: commits that the view may already contain are then treated as later, which is safe.
    let last = reader.shared.commit.load(Ordering::Acquire);
    let ListCursor { commit, below } = ListCursor::of(listing, last).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let age = Stamp::from_u64(last).time().millis() - Stamp::from_u64(commit.min(last)).time().millis();
    if commit > last || age > WALK_MS_MAX {
        return Err(rusqlite::Error::InvalidQuery); // becomes `StoreError::PageToken`
    }
    let Some(scope) = reader.shared.scopes.number(&listing.scope) else {
        return Ok(StoredTaskPage { tasks: Vec::new(), next: None, total: 0 });
    };
    let page = PageQuery {
        reader,
        query: listing,
        scope,
        commit: commit.cast_signed(),
        below: key(below),
        since: key(listing.since.unwrap_or_default()),
        rows_max: listing.limit + 1,
    };
    reader.snapshot(|| page.read())
}

impl PageQuery<'_> {
    fn read(&self) -> rusqlite::Result<StoredTaskPage> {
        let mut places = match &self.query.context {
            Some(context) => self.unmoved_of_context(context)?,
            None => self.unmoved_of_owner()?,
        };
        places.extend(self.moved_since()?);
        places.sort_by_key(|p| std::cmp::Reverse(p.position));
        places.dedup();
        let mut tasks = Vec::with_capacity(self.query.limit);
        let (mut last, mut bytes) = (None, 0);
        let mut more = false;
        for place in places {
            if tasks.len() == self.query.limit {
                more = true;
                break;
            }
            if let Some(stored) = self.reader.load_at(place.k)? {
                bytes += stored.bytes();
                if bytes > self.query.bytes_max && !tasks.is_empty() {
                    more = true;
                    break;
                }
                tasks.push(stored);
            }
            last = Some(place.position);
        }
        let commit = self.commit.cast_unsigned();
        let next = last.filter(|_| more).map(|below| ListCursor { commit, below: stamp(below) }.token(self.query));
        Ok(StoredTaskPage { tasks, next, total: self.total()? })
    }

    fn states(&self) -> Vec<TaskState> {
        let wanted = |state: &TaskState| self.query.state.is_none_or(|states| states.contains(*state));
        TaskState::ALL.into_iter().filter(wanted).collect()
    }

    /// The owner's tasks that have not moved since the first page: one short range per state.
    fn unmoved_of_owner(&self) -> rusqlite::Result<Vec<ListEntry>> {
        let sql = "SELECT position, moved, k FROM task
                   WHERE scope = ?1 AND state = ?2 AND position < ?3 AND position >= ?4 ORDER BY position DESC";
        let mut places = Vec::new();
        for state in self.states() {
            let mut statement = self.reader.connection.prepare_cached(sql)?;
            let rows = statement.query((self.scope, state.number(), self.below, self.since))?;
            self.collect(rows, &mut places)?;
        }
        Ok(places)
    }

    /// The same within a context: its later tasks by index, and its first task by its stamp.
    fn unmoved_of_context(&self, context: &ContextId) -> rusqlite::Result<Vec<ListEntry>> {
        let sql = "SELECT position, moved, k FROM task
                   WHERE scope = ?1 AND context = ?2 AND position < ?3 AND position >= ?4 AND (?5 IS NULL OR ?5 & (1 << state))
                   ORDER BY position DESC";
        let mut places = Vec::new();
        let state = self.query.state.map(StateSet::bits);
        let mut statement = self.reader.connection.prepare_cached(sql)?;
        let rows = statement.query(params![self.scope, context.to_string(), self.below, self.since, state])?;
        self.collect(rows, &mut places)?;
        if let Some(k) = self.first_task_of(context)? {
            let sql = "SELECT position, moved, k FROM task
                       WHERE k = ?1 AND position < ?2 AND position >= ?3 AND (?4 IS NULL OR ?4 & (1 << state))";
            let mut statement = self.reader.connection.prepare_cached(sql)?;
            let rows = statement.query(params![k, self.below, self.since, state])?;
            self.collect(rows, &mut places)?;
        }
        Ok(places)
    }

    fn collect(&self, mut rows: rusqlite::Rows<'_>, places: &mut Vec<ListEntry>) -> rusqlite::Result<()> {
        let full = places.len() + self.rows_max;
        while places.len() < full
            && let Some(row) = rows.next()?
        {
            // `moved_since` finds later moves at their old position.
            if row.get::<_, i64>(1)? <= self.commit {
                places.push(ListEntry { position: row.get(0)?, k: row.get(2)? });
            }
        }
        Ok(())
    }

    /// The task that opened a context, if it is this owner's.
    fn first_task_of(&self, context: &ContextId) -> rusqlite::Result<Option<i64>> {
        let Some(k) = context.stamp().map(key) else { return Ok(None) };
        Ok(self.reader.load_at(k)?.filter(|s| *s.scope == *self.query.scope && in_context(s, context)).map(|_| k))
    }

    /// Tasks that have moved since the first page, at their old positions. Exactly one move of each spans the commit.
    fn moved_since(&self) -> rusqlite::Result<Vec<ListEntry>> {
        let sql = "SELECT m.was, m.k FROM move m JOIN task t ON t.k = m.k
                   WHERE m.scope = ?1 AND m.was < ?2 AND m.since <= ?3 AND m.until > ?3
                     AND t.position >= ?4 AND (?5 IS NULL OR ?5 & (1 << t.state))
                   ORDER BY m.was DESC";
        let mut places = Vec::new();
        let mut statement = self.reader.connection.prepare_cached(sql)?;
        let state = self.query.state.map(StateSet::bits);
        let mut rows = statement.query(params![self.scope, self.below, self.commit, self.since, state])?;
        while places.len() < self.rows_max
            && let Some(row) = rows.next()?
        {
            let place = ListEntry { position: row.get(0)?, k: row.get(1)? };
            let fits = match &self.query.context {
                None => true,
                Some(context) => self.reader.load_at(place.k)?.is_some_and(|s| in_context(&s, context)),
            };
            if fits {
                places.push(place);
            }
        }
        Ok(places)
    }

    fn total(&self) -> rusqlite::Result<u64> {
        let connection = self.reader.connection;
        let state = self.query.state.map(StateSet::bits);
        let count: i64 = match (&self.query.context, self.query.since) {
            (None, None) => connection
                .prepare_cached(
                    "SELECT ifnull(sum(n), 0) FROM counter WHERE scope = ?1 AND (?2 IS NULL OR ?2 & (1 << state))",
                )?
                .query_row(params![self.scope, state], |r| r.get(0))?,
            (None, Some(_)) => {
                let mut left = COUNT_MAX.cast_signed();
                for state in self.states() {
                    let sql = "SELECT count(*) FROM (SELECT 1 FROM task WHERE scope = ?1 AND state = ?2 AND position >= ?3 LIMIT ?4)";
                    left -= connection
                        .prepare_cached(sql)?
                        .query_row((self.scope, state.number(), self.since, left), |r| r.get::<_, i64>(0))?;
                }
                COUNT_MAX.cast_signed() - left
            }
            (Some(context), since) => {
                let most = if since.is_some() { COUNT_MAX.cast_signed() } else { i64::MAX };
                let sql =
                    "SELECT count(*) FROM (SELECT 1 FROM task WHERE scope = ?1 AND context = ?2 AND position >= ?3
                                                 AND (?4 IS NULL OR ?4 & (1 << state)) LIMIT ?5)";
                let later: i64 = connection
                    .prepare_cached(sql)?
                    .query_row(params![self.scope, context.to_string(), self.since, state, most], |r| r.get(0))?;
                let sql =
                    "SELECT count(*) FROM task WHERE k = ?1 AND position >= ?2 AND (?3 IS NULL OR ?3 & (1 << state))";
                let born: i64 = match self.first_task_of(context)? {
                    Some(k) => {
                        connection.prepare_cached(sql)?.query_row(params![k, self.since, state], |r| r.get(0))?
                    }
                    None => 0,
                };
                (later + born).min(most)
            }
        };
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// Whether a stored task is of this context, by its own JSON.
fn in_context(stored: &crate::StoredTask, context: &ContextId) -> bool {
    stored.context().is_some_and(|c| c == *context)
}
