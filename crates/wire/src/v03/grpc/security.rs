//! The security of a card in protobuf: schemes, flows, requirements.

use crate::path::non_empty;
use crate::pb::a2a_v03 as pb;
use pb::o_auth_flows::Flow;
use pb::security_scheme::Scheme;
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme, StringList};

pub(super) fn read_requirement(requirement: pb::Security) -> SecurityRequirement {
    let schemes = requirement.schemes.into_iter().map(|(name, scopes)| (name, StringList { list: scopes.list }));
    SecurityRequirement { schemes: schemes.collect() }
}

pub(super) fn write_requirement(requirement: SecurityRequirement) -> pb::Security {
    let schemes = requirement.schemes.into_iter().map(|(name, scopes)| (name, pb::StringList { list: scopes.list }));
    pb::Security { schemes: schemes.collect() }
}

/// Reads a scheme. `None` for a kind of scheme or flow that this code does not know, or for none at all.
pub(super) fn read_scheme(scheme: pb::SecurityScheme) -> Option<SecurityScheme> {
    Some(match scheme.scheme? {
        Scheme::ApiKeySecurityScheme(s) => {
            SecurityScheme::ApiKey { description: non_empty(s.description), location: s.location, name: s.name }
        }
        Scheme::HttpAuthSecurityScheme(s) => SecurityScheme::HttpAuth {
            description: non_empty(s.description),
            scheme: s.scheme,
            bearer_format: non_empty(s.bearer_format),
        },
        Scheme::Oauth2SecurityScheme(s) => SecurityScheme::OAuth2 {
            description: non_empty(s.description),
            flows: read_flows(s.flows?)?,
            oauth2_metadata_url: non_empty(s.oauth2_metadata_url),
        },
        Scheme::OpenIdConnectSecurityScheme(s) => SecurityScheme::OpenIdConnect {
            description: non_empty(s.description),
            open_id_connect_url: s.open_id_connect_url,
        },
        Scheme::MtlsSecurityScheme(s) => SecurityScheme::MutualTls { description: non_empty(s.description) },
    })
}

pub(super) fn write_scheme(scheme: SecurityScheme) -> pb::SecurityScheme {
    let scheme = match scheme {
        SecurityScheme::ApiKey { description, location, name } => {
            let description = description.unwrap_or_default();
            Scheme::ApiKeySecurityScheme(pb::ApiKeySecurityScheme { description, location, name })
        }
        SecurityScheme::HttpAuth { description, scheme, bearer_format } => {
            Scheme::HttpAuthSecurityScheme(pb::HttpAuthSecurityScheme {
                description: description.unwrap_or_default(),
                scheme,
                bearer_format: bearer_format.unwrap_or_default(),
            })
        }
        SecurityScheme::OAuth2 { description, flows, oauth2_metadata_url } => {
            Scheme::Oauth2SecurityScheme(pb::OAuth2SecurityScheme {
                description: description.unwrap_or_default(),
                flows: Some(pb::OAuthFlows { flow: write_flow(flows) }),
                oauth2_metadata_url: oauth2_metadata_url.unwrap_or_default(),
            })
        }
        SecurityScheme::OpenIdConnect { description, open_id_connect_url } => {
            let description = description.unwrap_or_default();
            Scheme::OpenIdConnectSecurityScheme(pb::OpenIdConnectSecurityScheme { description, open_id_connect_url })
        }
        SecurityScheme::MutualTls { description } => {
            Scheme::MtlsSecurityScheme(pb::MutualTlsSecurityScheme { description: description.unwrap_or_default() })
        }
    };
    pb::SecurityScheme { scheme: Some(scheme) }
}

fn read_flows(flows: pb::OAuthFlows) -> Option<OAuthFlows> {
    Some(match flows.flow? {
        Flow::AuthorizationCode(f) => OAuthFlows::AuthorizationCode {
            authorization_url: f.authorization_url,
            token_url: f.token_url,
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
            pkce_required: false,
        },
        Flow::ClientCredentials(f) => OAuthFlows::ClientCredentials {
            token_url: f.token_url,
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
        },
        Flow::Implicit(f) => OAuthFlows::Implicit {
            authorization_url: non_empty(f.authorization_url),
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
        },
        Flow::Password(f) => OAuthFlows::Password {
            token_url: non_empty(f.token_url),
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
        },
    })
}

/// Writes a flow. `None` for device code, which 0.3 does not have; the card has been rid of it before.
fn write_flow(flows: OAuthFlows) -> Option<Flow> {
    Some(match flows {
        OAuthFlows::AuthorizationCode { authorization_url, token_url, refresh_url, scopes, pkce_required: _ } => {
            Flow::AuthorizationCode(pb::AuthorizationCodeOAuthFlow {
                authorization_url,
                token_url,
                refresh_url: refresh_url.unwrap_or_default(),
                scopes,
            })
        }
        OAuthFlows::ClientCredentials { token_url, refresh_url, scopes } => {
            let refresh_url = refresh_url.unwrap_or_default();
            Flow::ClientCredentials(pb::ClientCredentialsOAuthFlow { token_url, refresh_url, scopes })
        }
        OAuthFlows::Implicit { authorization_url, refresh_url, scopes } => Flow::Implicit(pb::ImplicitOAuthFlow {
            authorization_url: authorization_url.unwrap_or_default(),
            refresh_url: refresh_url.unwrap_or_default(),
            scopes,
        }),
        OAuthFlows::Password { token_url, refresh_url, scopes } => Flow::Password(pb::PasswordOAuthFlow {
            token_url: token_url.unwrap_or_default(),
            refresh_url: refresh_url.unwrap_or_default(),
            scopes,
        }),
        OAuthFlows::DeviceCode { .. } => return None,
    })
}
