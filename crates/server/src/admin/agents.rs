//! Agents: adding a remote agent, listing all agents, and deciding about their cards.
//!
//! Before an agent is added, the command finds its card, checks the addresses in it against the policy, and tries its
//! interfaces until one answers. That interface is pinned, together with the card. A refresh repeats the same steps.
//!
//! Agents of the configuration file are listed too, and their cards are stored and approved like all others. They are
//! added and removed in the file.

use super::{Admin, AdminError, now};
use crate::agent_factory::{AgentFactory, SharedParts};
use crate::agents::NoHandoffAudit;
use crate::auth_setup::{AuthSetup, ConfiguredSecrets, refuse_open};
use crate::card::{Signer, drift};
use crate::config::Config;
use crate::config::agent::{AgentConfig, Kind};
use crate::config::registry::section;
use crate::explain::SecretsOrPlaceholder;
use crate::public_address::{authorities, public_address};
use crate::tokio_host::ServerTasks;
use sabir_gateway::{CardRejection, DiscoveredCard, Hub, ProbedInterface, RemoteAgent, SignatureCheck, VendorProfile};
use sabir_guard::authenticator::SecretResolver;
use sabir_proto::AgentName;
use sabir_store::{CardState, RegisteredAgent, SecretRef, StoredCard};
use sabir_wire::card::CardSchema;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Longest name that is derived from a card, in characters.
const NAME_CHARS_MAX: usize = 40;

/// Why an agent cannot be added or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
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

/// An agent to be added.
#[derive(Debug, Clone, Default)]
pub struct NewAgent {
    /// The URL of its card or endpoint.
    pub url: String,
    /// The name under which it is served; derived from its card when absent.
    pub name: Option<String>,
    /// The vendor profile that it follows.
    pub profile: Option<String>,
    /// The other keys of its section: references to secrets, never secrets.
    pub settings: Map<String, Value>,
    /// Skips trying its interfaces; its secrets need not be readable here then.
    pub untried: bool,
}

/// The result of adding an agent.
#[derive(Debug)]
pub struct AddedAgent {
    /// The stored registration.
    pub agent: RegisteredAgent,
    /// The card that it is pinned to.
    pub card: StoredCard,
    /// The result of the check of the card's signature, in words.
    pub signature: String,
    /// The interfaces that were tried, with the result of each.
    pub tried: Vec<ProbedInterface>,
    /// Where the card breaks the rules of the specification.
    pub remarks: Vec<String>,
}

/// Where the registration of an agent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOrigin {
    /// The configuration file.
    File,
    /// A command at run time.
    Added,
}

/// An agent as it is listed.
#[derive(Debug, Clone)]
pub struct AgentView {
    pub name: String,
    /// The kind, as the configuration file writes it.
    pub kind: String,
    /// The URL of a remote agent.
    pub url: Option<String>,
    pub origin: AgentOrigin,
    /// The stored registration of an agent that was added at run time.
    pub added: Option<RegisteredAgent>,
    /// The stored cards, oldest first.
    pub cards: Vec<StoredCard>,
}

impl AgentView {
    /// The card with this standing.
    pub fn card(&self, standing: CardState) -> Option<&StoredCard> {
        self.cards.iter().find(|kept| kept.observation.state == standing)
    }
}

impl Admin {
    /// Checks a remote agent and adds it.
    pub async fn add_agent(&self, config: &Config, order: NewAgent) -> Result<AddedAgent, AdminError> {
        let workshop = self.agent_factory(config)?;
        if !order.untried {
            check_secrets(config, &Value::Object(order.settings.clone()))?;
        }
        let asked = order.name.as_deref().map(parse).transpose()?;
        // The profile that the URL has today is stored, so that a later change of the profiles does not change this
        // agent.
        let recognised = || Some(VendorProfile::for_url(&url::Url::parse(&order.url).ok()?)?.name.to_owned());
        let mut agent = RegisteredAgent {
            name: asked.clone().unwrap_or(parse("new")?),
            profile: order.profile.or_else(recognised),
            url: order.url,
            settings: Value::Object(order.settings).to_string(),
            enabled: true,
            added_at: now(),
        };
        let entry = section(&agent).map_err(AgentError::Settings)?;
        let (remote, _) = remote_agent(&workshop, &entry)?;
        let (found, voucher) = find_card(&workshop, &remote).await?;
        if asked.is_none() {
            agent.name = parse(&suggested_name(&found, &agent.url))?;
        }
        refuse_open(config, &section(&agent).map_err(AgentError::Settings)?).map_err(AgentError::Settings)?;
        // Checked in every case: two agents cannot share one name.
        if let Some(entry) = config.agent.iter().find(|entry| entry.name == agent.name.as_str()) {
            return Err(AgentError::InFile { name: entry.name.clone(), url: entry.url.clone() }.into());
        }
        let (way, tried) = if order.untried {
            let none = || AgentError::Unfit("its card offers no interface that we speak".into());
            remote.probe().check_credential_targets(&found).map_err(AgentError::Unfit)?;
            (sabir_gateway::chosen_interface(&found).ok_or_else(none)?, Vec::new())
        } else {
            remote.probe().try_interfaces(&found).await.map_err(unfit)?
        };
        let card = drift::observation(&agent.name, &found, &voucher, way, None, now());
        self.store.register_agent(agent.clone(), Some(card.clone()), self.by()).await?;
        let remarks = found.lint.iter().map(ToString::to_string).collect();
        let card = StoredCard { number: 1, observation: card };
        Ok(AddedAgent { agent, card, signature: voucher.summary, tried, remarks })
    }

