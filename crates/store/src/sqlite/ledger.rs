//! The ledger of the booking network, in the task log's file.

mod booking;
mod interaction;
mod network;
mod payment;
mod subscription;
mod usage;
mod venue;
mod venue_cache;
mod vocabulary;

pub(super) use venue_cache::SlotMove;

use super::reader::Reader;
use super::writer::TaskLogWriter;
use super::{LogBackend, SqliteLog, lock, store_error};
use crate::ledger::{
    BookableVenue, Booking, BookingQuery, ImportCounts, ImportError, Interaction, InteractionQuery, Ledger,
    LedgerEffect, LedgerError, Slot, Venue, VenueListing, VenueQuery, VenueRef,
};
use crate::{StoreError, StoreFuture};
use rusqlite::Connection;
use sabir_proto::{TaskId, Timestamp};
use std::sync::atomic::{AtomicU64, Ordering};
use venue_cache::VenueCache;

/// Counters and a cache of the ledger, which need no read of the file.
#[derive(Debug, Default)]
pub(super) struct LedgerCache {
    /// The number of metered bookings.
    pub(super) metered_bookings: AtomicU64,
    /// The number of active venues.
    pub(super) venues: AtomicU64,
    /// Venues, slots and subscribers that bookings need.
    pub(super) venue_cache: VenueCache,
}

impl LedgerCache {
    pub(super) fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let counted = connection.query_row("SELECT count(*) FROM usage", [], |row| row.get(0))?;
        self.metered_bookings.store(super::unsigned(counted), Ordering::Release);
        self.load_venues(connection)
    }

    fn load_venues(&self, connection: &Connection) -> rusqlite::Result<()> {
        let count = connection.query_row("SELECT count(*) FROM venue WHERE active = 1", [], |row| row.get(0))?;
        self.venues.store(super::unsigned(count), Ordering::Release);
        Ok(())
    }
}

impl TaskLogWriter {
    /// Applies an effect of a step of this task, in the transaction of the step.
    pub(super) fn apply_to_ledger(
        &self,
        task: TaskId,
        effect: &LedgerEffect,
    ) -> rusqlite::Result<Result<(), LedgerError>> {
        match effect {
            LedgerEffect::Book(new) => self.book(task, new),
            LedgerEffect::MoveBooking { booking, from, to, at, usage } => {
                self.move_booking(*booking, (*from, *to), *at, usage.as_ref())
            }
            LedgerEffect::Record(record) => self.write_interaction(record).map(Ok),
            LedgerEffect::Pay(step) => self.pay(task, step),
        }
    }

    /// Changes the ledger in a transaction of its own, on disk when this returns. The inner error leaves no trace.
    fn ledger_transaction<T, E>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.write_lock);
        let outcome = self.require_sync().and_then(|()| {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let changed = change(&self.connection)?;
            if changed.is_ok() {
                self.connection.prepare_cached("COMMIT")?.execute([])?;
                shared.ledger.venue_cache.clear();
            }
            Ok(changed)
        });
        self.roll_back();
        let outcome = outcome.map_err(|e| store_error(&e));
        self.record_outcome(&outcome);
        outcome
    }

    /// Like [`TaskLogWriter::ledger_transaction`], for changes that cannot be refused.
    fn ledger_write<T>(&mut self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.ledger_transaction(|connection| change(connection).map(Ok))?
    }

    /// Updates the count of venues after a change.
    fn count_venues(&self) -> Result<(), StoreError> {
        self.shared.ledger.load_venues(&self.connection).map_err(|e| store_error(&e))
    }
}

impl SqliteLog {
    /// Runs a function on the writer, in its turn.
    fn run_on_writer<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        work: impl FnOnce(&mut TaskLogWriter) -> Result<T, E> + Send + 'static,
    ) -> StoreFuture<T, E> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.run_on_writer(work),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(work(&mut lock(writer))),
        }
    }
}

impl SqliteLog {
    /// Changes one row; false where there was none.
    fn update_row(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<usize> + Send + 'static,
    ) -> StoreFuture<bool> {
        self.run_on_writer(move |writer| writer.ledger_write(change).map(|changed| changed > 0))
    }
}

impl Ledger for SqliteLog {
    fn import_venues(&self, venues: Vec<VenueListing>) -> StoreFuture<ImportCounts, ImportError> {
        self.run_on_writer(move |writer| {
            let imported = writer.ledger_transaction(|connection| venue::import(connection, venues))?;
            writer.count_venues()?;
            imported
        })
    }

    fn enable_venue(&self, slug: &str, active: bool) -> StoreFuture<bool> {
        let slug = slug.to_owned();
        self.run_on_writer(move |writer| {
            let found = writer.ledger_write(|connection| venue::enable(connection, &slug, active))?;
            writer.count_venues()?;
            Ok(found)
        })
    }

    fn venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<Venue>> {
        self.read(|r| venue::find(r.connection, name))
    }

    fn bookable_venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<BookableVenue>> {
        let shelf = &self.shared.ledger.venue_cache;
        if let Some(known) = shelf.bookable(name) {
            return StoreFuture::ready(Ok(Some(known)));
        }
        let age = shelf.age();
        let read = |r: &Reader<'_>| r.snapshot(|| venue::bookable(r.connection, name));
        StoreFuture::ready(self.read_now(read).map(|found| {
            found.map(|(bookable, as_of)| {
                shelf.keep(&bookable, as_of, age);
                bookable
            })
        }))
    }

    fn venues(&self, query: &VenueQuery) -> StoreFuture<Vec<Venue>> {
        self.read(|r| venue::search(r.connection, query))
    }

    fn active_venues(&self) -> u64 {
        self.shared.ledger.venues.load(Ordering::Acquire)
    }

    fn slots(&self, venue: &str) -> StoreFuture<Vec<Slot>> {
        self.read(|r| venue::slots(r.connection, venue))
    }

    fn booking(&self, id: TaskId) -> StoreFuture<Option<Booking>> {
        self.read(|r| booking::find(r.connection, id))
    }

    fn bookings(&self, query: &BookingQuery) -> StoreFuture<Vec<Booking>> {
        self.read(|r| booking::list(r.connection, query))
    }

    fn expired_holds(&self, until: Timestamp, limit: usize) -> StoreFuture<Vec<Booking>> {
        self.read(|r| booking::expired_holds(r.connection, until, limit))
    }

    fn metered_bookings(&self) -> u64 {
        self.shared.ledger.metered_bookings.load(Ordering::Acquire)
    }

    fn record_interaction(&self, interaction: Interaction) -> bool {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.record_interaction(interaction),
            LogBackend::Inline { writer, .. } => lock(writer).record_interaction(interaction),
        }
    }

    fn interactions(&self, query: &InteractionQuery) -> StoreFuture<Vec<Interaction>> {
        self.read(|r| interaction::list(r.connection, query))
    }
}
