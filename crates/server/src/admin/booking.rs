//! The booking network, for operators: venues, bookings and subscriptions.
//!
//! The ledger is in the task log's file, which one process has open. If a server runs, the command sends the request to
//! its socket; otherwise the command opens the file itself. The responses are the same.

use super::billing::{self as bills, BatchView, TallyView};
use super::open_or_ask::{OpenedOrAnswered, open_or_ask};
use super::{AdminError, EnvelopeQuery, EnvelopeView};
use crate::auth_setup::{self, ConfiguredSecrets};
use crate::billing_jobs;
use crate::booking::{self, KeyHolders, subscriptions};
use crate::config::Config;
use crate::config::booking::AGENT;
use crate::tokio_host::TokioHost;
use sabir_engine::{Engine, Host as _, Limits, Metrics, TaskLog};
use sabir_network::billing::{self, Biller};
use sabir_network::import::{self, VenueRow};
use sabir_network::{BookingAdmin, KeyHolderDirectory, NetworkTerms};
use sabir_proto::{AgentName, Caller, TaskId, Timestamp};
use sabir_store::{BookingQuery, BookingStatus, Ledger, TaskStore, Venue, VenueQuery, VenueRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Venues, bookings or subscriptions in one answer, at most.
pub const ROWS_MAX: usize = 1000;

/// An operator's request about the booking network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkRequest {
    /// Import venues from a file, all of them or none.
    ImportVenues {
        /// The absolute path of the file.
        path: PathBuf,
    },
    /// Import one venue, given as a row of such a file.
    AddVenue {
        /// The members of the row.
        row: Value,
    },
    /// List venues, active or not.
    Venues {
        /// Words to search for.
        terms: Vec<String>,
        /// Only venues of this category.
        category: Option<String>,
        /// Only venues in this place.
        location: Option<String>,
        /// The maximum number of venues in the response.
        limit: usize,
    },
    /// Activate or deactivate a venue; an inactive one is not found and not booked.
    EnableVenue { slug: String, active: bool },
    /// List bookings, the latest first.
    Bookings {
        /// Only of the venue with this slug.
        venue: Option<String>,
        /// Only made with this key.
        key: Option<String>,
        /// Only with this status.
        status: Option<BookingStatus>,
        /// Only made before this booking.
        before: Option<String>,
        /// The maximum number of bookings in the response.
        limit: usize,
    },
    /// Show one booking with its history.
    ShowBooking { id: String },
    /// Change the status of a booking.
    MoveBooking {
        id: String,
        /// The status after the change.
        to: BookingStatus,
        /// The name of the operator.
        by: String,
    },
    /// Subscribe a webhook to the events of the bookings of a key.
    Subscribe {
        /// The id of the key of these bookings.
        key: String,
        /// The URL of the webhook.
        url: String,
        /// The events to deliver; all when empty.
        events: Vec<String>,
    },
    /// List the subscriptions.
    Subscriptions {
        /// Only for bookings of this key.
        key: Option<String>,
    },
    /// Give a subscription a new secret.
    RotateSubscription {
        id: String,
        /// For how long the present secret signs too, in seconds.
        overlap_seconds: u64,
    },
    /// Remove a subscription.
    Unsubscribe { id: String },
    /// Send the counted bookings to the biller.
    Bill {
        /// Only report what would be sent.
        dry_run: bool,
    },
    /// Compare the bookings with the counted events.
    Tally,
    /// List records of envelopes, the latest first.
    Envelopes(EnvelopeQuery),
}

/// The response to a [`NetworkRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkResponse {
    /// Venues were imported.
    Imported {
        /// The number of new venues.
        added: u64,
        /// The number of venues that existed before.
        replaced: u64,
    },
    Venues(Vec<VenueView>),
    /// One venue; `None` if there is none of that slug.
    Venue(Option<Box<VenueView>>),
    Bookings(Vec<BookingView>),
    /// One booking; `None` if there is none of that id.
    Booking(Option<Box<BookingView>>),
    Subscriptions(Vec<SubscriptionView>),
    /// One subscription; `None` if there is none of that id.
    Subscription(Option<Box<SubscriptionView>>),
    /// Batches, with the result of each.
    Billed(Vec<BatchView>),
    /// How far bookings and billing records agree.
    Tallied(TallyView),
    /// Records of envelopes.
    Envelopes(Vec<EnvelopeView>),
    /// The request failed, for this reason.
    Failed(String),
}

/// A venue as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the file of venues")]
pub struct VenueView {
    pub id: String,
    pub slug: String,
    pub name: String,
    pub category: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_range: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_rank: Option<i64>,
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    pub referral_fee_pct: f64,
    pub active: bool,
    pub slots: Vec<SlotView>,
}

/// A slot as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the file of venues")]
pub struct SlotView {
    pub id: String,
    pub time: String,
    pub capacity: u32,
    pub taken: u32,
}

