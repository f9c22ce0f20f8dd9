//! Checking a store: SQLite's own integrity check, and checks of the rows that only this program can make.
//!
//! | Check | Scope |
//! |---|---|
//! | pages, indexes, constraints | both files; SQLite's own check |
//! | every task: its owner, its state, its text, its events without a gap, its head | the task log |
//! | every push configuration can be read; its deliveries are in order and have their events | the task log |
//! | every venue is indexed; slots agree with bookings, bookings with usage, batches with their usage | the task log |
//! | counters agree with what they count; no row belongs to a task that does not exist | the task log |
//! | every entry of the audit follows from the one before | the guard's file |
//!
//! The rows are read on one view of the file, so a server may work on it meanwhile. Nothing is ever repaired: an
//! operator restores a damaged store from a copy.

use super::guard::{SqliteGuard, audit};
use super::{reader, schema, seq, stored_bytes, task_id};
use crate::{CheckProgress, CheckReport, OpenError, PROBLEMS_MAX, StoreError};
use rusqlite::{Connection, Row};
use sabir_proto::{FrozenEvent, FrozenTask, PushConfig, Seq, TaskState};
use std::path::Path;

/// Tasks between two progress reports.
const PROGRESS_EVERY: u64 = 10_000;

/// Checks the store with this task log. An error means that a file cannot be checked at all.
pub(crate) fn check(task_log: &Path, looked: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, OpenError> {
    let guard = SqliteGuard::path_beside(task_log);
    let mut checked = CheckReport::default();
    let connection = schema::open_existing(task_log, &schema::TASK_LOG)?;
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |e: rusqlite::Error| match super::store_error(&e) {
            StoreError::Corrupt(reason) => OpenError::Damaged { path, reason },
            _ => OpenError::Io { path, reason: e.to_string() },
        }
    };
    looked(CheckProgress::Pages(task_log.into()));
    if pages(&connection, task_log, &mut checked).map_err(fail(task_log))? {
        // Where pages are damaged, every row would be reported.
        rows(&connection, &mut checked, looked).map_err(fail(task_log))?;
    }
    let connection = schema::open_existing(&guard, &schema::GUARD)?;
    looked(CheckProgress::Pages(guard.clone()));
    if pages(&connection, &guard, &mut checked).map_err(fail(&guard))? {
        looked(CheckProgress::Audit);
        let verified = audit::verify(&connection, None).map_err(fail(&guard))?;
        checked.audit = verified.entries;
        if let Some(broken) = verified.first_break {
            checked.add_problem(format!("the audit is broken: {broken}"));
        }
        let sql = "SELECT id FROM key_use WHERE id NOT IN (SELECT id FROM api_key)";
        report_texts(&connection, sql, &mut checked, "a use of a key that is not there:").map_err(fail(&guard))?;
    }
    Ok(checked)
}

/// Runs SQLite's own check; true if it found nothing.
fn pages(connection: &Connection, path: &Path, checked: &mut CheckReport) -> rusqlite::Result<bool> {
    let before = checked.problems.len();
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    let mut said = statement.query([])?;
    while let Some(row) = said.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            checked.add_problem(format!("{}: {line}", path.display()));
        }
    }
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut said = statement.query([])?;
    while let Some(row) = said.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        checked.add_problem(format!(
            "{}: a row of {table} belongs to a row of {parent} that is not there",
            path.display()
        ));
    }
    Ok(checked.problems.len() == before)
}

fn rows(
    connection: &Connection,
    checked: &mut CheckReport,
    looked: &mut dyn FnMut(CheckProgress),
) -> rusqlite::Result<()> {
    let view = connection.unchecked_transaction()?;
    tasks(&view, checked, looked)?;
    counters(&view, checked)?;
    deliveries(&view, checked)?;
    ledger(&view, checked)?;
    // Not the moves: they are deleted by their age alone, and mean nothing without their tasks.
    for (table, also) in [
        ("event", " UNION ALL SELECT 1 FROM forgotten WHERE forgotten.k = one.k"),
        ("snapshot", ""),
        ("checkpoint", ""),
        ("agent_data", ""),
        ("note", ""),
        ("push_config", ""),
        ("alias", " AND task.salt = one.salt AND task.scope = one.scope"),
        ("outbox", " AND task.salt = one.salt"),
        ("retry_key", " AND task.salt = one.salt"),
        ("continuation", " AND task.salt = one.salt"),
        ("owed_cancel", " AND task.salt = one.salt"),
        ("kin", " AND task.child = 1"),
    ] {
        let sql = format!(
            "SELECT count(*) FROM {table} one WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.k = one.k{also})"
        );
        let orphans: i64 = view.query_row(&sql, [], |row| row.get(0))?;
        if orphans > 0 {
            checked.add_problem(format!("{orphans} rows of {table} belong to tasks that are not there"));
        }
    }
    let sql = "SELECT count(*) FROM task WHERE child = 1 AND NOT EXISTS (SELECT 1 FROM kin WHERE kin.k = task.k)";
    let lost: i64 = view.query_row(sql, [], |row| row.get(0))?;
    if lost > 0 {
        checked.add_problem(format!("{lost} tasks are another task's, and it is not said whose"));
    }
    Ok(())
}

