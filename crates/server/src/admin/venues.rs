//! Venues: the places that the booking network of a server can book.

use super::bookings::{NetworkAdmin, ROWS_MAX, rows_default};
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use super::{AdminError, AdminErrorCode};
use crate::booking;
use sabir_network::import::{self, VenueRow};
use sabir_store::{Venue, VenueQuery, VenueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Lists venues, active or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListVenues {
    /// Words to search for.
    #[serde(default)]
    pub terms: Vec<String>,
    /// Only venues of this category.
    #[serde(default)]
    pub category: Option<String>,
    /// Only venues in this place.
    #[serde(default)]
    pub location: Option<String>,
    /// The maximum number of venues in the response.
    #[serde(default = "rows_default")]
    pub limit: usize,
}

/// Adds one venue, or replaces the one of its slug.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddVenue {
    /// The members of a row of a file of venues.
    pub row: Value,
}

/// Imports venues, all of them or none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportVenues {
    /// The rows of a file of venues.
    pub rows: Vec<Value>,
}

/// Imports the venues of a file on this machine, all of them or none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportVenueFile {
    /// The absolute path of the file.
    pub path: PathBuf,
}

/// Activates or deactivates a venue; an inactive one is not found and not booked.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnableVenue {
    pub slug: String,
    pub active: bool,
}

/// Venues of the booking network.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct VenueList {
    pub venues: Vec<VenueView>,
}

/// How many venues were imported.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ImportedVenues {
    /// The number of new venues.
    pub added: u64,
    /// The number of venues that existed before.
    pub replaced: u64,
}

/// A venue with the names of the file of venues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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

/// What can be booked of a venue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlotView {
    pub id: String,
    pub time: String,
    pub capacity: u32,
    pub taken: u32,
}

impl Perform for ListVenues {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/venues", "List the venues of the booking network");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<VenueList, AdminError> {
        let Self { terms, category, location, limit } = self;
        let query = VenueQuery { category, location, terms, inactive: true, limit: limit.clamp(1, ROWS_MAX) };
        let network = service.network()?;
        let mut venues = Vec::new();
        for venue in network.ledger().venues(&query).await? {
            venues.push(network.venue_view(venue).await?);
        }
        Ok(VenueList { venues })
    }
}

impl Perform for AddVenue {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::create("/venues", "Add a venue, or replace the one of its slug");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<VenueView, AdminError> {
        let row = VenueRow::read(self.row).map_err(AdminError::refused)?;
        let slug = row.slug.clone();
        let network = service.network()?;
        let imported = import::import(network.ledger(), &network.terms, vec![row]).await;
        imported.map_err(|error| AdminError::refused(error.to_string()))?;
        service.record_change(operator, "venue.add", None).await?;
        network.venue(&slug).await
    }
}

impl Perform for ImportVenues {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::post("/venues/import", "Import venues, all of them or none");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<ImportedVenues, AdminError> {
        let wrong = |problem: String| AdminError::refused(problem);
        let rows = import::read(&Value::Array(self.rows).to_string()).map_err(|error| wrong(error.to_string()))?;
        let network = service.network()?;
        let imported = import::import(network.ledger(), &network.terms, rows).await;
        let imported = imported.map_err(|error| wrong(error.to_string()))?;
        service.record_change(operator, "venue.import", None).await?;
        Ok(ImportedVenues { added: imported.added, replaced: imported.replaced })
    }
}

impl Perform for ImportVenueFile {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    // A caller of the API must not make the server read files.
    const ENDPOINT: Endpoint = Endpoint::local("Import the venues of a file on this machine");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<ImportedVenues, AdminError> {
        let network = service.network()?;
        let imported = booking::import_file(&self.path, &network.terms, network.ledger()).await;
        let imported = imported.map_err(AdminError::refused)?;
        service.record_change(operator, "venue.import", None).await?;
        Ok(ImportedVenues { added: imported.added, replaced: imported.replaced })
    }
}

impl Perform for EnableVenue {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::post("/venues/{slug}/enable", "Have a venue found and booked, or neither");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<VenueView, AdminError> {
        let network = service.network()?;
        network.ledger().enable_venue(&self.slug, self.active).await?;
        let venue = network.venue(&self.slug).await?;
        service.record_change(operator, "venue.enable", None).await?;
        Ok(venue)
    }
}

impl NetworkAdmin {
    async fn venue(&self, slug: &str) -> Result<VenueView, AdminError> {
        let found = self.ledger().venue(VenueRef::Slug(slug)).await?;
        let none = || AdminError::new(AdminErrorCode::NoVenue, format!("there is no venue {slug}"));
        self.venue_view(found.ok_or_else(none)?).await
    }

    async fn venue_view(&self, venue: Venue) -> Result<VenueView, AdminError> {
        let slots = self.ledger().slots(&venue.id).await?;
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
}
