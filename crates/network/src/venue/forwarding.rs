//! Requests for other recipients: a venue's own agent, another network, or all networks.
//!
//! | Recipient | Query | Booking |
//! |---|---|---|
//! | a venue with an agent of its own | it answers | it is asked first; what it accepts is stored and metered here |
//! | a booking of ours, to track it | we answer: others have another id for it, and it is under our key | – |
//! | another network | it answers | it books and meters; only its answer is stored here, for repetitions |
//! | all networks | our results and theirs, merged | refused: a booking is made at one network |

use super::{IntentOutcome, NetworkAgent, VenueRequest, unknown_venue};
use crate::intent::{IntentRequest, invalid};
use crate::response;
use crate::route::{ALL_NETWORKS, ForwardedRequest, Routes};
use sabir_gateway::{Intent, NanoTimestamp, Problem, ProblemCode};
use sabir_proto::{Artifact, ArtifactId, Object, Part};
use sabir_store::Venue;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

impl NetworkAgent {
    /// Enables routes to other agents and networks.
    #[must_use]
    pub fn with_routes(mut self, routes: Arc<Routes>) -> Self {
        self.routes = Some(routes);
        self
    }

    /// Whether a request to this recipient is for another network, or for all of them.
    pub(super) fn is_forwarded(&self, to: &str, asked_at: sabir_proto::Timestamp) -> bool {
        let known = |routes: &Arc<Routes>| to == ALL_NETWORKS || routes.has_route(to, asked_at);
        self.routes.as_ref().is_some_and(known)
    }

    /// Answers a request, here or through a route.
    pub(super) async fn answer_or_forward(&self, asked: &VenueRequest<'_>) -> Result<IntentOutcome, Problem> {
        let Some(routes) = &self.routes else { return self.answer_locally(asked).await };
        if asked.intent == Intent::BookingStatus {
            return self.track_here(asked, routes.own_id()).await;
        }
        let begun = Instant::now();
        match &asked.venue {
            // The futures are boxed, or every order would reserve space for them.
            Some(venue) if routes.has_agent(venue) => Box::pin(self.ask_venue(routes, venue, asked, begun)).await,
            Some(_) => self.answer_locally(asked).await,
            None => match asked.to().filter(|to| *to != routes.own_id()) {
                None => self.answer_locally(asked).await,
                Some(ALL_NETWORKS) => Box::pin(self.ask_all(routes, asked, begun)).await,
                Some(to) => {
                    // Strict here as well: a payload that we would refuse is not forwarded under our name.
                    IntentRequest::read(asked.intent, &asked.payload)?;
                    let answer = Box::pin(routes.relay(&asked.forwarded_request(to, begun))).await?;
                    Ok(if asked.intent.has_effect() {
                        IntentOutcome::Relayed(answer)
                    } else {
                        IntentOutcome::Found(Value::Object(answer.to_map()))
                    })
                }
            },
        }
    }

    /// Another network sees all our callers under one key, so it could not tell which of them owns the booking.
    async fn track_here(&self, asked: &VenueRequest<'_>, own: &str) -> Result<IntentOutcome, Problem> {
        match asked.to().filter(|to| *to != own && asked.venue.is_none()) {
            None => self.answer_locally(asked).await,
            Some(_) => Err(invalid(
                "booking.status is not passed on; ask the network that made the booking, under your key there",
            )),
        }
    }

    async fn ask_venue(
        &self,
        routes: &Routes,
        venue: &Venue,
        asked: &VenueRequest<'_>,
        begun: Instant,
    ) -> Result<IntentOutcome, Problem> {
        let errand = asked.forwarded_request(&venue.agent_id, begun);
        if !asked.intent.has_effect() {
            IntentRequest::read(asked.intent, &asked.payload)?;
            return Ok(IntentOutcome::Found(Value::Object(routes.ask_venue(venue, &errand).await?.to_map())));
        }
        // A request that we would refuse is not sent to the venue.
        let mut outcome = self.answer_locally(asked).await?;
        let told = routes.ask_venue(venue, &errand).await?.to_map();
        if let IntentOutcome::Booked(made) = &mut outcome {
            for (theirs, ours) in [("booking_id", "venue_booking_id"), ("status", "venue_status")] {
                if let Some(value @ Value::String(_)) = told.get(theirs) {
                    made.shown.insert(ours.into(), value.clone());
                }
            }
        }
        Ok(outcome)
    }

    async fn ask_all(
        &self,
        routes: &Routes,
        asked: &VenueRequest<'_>,
        begun: Instant,
    ) -> Result<IntentOutcome, Problem> {
        let limit = match IntentRequest::read(asked.intent, &asked.payload)? {
            IntentRequest::List(wanted) | IntentRequest::Search(wanted) => {
                usize::try_from(wanted.limit).unwrap_or(usize::MAX)
            }
            IntentRequest::Ping => return self.answer_locally(asked).await,
            IntentRequest::Confirm(_) | IntentRequest::Authorize(_) | IntentRequest::Status(_) => {
                return Err(invalid("a booking is made at one network; address it to the one that has the venue"));
            }
        };
        match self.answer_locally(asked).await? {
            IntentOutcome::Found(Value::Object(own)) => {
                let found = routes.ask_all(&asked.forwarded_request(ALL_NETWORKS, begun), own, limit).await;
                Ok(IntentOutcome::Found(Value::Object(found)))
            }
            other => Ok(other),
        }
    }
}

impl VenueRequest<'_> {
    /// The id of the recipient.
    pub(super) fn to(&self) -> Option<&str> {
        let tenant = self.cx.tenant().as_str();
        let named = self.recipient.as_ref().map(|named| &*named.to);
        named.or((!tenant.is_empty()).then_some(tenant))
    }

    fn forwarded_request(&self, to: &str, begun: Instant) -> ForwardedRequest {
        let timestamp = self.envelope.and_then(|envelope| envelope.timestamp);
        // Names of callers in other dialects may have characters that ids of the network may not.
        let plain = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        ForwardedRequest {
            from: self.from().chars().map(plain).take(256).collect(),
            to: to.into(),
            intent: self.intent,
            payload: self.payload.clone(),
            correlation: self.envelope.and_then(|envelope| envelope.correlation_id.clone()),
            // A request with an effect needs a timestamp; other dialects have none, and their repetitions are
            // recognised by the task.
            timestamp: timestamp.or_else(|| self.intent.has_effect().then(|| NanoTimestamp::from(self.now))),
            via: self.envelope.map(|envelope| envelope.via.clone()).unwrap_or_default(),
            key: self.key(),
            received_at: begun,
            time_max: self.envelope.map(|envelope| envelope.time_max),
            now: self.now,
        }
    }
}

/// The artifact of a booking that another network has made.
pub(super) fn forwarded_artifact(answer: &Object) -> Artifact {
    let id = ArtifactId::parse(super::BOOKING).unwrap_or_else(|_| unreachable!("a plain word is an id"));
    Artifact::new(id, vec![Part::data(response::data(&Value::Object(answer.to_map())))])
}

/// The problem for a recipient that is unknown here and has no route.
pub(super) fn unknown_recipient(to: &str) -> Problem {
    if to.starts_with("network:") {
        return Problem::new(ProblemCode::VenueNotFound, "there is no way to that network from here");
    }
    unknown_venue(to)
}
