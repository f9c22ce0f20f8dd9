//! Builds the guard from the configuration: its store, its secrets, its HTTP client, and the rules of each agent.

use crate::card::needs_identity;
use crate::config::agent::AgentConfig;
use crate::config::{Config, booking};
use crate::start_error::StartError;
use sabir_gateway::{DocumentFetcher, Egress, redact};
use sabir_guard::EnvelopeKeys;
use sabir_guard::authenticator::{AuthMode, DeploymentFacts, SecretResolver};
use sabir_guard::config::{AcceptedCredential, AuthConfig};
use sabir_guard::policy::RulesId;
use sabir_guard::policy::rate::RateLimits;
use sabir_guard::policy::scope::SkillRule;
use sabir_network::intent::guard_rule;
use sabir_proto::card::Skill;
use sabir_proto::{AgentName, Secret};
use sabir_store::{GuardStore, SecretRef, WriterMode};
use sabir_wire::agnt::Intent;
use std::path::PathBuf;
use std::sync::Arc;

/// The rules of one agent, with the HTTP client of this server.
pub(crate) type Rules = sabir_guard::policy::Rules<DocumentFetcher>;
pub(crate) type Authenticator = sabir_guard::authenticator::Authenticator<DocumentFetcher>;

/// The largest file that may hold a secret. Key sets are the largest.
const SECRET_BYTES_MAX: u64 = 256 * 1024;

/// The name in the audit before the agent of a call is known.
const ROOT: &str = "root";
/// The name of the API for operators in the audit, where that of an agent stands for calls.
const API: &str = "admin-api";

/// Secrets of the configuration: variables of this process, and files beside it.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredSecrets {
    base: PathBuf,
}

impl ConfiguredSecrets {
    pub(crate) fn new(config: &Config) -> Self {
        Self { base: config.base.clone() }
    }
}

impl SecretResolver for ConfiguredSecrets {
    /// All secrets of a configuration pass through here, at the start and when an agent or an organisation is added, so
    /// the redactor of the process learns them here.
    fn resolve(&self, reference: &SecretRef) -> Result<Secret, String> {
        let secret = self.read(reference)?;
        redact::process_redactor().learn(secret.expose());
        Ok(secret)
    }
}

impl ConfiguredSecrets {
    fn read(&self, reference: &SecretRef) -> Result<Secret, String> {
        match reference {
            SecretRef::Env(name) => match std::env::var(name) {
                Ok(value) if !value.trim().is_empty() => Ok(Secret::new(value)),
                Ok(_) => Err(format!("the variable {name} is empty")),
                Err(_) => Err(format!("the variable {name} is not set")),
            },
            SecretRef::File(path) => {
                let path = self.base.join(path);
                let cannot = |problem: String| format!("cannot read {}: {problem}", path.display());
                let size = std::fs::metadata(&path).map_err(|e| cannot(e.to_string()))?.len();
                if size > SECRET_BYTES_MAX {
                    return Err(cannot(format!("it is larger than {SECRET_BYTES_MAX} bytes")));
                }
                let text = std::fs::read_to_string(&path).map_err(|e| cannot(e.to_string()))?;
                Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
            }
        }
    }
}

/// Makes the rules of agents. Agents without an `[agent.auth]` section share one authenticator.
pub(crate) struct AuthSetup {
    config: Arc<Config>,
    deployment: DeploymentFacts,
    secrets: Arc<dyn SecretResolver>,
    outbound: DocumentFetcher,
    shared_authenticator: Arc<Authenticator>,
}

impl AuthSetup {
    pub(crate) fn new(config: Arc<Config>, secrets: Arc<dyn SecretResolver>) -> Result<Self, StartError> {
        let reachable = config.reachable_by().is_some();
        Self::open(config, secrets, reachable)
    }

    /// The same setup behind an interceptor that authenticates callers by one token: they all are one caller, also from
    /// other machines.
    pub(crate) fn behind_interceptor(
        config: Arc<Config>,
        secrets: Arc<dyn SecretResolver>,
    ) -> Result<Self, StartError> {
        Self::open(config, secrets, false)
    }

