//! What is counted, and billed.

use sabir_proto::{TaskId, Timestamp};

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
