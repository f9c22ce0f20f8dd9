//! Deliveries to push configurations: written with steps, updated without a sync, read by their own indexes.

use super::reader::{Reader, damaged};
use super::writer::Writer;
use super::{key, lock, number, salt, seq, store_error, task_id};
use crate::outbox::{
    Attempt, Change, Due, JOINED_ATTEMPTS_MAX, Lane, Letter, Letters, Mark, Owed, Reading, Receiver, Rest, joins,
    keep_attempt,
};
use crate::{Step, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{PushConfig, TaskId, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

const OWED: &str = "n, k, salt, config, next, last, at, since, attempts, owner, host";
const LETTER: &str = "n, k, salt, config, next, last, at, due, attempts, tries, buried, reason";
/// Rows, or lanes, that are examined beyond those that are wanted.
const LOOK_ROWS: usize = 1024;

impl Writer {
    /// Enqueues the events of a step for the task's configurations. Configurations whose receiver is no longer called
    /// get dead letters, so that a retry by an operator leaves no hidden gap.
    pub(super) fn owe(&self, k: i64, step: &Step, at: Timestamp) -> rusqlite::Result<()> {
        let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, due)
                   SELECT c.k, ?2, c.id, c.owner, c.host, ?3, ?4, ?5, ?5, CASE WHEN EXISTS (
                       SELECT 1 FROM outbox o WHERE o.k = c.k AND o.config = c.id AND o.buried IS NULL
                   ) THEN NULL ELSE ?5 END
                   FROM push_config c WHERE c.k = ?1 AND c.ended IS NULL";
        let (first, last) = (number(step.after.next()), number(step.head()));
        let owed = params![k, salt(step.task), first, last, at.millis()];
        let rows = self.connection.prepare_cached(sql)?.execute(owed)?;
        self.owes.set(self.owes.get() || rows > 0);
        let sql = "SELECT id, ended, owner, host FROM push_config WHERE k = ?1 AND ended IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut ended = statement.query([k])?;
        while let Some(row) = ended.next()? {
            let (config, reason): (String, String) = (row.get(0)?, row.get(1)?);
            if self.join_dead((k, &config), &reason, (first, last))? {
                continue;
            }
            let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, buried, reason)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8, ?9)";
            let (owner, host): (i64, String) = (row.get(2)?, row.get(3)?);
            let dead = params![k, salt(step.task), config, owner, host, first, last, at.millis(), reason];
            self.connection.prepare_cached(sql)?.execute(dead)?;
        }
        Ok(())
    }

    /// Extends a dead letter with these events, if it ends where they begin and has the same reason.
    fn join_dead(&self, (k, config): (i64, &str), reason: &str, (first, last): (i64, i64)) -> rusqlite::Result<bool> {
        let sql = "UPDATE outbox SET last = ?5 WHERE k = ?1 AND config = ?2 AND buried IS NOT NULL AND reason = ?3
                   AND last = ?4 - 1 AND attempts <= ?6";
        let rows = params![k, config, reason, first, last, JOINED_ATTEMPTS_MAX];
        Ok(self.connection.prepare_cached(sql)?.execute(rows)? > 0)
    }

    /// Registers a configuration, with its dialect and its host; returns how many the task has then.
    pub(super) fn put_push(
        &self,
        k: i64,
        step: &Step,
        (config, dialect, host): (&PushConfig, &str, &str),
        at: Timestamp,
    ) -> rusqlite::Result<u32> {
        let sql = "SELECT EXISTS (SELECT 1 FROM push_config WHERE k = ?1 AND id = ?2)";
        let known: bool = self.connection.prepare_cached(sql)?.query_row(params![k, config.id], |r| r.get(0))?;
        let scope: i64 =
            self.connection.prepare_cached("SELECT scope FROM task WHERE k = ?1")?.query_row([k], |r| r.get(0))?;
        let owner = self.shared.scopes.scope(scope).map_or(scope, |scope| scope.owner());
        let sql = "INSERT INTO push_config (k, id, dialect, owner, host, json) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT DO UPDATE SET dialect = ?3, host = ?5, json = ?6, ended = NULL";
        let row = params![k, config.id, dialect, owner, host, config.to_json()];
        self.connection.prepare_cached(sql)?.execute(row)?;
        if known {
            // Pending deliveries go to the new host.
            let sql = "UPDATE outbox SET host = ?3 WHERE k = ?1 AND config = ?2 AND host <> ?3";
            self.connection.prepare_cached(sql)?.execute(params![k, config.id, host])?;
        }
        // A settled task has its body. Where events come with the registration, they are enqueued with their step.
        if !known && step.opening.is_none() && step.events.is_empty() {
            let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, due)
                       SELECT k, salt, ?2, ?4, ?5, min(ifnull(turn, 0) + 1, head), head, ?3, ?3, ?3 FROM task
                       WHERE k = ?1 AND body IS NOT NULL";
            let row = params![k, config.id, at.millis(), owner, host];
            let rows = self.connection.prepare_cached(sql)?.execute(row)?;
            self.owes.set(self.owes.get() || rows > 0);
        }
        let sql = "SELECT count(*) FROM push_config WHERE k = ?1";
        self.connection.prepare_cached(sql)?.query_row([k], |r| r.get(0))
    }

    /// Removes a configuration and its deliveries.
    pub(super) fn delete_push(&self, k: i64, id: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached("DELETE FROM push_config WHERE k = ?1 AND id = ?2")?.execute(params![k, id])?;
        self.connection.prepare_cached("DELETE FROM outbox WHERE k = ?1 AND config = ?2")?.execute(params![k, id])?;
        Ok(())
    }

    /// Applies changes in one transaction. Results of attempts are not synced: the next synced step makes them durable,
    /// and if the machine dies before that, events are delivered once more. Commands of operators are synced like
    /// steps.
    pub(super) fn change_outbox(&mut self, changes: &[Change]) -> Result<Vec<bool>, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.turn);
        let ordered = changes.iter().any(Change::is_order);
        let prepared = if ordered { self.tighten() } else { self.relax() };
        let outcome = prepared.and_then(|()| self.attempt_changes(changes));
        // The sync level cannot change inside a transaction.
        self.roll_back();
        let outcome = match self.tighten() {
            Ok(()) => outcome,
            // The changes are committed; the next commit of a step sets the sync level again.
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
                // The next one is due at the old time, since the command carries no current time.
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
                // Only the oldest row has a time; one behind a revived dead letter has none.
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
        let (first, of) = (number(letter.first), (key(letter.task.stamp()), &*letter.config));
        let joined = joins(attempts, &letter.tries) && self.join_dead(of, reason, (first, first))?;
        let dead = params![letter.number, attempts, tries(&letter.tries), now.millis(), reason];
        if letter.first < letter.last {
            // Only this event becomes a dead letter; the rest of the row stays pending.
            if !joined {
                let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, attempts, tries,
                                               buried, reason)
                           SELECT k, salt, config, owner, host, next, next, at, since, ?2, ?3, ?4, ?5 FROM outbox
                           WHERE n = ?1";
                self.connection.prepare_cached(sql)?.execute(dead)?;
            }
            return self.move_on(&letter, now);
        }
        if joined {
            self.connection.prepare_cached("DELETE FROM outbox WHERE n = ?1")?.execute([letter.number])?;
        } else {
            let sql = "UPDATE outbox SET due = NULL, attempts = ?2, tries = ?3, buried = ?4, reason = ?5 WHERE n = ?1";
            self.connection.prepare_cached(sql)?.execute(dead)?;
        }
        self.promote(&letter, now)
    }

    /// Advances the row to its next event.
    fn move_on(&self, letter: &Letter, now: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE outbox SET next = next + 1, attempts = 0, tries = NULL,
                   due = CASE WHEN due IS NULL THEN NULL ELSE ?2 END WHERE n = ?1";
        self.connection.prepare_cached(sql)?.execute((letter.number, now.millis()))?;
        Ok(())
    }

    /// Makes the oldest pending row of the configuration due, unless it is already.
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
        // The revived row may be older than the one that was the oldest.
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
    /// Reads by time, up to a bound: nearly always that covers all due rows. Where it does not, a few lanes could
    /// starve the others, so the lanes are read one by one.
    pub(super) fn due(&self, reading: &Reading) -> rusqlite::Result<Due> {
        let sql = format!(
            "SELECT {OWED} FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2"
        );
        let most = reading.limit.saturating_add(LOOK_ROWS);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((reading.now.millis(), i64::try_from(most).unwrap_or(i64::MAX)))?;
        let (mut found, mut seen, mut of_lane) = (Vec::new(), 0, HashMap::<Lane, usize>::new());
        while let Some(row) = rows.next()? {
            seen += 1;
            let owed = owed(row)?;
            let count = of_lane.entry(owed.lane.clone()).or_default();
            if reading.wants(&owed.lane) && *count < reading.lane_limit {
                *count += 1;
                found.push(owed);
            }
            if found.len() >= reading.limit {
                return Ok(Due { owed: found, rest: Rest::From(reading.from.clone()) });
            }
        }
        if seen < most { Ok(Due { owed: found, rest: Rest::Nothing }) } else { self.due_by_lane(reading) }
    }

    fn due_by_lane(&self, reading: &Reading) -> rusqlite::Result<Due> {
        let next = "SELECT owner, host FROM outbox INDEXED BY outbox_lane
                    WHERE due IS NOT NULL AND (owner, host) > (?1, ?2) ORDER BY owner, host LIMIT 1";
        let mut next = self.connection.prepare_cached(next)?;
        let of_lane = format!(
            "SELECT {OWED} FROM outbox INDEXED BY outbox_lane
             WHERE owner = ?1 AND host = ?2 AND due IS NOT NULL AND due <= ?3 ORDER BY due LIMIT ?4"
        );
        let mut of_lane = self.connection.prepare_cached(&of_lane)?;
        let mut found = Vec::new();
        let mut at = reading.from.clone().unwrap_or_else(|| Lane { owner: i64::MIN, host: "".into() });
        for _ in 0..LOOK_ROWS {
            let lane = |row: &Row<'_>| Ok(Lane { owner: row.get(0)?, host: row.get(1)? });
            let Some(lane) = next.query_row(params![at.owner, at.host], lane).optional()? else {
                // Lanes before the start of this query may have been passed over.
                let rest = if reading.from.is_some() { Rest::From(None) } else { Rest::Nothing };
                return Ok(Due { owed: found, rest });
            };
            if reading.full_owners.contains(&lane.owner) {
                at = Lane { owner: lane.owner.saturating_add(1), host: "".into() };
                continue;
            }
            if reading.wants(&lane) {
                let most = reading.lane_limit.min(reading.limit - found.len());
                let wanted = (lane.owner, &lane.host, reading.now.millis(), i64::try_from(most).unwrap_or(i64::MAX));
                for row in of_lane.query_map(wanted, owed)? {
                    found.push(row?);
                }
            }
            at = lane;
            if found.len() >= reading.limit {
                break;
            }
        }
        Ok(Due { owed: found, rest: Rest::From(Some(at)) })
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
        lane: Lane { owner: row.get(9)?, host: row.get(10)? },
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
        // Attempts are for people to read; unreadable ones must not hide the delivery.
        tries: tries.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        buried: buried.zip(Some(row.get::<_, Option<String>>(11)?.unwrap_or_default())),
    })
}

/// The attempts as they are stored.
fn tries(tries: &[Attempt]) -> Option<String> {
    if tries.is_empty() { None } else { serde_json::to_string(tries).ok() }
}
