//! Makes a served agent: the implementation, its card and its rules.

use crate::agents::{self, CommandJournal, Delegations, ProcessLimit};
use crate::auth_setup::{AuthSetup, Rules};
use crate::card::{self, CardContent, CardRules, CardTracker, Cards, PublicAddress, Registration, RemoteCard, Signer};
use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::directory::{AgentDirectory, ServedAgent};
use crate::engine_access::EngineAccess;
use crate::interceptor::Interceptor;
use crate::routes::serves_interface;
use crate::tokio_host::ServerTasks;
use sabir_engine::{AnyAgent, HostedAgent};
use sabir_gateway::{Hub, RemoteAgent, UserTokens, handoff};
use sabir_guard::authenticator::AuthMode;
use sabir_proto::{AgentCard, AgentName, Caller, Tenant};
use sabir_store::{AgentRegistry, Scope, StoredCard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

/// The card and the rules of an agent, from its section.
struct DescribedAgent {
    content: CardContent,
    rules: Rules,
    extended: Option<Arc<AgentCard>>,
}

/// Agents written in Rust, by name.
pub(crate) type OwnAgents = HashMap<String, Arc<dyn AnyAgent>>;

/// A remote agent and the tracker of its cards.
type TrackedRemote = (Arc<RemoteAgent>, Arc<CardTracker>);

/// What all agents of a server are made from, besides their sections.
pub(crate) struct SharedParts {
    pub(crate) auth_setup: AuthSetup,
    pub(crate) public: PublicAddress,
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) journal: Option<Arc<CommandJournal>>,
    /// The connections that all remote agents share.
    pub(crate) hub: Arc<Hub>,
    pub(crate) own_agents: OwnAgents,
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
    /// Stores the cards of remote agents.
    pub(crate) registry: Arc<dyn AgentRegistry>,
    /// The addresses of this server, as `host:port`.
    pub(crate) own_addresses: Arc<[String]>,
    /// Records handoffs in the audit.
    pub(crate) handoff_audit: Arc<dyn handoff::HandoffAudit>,
    /// The other agents, for agents that work with them.
    pub(crate) directory: Weak<AgentDirectory>,
    /// How handed-over tasks reach the agents of this server.
    pub(crate) engine: Weak<EngineAccess>,
    /// Runs health checks, and what keeps cards up to date.
    pub(crate) tasks: ServerTasks,
}

/// Makes agents from their configuration and the shared parts of the server.
pub(crate) struct AgentFactory {
    parts: SharedParts,
    /// The limit on running commands of all agents.
    processes: Arc<ProcessLimit>,
    /// The service through which commands and endpoints delegate.
    delegations: Arc<Delegations>,
}

impl AgentFactory {
    pub(crate) fn new(parts: SharedParts) -> Self {
        let processes = ProcessLimit::new(parts.auth_setup.config().limits.processes_max);
        Self { parts, processes, delegations: Arc::default() }
    }

    /// The delegation service, if any agent may delegate.
    pub(crate) fn delegations(&self) -> Option<&Arc<Delegations>> {
        let delegates = self.config().agent.iter().any(|entry| !entry.delegates_to.is_empty());
        delegates.then_some(&self.delegations)
    }

    pub(crate) const fn registry(&self) -> &Arc<dyn AgentRegistry> {
        &self.parts.registry
    }

    pub(crate) fn config(&self) -> &Config {
        self.parts.auth_setup.config()
    }

