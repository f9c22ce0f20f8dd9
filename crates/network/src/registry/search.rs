//! Who covers what, best first.
//!
//! Networks that can do what is asked and cover it are ordered by how closely they name the place, then by whether they
//! can be called now and how often they answered, then by what they cost, then by their name: the same question has the
//! same answer everywhere.

use super::{Entry, Registry};
use crate::record::Coverage;
use sabir_proto::Timestamp;
use std::cmp::Reverse;

/// The most networks in one answer.
pub const RESULTS_MAX: usize = 100;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// It takes this intent.
    pub intent: Option<String>,
    /// It has venues of this category.
    pub category: Option<String>,
    /// It has venues there: a city, a part of one, or a country.
    pub location: Option<String>,
    /// It can do this as well.
    pub feature: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// After so many.
    pub after: usize,
}

/// How closely a network names a place, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// As a city.
    City,
    /// As a part of one.
    Area,
    /// As a country.
    Country,
    /// It names no places, so it may have this one.
    Unsaid,
}

/// How a network does, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// It would be called now.
    pub open: bool,
    /// Of a thousand envelopes, how many it answered.
    pub answered_permille: u32,
}

impl Match {
    fn of(coverage: &Coverage, location: Option<&str>) -> Option<Self> {
        let Some(location) = location else { return Some(Self::Unsaid) };
        let lists =
            [(&coverage.cities, Self::City), (&coverage.areas, Self::Area), (&coverage.countries, Self::Country)];
        let named = lists.iter().find(|(list, _)| has(list, location)).map(|(_, how)| *how);
        named.or_else(|| lists.iter().all(|(list, _)| list.is_empty()).then_some(Self::Unsaid))
    }
}

impl Registry {
    /// The networks that fit, and after how many to go on if there are more.
    pub fn search(
        &self,
        query: &Query,
        now: Timestamp,
        standing: impl Fn(&str) -> Standing,
    ) -> (Vec<Entry>, Option<usize>) {
        let fits = |entry: &Entry| {
            let record = &entry.record;
            let says =
                |list: &[String], wanted: &Option<String>| wanted.as_deref().is_none_or(|wanted| has(list, wanted));
            // Who names no categories may have any.
            let categories = &record.coverage.categories;
            (says(&record.intents, &query.intent) && says(&record.features, &query.feature))
                && (categories.is_empty() || says(categories, &query.category))
        };
        let mut found: Vec<_> = self
            .all(now)
            .into_iter()
            .filter(fits)
            .filter_map(|entry| {
                let near = Match::of(&entry.record.coverage, query.location.as_deref())?;
                let unsaid = query.category.is_some() && entry.record.coverage.categories.is_empty();
                let Standing { open, answered_permille } = standing(&entry.record.network_id);
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

/// Whether a list names something, whatever the case of its letters.
fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry.to_lowercase() == wanted.to_lowercase())
}
