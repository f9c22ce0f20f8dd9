//! Writes cards of 0.1: one endpoint, words for media types, and authentication by the names of schemes alone.

use super::interfaces;
use super::modes::words;
use super::{CardSchema, note_if, note_security};
use crate::{LossKind, Losses};
use sabir_proto::AgentCard;
use sabir_proto::card::{self, Provider, SecurityRequirement, SecurityScheme, StringList};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// The card of 0.1, as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Card<'a> {
    name: &'a str,
    description: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Provider>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation_url: Option<&'a str>,
    capabilities: Capabilities,
    /// Written even if it is empty, because it tells a card of 0.1 from one of 0.2 or 0.3.
    authentication: Authentication,
    default_input_modes: Vec<&'static str>,
    default_output_modes: Vec<&'static str>,
    skills: Vec<Skill<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notifications: Option<bool>,
    state_transition_history: bool,
}

/// The schemes by which a caller authenticates, by name.
#[derive(Serialize)]
pub(super) struct Authentication {
    pub(super) schemes: Vec<String>,
    /// Most cards put the address here at which credentials are issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<String>,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    input_modes: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    output_modes: Vec<&'static str>,
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
        let shown = interfaces::select_single(supported_interfaces, CardSchema::V01);
        let url = shown.map_or("", |i| &supported_interfaces[i].url);
        interfaces::note_lost_by_single(supported_interfaces, shown, CardSchema::V01, url, losses);
        let authentication = Authentication::of(security_schemes);
        let (schemes, requirements, _) = authentication.read();
        note_security(card, &schemes, &requirements, losses);
        note_if(!extensions.is_empty(), LossKind::Extensions, "capabilities.extensions", losses);
        note_if(extended_agent_card.is_some(), LossKind::CardMember, "capabilities.extendedAgentCard", losses);
        note_if(!signatures.is_empty(), LossKind::Signature, "signatures", losses);
        note_if(icon_url.is_some(), LossKind::CardMember, "iconUrl", losses);
        Self {
            name,
            description,
            url,
            provider: provider.as_ref(),
            version,
            documentation_url: documentation_url.as_deref(),
            capabilities: Capabilities {
                streaming: *streaming,
                push_notifications: *push_notifications,
                // The history keeps messages and not the states that a task went through.
                state_transition_history: false,
            },
            authentication,
            default_input_modes: words(default_input_modes, "defaultInputModes", losses),
            default_output_modes: words(default_output_modes, "defaultOutputModes", losses),
            skills: skills.iter().enumerate().map(|(i, s)| skill(i, s, losses)).collect(),
        }
    }
}

fn skill<'a>(index: usize, skill: &'a card::Skill, losses: &mut Losses) -> Skill<'a> {
    let card::Skill { id, name, description, tags, examples, input_modes, output_modes, security_requirements } = skill;
    let path = |member: &str| format!("skills[{index}].{member}");
    note_if(!security_requirements.is_empty(), LossKind::Security, &path("securityRequirements"), losses);
    Skill {
        id,
        name,
        description,
        tags,
        examples,
        input_modes: words(input_modes, &path("inputModes"), losses),
        output_modes: words(output_modes, &path("outputModes"), losses),
    }
}

/// The schemes that the names stand for, one requirement for each as alternatives, and what had to be assumed about
/// them.
type ImpliedSecurity = (BTreeMap<String, SecurityScheme>, Vec<SecurityRequirement>, Vec<SchemeAssumption>);

/// An assumption about a scheme of which the card has only the name.
pub(super) struct SchemeAssumption {
    pub(super) name: String,
    pub(super) assumed: &'static str,
}

impl Authentication {
    pub(super) fn of(schemes: &BTreeMap<String, SecurityScheme>) -> Self {
        let mut written = Self { schemes: Vec::new(), credentials: None };
        // There is room for one address: that of OpenID Connect says more.
        let mut metadata = None;
        let mut known = HashSet::new();
        for scheme in schemes.values() {
            let word = match scheme {
                SecurityScheme::ApiKey { .. } => "apiKey",
                SecurityScheme::HttpAuth { scheme, .. } => scheme,
                SecurityScheme::OAuth2 { oauth2_metadata_url, .. } => {
                    metadata = metadata.or(oauth2_metadata_url.as_ref());
                    "oauth2"
                }
                SecurityScheme::OpenIdConnect { open_id_connect_url, .. } => {
                    written.credentials.get_or_insert_with(|| open_id_connect_url.clone());
                    "openIdConnect"
                }
                SecurityScheme::MutualTls { .. } => "mutualTLS",
            };
            if known.insert(word) {
                written.schemes.push(word.into());
            }
        }
        written.credentials = written.credentials.or_else(|| metadata.cloned());
        written
    }

    /// The schemes and requirements that the names stand for. Each scheme keeps its name as the key.
    pub(super) fn read(&self) -> ImpliedSecurity {
        let (mut schemes, mut requirements, mut guesses) = (BTreeMap::new(), Vec::new(), Vec::new());
        for name in &self.schemes {
            if name.is_empty() || schemes.contains_key(name) {
                continue;
            }
            let (scheme, assumed) = self.scheme(name);
            guesses.extend(assumed.map(|assumed| SchemeAssumption { name: name.clone(), assumed }));
            requirements.push(SecurityRequirement { schemes: [(name.clone(), StringList::default())].into() });
            schemes.insert(name.clone(), scheme);
        }
        (schemes, requirements, guesses)
    }

    fn scheme(&self, name: &str) -> (SecurityScheme, Option<&'static str>) {
        let bearer = || SecurityScheme::HttpAuth { description: None, scheme: "bearer".into(), bearer_format: None };
        let open_id =
            |url: &String| SecurityScheme::OpenIdConnect { description: None, open_id_connect_url: url.clone() };
        match (&*name.to_ascii_lowercase(), &self.credentials) {
            ("apikey", _) => {
                let header =
                    SecurityScheme::ApiKey { description: None, location: "header".into(), name: "X-API-Key".into() };
                (header, Some("the key is sent in the header X-API-Key"))
            }
            ("mutualtls", _) => (SecurityScheme::MutualTls { description: None }, None),
            ("openidconnect", Some(url)) => (open_id(url), None),
            ("oauth2", Some(url)) if url.ends_with("openid-configuration") => (open_id(url), None),
            // OAuth without any address: a caller sends a bearer token in the end.
            ("oauth2" | "openidconnect", _) => (bearer(), Some("a bearer token is sent, wherever it is to be had")),
            _ => {
                let scheme =
                    SecurityScheme::HttpAuth { description: None, scheme: name.to_owned(), bearer_format: None };
                (scheme, None)
            }
        }
    }
}
