//! Builds the agents of a server, and what they share.

use super::listeners::HttpListener;
use crate::agent_factory::{AgentFactory, OwnAgents, SharedParts};
use crate::agents::{self, CommandJournal, DelegationListener, EndedLeftovers};
use crate::auth_setup::AuthSetup;
use crate::card::Signer;
use crate::config::Config;
use crate::directory::AgentDirectory;
use crate::engine_access::EngineAccess;
use crate::interceptor::Interceptor;
use crate::metrics::Metrics;
use crate::registry_sync::RegistrySync;
use crate::start_error::StartError;
use crate::tokio_host::ServerTasks;
use prometheus_client::registry::Registry;
use sabir_gateway::exchange_log::ExchangeLog;
use sabir_gateway::{BreakerRules, Capacity, Hub};
use sabir_guard::Guard;
use sabir_store::AgentRegistry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What the agents are made from.
pub(super) struct AgentParts<'a> {
    pub(super) config: &'a Config,
    pub(super) auth_setup: AuthSetup,
    pub(super) listener: &'a HttpListener,
    pub(super) signer: Option<Arc<Signer>>,
    pub(super) own_agents: OwnAgents,
    pub(super) interceptor: Option<Arc<dyn Interceptor>>,
    pub(super) guard: &'a Guard,
    pub(super) engine: &'a Arc<EngineAccess>,
    pub(super) metrics: &'a Metrics,
    /// Stores the agents that were added at run time, and the cards of remote agents.
    pub(super) registry: Arc<dyn AgentRegistry>,
    /// The memory budget for the answers of upstreams.
    pub(super) answers: Capacity,
    pub(super) tasks: &'a ServerTasks,
}

pub(super) struct BuiltAgents {
    pub(super) directory: Arc<AgentDirectory>,
    pub(super) registry_sync: RegistrySync,
    /// The listener at which commands and endpoints delegate, if any of them may.
    pub(super) delegations: Option<DelegationListener>,
    pub(super) exchange_log: ExchangeLog,
}

pub(super) async fn build(parts: AgentParts<'_>, registry: &mut Registry) -> Result<BuiltAgents, StartError> {
    let journal = end_leftovers(parts.config).await?;
    let upstream_metrics = sabir_gateway::Metrics::default();
    upstream_metrics.register(registry);
    let exchange_log = parts.config.open_exchange_log().map_err(StartError::Config)?;
    let hub = Hub::with_rules(BreakerRules::HUB, upstream_metrics, exchange_log.clone(), parts.answers);
    let directory = Arc::new(AgentDirectory::new(parts.guard.clone()));
    parts.engine.set_directory(directory.clone());
    let factory = AgentFactory::new(SharedParts {
        auth_setup: parts.auth_setup,
        public: parts.listener.public.clone(),
        signer: parts.signer,
        journal,
        hub,
        own_agents: parts.own_agents,
        interceptor: parts.interceptor,
        registry: parts.registry,
        own_addresses: parts.listener.own_addresses.clone().into(),
        handoff_audit: Arc::new(agents::GuardHandoffAudit {
            guard: parts.guard.clone(),
            metrics: parts.metrics.clone(),
        }),
        directory: Arc::downgrade(&directory),
        engine: Arc::downgrade(parts.engine),
        tasks: parts.tasks.clone(),
    });
    let registry_sync = RegistrySync::open(factory, directory.clone()).await?;
    // Before turns are resumed, because they may delegate.
    let delegations = listen_for_delegations(registry_sync.factory()).await?;
    Ok(BuiltAgents { directory, registry_sync, delegations, exchange_log })
}

async fn listen_for_delegations(factory: &AgentFactory) -> Result<Option<DelegationListener>, StartError> {
    let Some(delegations) = factory.delegations() else { return Ok(None) };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let reason = |e: std::io::Error| format!("for programs that delegate: {e}");
    let listener = DelegationListener::open(delegations).await;
    listener.map(Some).map_err(|e| StartError::Listen { address, reason: reason(e) })
}

/// Ends the commands that a killed server left running, and returns the journal for new ones. This process has locked
/// the data directory, so no other server has commands in the journal.
async fn end_leftovers(config: &Config) -> Result<Option<Arc<CommandJournal>>, StartError> {
    let Some(file) = config.data_file().map_err(StartError::Config)? else { return Ok(None) };
    let ledger = Arc::new(CommandJournal::beside(&file));
    let (at, grace) = (ledger.clone(), Duration::from_secs(config.limits.cancel_grace_seconds));
    match tokio::task::spawn_blocking(move || at.end_leftovers(grace)).await {
        Ok(ended) if ended.processes + ended.directories > 0 => {
            let EndedLeftovers { processes, killed, directories: rooms } = ended;
            tracing::info!(processes, killed, rooms, "ended the commands that the last process left behind");
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "looking for commands that were left behind failed"),
    }
    Ok(Some(ledger))
}
