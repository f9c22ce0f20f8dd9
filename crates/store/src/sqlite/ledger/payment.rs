//! Payments: opened and moved in the steps of their tasks.

use super::super::writer::TaskLogWriter;
use super::super::{SqliteLog, key, salt, task_id, unsigned};
use crate::StoreFuture;
use crate::ledger::{DAY_MS, LedgerError, Payment, PaymentJournalEntry, PaymentStatus, PaymentStep, Payments};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{TaskId, Timestamp};

const COLUMNS: &str = "k, salt, key, amount, currency, processor, token, once, books, status, reference, receipt,
    created_at, journal";

fn read(row: &Row<'_>) -> rusqlite::Result<Payment> {
    let (status, journal): (String, String) = (row.get(9)?, row.get(13)?);
    let wrong = |column, what: &str| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into());
    Ok(Payment {
        id: task_id(row.get(0)?, row.get(1)?),
        key: row.get(2)?,
        amount: unsigned(row.get(3)?),
        currency: row.get(4)?,
        processor: row.get(5)?,
        token: row.get(6)?,
        once: row.get(7)?,
        books: row.get(8)?,
        status: PaymentStatus::parse(&status).ok_or_else(|| wrong(9, "no such status"))?,
        reference: row.get(10)?,
        receipt: row.get(11)?,
        created_at: Timestamp::from_millis(row.get(12)?),
        journal: serde_json::from_str(&journal).map_err(|_| wrong(13, "no journal"))?,
    })
}

fn find(connection: &Connection, id: TaskId) -> rusqlite::Result<Option<Payment>> {
    let sql = format!("SELECT {COLUMNS} FROM payment WHERE k = ?1 AND salt = ?2");
    connection.prepare_cached(&sql)?.query_row((key(id.stamp()), salt(id)), read).optional()
}

impl TaskLogWriter {
    pub(super) fn pay(&self, id: TaskId, step: &PaymentStep) -> rusqlite::Result<Result<(), LedgerError>> {
        match step {
            PaymentStep::Open { payment, day_max } => self.open_payment(id, payment, *day_max),
            PaymentStep::Move { .. } => self.move_payment(id, step),
        }
    }

    fn open_payment(
        &self,
        id: TaskId,
        new: &Payment,
        day_max: Option<u64>,
    ) -> rusqlite::Result<Result<(), LedgerError>> {
        if let Some(max) = day_max {
            let day = new.created_at.millis().div_euclid(DAY_MS) * DAY_MS;
            let sql = "SELECT ifnull(sum(amount), 0) FROM payment INDEXED BY payment_key
                       WHERE key = ?1 AND currency = ?2 AND created_at >= ?3 AND created_at < ?4 AND status <> 'failed'";
            let asked = params![new.key, new.currency, day, day + DAY_MS];
            let spent: i64 = self.connection.prepare_cached(sql)?.query_row(asked, |row| row.get(0))?;
            if unsigned(spent).saturating_add(new.amount) > max {
                return Ok(Err(LedgerError::PaymentLimit));
            }
        }
        if let Some(once) = &new.once {
            let sql = "SELECT EXISTS (SELECT 1 FROM payment WHERE once = ?1 AND status <> 'failed')";
            if self.connection.prepare_cached(sql)?.query_row([once], |row| row.get(0))? {
                return Ok(Err(LedgerError::PaymentUsed));
            }
        }
        let journal = [PaymentJournalEntry { at: new.created_at.millis(), to: new.status, why: None }];
        let sql =
            "INSERT INTO payment (k, salt, key, amount, currency, processor, token, once, books, status, reference,
                                        receipt, created_at, journal)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        self.connection.prepare_cached(sql)?.execute(params![
            key(id.stamp()),
            salt(id),
            new.key,
            i64::try_from(new.amount).unwrap_or(i64::MAX),
            new.currency,
            new.processor,
            new.token,
            new.once,
            new.books,
            new.status.name(),
            new.reference,
            new.receipt,
            new.created_at.millis(),
            serde_json::to_string(&journal).unwrap_or_default(),
        ])?;
        Ok(Ok(()))
    }

    fn move_payment(&self, id: TaskId, step: &PaymentStep) -> rusqlite::Result<Result<(), LedgerError>> {
        let Some(moved) = find(&self.connection, id)?.and_then(|payment| payment.after_move(step)) else {
            return Ok(Err(LedgerError::PaymentMoved));
        };
        let sql = "UPDATE payment SET status = ?2, reference = ?3, receipt = ?4, journal = ?5 WHERE k = ?1";
        let journal = serde_json::to_string(&moved.journal).unwrap_or_default();
        let row = params![key(id.stamp()), moved.status.name(), moved.reference, moved.receipt, journal];
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(Ok(()))
    }
}

impl Payments for SqliteLog {
    fn payment(&self, id: TaskId) -> StoreFuture<Option<Payment>> {
        self.read(|r| find(r.connection, id))
    }

    fn payments(&self, open: bool, limit: usize) -> StoreFuture<Vec<Payment>> {
        let which = if open { "INDEXED BY payment_open WHERE status NOT IN ('captured', 'failed')" } else { "" };
        let sql = format!("SELECT {COLUMNS} FROM payment {which} ORDER BY k DESC LIMIT ?1");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|r| r.connection.prepare_cached(&sql)?.query_map([limit], read)?.collect())
    }
}
