//! The parts of the server that every request uses.

use crate::admin::api::AdminApi;
use crate::auth_setup::Rules;
use crate::body::{ClientBudget, OutgoingBudget};
use crate::card::{PublicAddress, Signer};
use crate::config::LimitsConfig;
use crate::directory::{AgentDirectory, ServedAgent};
use crate::engine_access::EngineAccess;
use crate::metrics::Metrics;
use crate::network::Network;
use crate::origin_check::OriginCheck;
use crate::peer::Peer;
use crate::proxies::Proxies;
use crate::tls::ServerCertificate;
use crate::tokio_host::ServerTasks;
use prometheus_client::registry::Registry;
use sabir_gateway::Capacity;
use sabir_gateway::exchange_log::ExchangeLog;
use sabir_guard::Guard;
use sabir_proto::Secret;
use sabir_store::{StoreError, WriteHealth};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a request for readiness waits for the disk.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);

/// The parts of the server that every request uses.
pub(crate) struct App {
    pub(crate) guard: Guard,
    pub(crate) engine: Arc<EngineAccess>,
    pub(crate) root_rules: Rules,
    /// The API for operators, if it is served.
    pub(crate) api: Option<AdminApi>,
    pub(crate) metrics: Metrics,
    pub(crate) limits: LimitsConfig,
    pub(crate) origin_check: OriginCheck,
    pub(crate) keep_alive: Duration,
    pub(crate) body_time_max: Duration,
    pub(crate) inflight: Capacity,
    pub(crate) outgoing: OutgoingBudget,
    pub(crate) tls: Option<Arc<ServerCertificate>>,
    pub(crate) proxies: Proxies,
    pub(crate) production: bool,
    /// Whether a request without TLS to its proxy is refused: in production, if the proxy terminates TLS for this
    /// server.
    pub(crate) https_only: bool,
    pub(crate) access_log: bool,
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) write_health: Arc<dyn WriteHealth>,
    /// The secret with which agent-native servers call themselves back.
    pub(crate) process_secret: Option<Secret>,
    pub(crate) directory: Arc<AgentDirectory>,
    /// Records requests and responses, of callers and of upstreams.
    pub(crate) exchange_log: ExchangeLog,
    /// The booking network, if one is configured.
    pub(crate) network: Option<Arc<Network>>,
    /// The public address of this server, as cards have it.
    pub(crate) public: PublicAddress,
    pub(crate) registry: Registry,
    pub(crate) stopping: AtomicBool,
    /// Runs the background tasks of the server.
    pub(crate) tasks: ServerTasks,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl App {
    pub(crate) fn agent(&self, name: &str) -> Option<Arc<ServedAgent>> {
        self.directory.get(name)
    }

    pub(crate) fn default_agent(&self) -> Option<&Arc<ServedAgent>> {
        self.directory.default_agent()
    }

    /// The budget of answers on their way to a peer. A proxy that is believed is no client: where it named none, its answers
    /// count in the whole budget alone.
    pub(crate) fn outgoing_to(&self, peer: &Peer) -> ClientBudget {
        self.outgoing.of_client(Some(peer.address).filter(|address| !self.proxies.is_trusted(address)))
    }

    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Why the store cannot write, if it cannot. If its last write failed, this probes the store again: without
    /// requests, nothing else would notice the recovery.
    pub(crate) async fn write_error(&self) -> Option<StoreError> {
        let known = self.write_health.write_error()?;
        match tokio::time::timeout(PROBE_TIME_MAX, self.write_health.probe()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(known),
        }
    }

    /// The damage that was found in the store since the start.
    pub(crate) fn damage(&self) -> Option<StoreError> {
        self.write_health.damage()
    }

    /// Whether the last write of the store failed.
    pub(crate) fn is_write_failing(&self) -> bool {
        self.write_health.write_error().is_some()
    }

    /// Loads a new certificate when the files change; never ends.
    pub(crate) async fn follow_certificate(self: Arc<Self>) {
        match &self.tls {
            Some(tls) => tls.clone().follow(&self.metrics).await,
            None => std::future::pending().await,
        }
    }

    /// All metrics as text.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = String::new();
        let written = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        text
    }
}
