//! What is counted, and how it is billed.
//!
//! What is counted for a booking is a row in its commit. For the biller the rows of one payer and one day are a *batch*:
//! claimed once, sent under its own name as often as it takes, and closed once the biller has it.

use crate::Answer;
use sabir_proto::{TaskId, Timestamp};

/// Milliseconds of a day; days are those of UTC.
pub const DAY_MS: i64 = 86_400_000;

/// What is counted for a booking, in its own commit. There is one of them for a booking, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUsage {
    /// What was asked for, such as `booking.confirm`.
    pub intent: String,
    /// What it costs.
    pub cents: u32,
    /// Who pays, as the biller knows it.
    pub customer: Option<String>,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The booking.
    pub booking: TaskId,
    /// The key.
    pub key: String,
    /// What was asked for.
    pub intent: String,
    /// What it costs.
    pub cents: u32,
    /// Who pays.
    pub customer: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The batch it is billed with, once it is in one.
    pub batch: Option<String>,
    /// When the biller had it.
    pub synced_at: Option<Timestamp>,
}

/// What one payer is billed for one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its name: that of the first booking in it.
    pub id: String,
    /// Who pays.
    pub customer: String,
    /// Days since 1970.
    pub day: i64,
    /// How many bookings.
    pub count: u64,
    /// The last of them.
    pub last_at: Timestamp,
    /// Since when it is a batch.
    pub claimed_at: Timestamp,
    /// When it was first sent, if it was: from then on nobody knows whether the biller has it, until it says so.
    pub sent_at: Option<Timestamp>,
    /// How it stands.
    pub standing: BatchStanding,
}

/// How a batch stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchStanding {
    /// The biller may not have it yet.
    Open,
    /// The biller has it.
    Synced(Timestamp),
    /// Somebody has to look at it, and why.
    Manual(String),
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchMark {
    /// It is about to be sent. Only the first time counts.
    Sent(Timestamp),
    /// The biller has it.
    Synced(Timestamp),
    /// Somebody has to look at it, and why.
    Manual(String),
}

/// How far what was booked, what was counted and what was billed agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Bookings that were made, those aside that were only ever held.
    pub bookings: u64,
    /// What was counted.
    pub counted: u64,
    /// What was counted and the biller has not.
    pub unsynced: u64,
    /// What was counted and nobody is known to pay for.
    pub without_customer: u64,
    /// Batches that are open.
    pub open: u64,
    /// Batches that somebody has to look at.
    pub manual: u64,
}

impl Tally {
    /// How many more were counted than booked. Anything but zero is a fault of ours.
    pub fn drift(&self) -> i64 {
        self.counted.cast_signed().wrapping_sub(self.bookings.cast_signed())
    }
}

/// Billing.
pub trait Billing: Send + Sync + 'static {
    /// What was counted for a booking.
    fn usage(&self, booking: TaskId) -> Answer<Option<Usage>>;

    /// Puts everything that was counted before then, is in no batch and has a payer into batches.
    fn claim_usage(&self, before: Timestamp, at: Timestamp) -> Answer<()>;

    /// What [`claim_usage`](Self::claim_usage) would make batches of.
    fn claimable_usage(&self, before: Timestamp, at: Timestamp) -> Answer<Vec<Batch>>;

    /// Batches that are not synced, or all of them; by day, payer and name.
    fn batches(&self, all: bool) -> Answer<Vec<Batch>>;

    /// Notes what became of a batch; false where there is none of that name, or the biller has it already.
    fn mark_batch(&self, id: &str, mark: BatchMark) -> Answer<bool>;

    /// Counts everything, on one view of the ledger.
    fn tally(&self) -> Answer<Tally>;
}
