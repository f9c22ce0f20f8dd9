//! The agent of the booking network: how it is added to the configuration, its key holders, and the import of its
//! venues.

pub(crate) mod subscriptions;

use crate::config::Config;
use crate::config::booking::{AGENT, NetworkConfig};
use sabir_engine::AnyAgent;
use sabir_guard::authn::{Principal, Scheme};
use sabir_guard::config::AgntConfig;
use sabir_network::import::{self, FILE_BYTES_MAX};
use sabir_network::payment::PaymentService;
use sabir_network::route::Routes;
use sabir_network::{KeyHolder, KeyHolderDirectory, NetworkAgent, NetworkTerms};
use sabir_proto::Caller;
use sabir_store::{ImportCounts, KeyId, Keys, Ledger};
use std::path::Path;
use std::sync::Arc;

/// Adds the agent of the network to a configuration that has a `[network]` section.
pub(crate) fn add_network_agent(config: &mut Config) -> Result<(), String> {
    let Some(network) = &config.network else { return Ok(()) };
    network.terms()?;
    if config.agent.iter().any(|agent| agent.name == AGENT) {
        return Err(format!("[network] is the agent {AGENT:?}, and so is an [[agent]]; call that one otherwise"));
    }
    if let Some(signing_key) = &network.signing_key {
        if config.auth.agnt.is_some() {
            return Err("network.signing_key and [auth.agnt] are two places for one key; give it in one of them".into());
        }
        config.auth.agnt = Some(AgntConfig::of(signing_key.clone()));
    }
    let mut section = network.section();
    // Without other agents it is the default agent.
    section.default |= config.agent.is_empty();
    config.agent.push(section);
    Ok(())
}

/// What the agent of the network is made from besides its section.
pub(crate) struct VenueAgentParts {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) key_holders: Arc<dyn KeyHolderDirectory>,
    pub(crate) payments: PaymentService,
    pub(crate) routes: Arc<Routes>,
}

/// Makes the agent of the network.
pub(crate) fn venue_agent(network: &NetworkConfig, parts: VenueAgentParts) -> Result<Arc<dyn AnyAgent>, String> {
    let agent = NetworkAgent::new(network.terms()?, parts.ledger, parts.key_holders);
    Ok(Arc::new(agent.with_payments(parts.payments).with_routes(parts.routes)))
}

/// Imports the file of a configuration, if it names one.
pub(crate) async fn import_configured(
    config: &Config,
    network: &NetworkConfig,
    ledger: &dyn Ledger,
) -> Result<(), String> {
    let Some(path) = &network.venues else { return Ok(()) };
    let path = config.resolve(path);
    let imported = import_file(&path, &network.terms()?, ledger).await.map_err(|e| format!("network.venues: {e}"))?;
    let ImportCounts { added, replaced } = imported;
    tracing::info!(added, replaced, path = %path.display(), "imported venues");
    Ok(())
}

/// Imports a file. The error names the file, and the row that is wrong.
pub(crate) async fn import_file(
    path: &Path,
    terms: &NetworkTerms,
    ledger: &dyn Ledger,
) -> Result<ImportCounts, String> {
    let named = |problem: String| format!("{}: {problem}", path.display());
    let size = std::fs::metadata(path).map_err(|e| named(e.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(named(format!("it has {size} bytes, over the limit of {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| named(e.to_string()))?;
    let rows = import::read(&text).map_err(|e| named(e.to_string()))?;
    import::import(ledger, terms, rows).await.map_err(|e| named(e.to_string()))
}

/// Looks up the holders of keys in the guard's store.
pub(crate) struct KeyHolders<K: ?Sized> {
    keys: Arc<K>,
}

impl<K: ?Sized> KeyHolders<K> {
    pub(crate) const fn new(keys: Arc<K>) -> Self {
        Self { keys }
    }
}

impl<K: ?Sized> Clone for KeyHolders<K> {
    fn clone(&self) -> Self {
        Self { keys: self.keys.clone() }
    }
}

impl<K: Keys + ?Sized> KeyHolderDirectory for KeyHolders<K> {
    fn by_caller(&self, caller: &Caller) -> KeyHolder {
        match Principal::parse(caller.name()) {
            Some(who) if who.scheme == Scheme::ApiKey => self.by_key(&who.name),
            _ => KeyHolder::default(),
        }
    }

    fn by_key(&self, key: &str) -> KeyHolder {
        let found = KeyId::parse(key).and_then(|id| self.keys.get(&id).ok().flatten());
        let known = found.map(|key| KeyHolder {
            key: None,
            prefix: Some(key.fingerprint.prefix.clone()),
            tier: key.terms.tier.clone(),
            agents: key.terms.scopes.iter().filter_map(|word| word.strip_prefix("from:")).map(str::to_owned).collect(),
            customer: key.terms.customer.clone(),
        });
        KeyHolder { key: Some(key.to_owned()), ..known.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_an_agent_and_no_other_has_its_name() {
        let mut config = Config::read("[network]").unwrap();
        add_network_agent(&mut config).unwrap();
        assert_eq!((config.agent[0].name.as_str(), config.agent[0].default), (AGENT, true));
        let beside = "[network]\n[[agent]]\nname = \"echo\"\nkind = \"echo\"\ndefault = true";
        let mut config = Config::read(beside).unwrap();
        add_network_agent(&mut config).unwrap();
        assert!(!config.agent[1].default);
        let twice = "[network]\n[[agent]]\nname = \"network\"\nkind = \"echo\"";
        assert!(add_network_agent(&mut Config::read(twice).unwrap()).unwrap_err().contains("[network]"));
        let mut signed = Config::read("[network]\nsigning_key = \"env:A2A_SIGNING_KEY\"").unwrap();
        add_network_agent(&mut signed).unwrap();
        assert!(signed.auth.agnt.is_some());
        signed.agent.clear();
        assert!(add_network_agent(&mut signed).unwrap_err().contains("network.signing_key"));
        let mut none = Config::read("").unwrap();
        add_network_agent(&mut none).unwrap();
        assert!(none.agent.is_empty());
    }
}
