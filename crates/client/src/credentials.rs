//! The credentials of a client, and where a card wants them placed.
//!
//! A card lists alternatives; all schemes of one alternative are needed together. The first alternative that our
//! credentials satisfy is taken. A credential is sent only where its scheme says, to that agent and no other.

use crate::envelope::EnvelopeKey;
use crate::http_client::sensitive_header;
use crate::redact::Redactor;
use crate::request_credential::RequestCredential;
use crate::{Error, Secret};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use sabir_proto::AgentCard;
use sabir_proto::card::{OAuthFlows, SecurityRequirement, SecurityScheme};
use sabir_proto::transfer::{CLAIM_HEADER, HandoffClaim};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The credentials that a client may send to an agent.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// A bearer token, for any scheme that takes one.
    pub bearer: Option<Secret>,
    /// An API key, put where the scheme says.
    pub api_key: Option<Secret>,
    /// The header that the key goes into where no scheme of a card has a place for it.
    pub key_header: Option<&'static str>,
    /// A name and a password.
    pub basic: Option<(String, Secret)>,
    /// Tokens for single schemes of the card, by the scheme's name.
    pub tokens: BTreeMap<String, Secret>,
    /// Our TLS configuration holds a certificate.
    pub certificate: bool,
    /// The claim to a task that was handed over for us. Sent beside all others: it does not identify the caller.
    pub claim: Option<HandoffClaim>,
    /// A credential that is made for each request. It is sent where a scheme asks for it, and where no other credential
    /// satisfies the card: cards cannot declare every kind of signature.
    pub signer: Option<Arc<dyn RequestCredential>>,
    /// The key that signs envelopes to a booking network, in addition to the other credentials. It signs nothing else.
    pub envelope_key: Option<Arc<EnvelopeKey>>,
}

/// Credentials placed where the card wants them.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttachedCredentials {
    pub(crate) headers: HeaderMap,
    pub(crate) query: Vec<(String, Secret)>,
    /// At least one credential is sent.
    pub(crate) has_any: bool,
    /// The card did not ask for what is sent.
    pub(crate) is_undeclared: bool,
    /// Our TLS certificate may be sent.
    pub(crate) certificate: bool,
    /// Makes a credential for each request when it is sent.
    pub(crate) signer: Option<Arc<dyn RequestCredential>>,
    /// The key that signs envelopes to a booking network.
    pub(crate) envelope_key: Option<Arc<EnvelopeKey>>,
}

impl AttachedCredentials {
    /// The same, with the claim to a task that was handed over for us.
    pub(crate) fn with_claim(mut self, claim: &HandoffClaim) -> Result<Self, Error> {
        self.headers.insert(HeaderName::from_static(CLAIM_HEADER), sensitive_header(claim.expose())?);
        Ok(self)
    }

    /// Whether a credential is a signature over the body, so that gRPC cannot carry it.
    pub(crate) fn signs_bodies(&self) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.signs_bodies())
    }
}

impl Credentials {
    /// Whether there is no credential at all.
    pub fn is_empty(&self) -> bool {
        self.bearer.is_none()
            && self.api_key.is_none()
            && self.basic.is_none()
            && self.tokens.is_empty()
            && !self.certificate
            && self.signer.is_none()
            && self.envelope_key.is_none()
    }

    /// Registers all of them with a redactor, so that no agent text and no log line repeats them.
    pub(crate) fn register_secrets(&self, redactor: &Redactor) {
        let given = self.bearer.iter().chain(&self.api_key).chain(self.tokens.values());
        given.for_each(|secret| redactor.learn(secret.expose()));
        if let Some((user, password)) = &self.basic {
            redactor.learn(password.expose());
            redactor.learn(&basic_credentials(user, password));
        }
    }

    /// Places the credentials where the card wants them.
    pub(crate) fn attach(&self, card: &AgentCard) -> Result<AttachedCredentials, Error> {
        let mut attached = self.attach_by_card(card)?;
        attached.envelope_key.clone_from(&self.envelope_key);
        attached.has_any |= self.envelope_key.is_some();
        match &self.claim {
            Some(claim) => attached.with_claim(claim),
            None => Ok(attached),
        }
    }

