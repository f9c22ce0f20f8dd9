//! Usage, and the batches it is billed in.

use super::super::{SqliteLog, key, salt, task_id, unsigned};
use crate::StoreFuture;
use crate::ledger::{Batch, BatchStatus, BatchUpdate, Billing, BillingTotals, DAY_MS, Usage};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{TaskId, Timestamp};

/// Usage that is in no batch and has a payer, before some time; in order of the bookings.
const CLAIMABLE: &str = "SELECT k, salt, customer, at FROM usage INDEXED BY usage_unsynced
    WHERE synced_at IS NULL AND batch IS NULL AND customer IS NOT NULL AND at < ?1 ORDER BY k";

fn claimable(connection: &Connection, before: Timestamp, at: Timestamp) -> rusqlite::Result<Vec<(Batch, Vec<i64>)>> {
    let mut batches = std::collections::BTreeMap::<(i64, String), (Batch, Vec<i64>)>::new();
    let mut statement = connection.prepare_cached(CLAIMABLE)?;
    let mut rows = statement.query([before.millis()])?;
    while let Some(row) = rows.next()? {
        let (k, customer, when): (i64, String, i64) = (row.get(0)?, row.get(2)?, row.get(3)?);
        let (id, day) = (task_id(k, row.get(1)?), when.div_euclid(DAY_MS));
        let (batch, keys) = batches.entry((day, customer)).or_insert_with_key(|(day, customer)| {
            let batch = Batch {
                id: id.to_string(),
                customer: customer.clone(),
                day: *day,
                count: 0,
                last_at: Timestamp::from_millis(when),
                claimed_at: at,
                sent_at: None,
                status: BatchStatus::Open,
            };
            (batch, Vec::new())
        });
        batch.count += 1;
        batch.last_at = batch.last_at.max(Timestamp::from_millis(when));
        keys.push(k);
    }
    Ok(batches.into_values().collect())
}

fn read_batch(row: &Row<'_>) -> rusqlite::Result<Batch> {
    let standing = match (row.get::<_, Option<String>>(8)?, row.get::<_, Option<i64>>(7)?) {
        (_, Some(at)) => BatchStatus::Synced(Timestamp::from_millis(at)),
        (Some(why), None) => BatchStatus::Manual(why),
        (None, None) => BatchStatus::Open,
    };
    Ok(Batch {
        id: row.get(0)?,
        customer: row.get(1)?,
        day: row.get(2)?,
        count: unsigned(row.get(3)?),
        last_at: Timestamp::from_millis(row.get(4)?),
        claimed_at: Timestamp::from_millis(row.get(5)?),
        sent_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
        status: standing,
    })
}

fn update_batch(connection: &Connection, id: &str, mark: &BatchUpdate) -> rusqlite::Result<usize> {
    match mark {
        BatchUpdate::Sent(at) => {
            let sql = "UPDATE usage_batch SET sent_at = ifnull(sent_at, ?2) WHERE id = ?1 AND synced_at IS NULL";
            connection.prepare_cached(sql)?.execute(params![id, at.millis()])
        }
        BatchUpdate::Manual(why) => {
            let sql = "UPDATE usage_batch SET manual = ?2 WHERE id = ?1 AND synced_at IS NULL";
            connection.prepare_cached(sql)?.execute([id, why])
        }
        BatchUpdate::Synced(at) => {
            let sql = "UPDATE usage_batch SET synced_at = ?2 WHERE id = ?1 AND synced_at IS NULL";
            let marked = connection.prepare_cached(sql)?.execute(params![id, at.millis()])?;
            let sql = "UPDATE usage SET synced_at = ?2 WHERE synced_at IS NULL AND batch = ?1";
            connection.prepare_cached(sql)?.execute(params![id, at.millis()])?;
            Ok(marked)
        }
    }
}

/// Bookings that should have been metered: all but those that were only ever held.
const BOOKINGS: &str = r#"SELECT count(*) FROM booking
    WHERE held = 0 OR moves LIKE '%"to":"pending"%'"#;

impl Billing for SqliteLog {
    fn usage(&self, booking: TaskId) -> StoreFuture<Option<Usage>> {
        let sql = "SELECT key, intent, cents, customer, at, batch, synced_at FROM usage WHERE k = ?1 AND salt = ?2";
        let read = |row: &Row<'_>| {
            Ok(Usage {
                booking,
                key: row.get(0)?,
                intent: row.get(1)?,
                cents: row.get(2)?,
                customer: row.get(3)?,
                at: Timestamp::from_millis(row.get(4)?),
                batch: row.get(5)?,
                synced_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
            })
        };
        let asked = (key(booking.stamp()), salt(booking));
        self.read(|r| r.connection.prepare_cached(sql)?.query_row(asked, read).optional())
    }

    fn claim_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<()> {
        self.run_on_writer(move |writer| {
            writer.ledger_write(|connection| {
                for (batch, keys) in claimable(connection, before, at)? {
                    let sql = "INSERT INTO usage_batch (id, customer, day, count, last_at, claimed_at)
                               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                    let count = i64::try_from(batch.count).unwrap_or(i64::MAX);
                    let (last, at) = (batch.last_at.millis(), at.millis());
                    let row = params![batch.id, batch.customer, batch.day, count, last, at];
                    connection.prepare_cached(sql)?.execute(row)?;
                    let mut put = connection.prepare_cached("UPDATE usage SET batch = ?2 WHERE k = ?1")?;
                    keys.into_iter().try_for_each(|k| put.execute((k, &batch.id)).map(drop))?;
                }
                Ok(())
            })
        })
    }

    fn claimable_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<Vec<Batch>> {
        let found = self.read_now(|r| claimable(r.connection, before, at));
        StoreFuture::ready(found.map(|found| found.into_iter().map(|(batch, _)| batch).collect()))
    }

    fn batches(&self, all: bool) -> StoreFuture<Vec<Batch>> {
        let which = if all { "" } else { "WHERE synced_at IS NULL" };
        let sql = format!(
            "SELECT id, customer, day, count, last_at, claimed_at, sent_at, synced_at, manual FROM usage_batch {which}
             ORDER BY day, customer, id"
        );
        self.read(|r| r.connection.prepare_cached(&sql)?.query_map([], read_batch)?.collect())
    }

    fn update_batch(&self, id: &str, became: BatchUpdate) -> StoreFuture<bool> {
        let id = id.to_owned();
        self.update_row(move |connection| update_batch(connection, &id, &became))
    }

    fn billing_totals(&self) -> StoreFuture<BillingTotals> {
        self.read(|r| {
            r.snapshot(|| {
                let count = |sql: &str| r.connection.query_row(sql, [], |row| row.get(0)).map(unsigned);
                Ok(BillingTotals {
                    bookings: count(BOOKINGS)?,
                    counted: count("SELECT count(*) FROM usage")?,
                    unsynced: count("SELECT count(*) FROM usage WHERE synced_at IS NULL")?,
                    without_customer: count("SELECT count(*) FROM usage WHERE synced_at IS NULL AND customer IS NULL")?,
                    open: count("SELECT count(*) FROM usage_batch WHERE synced_at IS NULL AND manual IS NULL")?,
                    manual: count("SELECT count(*) FROM usage_batch WHERE synced_at IS NULL AND manual IS NOT NULL")?,
                })
            })
        })
    }
}
