//! The neighbouring networks: the routes to them, our own record, and the sync with their registries.

use crate::app::App;
use crate::auth_setup::AuthSetup;
use crate::card::{PublicAddress, Signer};
use crate::config::Config;
use crate::config::booking::NetworkConfig;
use crate::tokio_host::TokioHost;
use prometheus_client::registry::Registry as Metrics;
use sabir_engine::Host as _;
use sabir_gateway::{Capacity, DocumentFetcher, EnvelopeSender, FETCH_TIME_MAX, Tls};
use sabir_guard::EnvelopeKeys;
use sabir_network::federation::{Federation, RENEW_EVERY, issue};
use sabir_network::record::{Pricing, Record};
use sabir_network::registry::NetworkRegistry;
use sabir_network::route::{ConfiguredPeer, Routes};
use sabir_proto::Json;
use sabir_store::Networks;
use sabir_wire::agnt::{Intent, PATH, PROTOCOL};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the registries of neighbours are read.
const SYNC_INTERVAL: Duration = Duration::from_secs(30);
/// How often they are read at first, because servers are often started together.
const FIRST_SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How many times they are read in that interval.
const FIRST_ATTEMPTS: u32 = 10;
/// The name of our key in the chains of envelopes that we forward.
const KEY_NAME: &str = "current";

/// What the federation of a network is made from.
pub(crate) struct FederationParts<'a> {
    pub(crate) config: &'a Config,
    pub(crate) section: &'a NetworkConfig,
    pub(crate) auth_setup: &'a AuthSetup,
    /// The keys that sign payloads.
    pub(crate) seals: Option<&'a Arc<EnvelopeKeys>>,
    /// Stores the records of networks.
    pub(crate) records: Arc<dyn Networks>,
    /// The memory budget for the answers of other networks.
    pub(crate) answers: &'a Capacity,
}

/// Opens the routes of a configured network, and the sync with its neighbours.
pub(crate) async fn open(
    parts: FederationParts<'_>,
    metrics: &mut Metrics,
) -> Result<Federation<DocumentFetcher>, String> {
    let FederationParts { config, section, auth_setup, seals, records, answers } = parts;
    let ring = seals.map(|seals| seals.key_ring.clone());
    let secrets = auth_setup.secrets();
    let neighbours: Result<Vec<ConfiguredPeer>, String> =
        section.peer.iter().map(|peer| peer.to_peer(secrets, ring.as_ref())).collect();
    let neighbours = neighbours?;
    if section.hops_max == 0 || section.hops_max > sabir_gateway::VIA_MAX {
        return Err(format!("network.hops_max is between 1 and {}", sabir_gateway::VIA_MAX));
    }
    // The operator has configured these addresses, so they may be called.
    let written_down = |policy, peer: &crate::config::network_peers::PeerConfig| {
        let urls = [peer.url.as_deref(), peer.clawpulse.as_deref()];
        urls.into_iter().flatten().fold(policy, crate::agents::allow_configured)
    };
    let egress = section.peer.iter().fold(config.egress.policy(), written_down);
    let venues = sabir_gateway::Metrics::for_venues();
    venues.register(metrics);
    let envelope_sender =
        EnvelopeSender::new(egress.clone(), &Tls::default(), venues).map_err(|error| error.to_string())?;
    let envelope_sender = envelope_sender.with_answer_capacity(answers.part());
    let registry =
        NetworkRegistry::open(section.id.as_str(), records, TokioHost.now()).await.map_err(|e| e.to_string())?;
    let names = (section.id.clone(), KEY_NAME.to_owned());
    let routes = Routes::new(names, ring, envelope_sender, Arc::new(registry), neighbours, section.hops_max);
    let fetch =
        DocumentFetcher::with_timeout(egress, &Tls::default(), FETCH_TIME_MAX).map_err(|error| error.to_string())?;
    Ok(Federation::new(Arc::new(routes), fetch))
}

/// Publishes our own record, if there is a key to sign it.
async fn publish(
    federation: &Federation<DocumentFetcher>,
    section: &NetworkConfig,
    public: &PublicAddress,
    signer: &Signer,
) {
    let Some(key) = signer.first_key() else { return };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let record = Record {
        network_id: section.id.clone(),
        endpoint: format!("{}{PATH}", public.url),
        protocols: names(&[PROTOCOL]),
        intents: names(&Intent::ALL.map(Intent::name)),
        features: names(&["via", "registry"]),
        coverage: section.coverage.clone().into(),
        pricing: Pricing { fee_pct: section.fee_pct, confirm_usd_cents: section.confirm_cents.into() },
        keys: Json::of(&serde_json::Value::Null).unwrap_or_else(|_| unreachable!("null is JSON")),
        card_url: Some(format!("{}/.well-known/agent-card.json", public.url)),
        seq: 0,
        issued_at: String::new(),
        expires_at: String::new(),
        withdrawn: false,
    };
    let keys = std::str::from_utf8(signer.key_set().bytes()).ok().and_then(|text| Json::parse(text).ok());
    match keys.and_then(|keys| issue(record, key, keys, TokioHost.now())) {
        None => tracing::error!("the record of the network could not be signed"),
        Some((record, signed)) => {
            if let Err(why) = federation.registry().publish(record, signed, TokioHost.now()).await {
                tracing::error!(%why, "the record of the network could not be published");
            }
        }
    }
}

/// Renews our record and syncs with the neighbours; never ends.
pub(crate) async fn follow(app: Arc<App>, section: Option<NetworkConfig>) {
    let (Some(network), Some(section)) = (&app.network, section) else { return std::future::pending().await };
    let federation = &network.federation;
    let mut renewed: Option<Instant> = None;
    let mut attempts = 0;
    loop {
        if let Some(signer) = &app.signer
            && renewed.is_none_or(|at| at.elapsed() >= RENEW_EVERY)
        {
            publish(federation, &section, &app.public, signer).await;
            renewed = Some(Instant::now());
        }
        federation.sync(TokioHost.now()).await;
        attempts += 1;
        let alone = federation.routes().peers().iter().all(|neighbour| neighbour.registry.is_none());
        let at_first = !alone && attempts < FIRST_ATTEMPTS;
        tokio::time::sleep(if at_first { FIRST_SYNC_INTERVAL } else { SYNC_INTERVAL }).await;
    }
}
