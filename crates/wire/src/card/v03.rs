//! Writes cards of 0.3 and 0.2, and the hybrid of 1.0 and 0.3.
//!
//! 0.2.6 is 0.3 without signatures, without mutual TLS and OAuth metadata, and without requirements of single skills.

use super::interfaces::{self, JSONRPC};
use super::openapi::{self, Requirement, Scheme, SchemeVersion};
use super::v01::Authentication;
use super::{CardSchema, note_if};
use crate::{LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card::{self, CardSignature, Extension, Provider, SecurityRequirement, SecurityScheme};
use serde::Serialize;
use std::collections::BTreeMap;

/// The release that a card is written for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    V03,
    V02,
}

impl Release {
    const fn form(self) -> CardSchema {
        match self {
            Self::V03 => CardSchema::V03,
            Self::V02 => CardSchema::V02,
        }
    }

    /// The text of `protocolVersion`. 0.3 and 0.2 write three numbers, and readers of 1.0 ignore the third.
    const fn version_text(self) -> &'static str {
        match self {
            Self::V03 => "0.3.0",
            Self::V02 => "0.2.6",
        }
    }

    /// The versions of interfaces that a card lists, the preferred first. A client of 0.2 can use an interface of 0.3.
    const fn interface_versions(self) -> &'static [(u16, u16)] {
        match self {
            Self::V03 => &[(0, 3)],
            Self::V02 => &[(0, 2), (0, 3)],
        }
    }
}

/// The card of 0.3 and 0.2, as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Card<'a> {
    protocol_version: &'static str,
    name: &'a str,
    description: &'a str,
    #[serde(flatten)]
    place: Addresses<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Provider>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon_url: Option<&'a str>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation_url: Option<&'a str>,
    capabilities: Capabilities<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    security_schemes: BTreeMap<&'a str, Scheme<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<Requirement<'a>>,
    default_input_modes: &'a [String],
    default_output_modes: &'a [String],
    skills: Vec<Skill<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supports_authenticated_extended_card: Option<bool>,
    #[serde(skip_serializing_if = "<[CardSignature]>::is_empty")]
    signatures: &'a [CardSignature],
}

/// The addresses of the agent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Addresses<'a> {
    url: &'a str,
    preferred_transport: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    additional_interfaces: Vec<Interface<'a>>,
}

#[derive(Serialize)]
struct Interface<'a> {
    url: &'a str,
    transport: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notifications: Option<bool>,
    #[serde(skip_serializing_if = "<[Extension]>::is_empty")]
    extensions: &'a [Extension],
    /// A member of 0.1, which 0.2 and 0.3 kept and 1.0 dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    state_transition_history: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Skill<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    examples: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    input_modes: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    output_modes: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<Requirement<'a>>,
}

impl<'a> Card<'a> {
    pub(super) fn of(card: &'a AgentCard, release: Release, losses: &mut Losses) -> Self {
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
        let scheme_version = if release == Release::V03 { SchemeVersion::V03 } else { SchemeVersion::V02 };
        let schemes = security_schemes.iter();
        let schemes =
            schemes.filter_map(|(name, s)| Some((&**name, openapi::scheme(name, s, scheme_version, losses)?)));
        let security_schemes = schemes.collect();
        let signatures: &[CardSignature] = match release {
            Release::V03 => signatures,
            Release::V02 => {
                note_if(!signatures.is_empty(), LossKind::Signature, "signatures", losses);
                &[]
            }
        };
        Self {
            protocol_version: release.version_text(),
            name,
            description,
            place: place(supported_interfaces, release, losses),
            provider: provider.as_ref(),
            icon_url: icon_url.as_deref(),
            version,
            documentation_url: documentation_url.as_deref(),
            capabilities: Capabilities {
                streaming: *streaming,
                push_notifications: *push_notifications,
                extensions,
                state_transition_history: None,
            },
            security_schemes,
            security: openapi::requirements(security_requirements),
            default_input_modes,
            default_output_modes,
            skills: skills.iter().enumerate().map(|(i, s)| skill(i, s, release, losses)).collect(),
            supports_authenticated_extended_card: *extended_agent_card,
            signatures,
        }
    }
}

/// A card of 0.3 with the members of 0.1 beside its own. Clients of 0.1 and of 0.2 read it at the same path and do not
/// say which they are; each ignores the members it does not know.
#[derive(Serialize)]
pub(super) struct V03WithV01Card<'a> {
    #[serde(flatten)]
    card: Card<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication>,
}

impl<'a> V03WithV01Card<'a> {
    pub(super) fn of(card: &'a AgentCard, losses: &mut Losses) -> Self {
        let mut shown = Card::of(card, Release::V03, losses);
        // The history keeps messages and not the states that a task went through.
        shown.capabilities.state_transition_history = Some(false);
        let authentication = Authentication::of(&card.security_schemes);
        Self { card: shown, authentication: (!authentication.schemes.is_empty()).then_some(authentication) }
    }
}

