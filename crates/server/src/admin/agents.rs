//! Agents: adding a remote agent, listing all agents, and deciding about their cards.
//!
//! Before an agent is added, the service finds its card, checks the addresses in it against the policy, and tries its
//! interfaces until one answers. That interface is pinned, together with the card. A refresh repeats the same steps. Where
//! a server runs, all this is done in the server: with its network, its environment and its secrets.
//!
//! Agents of the configuration file are listed too, and their cards are stored and approved like all others. They are
//! added and removed in the file.

mod views;

pub use views::{
    AddedAgentView, AgentCardDocument, AgentHistory, AgentList, AgentOrigin, AgentView, PinnedInterfaceView,
    RefreshedAgent, RegisteredAgentView, StoredCardView, TriedInterface,
};

use super::AdminError;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator, now};
use crate::agent_factory::{AgentFactory, SharedParts};
use crate::agents::NoHandoffAudit;
use crate::auth_setup::refuse_open;
use crate::card::{CardDecision, Signer, drift};
use crate::config::agent::{AgentConfig, Kind};
use crate::config::registry::section;
use crate::explain::SecretsOrPlaceholder;
use crate::tokio_host::ServerTasks;
use sabir_gateway::{CardRejection, DiscoveredCard, Hub, RemoteAgent, SignatureCheck, VendorProfile};
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::{AgentName, Json};
use sabir_store::{CardState, RegisteredAgent, SecretRef, StoredCard};
use sabir_wire::card::CardSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Longest name that is derived from a card, in characters.
const NAME_CHARS_MAX: usize = 40;
/// The form of a card where a request names none.
const CARD_FORM_DEFAULT: &str = "1.0";

/// Why an agent cannot be added or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AgentError {
    /// No agent has this name, in the file or added.
    #[error("there is no agent {0}")]
    Unknown(String),
    /// The configuration file has an agent with this name.
    #[error("there is an agent {name} in the configuration{}", .url.as_deref().map(|url| format!(" ({url})")).unwrap_or_default())]
    InFile {
        /// The name that is taken.
        name: String,
        /// The URL of the agent in the file.
        url: Option<String>,
    },
    /// The text is not a legal name of an agent.
    #[error("{0:?} cannot be the name of an agent: {1}")]
    Name(String, String),
    /// The agent is not a remote one.
    #[error("{0} is not an agent elsewhere; it has no card but ours")]
    NotElsewhere(String),
    /// No card was found at the URL.
    #[error("{0}")]
    NoCard(String),
    /// The card or an interface was refused.
    #[error("{0}")]
    Unfit(String),
    /// The settings are not legal.
    #[error("{0}")]
    Settings(String),
    /// No card waits for approval.
    #[error("no card of {0} is held")]
    NothingHeld(String),
}

/// Lists all agents: those of the configuration, and those that were added.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {}

/// Checks a remote agent and adds it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AddAgent {
    /// The URL of its card or endpoint.
    pub url: String,
    /// The name under which it is served; derived from its card when absent.
    pub name: Option<String>,
    /// The vendor profile that it follows.
    pub profile: Option<String>,
    /// The other keys of its `[[agent]]` section: references to secrets, never secrets.
    pub settings: Map<String, Value>,
    /// Skips trying its interfaces; its secrets need not be readable then.
    pub untried: bool,
}

macro_rules! of_one_agent {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            pub name: String,
        })*
    };
}

of_one_agent! {
    /// Shows one agent.
    ShowAgent
    /// Shows the cards that an agent has shown, the oldest first.
    ShowAgentHistory
    /// Removes an agent that was added, and the history of its cards. Tasks that run go on.
    RemoveAgent
    /// Serves an agent again that was disabled.
    EnableAgent
    /// Serves an agent no longer, and keeps what is known of it.
    DisableAgent
    /// Fetches the card of an agent, and decides about it as the server does by itself.
    RefreshAgent
    /// Puts the card that is held for approval into use.
    ApproveAgent
}

/// Shows the card that the server shows for an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowAgentCard {
    pub name: String,
    /// The form: `1.0`, `hybrid`, `0.3`, `0.2`, `0.1`, `agent-native` or `xpr`.
    #[serde(default = "card_form_default")]
    pub form: String,
}

fn card_form_default() -> String {
    CARD_FORM_DEFAULT.to_owned()
}

/// An agent with its stored registration and its stored cards.
struct KnownAgent {
    name: String,
    kind: Kind,
    url: Option<String>,
    /// The stored registration of an agent that was added.
    added: Option<RegisteredAgent>,
    cards: Vec<StoredCard>,
}