/// Checks every task with its events.
fn tasks(view: &Connection, checked: &mut CheckReport, looked: &mut dyn FnMut(CheckProgress)) -> rusqlite::Result<()> {
    let count = |sql: &str| view.query_row(sql, [], |row| row.get::<_, i64>(0));
    let of = u64::try_from(count("SELECT count(*) FROM task")?).unwrap_or(0);
    let latest = count("SELECT ifnull(max(number), -1) FROM latest")?;
    let sql = "SELECT t.k, t.salt, t.state, t.head, t.history_at, t.artifacts_at, t.body, t.events, t.moved,
                   t.scope IN (SELECT n FROM scope), EXISTS (SELECT 1 FROM snapshot s WHERE s.k = t.k),
                   EXISTS (SELECT 1 FROM checkpoint c WHERE c.k = t.k)
               FROM task t ORDER BY t.k";
    let mut statement = view.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = task_id(row.get(0)?, row.get(1).unwrap_or_default());
        let problems = match TaskRows::read(view, row, latest) {
            Ok(kept) => kept.problems(&mut checked.events),
            Err(error @ rusqlite::Error::SqliteFailure(..)) => return Err(error),
            // A column has a value of another type than this program writes.
            Err(error) => vec![format!("its rows cannot be read: {error}")],
        };
        problems.into_iter().for_each(|problem| checked.add_problem(format!("task {id}: {problem}")));
        checked.tasks += 1;
        if checked.tasks.is_multiple_of(PROGRESS_EVERY) {
            looked(CheckProgress::Tasks(checked.tasks, of));
        }
    }
    looked(CheckProgress::Tasks(checked.tasks, of));
    Ok(())
}

/// A task as its rows have it.
struct TaskRows {
    id: sabir_proto::TaskId,
    state: Option<TaskState>,
    head: Seq,
    body: Option<rusqlite::Result<FrozenTask>>,
    /// Its steps: the number of the first event, of the last, and the lines.
    steps: Vec<(Seq, Seq, Vec<u8>)>,
    /// Whether the events are in the task's own row.
    is_one_row: bool,
    /// A text for every simple check that failed.
    oddities: Vec<&'static str>,
}

