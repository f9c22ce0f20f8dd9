//! The booking network, for operators: venues, bookings and subscriptions.
//!
//! The ledger is in the task log's file, which belongs to one process. Where a server runs it is asked through its socket,
//! and where none does the file is opened here; the answers are the same.

use super::billing::{self as bills, BatchView, TallyView};
use super::{AdminError, EnvelopeQuery, EnvelopeView};
use crate::booking::{self, KeyHolders, hooks};
use crate::cash;
use crate::config::booking::AGENT;
use crate::config::{Config, store_path};
use crate::gate::{self, ConfiguredSecrets};
use crate::host::TokioHost;
use crate::operator;
use sabir_engine::{Engine, Host as _, Limits, Metrics, TaskLog};
use sabir_network::billing::{self, Biller};
use sabir_network::import::{self, VenueRow};
use sabir_network::{Office, Patrons, Terms};
use sabir_proto::{AgentName, Caller, TaskId, Timestamp};
use sabir_store::sqlite::{self, SqliteLog};
use sabir_store::{BookingQuery, BookingStatus, Ledger, OpenError, Venue, VenueName, VenueQuery};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Venues, bookings or subscriptions in one answer, at most.
pub const ROWS_MAX: usize = 1000;
/// How long a command waits for a server that has the store and does not listen yet, and how often it asks.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// What an operator wants of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkOrder {
    /// Take venues from a file, all of them or none.
    ImportVenues {
        /// The file, from the root.
        path: PathBuf,
    },
    /// Take one venue, as a row of such a file.
    AddVenue {
        /// The row.
        row: Value,
    },
    /// Venues, active or not.
    Venues {
        /// Words to find them by.
        terms: Vec<String>,
        /// Of this category.
        category: Option<String>,
        /// In this place.
        location: Option<String>,
        /// At most so many.
        limit: usize,
    },
    /// Have a venue found and booked, or not.
    EnableVenue {
        /// Its slug.
        slug: String,
        /// Or not.
        active: bool,
    },
    /// Bookings, the latest first.
    Bookings {
        /// Of the venue of this slug.
        venue: Option<String>,
        /// Made with this key.
        key: Option<String>,
        /// That stand like this.
        status: Option<BookingStatus>,
        /// Made before this one.
        before: Option<String>,
        /// At most so many.
        limit: usize,
    },
    /// One booking.
    ShowBooking {
        /// Its id.
        id: String,
    },
    /// Move a booking.
    MoveBooking {
        /// Its id.
        id: String,
        /// Where to.
        to: BookingStatus,
        /// Who says so.
        by: String,
    },
    /// Have somebody told of what happens to the bookings of a key.
    Subscribe {
        /// The key.
        key: String,
        /// Where it is told.
        url: String,
        /// Of what; of everything when empty.
        events: Vec<String>,
    },
    /// Who is told.
    Subscriptions {
        /// Of the bookings of this key.
        key: Option<String>,
    },
    /// Give a subscription another secret.
    RotateSubscription {
        /// Its id.
        id: String,
        /// For how long the present one signs as well.
        overlap_seconds: u64,
    },
    /// Have it told no more.
    Unsubscribe {
        /// Its id.
        id: String,
    },
    /// Send what was counted to the biller.
    Bill {
        /// Or only say what would be sent.
        dry_run: bool,
    },
    /// Compare what was booked with what was counted.
    Tally,
    /// Records of envelopes, the latest first.
    Envelopes(EnvelopeQuery),
}

/// What an order comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NetworkSaid {
    /// Venues were taken.
    Imported {
        /// That were not known.
        added: u64,
        /// That were.
        replaced: u64,
    },
    /// Venues.
    Venues(Vec<VenueView>),
    /// One venue; `None` where there is none of that name.
    Venue(Option<Box<VenueView>>),
    /// Bookings.
    Bookings(Vec<BookingView>),
    /// One booking; `None` where there is none of that name.
    Booking(Option<Box<BookingView>>),
    /// Subscriptions.
    Subscriptions(Vec<SubscriptionView>),
    /// One subscription; `None` where there is none of that name.
    Subscription(Option<Box<SubscriptionView>>),
    /// Batches, and what became of them.
    Billed(Vec<BatchView>),
    /// How far the books agree.
    Tallied(TallyView),
    /// Records of envelopes.
    Envelopes(Vec<EnvelopeView>),
    /// It could not be done.
    Failed(String),
}

/// A venue as operators see it.
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

/// A slot as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the file of venues")]
pub struct SlotView {
    pub id: String,
    pub time: String,
    pub capacity: u32,
    pub taken: u32,
}

