//! `payment.authorize`: the network's part of a payment.

use super::{Asked, Made, VenueAgent, booking_artifact, owed, refusal, troubled};
use crate::answer;
use crate::booking;
use crate::payment::{Notice, Offer, Purchase};
use crate::webhook;
use sabir_engine::{Ending, Failure};
use sabir_proto::agnt::{Problem, ProblemCode};
use sabir_store::{BookingStatus, Interaction, NewBooking, StoreError, VenueName};
use serde_json::Value;

impl VenueAgent {
    /// Makes a payment, or resumes it after a crash.
    pub(super) async fn pay(&self, asked: &Asked<'_>) -> Result<Ending, Failure> {
        let refuse = |problem: &Problem| refusal(asked.intent, asked.spoken, problem);
        if !self.cashier.is_open() {
            return Ok(refuse(&Problem::new(ProblemCode::UnknownIntent, "this network takes no payments")));
        }
        let offer = match Offer::read(&asked.payload) {
            Ok(offer) => offer,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let (made, record) = match self.bought(asked, &offer).await {
            Ok(bought) => bought,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let (mut told, mut called_off) = (None, None);
        if let Some(made) = &made {
            told = Some(self.notice(asked, made, BookingStatus::Pending).await?);
            called_off = Some(self.notice(asked, made, BookingStatus::Cancelled).await?);
        }
        let (key, booking) = (asked.key(), made.map(|made| made.booking));
        let purchase = Purchase { cx: asked.cx, ledger: &*self.ledger, key, booking, made: told, called_off, record };
        Ok(match self.cashier.take(offer, purchase).await? {
            Ok(ending) => ending,
            Err(problem) => refuse(&problem),
        })
    }

    /// The notification of subscribers about a booking in this status.
    async fn notice(&self, asked: &Asked<'_>, made: &Made, status: BookingStatus) -> Result<Notice, StoreError> {
        let (event, moved) = match status {
            BookingStatus::Cancelled => (booking::event(status), true),
            _ => (Some(webhook::CONFIRMED), false),
        };
        let mut shown = made.shown.clone();
        shown.insert("status".into(), status.name().into());
        let (prefix, correlation) = (asked.patron.prefix.clone(), made.booking.booked.correlation.clone());
        let artifact = booking_artifact(&Value::Object(shown), &webhook::Told { event, prefix, correlation });
        Ok(Notice { owed: owed(&*self.ledger, &asked.key(), event, moved, asked.now).await?, artifact })
    }

    /// The booking of a payment, and the record of its envelope. After a crash the booking is read from the ledger,
    /// since the venue may have changed since.
    async fn bought(
        &self,
        asked: &Asked<'_>,
        offer: &Offer,
    ) -> Result<(Option<Made>, Option<Box<Interaction>>), Problem> {
        let id = asked.cx.task_id();
        let mut made = match (&offer.booking, self.ledger.booking(id).await.map_err(troubled)?) {
            (None, _) => None,
            (Some(order), None) => Some(self.book(asked, order.clone()).await?),
            (Some(_), Some(booking)) => {
                let venue = self.ledger.venue(VenueName::Id(&booking.booked.venue)).await.map_err(troubled)?;
                let (booked, status) = (booking.booked, BookingStatus::Pending);
                let shown = answer::booking(&id.to_string(), venue.as_ref(), &booked, status, booking.created_at);
                let (at, usage) = (booking.created_at, Some(self.usage(asked)));
                let booking = NewBooking { booked, status, at, held_until: None, usage, interaction: None };
                Some(Made { booking, shown, place: venue.map(|venue| venue.name).unwrap_or_default() })
            }
        };
        let record = made.as_mut().and_then(|made| made.booking.interaction.take());
        let passage = asked.aside.as_ref().and_then(|aside| aside.passage);
        let record = record.or_else(|| passage.and_then(|passage| self.patrons.record(passage)).map(Box::new));
        Ok((made, record))
    }
}
