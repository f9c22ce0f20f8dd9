//! Replay marks as rows: what memory decided, so that a restart forgets none.

use crate::replay::{ReplayMark, ReplayMarks, SLACK_MS};
use crate::{Digest, ReplayVerdict};
use rusqlite::{Connection, params};
use sabir_proto::Timestamp;

/// Expired rows deleted with every new mark, so that they go faster than they come.
const PURGED_PER_MARK: i64 = 4;

/// Stores a mark that memory found to be new; if the file has it already, another process made it.
pub(super) fn keep(
    connection: &Connection,
    mark: &ReplayMark,
    scope: &str,
    meaning: &Digest,
    now: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<ReplayVerdict> {
    let sql = "DELETE FROM replay WHERE mark IN (SELECT mark FROM replay WHERE until < ?1 ORDER BY until LIMIT ?2)";
    connection.prepare_cached(sql)?.execute(params![now.millis() - SLACK_MS, PURGED_PER_MARK])?;
    let sql = "INSERT INTO replay (mark, scope, until, meaning) VALUES (?1, ?2, ?3, ?5)
               ON CONFLICT (mark) DO UPDATE SET until = ?3, meaning = ?5 WHERE until < ?4";
    let kept = connection.prepare_cached(sql)?.execute(params![mark, scope, until.millis(), now.millis(), meaning])?;
    if kept == 1 {
        return Ok(ReplayVerdict::First);
    }
    let sql = "SELECT meaning FROM replay WHERE mark = ?1";
    let known: Digest = connection.prepare_cached(sql)?.query_row(params![mark], |row| row.get(0))?;
    Ok(if known == *meaning { ReplayVerdict::Again } else { ReplayVerdict::Different })
}

/// All marks in the file; expired ones are purged from memory like any others.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<ReplayMarks> {
    let mut marks = ReplayMarks::default();
    let mut statement = connection.prepare("SELECT mark, scope, until, meaning FROM replay")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let scope: String = row.get(1)?;
        marks.keep(row.get(0)?, &scope, row.get(3)?, Timestamp::from_millis(row.get(2)?));
    }
    Ok(marks)
}