/// A booking as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingView {
    /// Its id, and its task's.
    pub booking_id: String,
    /// The slug of its venue, or its id where the venue is gone.
    pub venue: String,
    /// Where it stands.
    pub status: BookingStatus,
    /// Its slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_id: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// For how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party_size: Option<u32>,
    /// What the venue should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_note: Option<String>,
    /// The key it was made with.
    pub key: String,
    /// The agent that made it.
    pub from: String,
    /// What that agent knows it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Everywhere it has stood since.
    pub moves: Vec<MoveView>,
}

/// A move as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveView {
    /// Where to.
    pub to: BookingStatus,
    /// When.
    pub at: Timestamp,
}

/// A subscription as it is shown: without its secrets, but for the one that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionView {
    /// Its id.
    pub id: String,
    /// The key whose bookings it is told of.
    pub key: String,
    /// Where.
    pub url: String,
    /// Of what; of everything when empty.
    pub events: Vec<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when the secret before this one signs as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<Timestamp>,
    /// Why it is told no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What deliveries are signed with: shown once, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// What orders are carried out with.
#[derive(Clone)]
pub(crate) struct Bureau {
    pub(crate) terms: Terms,
    pub(crate) office: Office,
    pub(crate) production: bool,
    /// Whoever bills what was counted.
    pub(crate) biller: Option<Arc<dyn Biller>>,
}

impl Bureau {
    /// With what a server has; the terms are the usual ones where no network is configured.
    pub(crate) fn new(
        config: &Config,
        engine: Engine,
        log: Arc<dyn TaskLog>,
        ledger: Arc<dyn Ledger>,
        patrons: Arc<dyn Patrons>,
    ) -> Result<Self, String> {
        let terms = config.network.as_ref().map_or_else(|| Ok(Terms::default()), |network| network.terms())?;
        let agent = AgentName::parse(AGENT).map_err(|e| e.to_string())?;
        let office = Office { engine, log, ledger, patrons, agent };
        let biller = cash::biller(config, &ConfiguredSecrets::new(config))?;
        Ok(Self { terms, office, production: config.is_production(), biller })
    }
}

/// Has an order carried out, by the server if one runs.
pub async fn network(config: &Config, order: NetworkOrder) -> Result<NetworkSaid, AdminError> {
    let path = store_path(config).map_err(AdminError::Url)?.ok_or(AdminError::Memory)?;
    if let Some(directory) = path.parent() {
        crate::app::make_private(directory).map_err(|e| AdminError::Failed(e.to_string()))?;
    }
    let durability = config.store.durability.into();
    let options = sqlite::Options { durability, writing: sqlite::Writing::Inline, metrics: Default::default() };
    let begun = Instant::now();
    Ok(loop {
        match SqliteLog::open(&path, options.clone()) {
            Ok(log) => break alone(config, Arc::new(log), order).await?,
            Err(OpenError::Locked(_)) => {}
            Err(other) => return Err(other.into()),
        }
        let socket = operator::socket_beside(&path);
        match operator::ask(&socket, &order).await {
            Ok(said) => break said,
            // A server that starts has the lock before it listens; another command has it for a moment.
            Err(_) if begun.elapsed() < LOCK_PATIENCE && !operator::answers(&socket).await => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(reason) => return Err(AdminError::Operator { socket, reason }),
        }
    })
}

/// Carries out an order where no server runs.
async fn alone(config: &Config, log: Arc<SqliteLog>, order: NetworkOrder) -> Result<NetworkSaid, AdminError> {
    let engine = Engine::open(log.clone(), Arc::new(TokioHost), Limits::default(), Metrics::default()).await?;
    let keys = gate::store(config, sqlite::Writing::Inline, Default::default());
    let keys = keys.map_err(|e| AdminError::Failed(e.to_string()))?;
    let patrons = Arc::new(KeyHolders::new(keys, None));
    let bureau = Bureau::new(config, engine, log.clone(), log, patrons).map_err(AdminError::Failed)?;
    Ok(bureau.carry_out(order).await)
}

impl Bureau {
    /// Carries out an order.
    pub(crate) async fn carry_out(&self, order: NetworkOrder) -> NetworkSaid {
        self.attempt(order).await.unwrap_or_else(NetworkSaid::Failed)
    }