    fn attach_by_card(&self, card: &AgentCard) -> Result<AttachedCredentials, Error> {
        if card.security_schemes.is_empty() {
            return self.attach_undeclared();
        }
        let requirements = &card.security_requirements;
        let satisfied = requirements.iter().find_map(|alternative| self.attach_alternative(card, alternative));
        if let Some(attached) = satisfied {
            return attached;
        }
        let anonymous = requirements.is_empty() || requirements.iter().any(|r| r.schemes.is_empty());
        if !anonymous {
            return self.undeclared().unwrap_or_else(|| Err(self.missing_error(card)));
        }
        // The card demands nothing; a credential that fits a declared scheme is sent anyway.
        let fitting = card.security_schemes.iter().find(|(name, scheme)| self.satisfies(name, scheme));
        match fitting {
            Some((name, scheme)) => {
                let mut attached = AttachedCredentials::default();
                self.attach_scheme(name, scheme, &mut attached)?;
                Ok(attached)
            }
            None if Self { certificate: false, ..self.clone() }.is_empty() => Ok(AttachedCredentials::default()),
            None => self.undeclared().unwrap_or_else(|| Err(self.missing_error(card))),
        }
    }

    /// Credentials that are sent although the card does not declare them: the configuration says that the agent takes
    /// them.
    fn undeclared(&self) -> Option<Result<AttachedCredentials, Error>> {
        self.undeclared_signer().map(Ok).or_else(|| self.undeclared_key())
    }

    /// An API key in the header that the vendor profile names.
    fn undeclared_key(&self) -> Option<Result<AttachedCredentials, Error>> {
        let (key, name) = (self.api_key.as_ref()?, self.key_header?);
        Some(sensitive_header(key.expose()).map(|value| {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
            AttachedCredentials { headers, has_any: true, is_undeclared: true, ..AttachedCredentials::default() }
        }))
    }

    /// The credentials for a vendor that serves its card only to authenticated callers; no scheme can say where they
    /// go.
    pub(crate) fn attach_to_card(&self) -> Result<AttachedCredentials, Error> {
        match self.is_empty() {
            true => Ok(AttachedCredentials::default()),
            false => self.attach_undeclared(),
        }
    }

    /// The per-request credential, for a card that does not declare it.
    fn undeclared_signer(&self) -> Option<AttachedCredentials> {
        let signer = self.signer.clone()?;
        Some(AttachedCredentials {
            signer: Some(signer),
            has_any: true,
            is_undeclared: true,
            ..AttachedCredentials::default()
        })
    }

    /// For a card without schemes: many agents want a token and do not declare it, but a client cannot guess where a
    /// key goes.
    fn attach_undeclared(&self) -> Result<AttachedCredentials, Error> {
        // The per-request credential goes first: agents reject two credentials at once.
        if let Some(attached) = self.undeclared_signer() {
            return Ok(AttachedCredentials { certificate: self.certificate, ..attached });
        }
        let mut attached = AttachedCredentials { certificate: self.certificate, ..AttachedCredentials::default() };
        match (&self.bearer, &self.basic, &self.api_key) {
            (Some(token), _, _) => add_bearer_header(token, &mut attached.headers)?,
            (None, Some((user, password)), _) => add_basic_header(user, password, &mut attached.headers)?,
            (None, None, Some(_)) => {
                if let Some(attached) = self.undeclared_key() {
                    return attached.map(|attached| AttachedCredentials { certificate: self.certificate, ..attached });
                }
                let nowhere = "the card declares no scheme that takes an API key, so there is no place to put it";
                return Err(Error::CredentialsMissing { wanted: vec![nowhere.into()], transport: None });
            }
            (None, None, None) => {}
        }
        attached.has_any = attached.certificate || !attached.headers.is_empty();
        attached.is_undeclared = attached.has_any;
        Ok(attached)
    }

    /// Takes one alternative, if we hold everything it asks for and it asks for something.
    fn attach_alternative(
        &self,
        card: &AgentCard,
        alternative: &SecurityRequirement,
    ) -> Option<Result<AttachedCredentials, Error>> {
        if alternative.schemes.is_empty() {
            return None;
        }
        let schemes: Option<Vec<_>> = alternative
            .schemes
            .keys()
            .map(|name| card.security_schemes.get(name).filter(|s| self.satisfies(name, s)).map(|s| (name, s)))
            .collect();
        let mut attached = AttachedCredentials::default();
        Some(
            schemes?
                .into_iter()
                .try_for_each(|(name, scheme)| self.attach_scheme(name, scheme, &mut attached))
                .map(|()| attached),
        )
    }

    fn satisfies(&self, name: &str, scheme: &SecurityScheme) -> bool {
        let token = self.tokens.contains_key(name);
        if self.signer_satisfies(scheme) {
            return true;
        }
        match scheme {
            // A credential computed from each request cannot be stored.
            SecurityScheme::ApiKey { name: header, .. } if crate::xpr::is_header(header) => false,
            SecurityScheme::ApiKey { location, .. } => {
                matches!(location.as_str(), "header" | "query" | "cookie") && (self.api_key.is_some() || token)
            }
            SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("basic") => self.basic.is_some(),
            SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("bearer") => {
                self.bearer.is_some() || token
            }
            // For an unregistered scheme, only a token given for exactly this scheme is sent, under its name.
            SecurityScheme::HttpAuth { .. } => token,
            SecurityScheme::OAuth2 { .. } | SecurityScheme::OpenIdConnect { .. } => self.bearer.is_some() || token,
            SecurityScheme::MutualTls { .. } => self.certificate,
        }
    }

