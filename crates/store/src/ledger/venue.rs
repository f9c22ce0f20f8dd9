//! Venues, their slots, and how they are searched.

use crate::StoreError;
use std::sync::Arc;

/// Rows that are read in vain for a search whose terms say next to nothing.
pub const SCAN_ROWS_MAX: usize = 10_000;

/// Somewhere that can be booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Venue {
    /// A UUID, in lower case. Given at the first import, and kept.
    pub id: String,
    /// Its short name; nobody else has it.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// The agent that stands for it; no other venue has it.
    pub agent_id: String,
    /// Such as `restaurant`.
    pub category: String,
    /// In words.
    pub description: Option<String>,
    /// The part of town.
    pub area: Option<String>,
    /// The town.
    pub city: Option<String>,
    /// Words for it.
    pub tags: Vec<String>,
    /// Such as `$$`.
    pub price_range: Option<String>,
    /// Higher comes first.
    pub priority_rank: Option<i64>,
    /// Where its own agent is, if it has one.
    pub endpoint: Option<String>,
    /// What else there is to know for whoever calls it: a JSON object.
    pub settings: Option<String>,
    /// What a referral costs.
    pub fee: Fee,
    /// It is found and may be booked.
    pub active: bool,
}

/// What a referral costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fee {
    /// In hundredths of a percent: 700 is 7 %.
    pub basis_points: u32,
    /// And never less than this.
    pub floor_cents: Option<u32>,
    /// This instead.
    pub flat_cents: Option<u32>,
}

/// A time that can be booked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name within its venue.
    pub id: String,
    /// When.
    pub time: String,
    /// How many bookings it takes.
    pub capacity: u32,
    /// How many it has.
    pub taken: u32,
}

/// A venue as orders see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bookable {
    /// The venue, whether it is active or not.
    pub venue: Arc<Venue>,
    /// Its slots, by time and id; those that are full as well, and those that are withdrawn not.
    pub slots: Arc<Vec<Slot>>,
}

/// A venue with its slots, as it is imported. What is said to be taken does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The venue.
    pub venue: Venue,
    /// Its slots; none for a venue that takes whoever comes.
    pub slots: Vec<Slot>,
}

/// What an import came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Venues that were not known.
    pub added: u64,
    /// Venues that were.
    pub replaced: u64,
}

/// Why venues were not imported; none of them was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Two venues would have the same slug, id or agent.
    #[error("venue {slug}: its {what} is another venue's")]
    Taken {
        /// The second of them.
        slug: String,
        /// Which of the three.
        what: &'static str,
    },
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a venue is asked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenueName<'a> {
    /// Its UUID, in lower case.
    Id(&'a str),
    /// Its slug.
    Slug(&'a str),
    /// Its agent.
    Agent(&'a str),
}

/// Which venues are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VenueQuery {
    /// Of this category; upper and lower case of ASCII letters are one.
    pub category: Option<String>,
    /// Somewhere in area or city, in whatever case.
    pub location: Option<String>,
    /// Each of them somewhere in name, description or category, in whatever case.
    pub terms: Vec<String>,
    /// Those that are not active as well.
    pub inactive: bool,
    /// At most so many.
    pub limit: usize,
}

/// A query as it is compared.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) category: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) terms: Vec<String>,
    inactive: bool,
}

/// A text as it is compared.
pub(crate) fn folded(text: &str) -> String {
    text.to_lowercase()
}

impl VenueQuery {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            category: self.category.as_deref().map(str::to_ascii_lowercase),
            location: self.location.as_deref().map(folded).filter(|text| !text.is_empty()),
            terms: self.terms.iter().map(|term| folded(term)).filter(|term| !term.is_empty()).collect(),
            inactive: self.inactive,
        }
    }
}

impl Wanted {
    /// Whether a venue is wanted. The index only says which may be.
    pub(crate) fn fits(&self, venue: &Venue) -> bool {
        let holds = |text: Option<&str>, part: &str| text.is_some_and(|text| folded(text).contains(part));
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
    /// The rank upside down, so that the highest comes first and none comes last.
    pub(crate) fn below(&self) -> i64 {
        self.priority_rank.map_or(i64::MAX, |rank| !rank)
    }

    /// How venues are ordered.
    pub(crate) fn place(&self) -> (i64, &str, &str) {
        (self.below(), &self.name, &self.id)
    }
}
