//! A server, from its start to its stop: the composition root, which names the concrete types.
//!
//! Each part of a server has a builder in a module of its own. [`Server::compose`] calls them in the order in which the
//! parts need each other: settings, store, guard, listener, engine, network, agents.

mod agents;
mod engine;
mod guard;
mod listeners;
mod network;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use crate::admin::api::AdminApi;
use crate::admin::{AdminService, NetworkAdmin, ServerAdminParts, TaskAdmin};
use crate::agent_factory::OwnAgents;
use crate::agents::DelegationListener;
use crate::app::App;
use crate::auth_setup::Rules;
use crate::body::OutgoingBudget;
use crate::card::Signer;
use crate::config::booking::{AGENT, NetworkConfig};
use crate::config::{Config, StoreConfig};
use crate::interceptor::Interceptor;
use crate::network::Network;
use crate::operator_socket::OperatorSocket;
use crate::origin_check::OriginCheck;
use crate::proxies::Proxies;
use crate::public_address::url;
use crate::registry_sync::RegistrySync;
use crate::retention::RetentionJob;
use crate::stack::AppHandler;
use crate::start_error::StartError;
use crate::tokio_host::TaskOwner;
use crate::webhook_delivery::{DeliveryService, webhook_client};
use crate::{booking, federation, listen};
use agents::{AgentParts, BuiltAgents};
use engine::BuiltEngine;
use listeners::HttpListener;
use network::NetworkParts;
use prometheus_client::registry::Registry;
use sabir_engine::AnyAgent;
use sabir_gateway::{Capacity, WebhookSender};
use sabir_guard::Guard;
use sabir_network::KeyHolderDirectory;
use sabir_proto::Secret;
use sabir_store::{FileLock, Store};
use settings::Settings;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;

/// A server that is ready to serve.
pub struct Server {
    handler: AppHandler,
    listener: TcpListener,
    /// The listener at which commands and endpoints delegate, if any of them may.
    delegations: Option<DelegationListener>,
    operator: Option<OperatorSocket>,
    drain: Duration,
    retention: Option<RetentionJob>,
    registry_sync: RegistrySync,
    /// The configuration of the booking network.
    network_config: Option<NetworkConfig>,
    /// Ends the background tasks of the server.
    task_owner: TaskOwner,
    /// Held, so that no other server takes the data directory.
    _data_lock: Option<FileLock>,
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
        own_agents: OwnAgents,
        interceptor: Option<Arc<dyn Interceptor>>,
    ) -> Result<Self, StartError> {
        Self::compose_at(config.server.listen, config, own_agents, interceptor).await
    }

    async fn compose_at(
        address: SocketAddr,
        mut config: Config,
        mut own_agents: OwnAgents,
        interceptor: Option<Arc<dyn Interceptor>>,
    ) -> Result<Self, StartError> {
        if !own_agents.contains_key(AGENT) {
            booking::add_network_agent(&mut config).map_err(StartError::Config)?;
        }
        let settings = Settings::check(config)?;
        let config = settings.config.clone();
        let auth_setup = match &interceptor {
            None => settings.auth_setup()?,
            Some(_) => settings.auth_setup_behind_interceptor()?,
        };
        let task_owner = TaskOwner::default();
        let tasks = task_owner.tasks().clone();
        let mut registry = Registry::default();
        let store = store::open(&config, &mut registry, &tasks).await?;
        let data_lock = store::lock_data(&config)?;
        let guard = guard::build(&store.guard, &settings.secrets, &mut registry);
        let listener = HttpListener::open(&config, address).await?;
        let engine = engine::build(&config, store.tasks.log.clone(), &mut registry, &tasks).await?;
        let process_secret = auth_setup.shared_secret().map_err(StartError::Config)?;
        let webhooks = webhook_client(&config, &listener.public, &store.tasks, engine.metrics.clone())
            .map_err(StartError::Config)?;
        let root_rules = auth_setup.root_rules()?;
        let api_rules = config.serves_api().then(|| auth_setup.api_rules()).transpose().map_err(StartError::Config)?;
        let answers = Capacity::new(config.limits.answers_bytes_max);
        let parts =
            NetworkParts { config: &config, auth_setup: &auth_setup, store: &store, answers: &answers, tasks: &tasks };
        let network = network::build(parts, &mut registry).await.map_err(StartError::Config)?;
        if let Some(agent) = network.agent {
            own_agents.entry(AGENT.to_owned()).or_insert(agent);
        }
        let signer = Signer::open(&config, &listener.public, SystemTime::now()).map_err(StartError::Config)?;
        let signer = signer.map(Arc::new);
        let parts = AgentParts {
            config: &config,
            auth_setup,
            listener: &listener,
            signer: signer.clone(),
            own_agents,
            interceptor: interceptor.clone(),
            guard: &guard,
            engine: &engine.access,
            metrics: &engine.metrics,
            registry: store.guard.clone(),
            answers,
            tasks: &tasks,
        };
        let agents = agents::build(parts, &mut registry).await?;
        let parts = BuiltParts {
            settings,
            store,
            data_lock,
            guard,
            listener,
            engine,
            network: network.network,
            key_holders: Arc::new(network.key_holders),
            agents,
            signer,
            webhooks,
            root_rules,
            api_rules,
            process_secret,
            interceptor,
            registry,
            task_owner,
        };
        parts.start().await
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// The address it listens on, as a URL.
    pub fn url(&self) -> String {
        url(self.app().tls.is_some(), self.address())
    }

    pub(crate) const fn app(&self) -> &Arc<App> {
        &self.handler.app
    }

    /// Serves until `stop` completes. Then requests and streams may finish for the drain time, and agents are parked. No
    /// task of the server runs any more when this returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let app = self.handler.app.clone();
        let retention = async {
            match self.retention {
                Some(retention) => retention.run().await,
                None => std::future::pending().await,
            }
        };
        let operator = async {
            match self.operator {
                Some(operator) => operator.serve().await,
                None => std::future::pending().await,
            }
        };
        let delegations = async {
            match self.delegations {
                Some(delegations) => delegations.serve().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = listen::serve(self.handler, self.listener, stop, self.drain, self.task_owner.tasks()) => {}
            () = delegations => {}
            () = app.clone().follow_certificate() => {}
            () = retention => {}
            () = self.registry_sync.follow(app.engine.clone()) => {}
            () = operator => {}
            () = federation::follow(app.clone(), self.network_config) => {}
        }
        app.engine.stop().await;
        self.task_owner.stop().await;
    }
}

