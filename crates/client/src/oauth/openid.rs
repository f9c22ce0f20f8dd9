//! OpenID Connect: discovery, then the login that the server offers, then a check of the identity.
//!
//! The device flow is preferred, because it needs no browser on this machine. Agents get only the access token; the id
//! token is checked here and not stored.

use super::id_token::{self, ExpectedClaims};
use super::token_endpoint::TokenResponse;
use super::{
    AuthorizationCodeFlow, Clock, DeviceCodeFlow, Http, IdTokenFault, Identity, Metadata, OAuthClient, OAuthError,
    ShowPrompt, Token, code,
};
use crate::oauth::token_endpoint::unreadable_error;
use crate::signature::Jwks;
use std::time::Duration;
use url::Url;

/// The scope that makes OAuth into OpenID Connect.
const OPENID: &str = "openid";

/// The parameters of a login by OpenID Connect.
#[derive(Debug)]
pub struct OpenIdFlow<'a> {
    /// The `openIdConnectUrl` of the card.
    pub discovery_url: &'a Url,
    /// The scopes to ask for, in addition to `openid`.
    pub scopes: &'a [String],
    /// Whether the user can use a browser on this machine.
    pub browser: bool,
    /// The port on 127.0.0.1 for the redirect; 0 lets the system choose.
    pub port: u16,
    /// How long the user may take to log in.
    pub timeout: Duration,
}

/// The result of a login by OpenID Connect.
#[derive(Debug, Clone)]
pub struct OpenIdLogin {
    /// The token, whose access part agents receive.
    pub token: Token,
    /// The identity of the user.
    pub identity: Identity,
    /// The metadata of the server, which names its token endpoint.
    pub metadata: Metadata,
}

