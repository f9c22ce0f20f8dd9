//! Requests for other recipients: a venue's own agent, another network, or all networks.
//!
//! | Recipient | Query | Booking |
//! |---|---|---|
//! | a venue with an agent of its own | it answers | it is asked first; what it accepts is stored and metered here |
//! | a booking of ours, to track it | we answer: others have another id for it, and it is under our key | – |
//! | another network | it answers | it books and meters; only its answer is stored here, for repetitions |
//! | all networks | our results and theirs, merged | refused: a booking is made at one network |

use super::{Asked, Outcome, VenueAgent, unknown_venue};
use crate::answer;
use crate::intent::{Ask, invalid};
use crate::route::{EVERYWHERE, Errand, Routes};
use sabir_gateway::Moment;
use sabir_proto::agnt::{Intent, Problem, ProblemCode};
use sabir_proto::{Artifact, ArtifactId, Object, Part};
use sabir_store::Venue;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl VenueAgent {
    /// Enables routes to other agents and networks.
    #[must_use]
    pub fn with_routes(mut self, routes: Arc<Routes>) -> Self {
        self.routes = Some(routes);
        self
    }

    /// Whether a request to this recipient is for another network, or for all of them.
    pub(super) fn leads_elsewhere(&self, to: &str, asked_at: sabir_proto::Timestamp) -> bool {
        let known = |routes: &Arc<Routes>| to == EVERYWHERE || routes.leads_to(to, asked_at);
        self.routes.as_ref().is_some_and(known)
    }

    /// Answers a request, here or through a route.
    pub(super) async fn respond(&self, asked: &Asked<'_>) -> Result<Outcome, Problem> {
        let Some(routes) = &self.routes else { return self.answer(asked).await };
        if asked.intent == Intent::BookingStatus {
            return self.track_here(asked, routes.own()).await;
        }
        let begun = Instant::now();
        match &asked.at {
            // The futures are boxed, or every order would reserve space for them.
            Some(venue) if routes.has_agent(venue) => Box::pin(self.at_venue(routes, venue, asked, begun)).await,
            Some(_) => self.answer(asked).await,
            None => match asked.to().filter(|to| *to != routes.own()) {
                None => self.answer(asked).await,
                Some(EVERYWHERE) => Box::pin(self.everywhere(routes, asked, begun)).await,
                Some(to) => {
                    // Strict here as well: a payload that we would refuse is not forwarded under our name.
                    Ask::read(asked.intent, &asked.payload)?;
                    let answer = Box::pin(routes.relay(&asked.errand(to, begun))).await?;
                    Ok(if asked.intent.has_effect() {
                        Outcome::Relayed(answer)
                    } else {
                        Outcome::Found(Value::Object(answer.to_map()))
                    })
                }
            },
        }
    }

    /// Another network sees all our callers under one key, so it could not tell which of them owns the booking.
    async fn track_here(&self, asked: &Asked<'_>, own: &str) -> Result<Outcome, Problem> {
        match asked.to().filter(|to| *to != own && asked.at.is_none()) {
            None => self.answer(asked).await,
            Some(_) => Err(invalid(
                "booking.status is not passed on; ask the network that made the booking, under your key there",
            )),
        }
    }

    async fn at_venue(
        &self,
        routes: &Routes,
        venue: &Venue,
        asked: &Asked<'_>,
        begun: Instant,
    ) -> Result<Outcome, Problem> {
        let errand = asked.errand(&venue.agent_id, begun);
        if !asked.intent.has_effect() {
            Ask::read(asked.intent, &asked.payload)?;
            return Ok(Outcome::Found(Value::Object(routes.venue(venue, &errand).await?.to_map())));
        }
        // A request that we would refuse is not sent to the venue.
        let mut outcome = self.answer(asked).await?;
        let told = routes.venue(venue, &errand).await?.to_map();
        if let Outcome::Booked(made) = &mut outcome {
            for (theirs, ours) in [("booking_id", "venue_booking_id"), ("status", "venue_status")] {
                if let Some(value @ Value::String(_)) = told.get(theirs) {
                    made.shown.insert(ours.into(), value.clone());
                }
            }
        }
        Ok(outcome)
    }

    async fn everywhere(&self, routes: &Routes, asked: &Asked<'_>, begun: Instant) -> Result<Outcome, Problem> {
        let limit = match Ask::read(asked.intent, &asked.payload)? {
            Ask::List(wanted) | Ask::Search(wanted) => usize::try_from(wanted.limit).unwrap_or(usize::MAX),
            Ask::Ping => return self.answer(asked).await,
            Ask::Confirm(_) | Ask::Authorize(_) | Ask::Status(_) => {
                return Err(invalid("a booking is made at one network; address it to the one that has the venue"));
            }
        };
        match self.answer(asked).await? {
            Outcome::Found(Value::Object(own)) => {
                let found = routes.everywhere(&asked.errand(EVERYWHERE, begun), own, limit).await;
                Ok(Outcome::Found(Value::Object(found)))
            }
            other => Ok(other),
        }
    }
}

impl Asked<'_> {
    /// The id of the recipient.
    pub(super) fn to(&self) -> Option<&str> {
        let tenant = self.cx.tenant().as_str();
        let said = self.aside.as_ref().and_then(|aside| aside.to.as_deref());
        said.or((!tenant.is_empty()).then_some(tenant))
    }

    fn errand(&self, to: &str, begun: Instant) -> Errand {
        let aside = self.aside.as_ref();
        let timestamp = aside.and_then(|aside| aside.timestamp.as_deref()).and_then(Moment::parse);
        // Names of callers in other dialects may have characters that ids of the network may not.
        let plain = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        Errand {
            from: self.from().chars().map(plain).take(256).collect(),
            to: to.into(),
            intent: self.intent,
            payload: self.payload.clone(),
            correlation: aside.and_then(|aside| aside.correlation_id.clone()),
            // A request with an effect needs a timestamp; other dialects have none, and their repetitions are
            // recognised by the task.
            timestamp: timestamp.or_else(|| self.intent.has_effect().then(|| Moment::from(self.now))),
            via: aside.map(|aside| aside.via.clone()).unwrap_or_default(),
            key: self.key(),
            begun,
            time: aside.and_then(|aside| aside.ttl_ms).map(Duration::from_millis),
            now: self.now,
        }
    }
}

/// The artifact of a booking that another network has made.
pub(super) fn relayed(answer: &Object) -> Artifact {
    let id = ArtifactId::parse(super::BOOKING).unwrap_or_else(|_| unreachable!("a plain word is an id"));
    Artifact::new(id, vec![Part::data(answer::data(&Value::Object(answer.to_map())))])
}

/// The problem for a recipient that is unknown here and has no route.
pub(super) fn nobody(to: &str) -> Problem {
    if to.starts_with("network:") {
        return Problem::new(ProblemCode::VenueNotFound, "there is no way to that network from here");
    }
    unknown_venue(to)
}
