//! Reads security schemes and requirements in cards of any form: wrapped as in 1.0, or with a `type` as in OpenAPI.

use super::CardSchema;
use super::lint::{self, Findings};
use super::members::{MemberReader, camel_case, entries, shortened, text};
use crate::LossKind;
use crate::path::{MemberError, Path};
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme, StringList};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The kinds of security schemes.
#[derive(Clone, Copy)]
enum SchemeKind {
    ApiKey,
    Http,
    OAuth2,
    OpenIdConnect,
    MutualTls,
}

impl SchemeKind {
    const ALL: [Self; 5] = [Self::ApiKey, Self::Http, Self::OAuth2, Self::OpenIdConnect, Self::MutualTls];

    /// The member that wraps it in 1.0.
    const fn wrapper_member(self) -> &'static str {
        match self {
            Self::ApiKey => "apiKeySecurityScheme",
            Self::Http => "httpAuthSecurityScheme",
            Self::OAuth2 => "oauth2SecurityScheme",
            Self::OpenIdConnect => "openIdConnectSecurityScheme",
            Self::MutualTls => "mtlsSecurityScheme",
        }
    }

    /// Its `type` in OpenAPI.
    const fn type_name(self) -> &'static str {
        match self {
            Self::ApiKey => "apiKey",
            Self::Http => "http",
            Self::OAuth2 => "oauth2",
            Self::OpenIdConnect => "openIdConnect",
            Self::MutualTls => "mutualTLS",
        }
    }
}

