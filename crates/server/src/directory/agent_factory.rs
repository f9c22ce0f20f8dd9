//! Makes a served agent: the implementation, its card and its rules.

use super::Directory;
use crate::agents::peers::{PeerAgent, PeerAgents};
use crate::agents::{self, CommandJournal, Delegations, HandoffTargets, ProcessLimit};
use crate::auth_setup::{AuthSetup, Rules};
use crate::card::{self, CardContent, CardRules, CardTracker, Cards, PublicAddress, Registration, RemoteCard, Signer};
use crate::config::Config;
use crate::config::agent::AgentConfig;
use crate::engine_access::EngineAccess;
use crate::interceptor::Interceptor;
use crate::stack;
use crate::tokio_host::TokioHost;
use sabir_engine::{AnyAgent, Host as _, HostedAgent};
use sabir_gateway::{Hub, RemoteAgent, UserTokens, handoff};
use sabir_guard::Guard;
use sabir_guard::authenticator::AuthMode;
use sabir_proto::card::Skill;
use sabir_proto::{AgentCard, AgentName, Caller, Tenant};
use sabir_store::{AgentRegistry, Scope, StoredCard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// An agent that this server serves.
pub(crate) struct ServedAgent {
    pub(crate) hosted: Arc<HostedAgent>,
    pub(crate) card: AgentCard,
    /// All skills, also those that are not public.
    pub(crate) skills: Vec<Skill>,
    pub(crate) extended: Option<Arc<AgentCard>>,
    pub(crate) cards: Arc<Cards>,
    pub(crate) plain_scope: Arc<Scope>,
    pub(crate) rules: Rules,
    /// The capabilities that it may pass on to other agents, if they are limited.
    pub(crate) grants: Option<Vec<String>>,
    /// Whether it is also served at `/apps/{name}`.
    pub(crate) is_app: bool,
    /// The card of the remote agent behind it, if there is one.
    pub(crate) remote_card: Option<Arc<RemoteCard>>,
}

impl std::fmt::Debug for ServedAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").field("name", &self.hosted.name).finish_non_exhaustive()
    }
}

/// The card and the rules of an agent, from its section.
struct DescribedAgent {
    content: CardContent,
    rules: Rules,
    extended: Option<Arc<AgentCard>>,
}

/// Agents written in Rust, by name.
type OwnAgents = HashMap<String, Arc<dyn AnyAgent>>;

/// A remote agent and the tracker of its cards.
type TrackedRemote = (Arc<RemoteAgent>, Arc<CardTracker>);

/// Makes agents from their configuration and the shared parts of the server.
pub(crate) struct AgentFactory {
    auth_setup: AuthSetup,
    public: PublicAddress,
    signer: Option<Arc<Signer>>,
    journal: Option<Arc<CommandJournal>>,
    /// The limit on running commands of all agents.
    processes: Arc<ProcessLimit>,
    /// The connections that all remote agents share.
    hub: Arc<Hub>,
    /// Agents written in Rust, by name.
    own_agents: OwnAgents,
    interceptor: Option<Arc<dyn Interceptor>>,
    registry: Arc<dyn AgentRegistry>,
    /// The addresses of this server, as `host:port`.
    ours: Arc<[String]>,
    /// Records handoffs in the audit.
    handoff_audit: Arc<dyn handoff::HandoffAudit>,
    /// The other agents, for agents that work with them.
    peers: Arc<PeerAgents>,
    /// The other agents, for agents that hand tasks over.
    handoff_targets: Arc<HandoffTargets>,
    /// The service through which commands and endpoints delegate.
    delegations: Arc<Delegations>,
}

