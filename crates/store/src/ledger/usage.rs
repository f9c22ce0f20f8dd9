//! Usage and billing: what is metered, and the batches it is billed in.
//!
//! The usage of a booking is a row in the booking's commit. For the biller the rows of one payer and one day are a
//! *batch*: claimed once, sent under its own id as often as needed, and closed once the biller has it.

use crate::StoreFuture;
use sabir_proto::{TaskId, Timestamp};

/// Milliseconds of a day; days are UTC.
pub const DAY_MS: i64 = 86_400_000;

/// The usage that is metered for a booking, in the booking's commit. A booking has one or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUsage {
    /// The intent, such as `booking.confirm`.
    pub intent: String,
    pub cents: u32,
    /// The payer, by the biller's customer id.
    pub customer: Option<String>,
}

/// The metered usage of one booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub booking: TaskId,
    pub key: String,
    pub intent: String,
    pub cents: u32,
    /// The payer, by the biller's customer id.
    pub customer: Option<String>,
    /// The time of the booking.
    pub at: Timestamp,
    /// The batch it is billed with, once it is in one.
    pub batch: Option<String>,
    /// The time at which the biller confirmed it.
    pub synced_at: Option<Timestamp>,
}

/// The usage of one payer on one day, as it is billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its id: that of the first booking in it.
    pub id: String,
    /// The payer, by the biller's customer id.
    pub customer: String,
    /// The day, in days since 1970.
    pub day: i64,
    /// The number of bookings in it.
    pub count: u64,
    /// The time of the last booking in it.
    pub last_at: Timestamp,
    /// The time at which the batch was made.
    pub claimed_at: Timestamp,
    /// The time at which it was first sent. From then on the biller may have it, until it says so.
    pub sent_at: Option<Timestamp>,
    /// The status of the batch.
    pub status: BatchStatus,
}

/// The status of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchStatus {
    /// The biller may not have it yet.
    Open,
    /// The biller confirmed it at this time.
    Synced(Timestamp),
    /// An operator has to look at it, for this reason.
    Manual(String),
}

/// A change of a batch's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchUpdate {
    /// It is about to be sent. Only the first time is stored.
    Sent(Timestamp),
    /// The biller confirmed it at this time.
    Synced(Timestamp),
    /// An operator has to look at it, for this reason.
    Manual(String),
}

/// Totals that show how far bookings, usage and billing agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BillingTotals {
    /// Bookings that were made, without those that were only ever held.
    pub bookings: u64,
    /// Bookings that were metered.
    pub counted: u64,
    /// Usage that the biller does not have.
    pub unsynced: u64,
    /// Usage whose payer is unknown.
    pub without_customer: u64,
    /// Batches that are open.
    pub open: u64,
    /// Batches that an operator has to look at.
    pub manual: u64,
}

impl BillingTotals {
    /// How many more bookings were metered than made. Anything but zero is a fault of this program.
    pub fn drift(&self) -> i64 {
        self.counted.cast_signed().wrapping_sub(self.bookings.cast_signed())
    }
}

/// The stored usage and its batches.
pub trait Billing: Send + Sync + 'static {
    /// The usage of a booking, if it was metered.
    fn usage(&self, booking: TaskId) -> StoreFuture<Option<Usage>>;

    /// Puts all usage before this time that is in no batch and has a payer into batches.
    fn claim_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<()>;

    /// The batches that [`claim_usage`](Self::claim_usage) would make.
    fn claimable_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<Vec<Batch>>;

    /// Batches that are not synced, or all of them; by day, payer and id.
    fn batches(&self, all: bool) -> StoreFuture<Vec<Batch>>;

    /// Updates the status of a batch; false where there is none of that id, or the biller has it already.
    fn update_batch(&self, id: &str, mark: BatchUpdate) -> StoreFuture<bool>;

    /// Counts everything, on one view of the ledger.
    fn billing_totals(&self) -> StoreFuture<BillingTotals>;
}
