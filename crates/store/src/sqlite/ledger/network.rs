//! Signed records of other networks.

use super::super::{SqliteLog, unsigned};
use crate::StoreFuture;
use crate::ledger::{NETWORKS_MAX, NetworkError, NetworkPutOutcome, NetworkRecord, Networks};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::Timestamp;

const COLUMNS: &str = "network, seq, record, signature, origin, received_at, expires_at, gone, disputed, change";

fn read(row: &Row<'_>) -> rusqlite::Result<NetworkRecord> {
    Ok(NetworkRecord {
        network: row.get(0)?,
        seq: unsigned(row.get(1)?),
        record: row.get(2)?,
        signature: row.get(3)?,
        origin: row.get(4)?,
        received_at: Timestamp::from_millis(row.get(5)?),
        expires_at: Timestamp::from_millis(row.get(6)?),
        gone: row.get(7)?,
        disputed: row.get(8)?,
        change: unsigned(row.get(9)?),
    })
}

fn find(connection: &Connection, network: &str) -> rusqlite::Result<Option<NetworkRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM network WHERE network = ?1");
    connection.prepare_cached(&sql)?.query_row([network], read).optional()
}

/// Takes the number of the next change.
fn next_change(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "UPDATE network_change SET number = number + 1 RETURNING number";
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

fn put(connection: &Connection, new: &NetworkRecord) -> rusqlite::Result<Result<NetworkPutOutcome, NetworkError>> {
    match find(connection, &new.network)? {
        Some(kept) if kept.seq > new.seq => return Ok(Ok(NetworkPutOutcome::Stale)),
        Some(kept) if kept.seq == new.seq && kept.record == new.record => {
            return Ok(Ok(if kept.disputed { NetworkPutOutcome::Disputed } else { NetworkPutOutcome::Unchanged }));
        }
        Some(kept) if kept.seq == new.seq => {
            if !kept.disputed {
                let change = next_change(connection)?;
                let sql = "UPDATE network SET disputed = 1, change = ?2 WHERE network = ?1";
                connection.prepare_cached(sql)?.execute(params![new.network, change])?;
            }
            return Ok(Ok(NetworkPutOutcome::Disputed));
        }
        Some(_) => {}
        None => {
            let count: u32 = connection.query_row("SELECT count(*) FROM network", [], |row| row.get(0))?;
            if count as usize >= NETWORKS_MAX {
                return Ok(Err(NetworkError::TooMany));
            }
        }
    }
    let sql = "INSERT OR REPLACE INTO network (network, seq, record, signature, origin, received_at, expires_at, gone,
                                               disputed, change)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        new.network,
        i64::try_from(new.seq).unwrap_or(i64::MAX),
        new.record,
        new.signature,
        new.origin,
        new.received_at.millis(),
        new.expires_at.millis(),
        new.gone,
        next_change(connection)?,
    ])?;
    Ok(Ok(NetworkPutOutcome::Stored))
}

impl Networks for SqliteLog {
    fn put_network(&self, record: NetworkRecord) -> StoreFuture<NetworkPutOutcome, NetworkError> {
        self.run_on_writer(move |writer| writer.ledger_transaction(|connection| put(connection, &record))?)
    }

    fn network(&self, network: &str) -> StoreFuture<Option<NetworkRecord>> {
        self.read(|r| find(r.connection, network))
    }

    fn networks(&self, now: Timestamp) -> StoreFuture<Vec<NetworkRecord>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM network WHERE gone = 0 AND disputed = 0 AND expires_at > ?1 ORDER BY network"
        );
        let now = now.millis();
        self.read(|r| r.connection.prepare_cached(&sql)?.query_map([now], read)?.collect())
    }

    fn network_changes(&self, after: u64, limit: usize) -> StoreFuture<Vec<NetworkRecord>> {
        let sql = format!("SELECT {COLUMNS} FROM network WHERE change > ?1 ORDER BY change LIMIT ?2");
        let asked = (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(|r| r.connection.prepare_cached(&sql)?.query_map(asked, read)?.collect())
    }

    fn forget_network(&self, network: &str) -> StoreFuture<bool> {
        let network = network.to_owned();
        self.update_row(move |connection| {
            connection.prepare_cached("DELETE FROM network WHERE network = ?1")?.execute([network])
        })
    }
}