    fn open(config: Arc<Config>, secrets: Arc<dyn SecretResolver>, reachable: bool) -> Result<Self, StartError> {
        for agent in &config.agent {
            refuse_open(&config, agent).map_err(StartError::Config)?;
        }
        config.limits.check_callers().map_err(StartError::Config)?;
        // The operator has configured these addresses, so private ones are allowed.
        let outbound = DocumentFetcher::new(Egress::anywhere()).map_err(|e| StartError::Config(e.to_string()))?;
        let ground = DeploymentFacts {
            production: config.is_production(),
            tls: config.server.tls.is_some() || !config.server.proxies.is_empty(),
            reachable,
            client_certificates: config.server.own_tls().is_some_and(|tls| tls.client_ca.is_some()),
            public_url: config.server.public_url.clone(),
        };
        let shared = Authenticator::new(&config.auth, &ground, &*secrets, &outbound).map_err(StartError::Config)?;
        Ok(Self { config, deployment: ground, secrets, outbound, shared_authenticator: Arc::new(shared) })
    }

    /// The configuration of the server.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The secrets of the configuration.
    pub(crate) fn secrets(&self) -> &dyn SecretResolver {
        &*self.secrets
    }

    /// The secret that is shared with agent-native peers, if there is one.
    pub(crate) fn shared_secret(&self) -> Result<Option<Secret>, String> {
        let reference = self.config.auth.jwt.as_ref().and_then(|jwt| jwt.secret.as_ref());
        let Some(reference) = reference else { return Ok(None) };
        let found = reference.resolve("auth.jwt.secret")?;
        self.secrets.resolve(&found).map(Some).map_err(|e| format!("auth.jwt.secret: {e}"))
    }

    /// The HTTP client for key sets and chains.
    pub(crate) const fn outbound(&self) -> &DocumentFetcher {
        &self.outbound
    }

    /// The rules that apply before the agent of a call is known.
    pub(crate) fn root_rules(&self) -> Result<Rules, StartError> {
        let agent = AgentName::parse(ROOT).map_err(|e| StartError::Config(e.to_string()))?;
        let (limits, tools) = self.limits(None);
        Ok(Rules {
            id: RulesId::next(),
            authenticator: self.shared_authenticator.clone(),
            agent,
            limits,
            skills: Vec::new(),
            tools,
        })
    }

    /// The rules of the API for operators: the credentials of the server, and API keys. Each request needs one, also
    /// where agents ask for none.
    pub(crate) fn api_rules(&self) -> Result<Rules, String> {
        let agent = AgentName::parse(API).map_err(|e| e.to_string())?;
        let auth = AuthConfig { required: Some(true), ..with_api_keys(&self.config.auth, self.deployment.production) };
        let (limits, tools) = self.limits(None);
        let authenticator = Arc::new(self.authenticator(&auth)?);
        Ok(Rules { id: RulesId::next(), authenticator, agent, limits, skills: Vec::new(), tools })
    }

