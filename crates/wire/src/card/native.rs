//! Writes cards of agent-native: one endpoint under `/_agent-native/a2a`, no media types, and security by two fixed
//! names.

use super::interfaces::{self, native_url};
use super::{CardSchema, note_if, note_security};
use crate::{LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card::{self, SecurityRequirement, SecurityScheme, StringList};
use serde::Serialize;
use std::collections::BTreeMap;

/// The scheme of tokens signed with a shared secret.
const JWT_BEARER: &str = "jwtBearer";
/// The scheme of a fixed key, which is sent as a bearer token in spite of its name.
const API_KEY: &str = "apiKey";
/// The name of such a key in the configuration of this server.
const LEGACY_KEY: &str = "legacy_key";

/// The card of agent-native, as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Card<'a> {
    name: &'a str,
    description: &'a str,
    url: String,
    version: &'a str,
    protocol_version: &'static str,
    capabilities: Capabilities,
    skills: Vec<Skill<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    security_schemes: BTreeMap<&'static str, Scheme>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<BTreeMap<&'static str, [(); 0]>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    streaming: bool,
    push_notifications: bool,
    state_transition_history: bool,
}

#[derive(Serialize)]
struct Skill<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    examples: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Scheme {
    r#type: &'static str,
    scheme: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bearer_format: Option<&'static str>,
}

impl<'a> Card<'a> {
    pub(super) fn of(card: &'a AgentCard, losses: &mut Losses) -> Self {
        let AgentCard {
            name,
            description,
            supported_interfaces,
            provider,
            version,
            documentation_url,
            capabilities,
            security_schemes,
            security_requirements: _, // noted with the schemes
            default_input_modes,
            default_output_modes,
            skills,
            signatures,
            icon_url,
        } = card;
        let card::Capabilities { streaming, push_notifications, extensions, extended_agent_card } = capabilities;
        let shown = interfaces::select_single(supported_interfaces, CardSchema::Native);
        let url = native_url(shown.map_or("", |i| &supported_interfaces[i].url));
        interfaces::note_lost_by_single(supported_interfaces, shown, CardSchema::Native, &url, losses);
        let names = names(security_schemes);
        note_shown(card, &names, losses);
        note_if(provider.is_some(), LossKind::CardMember, "provider", losses);
        note_if(documentation_url.is_some(), LossKind::CardMember, "documentationUrl", losses);
        note_if(streaming.is_none(), LossKind::CardMember, "capabilities.streaming", losses);
        note_if(*push_notifications != Some(false), LossKind::CardMember, "capabilities.pushNotifications", losses);
        note_if(!extensions.is_empty(), LossKind::Extensions, "capabilities.extensions", losses);
        note_if(extended_agent_card.is_some(), LossKind::CardMember, "capabilities.extendedAgentCard", losses);
        for (modes, path) in [(default_input_modes, "defaultInputModes"), (default_output_modes, "defaultOutputModes")]
        {
            note_if(*modes != ["text/plain"], LossKind::CardMember, path, losses);
        }
        note_if(!signatures.is_empty(), LossKind::Signature, "signatures", losses);
        note_if(icon_url.is_some(), LossKind::CardMember, "iconUrl", losses);
        Self {
            name,
            description,
            url,
            version,
            protocol_version: "0.3",
            capabilities: Capabilities {
                streaming: streaming.unwrap_or_default(),
                push_notifications: false,
                // agent-native always says so, although it keeps messages and not states.
                state_transition_history: true,
            },
            skills: skills.iter().enumerate().filter_map(|(i, s)| skill(i, s, losses)).collect(),
            security: names.iter().map(|&name| [(name, [])].into()).collect(),
            security_schemes: names.into_iter().map(|name| (name, scheme(name))).collect(),
        }
    }
}

/// Writes a skill. A skill whose id says what a user or an organisation has connected is left out, because the card is
/// public.
fn skill<'a>(index: usize, skill: &'a card::Skill, losses: &mut Losses) -> Option<Skill<'a>> {
    let card::Skill { id, name, description, tags, examples, input_modes, output_modes, security_requirements } = skill;
    let called = if id.is_empty() { name } else { id };
    if called.starts_with("mcp__user_") || called.starts_with("mcp__org_") {
        losses.note(LossKind::CardMember, format_args!("skills[{index}]"));
        return None;
    }
    let path = |member: &str| format!("skills[{index}].{member}");
    note_if(!input_modes.is_empty(), LossKind::CardMember, &path("inputModes"), losses);
    note_if(!output_modes.is_empty(), LossKind::CardMember, &path("outputModes"), losses);
    note_if(!security_requirements.is_empty(), LossKind::Security, &path("securityRequirements"), losses);
    Some(Skill { id, name, description, tags, examples })
}

/// Which of the two agent-native schemes a card offers.
fn names(schemes: &BTreeMap<String, SecurityScheme>) -> Vec<&'static str> {
    let is_bearer = |s: &SecurityScheme| matches!(s, SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("bearer"));
    let is_key = |name: &str| name == API_KEY || name == LEGACY_KEY;
    let jwt = schemes.iter().any(|(name, s)| is_bearer(s) && !is_key(name));
    let key =
        schemes.iter().any(|(name, s)| matches!(s, SecurityScheme::ApiKey { .. }) || is_bearer(s) && is_key(name));
    [(jwt, JWT_BEARER), (key, API_KEY)].into_iter().filter_map(|(offered, name)| offered.then_some(name)).collect()
}

fn scheme(name: &str) -> Scheme {
    Scheme { r#type: "http", scheme: "bearer", bearer_format: (name == JWT_BEARER).then_some("JWT") }
}

fn note_shown(card: &AgentCard, names: &[&'static str], losses: &mut Losses) {
    let as_read = |&name: &&'static str| {
        let Scheme { scheme, bearer_format, .. } = scheme(name);
        let scheme = SecurityScheme::HttpAuth {
            description: None,
            scheme: scheme.into(),
            bearer_format: bearer_format.map(str::to_owned),
        };
        (name.to_owned(), scheme)
    };
    let required =
        |&name: &&'static str| SecurityRequirement { schemes: [(name.into(), StringList::default())].into() };
    let requirements: Vec<_> = names.iter().map(required).collect();
    note_security(card, &names.iter().map(as_read).collect(), &requirements, losses);
}
