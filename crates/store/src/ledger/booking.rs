//! Bookings, their status and their transitions.

use crate::{Interaction, NewUsage};
use sabir_proto::{TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// The status of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BookingStatus {
    /// Its slot is held until it is paid.
    PendingPayment,
    /// Made, and not yet confirmed by the venue.
    Pending,
    /// Confirmed by the venue.
    Confirmed,
    /// The guests came.
    Completed,
    /// The guests did not come.
    NoShow,
    /// Called off; its slot is free again.
    Cancelled,
}

impl BookingStatus {
    pub const ALL: [Self; 6] =
        [Self::PendingPayment, Self::Pending, Self::Confirmed, Self::Completed, Self::NoShow, Self::Cancelled];

    /// The word that is stored and shown.
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

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }
}

impl std::fmt::Display for BookingStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The content of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookingDetails {
    pub venue: String,
    /// The slot, where the venue has any.
    pub slot: Option<String>,
    /// The time, in the caller's words.
    pub time: Option<String>,
    /// The number of guests.
    pub party_size: Option<u32>,
    /// What the venue should know.
    pub note: Option<String>,
    /// The id of the key it was made with.
    pub key: String,
    /// The agent that made it, by its own account.
    pub from: String,
    /// The caller's own id for it.
    pub correlation: Option<String>,
}

/// A booking that a step makes: committed with the step, or refused with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBooking {
    /// The content of the booking.
    pub details: BookingDetails,
    /// [`BookingStatus::Pending`], or [`BookingStatus::PendingPayment`] while the slot is only held.
    pub status: BookingStatus,
    /// The time at which it is made.
    pub at: Timestamp,
    /// Until when the slot is held; `None` where it is not only held.
    pub held_until: Option<Timestamp>,
    /// The usage that is metered for it; `None` where the slot is only held.
    pub usage: Option<NewUsage>,
    /// The record of the envelope it came in.
    pub interaction: Option<Box<Interaction>>,
}

/// A stored booking. It has the id of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// The id of the booking, and of its task.
    pub id: TaskId,
    /// The content of the booking.
    pub details: BookingDetails,
    pub status: BookingStatus,
    pub created_at: Timestamp,
    /// The booking began as a hold that waits for a payment.
    pub was_held: bool,
    /// Until when the slot is held, while it is.
    pub held_until: Option<Timestamp>,
    /// Its transitions since it was made, oldest first.
    pub transitions: Vec<BookingTransition>,
}

/// A transition of a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingTransition {
    /// The status after the transition.
    pub to: BookingStatus,
    /// The time, in milliseconds since 1970.
    pub at: i64,
}

/// A filter for bookings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BookingQuery {
    /// Only of this venue, by its id.
    pub venue: Option<String>,
    /// Only those made with this key.
    pub key: Option<String>,
    /// Only those in this status.
    pub status: Option<BookingStatus>,
    /// Only those made before this one.
    pub before: Option<TaskId>,
    /// The maximum number of results.
    pub limit: usize,
}
