//! The ledger of the booking network: venues and their slots, bookings, what is counted and paid, and who asked for what.
//!
//! It is in the task log's own file, since what belongs to a booking is committed with the step that makes it: the slot,
//! the booking, its count and the record of its envelope are [`crate::Effect`]s. A booking is called what its task is
//! called, so whoever has the one has the other.
//!
//! Absent on purpose: which moves of a booking are legal, what a payload may say, and how money is moved. The ledger
//! compares and sets.

mod booking;
mod interaction;
mod network;
mod payment;
mod subscription;
mod usage;
mod venue;

pub use booking::{Booked, Booking, BookingMove, BookingQuery, BookingStatus, NewBooking, Refusal};
pub use interaction::{INTERACTIONS_WAITING_MAX, Interaction, InteractionQuery};
pub use network::{NETWORKS_MAX, NetworkError, NetworkPut, NetworkRecord, Networks};
pub use payment::{Payment, PaymentEntry, PaymentStatus, PaymentStep, Payments};
pub use subscription::{SUBSCRIPTIONS_PER_KEY_MAX, SubscribeError, Subscriber, Subscription, Subscriptions};
pub use usage::{Batch, BatchMark, BatchStanding, Billing, DAY_MS, NewUsage, Tally, Usage};
pub use venue::{
    Bookable, Fee, ImportError, Imported, Listing as VenueListing, SCAN_ROWS_MAX, Slot, Venue, VenueName, VenueQuery,
};
#[cfg(feature = "sqlite")]
pub(crate) use venue::{Wanted, folded};

use crate::Answer;
use sabir_proto::{TaskId, Timestamp};

/// The ledger. What changes it together with a task is an effect of a step; what is here changes it alone, and is on disk
/// before it answers.
pub trait Ledger: Subscriptions + Billing + Payments + Networks {
    /// Puts venues in, all of them or none: a slug that is known is replaced and keeps its id, and its slots keep what is
    /// taken of them; slots that are not named any more are withdrawn.
    fn import_venues(&self, venues: Vec<VenueListing>) -> Answer<Imported, ImportError>;

    /// Has a venue found and booked, or not; false where there is none of that slug.
    fn enable_venue(&self, slug: &str, active: bool) -> Answer<bool>;

    /// A venue, whether it is active or not.
    fn venue(&self, name: VenueName<'_>) -> Answer<Option<Venue>>;

    /// A venue with its slots, for whoever orders. Most often from memory.
    fn bookable(&self, name: VenueName<'_>) -> Answer<Option<Bookable>>;

    /// The venues that fit, by rank (the highest first, those without one last), then name by code point, then id.
    fn venues(&self, query: &VenueQuery) -> Answer<Vec<Venue>>;

    /// How many venues are active. From memory.
    fn active_venues(&self) -> u64;

    /// The slots of a venue, by time and id; those that are full as well, and those that are withdrawn not.
    fn slots(&self, venue: &str) -> Answer<Vec<Slot>>;

    /// A booking.
    fn booking(&self, id: TaskId) -> Answer<Option<Booking>>;

    /// Bookings, the latest first.
    fn bookings(&self, query: &BookingQuery) -> Answer<Vec<Booking>>;

    /// Bookings whose slots were to be held until then at most, the longest first.
    fn held_bookings(&self, until: Timestamp, limit: usize) -> Answer<Vec<Booking>>;

    /// How many bookings were counted, ever. From memory: read at the start, raised after each commit.
    fn metered(&self) -> u64;

    /// The record of an envelope that changed nothing. It is written with the next commit, or within a second; false when
    /// too many wait, and then it is dropped and counted.
    fn record(&self, interaction: Interaction) -> bool;

    /// Records of envelopes, the latest first. Those that wait are not among them.
    fn interactions(&self, query: &InteractionQuery) -> Answer<Vec<Interaction>>;
}
