//! `[registry]`: remote agents, from the file or added at run time.

use super::agent::AgentConfig;
use sabir_store::RegisteredAgent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// `[registry]`: settings of remote agents.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// What happens when the card of a remote agent changes; an `[[agent]]` may override it.
    pub on_drift: OnDrift,
}

/// What happens when the skills, the credentials, the addresses or the signer of a card change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDrift {
    /// The new card is used, and the change is in the log and the history.
    #[default]
    Alert,
    /// The previous card stays in use until an operator approves the new one: `sabir agent approve`.
    Hold,
}

/// The `[[agent]]` section of an agent that was added at run time.
pub(crate) fn section(agent: &RegisteredAgent) -> Result<AgentConfig, String> {
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
