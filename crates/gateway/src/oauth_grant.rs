//! Tokens of our own for an agent elsewhere, requested from an authorization server and renewed before they end.
//!
//! The token names us (client credentials). If it must also name the party on whose behalf we call, it is exchanged
//! together with that party's token (RFC 8693), and ours is the actor's. No credential of a caller takes part in this.

use http::{HeaderMap, HeaderValue, header};
use sabir_client::oauth::{self, Clock as _, Token, WallClock};
use sabir_client::redact;
use sabir_client::{
    AuthHeadersFuture, Client, Egress, Error, FailureSide, RequestCredential, Secret, UnreachableCause, UnsentRequest,
};
use sabir_proto::card::SecurityScheme;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::Mutex;
use url::Url;

/// How to request a token.
#[derive(Debug, Clone)]
pub struct OAuthGrantSettings {
    /// The URL of the token endpoint.
    pub token_url: Url,
    /// Our client id at the authorization server.
    pub client_id: String,
    /// The secret that proves our client id.
    pub client_secret: Option<Secret>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The token of the party on whose behalf we call, if there is one.
    pub subject: Option<Secret>,
    /// The audience of the exchanged token.
    pub audience: Option<String>,
}

/// A credential whose token is renewed at an authorization server.
pub struct OAuthGrant {
    settings: OAuthGrantSettings,
    client: Client,
    cached_token: Mutex<Option<Token>>,
}

impl std::fmt::Debug for OAuthGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant").field("token_url", &self.settings.token_url.as_str()).finish_non_exhaustive()
    }
}

impl OAuthGrant {
    /// Requests no token yet. The authorization server may be at any address where agents may be.
    pub fn new(terms: OAuthGrantSettings, egress: Egress) -> Result<Self, Error> {
        Ok(Self { settings: terms, client: Client::builder().egress(egress).build()?, cached_token: Mutex::default() })
    }

    /// A token that is valid now. Concurrent callers wait for one request.
    async fn fresh_token(&self) -> Result<Secret, Error> {
        let mut kept = self.cached_token.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| token.is_fresh(WallClock.now())) {
            return Ok(token.access.clone());
        }
        let token = self.request_token().await.map_err(|error| self.client_error(&error))?;
        let access = token.access.clone();
        redact::process_redactor().learn_temporary(access.expose());
        *kept = Some(token);
        Ok(access)
    }

    async fn request_token(&self) -> Result<Token, oauth::OAuthError> {
        let OAuthGrantSettings { token_url, client_id, client_secret, scopes, subject, audience } = &self.settings;
        let server = oauth::OAuthClient::new(&self.client, &WallClock, client_id, client_secret.as_ref());
        let Some(subject) = subject else { return server.client_credentials(token_url, scopes).await };
        // Our own token is for the exchange alone; the exchange asks for the scopes.
        let actor = server.client_credentials(token_url, &[]).await?;
        server.exchange_token(token_url, subject, &actor.access, audience.as_deref(), scopes).await
    }

    /// An authorization server that cannot be reached may be back later; a refusal is not retried.
    fn client_error(&self, error: &oauth::OAuthError) -> Error {
        match error {
            oauth::OAuthError::NoAnswer { .. }
            | oauth::OAuthError::Unreadable { .. }
            | oauth::OAuthError::TimedOut(_) => {
                let host = self.settings.token_url.host_str().unwrap_or_default().to_owned();
                // The request to the agent has not left.
                Error::Unreachable {
                    host,
                    reason: error.to_string(),
                    safe: true,
                    side: FailureSide::Unknown,
                    cause: UnreachableCause::Other,
                    retry_after: None,
                }
            }
            _ => Error::AuthFailed { reason: error.to_string(), transport: None },
        }
    }
}

fn bearer(token: &Secret) -> String {
    format!("Bearer {}", token.expose())
}

impl RequestCredential for OAuthGrant {
    fn authorise<'a>(&'a self, _: UnsentRequest<'a>) -> AuthHeadersFuture<'a> {
        Box::pin(async move {
            let token = self.fresh_token().await?;
            let mut value = HeaderValue::from_str(&bearer(&token))
                .map_err(|_| Error::Usage("the token holds characters that no header can carry".into()))?;
            value.set_sensitive(true);
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        })
    }

    /// Forgets a token that was refused, unless there is another one by now.
    fn on_rejected<'a>(&'a self, shown: &'a HeaderMap) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            let mut kept = self.cached_token.lock().await;
            let is_it = |token: &Token| {
                shown
                    .get(header::AUTHORIZATION)
                    .is_some_and(|value| value.as_bytes() == bearer(&token.access).as_bytes())
            };
            if kept.as_ref().is_some_and(is_it) {
                *kept = None;
            }
            true
        })
    }

    fn preview(&self) -> HeaderMap {
        let mut later = HeaderValue::from_static("Bearer got-when-it-is-sent");
        later.set_sensitive(true);
        HeaderMap::from_iter([(header::AUTHORIZATION, later)])
    }

    fn satisfies(&self, scheme: &SecurityScheme) -> bool {
        match scheme {
            SecurityScheme::HttpAuth { scheme, .. } => scheme.eq_ignore_ascii_case("bearer"),
            SecurityScheme::OAuth2 { .. } | SecurityScheme::OpenIdConnect { .. } => true,
            _ => false,
        }
    }

    fn signs_bodies(&self) -> bool {
        false
    }
}
