//! Quotas as rows: the file counts, and memory holds the keys that have used up theirs.
//!
//! A large quota is reserved in the file in small lots, and counted down in memory: most requests then wait for no
//! write. A crash loses what is left of a lot, at most a thousandth of the day's quota, to the key's disadvantage. No
//! key ever gets more than its quota.

use super::super::lock;
use crate::counters::Day;
use crate::{KEYS_MAX, KeyId, QuotaDecision};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::Mutex;

/// Lots in a day's quota, at least.
const RESERVATIONS_A_DAY: u64 = 1000;
/// The largest lot.
const RESERVATION_MAX: u64 = 100;
/// Days that are stored: this one and the one before.
const DAYS_KEPT: i64 = 2;

/// Keys that have used up the quota of a day, and the amount: their further requests cause no writes.
#[derive(Debug, Default)]
pub(super) struct ExhaustedQuotas(Mutex<HashMap<KeyId, (Day, u64)>>);

impl ExhaustedQuotas {
    pub(super) fn contains(&self, key: &KeyId, day: Day, limit: u64) -> bool {
        lock(&self.0).get(key).is_some_and(|(on, used)| *on == day && *used >= limit)
    }

    pub(super) fn insert(&self, key: &KeyId, day: Day, used: u64) {
        let mut known = lock(&self.0);
        if known.len() >= KEYS_MAX {
            known.retain(|_, (on, _)| *on == day);
        }
        if known.len() < KEYS_MAX {
            known.insert(key.clone(), (day, used));
        }
    }
}

/// Requests that the file has counted already and that have not come yet.
#[derive(Debug, Default)]
pub(super) struct QuotaReservations(Mutex<HashMap<KeyId, QuotaReservation>>);

/// The rest of a lot: after `used` requests, up to and including the one with the number `end`.
#[derive(Debug, Clone, Copy)]
struct QuotaReservation {
    day: Day,
    used: u64,
    end: u64,
}

impl QuotaReservations {
    /// Uses one request of a lot, if there is one within the quota.
    pub(super) fn take(&self, key: &KeyId, day: Day, limit: u64) -> Option<QuotaDecision> {
        let mut lots = lock(&self.0);
        let lot = lots.get_mut(key).filter(|lot| lot.day == day && lot.used < lot.end && lot.used < limit)?;
        lot.used += 1;
        Some(QuotaDecision::Within { used: lot.used })
    }

    fn keep(&self, key: &KeyId, lot: QuotaReservation) {
        let mut lots = lock(&self.0);
        if lots.len() >= KEYS_MAX {
            lots.retain(|_, known| known.day == lot.day);
        }
        if lot.used < lot.end && lots.len() < KEYS_MAX {
            lots.insert(key.clone(), lot);
        } else {
            lots.remove(key);
        }
    }

    /// Removes a lot whose write failed.
    pub(super) fn forget(&self, key: &KeyId) {
        lock(&self.0).remove(key);
    }

    /// The number of requests that are reserved and have not come yet.
    pub(super) fn left(&self, key: &KeyId, day: Day) -> u64 {
        lock(&self.0).get(key).filter(|lot| lot.day == day).map_or(0, |lot| lot.end - lot.used)
    }
}

/// Counts one request, unless the quota is used up. It is taken from a lot if there is one; otherwise a new lot is
/// reserved.
pub(super) fn spend_quota(
    connection: &Connection,
    lots: &QuotaReservations,
    key: &KeyId,
    day: Day,
    limit: u64,
) -> rusqlite::Result<QuotaDecision> {
    if let Some(spent) = lots.take(key, day, limit) {
        return Ok(spent);
    }
    let lot = (limit / RESERVATIONS_A_DAY).clamp(1, RESERVATION_MAX);
    let spent = count(connection, key, day, limit, lot)?;
    if let QuotaDecision::Within { used: end } = spent {
        let first = end - lot + 1;
        lots.keep(key, QuotaReservation { day, used: first, end });
        return Ok(QuotaDecision::Within { used: first });
    }
    // Less than a lot is left of the day.
    if lot > 1 { count(connection, key, day, limit, 1) } else { Ok(spent) }
}

/// Counts a lot, unless it exceeds the limit; returns the new count.
fn count(connection: &Connection, key: &KeyId, day: Day, limit: u64, lot: u64) -> rusqlite::Result<QuotaDecision> {
    let sql = "INSERT INTO quota (day, id, used) SELECT ?1, ?2, ?4 WHERE ?3 >= ?4
               ON CONFLICT (day, id) DO UPDATE SET used = used + ?4 WHERE used + ?4 <= ?3
               RETURNING used";
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let used = connection
        .prepare_cached(sql)?
        .query_row(params![day.0, key.as_str(), number(limit), number(lot)], |row| row.get::<_, i64>(0))
        .optional()?;
    if used == Some(number(lot)) {
        // The first lot of this key today, so about as often as there are rows to delete.
        connection.prepare_cached("DELETE FROM quota WHERE day <= ?1")?.execute([day.0 - DAYS_KEPT])?;
    }
    Ok(match used {
        Some(used) => QuotaDecision::Within { used: used.unsigned_abs() },
        None => QuotaDecision::Exhausted { resets_at: day.end() },
    })
}

pub(super) fn quota_used(connection: &Connection, key: &KeyId, day: Day) -> rusqlite::Result<u64> {
    let sql = "SELECT used FROM quota WHERE day = ?1 AND id = ?2";
    let used = connection.query_row(sql, params![day.0, key.as_str()], |row| row.get::<_, i64>(0)).optional()?;
    Ok(used.unwrap_or(0).unsigned_abs())
}