impl KnownAgent {
    /// The card with this standing.
    fn card(&self, standing: CardState) -> Option<&StoredCard> {
        self.cards.iter().find(|kept| kept.observation.state == standing)
    }

    fn view(self) -> AgentView {
        let card = |standing| self.card(standing).cloned().map(StoredCardView::from);
        let (card, held) = (card(CardState::Used), card(CardState::Held));
        let origin = if self.added.is_some() { AgentOrigin::Added } else { AgentOrigin::File };
        let added = self.added.map(RegisteredAgentView::from);
        AgentView {
            name: self.name,
            url: self.url,
            profile: added.as_ref().and_then(|added| added.profile.clone()),
            enabled: added.as_ref().map(|added| added.enabled),
            added_at: added.as_ref().map(|added| added.added_at),
            settings: added.map(|added| added.settings),
            kind: kind_name(self.kind),
            origin,
            card,
            held,
        }
    }
}

impl AdminService {
    /// All agents, by name.
    async fn known_agents(&self) -> Result<Vec<KnownAgent>, AdminError> {
        let mut known = Vec::new();
        for entry in &self.config.agent {
            let cards = match AgentName::parse(&entry.name) {
                Ok(name) => self.store.cards(name).await?,
                Err(_) => Vec::new(),
            };
            let (name, url) = (entry.name.clone(), entry.url.clone());
            known.push(KnownAgent { name, kind: entry.kind, url, added: None, cards });
        }
        for added in self.store.registered_agents().await? {
            let cards = self.store.cards(added.name.clone()).await?;
            let (name, url) = (added.name.to_string(), Some(added.url.clone()));
            known.push(KnownAgent { name, kind: Kind::A2a, url, added: Some(added), cards });
        }
        known.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(known)
    }

    async fn known_agent(&self, name: &str) -> Result<KnownAgent, AdminError> {
        let found = self.known_agents().await?.into_iter().find(|known| known.name == name);
        Ok(found.ok_or_else(|| AgentError::Unknown(name.into()))?)
    }

    /// An agent with its configuration section.
    async fn agent_section(&self, name: &str) -> Result<(KnownAgent, AgentConfig), AdminError> {
        let known = self.known_agent(name).await?;
        let entry = match &known.added {
            Some(added) => section(added).map_err(AgentError::Settings)?,
            None => {
                let entry = self.config.agent.iter().find(|entry| entry.name == name);
                entry.cloned().ok_or_else(|| AgentError::Unknown(name.into()))?
            }
        };
        Ok((known, entry))
    }

    /// The name of an agent that was added. One of the file is refused.
    async fn added_agent(&self, name: &str) -> Result<AgentName, AdminError> {
        let known = self.known_agent(name).await?;
        if known.added.is_none() {
            return Err(AgentError::InFile { name: name.into(), url: known.url }.into());
        }
        Ok(parse(name)?)
    }

    /// A factory for one request. The secrets of callers need not be readable: it authenticates no caller.
    fn agent_factory(&self) -> Result<AgentFactory, AdminError> {
        let wrong = |problem: String| AdminError::from(AgentError::Settings(problem));
        let auth_setup = self.auth_setup(Arc::new(SecretsOrPlaceholder::new(&self.config)))?;
        let signer = Signer::open(&self.config, &self.public, SystemTime::now()).map_err(wrong)?.map(Arc::new);
        let hub = Hub::new(sabir_gateway::Metrics::default());
        Ok(AgentFactory::new(SharedParts {
            auth_setup,
            public: self.public.clone(),
            signer,
            journal: None,
            hub,
            own_agents: HashMap::new(),
            interceptor: None,
            registry: self.store.clone(),
            own_addresses: self.ours.clone().into(),
            handoff_audit: Arc::new(NoHandoffAudit),
            directory: Weak::new(),
            engine: Weak::new(),
            tasks: ServerTasks::default(),
        }))
    }
}

impl Perform for ListAgents {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::get("/agents", "List the agents");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AgentList, AdminError> {
        Ok(AgentList { agents: service.known_agents().await?.into_iter().map(KnownAgent::view).collect() })
    }
}

impl Perform for ShowAgent {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::get("/agents/{name}", "Show an agent");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AgentView, AdminError> {
        Ok(service.known_agent(&self.name).await?.view())
    }
}

impl Perform for ShowAgentHistory {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::get("/agents/{name}/cards", "Show the cards that an agent has shown");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AgentHistory, AdminError> {
        let known = service.known_agent(&self.name).await?;
        Ok(AgentHistory { name: self.name, cards: known.cards.into_iter().map(StoredCardView::from).collect() })
    }
}

