//! Webhook subscriptions.

use super::super::SqliteLog;
use crate::ledger::{SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError, Subscriber, Subscription, Subscriptions};
use crate::{StoreError, StoreFuture};
use rusqlite::{OptionalExtension, Row, params};
use sabir_proto::{Secret, Timestamp};
use std::sync::Arc;

const COLUMNS: &str = "id, key, url, events, secret, previous, previous_until, created_at, ended";

fn read(row: &Row<'_>) -> rusqlite::Result<Subscription> {
    let events: String = row.get(3)?;
    let previous = row.get::<_, Option<String>>(5)?.zip(row.get::<_, Option<i64>>(6)?);
    Ok(Subscription {
        id: row.get(0)?,
        key: row.get(1)?,
        url: row.get(2)?,
        events: serde_json::from_str(&events).unwrap_or_default(),
        secret: Secret::new(row.get::<_, String>(4)?),
        previous: previous.map(|(secret, until)| (Secret::new(secret), Timestamp::from_millis(until))),
        created_at: Timestamp::from_millis(row.get(7)?),
        ended: row.get(8)?,
    })
}

impl SqliteLog {
    fn list(&self, key: Option<&str>) -> Result<Vec<Subscription>, StoreError> {
        let which = if key.is_some() { "key = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT {COLUMNS} FROM subscription WHERE {which} ORDER BY created_at, id");
        self.read_now(|r| r.connection.prepare_cached(&sql)?.query_map([key], read)?.collect())
    }
}

impl Subscriptions for SqliteLog {
    fn subscribe(&self, new: Subscription) -> StoreFuture<(), SubscribeError> {
        self.run_on_writer(move |writer| {
            writer.ledger_transaction(|connection| {
                let sql = "SELECT count(*) FROM subscription WHERE key = ?1";
                let count: u32 = connection.prepare_cached(sql)?.query_row([&new.key], |row| row.get(0))?;
                if count as usize >= SUBSCRIPTIONS_PER_KEY_MAX {
                    return Ok(Err(SubscribeError::TooMany));
                }
                let sql = "INSERT INTO subscription (id, key, url, events, secret, created_at)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
                let events = serde_json::to_string(&new.events).unwrap_or_else(|_| "[]".into());
                let row = params![new.id, new.key, new.url, events, new.secret.expose(), new.created_at.millis()];
                let added = connection.prepare_cached(sql)?.execute(row)?;
                Ok(if added == 1 { Ok(()) } else { Err(SubscribeError::Taken) })
            })?
        })
    }

    fn subscription(&self, id: &str) -> StoreFuture<Option<Subscription>> {
        let sql = format!("SELECT {COLUMNS} FROM subscription WHERE id = ?1");
        self.read(|r| r.connection.prepare_cached(&sql)?.query_row([id], read).optional())
    }

    fn subscriptions(&self, key: Option<&str>) -> StoreFuture<Vec<Subscription>> {
        StoreFuture::ready(self.list(key))
    }

    fn subscribers(&self, key: &str) -> StoreFuture<Arc<Vec<Subscriber>>> {
        let shelf = &self.shared.ledger.venue_cache;
        if let Some(known) = shelf.subscribers(key) {
            return StoreFuture::ready(Ok(known));
        }
        let age = shelf.age();
        StoreFuture::ready(self.list(Some(key)).map(|found| {
            let found = Arc::new(found.into_iter().filter_map(Subscriber::of).collect());
            shelf.keep_subscribers(key, &found, age);
            found
        }))
    }

    fn rotate_subscription(&self, id: &str, secret: Secret, until: Timestamp) -> StoreFuture<bool> {
        let id = id.to_owned();
        self.update_row(move |connection| {
            let sql = "UPDATE subscription SET previous = secret, previous_until = ?3, secret = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![id, secret.expose(), until.millis()])
        })
    }

    fn end_subscription(&self, id: &str, why: Option<&str>) -> StoreFuture<bool> {
        let (id, why) = (id.to_owned(), why.map(str::to_owned));
        self.update_row(move |connection| {
            connection.prepare_cached("UPDATE subscription SET ended = ?2 WHERE id = ?1")?.execute((id, why))
        })
    }

    fn unsubscribe(&self, id: &str) -> StoreFuture<bool> {
        let id = id.to_owned();
        self.update_row(move |connection| {
            connection.prepare_cached("DELETE FROM subscription WHERE id = ?1")?.execute([id])
        })
    }
}