impl TaskRows {
    fn read(view: &Connection, row: &Row<'_>, latest: i64) -> rusqlite::Result<Self> {
        let k: i64 = row.get(0)?;
        let state = reader::state(row.get(2)?).ok();
        let head = seq(row.get(3)?);
        let body: Option<Vec<u8>> = row.get(6)?;
        let (history_at, artifacts_at) = (row.get::<_, Option<u32>>(4)?, row.get::<_, Option<u32>>(5)?);
        let body = body.map(|json| {
            reader::whole(
                json,
                state.unwrap_or(TaskState::Unspecified),
                history_at.unwrap_or(0),
                artifacts_at.unwrap_or(u32::MAX),
            )
        });
        let lines: Option<Vec<u8>> = row.get(7)?;
        let is_one_row = lines.is_some();
        let mut steps: Vec<(Seq, Seq, Vec<u8>)> = lines.map(|lines| (Seq(1), head, lines)).into_iter().collect();
        let mut statement = view.prepare_cached("SELECT first, last, lines FROM event WHERE k = ?1 ORDER BY first")?;
        let more = statement.query_map([k], |row| Ok((seq(row.get(0)?), seq(row.get(1)?), row.get(2)?)))?;
        steps.extend(more.collect::<rusqlite::Result<Vec<_>>>()?);
        let settled = state.is_some_and(TaskState::is_settled);
        let (owned, snapshot, checkpoint): (bool, bool, bool) = (row.get(9)?, row.get(10)?, row.get(11)?);
        let odd = [
            (!owned, "its owner is not there"),
            (state.is_none(), "it is in no state we know"),
            (row.get::<_, i64>(8)? > latest, "it moved in a commit that is yet to come"),
            (settled && body.is_none(), "it has settled, and its text is missing"),
            (!settled && body.is_some(), "it has not settled, and has its last text"),
            (settled && (snapshot || checkpoint), "it has settled, and what it needed before is still there"),
            (!settled && !snapshot && steps.is_empty(), "it has neither events nor a snapshot"),
            (is_one_row && steps.len() > 1, "it has events in its row and beside it"),
        ];
        let odd = odd.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)).collect();
        Ok(Self { id: task_id(k, row.get(1)?), state, head, body, steps, is_one_row, oddities: odd })
    }

    /// The problems of the task.
    fn problems(self, events: &mut u64) -> Vec<String> {
        let mut problems: Vec<String> = self.oddities.iter().map(|&word| word.to_owned()).collect();
        match self.body.as_ref().map(|body| body.as_ref().ok().and_then(FrozenTask::thaw)) {
            None => {}
            Some(None) => problems.push("its text cannot be read".into()),
            Some(Some(task)) if task.id != self.id => problems.push("its text is another task's".into()),
            Some(Some(task)) if Some(task.status.state) != self.state => {
                problems.push(format!("its text says {}, its row something else", task.status.state));
            }
            Some(Some(_)) => {}
        }
        if self.steps.is_empty() {
            // The text is the task's only event.
            *events += u64::from(self.body.is_some());
            if self.body.is_some() && self.head != Seq(1) {
                problems.push(format!("its row counts {} events, and there is one", self.head));
            }
            return problems;
        }
        let (mut last, mut state) = (Seq(0), None);
        for (first, until, lines) in self.steps {
            if first != last.next() {
                problems.push(format!("event {} is missing: after {last} comes {first}", last.next()));
            }
            let Ok(read) = reader::split(first, lines, Seq(0), usize::MAX) else {
                problems.push(format!("its events from {first} to {until} cannot be read"));
                last = until;
                continue;
            };
            *events += u64::try_from(read.len()).unwrap_or(0);
            if read.last().map(|event| event.seq) != Some(until) {
                problems.push(format!("its events from {first} to {until} are {} in number", read.len()));
            }
            if read.iter().any(|event| event.task_id() != Some(self.id)) {
                problems.push(format!("its events from {first} to {until} are another task's"));
            }
            state = read.iter().rev().find_map(|event: &FrozenEvent| event.state).or(state);
            last = until;
        }
        let settled = self.state.is_some_and(TaskState::is_settled);
        // The row of an unsettled task is only updated by events that moved the task.
        if (settled || self.is_one_row) && self.head != last || self.head > last {
            problems.push(format!("its row counts {} events, its log {last}", self.head));
        }
        if state != self.state {
            let told = state.map_or("nothing".to_owned(), |state| state.to_string());
            problems.push(format!("its events say {told}, its row something else"));
        }
        problems
    }
}

fn counters(view: &Connection, checked: &mut CheckReport) -> rusqlite::Result<()> {
    let sql = "SELECT scope, state, sum(counted), sum(told) FROM (
                   SELECT scope, state, count(*) AS counted, 0 AS told FROM task GROUP BY scope, state
                   UNION ALL SELECT scope, state, 0, n FROM counter
               ) GROUP BY scope, state HAVING sum(counted) <> sum(told)";
    let mut statement = view.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, state, counted, told): (i64, i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        checked.add_problem(format!("owner {scope} has {counted} tasks in state {state}, the counter says {told}"));
    }
    for wrong in stored_bytes::wrong_counts(view)? {
        checked.add_problem(wrong);
    }
    Ok(())
}