    /// All agents, by name.
    pub async fn agents(&self, config: &Config) -> Result<Vec<AgentView>, AdminError> {
        let mut views = Vec::new();
        for entry in &config.agent {
            let cards = match AgentName::parse(&entry.name) {
                Ok(name) => self.store.cards(name).await?,
                Err(_) => Vec::new(),
            };
            let (name, url) = (entry.name.clone(), entry.url.clone());
            views.push(AgentView {
                name,
                kind: kind_name(entry.kind),
                url,
                origin: AgentOrigin::File,
                added: None,
                cards,
            });
        }
        for added in self.store.registered_agents().await? {
            let cards = self.store.cards(added.name.clone()).await?;
            let (name, url) = (added.name.to_string(), Some(added.url.clone()));
            let kind = kind_name(Kind::A2a);
            views.push(AgentView { name, kind, url, origin: AgentOrigin::Added, added: Some(added), cards });
        }
        views.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(views)
    }

    pub async fn agent(&self, config: &Config, name: &str) -> Result<AgentView, AdminError> {
        let found = self.agents(config).await?.into_iter().find(|view| view.name == name);
        Ok(found.ok_or_else(|| AgentError::Unknown(name.into()))?)
    }

    /// Removes an agent that was added.
    pub async fn remove_agent(&self, config: &Config, name: &str) -> Result<RegisteredAgent, AdminError> {
        self.require_added(config, name).await?;
        Ok(self.store.remove_agent(parse(name)?, self.by()).await?)
    }

    /// Enables or disables an agent that was added.
    pub async fn enable_agent(
        &self,
        config: &Config,
        name: &str,
        enabled: bool,
    ) -> Result<RegisteredAgent, AdminError> {
        self.require_added(config, name).await?;
        Ok(self.store.enable_agent(parse(name)?, enabled, self.by()).await?)
    }

    /// Fetches the card of an agent again, and decides about it as a server would.
    pub async fn refresh_agent(&self, config: &Config, name: &str) -> Result<crate::card::CardDecision, AdminError> {
        let (view, entry) = self.entry(config, name).await?;
        let workshop = self.agent_factory(config)?;
        let used = view.card(CardState::Used).cloned();
        let made = workshop.remote(&entry, &parse(name)?, used).map_err(AgentError::Settings)?;
        let (remote, keeper) = made.ok_or_else(|| AgentError::NotElsewhere(name.into()))?;
        let (found, voucher) = find_card(&workshop, &remote).await?;
        let scout = remote.probe();
        // The first interface that is pinned is tried before, as a server does.
        let found = match keeper.used() {
            Some(_) => found,
            None => match scout.try_interfaces(&found).await {
                Ok((way, _)) => sabir_gateway::with_interface_first(found, &way),
                Err(_) => found,
            },
        };
        let may = |found: &DiscoveredCard| scout.check_credential_targets(found);
        Ok(keeper.decide(&found, &voucher, &may).await.map_err(AgentError::Unfit)?)
    }

    /// Puts the card that is held for approval into use.
    pub async fn approve_agent(&self, config: &Config, name: &str) -> Result<StoredCard, AdminError> {
        self.agent(config, name).await?;
        let approved = self.store.approve_card(parse(name)?, self.by()).await?;
        Ok(approved.ok_or_else(|| AgentError::NothingHeld(name.into()))?)
    }