impl Perform for AddAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::create("/agents", "Check a remote agent, and add it");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<AddedAgentView, AdminError> {
        let config = &*service.config;
        let factory = service.agent_factory()?;
        let settings = Value::Object(self.settings);
        if !self.untried {
            check_secrets(&*service.secrets, &settings)?;
        }
        let asked = self.name.as_deref().map(parse).transpose()?;
        // The profile that the URL has today is stored, so that a later change of the profiles does not change this
        // agent.
        let recognised = || Some(VendorProfile::for_url(&url::Url::parse(&self.url).ok()?)?.name.to_owned());
        let mut agent = RegisteredAgent {
            name: asked.clone().unwrap_or(parse("new")?),
            profile: self.profile.or_else(recognised),
            url: self.url,
            settings: settings.to_string(),
            enabled: true,
            added_at: now(),
        };
        let entry = section(&agent).map_err(AgentError::Settings)?;
        let remote = remote_agent(&factory, &entry)?;
        let (found, check) = find_card(&factory, &remote).await?;
        if asked.is_none() {
            agent.name = parse(&suggested_name(&found, &agent.url))?;
        }
        refuse_open(config, &section(&agent).map_err(AgentError::Settings)?).map_err(AgentError::Settings)?;
        // Checked in every case: two agents cannot share one name.
        if let Some(entry) = config.agent.iter().find(|entry| entry.name == agent.name.as_str()) {
            return Err(AgentError::InFile { name: entry.name.clone(), url: entry.url.clone() }.into());
        }
        let (interface, tried) = if self.untried {
            let none = || AgentError::Unfit("its card offers no interface that we speak".into());
            remote.probe().check_credential_targets(&found).map_err(AgentError::Unfit)?;
            (sabir_gateway::chosen_interface(&found).ok_or_else(none)?, Vec::new())
        } else {
            remote.probe().try_interfaces(&found).await.map_err(unfit)?
        };
        let card = drift::observation(&agent.name, &found, &check, interface, None, now());
        service.store.register_agent(agent.clone(), Some(card.clone()), operator.actor()).await?;
        let tried = tried.into_iter().map(|one| TriedInterface { interface: one.interface, problem: one.problem });
        Ok(AddedAgentView {
            agent: agent.into(),
            card: StoredCard { number: 1, observation: card }.into(),
            signature: check.summary,
            tried: tried.collect(),
            remarks: found.lint.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Perform for RemoveAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::delete("/agents/{name}", "Remove an agent that was added");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<RegisteredAgentView, AdminError> {
        let name = service.added_agent(&self.name).await?;
        Ok(service.store.remove_agent(name, operator.actor()).await?.into())
    }
}

impl Perform for EnableAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::post("/agents/{name}/enable", "Serve an agent again");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<RegisteredAgentView, AdminError> {
        let name = service.added_agent(&self.name).await?;
        Ok(service.store.enable_agent(name, true, operator.actor()).await?.into())
    }
}

impl Perform for DisableAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::post("/agents/{name}/disable", "Serve an agent no longer");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<RegisteredAgentView, AdminError> {
        let name = service.added_agent(&self.name).await?;
        Ok(service.store.enable_agent(name, false, operator.actor()).await?.into())
    }
}

impl Perform for RefreshAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint =
        Endpoint::post("/agents/{name}/refresh", "Fetch the card of an agent, and decide about it");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<RefreshedAgent, AdminError> {
        let name = self.name;
        let (known, entry) = service.agent_section(&name).await?;
        let factory = service.agent_factory()?;
        let used = known.card(CardState::Used).cloned();
        let made = factory.remote(&entry, &parse(&name)?, used).map_err(AgentError::Settings)?;
        let (remote, tracker) = made.ok_or_else(|| AgentError::NotElsewhere(name.clone()))?;
        let (found, check) = find_card(&factory, &remote).await?;
        let probe = remote.probe();
        // The first interface that is pinned is tried before, as a server does.
        let found = match tracker.used() {
            Some(_) => found,
            None => match probe.try_interfaces(&found).await {
                Ok((interface, _)) => sabir_gateway::with_interface_first(found, &interface),
                Err(_) => found,
            },
        };
        let may_use = |found: &DiscoveredCard| probe.check_credential_targets(found);
        let decision = tracker.decide(&found, &check, &may_use).await.map_err(AgentError::Unfit)?;
        let (card, changes) = match decision {
            CardDecision::Unchanged => ("same", Vec::new()),
            CardDecision::First => ("first", Vec::new()),
            CardDecision::Replaced(changes) => ("used", changes),
            CardDecision::Held(changes) => ("held", changes),
        };
        Ok(RefreshedAgent { name, card: card.to_owned(), changes })
    }
}

