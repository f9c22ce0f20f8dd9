//! The search for networks that cover a place, best first.
//!
//! Networks that support the request and cover the place are ordered by how closely they name the place, then by
//! whether they are available and how often they answered, then by fee, then by name: the same query has the same
//! result everywhere.

use super::{NetworkRegistry, RegistryEntry};
use crate::record::Coverage;
use sabir_proto::Timestamp;
use std::cmp::Reverse;

/// Networks in one result, at most.
pub const RESULTS_MAX: usize = 100;

/// A query for networks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkQuery {
    /// Only networks that accept this intent.
    pub intent: Option<String>,
    /// Only networks with venues of this category.
    pub category: Option<String>,
    /// Only networks with venues there: a city, an area, or a country.
    pub location: Option<String>,
    /// Only networks with this feature.
    pub feature: Option<String>,
    /// The maximum number of results.
    pub limit: usize,
    /// The number of results to skip.
    pub after: usize,
}

/// How closely a network names a place, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceMatch {
    /// The network names it as a city.
    City,
    /// The network names it as an area.
    Area,
    /// The network names it as a country.
    Country,
    /// The network names no places, so it may cover this one.
    Unspecified,
}

/// The health of a network, as this server has observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkHealth {
    /// Whether the circuit breaker lets calls through.
    pub is_available: bool,
    /// How many of a thousand envelopes it answered.
    pub answered_permille: u32,
}

impl PlaceMatch {
    fn of(coverage: &Coverage, location: Option<&str>) -> Option<Self> {
        let Some(location) = location else { return Some(Self::Unspecified) };
        let lists =
            [(&coverage.cities, Self::City), (&coverage.areas, Self::Area), (&coverage.countries, Self::Country)];
        let named = lists.iter().find(|(list, _)| has(list, location)).map(|(_, how)| *how);
        named.or_else(|| lists.iter().all(|(list, _)| list.is_empty()).then_some(Self::Unspecified))
    }
}

impl NetworkRegistry {
    /// The matching networks, and how many to skip for the next page if there is one.
    pub fn search(
        &self,
        query: &NetworkQuery,
        now: Timestamp,
        standing: impl Fn(&str) -> NetworkHealth,
    ) -> (Vec<RegistryEntry>, Option<usize>) {
        let fits = |entry: &RegistryEntry| {
            let record = &entry.record;
            let says =
                |list: &[String], wanted: &Option<String>| wanted.as_deref().is_none_or(|wanted| has(list, wanted));
            // A network without categories may have any.
            let categories = &record.coverage.categories;
            (says(&record.intents, &query.intent) && says(&record.features, &query.feature))
                && (categories.is_empty() || says(categories, &query.category))
        };
        let mut found: Vec<_> = self
            .all(now)
            .into_iter()
            .filter(fits)
            .filter_map(|entry| {
                let near = PlaceMatch::of(&entry.record.coverage, query.location.as_deref())?;
                let unsaid = query.category.is_some() && entry.record.coverage.categories.is_empty();
                let NetworkHealth { is_available: open, answered_permille } = standing(&entry.record.network_id);
                #[expect(clippy::cast_possible_truncation, reason = "a percentage")]
                let fee = (entry.record.pricing.fee_pct * 1000.0) as i64;
                let rank = (near, unsaid, !open, Reverse(answered_permille), fee, entry.record.network_id.clone());
                Some((rank, entry))
            })
            .collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let limit = query.limit.clamp(1, RESULTS_MAX);
        let next = query.after.saturating_add(limit);
        let more = (found.len() > next).then_some(next);
        (found.into_iter().skip(query.after).take(limit).map(|(_, entry)| entry).collect(), more)
    }
}

/// Whether a list contains a text, in any case.
fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry.to_lowercase() == wanted.to_lowercase())
}
