//! The built-in agents, made from configuration.

mod chunks;
pub(crate) mod delegation;
pub(crate) mod dispatch;
mod echo;
mod exec;
mod handoff;
mod http;
pub mod mention;
mod openai;
mod remote;
mod script;
#[cfg(test)]
mod test_upstream;

use crate::config::agent::{AgentConfig, BULKHEAD, ContinuationConfig, Kind};
use crate::config::push::EgressConfig;
use crate::config::upstream::BreakerConfig;
use crate::directory::AgentDirectory;
pub(crate) use chunks::ChunkLimits;
use delegation::DelegatesTo;
pub(crate) use delegation::{DelegationListener, Delegations};
pub use dispatch::Dispatch;
pub use echo::Echo;
pub use exec::Exec;
pub(crate) use exec::{CommandJournal, EndedLeftovers, ProcessLimit};
pub(crate) use handoff::{GuardHandoffAudit, HandoffSetup, NoHandoffAudit, advertise_handoffs, handoff_scope};
pub use http::Http;
use mention::{MentionNames, MentioningAgent};
pub use openai::Openai;
pub(crate) use remote::{RemoteAgentParts, allow_configured, make_remote};
use sabir_engine::AnyAgent;
use sabir_gateway::{Capacity, RemoteAgent};
use sabir_guard::authenticator::SecretResolver;
use sabir_guard::config::SecretReference;
use sabir_proto::Secret;
pub use script::Script;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What agents are made from besides their own configuration: limits, secrets, policies and shared services.
pub(crate) struct AgentEnvironment<'a> {
    /// How streamed text is cut into chunks.
    pub(crate) chunks: ChunkLimits,
    /// How long a command gets to clean up after SIGTERM.
    pub(crate) cancel_grace: Duration,
    /// The journal of running commands; `None` where the store is in memory.
    pub(crate) ledger: Option<&'a Arc<CommandJournal>>,
    /// The limit on the commands of all agents that run at the same time.
    pub(crate) processes: &'a Arc<ProcessLimit>,
    /// Resolves the references to credentials.
    pub(crate) secrets: &'a dyn SecretResolver,
    /// Which addresses agents may call.
    pub(crate) egress: &'a EgressConfig,
    /// The memory budget for the answers that all agents receive.
    pub(crate) answers: &'a Capacity,
    /// The other agents of this server.
    pub(crate) directory: &'a Weak<AgentDirectory>,
    /// The service through which commands and endpoints delegate.
    pub(crate) delegations: &'a Arc<Delegations>,
}

/// Makes the agent a configuration describes. The error says what is wrong with it.
pub(crate) fn make(
    config: &AgentConfig,
    environment: &AgentEnvironment<'_>,
    elsewhere: Option<&Arc<RemoteAgent>>,
) -> Result<Arc<dyn AnyAgent>, String> {
    use Kind::{A2a, Dispatch as Desk, Exec as Command, Http as Web, Openai as Model, Script as Rules};
    // Which kinds a key is for. A misplaced key would have no effect, so it is an error.
    let keys: [(&str, bool, &[Kind]); 20] = [
        ("rule", !config.rule.is_empty(), &[Rules]),
        ("command", config.command.is_some(), &[Command]),
        ("url", config.url.is_some(), &[A2a, Web, Model]),
        ("bearer", config.bearer.is_some(), &[A2a, Web, Model]),
        ("api_key", config.api_key.is_some(), &[A2a]),
        ("idempotent", config.idempotent, &[A2a, Web, Model]),
        ("on_drift", config.on_drift.is_some(), &[A2a]),
        ("continuation", config.continuation != ContinuationConfig::default(), &[A2a]),
        ("replicas", !config.replicas.is_empty(), &[A2a]),
        ("credentials", config.credentials.is_some(), &[A2a]),
        ("fallback", config.fallback.is_some(), &[A2a]),
        ("bulkhead", config.bulkhead != BULKHEAD, &[A2a]),
        ("health_seconds", config.health_seconds != 30, &[A2a]),
        ("breaker", config.breaker != BreakerConfig::default(), &[A2a]),
        ("cancel_grace_seconds", config.cancel_grace_seconds.is_some(), &[A2a, Command]),
        ("exec", config.exec.is_some(), &[Command]),
        ("http", config.http.is_some(), &[Web]),
        ("openai", config.openai.is_some(), &[Model]),
        ("dispatch", config.dispatch.is_some(), &[Desk]),
        ("delegates_to", !config.delegates_to.is_empty(), &[Command, Web]),
    ];
    if let Some((key, _, kinds)) = keys.iter().find(|(_, given, kinds)| *given && !kinds.contains(&config.kind)) {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("{:?}", kind.name())).collect();
        return Err(format!("{key} belongs to kind = {}", kinds.join(" or ")));
    }
    let agent: Arc<dyn AnyAgent> = match config.kind {
        Kind::Echo => Arc::new(Echo),
        Kind::Script => Arc::new(Script::compile(&config.rule)?),
        Kind::Exec => {
            let exec = Exec::new(config, environment.cancel_grace, environment.chunks)?
                .with_journal(environment.ledger.cloned());
            let delegates_to = DelegatesTo::new(&config.name, &config.delegates_to, environment.delegations)?;
            Arc::new(exec.with_server_limit(environment.processes).with_delegates(delegates_to))
        }
        Kind::A2a => elsewhere.cloned().ok_or("kind = \"a2a\" stands for an agent elsewhere")?,
        Kind::Http => Arc::new(Http::new(config, environment)?),
        Kind::Openai => Arc::new(Openai::new(config, environment)?),
        Kind::Dispatch => Arc::new(Dispatch::new(config, environment)?),
    };
    if config.mentions.is_empty() {
        return Ok(agent);
    }
    let named = MentionNames::new(&config.mentions)?;
    Ok(Arc::new(MentioningAgent::new(agent, Arc::new(named))))
}

/// The secret that a configuration refers to; `key` names the setting in the refusal.
pub(crate) fn reveal(secrets: &dyn SecretResolver, key: &str, reference: &SecretReference) -> Result<Secret, String> {
    secrets.resolve(&reference.resolve(key)?).map_err(|e| format!("{key}: {e}"))
}
