//! The ledger of the booking network: venues and slots, bookings, usage and payments, and records of envelopes.
//!
//! It is in the task log's own file, since what belongs to a booking is committed with the step that makes it: the
//! slot, the booking, its usage and the record of its envelope are [`LedgerEffect`]s. A booking has the id of its
//! task, so one leads to the other.
//!
//! Absent on purpose: which transitions of a booking are legal, what a payload may contain, and how money is moved. The
//! ledger compares and sets.

mod booking;
mod effect;
mod interaction;
mod network;
mod payment;
mod subscription;
mod usage;
mod venue;

pub use booking::{Booking, BookingDetails, BookingQuery, BookingStatus, BookingTransition, NewBooking};
pub use effect::{LedgerEffect, LedgerError};
pub use interaction::{INTERACTIONS_WAITING_MAX, Interaction, InteractionQuery};
pub use network::{NETWORKS_MAX, NetworkError, NetworkPutOutcome, NetworkRecord, Networks};
pub use payment::{Payment, PaymentJournalEntry, PaymentStatus, PaymentStep, Payments};
pub use subscription::{SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError, Subscriber, Subscription, Subscriptions};
pub use usage::{Batch, BatchStatus, BatchUpdate, Billing, BillingTotals, DAY_MS, NewUsage, Usage};
pub use venue::{
    BookableVenue, Fee, ImportCounts, ImportError, SCAN_ROWS_MAX, Slot, Venue, VenueListing, VenueQuery, VenueRef,
};
pub(crate) use venue::{NormalizedVenueQuery, fold_case};

use crate::StoreFuture;
use sabir_proto::{TaskId, Timestamp};

/// The ledger. What changes it together with a task is an effect of a step; the methods here change it alone, and the
/// change is on disk before they return.
pub trait Ledger: Subscriptions + Billing + Payments + Networks {
    /// Imports venues, all of them or none: a venue with a known slug is replaced and keeps its id, and its slots keep
    /// their bookings; slots that the import does not name are withdrawn.
    fn import_venues(&self, venues: Vec<VenueListing>) -> StoreFuture<ImportCounts, ImportError>;

    /// Activates or deactivates a venue; false where there is none of that slug. Only active venues are found and
    /// booked.
    fn enable_venue(&self, slug: &str, active: bool) -> StoreFuture<bool>;

    /// A venue, whether it is active or not.
    fn venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<Venue>>;

    /// A venue with its slots, for a booking. Most often from memory.
    fn bookable_venue(&self, name: VenueRef<'_>) -> StoreFuture<Option<BookableVenue>>;

    /// The venues that match, by rank (the highest first, those without one last), then name by code point, then id.
    fn venues(&self, query: &VenueQuery) -> StoreFuture<Vec<Venue>>;

    /// The number of active venues. From memory.
    fn active_venues(&self) -> u64;

    /// The slots of a venue, by time and id; full ones too, withdrawn ones not.
    fn slots(&self, venue: &str) -> StoreFuture<Vec<Slot>>;

    /// The booking of this task, if there is one.
    fn booking(&self, id: TaskId) -> StoreFuture<Option<Booking>>;

    /// Bookings, the latest first.
    fn bookings(&self, query: &BookingQuery) -> StoreFuture<Vec<Booking>>;

    /// Bookings whose holds end by this time, the longest expired first.
    fn expired_holds(&self, until: Timestamp, limit: usize) -> StoreFuture<Vec<Booking>>;

    /// The number of bookings that were ever metered. From memory: read at the start, raised after each commit.
    fn metered_bookings(&self) -> u64;

    /// Queues the record of an envelope that changed nothing. It is written with the next commit, or within a second;
    /// false when too many wait, and then it is dropped and counted.
    fn record_interaction(&self, interaction: Interaction) -> bool;

    /// Records of envelopes, the latest first. Queued ones are not among them.
    fn interactions(&self, query: &InteractionQuery) -> StoreFuture<Vec<Interaction>>;
}
