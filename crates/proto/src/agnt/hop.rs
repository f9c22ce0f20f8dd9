//! Who passed an envelope on.

use serde::{Deserialize, Serialize};

/// One who passed an envelope on. Only the last one is proven, by the key it shares with us; the others are what that
/// one says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// Its id.
    pub agent: String,
    /// When, in Unix seconds.
    pub at: i64,
    /// The name of its key.
    pub kid: String,
    /// What was left of the time when it was passed on.
    pub ttl_ms: u64,
    /// Lower-case hex over everything before.
    pub sig: String,
}
