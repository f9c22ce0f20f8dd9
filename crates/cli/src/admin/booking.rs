//! `sabir booking …`: what was booked through the network of a server.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{BookingStatus, BookingView, ListBookings, MoveBooking, ROWS_MAX, ShowBooking};

/// List bookings, the latest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir booking list\n  \
    sabir booking list --venue la-brisa --status pending -o json")]
pub(crate) struct BookingList {
    /// Only of the venue of this slug.
    #[arg(long, value_name = "SLUG")]
    venue: Option<String>,
    /// Only those made with this key.
    #[arg(long, value_name = "KEY_ID")]
    key: Option<String>,
    /// Only those that stand like this: pending_payment, pending, confirmed, completed, no_show or cancelled.
    #[arg(long, value_parser = status)]
    status: Option<BookingStatus>,
    /// Only those made before this one.
    #[arg(long, value_name = "BOOKING_ID")]
    before: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for BookingList {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if !(1..=ROWS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {ROWS_MAX}")).into());
        }
        let Self { venue, key, status, before, limit, server } = self;
        let list = server.ask(ListBookings { venue, key, status, before, limit })?;
        print_json(&out, &list)?;
        out.text(|fields| {
            list.bookings.iter().for_each(|booking| write_fields(fields, booking));
            fields.field("Total", &list.bookings.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Show one booking, with every move it has made.
#[derive(Debug, Args)]
pub(crate) struct BookingShow {
    /// Its id.
    id: String,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for BookingShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        print_booking(&out, &self.server.ask(ShowBooking { id: self.id })?)
    }
}

/// Move a booking: confirm it, or say how it ended.
///
/// A booking goes from pending to confirmed, from there to completed or no_show, and from either to cancelled, which
/// gives its slot back. The webhooks of its key are told: booking.status_changed, and booking.cancelled,
/// booking.completed or booking.no_show besides.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir booking transition 0198c0de-… confirmed\n  \
    sabir booking transition 0198c0de-… cancelled")]
pub(crate) struct BookingTransition {
    /// Its id.
    id: String,
    /// Where to: confirmed, completed, no_show or cancelled.
    #[arg(value_parser = status)]
    to: BookingStatus,
    #[command(flatten)]
    server: ServerTarget,
}

impl Verb for BookingTransition {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        print_booking(&out, &self.server.ask(MoveBooking { id: self.id, to: self.to })?)
    }
}

fn print_booking(out: &Output, booking: &BookingView) -> Outcome {
    print_json(out, booking)?;
    out.text(|fields| write_fields(fields, booking))?;
    Ok(Exit::Done)
}

fn write_fields(fields: &mut Fields, booking: &BookingView) {
    fields.field("Booking", &booking.booking_id);
    fields.field("Venue", &booking.venue);
    fields.field("Status", booking.status.name());
    fields.maybe("Slot", booking.slot_id.as_deref());
    fields.maybe("Time", booking.time.as_deref());
    fields.maybe("Party", booking.party_size.map(|size| size.to_string()).as_deref());
    fields.maybe("Note", booking.user_note.as_deref());
    fields.field("Key", &booking.key);
    fields.field("From", &booking.from);
    fields.maybe("Known as", booking.correlation_id.as_deref());
    fields.field("Made", &booking.created_at.to_string());
    for step in &booking.moves {
        fields.field("Moved", &format!("{} to {}", step.at, step.to));
    }
}

fn status(text: &str) -> Result<BookingStatus, String> {
    let names = || BookingStatus::ALL.map(BookingStatus::name).join(", ");
    BookingStatus::parse(text).ok_or_else(|| format!("a booking is one of {}", names()))
}
