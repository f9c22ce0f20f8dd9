//! Tokens for agent-native peers: a JWT that names a user, signed with a shared secret.
//!
//! The format is agent-native's to the byte: header `{"alg":"HS256"}` without a type, claims in a fixed order, a
//! lifetime of fifteen minutes. Its verifier trims the shared secret and its signer does not, which breaks calls when
//! an environment variable ends in a newline. We trim the secret, and so agree with every verifier.
//!
//! [`NativeToken`] is one token. [`NativeTokenIssuer`] is the credential of a client: it makes a token for each request, so that
//! no token expires during a long conversation.

mod issuer;

pub use issuer::{NativeTokenIssuer, Organisation, TokenAudience};

use crate::secret::Secret;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use std::time::Duration;

/// The lifetime of a token.
pub const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The issuer of tokens when the caller has no address of its own.
pub const ISSUER_DEFAULT: &str = "http://localhost:3000";

/// The claims of a token: on whose behalf the client calls a peer.
#[derive(Debug, Clone, Copy)]
pub struct NativeToken<'a> {
    /// The email address of the user; required.
    pub email: &'a str,
    /// The domain of the user's organisation; the peer finds the organisation's secret by it.
    pub org_domain: Option<&'a str>,
    /// The address of this client; [`ISSUER_DEFAULT`] if there is none.
    pub issuer: Option<&'a str>,
    /// The address of the peer. Set it only on request: a peer that does not know its own address refuses such tokens.
    pub audience: Option<&'a str>,
    /// The lifetime of the token; [`LIFETIME`] by default.
    pub lifetime: Duration,
}

/// Why no token was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NativeTokenFault {
    /// Peers refuse tokens without a user.
    #[error("a user email is needed")]
    NoEmail,
    /// There is no secret to sign with.
    #[error("the shared secret is empty")]
    NoSecret,
    /// The library refused for an unexpected reason.
    #[error("signing failed")]
    Signing,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    org_domain: Option<&'a str>,
    iss: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

impl<'a> NativeToken<'a> {
    /// A token for this user, with default values for all other claims.
    pub fn new(email: &'a str) -> Self {
        Self { email, org_domain: None, issuer: None, audience: None, lifetime: LIFETIME }
    }

    /// Signs the token. `now` is in Unix seconds.
    pub fn sign(&self, secret: &Secret, now: u64) -> Result<Secret, NativeTokenFault> {
        let email = self.email.trim();
        if email.is_empty() {
            return Err(NativeTokenFault::NoEmail);
        }
        let secret = secret.expose().trim();
        if secret.is_empty() {
            return Err(NativeTokenFault::NoSecret);
        }
        let some = |text: Option<&'a str>| text.filter(|text| !text.is_empty());
        let claims = Claims {
            sub: email,
            org_domain: some(self.org_domain),
            iss: some(self.issuer).unwrap_or(ISSUER_DEFAULT),
            iat: now,
            exp: now.saturating_add(self.lifetime.as_secs()),
            aud: some(self.audience),
        };
        let header = Header { typ: None, ..Header::new(Algorithm::HS256) };
        let token = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret.as_bytes()));
        token.map(Secret::new).map_err(|_| NativeTokenFault::Signing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::Value;

    #[derive(Deserialize)]
    struct NativeTokenVectors {
        organizations: Vec<Organization>,
        cases: Vec<NativeTokenCase>,
    }

    #[derive(Deserialize)]
    struct Organization {
        allowed_domain: String,
        a2a_secret: String,
    }

    #[derive(Deserialize)]
    struct NativeTokenCase {
        name: String,
        token: String,
        secret: Option<String>,
        decoded: Option<Value>,
        accepted: bool,
    }

    /// The token that we make for the claims of a case, if we can make those claims.
    fn ours(case: &NativeTokenCase, secret: &str) -> Option<String> {
        let decoded = case.decoded.as_ref()?;
        let claims = decoded["payload"].as_object()?;
        let known = ["sub", "org_domain", "iss", "iat", "exp", "aud"];
        let usual = claims.keys().all(|name| known.contains(&name.as_str()));
        if decoded["header"] != serde_json::json!({"alg": "HS256"}) || !usual {
            return None;
        }
        let text = |name: &str| claims.get(name).map(|value| value.as_str().ok_or(()));
        let (issued, expires) = (claims.get("iat")?.as_u64()?, claims.get("exp")?.as_u64()?);
        let token = NativeToken {
            email: text("sub")?.ok()?,
            org_domain: text("org_domain").transpose().ok()?,
            issuer: Some(text("iss")?.ok().filter(|issuer| !issuer.is_empty())?),
            audience: text("aud").transpose().ok()?,
            lifetime: Duration::from_secs(expires.checked_sub(issued)?),
        };
        Some(token.sign(&Secret::new(secret), issued).ok()?.expose().to_owned())
    }

    /// Each accepted token of the vectors with only our claims and our header must equal our token to the byte.
    #[test]
    fn our_tokens_are_those_of_the_reference_to_the_byte() {
        let vectors: NativeTokenVectors =
            serde_json::from_str(include_str!("../tests/vectors/agent-native-jwt.json")).unwrap();
        let (mut same, mut left_out) = (0, Vec::new());
        for case in vectors.cases.iter().filter(|case| case.accepted) {
            let domain = case.decoded.as_ref().and_then(|decoded| decoded["payload"]["org_domain"].as_str());
            let of_org = |org: &&Organization| Some(org.allowed_domain.to_lowercase()) == domain.map(str::to_lowercase);
            let org = vectors.organizations.iter().find(of_org).map(|org| org.a2a_secret.clone());
            let made: Vec<String> = case.secret.iter().chain(&org).filter_map(|secret| ours(case, secret)).collect();
            if made.is_empty() {
                left_out.push(case.name.as_str());
                continue;
            }
            assert!(made.contains(&case.token), "{}", case.name);
            same += 1;
        }
        let not_ours = [
            "valid, with org_domain and extra claims",
            "no exp claim",
            "nbf equal to now",
            "iat missing",
            "alg HS384, same secret",
            "alg HS512, same secret",
            "typ JWT in header",
            "kid in header ignored",
            "aud array containing this receiver",
            "iss empty string",
            "iss not a string",
            "iss missing",
            "org_id claim",
        ];
        assert_eq!((same, left_out.as_slice()), (18, &not_ours[..]));
    }

    #[test]
    fn a_token_needs_a_user_and_a_secret() {
        let sign = |email, secret: &str| NativeToken::new(email).sign(&Secret::new(secret), 0).map(|_| ());
        assert_eq!(sign(" ", "s"), Err(NativeTokenFault::NoEmail));
        assert_eq!(sign("a@b", " \n"), Err(NativeTokenFault::NoSecret));
        assert_eq!(sign("a@b", "s"), Ok(()));
    }

    #[test]
    fn stray_space_around_the_secret_does_not_count() {
        let sign = |secret: &str| NativeToken::new("a@b").sign(&Secret::new(secret), 7).unwrap();
        assert_eq!(sign("s"), sign(" s\n"));
    }
}
