//! The composition root: the only place that names concrete types.

use crate::admin::api::AdminApi;
use crate::admin::{AdminService, NetworkAdmin, TaskAdmin};
use crate::agents::CommandJournal;
pub(crate) use crate::auth_setup::Rules;
use crate::auth_setup::{AuthSetup, ConfiguredSecrets};
use crate::billing_jobs;
use crate::bind::agnt::EnvelopeMetrics;
use crate::body::{ClientBudget, OutgoingBudget};
use crate::booking::KeyHolders;
use crate::card::{PublicAddress, Signer};
use crate::config::{Config, LimitsConfig, StoreConfig, booking};
use crate::cors::Cors;
pub(crate) use crate::directory::ServedAgent;
use crate::directory::{AgentFactory, Directory, RegistrySync};
use crate::engine_access::EngineAccess;
use crate::interceptor::Interceptor;
use crate::metrics::Metrics;
use crate::network::{self, Network};
use crate::operator_socket::OperatorSocket;
use crate::origin_check::OriginCheck;
use crate::peer::Peer;
use crate::proxies::Proxies;
use crate::retention::RetentionJob;
use crate::tls::ServerCertificate;
use crate::tokio_host::TokioHost;
use crate::{agents, listen, webhook_delivery};
use prometheus_client::registry::Registry;
use sabir_engine::{AnyAgent, Engine, Host};
use sabir_gateway::exchange_log::ExchangeLog;
use sabir_gateway::{Capacity, Hub};
use sabir_guard::Guard;
use sabir_proto::Secret;
use sabir_store::{ByteCounting, OpenError, OpenOptions, Store, StoreError, TaskStore, WriteHealth, WriterMode};
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpListener;

/// How long a start waits for a store that another process has locked, and how often it tries.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// How long a request for readiness waits for the disk.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be served.
    #[error("{0}")]
    Config(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store was opened but does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] StoreError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        reason: String,
    },
}

