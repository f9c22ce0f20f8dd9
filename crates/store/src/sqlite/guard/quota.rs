//! Quotas as rows: the file counts, memory only remembers who has none left.

use super::super::lock;
use crate::counters::Day;
use crate::{KEYS_MAX, KeyId, Spent};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::Mutex;

/// Days that are kept: this one and the one before.
const DAYS_KEPT: i64 = 2;

/// Keys that have used up the quota of a day, and how much that was: whoever goes on asking is not written down.
#[derive(Debug, Default)]
pub(super) struct Exhausted(Mutex<HashMap<KeyId, (Day, u64)>>);

impl Exhausted {
    pub(super) fn is(&self, key: &KeyId, day: Day, limit: u64) -> bool {
        lock(&self.0).get(key).is_some_and(|(on, used)| *on == day && *used >= limit)
    }

    pub(super) fn note(&self, key: &KeyId, day: Day, used: u64) {
        let mut known = lock(&self.0);
        if known.len() >= KEYS_MAX {
            known.retain(|_, (on, _)| *on == day);
        }
        if known.len() < KEYS_MAX {
            known.insert(key.clone(), (day, used));
        }
    }
}

/// Counts one, unless that would be one too many.
pub(super) fn spend(connection: &Connection, key: &KeyId, day: Day, limit: u64) -> rusqlite::Result<Spent> {
    let sql = "INSERT INTO quota (day, id, used) SELECT ?1, ?2, 1 WHERE ?3 > 0
               ON CONFLICT (day, id) DO UPDATE SET used = used + 1 WHERE used < ?3
               RETURNING used";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let used = connection
        .prepare_cached(sql)?
        .query_row(params![day.0, key.as_str(), limit], |row| row.get::<_, i64>(0))
        .optional()?;
    if used == Some(1) {
        // The first of this key today, so about as often as there are rows to forget.
        connection.prepare_cached("DELETE FROM quota WHERE day <= ?1")?.execute([day.0 - DAYS_KEPT])?;
    }
    Ok(match used {
        Some(used) => Spent::Within { used: used.unsigned_abs() },
        None => Spent::Exhausted { resets_at: day.end() },
    })
}

pub(super) fn spent(connection: &Connection, key: &KeyId, day: Day) -> rusqlite::Result<u64> {
    let sql = "SELECT used FROM quota WHERE day = ?1 AND id = ?2";
    let used = connection.query_row(sql, params![day.0, key.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(used.unwrap_or(0).unsigned_abs())
}
