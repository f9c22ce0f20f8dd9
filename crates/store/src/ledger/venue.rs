//! Venues, their slots, and the query that searches them.

use crate::StoreError;
use std::sync::Arc;

/// The most rows that a search reads in vain, where its terms match too many words to be useful.
pub const SCAN_ROWS_MAX: usize = 10_000;

/// A venue that can be booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Venue {
    /// The id: a UUID in lower case. The first import assigns it, and it never changes.
    pub id: String,
    /// The short name in URLs and orders; unique.
    pub slug: String,
    pub name: String,
    /// The id of its agent; unique.
    pub agent_id: String,
    /// The category, such as `restaurant`.
    pub category: String,
    pub description: Option<String>,
    pub area: Option<String>,
    pub city: Option<String>,
    pub tags: Vec<String>,
    /// The price range, such as `$$`.
    pub price_range: Option<String>,
    /// The rank in lists: higher comes first.
    pub priority_rank: Option<i64>,
    /// The URL of its own agent, if it has one.
    pub endpoint: Option<String>,
    /// More settings for callers of its agent: a JSON object.
    pub settings: Option<String>,
    /// The referral fee of the venue.
    pub fee: Fee,
    /// Whether the venue is found and may be booked.
    pub active: bool,
}

/// The referral fee of a venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fee {
    /// The fee in hundredths of a percent: 700 is 7 %.
    pub basis_points: u32,
    /// The minimum fee in cents.
    pub floor_cents: Option<u32>,
    /// A fixed fee in cents, instead of the percentage.
    pub flat_cents: Option<u32>,
}

/// A time slot that can be booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The id of the slot within its venue.
    pub id: String,
    /// The time, as the venue writes it.
    pub time: String,
    /// The number of bookings it takes.
    pub capacity: u32,
    /// The number of bookings it has.
    pub taken: u32,
}

/// A venue with its slots, as a booking needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookableVenue {
    /// The venue, whether it is active or not.
    pub venue: Arc<Venue>,
    /// Its slots, by time and id; full ones too, withdrawn ones not.
    pub slots: Arc<Vec<Slot>>,
}

/// A venue with its slots, as it is imported. The import ignores `taken`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueListing {
    pub venue: Venue,
    /// Its slots; none for a venue that takes bookings without a slot.
    pub slots: Vec<Slot>,
}

/// The counts of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportCounts {
    /// Venues that were new.
    pub added: u64,
    /// Venues that were replaced.
    pub replaced: u64,
}

/// Why an import was refused; it has imported nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Two venues would have the same slug, id or agent.
    #[error("venue {slug}: its {what} is another venue's")]
    Taken {
        /// The slug of the second of them.
        slug: String,
        /// Which of the three they share.
        what: &'static str,
    },
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The name by which a venue is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenueRef<'a> {
    /// The UUID, in lower case.
    Id(&'a str),
    /// The slug of the venue.
    Slug(&'a str),
    /// The id of its agent.
    Agent(&'a str),
}

/// A filter for venues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VenueQuery {
    /// Only this category; upper and lower case of ASCII letters are equal.
    pub category: Option<String>,
    /// A part of the area or the city, in any case.
    pub location: Option<String>,
    /// Each is a part of the name, the description or the category, in any case.
    pub terms: Vec<String>,
    /// Whether inactive venues match too.
    pub inactive: bool,
    /// The maximum number of results.
    pub limit: usize,
}

/// A query with its texts folded for comparison.
#[derive(Debug)]
pub(crate) struct NormalizedVenueQuery {
    pub(crate) category: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) terms: Vec<String>,
    inactive: bool,
}

/// A text folded for comparison.
pub(crate) fn fold_case(text: &str) -> String {
    text.to_lowercase()
}

impl VenueQuery {
    pub(crate) fn normalized(&self) -> NormalizedVenueQuery {
        NormalizedVenueQuery {
            category: self.category.as_deref().map(str::to_ascii_lowercase),
            location: self.location.as_deref().map(fold_case).filter(|text| !text.is_empty()),
            terms: self.terms.iter().map(|term| fold_case(term)).filter(|term| !term.is_empty()).collect(),
            inactive: self.inactive,
        }
    }
}

impl NormalizedVenueQuery {
    /// Whether a venue matches the query. The index only narrows the candidates down.
    pub(crate) fn matches(&self, venue: &Venue) -> bool {
        let holds = |text: Option<&str>, part: &str| text.is_some_and(|text| fold_case(text).contains(part));
        let says = |term: &String| {
            let texts = [Some(&*venue.name), venue.description.as_deref(), Some(&*venue.category)];
            texts.into_iter().any(|text| holds(text, term))
        };
        (venue.active || self.inactive)
            && self.category.as_ref().is_none_or(|category| venue.category.to_ascii_lowercase() == *category)
            && self
                .location
                .as_ref()
                .is_none_or(|place| [&venue.area, &venue.city].into_iter().any(|text| holds(text.as_deref(), place)))
            && self.terms.iter().all(says)
    }
}

impl Venue {
    /// The rank in reverse, so that the highest sorts first and none sorts last.
    pub(crate) fn reverse_rank(&self) -> i64 {
        self.priority_rank.map_or(i64::MAX, |rank| !rank)
    }

    /// The sort key of a venue.
    pub(crate) fn sort_key(&self) -> (i64, &str, &str) {
        (self.reverse_rank(), &self.name, &self.id)
    }
}