    /// Makes the agent of a section, with the card that was used last. An error says what is wrong.
    pub(crate) fn make(&self, entry: &AgentConfig, used: Option<StoredCard>) -> Result<Arc<ServedAgent>, String> {
        let SharedParts { auth_setup: gate, public, .. } = &self.parts;
        let config = gate.config();
        let name = AgentName::parse(&entry.name).map_err(|e| format!("its name {e}"))?;
        let own = self.parts.own_agents.get(&entry.name);
        let grace = Duration::from_secs(entry.cancel_grace_seconds.unwrap_or(config.limits.cancel_grace_seconds));
        let elsewhere = match own {
            Some(_) => None,
            None => self.remote(entry, &name, used)?,
        };
        let agent = match own {
            Some(agent) => agent.clone(),
            None => {
                let ground = agents::AgentEnvironment {
                    chunks: agents::ChunkLimits::new(&config.limits, &entry.limits),
                    cancel_grace: grace,
                    ledger: self.parts.journal.as_ref(),
                    processes: &self.processes,
                    secrets: gate.secrets(),
                    egress: &config.egress,
                    answers: self.parts.hub.answer_capacity(),
                    directory: &self.parts.directory,
                    delegations: &self.delegations,
                };
                agents::make(entry, &ground, elsewhere.as_ref().map(|(remote, _)| remote))?
            }
        };
        let push = entry.card.capabilities.push_notifications;
        let DescribedAgent { content: face, rules, extended } = self.describe(entry, &name)?;
        let CardContent { public: card, skills, .. } = face.clone();
        let whole = AgentCard { skills: skills.clone(), ..card.clone() };
        let handoffs = agents::HandoffSetup {
            config,
            directory: &self.parts.directory,
            engine: &self.parts.engine,
            audit: &self.parts.handoff_audit,
        };
        let agent = handoffs.wrap(entry, &whole, agent)?;
        let grants = agents::handoff_scope(entry, &whole)?.map(|scope| scope.names().map(str::to_owned).collect());
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: name.clone() };
        let chain = Registration::open(config, entry, public, gate.outbound(), &self.parts.tasks)?;
        // Where a chain fills the card, the remote agent's card does not.
        let is_silent = chain.is_some();
        let elsewhere = elsewhere.map(|(remote, card_tracker)| {
            let overlay = (!is_silent).then(|| (face.clone(), entry.card.clone()));
            Arc::new(RemoteCard::new(remote, card_tracker, overlay))
        });
        let cards =
            Arc::new(Cards::new(face, card_rules(config, entry), SystemTime::now(), self.parts.signer.clone(), chain)?);
        if let Some(elsewhere) = &elsewhere {
            elsewhere.update(&cards);
            self.parts.tasks.spawn_loop(elsewhere.clone().follow(Arc::downgrade(&cards)));
        }
        Ok(Arc::new(ServedAgent {
            cards,
            card,
            skills,
            extended,
            plain_scope: Arc::new(scope),
            hosted: Arc::new(HostedAgent { name, agent, push, tool_mode: rules.tools }),
            rules,
            has_own_auth: entry.auth.is_some(),
            grants,
            is_app: entry.app,
            remote_card: elsewhere,
        }))
    }

    /// The card of an agent from its section, and its rules.
    fn describe(&self, entry: &AgentConfig, name: &AgentName) -> Result<DescribedAgent, String> {
        let SharedParts { auth_setup: gate, public, .. } = &self.parts;
        let (mut card, skills) = card::build(entry, public);
        agents::advertise_handoffs(entry, &mut card);
        let rules = gate.rules(entry, name, &skills)?;
        if rules.authenticator.wants_body_signatures() {
            card.supported_interfaces.retain(|interface| interface.protocol_binding == "JSONRPC");
        }
        rules.authenticator.describe_in_card(&mut card, &skills)?;
        if entry.card.capabilities.extended_card && rules.authenticator.mode() == AuthMode::Open {
            return Err("extended_card = true is for callers who say who they are; name them in [auth]".into());
        }
        let extended =
            self.parts.interceptor.as_deref().and_then(|interceptor| interceptor.extend_card(&mut card)).map(Arc::new);
        if let Some(idle) = card.supported_interfaces.iter().find(|i| !serves_interface(i, entry, public)) {
            let (binding, version) = (&idle.protocol_binding, &idle.protocol_version);
            return Err(format!("its card offers {binding} {version} at {}, which is not served", idle.url));
        }
        let xpr = entry.xpr.as_ref().map(card::configured_identity);
        let face = CardContent { public: card, skills, xpr, replaced_url: None };
        Ok(DescribedAgent { content: face, rules, extended })
    }

    /// The documents of an agent as the server would serve them, with the card that was used last.
    pub(crate) fn preview(&self, entry: &AgentConfig, used: Option<&StoredCard>) -> Result<Cards, String> {
        let name = AgentName::parse(&entry.name).map_err(|e| format!("its name {e}"))?;
        let face = self.describe(entry, &name)?.content;
        let face = used.map_or(face.clone(), |used| card::merge(&face, &entry.card, used));
        Cards::new(face, card_rules(self.config(), entry), SystemTime::now(), self.parts.signer.clone(), None)
    }

    /// The connection to the remote agent of a section, and the tracker of its cards; `None` for other kinds of agents.
    pub(crate) fn remote(
        &self,
        entry: &AgentConfig,
        name: &AgentName,
        used: Option<StoredCard>,
    ) -> Result<Option<TrackedRemote>, String> {
        let config = self.config();
        let on_drift = entry.on_drift.unwrap_or(config.registry.on_drift);
        let place = entry.url.clone().or_else(|| entry.replicas.first().map(|replica| replica.url.clone()));
        let place = place.map(|place| card::drift::card_location(&place, entry.profile.as_deref())).unwrap_or_default();
        let (registry, ours) = (self.parts.registry.clone(), self.parts.own_addresses.clone());
        let card_tracker = CardTracker::new(name.clone(), registry, on_drift, ours, place, used);
        let card_tracker = Arc::new(card_tracker);
        let grace = Duration::from_secs(entry.cancel_grace_seconds.unwrap_or(config.limits.cancel_grace_seconds));
        let on_behalf = if entry.app { self.on_behalf()? } else { None };
        let parts = agents::RemoteAgentParts {
            secrets: self.parts.auth_setup.secrets(),
            egress: &config.egress,
            cancel_grace: grace,
            hub: &self.parts.hub,
            card_policy: card_tracker.clone(),
            user_tokens: on_behalf,
            own_addresses: self.parts.own_addresses.clone(),
            directory: self.parts.directory.clone(),
            tasks: &self.parts.tasks,
        };
        let remote = agents::make_remote(entry, parts)?;
        Ok(remote.map(|remote| (remote, card_tracker)))
    }

    /// How apps of a workspace are called: on behalf of the caller, under the secret that all of them share.
    fn on_behalf(&self) -> Result<Option<UserTokens>, String> {
        let secret = self.parts.auth_setup.shared_secret()?;
        Ok(secret.map(|secret| UserTokens { secret, issuer_address: Some(self.parts.public.url.clone()) }))
    }

    /// The addresses of this server, as `host:port`.
    pub(crate) fn ours(&self) -> &[String] {
        &self.parts.own_addresses
    }
}

/// The configured forms of an agent's card.
fn card_rules(config: &Config, entry: &AgentConfig) -> CardRules {
    let (unversioned, legacy) = (config.server.card, entry.card.legacy_form);
    CardRules { unversioned, legacy, production: config.is_production(), ..CardRules::default() }
}