    /// The card of an agent as a server would serve it, as JSON in one of the forms.
    pub async fn agent_card(&self, config: &Config, name: &str, form: CardSchema) -> Result<String, AdminError> {
        let (view, entry) = self.entry(config, name).await?;
        let workshop = self.agent_factory(config)?;
        let cards = workshop.preview(&entry, view.card(CardState::Used)).map_err(AgentError::Settings)?;
        let bytes = cards.in_form(form).map_err(AgentError::Settings)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An agent with its configuration section.
    async fn entry(&self, config: &Config, name: &str) -> Result<(AgentView, AgentConfig), AdminError> {
        let view = self.agent(config, name).await?;
        let entry = match &view.added {
            Some(added) => section(added).map_err(AgentError::Settings)?,
            None => {
                let entry = config.agent.iter().find(|entry| entry.name == name);
                entry.cloned().ok_or_else(|| AgentError::Unknown(name.into()))?
            }
        };
        Ok((view, entry))
    }

    async fn require_added(&self, config: &Config, name: &str) -> Result<(), AdminError> {
        match self.agent(config, name).await? {
            AgentView { origin: AgentOrigin::File, url, .. } => {
                Err(AgentError::InFile { name: name.into(), url }.into())
            }
            AgentView { origin: AgentOrigin::Added, .. } => Ok(()),
        }
    }

    /// The factory for agents of this command. The secrets of callers need not be readable: it authenticates no caller.
    fn agent_factory(&self, config: &Config) -> Result<AgentFactory, AdminError> {
        let secrets: Arc<dyn SecretResolver> = Arc::new(SecretsOrPlaceholder(ConfiguredSecrets::new(config)));
        let wrong = |problem: String| AdminError::from(AgentError::Settings(problem));
        let gate = AuthSetup::new(Arc::new(config.clone()), secrets).map_err(|e| wrong(e.to_string()))?;
        let public = public_address(config, config.server.listen);
        let signer = Signer::open(config, &public, SystemTime::now()).map_err(wrong)?.map(Arc::new);
        let ours = authorities(&public, config.server.listen);
        let hub = Hub::new(sabir_gateway::Metrics::default());
        Ok(AgentFactory::new(SharedParts {
            auth_setup: gate,
            public,
            signer,
            journal: None,
            hub,
            own_agents: HashMap::new(),
            interceptor: None,
            registry: self.store.clone(),
            own_addresses: ours.into(),
            handoff_audit: Arc::new(NoHandoffAudit),
            directory: Weak::new(),
            engine: Weak::new(),
            tasks: ServerTasks::default(),
        }))
    }
}

/// Refuses references to secrets that cannot be read: without them the agent cannot be tried here.
fn check_secrets(config: &Config, settings: &Value) -> Result<(), AgentError> {
    let secrets = ConfiguredSecrets::new(config);
    match settings {
        Value::String(text) => match SecretRef::parse(text) {
            Ok(reference) => {
                let unknown =
                    |problem: String| AgentError::Settings(format!("{problem} here, and the agent is to be tried out"));
                secrets.resolve(&reference).map(drop).map_err(unknown)
            }
            Err(_) => Ok(()),
        },
        Value::Object(members) => members.values().try_for_each(|value| check_secrets(config, value)),
        Value::Array(list) => list.iter().try_for_each(|value| check_secrets(config, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The card of an agent and the check of its signature. An error when the policy forbids an address in the card.
async fn find_card(
    workshop: &AgentFactory,
    remote: &RemoteAgent,
) -> Result<(DiscoveredCard, SignatureCheck), AdminError> {
    let scout = remote.probe();
    let found = scout.fetch_card().await.map_err(|error| AgentError::NoCard(error.to_string()))?;
    let voucher = scout.check_signature(&found).await;
    if voucher.is_invalid {
        return Err(AgentError::Unfit(format!("the signature of its card {}", voucher.summary)).into());
    }
    scout.check_addresses(&found, workshop.ours()).await.map_err(unfit)?;
    Ok((found, voucher))
}

fn remote_agent(workshop: &AgentFactory, entry: &AgentConfig) -> Result<(Arc<RemoteAgent>, AgentName), AdminError> {
    let name = parse(&entry.name)?;
    if let Some(url) = &entry.url
        && url::Url::parse(url).is_ok_and(|url| sabir_gateway::is_own_address(&url, workshop.ours()))
    {
        return Err(AgentError::Unfit(format!("{url} is this server itself")).into());
    }
    let made = workshop.remote(entry, &name, None).map_err(AgentError::Settings)?;
    let (remote, _) = made.ok_or_else(|| AgentError::NotElsewhere(entry.name.clone()))?;
    Ok((remote, name))
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
