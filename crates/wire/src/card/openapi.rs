//! Security as OpenAPI writes it and every form before 1.0 does: schemes told apart by `type`, requirements as a plain
//! map of scheme to scopes.

use crate::{LossKind, Losses};
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme};
use sabir_proto::lenient::is_false;
use serde::Serialize;
use std::collections::BTreeMap;

/// A security scheme.
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

/// OAuth flows by name; we never have more than one.
type Flows<'a> = BTreeMap<&'static str, Flow<'a>>;

/// An OAuth flow, with the members it has.
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

/// Scheme to scopes: all of them are needed.
pub(super) type Requirement<'a> = BTreeMap<&'a str, &'a [String]>;

/// Whose schemes are to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// 0.2: no mutual TLS, no metadata address.
    V02,
    /// 0.3.
    V03,
    /// 0.3's way to write what 1.0 has. A reader of 0.3 passes over what it does not know, and one of 1.0 may read these
    /// members rather than its own (the Python SDK does), so that nothing may be missing here.
    Whole,
}

/// Writes a scheme, unless there is no way to write it.
pub(super) fn scheme<'a>(
    name: &str,
    scheme: &'a SecurityScheme,
    reach: Reach,
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
            let Some(flows) = self::flows(name, flows, reach, losses) else {
                // How the token is got cannot be said; how it is shown can, and requirements go on meaning something.
                let description = description.as_deref();
                return Some(Scheme::Http { description, scheme: "bearer", bearer_format: None });
            };
            let mut oauth2_metadata_url = oauth2_metadata_url.as_deref();
            if reach == Reach::V02 && oauth2_metadata_url.take().is_some() {
                let path = format_args!("securitySchemes.{name}.oauth2SecurityScheme.oauth2MetadataUrl");
                losses.note(LossKind::Security, path);
            }
            Scheme::Oauth2 { description: description.as_deref(), flows, oauth2_metadata_url }
        }
        SecurityScheme::OpenIdConnect { description, open_id_connect_url } => {
            Scheme::OpenIdConnect { description: description.as_deref(), open_id_connect_url }
        }
        SecurityScheme::MutualTls { .. } if reach == Reach::V02 => {
            losses.note(LossKind::Security, format_args!("securitySchemes.{name}"));
            return None;
        }
        SecurityScheme::MutualTls { description } => Scheme::MutualTls { description: description.as_deref() },
    })
}

fn flows<'a>(name: &str, flows: &'a OAuthFlows, reach: Reach, losses: &mut Losses) -> Option<Flows<'a>> {
    let flow = |scopes, refresh_url: &'a Option<String>| Flow {
        authorization_url: None,
        device_authorization_url: None,
        token_url: None,
        refresh_url: refresh_url.as_deref(),
        scopes,
        pkce_required: false,
    };
    // Required here and optional in 1.0.
    let or_empty = |url: &'a Option<String>| Some(url.as_deref().unwrap_or_default());
    let named = match flows {
        OAuthFlows::AuthorizationCode { authorization_url, token_url, refresh_url, scopes, pkce_required } => {
            if *pkce_required && reach != Reach::Whole {
                let flow = format_args!("securitySchemes.{name}.oauth2SecurityScheme.flows.authorizationCode");
                losses.note(LossKind::Security, format_args!("{flow}.pkceRequired"));
            }
            let code = Flow {
                authorization_url: Some(authorization_url),
                token_url: Some(token_url),
                pkce_required: *pkce_required && reach == Reach::Whole,
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
        // OAuth without any flow would do by the letter, but the JS SDK refuses the whole card for it.
        OAuthFlows::DeviceCode { .. } if reach != Reach::Whole => {
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

/// Writes requirements. They are carried whole even where the scheme they name is not: a caller that finds no such
/// scheme looks for another way in, one that finds no requirement walks into a refusal.
pub(super) fn requirements(requirements: &[SecurityRequirement]) -> Vec<Requirement<'_>> {
    requirements.iter().map(|r| r.schemes.iter().map(|(name, s)| (&**name, &*s.list)).collect()).collect()
}
