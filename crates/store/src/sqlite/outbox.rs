//! What is owed to push configurations: written with steps, marked without a sync, read by its own indexes.

use super::reader::{Reader, damaged};
use super::writer::Writer;
use super::{key, lock, number, salt, seq, store_error, task_id};
use crate::outbox::{Attempt, Change, Letter, Letters, Mark, Owed, Receiver, keep_attempt};
use crate::{Step, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{PushConfig, TaskId, Timestamp};
use std::sync::atomic::Ordering;

const OWED: &str = "n, k, salt, config, next, last, at, since, attempts";
const LETTER: &str = "n, k, salt, config, next, last, at, due, attempts, tries, buried, reason";

impl Writer {
    /// Puts down what a step owes to the task's configurations.
    pub(super) fn owe(&self, k: i64, step: &Step, at: Timestamp) -> rusqlite::Result<()> {
        let sql = "INSERT INTO outbox (k, salt, config, next, last, at, since, due)
                   SELECT c.k, ?2, c.id, ?3, ?4, ?5, ?5, CASE WHEN EXISTS (
                       SELECT 1 FROM outbox o WHERE o.k = c.k AND o.config = c.id AND o.buried IS NULL
                   ) THEN NULL ELSE ?5 END
                   FROM push_config c WHERE c.k = ?1 AND c.ended IS NULL";
        let owed = params![k, salt(step.task), number(step.after.next()), number(step.head()), at.millis()];
        let rows = self.connection.prepare_cached(sql)?.execute(owed)?;
        self.owes.set(self.owes.get() || rows > 0);
        Ok(())
    }

    /// Registers a configuration; answers how many the task has then.
    pub(super) fn put_push(
        &self,
        k: i64,
        step: &Step,
        config: &PushConfig,
        dialect: &str,
        at: Timestamp,
    ) -> rusqlite::Result<u32> {
        let sql = "SELECT EXISTS (SELECT 1 FROM push_config WHERE k = ?1 AND id = ?2)";
        let known: bool = self.connection.prepare_cached(sql)?.query_row(params![k, config.id], |r| r.get(0))?;
        let sql = "INSERT INTO push_config (k, id, dialect, json) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO UPDATE SET dialect = ?3, json = ?4, ended = NULL";
        self.connection.prepare_cached(sql)?.execute(params![k, config.id, dialect, config.to_json()])?;
        // A settled task has its body. Where events come with the registration, they are owed with their step.
        if !known && step.opening.is_none() && step.events.is_empty() {
            let sql = "INSERT INTO outbox (k, salt, config, next, last, at, since, due)
                       SELECT k, salt, ?2, min(ifnull(turn, 0) + 1, head), head, ?3, ?3, ?3 FROM task
                       WHERE k = ?1 AND body IS NOT NULL";
            let rows = self.connection.prepare_cached(sql)?.execute(params![k, config.id, at.millis()])?;
            self.owes.set(self.owes.get() || rows > 0);
        }
        let sql = "SELECT count(*) FROM push_config WHERE k = ?1";
        self.connection.prepare_cached(sql)?.query_row([k], |r| r.get(0))
    }

    /// Removes a configuration and what is owed to it.
    pub(super) fn delete_push(&self, k: i64, id: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached("DELETE FROM push_config WHERE k = ?1 AND id = ?2")?.execute(params![k, id])?;
        self.connection.prepare_cached("DELETE FROM outbox WHERE k = ?1 AND config = ?2")?.execute(params![k, id])?;
        Ok(())
    }

    /// Makes changes in one transaction. Marks are not synced: the next step that is takes them along, and if the machine
    /// dies before that, events are delivered once more. Orders of operators are synced like steps.
    pub(super) fn change_outbox(&mut self, changes: &[Change]) -> Result<Vec<bool>, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.turn);
        let ordered = changes.iter().any(Change::is_order);
        let prepared = if ordered { self.tighten() } else { self.relax() };
        let outcome = prepared.and_then(|()| self.attempt_changes(changes));
        // How much is synced cannot change inside a transaction.
        self.roll_back();
        let outcome = match self.tighten() {
            Ok(()) => outcome,
            // What was committed is committed; whoever commits a step asks for its sync again.
            Err(error) => outcome.or(Err(error)),
        };
        match &outcome {
            Ok(_) => {
                shared.noted.fetch_add(1, Ordering::Release);
                if changes.iter().any(Change::moves_on) {
                    shared.bell.ring();
                }
            }
            Err(error) => tracing::warn!(%error, "the outbox could not be marked"),
        }
        outcome.map_err(|e| store_error(&e))
    }

    fn attempt_changes(&self, changes: &[Change]) -> rusqlite::Result<Vec<bool>> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let made = changes.iter().map(|change| self.change(change)).collect::<rusqlite::Result<Vec<bool>>>()?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(made)
    }

    fn change(&self, change: &Change) -> rusqlite::Result<bool> {
        let (n, wanted) = match change {
            Change::Mark { number, seq, .. } => (*number, Some(*seq)),
            Change::Retry { number, .. } | Change::Discard { number } => (*number, None),
        };
        let Some(letter) = letter(&self.connection, n)? else { return Ok(false) };
        if wanted.is_some_and(|seq| letter.first != seq || letter.buried.is_some()) {
            return Ok(false);
        }
        match change {
            Change::Mark { mark, .. } => self.mark(letter, mark)?,
            Change::Retry { now, .. } => self.dig_up(&letter, *now)?,
            Change::Discard { .. } => {
                self.connection.prepare_cached("DELETE FROM outbox WHERE n = ?1")?.execute([n])?;
                // At once, if at all: nobody says what time it is.
                self.promote(&letter, letter.due.unwrap_or(letter.at))?;
            }
        }
        Ok(true)
    }

    fn mark(&self, mut letter: Letter, mark: &Mark) -> rusqlite::Result<()> {
        match mark {
            Mark::Done { now } if letter.first < letter.last => self.move_on(&letter, *now),
            Mark::Done { now } => {
                self.connection.prepare_cached("DELETE FROM outbox WHERE n = ?1")?.execute([letter.number])?;
                self.promote(&letter, *now)
            }
            Mark::Postpone { until, tried } => {
                let attempts = letter.attempts + u32::from(tried.is_some());
                keep_attempt(&mut letter.tries, tried.clone());
                // Only the oldest has a time; one that an older letter was put before has none.
                let sql =
                    "UPDATE outbox SET due = CASE WHEN due IS NULL THEN NULL ELSE ?2 END, attempts = ?3, tries = ?4
                           WHERE n = ?1";
                let row = params![letter.number, until.millis(), attempts, tries(&letter.tries)];
                self.connection.prepare_cached(sql)?.execute(row)?;
                Ok(())
            }
            Mark::Bury { now, reason, tried } => self.bury(letter, *now, reason, tried.clone()),
            Mark::End { now, reason, tried } => {
                let attempts = letter.attempts + u32::from(tried.is_some());
                keep_attempt(&mut letter.tries, tried.clone());
                let sql = "UPDATE outbox SET attempts = ?2, tries = ?3 WHERE n = ?1";
                self.connection.prepare_cached(sql)?.execute(params![letter.number, attempts, tries(&letter.tries)])?;
                let k = key(letter.task.stamp());
                let sql = "UPDATE outbox SET due = NULL, buried = ?3, reason = ?4
                           WHERE k = ?1 AND config = ?2 AND buried IS NULL";
                let dead = params![k, letter.config, now.millis(), reason];
                self.connection.prepare_cached(sql)?.execute(dead)?;
                let sql = "UPDATE push_config SET ended = ?3 WHERE k = ?1 AND id = ?2";
                self.connection.prepare_cached(sql)?.execute(params![k, letter.config, reason])?;
                Ok(())
            }
        }
    }

    fn bury(&self, mut letter: Letter, now: Timestamp, reason: &str, tried: Option<Attempt>) -> rusqlite::Result<()> {
        let attempts = letter.attempts + u32::from(tried.is_some());
        keep_attempt(&mut letter.tries, tried);
        if letter.first < letter.last {
            // The event goes, the rest of the row stays.
            let sql = "INSERT INTO outbox (k, salt, config, next, last, at, since, attempts, tries, buried, reason)
                       SELECT k, salt, config, next, next, at, since, ?2, ?3, ?4, ?5 FROM outbox WHERE n = ?1";
            let dead = params![letter.number, attempts, tries(&letter.tries), now.millis(), reason];
            self.connection.prepare_cached(sql)?.execute(dead)?;
            return self.move_on(&letter, now);
        }
        let sql = "UPDATE outbox SET due = NULL, attempts = ?2, tries = ?3, buried = ?4, reason = ?5 WHERE n = ?1";
        let dead = params![letter.number, attempts, tries(&letter.tries), now.millis(), reason];
        self.connection.prepare_cached(sql)?.execute(dead)?;
        self.promote(&letter, now)
    }

    /// The next event of the same row.
    fn move_on(&self, letter: &Letter, now: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE outbox SET next = next + 1, attempts = 0, tries = NULL,
                   due = CASE WHEN due IS NULL THEN NULL ELSE ?2 END WHERE n = ?1";
        self.connection.prepare_cached(sql)?.execute((letter.number, now.millis()))?;
        Ok(())
    }

    /// The next row of the same configuration, unless it is due already.
    fn promote(&self, letter: &Letter, now: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE outbox SET due = ?3 WHERE due IS NULL AND n = (
                       SELECT n FROM outbox WHERE k = ?1 AND config = ?2 AND buried IS NULL ORDER BY next LIMIT 1)";
        let next = params![key(letter.task.stamp()), letter.config, now.millis()];
        self.connection.prepare_cached(sql)?.execute(next)?;
        Ok(())
    }

    fn dig_up(&self, letter: &Letter, now: Timestamp) -> rusqlite::Result<()> {
        let k = key(letter.task.stamp());
        let sql = "UPDATE outbox SET buried = NULL, reason = NULL, attempts = 0, since = ?2 WHERE n = ?1";
        self.connection.prepare_cached(sql)?.execute((letter.number, now.millis()))?;
        // It may be older than the one that was the oldest.
        let sql = "UPDATE outbox SET due = NULL WHERE k = ?1 AND config = ?2 AND due IS NOT NULL AND n <> ?3";
        self.connection.prepare_cached(sql)?.execute(params![k, letter.config, letter.number])?;
        let sql = "UPDATE outbox SET due = NULL WHERE n = ?1";
        self.connection.prepare_cached(sql)?.execute([letter.number])?;
        let sql = "UPDATE push_config SET ended = NULL WHERE k = ?1 AND id = ?2";
        self.connection.prepare_cached(sql)?.execute(params![k, letter.config])?;
        self.promote(letter, now)
    }
}

