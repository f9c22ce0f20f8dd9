//! Bookings of the network, and the parts that every operation on the network needs.

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use super::{AdminError, AdminErrorCode};
use crate::auth_setup::ConfiguredSecrets;
use crate::billing_jobs;
use crate::config::Config;
use crate::config::booking::AGENT;
use sabir_engine::{Engine, TaskLog};
use sabir_network::billing::Biller;
use sabir_network::{BookingAdmin, KeyHolderDirectory, NetworkTerms};
use sabir_proto::{AgentName, Caller, TaskId, Timestamp};
use sabir_store::{AuditSubject, BookingQuery, BookingStatus, Ledger, VenueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Venues, bookings or records in one response, at most.
pub const ROWS_MAX: usize = 1000;
/// Venues or bookings in a response to a request that names no number.
const ROWS_DEFAULT: usize = 100;

pub(super) const fn rows_default() -> usize {
    ROWS_DEFAULT
}

/// Lists bookings, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListBookings {
    /// Only of the venue with this slug.
    #[serde(default)]
    pub venue: Option<String>,
    /// Only made with this key.
    #[serde(default)]
    pub key: Option<String>,
    /// Only with this status.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub status: Option<BookingStatus>,
    /// Only made before this booking.
    #[serde(default)]
    pub before: Option<String>,
    /// The maximum number of bookings in the response.
    #[serde(default = "rows_default")]
    pub limit: usize,
}

/// Shows one booking with its history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowBooking {
    pub id: String,
}

/// Changes the status of a booking.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveBooking {
    pub id: String,
    /// The status after the change.
    #[schemars(with = "String")]
    pub to: BookingStatus,
}

/// Bookings of the network, the latest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BookingList {
    pub bookings: Vec<BookingView>,
}

/// A booking of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BookingView {
    /// The id of the booking, which is the id of its task.
    pub booking_id: String,
    /// The slug of its venue, or the venue's id where the venue was removed.
    pub venue: String,
    #[schemars(with = "String")]
    pub status: BookingStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<String>,
    /// The time that was booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The number of guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party_size: Option<u32>,
    /// The guest's note to the venue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_note: Option<String>,
    /// The id of the key that made the booking.
    pub key: String,
    /// The agent that made the booking.
    pub from: String,
    /// That agent's own id for the booking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// All changes of the status since then.
    pub moves: Vec<MoveView>,
}

/// A change of the status of a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveView {
    /// The status after the change.
    #[schemars(with = "String")]
    pub to: BookingStatus,
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// What operations on the booking network need. Without a configured network the terms are the default ones.
#[derive(Clone)]
pub(crate) struct NetworkAdmin {
    pub(crate) terms: NetworkTerms,
    bookings: BookingAdmin,
    pub(crate) production: bool,
    /// The biller of the counted bookings, if one is configured.
    pub(crate) biller: Option<Arc<dyn Biller>>,
}

impl NetworkAdmin {
    pub(crate) fn new(
        config: &Config,
        engine: Engine,
        log: Arc<dyn TaskLog>,
        ledger: Arc<dyn Ledger>,
        key_holders: Arc<dyn KeyHolderDirectory>,
    ) -> Result<Self, String> {
        let terms = config.network.as_ref().map_or_else(|| Ok(NetworkTerms::default()), |network| network.terms())?;
        let agent = AgentName::parse(AGENT).map_err(|e| e.to_string())?;
        let bookings = BookingAdmin { engine, log, ledger, key_holders, agent };
        let biller = billing_jobs::biller(config, &ConfiguredSecrets::new(config))?;
        Ok(Self { terms, bookings, production: config.is_production(), biller })
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        &*self.bookings.ledger
    }

    async fn booking_view(&self, booking: sabir_store::Booking) -> Result<BookingView, AdminError> {
        let sabir_store::Booking { id, details: booked, status, created_at, transitions: moves, .. } = booking;
        let venue = self.ledger().venue(VenueRef::Id(&booked.venue)).await?;
        let step = |step: sabir_store::BookingTransition| MoveView { to: step.to, at: Timestamp::from_millis(step.at) };
        Ok(BookingView {
            booking_id: id.to_string(),
            venue: venue.map_or(booked.venue, |venue| venue.slug),
            status,
            slot_id: booked.slot,
            time: booked.time,
            party_size: booked.party_size,
            user_note: booked.note,
            key: booked.key,
            from: booked.from,
            correlation_id: booked.correlation,
            created_at,
            moves: moves.into_iter().map(step).collect(),
        })
    }
}

impl Perform for ListBookings {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/bookings", "List bookings, the latest first");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<BookingList, AdminError> {
        let Self { venue, key, status, before, limit } = self;
        let network = service.network()?;
        let venue = match venue {
            None => None,
            Some(slug) => {
                let found = network.ledger().venue(VenueRef::Slug(&slug)).await?;
                Some(found.ok_or_else(|| AdminError::refused(format!("there is no venue {slug:?}")))?.id)
            }
        };
        let before = before.map(|id| parse_booking_id(&id)).transpose()?;
        let query = BookingQuery { venue, key, status, before, limit: limit.clamp(1, ROWS_MAX) };
        let mut bookings = Vec::new();
        for one in network.ledger().bookings(&query).await? {
            bookings.push(network.booking_view(one).await?);
        }
        Ok(BookingList { bookings })
    }
}

impl Perform for ShowBooking {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/bookings/{id}", "Show a booking with its history");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<BookingView, AdminError> {
        let network = service.network()?;
        let found = network.ledger().booking(parse_booking_id(&self.id)?).await?;
        let none = || AdminError::new(AdminErrorCode::NoBooking, format!("there is no booking {}", self.id));
        network.booking_view(found.ok_or_else(none)?).await
    }
}

impl Perform for MoveBooking {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::post("/bookings/{id}/transition", "Change the status of a booking");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<BookingView, AdminError> {
        let network = service.network()?;
        let id = parse_booking_id(&self.id)?;
        let moved = network.bookings.transition(id, self.to, &Caller::named(operator.name())).await;
        let moved = moved.map_err(|error| AdminError::refused(error.to_string()))?;
        service.record_change(operator, "booking.transition", Some(AuditSubject::Task(id))).await?;
        network.booking_view(moved).await
    }
}

fn parse_booking_id(id: &str) -> Result<TaskId, AdminError> {
    TaskId::parse(id).ok_or_else(|| AdminError::refused(format!("{id:?} is not the id of a booking")))
}