impl AgentFactory {
    pub(crate) fn new(
        auth_setup: AuthSetup,
        public: PublicAddress,
        signer: Option<Arc<Signer>>,
        journal: Option<Arc<CommandJournal>>,
        hub: Arc<Hub>,
        (own_agents, interceptor): (OwnAgents, Option<Arc<dyn Interceptor>>),
        handoff_audit: Arc<dyn handoff::HandoffAudit>,
    ) -> Self {
        let (registry, peers, handoff_targets) = (sabir_store::guard_in_memory(), Arc::default(), Arc::default());
        let processes = ProcessLimit::new(auth_setup.config().limits.processes_max);
        Self {
            auth_setup,
            public,
            signer,
            journal,
            processes,
            hub,
            own_agents,
            interceptor,
            handoff_audit,
            registry,
            peers,
            handoff_targets,
            delegations: Arc::default(),
            ours: Arc::new([]),
        }
    }

    /// Sets the registry that stores cards, and the addresses of this server.
    pub(crate) fn with_registry(self, registry: Arc<dyn AgentRegistry>, ours: Vec<String>) -> Self {
        Self { registry, ours: ours.into(), ..self }
    }

    /// The delegation service, if any agent may delegate.
    pub(crate) fn delegations(&self) -> Option<&Arc<Delegations>> {
        let delegates = self.config().agent.iter().any(|entry| !entry.delegates_to.is_empty());
        delegates.then_some(&self.delegations)
    }

    pub(crate) const fn registry(&self) -> &Arc<dyn AgentRegistry> {
        &self.registry
    }

    pub(crate) fn config(&self) -> &Config {
        self.auth_setup.config()
    }

    /// Connects all agents, made before or later, to the directory, to the route to the engine, and to the guard that
    /// decides which agents a caller may call.
    pub(crate) fn connect(&self, directory: &Arc<Directory>, route: &Arc<EngineAccess>, guard: &Guard) {
        self.handoff_targets.connect(directory, route);
        // The directory holds the agents, so they must not hold it.
        let directory = Arc::downgrade(directory);
        let (guard, all_agents) = (guard.clone(), directory.clone());
        self.peers.set_access_check(move |caller, skill| {
            let (guard, directory) = (guard.clone(), all_agents.upgrade());
            Box::pin(async move { callable_agents(&guard, directory, &caller, skill.as_deref()).await })
        });
        let own_door = |entry: &&AgentConfig| entry.auth.is_some();
        let guarded: HashSet<String> = self.config().agent.iter().filter(own_door).map(|a| a.name.clone()).collect();
        self.peers.set_source(move || {
            let Some(directory) = directory.upgrade() else { return Vec::new() };
            let peer =
                |served: &Arc<ServedAgent>| PeerAgent::new(&served.hosted.name, &served.cards.public(), &guarded);
            directory.all().values().map(peer).collect()
        });
    }

