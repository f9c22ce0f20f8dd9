//! Built-in agents, made from configuration; and the one of the demo server, which is made by its command alone.

pub mod demo;
mod echo;
mod exec;
mod script;

use crate::config::agent::{AgentConfig, Kind};
pub use echo::Echo;
pub use exec::Exec;
pub(crate) use exec::{Ended, Ledger};
use sabir_engine::AnyAgent;
pub use script::Script;
use std::sync::Arc;
use std::time::Duration;

/// Makes the agent a configuration describes. The error says what is wrong with it.
pub(crate) fn make(
    config: &AgentConfig,
    cancel_grace: Duration,
    ledger: Option<&Arc<Ledger>>,
) -> Result<Arc<dyn AnyAgent>, String> {
    let misplaced = |key: &str, kind: &str| Err(format!("{key} belongs to kind = \"{kind}\""));
    if !config.rule.is_empty() && config.kind != Kind::Script {
        return misplaced("rule", "script");
    }
    if config.command.is_some() && config.kind != Kind::Exec {
        return misplaced("command", "exec");
    }
    Ok(match config.kind {
        Kind::Echo => Arc::new(Echo),
        Kind::Script => Arc::new(Script::compile(&config.rule)?),
        Kind::Exec => Arc::new(Exec::new(config, cancel_grace)?.known_to(ledger.cloned())),
    })
}
