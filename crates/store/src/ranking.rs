//! Ranking: which of a few descriptions matches a text best, and why.
//!
//! Nothing here is stored: the ranked items are the agents of this moment, at most some hundreds. It is in this crate
//! because it uses SQLite's full-text search, and only this crate contains SQL.

use crate::StoreError;

/// The fields of a description and their weights: a word in a tag says more than the same word in a description.
pub const RANKING_FIELDS: [(&str, f64); 5] =
    [("name", 4.0), ("skills", 6.0), ("tags", 8.0), ("examples", 5.0), ("description", 2.0)];

/// One item that may match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankingCandidate {
    /// The caller's own key for the item.
    pub key: String,
    /// Its texts, in the order of [`RANKING_FIELDS`].
    pub fields: [String; RANKING_FIELDS.len()],
}

/// The match of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingMatch {
    /// The key of the item.
    pub key: String,
    /// The score: higher is better; only scores of one ranking can be compared.
    pub score: f64,
    /// The score of each of the [`RANKING_FIELDS`] by itself, where it is above zero.
    pub field_scores: Vec<(&'static str, f64)>,
}

/// The items of `all` that match a text at all, best first.
pub fn rank(text: &str, all: &[RankingCandidate]) -> Result<Vec<RankingMatch>, StoreError> {
    crate::sqlite::rank(text, all)
}