    /// Makes the agent of a section, with the card that was used last. An error says what is wrong.
    pub(crate) fn make(&self, entry: &AgentConfig, used: Option<StoredCard>) -> Result<Arc<ServedAgent>, String> {
        let Self { auth_setup: gate, public, .. } = self;
        let config = gate.config();
        let name = AgentName::parse(&entry.name).map_err(|e| format!("its name {e}"))?;
        let own = self.own_agents.get(&entry.name);
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
                    ledger: self.journal.as_ref(),
                    processes: &self.processes,
                    secrets: gate.secrets(),
                    egress: &config.egress,
                    answers: self.hub.answer_capacity(),
                    peers: &self.peers,
                    delegations: &self.delegations,
                };
                agents::make(entry, &ground, elsewhere.as_ref().map(|(remote, _)| remote))?
            }
        };
        let push = entry.card.capabilities.push_notifications;
        let DescribedAgent { content: face, rules, extended } = self.describe(entry, &name)?;
        let CardContent { public: card, skills, .. } = face.clone();
        let whole = AgentCard { skills: skills.clone(), ..card.clone() };
        let handoffs = agents::HandoffSetup { config, targets: &self.handoff_targets, audit: &self.handoff_audit };
        let agent = handoffs.wrap(entry, &whole, agent)?;
        let grants = agents::handoff_scope(entry, &whole)?.map(|scope| scope.names().map(str::to_owned).collect());
        let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: name.clone() };
        let chain = Registration::open(config, entry, public, gate.outbound())?;
        // Where a chain fills the card, the remote agent's card does not.
        let is_silent = chain.is_some();
        let elsewhere = elsewhere.map(|(remote, card_tracker)| {
            let overlay = (!is_silent).then(|| (face.clone(), entry.card.clone()));
            Arc::new(RemoteCard::new(remote, card_tracker, overlay))
        });
        let cards =
            Arc::new(Cards::new(face, card_rules(config, entry), SystemTime::now(), self.signer.clone(), chain)?);
        if let Some(elsewhere) = &elsewhere {
            elsewhere.update(&cards);
            TokioHost.spawn(Box::pin(elsewhere.clone().follow(Arc::downgrade(&cards))));
        }
        Ok(Arc::new(ServedAgent {
            cards,
            card,
            skills,
            extended,
            plain_scope: Arc::new(scope),
            hosted: Arc::new(HostedAgent { name, agent, push, tool_mode: rules.tools }),
            rules,
            grants,
            is_app: entry.app,
            remote_card: elsewhere,
        }))
    }

    /// The card of an agent from its section, and its rules.
    fn describe(&self, entry: &AgentConfig, name: &AgentName) -> Result<DescribedAgent, String> {
        let Self { auth_setup: gate, public, .. } = self;
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
            self.interceptor.as_deref().and_then(|interceptor| interceptor.extend_card(&mut card)).map(Arc::new);
        if let Some(idle) = card.supported_interfaces.iter().find(|i| !stack::serves_interface(i, entry, public)) {
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
        Cards::new(face, card_rules(self.config(), entry), SystemTime::now(), self.signer.clone(), None)
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
        let (registry, ours) = (self.registry.clone(), self.ours.clone());
        let card_tracker = CardTracker::new(name.clone(), registry, on_drift, ours, place, used);
        let card_tracker = Arc::new(card_tracker);
        let grace = Duration::from_secs(entry.cancel_grace_seconds.unwrap_or(config.limits.cancel_grace_seconds));
        let on_behalf = if entry.app { self.on_behalf()? } else { None };
        let shared: (Arc<dyn sabir_gateway::CardPolicy>, _) = (card_tracker.clone(), on_behalf);
        let circle = agents::RemoteDirectory { targets: self.handoff_targets.clone(), peers: self.peers.clone() };
        let onward = (self.ours.clone(), circle);
        let remote =
            agents::make_remote(entry, self.auth_setup.secrets(), &config.egress, grace, &self.hub, shared, onward)?;
        Ok(remote.map(|remote| (remote, card_tracker)))
    }

    /// How apps of a workspace are called: on behalf of the caller, under the secret that all of them share.
    fn on_behalf(&self) -> Result<Option<UserTokens>, String> {
        let secret = self.auth_setup.shared_secret()?;
        Ok(secret.map(|secret| UserTokens { secret, issuer_address: Some(self.public.url.clone()) }))
    }

    /// The addresses of this server, as `host:port`.
    pub(crate) fn ours(&self) -> &[String] {
        &self.ours
    }
}

/// The configured forms of an agent's card.
fn card_rules(config: &Config, entry: &AgentConfig) -> CardRules {
    let (unversioned, legacy) = (config.server.card, entry.card.legacy_form);
    CardRules { unversioned, legacy, production: config.is_production(), ..CardRules::default() }
}

/// The agents that a caller may call, as far as the guard can decide from its name.
async fn callable_agents(
    guard: &Guard,
    directory: Option<Arc<Directory>>,
    caller: &Caller,
    skill: Option<&str>,
) -> HashSet<AgentName> {
    let mut open = HashSet::new();
    let Some(directory) = directory else { return open };
    let recalled = match guard.recall(caller).await {
        Ok(recalled) => recalled,
        Err(problem) => {
            tracing::warn!(caller = caller.name(), %problem, "no agent can be found for a caller that the guard does not know");
            return open;
        }
    };
    for served in directory.all().values() {
        if Guard::would_be_served(&served.rules, &recalled, skill, TokioHost.now()).await {
            open.insert(served.hosted.name.clone());
        }
    }
    open
}
