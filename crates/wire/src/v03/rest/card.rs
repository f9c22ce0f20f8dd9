//! The extended card over REST: the same as over gRPC, in JSON.
//!
//! Its security schemes are wrapped as in 1.0 (`{"httpAuthSecurityScheme": …}`). The well-known card of 0.3, and the
//! answers of some servers here, have the OpenAPI form (`{"type": "http"}`) instead; this module recognises it and does
//! not read it.

use super::super::grpc::{Interfaces, NumberEncoding, ReducedCard, true_or_unset};
use super::read::ListObject;
use super::{reply, write};
use crate::losses::{LossKind, Losses};
use crate::path::Path;
use sabir_proto::card::{
    Capabilities, Extension, OAuthFlows, Provider, SecurityRequirement, SecurityScheme, Skill, StringList,
};
use sabir_proto::lenient::{empty_none, null_default, optional_object};
use sabir_proto::{AgentCard, Fault, Object};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Writes the extended card.
pub(super) fn write(card: &AgentCard, losses: &mut Losses, out: &mut Vec<u8>) -> Result<(), Fault> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CardOut<'a> {
        protocol_version: &'a str,
        name: &'a str,
        description: &'a str,
        url: &'a str,
        preferred_transport: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        additional_interfaces: Vec<Interface<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'a Provider>,
        version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        documentation_url: Option<&'a str>,
        capabilities: &'a Capabilities,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        security_schemes: &'a BTreeMap<String, SecurityScheme>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        security: &'a [SecurityRequirement],
        default_input_modes: &'a [String],
        default_output_modes: &'a [String],
        skills: Vec<SkillOut<'a>>,
        supports_authenticated_extended_card: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        icon_url: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Interface<'a> {
        url: &'a str,
        transport: &'a str,
    }
    let ReducedCard { interfaces, extended, card } = ReducedCard::of(card, NumberEncoding::Text, losses)?;
    let wire = CardOut {
        protocol_version: &interfaces.protocol_version,
        name: &card.name,
        description: &card.description,
        url: &interfaces.url,
        preferred_transport: &interfaces.preferred_transport,
        additional_interfaces: interfaces
            .additional
            .iter()
            .map(|(url, transport)| Interface { url, transport })
            .collect(),
        provider: card.provider.as_ref(),
        version: &card.version,
        documentation_url: card.documentation_url.as_deref(),
        capabilities: &card.capabilities,
        security_schemes: &card.security_schemes,
        security: &card.security_requirements,
        default_input_modes: &card.default_input_modes,
        default_output_modes: &card.default_output_modes,
        skills: card.skills.iter().map(SkillOut::of).collect(),
        supports_authenticated_extended_card: extended,
        icon_url: card.icon_url.as_deref(),
    };
    write::json(&wire, out);
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SkillOut<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    examples: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    input_modes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    output_modes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    security: &'a [SecurityRequirement],
}

impl<'a> SkillOut<'a> {
    fn of(skill: &'a Skill) -> Self {
        Self {
            id: &skill.id,
            name: &skill.name,
            description: &skill.description,
            tags: &skill.tags,
            examples: &skill.examples,
            input_modes: &skill.input_modes,
            output_modes: &skill.output_modes,
            security: &skill.security_requirements,
        }
    }
}