/// A server that is ready to serve.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    /// The listener at which commands and endpoints delegate, if any of them may.
    delegations: Option<agents::DelegationListener>,
    operator: Option<OperatorSocket>,
    drain: Duration,
    retention: Option<RetentionJob>,
    registry_sync: RegistrySync,
    /// The configuration of the booking network.
    network_config: Option<booking::NetworkConfig>,
}

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
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
    pub(crate) tls: Option<Arc<ServerCertificate>>,
    pub(crate) proxies: Proxies,
    pub(crate) production: bool,
    /// Whether a request without TLS to its proxy is refused: in production, if the proxy terminates TLS for this
    /// server.
    pub(crate) https_only: bool,
    pub(crate) access_log: bool,
    pub(crate) signer: Option<Arc<Signer>>,
    write_health: Arc<dyn WriteHealth>,
    /// The secret with which agent-native servers call themselves back.
    pub(crate) process_secret: Option<Secret>,
    pub(crate) directory: Arc<Directory>,
    /// Records requests and responses, of callers and of upstreams.
    pub(crate) exchange_log: ExchangeLog,
    /// The booking network, if one is configured.
    pub(crate) network: Option<Arc<Network>>,
    /// The public address of this server, as cards have it.
    pub(crate) public: PublicAddress,
    registry: Registry,
    stopping: AtomicBool,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the store, listens, and resumes the tasks that a crash interrupted.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with(config, HashMap::new()).await
    }

    /// Like [`Server::start`], with agents written in Rust. Each replaces the kind of the `[[agent]]` entry that has
    /// its name.
    pub async fn start_with(config: Config, own: HashMap<String, Arc<dyn AnyAgent>>) -> Result<Self, StartError> {
        Self::compose(config, own, None).await
    }

    /// Finds what would keep a server with this configuration from starting, and a fallback that is not there when it is needed. It builds the server on a store in memory,
    /// does not listen at its address and serves nothing. It does not read the real store.
    pub async fn check(config: Config) -> Result<(), StartError> {
        config.store_url().map_err(StartError::Config)?;
        if let Some(unknown) = config.unknown_fallbacks().into_iter().next() {
            return Err(StartError::Config(unknown));
        }
        let store = StoreConfig { url: "memory:".into(), ..config.store };
        let somewhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::compose_at(somewhere, Config { store, ..config }, HashMap::new(), None).await.map(drop)
    }

    /// Like [`Server::start_with`], with an interceptor before everything that is served.
    pub(crate) async fn compose(
        config: Config,
        own_agents: HashMap<String, Arc<dyn AnyAgent>>,
        front: Option<Arc<dyn Interceptor>>,
    ) -> Result<Self, StartError> {
        Self::compose_at(config.server.listen, config, own_agents, front).await
    }

    async fn compose_at(
        address: SocketAddr,
        mut config: Config,
        mut own_agents: HashMap<String, Arc<dyn AnyAgent>>,
        front: Option<Arc<dyn Interceptor>>,
    ) -> Result<Self, StartError> {
        if !own_agents.contains_key(booking::AGENT) {
            crate::booking::add_network_agent(&mut config).map_err(StartError::Config)?;
        }
        let config = Arc::new(config);
        config.refuse_plain_http().map_err(StartError::Config)?;
        config.limits.check_bytes().map_err(StartError::Config)?;
        let tls = ServerCertificate::open(&config).map_err(StartError::Config)?;
        let invited = Cors::new(&config.server.cors).map_err(StartError::Config)?;
        let secrets = Arc::new(ConfiguredSecrets::new(&config));
        let gate = match &front {
            None => AuthSetup::new(config.clone(), secrets.clone())?,
            Some(_) => AuthSetup::behind_interceptor(config.clone(), secrets.clone())?,
        };
        let mut registry = Registry::default();
        let store_metrics = sabir_store::Metrics::default();
        store_metrics.register(&mut registry);
        let Store { tasks: TaskStore { log, ledger: booked, upkeep, queries }, guard: kept_for_guard } =
            open_store(&config, store_metrics).await?;
        let guard_metrics = sabir_guard::Metrics::default();
        guard_metrics.register(&mut registry);
        let guard = Guard::new(kept_for_guard.clone(), secrets.clone(), guard_metrics);
        let cannot = |e: std::io::Error| StartError::Listen { address, reason: e.to_string() };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let engine_metrics = sabir_engine::Metrics::default();
        engine_metrics.register(&mut registry);
        let metrics = Metrics::register(&mut registry);
        let limits = config.push.limit(config.limits.engine());
        let engine = Engine::open(log.clone(), Arc::new(TokioHost), limits, engine_metrics).await?;
        let public = public_address(&config, address);
        let process_secret = gate.shared_secret().map_err(StartError::Config)?;
        let courier =
            webhook_delivery::webhook_client(&config, &public, (log.clone(), booked.clone()), metrics.clone())
                .map_err(StartError::Config)?;
        let root_rules = gate.root_rules()?;
        let api_rules = if config.serves_api() { Some(gate.api_rules().map_err(StartError::Config)?) } else { None };
        let answers = Capacity::new(config.limits.answers_bytes_max);
        let network = open_network(&config, &gate, booked.clone(), &mut registry, &answers).await;
        let network = network.map_err(StartError::Config)?;
        let passages = network.as_ref().map(|network| network.pending_records.clone());
        let holders = KeyHolders::new(kept_for_guard.clone(), passages);
        if let (Some(section), Some(network)) = (&config.network, &network) {
            let patrons = Arc::new(holders.clone());
            let cashier = billing_jobs::payment_service(&config, gate.secrets()).map_err(StartError::Config)?;
            let routes = network.federation.routes().clone();
            let stands = crate::booking::venue_agent(section, booked.clone(), patrons, (cashier, routes))
                .map_err(StartError::Config)?;
            crate::booking::import_configured(&config, section, &*booked).await.map_err(StartError::Config)?;
            own_agents.entry(booking::AGENT.to_owned()).or_insert(stands);
        }
        let signer = Signer::open(&config, &public, SystemTime::now()).map_err(StartError::Config)?.map(Arc::new);
        let ledger = end_leftovers(&config).await?;
        let upstream_metrics = sabir_gateway::Metrics::default();
        upstream_metrics.register(&mut registry);
        let wire = config.open_exchange_log().map_err(StartError::Config)?;
        let hub = Hub::with_rules(sabir_gateway::BreakerRules::HUB, upstream_metrics, wire.clone(), answers);
        let ours = authorities(&public, address);
        let books = Arc::new(agents::GuardHandoffAudit { guard: guard.clone(), metrics: metrics.clone() });
        let workshop =
            AgentFactory::new(gate, public.clone(), signer.clone(), ledger, hub, (own_agents, front.clone()), books)
                .with_registry(kept_for_guard.clone(), ours.clone());
        let registrar = RegistrySync::open(workshop).await?;
        // Before turns are resumed, because they may delegate.
        let delegations = match registrar.factory().delegations() {
            Some(delegations) => {
                let reason = |e: std::io::Error| format!("for programs that delegate: {e}");
                let address = SocketAddr::from(([127, 0, 0, 1], 0));
                let listener = agents::DelegationListener::open(delegations).await;
                Some(listener.map_err(|e| StartError::Listen { address, reason: reason(e) })?)
            }
            None => None,
        };
        let directory = registrar.directory().clone();
        let route = Arc::new(EngineAccess::new(engine));
        registrar.factory().connect(&directory, &route, &guard);
        route.set_directory(directory.clone());
        let (resumed, failed) = route.recover(|name| directory.status(name)).await?;
        if resumed + failed > 0 {
            tracing::info!(resumed, failed, "took up what was running when the last process ended");
        }
        let keeper = RetentionJob::new(&config, upkeep.clone(), &metrics);
        route.start_deliveries(Arc::new(webhook_delivery::DeliveryService {
            webhooks: courier,
            ledger: booked.clone(),
        }));
        let bureau = NetworkAdmin::new(&config, route.for_operators(), log.clone(), booked.clone(), Arc::new(holders))
            .map_err(StartError::Config)?;
        if network.is_some() {
            TokioHost.spawn(Box::pin(billing_jobs::release_expired_holds(log.clone(), booked.clone())));
        }
        let nightly = config.network.as_ref().and_then(|network| network.billing.as_ref()).is_some_and(|b| b.nightly);
        if let Some(biller) = bureau.biller.clone().filter(|_| nightly) {
            TokioHost.spawn(Box::pin(billing_jobs::bill_nightly(booked, biller)));
        }
        let tasks = TaskAdmin { log, queries, engine: route.for_operators(), network: bureau };
        let admin =
            AdminService::in_server(config.clone(), kept_for_guard, secrets, public.clone(), ours.clone(), tasks);
        let admin = Arc::new(admin);
        let operator = listen_to_operator(&config, admin.clone());
        let api = api_rules.map(|rules| AdminApi::new(rules, admin)).transpose().map_err(StartError::Config)?;
        let app = App {
            guard,
            engine: route,
            api,
            root_rules,
            metrics,
            origin_check: OriginCheck::new(ours, address.ip().is_unspecified())
                .with_cors(invited)
                .with_certificate_names(tls.clone(), address.port()),
            keep_alive: Duration::from_secs(config.limits.keep_alive_seconds),
            body_time_max: Duration::from_secs(config.limits.body_seconds_max),
            inflight: Capacity::new(config.limits.inflight_bytes_max),
            outgoing: OutgoingBudget::new(config.limits.outgoing_bytes_max),
            tls,
            proxies: Proxies::new(config.trusted_proxies()).with_client_header(config.client_header()),
            production: config.is_production(),
            https_only: config.is_production() && config.server.is_tls_terminated(),
            access_log: config.server.access_log,
            limits: config.limits.clone(),
            interceptor: front,
            signer,
            write_health: upkeep,
            process_secret,
            directory,
            exchange_log: wire,
            network,
            public,
            registry,
            stopping: AtomicBool::new(false),
        };
        let drain = Duration::from_secs(config.server.drain_seconds);
        let section = config.network.clone();
        Ok(Self {
            app: Arc::new(app),
            listener,
            delegations,
            operator,
            drain,
            retention: keeper,
            registry_sync: registrar,
            network_config: section,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The address it listens on, as a URL.
    pub fn url(&self) -> String {
        url(self.app.tls.is_some(), self.address())
    }

    pub(crate) const fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Serves until `stop` completes. Then requests and streams may finish for the drain time, and agents are parked.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let app = self.app.clone();
        let following = self.app.clone().follow_certificate();
        let keeper = self.retention;
        let beside = crate::federation::follow(self.app.clone(), self.network_config);
        let keeping = async move {
            match keeper {
                Some(keeper) => keeper.run().await,
                None => std::future::pending().await,
            }
        };
        let operator = async {
            match self.operator {
                Some(operator) => operator.serve().await,
                None => std::future::pending().await,
            }
        };
        let delegating = async {
            match self.delegations {
                Some(delegations) => delegations.serve().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = listen::serve(self.app, self.listener, stop, self.drain) => {}
            () = delegating => {}
            () = following => {}
            () = keeping => {}
            () = self.registry_sync.follow(app.engine.clone()) => {}
            () = operator => {}
            () = beside => {}
        }
        app.engine.stop().await;
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
    async fn follow_certificate(self: Arc<Self>) {
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

async fn open_store(config: &Config, metrics: sabir_store::Metrics) -> Result<Store, StartError> {
    let url = config.store_url().map_err(StartError::Config)?;
    let byte_counting = if config.limits.stored_bytes_max == 0 { ByteCounting::Off } else { ByteCounting::On };
    let options = OpenOptions { metrics, byte_counting, ..config.open_options(WriterMode::Threaded) };
    let begun = Instant::now();
    let store = loop {
        match sabir_store::open(&url, options.clone()) {
            // A command that reads the store without a server holds the lock for a moment.
            Err(OpenError::Locked(_)) if begun.elapsed() < LOCK_PATIENCE => tokio::time::sleep(LOCK_PAUSE).await,
            opened => break opened?,
        }
    };
    TokioHost.spawn(store.tasks.upkeep.dispatch_replies());
    Ok(store)
}

/// Opens the booking network, if one is configured.
async fn open_network(
    config: &Config,
    auth_setup: &AuthSetup,
    ledger: Arc<dyn sabir_store::Ledger>,
    registry: &mut Registry,
    answers: &Capacity,
) -> Result<Option<Arc<Network>>, String> {
    let Some(section) = &config.network else { return Ok(None) };
    let seals = auth_setup.seals()?.map(Arc::new);
    let metrics = EnvelopeMetrics::register(registry);
    network::register_metered(&ledger, registry);
    let names = (&*section.id, &*section.version, booking::AGENT);
    let kept: Arc<dyn sabir_store::Networks> = ledger.clone();
    let beside = (kept, registry);
    let federation = crate::federation::open(config, section, auth_setup, seals.as_ref(), beside, answers).await?;
    let network = Network::new(names, seals, ledger, metrics, Arc::new(federation));
    Ok(Some(Arc::new(network.with_payments(section.payments.is_enabled()))))
}

/// Opens the socket for commands of operators. A server works without one, too.
fn listen_to_operator(config: &Config, service: Arc<AdminService>) -> Option<OperatorSocket> {
    let url = config.store_url().ok()?;
    match OperatorSocket::listen(url.file()?, service) {
        Ok(operator) => Some(operator),
        Err(error) => {
            tracing::warn!(%error, "no socket beside the store: commands that administer this server need it stopped");
            None
        }
    }
}

/// Ends the commands that a killed server left running, and returns the journal for new ones. This process has locked
/// the store, so no other server has commands in the journal.
async fn end_leftovers(config: &Config) -> Result<Option<Arc<CommandJournal>>, StartError> {
    let url = config.store_url().map_err(StartError::Config)?;
    let Some(store) = url.file() else { return Ok(None) };
    let ledger = Arc::new(CommandJournal::beside(store));
    let (at, grace) = (ledger.clone(), Duration::from_secs(config.limits.cancel_grace_seconds));
    match tokio::task::spawn_blocking(move || at.end_leftovers(grace)).await {
        Ok(ended) if ended.processes + ended.directories > 0 => {
            let agents::EndedLeftovers { processes, killed, directories: rooms } = ended;
            tracing::info!(processes, killed, rooms, "ended the commands that the last process left behind");
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "looking for commands that were left behind failed"),
    }
    Ok(Some(ledger))
}

pub(crate) fn public_address(config: &Config, address: SocketAddr) -> PublicAddress {
    match &config.server.public_url {
        Some(url) => {
            let slash = url.ends_with('/');
            let url = url.trim_end_matches('/').to_owned();
            let host = url.split_once("://").map_or(&*url, |(_, rest)| rest);
            let host = host.split('/').next().unwrap_or(host);
            // A gRPC target needs its port, also where the URL may leave it out.
            let port = if url.starts_with("https://") { 443 } else { 80 };
            let has_port = host.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
            let authority = if has_port { host.to_owned() } else { format!("{host}:{port}") };
            PublicAddress { authority, url, slash }
        }
        None => PublicAddress {
            url: url(config.server.own_tls().is_some(), address),
            authority: address.to_string(),
            slash: true,
        },
    }
}

/// The URL of a server that listens at an address.
fn url(secured: bool, address: SocketAddr) -> String {
    format!("{}://{address}", if secured { "https" } else { "http" })
}

/// The names under which this server may be called.
pub(crate) fn authorities(public: &PublicAddress, address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let mut names = vec![public.authority.clone(), address.to_string(), format!("localhost:{port}")];
    names.extend([format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    let bare = |name: &String| name.strip_suffix(":80").or_else(|| name.strip_suffix(":443")).map(str::to_owned);
    let bare: Vec<String> = names.iter().filter_map(bare).collect();
    names.extend(bare);
    names
}