    /// Whether a scheme asks for the per-request credential.
    fn signer_satisfies(&self, scheme: &SecurityScheme) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.satisfies(scheme))
    }

    fn attach_scheme(
        &self,
        name: &str,
        scheme: &SecurityScheme,
        attached: &mut AttachedCredentials,
    ) -> Result<(), Error> {
        attached.has_any = true;
        if self.signer_satisfies(scheme) {
            attached.signer.clone_from(&self.signer);
            return Ok(());
        }
        // A token given for this call takes precedence over one stored for the scheme.
        let token = || self.bearer.as_ref().or_else(|| self.tokens.get(name));
        match scheme {
            SecurityScheme::ApiKey { location, name: member, .. } => {
                let Some(key) = self.api_key.as_ref().or_else(|| self.tokens.get(name)) else { return Ok(()) };
                match location.as_str() {
                    "query" => attached.query.push((member.clone(), key.clone())),
                    "cookie" => {
                        // One header for all cookies, as RFC 6265 wants it.
                        let before = attached.headers.get(header::COOKIE).and_then(|v| v.to_str().ok());
                        let before = before.map(|b| format!("{b}; ")).unwrap_or_default();
                        let cookie = sensitive_header(&format!("{before}{member}={}", key.expose()))?;
                        attached.headers.insert(header::COOKIE, cookie);
                    }
                    _ => {
                        let member = HeaderName::from_bytes(member.as_bytes()).map_err(|_| Error::CardInvalid {
                            at: "the card".into(),
                            reason: format!("its API key goes into a header named {member:?}, which cannot be"),
                        })?;
                        attached.headers.insert(member, sensitive_header(key.expose())?);
                    }
                }
            }
            SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("basic") => {
                if let Some((user, password)) = &self.basic {
                    add_basic_header(user, password, &mut attached.headers)?;
                }
            }
            SecurityScheme::HttpAuth { scheme, .. } if !scheme.eq_ignore_ascii_case("bearer") => {
                if let Some(token) = self.tokens.get(name) {
                    let value = sensitive_header(&format!("{scheme} {}", token.expose()))?;
                    attached.headers.insert(header::AUTHORIZATION, value);
                }
            }
            SecurityScheme::HttpAuth { .. } | SecurityScheme::OAuth2 { .. } | SecurityScheme::OpenIdConnect { .. } => {
                if let Some(token) = token() {
                    add_bearer_header(token, &mut attached.headers)?;
                }
            }
            SecurityScheme::MutualTls { .. } => attached.certificate = true,
        }
        Ok(())
    }

    fn missing_error(&self, card: &AgentCard) -> Error {
        let schemes = |r: &SecurityRequirement| {
            let names: Vec<String> = r
                .schemes
                .keys()
                .map(|name| card.security_schemes.get(name).map_or_else(|| name.clone(), |s| describe(name, s)))
                .collect();
            names.join(" with ")
        };
        let mut wanted: Vec<String> =
            card.security_requirements.iter().map(schemes).filter(|s| !s.is_empty()).collect();
        if wanted.is_empty() {
            wanted = card.security_schemes.iter().map(|(name, scheme)| describe(name, scheme)).collect();
        }
        Error::CredentialsMissing { wanted, transport: None }
    }
}

/// Describes a scheme for a person: its name, its kind, and where the credential goes.
pub fn describe(name: &str, scheme: &SecurityScheme) -> String {
    match scheme {
        SecurityScheme::ApiKey { location, name: member, .. } => format!("{name} (apiKey in {location} {member})"),
        SecurityScheme::HttpAuth { scheme, .. } => format!("{name} (http {scheme})"),
        SecurityScheme::OAuth2 { flows, .. } => format!("{name} (oauth2 {})", flow_name(flows)),
        SecurityScheme::OpenIdConnect { .. } => format!("{name} (openIdConnect)"),
        SecurityScheme::MutualTls { .. } => format!("{name} (mutualTLS)"),
    }
}

