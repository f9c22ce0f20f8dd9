//! Changes of the ledger that are committed with a step, and why the ledger refuses one.

use super::{BookingStatus, Interaction, NewBooking, NewUsage, PaymentStep};
use sabir_proto::{TaskId, Timestamp};

/// A change of the ledger that is committed with a step, see [`crate::Effect::Ledger`].
#[derive(Debug, Clone)]
pub enum LedgerEffect {
    /// Makes a booking with the id of the task, with its slot, its usage and the record of its envelope. Refused where
    /// the venue is not active or the slot is full.
    Book(NewBooking),
    /// Moves a booking, and meters it if it was not metered. Refused unless it is in the status that the caller saw. A
    /// cancelled booking frees its slot.
    MoveBooking {
        booking: TaskId,
        /// The status that the caller saw.
        from: BookingStatus,
        /// The new status.
        to: BookingStatus,
        /// The time of the move.
        at: Timestamp,
        /// The usage that is metered for it from now on.
        usage: Option<NewUsage>,
    },
    /// Stores the record of an envelope.
    Record(Box<Interaction>),
    /// Opens or moves the payment with the id of the task.
    Pay(PaymentStep),
}

/// Why the ledger refused an effect of a step, in words that the caller may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// There is no such venue, or it is not active.
    #[error("there is no such venue any more; search again")]
    NoVenue,
    /// There is no such slot, or it is full.
    #[error("the slot is not available; search again, or take another")]
    NoSlot,
    /// The booking is not in the status that the caller saw.
    #[error("the booking changed at the same moment; look again")]
    BookingMoved,
    /// The payment is not in the status that the caller saw.
    #[error("the payment changed at the same moment; look again")]
    PaymentMoved,
    /// Another payment has used the same token.
    #[error("this payment was used before; make another one")]
    PaymentUsed,
    /// The payments of the key reach the limit of the day.
    #[error("the key may pay no more today")]
    PaymentLimit,
}

impl LedgerError {
    /// All of them, for code that maps a reason back.
    pub const ALL: [Self; 6] =
        [Self::NoVenue, Self::NoSlot, Self::BookingMoved, Self::PaymentMoved, Self::PaymentUsed, Self::PaymentLimit];

    /// The name for programs, by which a refusal passes through code that does not know the ledger.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoVenue => "no_venue",
            Self::NoSlot => "no_slot",
            Self::BookingMoved => "booking_moved",
            Self::PaymentMoved => "payment_moved",
            Self::PaymentUsed => "payment_used",
            Self::PaymentLimit => "payment_limit",
        }
    }
}