/// A booking as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingView {
    /// The id of the booking, which is the id of its task.
    pub booking_id: String,
    /// The slug of its venue, or the venue's id where the venue was removed.
    pub venue: String,
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
    pub created_at: Timestamp,
    /// All changes of the status since then.
    pub moves: Vec<MoveView>,
}

/// A change of the status of a booking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveView {
    /// The status after the change.
    pub to: BookingStatus,
    pub at: Timestamp,
}

/// A subscription without its secrets, except a secret that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionView {
    pub id: String,
    /// The id of the key whose bookings are reported.
    pub key: String,
    /// The URL of the webhook.
    pub url: String,
    /// The events to deliver; all when empty.
    pub events: Vec<String>,
    pub created_at: Timestamp,
    /// Until when the previous secret signs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<Timestamp>,
    /// Why deliveries have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The secret that signs deliveries; only in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Handles the requests of operators about the booking network.
#[derive(Clone)]
pub(crate) struct NetworkAdmin {
    pub(crate) terms: NetworkTerms,
    pub(crate) office: BookingAdmin,
    pub(crate) production: bool,
    /// The biller of the counted bookings, if one is configured.
    pub(crate) biller: Option<Arc<dyn Biller>>,
}

impl NetworkAdmin {
    /// Builds it from the parts of a server. Without a configured network the terms are the default ones.
    pub(crate) fn new(
        config: &Config,
        engine: Engine,
        log: Arc<dyn TaskLog>,
        ledger: Arc<dyn Ledger>,
        patrons: Arc<dyn KeyHolderDirectory>,
    ) -> Result<Self, String> {
        let terms = config.network.as_ref().map_or_else(|| Ok(NetworkTerms::default()), |network| network.terms())?;
        let agent = AgentName::parse(AGENT).map_err(|e| e.to_string())?;
        let office = BookingAdmin { engine, log, ledger, key_holders: patrons, agent };
        let biller = billing_jobs::biller(config, &ConfiguredSecrets::new(config))?;
        Ok(Self { terms, office, production: config.is_production(), biller })
    }
}

/// Runs a request: in the server if one runs, otherwise on the opened store.
pub async fn run_network_request(config: &Config, order: NetworkRequest) -> Result<NetworkResponse, AdminError> {
    Ok(match open_or_ask(config, &order).await? {
        OpenedOrAnswered::Opened(tasks) => run_without_server(config, tasks, order).await?,
        OpenedOrAnswered::Answered(response) => response,
    })
}

/// Runs a request where no server runs.
async fn run_without_server(
    config: &Config,
    TaskStore { log, ledger, .. }: TaskStore,
    order: NetworkRequest,
) -> Result<NetworkResponse, AdminError> {
    let engine = Engine::open(log.clone(), Arc::new(TokioHost), Limits::default(), Metrics::default()).await?;
    let keys = auth_setup::open_guard_store(config).map_err(|e| AdminError::Failed(e.to_string()))?;
    let patrons = Arc::new(KeyHolders::new(keys));
    let bureau = NetworkAdmin::new(config, engine, log, ledger, patrons).map_err(AdminError::Failed)?;
    Ok(bureau.handle(order).await)
}

impl NetworkAdmin {
    pub(crate) async fn handle(&self, order: NetworkRequest) -> NetworkResponse {
        self.try_handle(order).await.unwrap_or_else(NetworkResponse::Failed)
    }