/// Checks push configurations and their deliveries.
fn deliveries(view: &Connection, checked: &mut CheckReport) -> rusqlite::Result<()> {
    let mut statement = view.prepare("SELECT c.k, t.salt, c.id, c.json FROM push_config c JOIN task t ON t.k = c.k")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (task, config): (_, String) = (task_id(row.get(0)?, row.get(1)?), row.get(2)?);
        let json = row.get_ref(3)?.as_bytes().unwrap_or_default();
        if PushConfig::from_json(json).is_none_or(|read| read.id.as_deref() != Some(&*config)) {
            checked.add_problem(format!("task {task}: its push configuration {config} cannot be read"));
        }
    }
    let head = "CASE WHEN t.body IS NULL
                     THEN ifnull((SELECT max(e.last) FROM event e WHERE e.k = t.k), t.head) ELSE t.head END";
    for (wrong, sql) in [
        (
            "is owed to a configuration that is not there",
            "SELECT o.n FROM outbox o WHERE NOT EXISTS (
              SELECT 1 FROM push_config c WHERE c.k = o.k AND c.id = o.config)"
                .to_owned(),
        ),
        (
            "holds events that are not there",
            format!(
                "SELECT o.n FROM outbox o JOIN task t ON t.k = o.k
              WHERE o.next < 1 OR o.next > o.last OR o.last > {head}"
            ),
        ),
        ("is dead, and yet due", "SELECT n FROM outbox WHERE buried IS NOT NULL AND due IS NOT NULL".to_owned()),
        (
            "is the oldest of its configuration, and never due; or it is due, and not the oldest",
            "SELECT o.n FROM outbox o WHERE o.buried IS NULL AND (o.due IS NOT NULL) <> (o.n = (
              SELECT i.n FROM outbox i WHERE i.k = o.k AND i.config = o.config AND i.buried IS NULL
              ORDER BY i.next LIMIT 1))"
                .to_owned(),
        ),
    ] {
        let mut statement = view.prepare(&sql)?;
        for number in statement.query_map([], |row| row.get::<_, i64>(0))? {
            checked.add_problem(format!("letter {} {wrong}", number?));
        }
    }
    Ok(())
}

/// Checks the ledger: bookings, usage and batches agree.
fn ledger(view: &Connection, checked: &mut CheckReport) -> rusqlite::Result<()> {
    let real = r#"(held = 0 OR moves LIKE '%"to":"pending"%')"#;
    let id = "printf('%08x-%04x-7%03x-%04x-%012x', k >> 31, (k >> 15) & 65535, (k & 32767) >> 3,
                     32768 | ((k & 7) << 11) | (salt >> 48), salt & 281474976710655)";
    let live = "SELECT venue, slot, count(*) AS n FROM booking WHERE slot IS NOT NULL AND status <> 'cancelled'
                GROUP BY venue, slot";
    for (what, sql) in [
        (
            "a venue that a search does not find, or finds in vain:",
            "SELECT slug FROM venue WHERE active = 1 AND n NOT IN (SELECT id FROM venue_text_docsize)
             UNION ALL SELECT 'no ' || id FROM venue_text_docsize WHERE id NOT IN (SELECT n FROM venue WHERE active = 1)"
                .to_owned(),
        ),
        (
            "a slot that is taken by other than its bookings:",
            format!(
                "SELECT s.venue || ' ' || s.id FROM slot s LEFT JOIN ({live}) b ON b.venue = s.venue AND b.slot = s.id
                 WHERE s.taken <> ifnull(b.n, 0)
                 UNION ALL SELECT b.venue || ' ' || b.slot FROM ({live}) b
                 WHERE NOT EXISTS (SELECT 1 FROM slot s WHERE s.venue = b.venue AND s.id = b.slot)"
            ),
        ),
        (
            "a booking in a state that we do not know:",
            format!(
                "SELECT {id} FROM booking WHERE status NOT IN
                 ('pending_payment', 'pending', 'confirmed', 'completed', 'no_show', 'cancelled')"
            ),
        ),
        (
            "a booking that is not counted:",
            format!("SELECT {id} FROM booking WHERE {real} AND k NOT IN (SELECT k FROM usage)"),
        ),
        (
            "a count of no booking:",
            format!("SELECT {id} FROM usage WHERE k NOT IN (SELECT k FROM booking WHERE {real})"),
        ),
        (
            "a batch that says other than what is in it:",
            "SELECT b.id FROM usage_batch b LEFT JOIN (SELECT batch, count(*) AS n FROM usage GROUP BY batch) u
             ON u.batch = b.id WHERE b.count <> ifnull(u.n, 0)"
                .to_owned(),
        ),
        (
            "a payment for a booking that is not there:",
            format!("SELECT {id} FROM payment WHERE books = 1 AND k NOT IN (SELECT k FROM booking)"),
        ),
    ] {
        report_texts(view, &sql, checked, what)?;
    }
    Ok(())
}

/// Reports every text that a query returns as a problem.
fn report_texts(connection: &Connection, sql: &str, checked: &mut CheckReport, what: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    for one in found {
        checked.add_problem(format!("{what} {}", one?));
    }
    Ok(())
}
