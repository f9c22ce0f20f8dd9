//! The credential of a client that makes an agent-native token for each request.

use super::{LIFETIME, NativeToken, NativeTokenFault};
use crate::clock::{Clock as _, WallClock};
use crate::http_client::sensitive_header;
use crate::request_credential::{AuthHeadersFuture, RequestCredential, UnsentRequest};
use crate::{Error, Secret};
use http::{HeaderMap, HeaderValue, header};
use sabir_proto::card::SecurityScheme;
use sabir_wire::card::{A2A_PATH, NATIVE_PATH};
use url::Url;

/// Makes agent-native tokens on behalf of a user.
#[derive(Debug, Clone)]
pub struct NativeTokenIssuer {
    /// The email address of the user.
    pub email: String,
    /// The organisation of the user.
    pub organisation: Option<Organisation>,
    /// The secret that all peers share; the secret of an organisation takes precedence.
    pub shared: Option<Secret>,
    /// The address of this client, if it has one.
    pub address: Option<String>,
    /// The audience that the tokens name.
    pub audience: TokenAudience,
}

/// The organisation of a user.
#[derive(Debug, Clone)]
pub struct Organisation {
    /// The domain of the organisation.
    pub domain: String,
    /// The secret of the organisation, if we have it.
    pub secret: Option<Secret>,
}

/// The audience of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TokenAudience {
    /// No audience: any peer with the secret accepts the token. This is the default of agent-native's own client,
    /// because peers that do not know their own address refuse tokens with an audience.
    #[default]
    AnyPeer,
    /// The peer that the request goes to, by its address.
    CalledPeer,
    /// A fixed audience.
    Named(String),
}

impl NativeTokenIssuer {
    /// Tokens on behalf of a user, with default values for everything else.
    pub fn new(email: impl Into<String>, shared: Option<Secret>) -> Self {
        Self { email: email.into(), organisation: None, shared, address: None, audience: TokenAudience::AnyPeer }
    }

    /// A token for a call to this address. `now` is in Unix seconds.
    pub fn token(&self, peer: &Url, now: u64) -> Result<Secret, NativeTokenFault> {
        let own = self.organisation.as_ref().and_then(|organisation| organisation.secret.as_ref());
        let secret = own.or(self.shared.as_ref()).ok_or(NativeTokenFault::NoSecret)?;
        let audience = match &self.audience {
            TokenAudience::AnyPeer => None,
            TokenAudience::CalledPeer => Some(peer_audience(peer)),
            TokenAudience::Named(name) => Some(name.clone()),
        };
        let token = NativeToken {
            email: &self.email,
            org_domain: self.organisation.as_ref().map(|organisation| organisation.domain.as_str()),
            issuer: self.address.as_deref(),
            audience: audience.as_deref(),
            lifetime: LIFETIME,
        };
        token.sign(secret, now)
    }
}

/// The address that a peer knows as its own: its URL without the path of the endpoint.
fn peer_audience(peer: &Url) -> String {
    let path = peer.path().trim_end_matches('/');
    let path = path.strip_suffix(NATIVE_PATH).or_else(|| path.strip_suffix(A2A_PATH)).unwrap_or(path);
    format!("{}{}", peer.origin().ascii_serialization(), path.trim_end_matches('/'))
}

impl RequestCredential for NativeTokenIssuer {
    fn authorise<'a>(&'a self, request: UnsentRequest<'a>) -> AuthHeadersFuture<'a> {
        Box::pin(async move {
            let token = self.token(request.url, WallClock.now()).map_err(|fault| Error::Usage(fault.to_string()))?;
            crate::redact::process_redactor().learn_temporary(token.expose());
            Ok(HeaderMap::from_iter([(
                header::AUTHORIZATION,
                sensitive_header(&format!("Bearer {}", token.expose()))?,
            )]))
        })
    }

    fn preview(&self) -> HeaderMap {
        let mut later = HeaderValue::from_static("Bearer made-when-it-is-sent");
        later.set_sensitive(true);
        HeaderMap::from_iter([(header::AUTHORIZATION, later)])
    }

    fn satisfies(&self, scheme: &SecurityScheme) -> bool {
        matches!(scheme, SecurityScheme::HttpAuth { scheme, .. } if scheme.eq_ignore_ascii_case("bearer"))
    }

    fn signs_bodies(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    fn claims(issuer: &NativeTokenIssuer, peer: &str) -> serde_json::Value {
        let token = issuer.token(&Url::parse(peer).unwrap(), 1000).unwrap();
        let claims = token.expose().split('.').nth(1).unwrap().to_owned();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
    }

    #[test]
    fn a_token_names_the_user_the_organisation_and_on_request_the_peer() {
        let mut issuer = NativeTokenIssuer::new("ana@acme.test", Some(Secret::new("shared")));
        let plain = serde_json::json!({"sub":"ana@acme.test","iss":"http://localhost:3000","iat":1000,"exp":1900});
        assert_eq!(claims(&issuer, "https://peer.test/a2a"), plain);
        issuer.organisation = Some(Organisation { domain: "acme.test".into(), secret: None });
        issuer.audience = TokenAudience::CalledPeer;
        for (peer, audience) in [
            ("https://peer.test/_agent-native/a2a", "https://peer.test"),
            ("https://peer.test:8443/app/a2a/", "https://peer.test:8443/app"),
            ("https://peer.test/rpc", "https://peer.test/rpc"),
        ] {
            let claims = claims(&issuer, peer);
            assert_eq!((&claims["org_domain"], &claims["aud"]), (&"acme.test".into(), &audience.into()), "{peer}");
        }
    }

    #[test]
    fn the_secret_of_the_organisation_goes_before_the_shared_one() {
        let peer = Url::parse("https://peer.test").unwrap();
        let own = Organisation { domain: "acme.test".into(), secret: Some(Secret::new("own")) };
        let by = |organisation: Option<Organisation>, shared: Option<&str>| NativeTokenIssuer {
            organisation,
            ..NativeTokenIssuer::new("ana@acme.test", shared.map(Secret::new))
        };
        let token = |issuer: NativeTokenIssuer| issuer.token(&peer, 1000).map(|token| token.expose().to_owned());
        let without = Organisation { secret: None, ..own.clone() };
        assert_eq!(token(by(Some(own.clone()), Some("shared"))), token(by(Some(own), None)));
        assert!(token(by(Some(without.clone()), Some("shared"))).is_ok());
        assert_eq!(token(by(Some(without), None)), Err(NativeTokenFault::NoSecret));
    }
}
