//! The ledger of the booking network, in the task log's file.

mod booking;
mod interaction;
mod network;
mod payment;
mod shelf;
mod subscription;
mod usage;
mod venue;
mod words;

pub(super) use shelf::SlotMove;

use super::reader::Reader;
use super::writer::Writer;
use super::{Backend, SqliteLog, lock, store_error};
use crate::ledger::{
    Bookable, Booking, BookingQuery, ImportError, Imported, Interaction, InteractionQuery, Ledger, Slot, Venue,
    VenueListing, VenueName, VenueQuery,
};
use crate::{Answer, StoreError};
use rusqlite::Connection;
use sabir_proto::{TaskId, Timestamp};
use shelf::Shelf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters and a cache of the ledger, which need no read of the file.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The number of metered bookings.
    pub(super) metered: AtomicU64,
    /// The number of active venues.
    pub(super) venues: AtomicU64,
    /// Venues, slots and subscribers that bookings need.
    pub(super) shelf: Shelf,
}

impl Counts {
    pub(super) fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let counted = connection.query_row("SELECT count(*) FROM usage", [], |row| row.get(0))?;
        self.metered.store(super::unsigned(counted), Ordering::Release);
        self.load_venues(connection)
    }

    fn load_venues(&self, connection: &Connection) -> rusqlite::Result<()> {
        let count = connection.query_row("SELECT count(*) FROM venue WHERE active = 1", [], |row| row.get(0))?;
        self.venues.store(super::unsigned(count), Ordering::Release);
        Ok(())
    }
}

impl Writer {
    /// Changes the ledger in a transaction of its own, on disk when this returns. The inner error leaves no trace.
    fn alter<T, E>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> Result<Result<T, E>, StoreError> {
        let shared = self.shared.clone();
        let _turn = lock(&shared.turn);
        let outcome = self.tighten().and_then(|()| {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let changed = change(&self.connection)?;
            if changed.is_ok() {
                self.connection.prepare_cached("COMMIT")?.execute([])?;
                shared.ledger.shelf.clear();
            }
            Ok(changed)
        });
        self.roll_back();
        let outcome = outcome.map_err(|e| store_error(&e));
        self.felt(&outcome);
        outcome
    }

    /// Like [`Writer::alter`], for changes that cannot be refused.
    fn alter_plainly<T>(&mut self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.alter(|connection| change(connection).map(Ok))?
    }

    /// Updates the count of venues after a change.
    fn count_venues(&self) -> Result<(), StoreError> {
        self.shared.ledger.load_venues(&self.connection).map_err(|e| store_error(&e))
    }
}

impl SqliteLog {
    /// Runs a function on the writer, in its turn.
    fn work<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, E> + Send + 'static,
    ) -> Answer<T, E> {
        match &self.writing {
            Backend::Threaded { queue, .. } => queue.work(work),
            Backend::Inline(writer) => Answer::now(work(&mut lock(writer))),
        }
    }
}

impl SqliteLog {
    /// Changes one row; false where there was none.
    fn change_one(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<usize> + Send + 'static) -> Answer<bool> {
        self.work(move |writer| writer.alter_plainly(change).map(|changed| changed > 0))
    }
}

impl Ledger for SqliteLog {
    fn import_venues(&self, venues: Vec<VenueListing>) -> Answer<Imported, ImportError> {
        self.work(move |writer| {
            let imported = writer.alter(|connection| venue::import(connection, venues))?;
            writer.count_venues()?;
            imported
        })
    }

    fn enable_venue(&self, slug: &str, active: bool) -> Answer<bool> {
        let slug = slug.to_owned();
        self.work(move |writer| {
            let found = writer.alter_plainly(|connection| venue::enable(connection, &slug, active))?;
            writer.count_venues()?;
            Ok(found)
        })
    }

    fn venue(&self, name: VenueName<'_>) -> Answer<Option<Venue>> {
        Answer::now(self.readers.with(|r| venue::find(&r.connection, name)))
    }

    fn bookable(&self, name: VenueName<'_>) -> Answer<Option<Bookable>> {
        let shelf = &self.shared.ledger.shelf;
        if let Some(known) = shelf.bookable(name) {
            return Answer::now(Ok(Some(known)));
        }
        let age = shelf.age();
        let read = |r: &Reader| r.snapshot(|| venue::bookable(&r.connection, name));
        Answer::now(self.readers.with(read).map(|found| {
            found.map(|(bookable, as_of)| {
                shelf.keep(&bookable, as_of, age);
                bookable
            })
        }))
    }

    fn venues(&self, query: &VenueQuery) -> Answer<Vec<Venue>> {
        Answer::now(self.readers.with(|r| venue::search(&r.connection, query)))
    }

    fn active_venues(&self) -> u64 {
        self.shared.ledger.venues.load(Ordering::Acquire)
    }

    fn slots(&self, venue: &str) -> Answer<Vec<Slot>> {
        Answer::now(self.readers.with(|r| venue::slots(&r.connection, venue)))
    }

    fn booking(&self, id: TaskId) -> Answer<Option<Booking>> {
        Answer::now(self.readers.with(|r| booking::find(&r.connection, id)))
    }

    fn bookings(&self, query: &BookingQuery) -> Answer<Vec<Booking>> {
        Answer::now(self.readers.with(|r| booking::list(&r.connection, query)))
    }

    fn held_bookings(&self, until: Timestamp, limit: usize) -> Answer<Vec<Booking>> {
        Answer::now(self.readers.with(|r| booking::held(&r.connection, until, limit)))
    }

    fn metered(&self) -> u64 {
        self.shared.ledger.metered.load(Ordering::Acquire)
    }

    fn record(&self, interaction: Interaction) -> bool {
        match &self.writing {
            Backend::Threaded { queue, .. } => queue.record(interaction),
            Backend::Inline(writer) => lock(writer).record(interaction),
        }
    }

    fn interactions(&self, query: &InteractionQuery) -> Answer<Vec<Interaction>> {
        Answer::now(self.readers.with(|r| interaction::list(&r.connection, query)))
    }
}