/// All parts of a server, before anything runs.
struct BuiltParts {
    settings: Settings,
    store: Store,
    data_lock: Option<FileLock>,
    guard: Guard,
    listener: HttpListener,
    engine: BuiltEngine,
    network: Option<Arc<Network>>,
    key_holders: Arc<dyn KeyHolderDirectory>,
    agents: BuiltAgents,
    signer: Option<Arc<Signer>>,
    webhooks: WebhookSender,
    root_rules: Rules,
    /// The rules of the API for operators, if it is served.
    api_rules: Option<Rules>,
    process_secret: Option<Secret>,
    interceptor: Option<Arc<dyn Interceptor>>,
    registry: Registry,
    task_owner: TaskOwner,
}

impl BuiltParts {
    /// Resumes interrupted turns, starts deliveries and jobs, and opens the socket of operators.
    async fn start(self) -> Result<Server, StartError> {
        let (config, engine, stores) = (self.settings.config.clone(), &self.engine.access, &self.store.tasks);
        let (resumed, failed) = engine.recover(|name| self.agents.directory.status(name)).await?;
        if resumed + failed > 0 {
            tracing::info!(resumed, failed, "took up what was running when the last process ended");
        }
        let retention = RetentionJob::new(&config, stores.upkeep.clone(), &self.engine.metrics);
        let (log, ledger, operators) = (stores.log.clone(), stores.ledger.clone(), engine.for_operators());
        engine.start_deliveries(Arc::new(DeliveryService { webhooks: self.webhooks, ledger: ledger.clone() }));
        let network_admin = NetworkAdmin::new(&config, operators.clone(), log.clone(), ledger, self.key_holders)
            .map_err(StartError::Config)?;
        network::start_jobs(&config, stores, network_admin.biller.clone(), self.task_owner.tasks());
        let (listener, tls) = (self.listener, self.settings.tls);
        let parts = ServerAdminParts {
            config: config.clone(),
            store: self.store.guard,
            secrets: self.settings.secrets,
            public: listener.public.clone(),
            ours: listener.own_addresses.clone(),
            jobs: self.task_owner.tasks().clone(),
        };
        let queries = self.store.tasks.queries.clone();
        let service =
            AdminService::in_server(parts, TaskAdmin { log, queries, engine: operators, network: network_admin });
        let service = Arc::new(service);
        let operator = listeners::listen_to_operator(&config, service.clone());
        let api = self.api_rules.map(|rules| AdminApi::new(rules, service)).transpose().map_err(StartError::Config)?;
        let app = App {
            guard: self.guard,
            api,
            engine: self.engine.access,
            root_rules: self.root_rules,
            metrics: self.engine.metrics,
            origin_check: OriginCheck::new(listener.own_addresses, listener.address.ip().is_unspecified())
                .with_cors(self.settings.cors)
                .with_certificate_names(tls.clone(), listener.address.port()),
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
            signer: self.signer,
            write_health: self.store.tasks.upkeep,
            process_secret: self.process_secret,
            directory: self.agents.directory,
            exchange_log: self.agents.exchange_log,
            network: self.network,
            public: listener.public,
            registry: self.registry,
            stopping: AtomicBool::new(false),
            tasks: self.task_owner.tasks().clone(),
        };
        Ok(Server {
            handler: AppHandler { app: Arc::new(app), interceptor: self.interceptor },
            listener: listener.socket,
            delegations: self.agents.delegations,
            operator,
            drain: Duration::from_secs(config.server.drain_seconds),
            retention,
            registry_sync: self.agents.registry_sync,
            network_config: config.network.clone(),
            _data_lock: self.data_lock,
            task_owner: self.task_owner,
        })
    }
}
