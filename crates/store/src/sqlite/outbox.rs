//! Deliveries to push configurations: written with steps, updated without a sync, read by their own indexes.

use super::reader::{Reader, damaged};
use super::writer::TaskLogWriter;
use super::{key, lock, number, salt, seq, store_error, task_id};
use crate::outbox::{
    Attempt, Delivery, DeliveryMark, DeliveryQuery, DueDeliveries, DueDelivery, DueQuery, DueRemainder,
    JOINED_ATTEMPTS_MAX, Lane, OutboxChange, PushReceiver, can_join_dead_letter, push_attempt,
};
use crate::{Step, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{PushConfig, TaskId, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

const DUE_COLUMNS: &str = "n, k, salt, config, next, last, at, since, attempts, owner, host";
const DELIVERY_COLUMNS: &str = "n, k, salt, config, next, last, at, due, attempts, tries, buried, reason";
/// Rows, or lanes, that are examined beyond those that are wanted.
const SCAN_ROWS: usize = 1024;

impl TaskLogWriter {
    /// Enqueues the events of a step for the task's configurations. Configurations whose receiver is no longer called
    /// get dead letters, so that a retry by an operator leaves no hidden gap.
    pub(super) fn enqueue(&self, k: i64, step: &Step, at: Timestamp) -> rusqlite::Result<()> {
        let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, due)
                   SELECT c.k, ?2, c.id, c.owner, c.host, ?3, ?4, ?5, ?5, CASE WHEN EXISTS (
                       SELECT 1 FROM outbox o WHERE o.k = c.k AND o.config = c.id AND o.buried IS NULL
                   ) THEN NULL ELSE ?5 END
                   FROM push_config c WHERE c.k = ?1 AND c.ended IS NULL";
        let (first, last) = (number(step.after.next()), number(step.head()));
        let owed = params![k, salt(step.task), first, last, at.millis()];
        let rows = self.connection.prepare_cached(sql)?.execute(owed)?;
        self.became_due.set(self.became_due.get() || rows > 0);
        let sql = "SELECT id, ended, owner, host FROM push_config WHERE k = ?1 AND ended IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut ended = statement.query([k])?;
        while let Some(row) = ended.next()? {
            let (config, reason): (String, String) = (row.get(0)?, row.get(1)?);
            if self.extend_dead_letter((k, &config), &reason, (first, last))? {
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
    fn extend_dead_letter(
        &self,
        (k, config): (i64, &str),
        reason: &str,
        (first, last): (i64, i64),
    ) -> rusqlite::Result<bool> {
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
            self.became_due.set(self.became_due.get() || rows > 0);
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
    pub(super) fn change_outbox(&mut self, changes: &[OutboxChange]) -> Result<Vec<bool>, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.write_lock);
        let ordered = changes.iter().any(OutboxChange::is_operator_command);
        let prepared = if ordered { self.require_sync() } else { self.skip_sync() };
        let outcome = prepared.and_then(|()| self.try_changes(changes));
        // The sync level cannot change inside a transaction.
        self.roll_back();
        let outcome = match self.require_sync() {
            Ok(()) => outcome,
            // The changes are committed; the next commit of a step sets the sync level again.
            Err(error) => outcome.or(Err(error)),
        };
        match &outcome {
            Ok(_) => {
                shared.unsynced_commits.fetch_add(1, Ordering::Release);
                if changes.iter().any(OutboxChange::may_make_due) {
                    shared.due_signal.notify();
                }
            }
            Err(error) => tracing::warn!(%error, "the outbox could not be marked"),
        }
        outcome.map_err(|e| store_error(&e))
    }

    fn try_changes(&self, changes: &[OutboxChange]) -> rusqlite::Result<Vec<bool>> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let made = changes.iter().map(|change| self.change(change)).collect::<rusqlite::Result<Vec<bool>>>()?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(made)
    }

    fn change(&self, change: &OutboxChange) -> rusqlite::Result<bool> {
        let (n, wanted) = match change {
            OutboxChange::Mark { number, seq, .. } => (*number, Some(*seq)),
            OutboxChange::Retry { number, .. } | OutboxChange::Discard { number } => (*number, None),
        };
        let Some(letter) = find_delivery(&self.connection, n)? else { return Ok(false) };
        if wanted.is_some_and(|seq| letter.first != seq || letter.dead_letter.is_some()) {
            return Ok(false);
        }
        match change {
            OutboxChange::Mark { mark, .. } => self.mark(letter, mark)?,
            OutboxChange::Retry { now, .. } => self.revive(&letter, *now)?,
            OutboxChange::Discard { .. } => {
                self.connection.prepare_cached("DELETE FROM outbox WHERE n = ?1")?.execute([n])?;
                // The next one is due at the old time, since the command carries no current time.
                self.promote(&letter, letter.due.unwrap_or(letter.at))?;
            }
        }
        Ok(true)
    }

    fn mark(&self, mut letter: Delivery, mark: &DeliveryMark) -> rusqlite::Result<()> {
        match mark {
            DeliveryMark::Delivered { now } if letter.first < letter.last => self.advance(&letter, *now),
            DeliveryMark::Delivered { now } => {
                self.connection.prepare_cached("DELETE FROM outbox WHERE n = ?1")?.execute([letter.number])?;
                self.promote(&letter, *now)
            }
            DeliveryMark::Postpone { until, attempt: tried } => {
                let attempts = letter.attempts + u32::from(tried.is_some());
                push_attempt(&mut letter.recent_attempts, tried.clone());
                // Only the oldest row has a time; one behind a revived dead letter has none.
                let sql =
                    "UPDATE outbox SET due = CASE WHEN due IS NULL THEN NULL ELSE ?2 END, attempts = ?3, tries = ?4
                           WHERE n = ?1";
                let row = params![letter.number, until.millis(), attempts, attempts_json(&letter.recent_attempts)];
                self.connection.prepare_cached(sql)?.execute(row)?;
                Ok(())
            }
            DeliveryMark::DeadLetter { now, reason, attempt: tried } => {
                self.dead_letter(letter, *now, reason, tried.clone())
            }
            DeliveryMark::EndReceiver { now, reason, attempt: tried } => {
                let attempts = letter.attempts + u32::from(tried.is_some());
                push_attempt(&mut letter.recent_attempts, tried.clone());
                let sql = "UPDATE outbox SET attempts = ?2, tries = ?3 WHERE n = ?1";
                self.connection.prepare_cached(sql)?.execute(params![
                    letter.number,
                    attempts,
                    attempts_json(&letter.recent_attempts)
                ])?;
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

    fn dead_letter(
        &self,
        mut letter: Delivery,
        now: Timestamp,
        reason: &str,
        tried: Option<Attempt>,
    ) -> rusqlite::Result<()> {
        let attempts = letter.attempts + u32::from(tried.is_some());
        push_attempt(&mut letter.recent_attempts, tried);
        let (first, of) = (number(letter.first), (key(letter.task.stamp()), &*letter.config));
        let joined = can_join_dead_letter(attempts, &letter.recent_attempts)
            && self.extend_dead_letter(of, reason, (first, first))?;
        let dead = params![letter.number, attempts, attempts_json(&letter.recent_attempts), now.millis(), reason];
        if letter.first < letter.last {
            // Only this event becomes a dead letter; the rest of the row stays pending.
            if !joined {
                let sql = "INSERT INTO outbox (k, salt, config, owner, host, next, last, at, since, attempts, tries,
                                               buried, reason)
                           SELECT k, salt, config, owner, host, next, next, at, since, ?2, ?3, ?4, ?5 FROM outbox
                           WHERE n = ?1";
                self.connection.prepare_cached(sql)?.execute(dead)?;
            }
            return self.advance(&letter, now);
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
    fn advance(&self, letter: &Delivery, now: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE outbox SET next = next + 1, attempts = 0, tries = NULL,
                   due = CASE WHEN due IS NULL THEN NULL ELSE ?2 END WHERE n = ?1";
        self.connection.prepare_cached(sql)?.execute((letter.number, now.millis()))?;
        Ok(())
    }

    /// Makes the oldest pending row of the configuration due, unless it is already.
    fn promote(&self, letter: &Delivery, now: Timestamp) -> rusqlite::Result<()> {
        let sql = "UPDATE outbox SET due = ?3 WHERE due IS NULL AND n = (
                       SELECT n FROM outbox WHERE k = ?1 AND config = ?2 AND buried IS NULL ORDER BY next LIMIT 1)";
        let next = params![key(letter.task.stamp()), letter.config, now.millis()];
        self.connection.prepare_cached(sql)?.execute(next)?;
        Ok(())
    }

    fn revive(&self, letter: &Delivery, now: Timestamp) -> rusqlite::Result<()> {
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

impl Reader<'_> {
    /// Reads by time, up to a bound: nearly always that covers all due rows. Where it does not, a few lanes could
    /// starve the others, so the lanes are read one by one.
    pub(super) fn due(&self, reading: &DueQuery) -> rusqlite::Result<DueDeliveries> {
        let sql = format!(
            "SELECT {DUE_COLUMNS} FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL AND due <= ?1 ORDER BY due LIMIT ?2"
        );
        let most = reading.limit.saturating_add(SCAN_ROWS);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query((reading.now.millis(), i64::try_from(most).unwrap_or(i64::MAX)))?;
        let (mut found, mut seen, mut of_lane) = (Vec::new(), 0, HashMap::<Lane, usize>::new());
        while let Some(row) = rows.next()? {
            seen += 1;
            let owed = read_due_delivery(row)?;
            let count = of_lane.entry(owed.lane.clone()).or_default();
            if reading.includes(&owed.lane) && *count < reading.lane_limit {
                *count += 1;
                found.push(owed);
            }
            if found.len() >= reading.limit {
                return Ok(DueDeliveries {
                    deliveries: found,
                    remainder: DueRemainder::ContinueFrom(reading.from.clone()),
                });
            }
        }
        if seen < most {
            Ok(DueDeliveries { deliveries: found, remainder: DueRemainder::Nothing })
        } else {
            self.due_by_lane(reading)
        }
    }

    fn due_by_lane(&self, reading: &DueQuery) -> rusqlite::Result<DueDeliveries> {
        let next = "SELECT owner, host FROM outbox INDEXED BY outbox_lane
                    WHERE due IS NOT NULL AND (owner, host) > (?1, ?2) ORDER BY owner, host LIMIT 1";
        let mut next = self.connection.prepare_cached(next)?;
        let of_lane = format!(
            "SELECT {DUE_COLUMNS} FROM outbox INDEXED BY outbox_lane
             WHERE owner = ?1 AND host = ?2 AND due IS NOT NULL AND due <= ?3 ORDER BY due LIMIT ?4"
        );
        let mut of_lane = self.connection.prepare_cached(&of_lane)?;
        let mut found = Vec::new();
        let mut at = reading.from.clone().unwrap_or_else(|| Lane { owner: i64::MIN, host: "".into() });
        for _ in 0..SCAN_ROWS {
            let lane = |row: &Row<'_>| Ok(Lane { owner: row.get(0)?, host: row.get(1)? });
            let Some(lane) = next.query_row(params![at.owner, at.host], lane).optional()? else {
                // Lanes before the start of this query may have been passed over.
                let rest =
                    if reading.from.is_some() { DueRemainder::ContinueFrom(None) } else { DueRemainder::Nothing };
                return Ok(DueDeliveries { deliveries: found, remainder: rest });
            };
            if reading.full_owners.contains(&lane.owner) {
                at = Lane { owner: lane.owner.saturating_add(1), host: "".into() };
                continue;
            }
            if reading.includes(&lane) {
                let most = reading.lane_limit.min(reading.limit - found.len());
                let wanted = (lane.owner, &lane.host, reading.now.millis(), i64::try_from(most).unwrap_or(i64::MAX));
                for row in of_lane.query_map(wanted, read_due_delivery)? {
                    found.push(row?);
                }
            }
            at = lane;
            if found.len() >= reading.limit {
                break;
            }
        }
        Ok(DueDeliveries { deliveries: found, remainder: DueRemainder::ContinueFrom(Some(at)) })
    }

    pub(super) fn next_due(&self, after: Timestamp) -> rusqlite::Result<Option<Timestamp>> {
        let sql =
            "SELECT due FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL AND due > ?1 ORDER BY due LIMIT 1";
        let due = self.connection.prepare_cached(sql)?.query_row([after.millis()], |row| row.get(0)).optional()?;
        Ok(due.map(Timestamp::from_millis))
    }

    pub(super) fn receiver(&self, task: TaskId, config: &str) -> rusqlite::Result<Option<PushReceiver>> {
        if !self.holds(task)? {
            return Ok(None);
        }
        let sql = "SELECT dialect, json FROM push_config WHERE k = ?1 AND id = ?2";
        let row = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
        let found =
            self.connection.prepare_cached(sql)?.query_row(params![key(task.stamp()), config], row).optional()?;
        let Some((dialect, json)) = found else { return Ok(None) };
        let config = PushConfig::from_json(&json).ok_or_else(|| damaged("push configuration"))?;
        Ok(Some(PushReceiver { config, dialect: dialect.into() }))
    }

    pub(super) fn deliveries(&self, letters: &DeliveryQuery) -> rusqlite::Result<Vec<Delivery>> {
        let which =
            if letters.dead { "INDEXED BY outbox_dead WHERE buried IS NOT NULL" } else { "WHERE buried IS NULL" };
        let sql = format!(
            "SELECT {DELIVERY_COLUMNS} FROM outbox {which} AND n > ?1 AND (?2 IS NULL OR k = ?2 AND salt = ?3) ORDER BY n LIMIT ?4"
        );
        let (k, salt) = (letters.task.map(|task| key(task.stamp())), letters.task.map(salt));
        let limit = i64::try_from(letters.limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_map((letters.after, k, salt, limit), read_delivery)?.collect()
    }

    pub(super) fn delivery(&self, number: i64) -> rusqlite::Result<Option<Delivery>> {
        find_delivery(self.connection, number)
    }
}

fn find_delivery(connection: &Connection, n: i64) -> rusqlite::Result<Option<Delivery>> {
    let sql = format!("SELECT {DELIVERY_COLUMNS} FROM outbox WHERE n = ?1");
    connection.prepare_cached(&sql)?.query_row([n], read_delivery).optional()
}

fn read_due_delivery(row: &Row<'_>) -> rusqlite::Result<DueDelivery> {
    Ok(DueDelivery {
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

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let buried = row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis);
    let tries = row.get::<_, Option<String>>(9)?;
    Ok(Delivery {
        number: row.get(0)?,
        task: task_id(row.get(1)?, row.get(2)?),
        config: row.get(3)?,
        first: seq(row.get(4)?),
        last: seq(row.get(5)?),
        at: Timestamp::from_millis(row.get(6)?),
        due: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
        attempts: row.get(8)?,
        // Attempts are for people to read; unreadable ones must not hide the delivery.
        recent_attempts: tries.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        dead_letter: buried.zip(Some(row.get::<_, Option<String>>(11)?.unwrap_or_default())),
    })
}

/// The attempts as they are stored.
fn attempts_json(tries: &[Attempt]) -> Option<String> {
    if tries.is_empty() { None } else { serde_json::to_string(tries).ok() }
}