/// Reads a card; `None` for one in the OpenAPI form.
pub(super) fn read(body: &[u8], losses: &mut Losses) -> Result<Option<AgentCard>, Fault> {
    let card: Card = reply::parse(body)?;
    let is_open_api = card.security_schemes.values().any(|scheme| scheme.0.kind.is_some())
        || card.security.iter().chain(card.skills.iter().flat_map(|s| &s.0.security)).any(|s| s.0.is_open_api());
    Ok((!is_open_api).then(|| card.into_canonical(losses)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    #[serde(alias = "protocol_version", default, deserialize_with = "null_default")]
    protocol_version: String,
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    description: String,
    #[serde(default, deserialize_with = "null_default")]
    url: String,
    #[serde(alias = "preferred_transport", default, deserialize_with = "null_default")]
    preferred_transport: String,
    #[serde(alias = "additional_interfaces", default, deserialize_with = "null_default")]
    additional_interfaces: Vec<ListObject<InterfaceIn>>,
    #[serde(default, deserialize_with = "optional_object")]
    provider: Option<ProviderIn>,
    #[serde(default, deserialize_with = "null_default")]
    version: String,
    #[serde(alias = "documentation_url", default, deserialize_with = "empty_none")]
    documentation_url: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    capabilities: Option<CapabilitiesIn>,
    #[serde(alias = "security_schemes", default, deserialize_with = "null_default")]
    security_schemes: BTreeMap<String, ListObject<Scheme>>,
    #[serde(default, deserialize_with = "null_default")]
    security: Vec<ListObject<Requirement>>,
    #[serde(alias = "default_input_modes", default, deserialize_with = "null_default")]
    default_input_modes: Vec<String>,
    #[serde(alias = "default_output_modes", default, deserialize_with = "null_default")]
    default_output_modes: Vec<String>,
    #[serde(default, deserialize_with = "null_default")]
    skills: Vec<ListObject<SkillIn>>,
    #[serde(alias = "supports_authenticated_extended_card", default, deserialize_with = "null_default")]
    supports_authenticated_extended_card: bool,
    #[serde(default, deserialize_with = "null_default")]
    signatures: Vec<IgnoredAny>,
    #[serde(alias = "icon_url", default, deserialize_with = "empty_none")]
    icon_url: Option<String>,
}

impl Card {
    fn into_canonical(self, losses: &mut Losses) -> AgentCard {
        if !self.signatures.is_empty() {
            losses.note(LossKind::Signature, "signatures");
        }
        let interfaces = Interfaces {
            url: self.url,
            preferred_transport: self.preferred_transport,
            protocol_version: self.protocol_version,
            additional: self.additional_interfaces.into_iter().map(|i| (i.0.url, i.0.transport)).collect(),
        };
        let list = Path::Root.member("securitySchemes");
        let mut security_schemes = BTreeMap::new();
        for (name, scheme) in self.security_schemes {
            let path = list.key(&name);
            match scheme.0.into_canonical(&path, losses) {
                Some(scheme) => drop(security_schemes.insert(name, scheme)),
                None => losses.note(LossKind::Security, path),
            }
        }
        let capabilities = self.capabilities.unwrap_or_default();
        AgentCard {
            name: self.name,
            description: self.description,
            supported_interfaces: interfaces.into_canonical(),
            provider: self.provider.map(|p| Provider { url: p.url, organization: p.organization }),
            version: self.version,
            documentation_url: self.documentation_url,
            capabilities: Capabilities {
                streaming: true_or_unset(capabilities.streaming),
                push_notifications: true_or_unset(capabilities.push_notifications),
                extensions: capabilities.extensions.into_iter().map(|extension| extension.0.into_canonical()).collect(),
                extended_agent_card: true_or_unset(self.supports_authenticated_extended_card),
            },
            security_schemes,
            security_requirements: self
                .security
                .into_iter()
                .map(|requirement| requirement.0.into_canonical())
                .collect(),
            default_input_modes: self.default_input_modes,
            default_output_modes: self.default_output_modes,
            skills: self.skills.into_iter().map(|skill| skill.0.into_canonical()).collect(),
            signatures: Vec::new(),
            icon_url: self.icon_url,
        }
    }
}

#[derive(Deserialize)]
struct InterfaceIn {
    #[serde(default, deserialize_with = "null_default")]
    url: String,
    #[serde(default, deserialize_with = "null_default")]
    transport: String,
}

#[derive(Deserialize)]
struct ProviderIn {
    #[serde(default, deserialize_with = "null_default")]
    url: String,
    #[serde(default, deserialize_with = "null_default")]
    organization: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapabilitiesIn {
    #[serde(default, deserialize_with = "null_default")]
    streaming: bool,
    #[serde(alias = "push_notifications", default, deserialize_with = "null_default")]
    push_notifications: bool,
    #[serde(default, deserialize_with = "null_default")]
    extensions: Vec<ListObject<ExtensionIn>>,
}

#[derive(Deserialize)]
struct ExtensionIn {
    #[serde(default, deserialize_with = "null_default")]
    uri: String,
    #[serde(default, deserialize_with = "empty_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    required: bool,
    #[serde(default)]
    params: Option<Object>,
}

impl ExtensionIn {
    fn into_canonical(self) -> Extension {
        Extension { uri: self.uri, description: self.description, required: self.required, params: self.params }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SkillIn {
    #[serde(default, deserialize_with = "null_default")]
    id: String,
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    description: String,
    #[serde(default, deserialize_with = "null_default")]
    tags: Vec<String>,
    #[serde(default, deserialize_with = "null_default")]
    examples: Vec<String>,
    #[serde(alias = "input_modes", default, deserialize_with = "null_default")]
    input_modes: Vec<String>,
    #[serde(alias = "output_modes", default, deserialize_with = "null_default")]
    output_modes: Vec<String>,
    #[serde(default, deserialize_with = "null_default")]
    security: Vec<ListObject<Requirement>>,
}

impl SkillIn {
    fn into_canonical(self) -> Skill {
        Skill {
            id: self.id,
            name: self.name,
            description: self.description,
            tags: self.tags,
            examples: self.examples,
            input_modes: self.input_modes,
            output_modes: self.output_modes,
            security_requirements: self
                .security
                .into_iter()
                .map(|requirement| requirement.0.into_canonical())
                .collect(),
        }
    }
}

/// `Security`. In the OpenAPI form the schemes are its members; reading that as "no scheme at all" would hide that
/// callers must authenticate.
#[derive(Deserialize)]
struct Requirement {
    #[serde(default)]
    schemes: Option<BTreeMap<String, StringList>>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

impl Requirement {
    fn is_open_api(&self) -> bool {
        self.schemes.is_none() && !self.others.is_empty()
    }

    fn into_canonical(self) -> SecurityRequirement {
        SecurityRequirement { schemes: self.schemes.unwrap_or_default() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scheme {
    /// The mark of the OpenAPI form.
    #[serde(rename = "type", default)]
    kind: Option<IgnoredAny>,
    #[serde(alias = "api_key_security_scheme", default, deserialize_with = "optional_object")]
    api_key_security_scheme: Option<SchemeMembers>,
    #[serde(alias = "http_auth_security_scheme", default, deserialize_with = "optional_object")]
    http_auth_security_scheme: Option<SchemeMembers>,
    #[serde(alias = "oauth2_security_scheme", default, deserialize_with = "optional_object")]
    oauth2_security_scheme: Option<SchemeMembers>,
    #[serde(alias = "open_id_connect_security_scheme", default, deserialize_with = "optional_object")]
    open_id_connect_security_scheme: Option<SchemeMembers>,
    #[serde(alias = "mtls_security_scheme", default, deserialize_with = "optional_object")]
    mtls_security_scheme: Option<SchemeMembers>,
}

/// The members of all kinds of schemes; each kind uses its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemeMembers {
    #[serde(default, deserialize_with = "empty_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    location: String,
    #[serde(default, deserialize_with = "null_default")]
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    scheme: String,
    #[serde(alias = "bearer_format", default, deserialize_with = "empty_none")]
    bearer_format: Option<String>,
    #[serde(default, deserialize_with = "optional_object")]
    flows: Option<Flows>,
    #[serde(alias = "oauth2_metadata_url", default, deserialize_with = "empty_none")]
    oauth2_metadata_url: Option<String>,
    #[serde(alias = "open_id_connect_url", default, deserialize_with = "null_default")]
    open_id_connect_url: String,
}

impl Scheme {
    /// `None` for a kind that this code does not know, or for none at all.
    fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> Option<SecurityScheme> {
        if let Some(SchemeMembers { description, location, name, .. }) = self.api_key_security_scheme {
            return Some(SecurityScheme::ApiKey { description, location, name });
        }
        if let Some(SchemeMembers { description, scheme, bearer_format, .. }) = self.http_auth_security_scheme {
            return Some(SecurityScheme::HttpAuth { description, scheme, bearer_format });
        }
        if let Some(SchemeMembers { description, flows, oauth2_metadata_url, .. }) = self.oauth2_security_scheme {
            let path = path.member("oauth2SecurityScheme");
            let flows = flows?.into_canonical(&path.member("flows"), losses)?;
            return Some(SecurityScheme::OAuth2 { description, flows, oauth2_metadata_url });
        }
        if let Some(SchemeMembers { description, open_id_connect_url, .. }) = self.open_id_connect_security_scheme {
            return Some(SecurityScheme::OpenIdConnect { description, open_id_connect_url });
        }
        self.mtls_security_scheme.map(|words| SecurityScheme::MutualTls { description: words.description })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flows {
    #[serde(alias = "authorization_code", default, deserialize_with = "optional_object")]
    authorization_code: Option<Flow>,
    #[serde(alias = "client_credentials", default, deserialize_with = "optional_object")]
    client_credentials: Option<Flow>,
    #[serde(default, deserialize_with = "optional_object")]
    implicit: Option<Flow>,
    #[serde(default, deserialize_with = "optional_object")]
    password: Option<Flow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flow {
    #[serde(alias = "authorization_url", default, deserialize_with = "null_default")]
    authorization_url: String,
    #[serde(alias = "token_url", default, deserialize_with = "null_default")]
    token_url: String,
    #[serde(alias = "refresh_url", default, deserialize_with = "empty_none")]
    refresh_url: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    scopes: BTreeMap<String, String>,
}

impl Flows {
    /// The safest of the flows; 1.0 has only one.
    fn into_canonical(self, path: &Path<'_>, losses: &mut Losses) -> Option<OAuthFlows> {
        let code = self.authorization_code.map(|f| OAuthFlows::AuthorizationCode {
            authorization_url: f.authorization_url,
            token_url: f.token_url,
            refresh_url: f.refresh_url,
            scopes: f.scopes,
            pkce_required: false,
        });
        let client = self.client_credentials.map(|f| OAuthFlows::ClientCredentials {
            token_url: f.token_url,
            refresh_url: f.refresh_url,
            scopes: f.scopes,
        });
        let some = crate::path::non_empty;
        let implicit = self.implicit.map(|f| OAuthFlows::Implicit {
            authorization_url: some(f.authorization_url),
            refresh_url: f.refresh_url,
            scopes: f.scopes,
        });
        let password = self.password.map(|f| OAuthFlows::Password {
            token_url: some(f.token_url),
            refresh_url: f.refresh_url,
            scopes: f.scopes,
        });
        let mut flows = [code, client, implicit, password].into_iter().flatten();
        let first = flows.next();
        if flows.next().is_some() {
            losses.note(LossKind::Security, path);
        }
        first
    }
}
