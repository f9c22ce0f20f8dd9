//! The agent card: an agent's description of itself.

use crate::Object;
use crate::lenient::{empty_none, is_false, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The agent card of A2A 1.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The name that people read.
    pub name: String,
    /// What the agent does, for people and for choosing an agent.
    pub description: String,
    /// The interfaces of the agent, preferred first.
    pub supported_interfaces: Vec<Interface>,
    /// The organization that operates the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The version of the agent, not of the protocol.
    pub version: String,
    /// The URL of the documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// The optional features that the agent supports.
    pub capabilities: Capabilities,
    /// The authentication schemes of the agent, by name.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// The schemes that a caller needs; the entries are alternatives.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types that the agent accepts.
    pub default_input_modes: Vec<String>,
    /// Media types that the agent produces.
    pub default_output_modes: Vec<String>,
    /// The skills that the agent offers.
    pub skills: Vec<Skill>,
    /// Signatures over this card.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<CardSignature>,
    /// The URL of an icon for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// An interface of an agent: a URL, a binding and a protocol version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// The URL of the interface; for gRPC also `host:port`.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or a URI.
    pub protocol_binding: String,
    /// The tenant that a caller sends with every request.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The A2A version, such as `1.0` or `0.3`.
    pub protocol_version: String,
}

/// The organization that operates an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// The website of the organization.
    pub url: String,
    /// The name of the organization.
    pub organization: String,
}

/// The optional features that an agent supports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// The agent streams events of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// The agent sends push notifications to webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// The extensions that the agent supports.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// The agent has an extended card for authenticated callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_agent_card: Option<bool>,
}

/// An extension of the protocol that an agent supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// The URI that names the extension and its version.
    pub uri: String,
    /// How the agent uses the extension.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Callers must activate the extension.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Parameters that the extension defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Object>,
}

/// A skill that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The id, unique within the agent.
    pub id: String,
    /// The name that people read.
    pub name: String,
    /// What the skill does, for people and for choosing a skill.
    pub description: String,
    /// Keywords for searching.
    pub tags: Vec<String>,
    /// Example messages for the skill.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Accepted media types, where they differ from the agent's.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Produced media types, where they differ from the agent's.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// The schemes that this skill needs; the entries are alternatives.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// A signature over an agent card (`AgentCardSignature`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardSignature {
    /// The protected JWS header, base64url.
    pub protected: String,
    /// The JWS signature, base64url.
    pub signature: String,
    /// The unprotected JWS header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Object>,
}

/// One alternative of the security requirements: every scheme named here is needed, with these scopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityRequirement {
    /// The required scopes of each scheme, by the name of the scheme.
    #[serde(default, deserialize_with = "null_default")]
    pub schemes: BTreeMap<String, StringList>,
}

/// A list of strings, which ProtoJSON wraps in an object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StringList {
    /// The strings of the list.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<String>,
}

/// An authentication scheme of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "members are the specification's, which explains them")]
pub enum SecurityScheme {
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        location: String,
        name: String,
    },
    #[serde(rename = "httpAuthSecurityScheme", rename_all = "camelCase")]
    HttpAuth {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        scheme: String,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        bearer_format: Option<String>,
    },
    #[serde(rename = "oauth2SecurityScheme", rename_all = "camelCase")]
    OAuth2 {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        flows: OAuthFlows,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        oauth2_metadata_url: Option<String>,
    },
    #[serde(rename = "openIdConnectSecurityScheme", rename_all = "camelCase")]
    OpenIdConnect {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        open_id_connect_url: String,
    },
    #[serde(rename = "mtlsSecurityScheme")]
    MutualTls {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
}

/// The OAuth 2 flow of a scheme; a scheme has exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "members are the specification's, which explains them")]
pub enum OAuthFlows {
    #[serde(rename_all = "camelCase")]
    AuthorizationCode {
        authorization_url: String,
        token_url: String,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        refresh_url: Option<String>,
        scopes: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "is_false")]
        pkce_required: bool,
    },
    #[serde(rename_all = "camelCase")]
    ClientCredentials {
        token_url: String,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        refresh_url: Option<String>,
        scopes: BTreeMap<String, String>,
    },
    #[serde(rename_all = "camelCase")]
    Implicit {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        authorization_url: Option<String>,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        refresh_url: Option<String>,
        #[serde(default, deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
        scopes: BTreeMap<String, String>,
    },
    #[serde(rename_all = "camelCase")]
    Password {
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        token_url: Option<String>,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        refresh_url: Option<String>,
        #[serde(default, deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
        scopes: BTreeMap<String, String>,
    },
    #[serde(rename_all = "camelCase")]
    DeviceCode {
        device_authorization_url: String,
        token_url: String,
        #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
        refresh_url: Option<String>,
        scopes: BTreeMap<String, String>,
    },
}
