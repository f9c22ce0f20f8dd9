//! The transitions of a booking: one table.

use sabir_store::BookingStatus;

/// An action on a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookingAction {
    /// The booking is paid.
    Pay,
    /// The venue confirms it.
    Confirm,
    /// The guests came.
    Complete,
    /// The guests did not come.
    Miss,
    /// It is cancelled.
    Cancel,
}

/// A transition that the table does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a booking that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// The status of the booking now.
    pub from: BookingStatus,
    /// The status it was to get.
    pub to: BookingStatus,
}

impl BookingAction {
    pub const ALL: [Self; 5] = [Self::Pay, Self::Confirm, Self::Complete, Self::Miss, Self::Cancel];

    /// The status that the action leads to, where it is legal.
    pub const fn target(self) -> BookingStatus {
        match self {
            Self::Pay => BookingStatus::Pending,
            Self::Confirm => BookingStatus::Confirmed,
            Self::Complete => BookingStatus::Completed,
            Self::Miss => BookingStatus::NoShow,
            Self::Cancel => BookingStatus::Cancelled,
        }
    }
}

/// The status after an action. The only place that decides what is legal: commands, payments and tests use it.
pub const fn next(from: BookingStatus, step: BookingAction) -> Result<BookingStatus, IllegalTransition> {
    use BookingStatus::{Cancelled, Completed, Confirmed, NoShow, Pending, PendingPayment};
    match (from, step) {
        (PendingPayment, BookingAction::Pay) => Ok(Pending),
        (Pending, BookingAction::Confirm) => Ok(Confirmed),
        // Only confirmed guests can come or stay away.
        (Confirmed, BookingAction::Complete) => Ok(Completed),
        (Confirmed, BookingAction::Miss) => Ok(NoShow),
        // An expired hold is cancelled as well.
        (PendingPayment | Pending | Confirmed, BookingAction::Cancel) => Ok(Cancelled),
        (PendingPayment, BookingAction::Confirm | BookingAction::Complete | BookingAction::Miss)
        | (Pending, BookingAction::Pay | BookingAction::Complete | BookingAction::Miss)
        | (Confirmed, BookingAction::Pay | BookingAction::Confirm)
        | (Completed | NoShow | Cancelled, _) => Err(IllegalTransition { from, to: step.target() }),
    }
}

/// The action that leads from one status to another.
pub fn action_between(from: BookingStatus, to: BookingStatus) -> Result<BookingAction, IllegalTransition> {
    let legal = |step: &BookingAction| next(from, *step) == Ok(to);
    BookingAction::ALL.into_iter().find(legal).ok_or(IllegalTransition { from, to })
}

/// The webhook event for a booking that has reached this status, besides `booking.status_changed`.
pub const fn webhook_event(status: BookingStatus) -> Option<&'static str> {
    match status {
        BookingStatus::Completed => Some("booking.completed"),
        BookingStatus::NoShow => Some("booking.no_show"),
        BookingStatus::Cancelled => Some("booking.cancelled"),
        // `booking.confirmed` is sent when the booking is made, with its status at that time.
        BookingStatus::PendingPayment | BookingStatus::Pending | BookingStatus::Confirmed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BookingStatus::{Cancelled, Completed, Confirmed, NoShow, Pending, PendingPayment};

    #[test]
    fn bookings_move_along_the_table_and_nowhere_else() {
        let legal = [
            (PendingPayment, Pending),
            (PendingPayment, Cancelled),
            (Pending, Confirmed),
            (Pending, Cancelled),
            (Confirmed, Completed),
            (Confirmed, NoShow),
            (Confirmed, Cancelled),
        ];
        for from in BookingStatus::ALL {
            for to in BookingStatus::ALL {
                assert_eq!(action_between(from, to).is_ok(), legal.contains(&(from, to)), "{from} to {to}");
            }
            for step in BookingAction::ALL {
                assert_eq!(next(from, step).is_ok(), legal.contains(&(from, step.target())), "{from} by {step:?}");
            }
        }
        let refused = action_between(Completed, Cancelled).unwrap_err();
        assert_eq!(refused.to_string(), "a booking that is completed cannot become cancelled");
    }
}