    /// The rules of one agent.
    pub(crate) fn rules(&self, entry: &AgentConfig, name: &AgentName, skills: &[Skill]) -> Result<Rules, String> {
        let is_network = self.config.network.is_some() && entry.name == booking::AGENT;
        let entrance = match &entry.auth {
            None if is_network && !self.config.auth.accepted().contains(&AcceptedCredential::ApiKey) => {
                Arc::new(self.authenticator(&with_api_keys(&self.config.auth, self.deployment.production))?)
            }
            None => self.shared_authenticator.clone(),
            Some(auth) => Arc::new(self.authenticator(auth)?),
        };
        for warning in entrance.warnings() {
            tracing::warn!(agent = %name, "{warning}");
        }
        let open = entrance.mode() == AuthMode::Open;
        if open {
            // Agents that are added at run time are checked only here.
            refuse_open(&self.config, entry)?;
        }
        if open && self.deployment.reachable {
            tracing::warn!(agent = %name, "everybody who can reach this server may call this agent; see [auth]");
        }
        if open && entry.card.skills.iter().any(|skill| skill.requires_auth) {
            return Err("a skill says requires_auth = true, but nobody is asked who they are; see [auth]".into());
        }
        let hidden: Vec<&str> =
            entry.card.skills.iter().filter(|skill| needs_identity(skill)).map(|skill| &*skill.id).collect();
        let rule = |skill: &Skill| SkillRule {
            id: skill.id.clone(),
            requirements: skill.security_requirements.clone(),
            // Without authentication, callers cannot be told apart.
            needs_identity: !open && hidden.contains(&&*skill.id),
            intent: if is_network { Intent::parse(&skill.id).map(guard_rule) } else { None },
        };
        let (limits, tools) = self.limits(Some(entry));
        Ok(Rules {
            id: RulesId::next(),
            authenticator: entrance,
            agent: name.clone(),
            limits,
            skills: skills.iter().map(rule).collect(),
            tools,
        })
    }

    fn authenticator(&self, auth: &AuthConfig) -> Result<Authenticator, String> {
        Authenticator::new(auth, &self.deployment, &*self.secrets, &self.outbound)
    }

    /// The keys that sign payloads of the booking network.
    pub(crate) fn seals(&self) -> Result<Option<EnvelopeKeys>, String> {
        self.config.auth.agnt.as_ref().map(|agnt| agnt.envelope_keys(&*self.secrets)).transpose()
    }

    fn limits(&self, entry: Option<&AgentConfig>) -> (RateLimits, sabir_proto::ToolMode) {
        let limits = &self.config.limits;
        let own = entry.map(|entry| &entry.limits);
        let usual = own.and_then(|own| own.rate_per_minute).unwrap_or(limits.rate_per_minute);
        let tools = own.and_then(|own| own.tool_mode).unwrap_or(limits.tool_mode);
        let limits = RateLimits {
            default_per_minute: usual,
            anonymous_per_minute: limits.anonymous_per_minute,
            tiers: Arc::new(limits.tiers()),
            callers: Arc::new(limits.callers()),
        };
        (limits, tools.into())
    }
}

/// The authentication of the booking network: that of the server, and API keys. If the server demands no credential, a
/// caller without a key may search and not book; in production it may do neither.
fn with_api_keys(auth: &AuthConfig, production: bool) -> AuthConfig {
    let mut accepts = auth.accepted();
    let required = if accepts.is_empty() { Some(production) } else { auth.required };
    if !accepts.contains(&AcceptedCredential::ApiKey) {
        accepts.push(AcceptedCredential::ApiKey);
    }
    AuthConfig { accept: Some(accepts), required, ..auth.clone() }
}

/// Refuses an agent without authentication on a server that other machines can reach, unless the configuration allows
/// every caller. In production such an agent refuses every call, so it is allowed.
pub(crate) fn refuse_open(config: &Config, agent: &AgentConfig) -> Result<(), String> {
    let auth = agent.auth.as_ref().unwrap_or(&config.auth);
    let Some(why) = config.reachable_by().filter(|_| auth.is_open() && !auth.open && !config.is_production()) else {
        return Ok(());
    };
    Err(format!(
        "{why} in [server] makes this server reachable from other machines, and no authentication is configured for the \
         agent {:?}; name who may call in [auth] (accept = [\"api_key\"]), set open = true there (SABIR_AUTH__OPEN=true) \
         if every caller may, or stay on this machine: listen on 127.0.0.1, without public_url and proxies",
        agent.name
    ))
}

/// Opens the store of the guard and of the registry, for a command.
pub(crate) fn open_guard_store(config: &Config) -> Result<Arc<dyn GuardStore>, StartError> {
    let url = config.store_url().map_err(StartError::Config)?;
    Ok(sabir_store::open_guard(&url, config.open_options(WriterMode::Inline))?)
}
