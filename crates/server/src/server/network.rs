//! Builds the booking network of a server, if one is configured, and starts its jobs.

use crate::auth_setup::AuthSetup;
use crate::billing_jobs;
use crate::booking::{self, KeyHolders};
use crate::config::Config;
use crate::config::booking::AGENT;
use crate::federation::{self, FederationParts};
use crate::network::{self, EnvelopeMetrics, Network, NetworkName};
use crate::tokio_host::ServerTasks;
use prometheus_client::registry::Registry;
use sabir_engine::AnyAgent;
use sabir_gateway::Capacity;
use sabir_network::billing::Biller;
use sabir_store::{GuardStore, Store, TaskStore};
use std::sync::Arc;

/// What the network is made from.
pub(super) struct NetworkParts<'a> {
    pub(super) config: &'a Config,
    pub(super) auth_setup: &'a AuthSetup,
    pub(super) store: &'a Store,
    /// The memory budget for the answers of other servers.
    pub(super) answers: &'a Capacity,
    pub(super) tasks: &'a ServerTasks,
}

pub(super) struct BuiltNetwork {
    /// `None` where no network is configured.
    pub(super) network: Option<Arc<Network>>,
    pub(super) key_holders: KeyHolders<dyn GuardStore>,
    /// The agent that answers for the venues.
    pub(super) agent: Option<Arc<dyn AnyAgent>>,
}

pub(super) async fn build(parts: NetworkParts<'_>, registry: &mut Registry) -> Result<BuiltNetwork, String> {
    let network = open(&parts, registry).await?;
    let key_holders = KeyHolders::new(parts.store.guard.clone());
    let NetworkParts { config, auth_setup, store, .. } = parts;
    let mut agent = None;
    if let (Some(section), Some(network)) = (&config.network, &network) {
        let ledger = &store.tasks.ledger;
        let venues = booking::VenueAgentParts {
            ledger: ledger.clone(),
            key_holders: Arc::new(key_holders.clone()),
            payments: billing_jobs::payment_service(config, auth_setup.secrets())?,
            routes: network.federation.routes().clone(),
        };
        agent = Some(booking::venue_agent(section, venues)?);
        booking::import_configured(config, section, &**ledger).await?;
    }
    Ok(BuiltNetwork { network, key_holders, agent })
}

async fn open(parts: &NetworkParts<'_>, registry: &mut Registry) -> Result<Option<Arc<Network>>, String> {
    let NetworkParts { config, auth_setup, store, answers, tasks } = *parts;
    let Some(section) = &config.network else { return Ok(None) };
    let ledger = store.tasks.ledger.clone();
    let seals = auth_setup.seals()?.map(Arc::new);
    let metrics = EnvelopeMetrics::register(registry);
    network::register_metered(&ledger, registry, tasks);
    let federation =
        FederationParts { config, section, auth_setup, seals: seals.as_ref(), records: ledger.clone(), answers };
    let federation = federation::open(federation, registry).await?;
    let name = NetworkName { id: section.id.clone(), version: section.version.clone(), agent: AGENT.to_owned() };
    let network = Network::new(name, seals, ledger, metrics, Arc::new(federation));
    Ok(Some(Arc::new(network.with_payments(section.payments.is_enabled()))))
}

/// Starts what runs beside the network: the release of expired holds, and the nightly billing.
pub(super) fn start_jobs(config: &Config, store: &TaskStore, biller: Option<Arc<dyn Biller>>, tasks: &ServerTasks) {
    let Some(section) = &config.network else { return };
    tasks.spawn_loop(billing_jobs::release_expired_holds(store.log.clone(), store.ledger.clone()));
    if let Some(biller) = biller.filter(|_| section.billing.as_ref().is_some_and(|billing| billing.nightly)) {
        tasks.spawn_loop(billing_jobs::bill_nightly(store.ledger.clone(), biller));
    }
}
