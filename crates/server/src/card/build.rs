//! Builds the card of an agent from its configuration.

use super::skills::is_public;
use crate::config::agent::AgentConfig;
use sabir_proto::AgentCard;
use sabir_proto::card::{Capabilities, Interface, Skill};
use std::collections::BTreeMap;

/// The version of an agent whose configuration gives none. It is the agent's version, not that of this program.
const VERSION: &str = "1.0.0";

/// The public address of a server, as its cards state it.
#[derive(Debug, Clone)]
pub(crate) struct PublicAddress {
    /// With scheme, without a slash at the end.
    pub(crate) url: String,
    /// `host:port`, for gRPC.
    pub(crate) authority: String,
    /// Whether the URL of the default agent ends in a slash: true unless the configured URL has none.
    pub(crate) slash: bool,
}

/// The URL of an agent.
pub(super) fn agent_url(config: &AgentConfig, address: &PublicAddress) -> String {
    match config {
        AgentConfig { default: true, .. } if address.slash => format!("{}/", address.url),
        AgentConfig { default: true, .. } => address.url.clone(),
        AgentConfig { app: true, name, .. } => format!("{}/apps/{name}", address.url),
        AgentConfig { name, .. } => format!("{}/agents/{name}", address.url),
    }
}

/// Builds the public card of an agent, and the list of all its skills. The authenticators add their security schemes
/// later.
pub(crate) fn build(config: &AgentConfig, address: &PublicAddress) -> (AgentCard, Vec<Skill>) {
    let card = &config.card;
    let base = agent_url(config, address);
    let interface = |url: &str, binding: &str, version: &str, tenant: Option<String>| Interface {
        url: url.into(),
        protocol_binding: binding.into(),
        tenant,
        protocol_version: version.into(),
    };
    // gRPC has one path for all agents, so in 1.0 the tenant selects the agent. 0.3 has no tenants.
    let mut supported_interfaces = vec![
        interface(&base, "JSONRPC", "1.0", None),
        interface(&base, "HTTP+JSON", "1.0", None),
        interface(&address.authority, "GRPC", "1.0", (!config.default).then(|| config.name.clone())),
        interface(&base, "JSONRPC", "0.3", None),
        interface(&base, "HTTP+JSON", "0.3", None),
    ];
    if config.default {
        supported_interfaces.push(interface(&address.authority, "GRPC", "0.3", None));
    }
    let description = card.description.clone().unwrap_or_else(|| format!("The agent {}", config.name));
    let own_skill = || Skill {
        id: config.name.clone(),
        name: config.name.clone(),
        description: description.clone(),
        tags: vec![config.name.clone()],
        examples: Vec::new(),
        input_modes: Vec::new(),
        output_modes: Vec::new(),
        security_requirements: Vec::new(),
    };
    let mut public: Vec<Skill> = card.skills.iter().filter(|skill| is_public(skill)).map(Skill::from).collect();
    let mut all: Vec<Skill> = card.skills.iter().map(Skill::from).collect();
    // A card needs at least one skill, so the agent itself becomes one.
    for skills in [&mut public, &mut all] {
        if skills.is_empty() {
            skills.push(own_skill());
        }
    }
    let modes = |given: &[String], usual: &[&str]| {
        if given.is_empty() { usual.iter().map(|m| (*m).to_owned()).collect() } else { given.to_vec() }
    };
    let card = AgentCard {
        name: card.name.clone().unwrap_or_else(|| config.name.clone()),
        description: description.clone(),
        supported_interfaces,
        provider: card.provider.clone(),
        version: card.version.clone().unwrap_or_else(|| VERSION.into()),
        documentation_url: card.documentation_url.clone(),
        capabilities: Capabilities {
            streaming: Some(card.capabilities.streaming),
            push_notifications: Some(card.capabilities.push_notifications),
            extensions: card.extensions.clone(),
            extended_agent_card: card.capabilities.extended_card.then_some(true),
        },
        security_schemes: BTreeMap::new(),
        security_requirements: Vec::new(),
        default_input_modes: modes(&card.input_modes, &["text/plain", "application/json", "*/*"]),
        default_output_modes: modes(&card.output_modes, &["text/plain", "application/json"]),
        skills: public,
        signatures: Vec::new(),
        icon_url: card.icon_url.clone(),
    };
    (card, all)
}
