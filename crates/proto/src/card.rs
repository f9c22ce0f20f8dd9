//! The agent card: what an agent says about itself.

use crate::Object;
use crate::lenient::{empty_none, is_false, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `AgentCard`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The agent's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Where and how it is reached, preferred first.
    pub supported_interfaces: Vec<Interface>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The agent's own version.
    pub version: String,
    /// Where its documentation is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// What it can do beyond the basics.
    pub capabilities: Capabilities,
    /// How a caller may authenticate, by name.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Which of the schemes are needed: alternatives.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types it takes.
    pub default_input_modes: Vec<String>,
    /// Media types it gives.
    pub default_output_modes: Vec<String>,
    /// What it is good at.
    pub skills: Vec<Skill>,
    /// Who vouches for this card.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Signature>,
    /// A picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// `AgentInterface`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Where; for gRPC `host:port`.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or a URI.
    pub protocol_binding: String,
    /// To be echoed on every request.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `1.0`, `0.3`.
    pub protocol_version: String,
}

/// `AgentProvider`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Its site.
    pub url: String,
    /// Its name.
    pub organization: String,
}

/// `AgentCapabilities`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Delivers to webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// Extensions it knows.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
    /// Has a richer card for authenticated callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_agent_card: Option<bool>,
}

/// `AgentExtension`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Its name and version.
    pub uri: String,
    /// What it is for.
    #[serde(default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Callers must activate it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Object>,
}

/// `AgentSkill`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Unique within the agent.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people and for choosing.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Things to say to it.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types, where they differ from the agent's.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Media types, where they differ from the agent's.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// Schemes this skill needs.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// `AgentCardSignature`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The protected header, base64url.
    pub protected: String,
    /// The signature, base64url.
    pub signature: String,
    /// The unprotected header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Object>,
}

/// `SecurityRequirement`: every scheme named here is needed, with these scopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityRequirement {
    /// Scheme to scopes.
    #[serde(default, deserialize_with = "null_default")]
    pub schemes: BTreeMap<String, StringList>,
}

/// `StringList`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StringList {
    /// The strings.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<String>,
}

/// `SecurityScheme`
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

/// `OAuthFlows`: one flow only.
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
