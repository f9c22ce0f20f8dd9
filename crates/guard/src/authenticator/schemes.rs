//! The security schemes of the card, made from what is enforced, so that the two cannot differ.

use super::{AuthMode, Authenticator};
use crate::config::{AcceptedCredential, JwtConfig, OauthConfig};
use crate::fetch::Fetch;
use sabir_proto::card::{AgentCard, OAuthFlows, SecurityRequirement, SecurityScheme, Skill, StringList};
use std::collections::BTreeMap;

/// The name of the scheme for tokens of an issuer, where there are tokens under a shared secret beside them.
const ISSUER_SCHEME: &str = "oidc";

impl<F: Fetch> Authenticator<F> {
    /// Writes the accepted credentials into a card, and checks what all skills, shown or not, require beyond that.
    pub fn describe_in_card(&self, card: &mut AgentCard, skills: &[Skill]) -> Result<(), String> {
        card.security_schemes = self.schemes();
        let alone = |(name, scopes): (&String, Vec<String>)| SecurityRequirement {
            schemes: BTreeMap::from([(name.clone(), StringList { list: scopes })]),
        };
        let needed = card.security_schemes.keys().map(|name| (name, self.scopes_of(name)));
        card.security_requirements = needed.map(alone).collect();
        if self.mode == AuthMode::Optional && !card.security_requirements.is_empty() {
            // An empty requirement says that the others are not needed.
            card.security_requirements.push(SecurityRequirement { schemes: BTreeMap::new() });
        }
        skills.iter().try_for_each(|skill| self.check_skill(skill, &card.security_schemes))
    }

    fn check_skill(&self, skill: &Skill, schemes: &BTreeMap<String, SecurityScheme>) -> Result<(), String> {
        for requirement in &skill.security_requirements {
            if let Some(unknown) = requirement.schemes.keys().find(|name| !schemes.contains_key(*name)) {
                let known: Vec<&str> = schemes.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(format!(
                    "skill {:?} asks for {unknown:?}, which this agent does not take; it takes {known}",
                    skill.id
                ));
            }
            if requirement.schemes.len() > 1 {
                return Err(format!(
                    "skill {:?} asks for several credentials at once, and a request carries one; list them as alternatives",
                    skill.id
                ));
            }
        }
        Ok(())
    }

    fn schemes(&self) -> BTreeMap<String, SecurityScheme> {
        let mut schemes = BTreeMap::new();
        for accept in &self.accepted {
            let name = accept.name().to_owned();
            match accept {
                AcceptedCredential::ApiKey => {
                    let description = Some("A key of this server; also taken as a bearer token".into());
                    let location = "header".into();
                    schemes.insert(name, SecurityScheme::ApiKey { description, location, name: "X-API-Key".into() });
                }
                AcceptedCredential::Jwt => {
                    let Some(jwt) = &self.config.jwt else { continue };
                    if jwt.is_shared() {
                        schemes
                            .insert(name.clone(), bearer("A token under a secret that both sides hold", Some("JWT")));
                    }
                    if let Some(issuer) = &jwt.issuer {
                        let name = if jwt.is_shared() { ISSUER_SCHEME.into() } else { name };
                        schemes.insert(name, issued(jwt, issuer));
                    }
                }
                AcceptedCredential::LegacyKey => {
                    schemes.insert(name, bearer("A token that was agreed on", None));
                }
                AcceptedCredential::Basic => {
                    let description = Some("A user name and a password, over TLS only".into());
                    let scheme = SecurityScheme::HttpAuth { description, scheme: "basic".into(), bearer_format: None };
                    schemes.insert(name, scheme);
                }
                AcceptedCredential::Mtls => {
                    let description = Some("A client certificate of an authority that this server knows".into());
                    schemes.insert(name, SecurityScheme::MutualTls { description });
                }
                AcceptedCredential::Xpr => {
                    // No scheme of the specification describes a signed body; the header at least can be named.
                    let description = Some(
                        "The request signed by an XPR account: X-XPR-Account, X-XPR-Timestamp, X-XPR-Signature".into(),
                    );
                    let (location, header) = ("header".into(), "X-XPR-Signature".into());
                    schemes.insert(name, SecurityScheme::ApiKey { description, location, name: header });
                }
            }
        }
        schemes
    }

    fn scopes_of(&self, scheme: &str) -> Vec<String> {
        let Some(jwt) = &self.config.jwt else { return Vec::new() };
        let issued = if jwt.is_shared() { ISSUER_SCHEME } else { AcceptedCredential::Jwt.name() };
        if scheme == issued && jwt.issuer.is_some() { jwt.scopes.clone() } else { Vec::new() }
    }

    /// The name of a caller's scheme in the card.
    pub(crate) fn scheme_in_card(&self, scheme: crate::authn::Scheme) -> &'static str {
        let both = self.config.jwt.as_ref().is_some_and(|jwt| jwt.is_shared() && jwt.issuer.is_some());
        match scheme {
            crate::authn::Scheme::Jwt if both => ISSUER_SCHEME,
            scheme => self.accepted.iter().find(|accept| accept.covers(scheme)).map_or("", |accept| accept.name()),
        }
    }
}

fn bearer(description: &str, format: Option<&str>) -> SecurityScheme {
    SecurityScheme::HttpAuth {
        description: Some(description.into()),
        scheme: "bearer".into(),
        bearer_format: format.map(str::to_owned),
    }
}

fn issued(jwt: &JwtConfig, issuer: &str) -> SecurityScheme {
    // The document that the issuer's keys are found by; where keys come from elsewhere it may have none.
    let discovery = (jwt.jwks_url.is_none() && jwt.jwks.is_none())
        .then(|| format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')));
    match (&jwt.oauth, discovery) {
        (Some(oauth), discovery) => {
            let description = Some(format!("A token of {issuer}"));
            SecurityScheme::OAuth2 { description, flows: flow(oauth, jwt), oauth2_metadata_url: discovery }
        }
        (None, Some(open_id_connect_url)) => SecurityScheme::OpenIdConnect { description: None, open_id_connect_url },
        (None, None) => bearer(&format!("A token of {issuer}"), Some("JWT")),
    }
}

fn flow(oauth: &OauthConfig, jwt: &JwtConfig) -> OAuthFlows {
    let mut scopes = oauth.scopes.clone();
    for scope in &jwt.scopes {
        scopes.entry(scope.clone()).or_insert_with(|| "Needed to call this agent".into());
    }
    let token_url = oauth.token_url.clone();
    match (&oauth.authorization_url, &oauth.device_url) {
        (Some(url), _) => OAuthFlows::AuthorizationCode {
            authorization_url: url.clone(),
            token_url,
            refresh_url: None,
            scopes,
            pkce_required: true,
        },
        (None, Some(url)) => {
            OAuthFlows::DeviceCode { device_authorization_url: url.clone(), token_url, refresh_url: None, scopes }
        }
        (None, None) => OAuthFlows::ClientCredentials { token_url, refresh_url: None, scopes },
    }
}
