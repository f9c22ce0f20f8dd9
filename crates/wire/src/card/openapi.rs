//! Security as OpenAPI and every form before 1.0 write it: schemes told apart by `type`, requirements as a plain map
//! from scheme to scopes.

use crate::{LossKind, Losses};
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme};
use sabir_proto::lenient::is_false;
use serde::Serialize;
use std::collections::BTreeMap;

/// A security scheme, told apart by `type`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Scheme<'a> {
    ApiKey {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        r#in: &'a str,
        name: &'a str,
    },
    Http {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        scheme: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        bearer_format: Option<&'a str>,
    },
    Oauth2 {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        flows: Flows<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        oauth2_metadata_url: Option<&'a str>,
    },
    OpenIdConnect {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        open_id_connect_url: &'a str,
    },
    #[serde(rename = "mutualTLS")]
    MutualTls {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
    },
}

/// OAuth flows by name; the canonical card has at most one.
type Flows<'a> = BTreeMap<&'static str, Flow<'a>>;

/// An OAuth flow; each kind of flow sets its own members.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Flow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    authorization_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_authorization_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_url: Option<&'a str>,
    scopes: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_false")]
    pkce_required: bool,
}

/// From scheme to scopes; a caller needs all of them.
pub(super) type Requirement<'a> = BTreeMap<&'a str, &'a [String]>;

/// The version whose schemes are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemeVersion {
    /// A2A 0.2: no mutual TLS, no OAuth metadata URL.
    V02,
    /// A2A 0.3: no device code, no `pkceRequired`.
    V03,
    /// All that 1.0 has, written as in 0.3. A client of 0.3 ignores members it does not know. A client of 1.0 may read
    /// these members rather than its own (the Python SDK does), so they must be complete.
    V1InV03,
}

/// Writes a scheme; `None` if the version has no way to write it.
pub(super) fn scheme<'a>(
    name: &str,
    scheme: &'a SecurityScheme,
    version: SchemeVersion,
    losses: &mut Losses,
) -> Option<Scheme<'a>> {
    Some(match scheme {
        SecurityScheme::ApiKey { description, location, name } => {
            Scheme::ApiKey { description: description.as_deref(), r#in: location, name }
        }
        SecurityScheme::HttpAuth { description, scheme, bearer_format } => {
            Scheme::Http { description: description.as_deref(), scheme, bearer_format: bearer_format.as_deref() }
        }
        SecurityScheme::OAuth2 { description, flows, oauth2_metadata_url } => {
            let Some(flows) = self::flows(name, flows, version, losses) else {
                // How to get the token cannot be written, but how to send it can. The scheme stays, so requirements
                // that name it keep their meaning.
                let description = description.as_deref();
                return Some(Scheme::Http { description, scheme: "bearer", bearer_format: None });
            };
            let mut oauth2_metadata_url = oauth2_metadata_url.as_deref();
            if version == SchemeVersion::V02 && oauth2_metadata_url.take().is_some() {
                let path = format_args!("securitySchemes.{name}.oauth2SecurityScheme.oauth2MetadataUrl");
                losses.note(LossKind::Security, path);
            }
            Scheme::Oauth2 { description: description.as_deref(), flows, oauth2_metadata_url }
        }
        SecurityScheme::OpenIdConnect { description, open_id_connect_url } => {
            Scheme::OpenIdConnect { description: description.as_deref(), open_id_connect_url }
        }
        SecurityScheme::MutualTls { .. } if version == SchemeVersion::V02 => {
            losses.note(LossKind::Security, format_args!("securitySchemes.{name}"));
            return None;
        }
        SecurityScheme::MutualTls { description } => Scheme::MutualTls { description: description.as_deref() },
    })
}

fn flows<'a>(name: &str, flows: &'a OAuthFlows, version: SchemeVersion, losses: &mut Losses) -> Option<Flows<'a>> {
    let flow = |scopes, refresh_url: &'a Option<String>| Flow {
        authorization_url: None,
        device_authorization_url: None,
        token_url: None,
        refresh_url: refresh_url.as_deref(),
        scopes,
        pkce_required: false,
    };
    // These URLs are required here and optional in 1.0.
    let or_empty = |url: &'a Option<String>| Some(url.as_deref().unwrap_or_default());
    let named = match flows {
        OAuthFlows::AuthorizationCode { authorization_url, token_url, refresh_url, scopes, pkce_required } => {
            if *pkce_required && version != SchemeVersion::V1InV03 {
                let flow = format_args!("securitySchemes.{name}.oauth2SecurityScheme.flows.authorizationCode");
                losses.note(LossKind::Security, format_args!("{flow}.pkceRequired"));
            }
            let code = Flow {
                authorization_url: Some(authorization_url),
                token_url: Some(token_url),
                pkce_required: *pkce_required && version == SchemeVersion::V1InV03,
                ..flow(scopes, refresh_url)
            };
            ("authorizationCode", code)
        }
        OAuthFlows::ClientCredentials { token_url, refresh_url, scopes } => {
            ("clientCredentials", Flow { token_url: Some(token_url), ..flow(scopes, refresh_url) })
        }
        OAuthFlows::Implicit { authorization_url, refresh_url, scopes } => {
            ("implicit", Flow { authorization_url: or_empty(authorization_url), ..flow(scopes, refresh_url) })
        }
        OAuthFlows::Password { token_url, refresh_url, scopes } => {
            ("password", Flow { token_url: or_empty(token_url), ..flow(scopes, refresh_url) })
        }
        // The schema allows OAuth without any flow, but the JS SDK refuses the whole card for it.
        OAuthFlows::DeviceCode { .. } if version != SchemeVersion::V1InV03 => {
            losses.note(LossKind::Security, format_args!("securitySchemes.{name}"));
            return None;
        }
        OAuthFlows::DeviceCode { device_authorization_url, token_url, refresh_url, scopes } => {
            let device = Flow {
                device_authorization_url: Some(device_authorization_url),
                token_url: Some(token_url),
                ..flow(scopes, refresh_url)
            };
            ("deviceCode", device)
        }
    };
    Some([named].into())
}

/// Writes requirements. They are written even where the scheme they name is not: a caller that does not find the scheme
/// looks for another way to authenticate, while one that finds no requirement calls without credentials and is refused.
pub(super) fn requirements(requirements: &[SecurityRequirement]) -> Vec<Requirement<'_>> {
    requirements.iter().map(|r| r.schemes.iter().map(|(name, s)| (&**name, &*s.list)).collect()).collect()
}
