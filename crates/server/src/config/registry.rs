//! `[registry]`: agents elsewhere, those of the file and those that were added at run time.

use super::agent::AgentConfig;
use sabir_store::Enlisted;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// `[registry]`
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// What happens when the card of an agent elsewhere says something else than it did; `[[agent]]` may say otherwise.
    pub on_drift: OnDrift,
}

/// What happens when the skills, the credentials, the addresses or the signer of a card change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDrift {
    /// The new card is used, and it is said in the log and the history.
    #[default]
    Alert,
    /// The card before it is used until somebody approves the new one: `sabir agent approve`.
    Hold,
}

/// The section that an agent of the registry would have in the file.
pub(crate) fn section(agent: &Enlisted) -> Result<AgentConfig, String> {
    let mut keys: Map<String, Value> =
        serde_json::from_str(&agent.settings).map_err(|e| format!("its settings cannot be read: {e}"))?;
    keys.insert("name".into(), agent.name.as_str().into());
    keys.insert("kind".into(), "a2a".into());
    keys.insert("url".into(), agent.url.clone().into());
    if let Some(profile) = &agent.profile {
        keys.insert("profile".into(), profile.clone().into());
    }
    serde_json::from_value(Value::Object(keys)).map_err(|e| format!("its settings cannot be used: {e}"))
}
