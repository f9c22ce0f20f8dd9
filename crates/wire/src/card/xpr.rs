//! Writes cards of XPR: a base address, words for media types, and an identity on a chain.

use super::interfaces::{self, xpr_url};
use super::modes::words;
use super::{CardSchema, note_if};
use crate::{LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card;
use serde::Serialize;

/// The identity of an agent on the XPR network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct XprIdentity {
    /// The account of the agent.
    #[serde(rename = "xpr:account")]
    pub account: String,
    /// The protocol it is registered with.
    #[serde(rename = "xpr:protocol")]
    pub protocol: String,
    /// Its score, mostly 0 to 100; absent while it is unknown.
    #[serde(rename = "xpr:trustScore", skip_serializing_if = "Option::is_none")]
    pub trust_score: Option<i64>,
    /// How well the identity of its owner is verified, 0 to 3; absent while that is unknown.
    #[serde(rename = "xpr:kycLevel", skip_serializing_if = "Option::is_none")]
    pub kyc_level: Option<u8>,
    /// When it was registered, in seconds since 1970; 0 while that is unknown.
    #[serde(rename = "xpr:registeredAt")]
    pub registered_at: u64,
    /// The account of the person who owns the agent.
    #[serde(rename = "xpr:owner", skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The identity of an agent that is not registered.
impl Default for XprIdentity {
    fn default() -> Self {
        Self {
            account: String::new(),
            protocol: "https".into(),
            trust_score: None,
            kyc_level: None,
            registered_at: 0,
            owner: None,
        }
    }
}

/// The card of XPR as written, without the identity.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Card<'a> {
    name: &'a str,
    description: &'a str,
    url: &'a str,
    version: &'a str,
    capabilities: Capabilities,
    default_input_modes: Vec<&'static str>,
    default_output_modes: Vec<&'static str>,
    skills: Vec<Skill<'a>>,
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
            security_requirements,
            default_input_modes,
            default_output_modes,
            skills,
            signatures,
            icon_url,
        } = card;
        let card::Capabilities { streaming, push_notifications, extensions, extended_agent_card } = capabilities;
        let shown = interfaces::select_single(supported_interfaces, CardSchema::Xpr);
        let url = xpr_url(shown.map_or("", |i| &supported_interfaces[i].url));
        interfaces::note_lost_by_single(supported_interfaces, shown, CardSchema::Xpr, url, losses);
        note_if(provider.is_some(), LossKind::CardMember, "provider", losses);
        note_if(documentation_url.is_some(), LossKind::CardMember, "documentationUrl", losses);
        note_if(streaming.is_none(), LossKind::CardMember, "capabilities.streaming", losses);
        note_if(push_notifications.is_none(), LossKind::CardMember, "capabilities.pushNotifications", losses);
        note_if(!extensions.is_empty(), LossKind::Extensions, "capabilities.extensions", losses);
        note_if(extended_agent_card.is_some(), LossKind::CardMember, "capabilities.extendedAgentCard", losses);
        note_if(!security_schemes.is_empty(), LossKind::Security, "securitySchemes", losses);
        note_if(!security_requirements.is_empty(), LossKind::Security, "securityRequirements", losses);
        note_if(!signatures.is_empty(), LossKind::Signature, "signatures", losses);
        note_if(icon_url.is_some(), LossKind::CardMember, "iconUrl", losses);
        Self {
            name,
            description,
            url,
            version,
            capabilities: Capabilities {
                streaming: streaming.unwrap_or_default(),
                push_notifications: push_notifications.unwrap_or_default(),
                state_transition_history: false,
            },
            default_input_modes: words(default_input_modes, "defaultInputModes", losses),
            default_output_modes: words(default_output_modes, "defaultOutputModes", losses),
            skills: skills.iter().enumerate().map(|(i, s)| skill(i, s, losses)).collect(),
        }
    }
}

fn skill<'a>(index: usize, skill: &'a card::Skill, losses: &mut Losses) -> Skill<'a> {
    let card::Skill { id, name, description, tags, examples, input_modes, output_modes, security_requirements } = skill;
    let path = |member: &str| format!("skills[{index}].{member}");
    note_if(!examples.is_empty(), LossKind::CardMember, &path("examples"), losses);
    note_if(!input_modes.is_empty(), LossKind::CardMember, &path("inputModes"), losses);
    note_if(!output_modes.is_empty(), LossKind::CardMember, &path("outputModes"), losses);
    note_if(!security_requirements.is_empty(), LossKind::Security, &path("securityRequirements"), losses);
    Skill { id, name, description, tags }
}