/// Reads schemes. One that cannot be read is left out and noted, because the caller may be able to use another.
pub(super) fn read_schemes(
    schemes: Vec<(String, &RawValue)>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Result<BTreeMap<String, SecurityScheme>, MemberError> {
    let mut read = BTreeMap::new();
    for (name, value) in schemes {
        let at = at.key(shortened(&name));
        match read_scheme(value, &at, found)? {
            Some(scheme) => {
                read.insert(name, scheme);
            }
            None => found.losses.note(LossKind::Security, at),
        }
    }
    Ok(read)
}

fn read_scheme(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Result<Option<SecurityScheme>, MemberError> {
    let Some(mut members) = MemberReader::open(value, at, found)? else { return Ok(None) };
    let old_form = !matches!(found.form, CardSchema::V1 | CardSchema::Hybrid);
    for kind in SchemeKind::ALL {
        let Some(inner) = members.take(kind.wrapper_member(), found) else { continue };
        let inner_at = at.member(kind.wrapper_member());
        if old_form {
            found.lint(lint::OTHER_VERSION, &inner_at, "is how 1.0 writes a scheme");
        }
        // A hybrid repeats the scheme beside the wrapped form, in the members of OpenAPI.
        if found.form != CardSchema::Hybrid {
            members.lint_unknown(found);
        }
        let Some(mut inner) = MemberReader::open(inner, &inner_at, found)? else { return Ok(None) };
        let scheme = read_kind(kind, &mut inner, &inner_at, found)?;
        inner.lint_unknown(found);
        return Ok(scheme);
    }
    let Some(stated) = members.text("type", found) else {
        found.lint(lint::SCHEME, at, "is none of the known kinds of schemes, is left out");
        return Ok(None);
    };
    let Some(kind) = SchemeKind::ALL.into_iter().find(|kind| kind.type_name().eq_ignore_ascii_case(&stated)) else {
        let message = format_args!("type {:?} is not known, is left out", shortened(&stated));
        found.lint(lint::SCHEME, at, message);
        return Ok(None);
    };
    if found.form == CardSchema::V1 {
        found.lint(
            lint::OTHER_VERSION,
            at,
            format_args!("is how 0.3 writes a scheme; in 1.0 it is a {}", kind.wrapper_member()),
        );
    }
    let scheme = read_kind(kind, &mut members, &at.member(kind.wrapper_member()), found)?;
    members.lint_unknown(found);
    Ok(scheme)
}

/// Reads the members of a scheme. `place` is their path in the canonical card.
fn read_kind(
    kind: SchemeKind,
    members: &mut MemberReader<'_, '_>,
    place: &Path<'_>,
    found: &mut Findings,
) -> Result<Option<SecurityScheme>, MemberError> {
    let description = members.non_empty_text("description", found);
    Ok(Some(match kind {
        SchemeKind::ApiKey => {
            let location = match members.text("in", found) {
                Some(location) => location,
                None => members.required_text("location", found),
            };
            SecurityScheme::ApiKey { description, location, name: members.required_text("name", found) }
        }
        SchemeKind::Http => SecurityScheme::HttpAuth {
            description,
            scheme: members.required_text("scheme", found),
            bearer_format: members.non_empty_text("bearerFormat", found),
        },
        SchemeKind::OAuth2 => {
            let oauth2_metadata_url = members.non_empty_text("oauth2MetadataUrl", found);
            let flows = members.map("flows", found).unwrap_or_default();
            let Some(flows) = read_flows(flows, place, found)? else { return Ok(None) };
            SecurityScheme::OAuth2 { description, flows, oauth2_metadata_url }
        }
        SchemeKind::OpenIdConnect => SecurityScheme::OpenIdConnect {
            description,
            open_id_connect_url: members.required_text("openIdConnectUrl", found),
        },
        SchemeKind::MutualTls => SecurityScheme::MutualTls { description },
    }))
}

/// Reads the first known flow; the canonical card has only one.
fn read_flows(
    flows: Vec<(String, &RawValue)>,
    place: &Path<'_>,
    found: &mut Findings,
) -> Result<Option<OAuthFlows>, MemberError> {
    let place = place.member("flows");
    let mut first = None;
    for (name, value) in flows.into_iter().filter(|(_, value)| value.get() != "null") {
        let at = place.key(shortened(&name));
        if first.is_some() {
            found.lint(lint::FLOWS, &at, "is a further flow, only the first is kept");
            found.losses.note(LossKind::Security, at);
            continue;
        }
        let Some(mut members) = MemberReader::open(value, &at, found)? else { continue };
        match read_flow(&camel_case(&name).unwrap_or_else(|| name.clone()), &mut members, found) {
            Some(flow) => {
                first = Some(flow);
                members.lint_unknown(found);
            }
            None => {
                found.lint(lint::SCHEME, &at, "is none of the known flows, is left out");
                found.losses.note(LossKind::Security, at);
            }
        }
    }
    if first.is_none() {
        found.lint(lint::SCHEME, &place, "has no flow, the scheme is left out");
    }
    Ok(first)
}

fn read_flow(name: &str, flow: &mut MemberReader<'_, '_>, found: &mut Findings) -> Option<OAuthFlows> {
    Some(match name {
        "authorizationCode" => OAuthFlows::AuthorizationCode {
            authorization_url: flow.required_text("authorizationUrl", found),
            token_url: flow.required_text("tokenUrl", found),
            refresh_url: flow.non_empty_text("refreshUrl", found),
            scopes: required_scopes(flow, found),
            pkce_required: flow.flag("pkceRequired", found).unwrap_or_default(),
        },
        "clientCredentials" => OAuthFlows::ClientCredentials {
            token_url: flow.required_text("tokenUrl", found),
            refresh_url: flow.non_empty_text("refreshUrl", found),
            scopes: required_scopes(flow, found),
        },
        "implicit" => OAuthFlows::Implicit {
            authorization_url: flow.non_empty_text("authorizationUrl", found),
            refresh_url: flow.non_empty_text("refreshUrl", found),
            scopes: flow.text_map("scopes", found).unwrap_or_default(),
        },
        "password" => OAuthFlows::Password {
            token_url: flow.non_empty_text("tokenUrl", found),
            refresh_url: flow.non_empty_text("refreshUrl", found),
            scopes: flow.text_map("scopes", found).unwrap_or_default(),
        },
        "deviceCode" => OAuthFlows::DeviceCode {
            device_authorization_url: flow.required_text("deviceAuthorizationUrl", found),
            token_url: flow.required_text("tokenUrl", found),
            refresh_url: flow.non_empty_text("refreshUrl", found),
            scopes: required_scopes(flow, found),
        },
        _ => return None,
    })
}

fn required_scopes(flow: &mut MemberReader<'_, '_>, found: &mut Findings) -> BTreeMap<String, String> {
    flow.text_map("scopes", found).unwrap_or_else(|| {
        flow.lint_missing("scopes", "is taken to be empty", found);
        BTreeMap::new()
    })
}

/// Reads the requirements, under either name.
pub(super) fn read_requirements(
    members: &mut MemberReader<'_, '_>,
    at: &Path<'_>,
    found: &mut Findings,
) -> Vec<SecurityRequirement> {
    let (new, old) = (members.list("securityRequirements", found), members.list("security", found));
    let (name, other) = match found.form {
        CardSchema::Hybrid => ("securityRequirements", None),
        CardSchema::V1 => ("securityRequirements", old.as_ref().map(|_| "security")),
        _ => ("security", new.as_ref().map(|_| "securityRequirements")),
    };
    if let Some(other) = other {
        let message = format_args!("is how another version of A2A writes {name}");
        found.lint(lint::OTHER_VERSION, &at.member(other), message);
    }
    let at = at.member(if new.is_some() { "securityRequirements" } else { "security" });
    let list = new.or(old).unwrap_or_default();
    list.into_iter().enumerate().filter_map(|(i, value)| read_requirement(value, &at.item(i), found)).collect()
}

fn read_requirement(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Option<SecurityRequirement> {
    let Some(mut schemes) = entries(value) else {
        found.lint(lint::WRONG_TYPE, at, "must be an object, is passed over");
        return None;
    };
    // A list under the name `schemes` holds the scopes of a scheme that happens to have this name.
    if let [(only, inner)] = &*schemes
        && only == "schemes"
        && let Some(inner) = entries(inner)
    {
        schemes = inner;
    }
    let mut requirement = SecurityRequirement { schemes: BTreeMap::new() };
    for (name, scopes) in schemes {
        let list = read_scope_names(scopes, &at.key(shortened(&name)), found);
        requirement.schemes.insert(name, StringList { list });
    }
    Some(requirement)
}

/// `{"list":[…]}` by the specification of 1.0; the Go SDK writes the list alone, or `null`.
fn read_scope_names(value: &RawValue, at: &Path<'_>, found: &mut Findings) -> Vec<String> {
    if value.get() == "null" {
        return Vec::new();
    }
    let list = match entries(value) {
        Some(members) => members.into_iter().find(|(name, _)| name == "list").map(|(_, list)| list),
        None => Some(value),
    };
    let Some(list) = list.filter(|list| list.get() != "null") else { return Vec::new() };
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else {
        found.lint(lint::WRONG_TYPE, at, "must be a list of scopes, is taken to be empty");
        return Vec::new();
    };
    list.into_iter().enumerate().filter_map(|(i, scope)| text(scope, &at.item(i), found)).collect()
}