    async fn attempt(&self, order: NetworkOrder) -> Result<NetworkSaid, String> {
        let ledger = &*self.office.ledger;
        let failed = |error: sabir_store::StoreError| error.to_string();
        Ok(match order {
            NetworkOrder::ImportVenues { path } => {
                let imported = booking::import_file(&path, &self.terms, ledger).await?;
                NetworkSaid::Imported { added: imported.added, replaced: imported.replaced }
            }
            NetworkOrder::AddVenue { row } => {
                let row = VenueRow::read(row)?;
                let slug = row.slug.clone();
                import::import(ledger, &self.terms, vec![row]).await.map_err(|e| e.to_string())?;
                self.venue(&slug).await?
            }
            NetworkOrder::Venues { terms, category, location, limit } => {
                let query = VenueQuery { category, location, terms, inactive: true, limit: limit.clamp(1, ROWS_MAX) };
                let mut views = Vec::new();
                for venue in ledger.venues(&query).await.map_err(failed)? {
                    views.push(self.view(venue).await?);
                }
                NetworkSaid::Venues(views)
            }
            NetworkOrder::EnableVenue { slug, active } => {
                ledger.enable_venue(&slug, active).await.map_err(failed)?;
                self.venue(&slug).await?
            }
            NetworkOrder::Bookings { venue, key, status, before, limit } => {
                let venue = match venue {
                    None => None,
                    Some(slug) => {
                        let found = ledger.venue(VenueName::Slug(&slug)).await.map_err(failed)?;
                        Some(found.ok_or_else(|| format!("there is no venue {slug:?}"))?.id)
                    }
                };
                let before = before.map(|id| named(&id)).transpose()?;
                let query = BookingQuery { venue, key, status, before, limit: limit.clamp(1, ROWS_MAX) };
                let mut views = Vec::new();
                for one in ledger.bookings(&query).await.map_err(failed)? {
                    views.push(self.booking(one).await?);
                }
                NetworkSaid::Bookings(views)
            }
            NetworkOrder::ShowBooking { id } => match ledger.booking(named(&id)?).await.map_err(failed)? {
                None => NetworkSaid::Booking(None),
                Some(found) => NetworkSaid::Booking(Some(Box::new(self.booking(found).await?))),
            },
            NetworkOrder::MoveBooking { id, to, by } => {
                let moved = self.office.transition(named(&id)?, to, &Caller::named(&by)).await;
                let moved = moved.map_err(|e| e.to_string())?;
                NetworkSaid::Booking(Some(Box::new(self.booking(moved).await?)))
            }
            NetworkOrder::Subscribe { key, url, events } => {
                let made = hooks::subscribe(ledger, &key, &url, events, self.production).await?;
                NetworkSaid::Subscription(Some(Box::new(made)))
            }
            NetworkOrder::Subscriptions { key } => {
                NetworkSaid::Subscriptions(hooks::list(ledger, key.as_deref()).await?)
            }
            NetworkOrder::RotateSubscription { id, overlap_seconds } => {
                let overlap = Duration::from_secs(overlap_seconds);
                NetworkSaid::Subscription(hooks::rotate(ledger, &id, overlap).await?.map(Box::new))
            }
            NetworkOrder::Unsubscribe { id } => {
                NetworkSaid::Subscription(hooks::remove(ledger, &id).await?.map(Box::new))
            }
            NetworkOrder::Bill { dry_run: true } => {
                let batches = billing::preview(ledger, TokioHost.now()).await.map_err(failed)?;
                NetworkSaid::Billed(bills::previewed(batches))
            }
            NetworkOrder::Bill { dry_run: false } => {
                let biller = self.biller.as_ref();
                let biller = biller.ok_or("nobody bills here: [network.billing] is not in the configuration")?;
                let run = billing::run(ledger, &**biller, &TokioHost, Some(cash::ORDER_TIME)).await;
                NetworkSaid::Billed(bills::ran(run.map_err(failed)?))
            }
            NetworkOrder::Tally => NetworkSaid::Tallied(bills::tallied(ledger.tally().await.map_err(failed)?)),
            NetworkOrder::Envelopes(query) => {
                let rows = ledger.interactions(&query.query(ROWS_MAX)).await.map_err(failed)?;
                NetworkSaid::Envelopes(rows.into_iter().map(EnvelopeView::from).collect())
            }
        })
    }

    async fn venue(&self, slug: &str) -> Result<NetworkSaid, String> {
        let found = self.office.ledger.venue(VenueName::Slug(slug)).await.map_err(|e| e.to_string())?;
        Ok(NetworkSaid::Venue(match found {
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
        let sabir_store::Booking { id, booked, status, created_at, moves, .. } = booking;
        let venue = self.office.ledger.venue(VenueName::Id(&booked.venue)).await.map_err(|e| e.to_string())?;
        let step = |step: sabir_store::BookingMove| MoveView { to: step.to, at: Timestamp::from_millis(step.at) };
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

fn named(id: &str) -> Result<TaskId, String> {
    TaskId::parse(id).ok_or_else(|| format!("{id:?} is not the id of a booking"))
}