const fn flow_name(flows: &OAuthFlows) -> &'static str {
    match flows {
        OAuthFlows::AuthorizationCode { .. } => "authorization_code",
        OAuthFlows::ClientCredentials { .. } => "client_credentials",
        OAuthFlows::Implicit { .. } => "implicit",
        OAuthFlows::Password { .. } => "password",
        OAuthFlows::DeviceCode { .. } => "device_code",
    }
}

fn add_basic_header(user: &str, password: &Secret, headers: &mut HeaderMap) -> Result<(), Error> {
    headers.insert(header::AUTHORIZATION, sensitive_header(&format!("Basic {}", basic_credentials(user, password)))?);
    Ok(())
}

/// Encodes a name and a password for Basic authentication (RFC 7617).
fn basic_credentials(user: &str, password: &Secret) -> String {
    sabir_proto::encode_base64(format!("{user}:{}", password.expose()).as_bytes())
}

fn add_bearer_header(token: &Secret, headers: &mut HeaderMap) -> Result<(), Error> {
    let value: HeaderValue = sensitive_header(&format!("Bearer {}", token.expose()))?;
    headers.insert(header::AUTHORIZATION, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(security: &str) -> AgentCard {
        let json = format!(
            r#"{{"name":"n","description":"d","version":"1","capabilities":{{}},"defaultInputModes":[],"defaultOutputModes":[],
               "skills":[],"supportedInterfaces":[]{security}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn key(location: &str) -> AgentCard {
        card(&format!(
            r#","securitySchemes":{{"k":{{"apiKeySecurityScheme":{{"location":"{location}","name":"X-Key"}}}}}},
               "securityRequirements":[{{"schemes":{{"k":{{}}}}}}]"#
        ))
    }

    #[test]
    fn a_claim_is_shown_beside_whatever_else_is_and_is_no_credential() {
        let claim = Some(HandoffClaim::from_bits([1, 2]));
        let alone = Credentials { claim: claim.clone(), ..Default::default() };
        assert!(alone.is_empty() && alone.attach(&key("header")).is_err(), "it says nothing of who we are");
        let open = alone.attach(&card("")).unwrap();
        assert!(!open.has_any && open.headers.get(CLAIM_HEADER).unwrap().is_sensitive());
        let held = Credentials { api_key: Some(Secret::new("s3cret-key")), claim, ..Default::default() };
        let both = held.attach(&key("header")).unwrap();
        assert_eq!(
            (both.headers.len(), both.headers.get("x-key").unwrap()),
            (2, &HeaderValue::from_static("s3cret-key"))
        );
    }

    #[test]
    fn a_key_goes_where_the_scheme_says_and_nowhere_else() {
        let held = Credentials { api_key: Some(Secret::new("s3cret-key")), ..Default::default() };
        let header = held.attach(&key("header")).unwrap();
        assert_eq!(header.headers.get("x-key").unwrap(), "s3cret-key");
        assert!(header.headers.get("x-key").unwrap().is_sensitive() && header.query.is_empty());
        let query = held.attach(&key("query")).unwrap();
        assert!(query.headers.is_empty() && query.query[0].1.expose() == "s3cret-key");
        assert_eq!(held.attach(&key("cookie")).unwrap().headers.get("cookie").unwrap(), "X-Key=s3cret-key");
        assert!(held.attach(&key("forehead")).is_err());
    }

    #[test]
    fn what_is_demanded_and_not_held_is_said_before_anything_is_sent() {
        let wanted = Credentials::default().attach(&key("header")).unwrap_err();
        assert_eq!(wanted.to_string(), "the agent asks for credentials: k (apiKey in header X-Key)");
        // A token does not fit a key's place.
        let token = Credentials { bearer: Some(Secret::new("t")), ..Default::default() };
        assert!(token.attach(&key("header")).is_err());
        // A key has no place on a card without schemes; a token has one.
        let held = Credentials { api_key: Some(Secret::new("k")), ..Default::default() };
        assert!(held.attach(&card("")).is_err());
        assert!(token.attach(&card("")).unwrap().is_undeclared);
    }

    #[test]
    fn the_first_alternative_that_can_be_satisfied_is_taken_whole() {
        let both = card(
            r#","securitySchemes":{"k":{"apiKeySecurityScheme":{"location":"header","name":"X-Key"}},
               "b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},
               "securityRequirements":[{"schemes":{"k":{},"b":{}}},{"schemes":{"b":{}}}]"#,
        );
        let token = Credentials { bearer: Some(Secret::new("t")), ..Default::default() };
        let attached = token.attach(&both).unwrap();
        assert!(attached.headers.contains_key("authorization") && !attached.headers.contains_key("x-key"));
        let all = Credentials { api_key: Some(Secret::new("k")), ..token };
        assert_eq!(all.attach(&both).unwrap().headers.len(), 2);
    }
}
