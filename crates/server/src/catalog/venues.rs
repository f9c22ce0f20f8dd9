//! The venues of the booking network as agents: a search finds them like others, and clients reach them through the
//! network.
//!
//! The entry of a venue has the URL of the network's card. Its interfaces have the venue's id as their tenant, which
//! clients of 1.0 send back: such a request is for that venue, and a booking need not name it. Clients of 0.3 have no
//! tenants; they name the venue in the message.

use super::search::CatalogQuery;
use super::{AgentHealth, CatalogEntry, HealthState};
use crate::app::App;
use sabir_network::{skill, skills};
use sabir_proto::card::{Interface, Skill};
use sabir_store::{Ledger, Venue, VenueQuery};
use sabir_wire::agnt::Intent;
use std::collections::BTreeSet;

/// Venues that are read for one page. A client that wants others gives more words.
const VENUES_MAX: usize = 1000;
/// Words of a search that are tried as the name of a place.
const PLACES_MAX: usize = 4;

/// The venues that may match; the common search sorts out the others.
pub(super) async fn entries(app: &App, wanted: &CatalogQuery) -> Vec<CatalogEntry> {
    let Some(network) = &app.network else { return Vec::new() };
    let Some(served) = app.agent(&network.agent) else { return Vec::new() };
    let is_default = app.default_agent().is_some_and(|default| default.hosted.name == served.hosted.name);
    let stand = CatalogEntry::of(&served, &app.public.url, is_default);
    find(&*network.ledger, wanted).await.into_iter().map(|venue| entry(&stand, venue)).collect()
}

/// By all words, and by all but one of them, which is then the place.
async fn find(ledger: &dyn Ledger, wanted: &CatalogQuery) -> Vec<Venue> {
    let words: Vec<String> = wanted.text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let mut queries = vec![(words.clone(), None)];
    for (at, place) in words.iter().enumerate().take(PLACES_MAX) {
        let mut others = words.clone();
        others.remove(at);
        queries.push((others, Some(place.clone())));
    }
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for (terms, location) in queries {
        let query = VenueQuery { category: None, location, terms, inactive: false, limit: VENUES_MAX };
        match ledger.venues(&query).await {
            Ok(venues) => found.extend(venues.into_iter().filter(|venue| seen.insert(venue.id.clone()))),
            Err(error) => tracing::error!(%error, "the venues cannot be read for the catalog"),
        }
    }
    found
}

fn entry(network: &CatalogEntry, venue: Venue) -> CatalogEntry {
    let words = [Some(venue.category.clone()), venue.area.clone(), venue.city.clone()].into_iter().flatten();
    let tags: Vec<String> = words.chain(venue.tags).collect();
    let at = |interface: &Interface| Interface { tenant: Some(venue.id.clone()), ..interface.clone() };
    let offered = |skill: Skill| Skill { tags: skill.tags.into_iter().chain(tags.iter().cloned()).collect(), ..skill };
    let book = skill(Intent::BookingConfirm);
    let book = Skill { examples: vec![format!("book {} for 2", venue.slug)], ..book };
    let search = skills().into_iter().find(|skill| skill.id == Intent::BookingSearch.name());
    CatalogEntry {
        name: venue.agent_id.clone(),
        display_name: venue.name,
        description: venue.description.unwrap_or_default(),
        version: network.version.clone(),
        provider: network.provider.clone(),
        card_url: network.card_url.clone(),
        interfaces: network.interfaces.iter().filter(|interface| interface.protocol_version == "1.0").map(at).collect(),
        skills: search.into_iter().chain([book]).map(offered).collect(),
        input_modes: network.input_modes.clone(),
        output_modes: network.output_modes.clone(),
        health: AgentHealth { state: HealthState::Up, heard_at: None },
    }
}