impl Reader {
    pub(super) fn due(&self, now: Timestamp, limit: usize) -> rusqlite::Result<Vec<Owed>> {
        let sql = format!(
            "SELECT {OWED} FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        statement.query_map((now.millis(), limit), owed)?.collect()
    }

    pub(super) fn next_due(&self, after: Timestamp) -> rusqlite::Result<Option<Timestamp>> {
        let sql =
            "SELECT due FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL AND due > ?1 ORDER BY due LIMIT 1";
        let due = self.connection.prepare_cached(sql)?.query_row([after.millis()], |row| row.get(0)).optional()?;
        Ok(due.map(Timestamp::from_millis))
    }

    pub(super) fn receiver(&self, task: TaskId, config: &str) -> rusqlite::Result<Option<Receiver>> {
        if !self.holds(task)? {
            return Ok(None);
        }
        let sql = "SELECT dialect, json FROM push_config WHERE k = ?1 AND id = ?2";
        let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
        let found =
            self.connection.prepare_cached(sql)?.query_row(params![key(task.stamp()), config], row).optional()?;
        let Some((dialect, json)) = found else { return Ok(None) };
        let config = PushConfig::from_json(&json).ok_or_else(|| damaged("push configuration"))?;
        Ok(Some(Receiver { config, dialect: dialect.into() }))
    }

    pub(super) fn letters(&self, letters: &Letters) -> rusqlite::Result<Vec<Letter>> {
        let which =
            if letters.dead { "INDEXED BY outbox_dead WHERE buried IS NOT NULL" } else { "WHERE buried IS NULL" };
        let sql = format!(
            "SELECT {LETTER} FROM outbox {which} AND n > ?1 AND (?2 IS NULL OR k = ?2 AND salt = ?3) ORDER BY n LIMIT ?4"
        );
        let (k, salt) = (letters.task.map(|task| key(task.stamp())), letters.task.map(salt));
        let limit = i64::try_from(letters.limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_map((letters.after, k, salt, limit), read_letter)?.collect()
    }

    pub(super) fn letter(&self, number: i64) -> rusqlite::Result<Option<Letter>> {
        letter(&self.connection, number)
    }
}

fn letter(connection: &Connection, n: i64) -> rusqlite::Result<Option<Letter>> {
    let sql = format!("SELECT {LETTER} FROM outbox WHERE n = ?1");
    connection.prepare_cached(&sql)?.query_row([n], read_letter).optional()
}

fn owed(row: &Row<'_>) -> rusqlite::Result<Owed> {
    Ok(Owed {
        number: row.get(0)?,
        task: task_id(row.get(1)?, row.get(2)?),
        config: row.get(3)?,
        seq: seq(row.get(4)?),
        last: seq(row.get(5)?),
        at: Timestamp::from_millis(row.get(6)?),
        since: Timestamp::from_millis(row.get(7)?),
        attempts: row.get(8)?,
    })
}

fn read_letter(row: &Row<'_>) -> rusqlite::Result<Letter> {
    let buried = row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis);
    let tries = row.get::<_, Option<String>>(9)?;
    Ok(Letter {
        number: row.get(0)?,
        task: task_id(row.get(1)?, row.get(2)?),
        config: row.get(3)?,
        first: seq(row.get(4)?),
        last: seq(row.get(5)?),
        at: Timestamp::from_millis(row.get(6)?),
        due: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
        attempts: row.get(8)?,
        // For people to read; one that cannot be read any more is no reason to keep the letter from them.
        tries: tries.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        buried: buried.zip(Some(row.get::<_, Option<String>>(11)?.unwrap_or_default())),
    })
}

/// Attempts as they are stored.
fn tries(tries: &[Attempt]) -> Option<String> {
    if tries.is_empty() { None } else { serde_json::to_string(tries).ok() }
}