impl<H: Http, C: Clock> OAuthClient<'_, H, C> {
    /// Logs the user in, by the device flow if the server supports it, otherwise by a browser.
    pub async fn openid_connect(&self, flow: &OpenIdFlow<'_>, show: ShowPrompt<'_>) -> Result<OpenIdLogin, OAuthError> {
        let metadata = self.metadata(flow.discovery_url).await?;
        let mut scopes = flow.scopes.to_vec();
        if !scopes.iter().any(|scope| scope == OPENID) {
            scopes.insert(0, OPENID.to_owned());
        }
        let (granted, nonce) = match metadata.device_url()? {
            Some(device_url) => {
                let token_url = metadata.token_url()?;
                let timeout = Some(flow.timeout);
                let flow = DeviceCodeFlow { device_url: &device_url, token_url: &token_url, scopes: &scopes, timeout };
                (self.device_grant(&flow, show).await?, None)
            }
            None if !flow.browser => return Err(OAuthError::NeedsBrowser),
            None => {
                let nonce = code::random_token();
                (self.browser_grant(flow, &metadata, &scopes, &nonce, show).await?, Some(nonce))
            }
        };
        let id_token = granted.id_token.clone().ok_or(IdTokenFault::Absent)?;
        let keys = self.issuer_keys(&metadata).await?;
        let expected = ExpectedClaims {
            issuer: &metadata.issuer,
            client_id: self.id,
            nonce: nonce.as_deref(),
            algorithms: metadata.id_token_signing_alg_values_supported.as_deref(),
            now: self.clock.now(),
        };
        let identity = id_token::check_id_token(&id_token, &keys, &expected)?;
        let token = granted.into_token(&scopes, self.clock.now())?;
        Ok(OpenIdLogin { token, identity, metadata })
    }

    async fn browser_grant(
        &self,
        flow: &OpenIdFlow<'_>,
        metadata: &Metadata,
        scopes: &[String],
        nonce: &str,
        show: ShowPrompt<'_>,
    ) -> Result<TokenResponse, OAuthError> {
        if !metadata.offers_pkce() {
            return Err(OAuthError::NoPkce);
        }
        let (authorization_url, token_url) = (metadata.authorization_url()?, metadata.token_url()?);
        let flow = AuthorizationCodeFlow {
            authorization_url: &authorization_url,
            token_url: &token_url,
            scopes,
            issuer: Some(&metadata.issuer),
            issuer_in_answer: metadata.authorization_response_iss_parameter_supported,
            port: flow.port,
            timeout: flow.timeout,
        };
        self.authorization_code_grant(&flow, Some(nonce), show).await
    }

    async fn issuer_keys(&self, metadata: &Metadata) -> Result<Jwks, OAuthError> {
        let url = metadata.keys_url()?;
        let (status, body) = self.fetch(&url).await?;
        Jwks::parse_set_or_key(&body).map_err(|fault| unreadable_error(&url, status, &fault.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::Prompt;
    use crate::oauth::code::tests::Browser;
    use crate::oauth::fakes::{FakeClock, FakeHttp, form_of, url};
    use crate::oauth::id_token::tests::{NOW, TestIssuer};
    use serde_json::{Value, json};

    const DISCOVERY: &str = "https://as.example/.well-known/openid-configuration";
    const KEYS: &str = "https://as.example/jwks";

    fn document(device: bool) -> Value {
        let mut document = json!({
            "issuer": "https://as.example",
            "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token",
            "jwks_uri": KEYS,
            "id_token_signing_alg_values_supported": ["EdDSA"],
            "code_challenge_methods_supported": ["S256"],
        });
        if device {
            document["device_authorization_endpoint"] = json!("https://as.example/device");
        }
        document
    }

    fn server(document: Value) -> FakeHttp {
        let http = FakeHttp::default();
        http.serve(DISCOVERY, document);
        http.serve(KEYS, TestIssuer::new(1).keys());
        http
    }

    fn claims(nonce: &str) -> Value {
        json!({"iss": "https://as.example", "sub": "u", "aud": "me", "exp": NOW + 9, "iat": NOW, "nonce": nonce})
    }

    fn granted(id_token: &str) -> Value {
        json!({"access_token": "at", "refresh_token": "rt", "expires_in": 60, "id_token": id_token})
    }

    fn flow(discovery_url: &Url) -> OpenIdFlow<'_> {
        OpenIdFlow { discovery_url, scopes: &[], browser: true, port: 0, timeout: Duration::from_secs(20) }
    }

    async fn by_device(http: &FakeHttp) -> Result<OpenIdLogin, OAuthError> {
        let clock = FakeClock::at(NOW);
        let client = OAuthClient::new(http, &clock, "me", None);
        let discovery = url(DISCOVERY);
        client.openid_connect(&OpenIdFlow { browser: false, ..flow(&discovery) }, &|_| {}).await
    }

    fn device_code() -> Value {
        json!({"device_code": "d", "user_code": "U", "verification_uri": "https://as.example/a", "expires_in": 60, "interval": 1})
    }

    #[tokio::test]
    async fn the_device_flow_is_taken_where_there_is_one() {
        let http = server(document(true));
        http.then(200, device_code());
        http.then(200, granted(&TestIssuer::new(1).sign(&claims("any"))));
        let login = by_device(&http).await.unwrap();
        assert_eq!((login.identity.subject.as_str(), login.token.access.expose()), ("u", "at"));
        assert_eq!(login.token.scopes, ["openid"]);
        assert_eq!(form_of(&http.posts()[0]), [("scope", "openid"), ("client_id", "me")]);
    }

    #[tokio::test]
    async fn an_identity_that_is_not_proven_is_no_login() {
        for (answer, expected) in [
            (granted(&TestIssuer::new(2).sign(&claims("n"))), IdTokenFault::Signature),
            (json!({"access_token": "at"}), IdTokenFault::Absent),
        ] {
            let http = server(document(true));
            http.then(200, device_code());
            http.then(200, answer);
            assert!(matches!(by_device(&http).await, Err(OAuthError::IdToken(fault)) if fault == expected));
        }
        let http = server(document(true));
        http.serve(KEYS, json!({"keys": vec![json!({}); 101]}));
        http.then(200, device_code());
        http.then(200, granted(&TestIssuer::new(1).sign(&claims("n"))));
        assert!(matches!(by_device(&http).await, Err(OAuthError::Unreadable { why, .. }) if why.contains("101 keys")));
    }

    async fn by_browser(http: &FakeHttp, nonce: Option<&str>) -> Result<OpenIdLogin, OAuthError> {
        let (browser, clock, discovery) = (Browser::new(), FakeClock::at(NOW), url(DISCOVERY));
        let client = OAuthClient::new(http, &clock, "me", None);
        let show = |prompt: &Prompt<'_>| browser.show(prompt);
        let flow = flow(&discovery);
        let person = async {
            let asked = browser.asked().await;
            http.then(200, granted(&TestIssuer::new(1).sign(&claims(nonce.unwrap_or(&asked["nonce"])))));
            browser.come_back(|asked| format!("code=c&state={}", asked["state"])).await;
        };
        tokio::join!(client.openid_connect(&flow, &show), person).0
    }

    #[tokio::test]
    async fn without_a_device_flow_a_browser_is_used_and_the_nonce_must_return() {
        let login = by_browser(&server(document(false)), None).await.unwrap();
        assert_eq!(login.identity.subject, "u");
        let replayed = by_browser(&server(document(false)), Some("of another login")).await;
        assert!(matches!(replayed, Err(OAuthError::IdToken(IdTokenFault::Nonce))));
    }

    #[tokio::test]
    async fn without_either_there_is_a_clear_error() {
        assert!(matches!(by_device(&server(document(false))).await, Err(OAuthError::NeedsBrowser)));
        let (clock, discovery) = (FakeClock::at(NOW), url(DISCOVERY));
        let mut plain_only = document(false);
        plain_only["code_challenge_methods_supported"] = json!(["plain"]);
        let http = server(plain_only);
        let result = OAuthClient::new(&http, &clock, "me", None).openid_connect(&flow(&discovery), &|_| {}).await;
        assert!(matches!(result, Err(OAuthError::NoPkce)));
        let mut foreign = document(false);
        foreign["issuer"] = json!("https://evil.example");
        assert!(matches!(by_device(&server(foreign)).await, Err(OAuthError::Issuer { .. })));
    }
}
