//! The security of a card in protobuf: schemes, flows, requirements.

use crate::path::{MemberError, Path, non_empty};
use crate::pb::lf_a2a_v1 as pb;
use crate::pb::lf_a2a_v1::o_auth_flows::Flow;
use crate::pb::lf_a2a_v1::security_scheme::Scheme;
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme, StringList};

pub(super) fn read_requirement(requirement: pb::SecurityRequirement) -> SecurityRequirement {
    let schemes = requirement.schemes.into_iter().map(|(name, scopes)| (name, StringList { list: scopes.list }));
    SecurityRequirement { schemes: schemes.collect() }
}

pub(super) fn write_requirement(requirement: &SecurityRequirement) -> pb::SecurityRequirement {
    let list = |scopes: &StringList| pb::StringList { list: scopes.list.clone() };
    pb::SecurityRequirement {
        schemes: requirement.schemes.iter().map(|(name, scopes)| (name.clone(), list(scopes))).collect(),
    }
}

pub(super) fn read_scheme(scheme: pb::SecurityScheme, path: &Path<'_>) -> Result<SecurityScheme, MemberError> {
    // A kind of scheme that this code does not know also reads as an unset oneof.
    let scheme = scheme.scheme.ok_or_else(|| path.error("is none of the security schemes of A2A 1.0"))?;
    Ok(match scheme {
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
            flows: read_flows(s.flows, &path.member("oauth2SecurityScheme").member("flows"))?,
            oauth2_metadata_url: non_empty(s.oauth2_metadata_url),
        },
        Scheme::OpenIdConnectSecurityScheme(s) => SecurityScheme::OpenIdConnect {
            description: non_empty(s.description),
            open_id_connect_url: s.open_id_connect_url,
        },
        Scheme::MtlsSecurityScheme(s) => SecurityScheme::MutualTls { description: non_empty(s.description) },
    })
}

pub(super) fn write_scheme(scheme: &SecurityScheme) -> pb::SecurityScheme {
    let scheme = match scheme.clone() {
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
                flows: Some(write_flows(flows)),
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

fn read_flows(flows: Option<pb::OAuthFlows>, path: &Path<'_>) -> Result<OAuthFlows, MemberError> {
    let flow = path.required(flows)?.flow.ok_or_else(|| path.error("is none of the flows of A2A 1.0"))?;
    Ok(match flow {
        Flow::AuthorizationCode(f) => OAuthFlows::AuthorizationCode {
            authorization_url: f.authorization_url,
            token_url: f.token_url,
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
            pkce_required: f.pkce_required,
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
        Flow::DeviceCode(f) => OAuthFlows::DeviceCode {
            device_authorization_url: f.device_authorization_url,
            token_url: f.token_url,
            refresh_url: non_empty(f.refresh_url),
            scopes: f.scopes,
        },
    })
}

fn write_flows(flows: OAuthFlows) -> pb::OAuthFlows {
    let flow = match flows {
        OAuthFlows::AuthorizationCode { authorization_url, token_url, refresh_url, scopes, pkce_required } => {
            Flow::AuthorizationCode(pb::AuthorizationCodeOAuthFlow {
                authorization_url,
                token_url,
                refresh_url: refresh_url.unwrap_or_default(),
                scopes,
                pkce_required,
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
        OAuthFlows::DeviceCode { device_authorization_url, token_url, refresh_url, scopes } => {
            Flow::DeviceCode(pb::DeviceCodeOAuthFlow {
                device_authorization_url,
                token_url,
                refresh_url: refresh_url.unwrap_or_default(),
                scopes,
            })
        }
    };
    pb::OAuthFlows { flow: Some(flow) }
}