impl Perform for ApproveAgent {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::post("/agents/{name}/approve", "Use the card that is held for approval");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<StoredCardView, AdminError> {
        service.known_agent(&self.name).await?;
        // Of two operators who approve at once, one gets the card and the other learns that none is held.
        let approved = service.store.approve_card(parse(&self.name)?, operator.actor()).await?;
        Ok(approved.ok_or(AgentError::NothingHeld(self.name))?.into())
    }
}

impl Perform for ShowAgentCard {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::get("/agents/{name}/card", "Show the card that the server shows for an agent");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AgentCardDocument, AdminError> {
        let forms = "1.0, hybrid, 0.3, 0.2, 0.1, agent-native and xpr";
        let form = parse_card_form(&self.form)
            .ok_or_else(|| AdminError::invalid(format!("{:?} is no form of a card; there are {forms}", self.form)))?;
        let (known, entry) = service.agent_section(&self.name).await?;
        let factory = service.agent_factory()?;
        let cards = factory.preview(&entry, known.card(CardState::Used)).map_err(AgentError::Settings)?;
        let bytes = cards.in_form(form).map_err(AgentError::Settings)?;
        let card = Json::parse(&String::from_utf8_lossy(&bytes)).map_err(|e| AgentError::Settings(e.to_string()))?;
        Ok(AgentCardDocument { card })
    }
}

/// Refuses references to secrets that cannot be read: without them the agent cannot be tried.
fn check_secrets(secrets: &dyn SecretResolver, settings: &Value) -> Result<(), AgentError> {
    match settings {
        Value::String(text) => match SecretRef::parse(text) {
            Ok(reference) => {
                let unknown =
                    |problem: String| AgentError::Settings(format!("{problem} here, and the agent is to be tried out"));
                secrets.resolve(&reference).map(drop).map_err(unknown)
            }
            Err(_) => Ok(()),
        },
        Value::Object(members) => members.values().try_for_each(|value| check_secrets(secrets, value)),
        Value::Array(list) => list.iter().try_for_each(|value| check_secrets(secrets, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The card of an agent and the check of its signature. An error when the policy forbids an address in the card.
async fn find_card(
    factory: &AgentFactory,
    remote: &RemoteAgent,
) -> Result<(DiscoveredCard, SignatureCheck), AdminError> {
    let probe = remote.probe();
    let found = probe.fetch_card().await.map_err(|error| AgentError::NoCard(error.to_string()))?;
    let check = probe.check_signature(&found).await;
    if check.is_invalid {
        return Err(AgentError::Unfit(format!("the signature of its card {}", check.summary)).into());
    }
    probe.check_addresses(&found, factory.ours()).await.map_err(unfit)?;
    Ok((found, check))
}

fn remote_agent(factory: &AgentFactory, entry: &AgentConfig) -> Result<Arc<RemoteAgent>, AdminError> {
    let name = parse(&entry.name)?;
    if let Some(url) = &entry.url
        && url::Url::parse(url).is_ok_and(|url| sabir_gateway::is_own_address(&url, factory.ours()))
    {
        return Err(AgentError::Unfit(format!("{url} is this server itself")).into());
    }
    let made = factory.remote(entry, &name, None).map_err(AgentError::Settings)?;
    let (remote, _) = made.ok_or_else(|| AgentError::NotElsewhere(entry.name.clone()))?;
    Ok(remote)
}

fn unfit(unfit: CardRejection) -> AdminError {
    AgentError::Unfit(unfit.to_string()).into()
}

fn parse(name: &str) -> Result<AgentName, AgentError> {
    AgentName::parse(name).map_err(|fault| AgentError::Name(name.into(), fault.to_string()))
}

/// The default name of an agent: the name in its card, in characters that a path allows, or else its host.
fn suggested_name(found: &DiscoveredCard, url: &str) -> String {
    let plain = |text: &str| {
        let mut name = String::new();
        for c in text.chars().take(NAME_CHARS_MAX * 2) {
            match c {
                'a'..='z' | '0'..='9' => name.push(c),
                'A'..='Z' => name.push(c.to_ascii_lowercase()),
                _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
                _ => {}
            }
        }
        name.truncate(NAME_CHARS_MAX);
        name.trim_end_matches('-').to_owned()
    };
    let own = plain(&found.card.name);
    if !own.is_empty() {
        return own;
    }
    let host = url::Url::parse(url).ok().and_then(|url| url.host_str().map(plain));
    host.filter(|host| !host.is_empty()).unwrap_or_else(|| "agent".into())
}

/// A kind as the configuration file writes it.
fn kind_name(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// The form of a card with this name.
pub fn parse_card_form(text: &str) -> Option<CardSchema> {
    CardSchema::ALL.into_iter().find(|form| form.name() == text)
}
