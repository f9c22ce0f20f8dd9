//! Bookings and their usage: written in the step of their task.

use super::super::writer::TaskLogWriter;
use super::super::{key, salt, task_id};
use super::SlotMove;
use crate::ledger::{
    Booking, BookingDetails, BookingQuery, BookingStatus, BookingTransition, LedgerError, NewBooking, NewUsage,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sabir_proto::{TaskId, Timestamp};

impl TaskLogWriter {
    /// Makes the booking of a task, unless the venue or the slot is not available.
    pub(super) fn book(&self, id: TaskId, new: &NewBooking) -> rusqlite::Result<Result<(), LedgerError>> {
        let NewBooking { details: booked, .. } = new;
        let has_room = match &booked.slot {
            Some(slot) => {
                let sql = "UPDATE slot SET taken = taken + 1 WHERE venue = ?1 AND id = ?2 AND taken < capacity
                           AND EXISTS (SELECT 1 FROM venue WHERE id = ?1 AND active = 1)";
                let has_room = self.connection.prepare_cached(sql)?.execute([&booked.venue, slot])? == 1;
                if has_room {
                    self.slot_moved(&booked.venue, slot, true);
                }
                has_room
            }
            None => self.is_active(&booked.venue)?,
        };
        if !has_room {
            let refusal = if self.is_active(&booked.venue)? { LedgerError::NoSlot } else { LedgerError::NoVenue };
            return Ok(Err(refusal));
        }
        let sql =
            "INSERT INTO booking (k, salt, venue, slot, time, party_size, note, key, from_agent, correlation, status,
                                        created_at, held, held_until)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING";
        let added = self.connection.prepare_cached(sql)?.execute(params![
            key(id.stamp()),
            salt(id),
            booked.venue,
            booked.slot,
            booked.time,
            booked.party_size,
            booked.note,
            booked.key,
            booked.from,
            booked.correlation,
            new.status.name(),
            new.at.millis(),
            new.status == BookingStatus::PendingPayment,
            new.held_until.map(Timestamp::millis),
        ])?;
        if added == 0 {
            // A task makes one booking.
            return Ok(Err(LedgerError::BookingMoved));
        }
        if let Some(usage) = &new.usage {
            self.count(id, &booked.key, usage, new.at)?;
        }
        if let Some(interaction) = &new.interaction {
            self.write_interaction(interaction)?;
        }
        Ok(Ok(()))
    }

    fn slot_moved(&self, venue: &str, slot: &str, taken: bool) {
        self.slots_moved.borrow_mut().push(SlotMove { venue: venue.to_owned(), slot: slot.to_owned(), taken });
    }

    fn is_active(&self, venue: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM venue WHERE id = ?1 AND active = 1)";
        self.connection.prepare_cached(sql)?.query_row([venue], |row| row.get(0))
    }

    fn count(&self, id: TaskId, by: &str, usage: &NewUsage, at: Timestamp) -> rusqlite::Result<()> {
        let sql = "INSERT INTO usage (k, salt, key, intent, cents, customer, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT DO NOTHING";
        let row = params![key(id.stamp()), salt(id), by, usage.intent, usage.cents, usage.customer, at.millis()];
        let added = self.connection.prepare_cached(sql)?.execute(row)?;
        self.counted.set(self.counted.get() + u64::try_from(added).unwrap_or(0));
        Ok(())
    }

    /// Moves a booking, if it is in the status that the caller saw.
    pub(super) fn move_booking(
        &self,
        id: TaskId,
        (from, to): (BookingStatus, BookingStatus),
        at: Timestamp,
        usage: Option<&NewUsage>,
    ) -> rusqlite::Result<Result<(), LedgerError>> {
        let Some(booking) = find(&self.connection, id)?.filter(|booking| booking.status == from) else {
            return Ok(Err(LedgerError::BookingMoved));
        };
        let mut moves = booking.transitions;
        moves.push(BookingTransition { to, at: at.millis() });
        let moves = serde_json::to_string(&moves).unwrap_or_default();
        let sql = "UPDATE booking SET status = ?2, moves = ?3, held_until = NULL WHERE k = ?1";
        self.connection.prepare_cached(sql)?.execute((key(id.stamp()), to.name(), moves))?;
        if let (BookingStatus::Cancelled, Some(slot)) = (to, &booking.details.slot) {
            // A slot that an import withdrew has nothing to give back.
            let sql = "UPDATE slot SET taken = taken - 1 WHERE venue = ?1 AND id = ?2 AND taken > 0";
            if self.connection.prepare_cached(sql)?.execute([&booking.details.venue, slot])? == 1 {
                self.slot_moved(&booking.details.venue, slot, false);
            }
        }
        if let Some(usage) = usage {
            self.count(id, &booking.details.key, usage, at)?;
        }
        Ok(Ok(()))
    }
}

const COLUMNS: &str = "k, salt, venue, slot, time, party_size, note, key, from_agent, correlation, status, created_at,
    held_until, moves, held";

fn read(row: &Row<'_>) -> rusqlite::Result<Booking> {
    let status: String = row.get(10)?;
    let status = BookingStatus::parse(&status)
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(10, Type::Text, "no such status".into()))?;
    let moves: Option<String> = row.get(13)?;
    Ok(Booking {
        id: task_id(row.get(0)?, row.get(1)?),
        details: BookingDetails {
            venue: row.get(2)?,
            slot: row.get(3)?,
            time: row.get(4)?,
            party_size: row.get(5)?,
            note: row.get(6)?,
            key: row.get(7)?,
            from: row.get(8)?,
            correlation: row.get(9)?,
        },
        status,
        created_at: Timestamp::from_millis(row.get(11)?),
        was_held: row.get(14)?,
        held_until: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
        transitions: moves.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
    })
}

pub(super) fn find(connection: &Connection, id: TaskId) -> rusqlite::Result<Option<Booking>> {
    let sql = format!("SELECT {COLUMNS} FROM booking WHERE k = ?1 AND salt = ?2");
    connection.prepare_cached(&sql)?.query_row((key(id.stamp()), salt(id)), read).optional()
}

pub(super) fn expired_holds(connection: &Connection, until: Timestamp, limit: usize) -> rusqlite::Result<Vec<Booking>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM booking INDEXED BY booking_held
         WHERE held_until IS NOT NULL AND held_until <= ?1 ORDER BY held_until LIMIT ?2"
    );
    let asked = (until.millis(), i64::try_from(limit).unwrap_or(i64::MAX));
    connection.prepare_cached(&sql)?.query_map(asked, read)?.collect()
}

pub(super) fn list(connection: &Connection, query: &BookingQuery) -> rusqlite::Result<Vec<Booking>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM booking WHERE k < ?1 AND (?2 IS NULL OR venue = ?2) AND (?3 IS NULL OR key = ?3)
         AND (?4 IS NULL OR status = ?4) ORDER BY k DESC LIMIT ?5"
    );
    let before = query.before.map_or(i64::MAX, |id| key(id.stamp()));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let asked = params![before, query.venue, query.key, query.status.map(BookingStatus::name), limit];
    connection.prepare_cached(&sql)?.query_map(asked, read)?.collect()
}
