//! Built-in agents, made from configuration; and the one of the demo server, which is made by its command alone.

pub mod demo;
mod echo;
mod exec;
mod remote;
mod script;

use crate::config::agent::{AgentConfig, ContinuationConfig, Kind};
use crate::config::upstream::BreakerConfig;
pub use echo::Echo;
pub use exec::Exec;
pub(crate) use exec::{Ended, Ledger};
pub(crate) use remote::remote;
use sabir_engine::AnyAgent;
use sabir_gateway::RemoteAgent;
pub use script::Script;
use std::sync::Arc;
use std::time::Duration;

/// Makes the agent a configuration describes. The error says what is wrong with it.
pub(crate) fn make(
    config: &AgentConfig,
    cancel_grace: Duration,
    ledger: Option<&Arc<Ledger>>,
    elsewhere: Option<&Arc<RemoteAgent>>,
) -> Result<Arc<dyn AnyAgent>, String> {
    let misplaced = |key: &str, kind: &str| Err(format!("{key} belongs to kind = \"{kind}\""));
    if !config.rule.is_empty() && config.kind != Kind::Script {
        return misplaced("rule", "script");
    }
    if config.command.is_some() && config.kind != Kind::Exec {
        return misplaced("command", "exec");
    }
    let is_elsewhere = config.kind == Kind::A2a;
    for (key, given) in [
        ("url", config.url.is_some()),
        ("bearer", config.bearer.is_some()),
        ("api_key", config.api_key.is_some()),
        ("idempotent", config.idempotent),
        ("continuation", config.continuation != ContinuationConfig::default()),
        ("credentials", config.credentials.is_some()),
        ("replicas", !config.replicas.is_empty()),
        ("fallback", config.fallback.is_some()),
        ("bulkhead", config.bulkhead != 0),
        ("health_seconds", config.health_seconds != 30),
        ("breaker", config.breaker != BreakerConfig::default()),
    ] {
        if given && !is_elsewhere {
            return misplaced(key, "a2a");
        }
    }
    if config.cancel_grace_seconds.is_some() && !matches!(config.kind, Kind::A2a | Kind::Exec) {
        return misplaced("cancel_grace_seconds", "a2a");
    }
    Ok(match config.kind {
        Kind::Echo => Arc::new(Echo),
        Kind::Script => Arc::new(Script::compile(&config.rule)?),
        Kind::Exec => Arc::new(Exec::new(config, cancel_grace)?.known_to(ledger.cloned())),
        Kind::A2a => elsewhere.cloned().ok_or("kind = \"a2a\" stands for an agent elsewhere")?,
    })
}
