//! Which of a few descriptions fits a text best, and why.
//!
//! Nothing here survives: what is ranked are the agents of this moment, and there are at most some hundreds. It stands here
//! because the one ranking we have is SQLite's, and SQL has one home.

use crate::StoreError;

/// What can be found by, best first: a word in a tag says more than the same word in a description.
pub const FIELDS: [(&str, f64); 5] =
    [("name", 4.0), ("skills", 6.0), ("tags", 8.0), ("examples", 5.0), ("description", 2.0)];

/// One thing that may fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Described {
    /// What it is called by whoever asks.
    pub key: String,
    /// What is said about it, in the order of [`FIELDS`].
    pub fields: [String; FIELDS.len()],
}

/// How well one fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Which.
    pub key: String,
    /// More is better; only fits of one ranking can be compared.
    pub score: f64,
    /// What each of the [`FIELDS`] says by itself, where it says anything.
    pub because: Vec<(&'static str, f64)>,
}

/// Ranks descriptions by a text.
pub trait Ranking: Send + Sync + 'static {
    /// Those of `all` that have anything to do with a text, best first. What has nothing to do with it is not there.
    fn rank(&self, text: &str, all: &[Described]) -> Result<Vec<Fit>, StoreError>;
}