    async fn try_handle(&self, order: NetworkRequest) -> Result<NetworkResponse, String> {
        let ledger = &*self.office.ledger;
        let failed = |error: sabir_store::StoreError| error.to_string();
        Ok(match order {
            NetworkRequest::ImportVenues { path } => {
                let imported = booking::import_file(&path, &self.terms, ledger).await?;
                NetworkResponse::Imported { added: imported.added, replaced: imported.replaced }
            }
            NetworkRequest::AddVenue { row } => {
                let row = VenueRow::read(row)?;
                let slug = row.slug.clone();
                import::import(ledger, &self.terms, vec![row]).await.map_err(|e| e.to_string())?;
                self.venue(&slug).await?
            }
            NetworkRequest::Venues { terms, category, location, limit } => {
                let query = VenueQuery { category, location, terms, inactive: true, limit: limit.clamp(1, ROWS_MAX) };
                let mut views = Vec::new();
                for venue in ledger.venues(&query).await.map_err(failed)? {
                    views.push(self.view(venue).await?);
                }
                NetworkResponse::Venues(views)
            }
            NetworkRequest::EnableVenue { slug, active } => {
                ledger.enable_venue(&slug, active).await.map_err(failed)?;
                self.venue(&slug).await?
            }
            NetworkRequest::Bookings { venue, key, status, before, limit } => {
                let venue = match venue {
                    None => None,
                    Some(slug) => {
                        let found = ledger.venue(VenueRef::Slug(&slug)).await.map_err(failed)?;
                        Some(found.ok_or_else(|| format!("there is no venue {slug:?}"))?.id)
                    }
                };
                let before = before.map(|id| parse_booking_id(&id)).transpose()?;
                let query = BookingQuery { venue, key, status, before, limit: limit.clamp(1, ROWS_MAX) };
                let mut views = Vec::new();
                for one in ledger.bookings(&query).await.map_err(failed)? {
                    views.push(self.booking(one).await?);
                }
                NetworkResponse::Bookings(views)
            }
            NetworkRequest::ShowBooking { id } => match ledger.booking(parse_booking_id(&id)?).await.map_err(failed)? {
                None => NetworkResponse::Booking(None),
                Some(found) => NetworkResponse::Booking(Some(Box::new(self.booking(found).await?))),
            },
            NetworkRequest::MoveBooking { id, to, by } => {
                let moved = self.office.transition(parse_booking_id(&id)?, to, &Caller::named(&by)).await;
                let moved = moved.map_err(|e| e.to_string())?;
                NetworkResponse::Booking(Some(Box::new(self.booking(moved).await?)))
            }
            NetworkRequest::Subscribe { key, url, events } => {
                let made = subscriptions::subscribe(ledger, &key, &url, events, self.production).await?;
                NetworkResponse::Subscription(Some(Box::new(made)))
            }
            NetworkRequest::Subscriptions { key } => {
                NetworkResponse::Subscriptions(subscriptions::list(ledger, key.as_deref()).await?)
            }
            NetworkRequest::RotateSubscription { id, overlap_seconds } => {
                let overlap = Duration::from_secs(overlap_seconds);
                NetworkResponse::Subscription(subscriptions::rotate(ledger, &id, overlap).await?.map(Box::new))
            }
            NetworkRequest::Unsubscribe { id } => {
                NetworkResponse::Subscription(subscriptions::remove(ledger, &id).await?.map(Box::new))
            }
            NetworkRequest::Bill { dry_run: true } => {
                let batches = billing::preview(ledger, TokioHost.now()).await.map_err(failed)?;
                NetworkResponse::Billed(bills::preview_views(batches))
            }
            NetworkRequest::Bill { dry_run: false } => {
                let biller = self.biller.as_ref();
                let biller = biller.ok_or("nobody bills here: [network.billing] is not in the configuration")?;
                let run = billing::run(ledger, &**biller, &TokioHost, Some(billing_jobs::BILL_REQUEST_TIME_MAX)).await;
                NetworkResponse::Billed(bills::run_views(run.map_err(failed)?))
            }
            NetworkRequest::Tally => {
                NetworkResponse::Tallied(bills::tally_view(ledger.billing_totals().await.map_err(failed)?))
            }
            NetworkRequest::Envelopes(query) => {
                let rows = ledger.interactions(&query.query(ROWS_MAX)).await.map_err(failed)?;
                NetworkResponse::Envelopes(rows.into_iter().map(EnvelopeView::from).collect())
            }
        })
    }

    async fn venue(&self, slug: &str) -> Result<NetworkResponse, String> {
        let found = self.office.ledger.venue(VenueRef::Slug(slug)).await.map_err(|e| e.to_string())?;
        Ok(NetworkResponse::Venue(match found {
            None => None,
            Some(venue) => Some(Box::new(self.view(venue).await?)),
        }))
    }

    async fn view(&self, venue: Venue) -> Result<VenueView, String> {
        let slots = self.office.ledger.slots(&venue.id).await.map_err(|e| e.to_string())?;
        let slot = |slot: sabir_store::Slot| SlotView {
            id: slot.id,
            time: slot.time,
            capacity: slot.capacity,
            taken: slot.taken,
        };
        Ok(VenueView {
            slots: slots.into_iter().map(slot).collect(),
            id: venue.id,
            slug: venue.slug,
            name: venue.name,
            category: venue.category,
            description: venue.description,
            area: venue.area,
            city: venue.city,
            tags: venue.tags,
            price_range: venue.price_range,
            priority_rank: venue.priority_rank,
            agent_id: venue.agent_id,
            endpoint: venue.endpoint,
            referral_fee_pct: f64::from(venue.fee.basis_points) / 100.0,
            active: venue.active,
        })
    }

    async fn booking(&self, booking: sabir_store::Booking) -> Result<BookingView, String> {
        let sabir_store::Booking { id, details: booked, status, created_at, transitions: moves, .. } = booking;
        let venue = self.office.ledger.venue(VenueRef::Id(&booked.venue)).await.map_err(|e| e.to_string())?;
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

fn parse_booking_id(id: &str) -> Result<TaskId, String> {
    TaskId::parse(id).ok_or_else(|| format!("{id:?} is not the id of a booking"))
}
