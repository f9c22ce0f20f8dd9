//! `[network]`: the booking network of this server. Without the section there is none, and `/a2a/v1` is no path.

use sabir_wire::agnt::NETWORK;
use serde::Deserialize;

/// The agent that the network is.
pub const AGENT: &str = "network";

/// What the network is called.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Its id, which envelopes to it carry as `to`.
    pub id: String,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self { id: NETWORK.into() }
    }
}
