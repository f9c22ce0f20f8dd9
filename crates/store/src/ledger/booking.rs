//! Bookings.

use crate::{Interaction, NewUsage};
use sabir_proto::{TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// Where a booking stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BookingStatus {
    /// Its slot is held until it is paid.
    PendingPayment,
    /// Made, and not yet confirmed by the venue.
    Pending,
    /// Confirmed by the venue.
    Confirmed,
    /// They came.
    Completed,
    /// They did not come.
    NoShow,
    /// Called off; its slot is free again.
    Cancelled,
}

impl BookingStatus {
    /// Every status.
    pub const ALL: [Self; 6] =
        [Self::PendingPayment, Self::Pending, Self::Confirmed, Self::Completed, Self::NoShow, Self::Cancelled];

    /// In a word, as it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PendingPayment => "pending_payment",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Completed => "completed",
            Self::NoShow => "no_show",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }
}

impl std::fmt::Display for BookingStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What is booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked {
    /// The id of the venue.
    pub venue: String,
    /// The slot, where the venue has any.
    pub slot: Option<String>,
    /// When, in the caller's words.
    pub time: Option<String>,
    /// For how many.
    pub party_size: Option<u32>,
    /// What the venue should know.
    pub note: Option<String>,
    /// The key it was made with.
    pub key: String,
    /// The agent that made it, as it says.
    pub from: String,
    /// What the caller knows it by.
    pub correlation: Option<String>,
}

/// A booking in the making: taken with its task's step, or refused with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBooking {
    /// What is booked.
    pub booked: Booked,
    /// [`BookingStatus::Pending`], or [`BookingStatus::PendingPayment`] while the slot is only held.
    pub status: BookingStatus,
    /// When.
    pub at: Timestamp,
    /// Until when it is held; nothing where it is not only held.
    pub held_until: Option<Timestamp>,
    /// What is counted for it; nothing where it is only held.
    pub usage: Option<NewUsage>,
    /// The record of the envelope it came in.
    pub interaction: Option<Box<Interaction>>,
}

/// A booking that was made. It is called what its task is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// The booking, and its task.
    pub id: TaskId,
    /// What is booked.
    pub booked: Booked,
    /// Where it stands.
    pub status: BookingStatus,
    /// When it was made.
    pub created_at: Timestamp,
    /// It began as one that is only held.
    pub was_held: bool,
    /// Until when it is held, while it is.
    pub held_until: Option<Timestamp>,
    /// Everywhere it has stood since, oldest first.
    pub moves: Vec<BookingMove>,
}

/// A move of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingMove {
    /// Where it went.
    pub to: BookingStatus,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// Which bookings are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BookingQuery {
    /// Of this venue, by its id.
    pub venue: Option<String>,
    /// Made with this key.
    pub key: Option<String>,
    /// That stand here.
    pub status: Option<BookingStatus>,
    /// Made before this one.
    pub before: Option<TaskId>,
    /// At most so many.
    pub limit: usize,
}

/// Why the ledger did not take what a step brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such venue, or it is not active.
    #[error("the venue cannot be booked")]
    NoVenue,
    /// There is no such slot, or it is full.
    #[error("the slot is not available")]
    NoSlot,
    /// The booking does not stand where it was seen.
    #[error("the booking has moved")]
    BookingMoved,
    /// The payment does not stand where it was seen.
    #[error("the payment has moved")]
    PaymentMoved,
    /// What the payment is made with was used before.
    #[error("the payment was used before")]
    PaymentUsed,
    /// The key pays no more on this day.
    #[error("the limit of the day is reached")]
    PaymentLimit,
}