fn place<'a>(interfaces: &'a [card::Interface], release: Release, losses: &mut Losses) -> Addresses<'a> {
    let shown = interfaces::select_by_version(interfaces, release.interface_versions());
    let place = Addresses::of(interfaces, &shown);
    let version = interfaces::effective_schema(release.form(), place.url).dialect().name();
    let read = |i: &usize| card::Interface { protocol_version: version.into(), ..interfaces[*i].clone() };
    // A reader takes an empty `url` for no interface at all, unless the list has it too.
    let as_read = match &*shown {
        [only] if interfaces[*only].url.is_empty() => Vec::new(),
        _ => shown.iter().map(read).collect(),
    };
    interfaces::note_lost(interfaces, &shown, &as_read, losses);
    place
}

impl<'a> Addresses<'a> {
    /// `url` names the first interface, and the list repeats it.
    fn of(interfaces: &'a [card::Interface], shown: &[usize]) -> Self {
        let first = shown.first().map(|&i| &interfaces[i]);
        let write = |&i: &usize| Interface { url: &interfaces[i].url, transport: &interfaces[i].protocol_binding };
        Addresses {
            url: first.map_or("", |i| &i.url),
            preferred_transport: first.map_or(JSONRPC, |i| &i.protocol_binding),
            additional_interfaces: if shown.len() > 1 { shown.iter().map(write).collect() } else { Vec::new() },
        }
    }
}

fn skill<'a>(index: usize, skill: &'a card::Skill, release: Release, losses: &mut Losses) -> Skill<'a> {
    let card::Skill { id, name, description, tags, examples, input_modes, output_modes, security_requirements } = skill;
    let security = match release {
        Release::V03 => openapi::requirements(security_requirements),
        Release::V02 => {
            if !security_requirements.is_empty() {
                losses.note(LossKind::Security, format_args!("skills[{index}].securityRequirements"));
            }
            Vec::new()
        }
    };
    Skill { id, name, description, tags, examples, input_modes, output_modes, security }
}

/// A card of 1.0 with the members that clients of 0.3 need beside its own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Hybrid<'a> {
    name: &'a str,
    description: &'a str,
    supported_interfaces: &'a [card::Interface],
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Provider>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation_url: Option<&'a str>,
    capabilities: &'a card::Capabilities,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    security_schemes: BTreeMap<&'a str, HybridScheme<'a>>,
    #[serde(skip_serializing_if = "<[SecurityRequirement]>::is_empty")]
    security_requirements: &'a [SecurityRequirement],
    default_input_modes: &'a [String],
    default_output_modes: &'a [String],
    skills: Vec<HybridSkill<'a>>,
    #[serde(skip_serializing_if = "<[CardSignature]>::is_empty")]
    signatures: &'a [CardSignature],
    #[serde(skip_serializing_if = "Option::is_none")]
    icon_url: Option<&'a str>,
    protocol_version: &'static str,
    #[serde(flatten)]
    place: Addresses<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<Requirement<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supports_authenticated_extended_card: Option<bool>,
}

/// A scheme in both forms: wrapped for 1.0, with a `type` for 0.3.
#[derive(Serialize)]
struct HybridScheme<'a> {
    #[serde(flatten)]
    wrapped: &'a SecurityScheme,
    #[serde(flatten)]
    typed: Option<Scheme<'a>>,
}

#[derive(Serialize)]
struct HybridSkill<'a> {
    #[serde(flatten)]
    skill: &'a card::Skill,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<Requirement<'a>>,
}

impl<'a> Hybrid<'a> {
    /// `None` if no interface speaks 0.3: then the card is written as 1.0 alone.
    ///
    /// Also `None` if every interface of 0.3 has an address that the agent-native client would take for its own. These
    /// are noted as losses although the card of 1.0 lists them, because clients of 0.3 do not look there.
    pub(super) fn of(card: &'a AgentCard, losses: &mut Losses) -> Option<Self> {
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
        let shown = match interfaces::v03_beside_v1(supported_interfaces) {
            Ok(shown) => shown,
            Err(left_out) => {
                for i in left_out {
                    losses.note(LossKind::Interface, format_args!("supportedInterfaces[{i}]"));
                }
                return None;
            }
        };
        let scheme = |(name, wrapped): (&'a String, &'a SecurityScheme)| {
            // Nothing is lost: a reader of 1.0 finds it in the wrapped form.
            let typed = openapi::scheme(name, wrapped, SchemeVersion::V1InV03, &mut Losses::new());
            (&**name, HybridScheme { wrapped, typed })
        };
        let skill = |skill: &'a card::Skill| HybridSkill {
            skill,
            security: openapi::requirements(&skill.security_requirements),
        };
        Some(Self {
            name,
            description,
            supported_interfaces,
            provider: provider.as_ref(),
            version,
            documentation_url: documentation_url.as_deref(),
            capabilities,
            security_schemes: security_schemes.iter().map(scheme).collect(),
            security_requirements,
            default_input_modes,
            default_output_modes,
            skills: skills.iter().map(skill).collect(),
            signatures,
            icon_url: icon_url.as_deref(),
            protocol_version: Release::V03.version_text(),
            place: Addresses::of(supported_interfaces, &shown),
            security: openapi::requirements(security_requirements),
            supports_authenticated_extended_card: capabilities.extended_agent_card,
        })
    }
}
