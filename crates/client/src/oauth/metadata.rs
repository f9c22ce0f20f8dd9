//! The metadata of an authorization server: RFC 8414, and OpenID Connect Discovery, its predecessor.
//!
//! The document is accepted only if it names the issuer whose address we asked (RFC 8414 §3.3). Otherwise anyone who
//! can place a file on a server could impersonate another login page.

use super::token_endpoint::unreadable_error;
use super::{Clock, Http, OAuthClient, OAuthError, check_endpoint};
use serde::Deserialize;
use std::sync::atomic::Ordering;
use url::Url;

/// The well-known paths, below the issuer or in front of its path.
const WELL_KNOWN: [&str; 2] = ["/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"];

/// The members that we use. Unknown ones are ignored; a wrong endpoint URL is an error only when it is needed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "members are the standard's, which explains them")]
pub struct Metadata {
    pub issuer: String,
    #[serde(default)]
    pub authorization_endpoint: Option<String>,
    #[serde(default)]
    pub token_endpoint: Option<String>,
    #[serde(default)]
    pub device_authorization_endpoint: Option<String>,
    #[serde(default)]
    pub jwks_uri: Option<String>,
    #[serde(default)]
    pub id_token_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default)]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// The URL of the token endpoint.
    pub fn token_url(&self) -> Result<Url, OAuthError> {
        endpoint(self.token_endpoint.as_deref(), "token endpoint")?.ok_or(OAuthError::Missing("token endpoint"))
    }

    /// The URL at which a browser logs in.
    pub fn authorization_url(&self) -> Result<Url, OAuthError> {
        let url = endpoint(self.authorization_endpoint.as_deref(), "authorization endpoint")?;
        url.ok_or(OAuthError::Missing("authorization endpoint"))
    }

    /// The URL at which the device flow starts, if the server supports it.
    pub fn device_url(&self) -> Result<Option<Url>, OAuthError> {
        endpoint(self.device_authorization_endpoint.as_deref(), "device authorization endpoint")
    }

    /// Whether the server may do PKCE with SHA-256. One that says nothing mostly can; one that lists other methods only cannot.
    pub fn offers_pkce(&self) -> bool {
        self.code_challenge_methods_supported.as_ref().is_none_or(|all| all.iter().any(|method| method == "S256"))
    }

    /// The URL of the keys for id tokens.
    pub fn keys_url(&self) -> Result<Url, OAuthError> {
        endpoint(self.jwks_uri.as_deref(), "jwks_uri")?.ok_or(OAuthError::Missing("jwks_uri"))
    }
}

/// An endpoint from a card, or from the metadata where the card leaves it out. A card leaves a required member out by
/// an empty string.
pub fn endpoint_or(card: &str, document: Result<Url, OAuthError>, what: &'static str) -> Result<Url, OAuthError> {
    match endpoint(Some(card), what)? {
        Some(url) => Ok(url),
        None => document,
    }
}

fn endpoint(value: Option<&str>, what: &'static str) -> Result<Option<Url>, OAuthError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let url = Url::parse(value).map_err(|_| OAuthError::BadUrl { what, value: super::printable(value) })?;
    check_endpoint(&url)?;
    Ok(Some(url))
}

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Reads the document behind `oauth2MetadataUrl` or `openIdConnectUrl`.
    pub async fn metadata(&self, url: &Url) -> Result<Metadata, OAuthError> {
        let (status, body) = self.fetch(url).await?;
        let metadata: Metadata = serde_json::from_slice(&body)
            .map_err(|e| unreadable_error(url, status, &format!("not a metadata document: {e}")))?;
        check_issuer(url, &metadata.issuer)?;
        let takes =
            |method| metadata.token_endpoint_auth_methods_supported.as_ref().map(|all| all.iter().any(|m| m == method));
        if takes("client_secret_basic") == Some(false) && takes("client_secret_post") == Some(true) {
            self.secret_in_form.store(true, Ordering::Relaxed);
        }
        Ok(metadata)
    }
}

