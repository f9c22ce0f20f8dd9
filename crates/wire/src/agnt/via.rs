//! The networks that passed an envelope on, oldest first.

use serde::{Deserialize, Serialize};

/// The number of hops that any envelope may have; a network may set fewer.
pub const VIA_MAX: usize = 8;

/// A relay of an envelope. Only the last relay is authenticated, by the key that it shares with us; the earlier ones
/// are its claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvelopeHop {
    /// The agent id of the relay.
    pub agent: String,
    /// The time of relaying, in Unix seconds.
    pub at: i64,
    /// The id of the relay's signing key.
    pub kid: String,
    /// The time that was left for the answer at the relay, in milliseconds.
    pub ttl_ms: u64,
    /// The signature over all earlier members, in lower-case hex.
    pub sig: String,
}
