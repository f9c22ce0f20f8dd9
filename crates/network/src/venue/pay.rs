//! `payment.authorize`: the network's part of a payment.

use super::{NetworkAgent, PreparedBooking, VenueRequest, booking_artifact, notifications, refusal, store_problem};
use crate::booking;
use crate::payment::{BookingNotification, PaymentRequest, Purchase};
use crate::response;
use crate::webhook;
use sabir_engine::{Ending, Failure};
use sabir_gateway::{Problem, ProblemCode};
use sabir_store::{BookingStatus, Interaction, NewBooking, StoreError, VenueRef};
use serde_json::Value;

impl NetworkAgent {
    /// Makes a payment, or resumes it after a crash.
    pub(super) async fn pay(&self, asked: &VenueRequest<'_>) -> Result<Ending, Failure> {
        let refuse = |problem: &Problem| refusal(asked.intent, asked.is_plain_text, problem);
        if !self.payments.is_enabled() {
            return Ok(refuse(&Problem::new(ProblemCode::UnknownIntent, "this network takes no payments")));
        }
        let offer = match PaymentRequest::read(&asked.payload) {
            Ok(offer) => offer,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let (made, record) = match self.prepare(asked, &offer).await {
            Ok(bought) => bought,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let (mut told, mut called_off) = (None, None);
        if let Some(made) = &made {
            told = Some(self.notification(asked, made, BookingStatus::Pending).await?);
            called_off = Some(self.notification(asked, made, BookingStatus::Cancelled).await?);
        }
        let (key, booking) = (asked.key(), made.map(|made| made.booking));
        let purchase = Purchase {
            cx: asked.cx,
            ledger: &*self.ledger,
            key,
            booking,
            on_confirmed: told,
            on_cancelled: called_off,
            interaction: record,
        };
        Ok(match self.payments.pay(offer, purchase).await? {
            Ok(ending) => ending,
            Err(problem) => refuse(&problem),
        })
    }

    /// The notification of subscribers about a booking in this status.
    async fn notification(
        &self,
        asked: &VenueRequest<'_>,
        made: &PreparedBooking,
        status: BookingStatus,
    ) -> Result<BookingNotification, StoreError> {
        let (event, moved) = match status {
            BookingStatus::Cancelled => (booking::webhook_event(status), true),
            _ => (Some(webhook::CONFIRMED), false),
        };
        let mut shown = made.shown.clone();
        shown.insert("status".into(), status.name().into());
        let (prefix, correlation) = (asked.key_holder.prefix.clone(), made.booking.details.correlation.clone());
        let artifact = booking_artifact(&Value::Object(shown), &webhook::WebhookContext { event, prefix, correlation });
        Ok(BookingNotification {
            effects: notifications(&*self.ledger, &asked.key(), event, moved, asked.now).await?,
            artifact,
        })
    }

    /// The booking of a payment, and the record of its envelope. After a crash the booking is read from the ledger,
    /// since the venue may have changed since.
    async fn prepare(
        &self,
        asked: &VenueRequest<'_>,
        offer: &PaymentRequest,
    ) -> Result<(Option<PreparedBooking>, Option<Box<Interaction>>), Problem> {
        let id = asked.cx.task_id();
        let mut made = match (&offer.booking, self.ledger.booking(id).await.map_err(store_problem)?) {
            (None, _) => None,
            (Some(order), None) => Some(self.book(asked, order.clone()).await?),
            (Some(_), Some(booking)) => {
                let venue = self.ledger.venue(VenueRef::Id(&booking.details.venue)).await.map_err(store_problem)?;
                let (booked, status) = (booking.details, BookingStatus::Pending);
                let shown = response::booking(&id.to_string(), venue.as_ref(), &booked, status, booking.created_at);
                let (at, usage) = (booking.created_at, Some(self.usage(asked)));
                let booking = NewBooking { details: booked, status, at, held_until: None, usage, interaction: None };
                Some(PreparedBooking { booking, shown, venue_name: venue.map(|venue| venue.name).unwrap_or_default() })
            }
        };
        let record = made.as_mut().and_then(|made| made.booking.interaction.take());
        let record = record.or_else(|| asked.take_record().map(Box::new));
        Ok((made, record))
    }
}
