//! `[server.signing]`: the keys that sign our cards.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[server.signing]`: private and published keys.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SigningConfig {
    /// Private keys, each `file:PATH` or `env:NAME`: PEM or JWK, for ES256, RS256 or EdDSA. Each signs every card.
    pub keys: Vec<String>,
    /// Keys that no longer sign, or not yet, and are still published; public or private.
    pub retired: Vec<String>,
}
