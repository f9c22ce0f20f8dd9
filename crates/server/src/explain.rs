//! Explains why a caller may or may not make a call, by the same rules that decide about calls. It admits no call,
//! counts nothing, and needs no secret.

use crate::auth_setup::{self, AuthSetup, ConfiguredSecrets};
use crate::card;
use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::config::registry::section;
use crate::public_address::public_address;
use crate::start_error::StartError;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_guard::Guard;
use sabir_guard::authenticator::SecretResolver;
pub use sabir_guard::explain::{AccessQuestion, Explanation, RuleDecision};
pub use sabir_guard::policy::Action;
use sabir_proto::{AgentName, Caller, Secret};
use sabir_store::SecretRef;
use std::sync::Arc;

/// What the rules of an agent (the default one, if none is named) decide about a question.
pub async fn explain(
    config: &Config,
    agent: Option<&str>,
    question: &AccessQuestion,
) -> Result<Explanation, StartError> {
    let wrong = StartError::Config;
    let store = auth_setup::open_guard_store(config)?;
    let added = store.registered_agents().await.map_err(|error| wrong(error.to_string()))?;
    let added: Vec<AgentConfig> = added.iter().filter(|one| one.enabled).flat_map(section).collect();
    let entry = match agent {
        Some(name) => config.agent.iter().chain(&added).find(|entry| entry.name == name),
        None => config.agent.iter().find(|entry| entry.default).or(config.agent.first()),
    };
    let entry = entry.ok_or_else(|| {
        let names: Vec<&str> = config.agent.iter().chain(&added).map(|entry| &*entry.name).collect();
        let known =
            if names.is_empty() { "none is configured".to_owned() } else { format!("there are {}", names.join(", ")) };
        wrong(format!("there is no agent {:?}; {known}", agent.unwrap_or("")))
    })?;
    let secrets: Arc<dyn SecretResolver> = Arc::new(SecretsOrPlaceholder::new(config));
    let public = public_address(config, config.server.listen);
    let gate = AuthSetup::new(Arc::new(config.clone()), secrets.clone())?;
    let name = AgentName::parse(&entry.name).map_err(|e| wrong(e.to_string()))?;
    let rules = gate.rules(entry, &name, &card::build(entry, &public).1).map_err(wrong)?;
    let guard = Guard::new(store, secrets, Default::default());
    let mut explanation = guard.explain(&rules, question, TokioHost.now()).await.map_err(wrong)?;
    if question.action == Action::Send && explanation.allowed() {
        explanation.decisions.extend(stored_bytes(config, &explanation.caller)?);
    }
    Ok(explanation)
}

/// What the limit on stored bytes says of a caller, as the engine applies it behind the guard; nothing where there is none.
fn stored_bytes(config: &Config, caller: &str) -> Result<Option<RuleDecision>, StartError> {
    let max = config.limits.stored_bytes_max;
    let url = config.store_url().map_err(StartError::Config)?;
    if max == 0 || url.file().is_none() {
        return Ok(None);
    }
    let counted = sabir_store::stored_bytes(&url, &Caller::named(caller))?;
    let (passed, why) = match counted {
        Some(bytes) => (bytes < max, format!("{bytes} bytes are stored, of {max} (limits.stored_bytes_max)")),
        None => (true, format!("{max} bytes may be stored (limits.stored_bytes_max); no server has counted them yet")),
    };
    Ok(Some(RuleDecision { rule: "stored_bytes", passed, why }))
}

/// The configured secrets, with a placeholder for each that cannot be read: a command lacks the server's variables, and
/// no secret is checked here.
pub(crate) struct SecretsOrPlaceholder(ConfiguredSecrets);

impl SecretsOrPlaceholder {
    pub(crate) fn new(config: &Config) -> Self {
        Self(ConfiguredSecrets::new(config))
    }
}

impl SecretResolver for SecretsOrPlaceholder {
    fn resolve(&self, reference: &SecretRef) -> Result<Secret, String> {
        Ok(self.0.resolve(reference).unwrap_or_else(|_| Secret::new("nothing is checked by this")))
    }
}
