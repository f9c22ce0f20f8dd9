//! `sabir booking …`: what was booked through the network of a server.

use super::Place;
use super::venue::{ask, unexpected};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Code, Outcome, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_server::admin::{BookingStatus, BookingView, NetworkOrder, NetworkSaid, ROWS_MAX, whoever_sits_here};
use serde_json::json;

/// List bookings, the latest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir booking list\n  \
    sabir booking list --venue la-brisa --status pending -o json")]
pub(crate) struct List {
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
    place: Place,
}

impl Verb for List {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        if !(1..=ROWS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {ROWS_MAX}")).into());
        }
        let Self { venue, key, status, before, limit, place } = self;
        let order = NetworkOrder::Bookings { venue, key, status, before, limit };
        let NetworkSaid::Bookings(all) = ask(&place, order)? else { return Err(unexpected()) };
        if out.is_json() {
            out.document(&json!({"bookings": all}).to_string())?;
        }
        out.text(|floor| {
            all.iter().for_each(|booking| fields(floor, booking));
            floor.field("Total", &all.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Show one booking, with every move it has made.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Its id.
    id: String,
    #[command(flatten)]
    place: Place,
}

impl Verb for Show {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkOrder::ShowBooking { id: self.id.clone() };
        one(&out, ask(&self.place, order)?, &self.id)
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
pub(crate) struct Transition {
    /// Its id.
    id: String,
    /// Where to: confirmed, completed, no_show or cancelled.
    #[arg(value_parser = status)]
    to: BookingStatus,
    #[command(flatten)]
    place: Place,
}

impl Verb for Transition {
    fn run(self, Invocation { out, .. }: Invocation) -> Outcome {
        let order = NetworkOrder::MoveBooking { id: self.id.clone(), to: self.to, by: whoever_sits_here() };
        one(&out, ask(&self.place, order)?, &self.id)
    }
}

fn one(out: &Output, said: NetworkSaid, id: &str) -> Outcome {
    match said {
        NetworkSaid::Booking(Some(booking)) => {
            if out.is_json() {
                out.document(&json!(booking).to_string())?;
            }
            out.text(|floor| fields(floor, &booking))?;
            Ok(Exit::Done)
        }
        NetworkSaid::Booking(None) => {
            let unknown = Problem::new(Code::Vendor("SABIR_ERR_NO_BOOKING"), format!("there is no booking {id}"));
            Err(unknown.hint("sabir booking list shows the latest").into())
        }
        _ => Err(unexpected()),
    }
}

fn fields(floor: &mut Fields, booking: &BookingView) {
    floor.field("Booking", &booking.booking_id);
    floor.field("Venue", &booking.venue);
    floor.field("Status", booking.status.name());
    floor.maybe("Slot", booking.slot_id.as_deref());
    floor.maybe("Time", booking.time.as_deref());
    floor.maybe("Party", booking.party_size.map(|size| size.to_string()).as_deref());
    floor.maybe("Note", booking.user_note.as_deref());
    floor.field("Key", &booking.key);
    floor.field("From", &booking.from);
    floor.maybe("Known as", booking.correlation_id.as_deref());
    floor.field("Made", &booking.created_at.to_string());
    for step in &booking.moves {
        floor.field("Moved", &format!("{} to {}", step.at, step.to));
    }
}

fn status(text: &str) -> Result<BookingStatus, String> {
    let names = || BookingStatus::ALL.map(BookingStatus::name).join(", ");
    BookingStatus::parse(text).ok_or_else(|| format!("a booking is one of {}", names()))
}
