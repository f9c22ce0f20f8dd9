//! Agents elsewhere, from configuration.

use crate::config::agent::{AgentConfig, Kind};
use sabir_gateway::{Credentials, Egress, Patience, RemoteAgent, Upstream};
use sabir_guard::config::Reference;
use sabir_guard::entrance::Secrets;
use sabir_proto::Secret;
use std::sync::Arc;
use std::time::Duration;

/// Makes the agent elsewhere that a configuration describes; none where it describes another kind.
pub(crate) fn remote(config: &AgentConfig, secrets: &dyn Secrets) -> Result<Option<Arc<RemoteAgent>>, String> {
    if config.kind != Kind::A2a {
        return Ok(None);
    }
    let url = config.url.clone().ok_or("kind = \"a2a\" needs the url of the agent")?;
    let secret = |key: &str, reference: &Option<Reference>| -> Result<Option<Secret>, String> {
        let Some(reference) = reference else { return Ok(None) };
        secrets.reveal(&reference.find(key)?).map(Some).map_err(|e| format!("{key}: {e}"))
    };
    let credentials = Credentials {
        bearer: secret("bearer", &config.bearer)?,
        api_key: secret("api_key", &config.api_key)?,
        ..Credentials::default()
    };
    let waits = config.continuation;
    if waits.attempts == 0 || waits.poll_ms == 0 {
        return Err("continuation: attempts and poll_ms are at least 1".into());
    }
    let patience = Patience {
        attempts: waits.attempts,
        silence: (waits.minutes > 0).then(|| Duration::from_secs(waits.minutes.saturating_mul(60))),
        pause: Duration::from_millis(waits.poll_ms),
    };
    // The operator has written down where to go, so private addresses are as good as public ones.
    let egress = Egress::anywhere();
    let upstream = Upstream { url, credentials, egress, patience, idempotent: config.idempotent };
    RemoteAgent::new(upstream).map(|remote| Some(Arc::new(remote))).map_err(|e| format!("url: {e}"))
}