/// Checks that the issuer matches the URL of its document. A document without a well-known path belongs to the operator
/// of its origin.
fn check_issuer(asked: &Url, issuer: &str) -> Result<(), OAuthError> {
    let path = asked.path();
    let of_path = WELL_KNOWN.iter().find_map(|known| {
        let below = path.strip_suffix(known);
        below.or_else(|| path.strip_prefix(known).filter(|rest| rest.starts_with('/')))
    });
    let bare = |path: &str| path.trim_end_matches('/').to_owned();
    let matches = Url::parse(issuer).is_ok_and(|issuer| {
        let same_path = of_path.is_none_or(|of_path| bare(of_path) == bare(issuer.path()));
        issuer.origin() == asked.origin() && same_path && issuer.query().is_none() && issuer.fragment().is_none()
    });
    let expected = || format!("{}{}", asked.origin().ascii_serialization(), bare(of_path.unwrap_or_default()));
    if matches { Ok(()) } else { Err(OAuthError::Issuer { expected: expected(), found: super::printable(issuer) }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::fakes::{FakeClock, FakeHttp, form_of, url};
    use crate::secret::Secret;
    use serde_json::json;

    #[test]
    fn a_document_speaks_for_the_issuer_it_was_found_at() {
        for (asked, issuer, fine) in [
            ("https://as.example/.well-known/openid-configuration", "https://as.example", true),
            ("https://as.example/.well-known/openid-configuration", "https://as.example/", true),
            ("https://as.example/t1/.well-known/openid-configuration", "https://as.example/t1", true),
            ("https://as.example/.well-known/oauth-authorization-server/t1", "https://as.example/t1", true),
            ("https://as.example:443/.well-known/oauth-authorization-server", "https://as.example", true),
            ("https://as.example/my/metadata.json", "https://as.example/anything", true),
            ("https://as.example/.well-known/openid-configuration", "https://evil.example", false),
            ("https://as.example/t1/.well-known/openid-configuration", "https://as.example/t2", false),
            ("https://as.example/t1/.well-known/openid-configuration", "https://as.example", false),
            ("https://as.example/.well-known/openid-configuration", "http://as.example", false),
            ("https://as.example/.well-known/openid-configuration", "https://as.example:8443", false),
            ("https://as.example/.well-known/openid-configuration", "https://as.example?x", false),
            ("https://as.example/my/metadata.json", "https://other.example/anything", false),
            ("https://as.example/.well-known/openid-configuration", "as.example", false),
        ] {
            assert_eq!(check_issuer(&url(asked), issuer).is_ok(), fine, "{asked} for {issuer}");
        }
    }

    #[tokio::test]
    async fn the_document_fills_what_the_card_leaves_out() {
        let address = "https://as.example/.well-known/oauth-authorization-server";
        let http = FakeHttp::default();
        http.serve(address, json!({"issuer": "https://as.example", "token_endpoint": "https://as.example/t"}));
        let clock = FakeClock::at(0);
        let metadata = OAuthClient::new(&http, &clock, "me", None).metadata(&url(address)).await.unwrap();
        assert_eq!(endpoint_or("", metadata.token_url(), "token endpoint").unwrap(), url("https://as.example/t"));
        assert_eq!(endpoint_or("https://c.example/t", metadata.token_url(), "x").unwrap(), url("https://c.example/t"));
        assert!(matches!(metadata.authorization_url(), Err(OAuthError::Missing(_))));
        assert_eq!(metadata.device_url().unwrap(), None);
        assert!(matches!(
            endpoint_or("not a url", metadata.token_url(), "token endpoint"),
            Err(OAuthError::BadUrl { .. })
        ));
        assert!(matches!(endpoint_or("http://c.example/t", metadata.token_url(), "x"), Err(OAuthError::Insecure(_))));
        assert!(!http.requests()[0].headers().contains_key("authorization"));
    }

    #[tokio::test]
    async fn a_server_that_lists_only_the_form_is_not_tried_with_a_header_first() {
        let address = "https://as.example/.well-known/openid-configuration";
        let http = FakeHttp::answers([(200, json!({"access_token": "at"}))]);
        let methods = ["client_secret_post"];
        http.serve(address, json!({"issuer": "https://as.example", "token_endpoint_auth_methods_supported": methods}));
        let (clock, secret) = (FakeClock::at(0), Secret::new("hush"));
        let client = OAuthClient::new(&http, &clock, "me", Some(&secret));
        client.metadata(&url(address)).await.unwrap();
        client.client_credentials(&url("https://as.example/t"), &[]).await.unwrap();
        assert!(form_of(&http.posts()[0]).contains(&("client_secret", "hush")));
    }

    #[tokio::test]
    async fn a_missing_or_senseless_document_is_an_error() {
        let address = url("https://as.example/.well-known/openid-configuration");
        let clock = FakeClock::at(0);
        for (status, body) in [(404, json!({})), (200, json!([])), (200, json!({"issuer": 7})), (302, json!({}))] {
            let http = FakeHttp::answers([(status, body)]);
            let result = OAuthClient::new(&http, &clock, "me", None).metadata(&address).await;
            assert!(matches!(result, Err(OAuthError::Unreadable { .. })), "{status}");
        }
        let http = FakeHttp::answers([(200, json!({"issuer": "https://evil.example"}))]);
        let result = OAuthClient::new(&http, &clock, "me", None).metadata(&address).await;
        assert!(matches!(result, Err(OAuthError::Issuer { found, .. }) if found == "https://evil.example"));
    }
}
