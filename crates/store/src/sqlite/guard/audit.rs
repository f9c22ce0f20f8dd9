//! The audit as rows: a chain that any process with the file may extend.

use crate::audit::{ChainRow, ChainVerifier, next_row, parse_entry};
use crate::{AuditRecord, ChainPosition, ChainVerification, Hash, LinkedEntry, StoreError};
use rusqlite::{Connection, Row, params};

/// Appends entries, inside the caller's transaction. It reads the end of the chain there, since another process may
/// have appended in between.
pub(super) fn append(connection: &Connection, records: &[AuditRecord]) -> rusqlite::Result<u64> {
    let mut at = end(connection)?;
    if records.is_empty() {
        return Ok(at.seq);
    }
    for record in records {
        let row = next_row(at, record);
        let sql = "INSERT INTO audit (seq, entry, hash) VALUES (?1, ?2, ?3)";
        let values = params![row.seq.cast_signed(), row.canonical, row.hash.to_string()];
        connection.prepare_cached(sql)?.execute(values)?;
        at = ChainPosition { seq: row.seq, hash: row.hash };
    }
    let sql = "UPDATE audit_end SET seq = ?1, hash = ?2";
    connection.prepare_cached(sql)?.execute(params![at.seq.cast_signed(), at.hash.to_string()])?;
    Ok(at.seq)
}

/// The end of the chain.
pub(super) fn end(connection: &Connection) -> rusqlite::Result<ChainPosition> {
    connection.prepare_cached("SELECT seq, hash FROM audit_end")?.query_row([], |row| {
        let hash: String = row.get(1)?;
        Ok(ChainPosition { seq: number(row)?, hash: Hash::parse(&hash).unwrap_or_default() })
    })
}

fn number(row: &Row<'_>) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0))
}

/// A row as it is stored, even if it was tampered with.
fn chain_row(row: &Row<'_>) -> rusqlite::Result<ChainRow> {
    let text = |at: usize| -> rusqlite::Result<String> {
        Ok(row.get_ref(at)?.as_bytes_or_null().ok().flatten().map(String::from_utf8_lossy).unwrap_or_default().into())
    };
    Ok(ChainRow { seq: number(row)?, canonical: text(1)?, hash: Hash::parse(&text(2)?).unwrap_or_default() })
}

pub(super) fn entries(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> rusqlite::Result<Result<Vec<LinkedEntry>, StoreError>> {
    let sql = "SELECT seq, entry, hash FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut statement = connection.prepare(sql)?;
    let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = statement.query_map([after, limit], chain_row)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let read = |row: ChainRow| match parse_entry(&row) {
        Some(entry) => Ok(LinkedEntry { entry, hash: row.hash }),
        None => Err(StoreError::Corrupt(format!("entry {} of the audit cannot be read", row.seq))),
    };
    Ok(rows.into_iter().map(read).collect())
}

pub(in crate::sqlite) fn verify(
    connection: &Connection,
    known: Option<ChainPosition>,
) -> rusqlite::Result<ChainVerification> {
    // Rows and end on one view of the file.
    let view = connection.unchecked_transaction()?;
    let mut checker = ChainVerifier::new(known);
    let mut statement = view.prepare("SELECT seq, entry, hash FROM audit ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !checker.add_row(chain_row(row)?) {
            break;
        }
    }
    Ok(checker.finish(end(&view)?))
}
