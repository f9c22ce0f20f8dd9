//! Tokens of our own for an agent elsewhere, got from an authorization server and renewed before they end.
//!
//! The token says who we are (client credentials). Where it is to say on whose behalf as well, it is exchanged together
//! with a token that says so (RFC 8693), and ours is the actor's. Nothing that a caller has shown us takes part in this.

use http::{HeaderMap, HeaderValue, header};
use sabir_client::oauth::{self, Clock as _, Token, WallClock};
use sabir_client::redact;
use sabir_client::{Authorise, Client, Egress, Error, Leaving, Proof, Secret, UnreachableCause, Whose};
use sabir_proto::card::SecurityScheme;
use std::future::Future;
use std::pin::Pin;
use tokio::sync::Mutex;
use url::Url;

/// How a token is got.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Where.
    pub token_url: Url,
    /// Who we are there.
    pub client_id: String,
    /// What proves it.
    pub client_secret: Option<Secret>,
    /// What it is to allow.
    pub scopes: Vec<String>,
    /// A token that says on whose behalf we call, if we call on somebody's.
    pub subject: Option<Secret>,
    /// For whom the exchanged token is.
    pub audience: Option<String>,
}

/// A credential that an authorization server keeps fresh.
pub struct Grant {
    terms: Terms,
    client: Client,
    kept: Mutex<Option<Token>>,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grant").field("token_url", &self.terms.token_url.as_str()).finish_non_exhaustive()
    }
}

impl Grant {
    /// Nothing is asked for yet. The authorization server may be where agents may be.
    pub fn new(terms: Terms, egress: Egress) -> Result<Self, Error> {
        Ok(Self { terms, client: Client::builder().egress(egress).build()?, kept: Mutex::default() })
    }

    /// A token that is good for a call now. Whoever comes while one is got waits for that one.
    async fn token(&self) -> Result<Secret, Error> {
        let mut kept = self.kept.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| token.is_fresh(WallClock.now())) {
            return Ok(token.access.clone());
        }
        let token = self.ask().await.map_err(|error| self.failed(&error))?;
        let access = token.access.clone();
        redact::process().learn_passing(access.expose());
        *kept = Some(token);
        Ok(access)
    }

    async fn ask(&self) -> Result<Token, oauth::Error> {
        let Terms { token_url, client_id, client_secret, scopes, subject, audience } = &self.terms;
        let server = oauth::Client::new(&self.client, &WallClock, client_id, client_secret.as_ref());
        let Some(subject) = subject else { return server.client_credentials(token_url, scopes).await };
        // Ours is for the exchange alone; what it is to allow there is said there.
        let actor = server.client_credentials(token_url, &[]).await?;
        server.exchange_token(token_url, subject, &actor.access, audience.as_deref(), scopes).await
    }

    /// A server that is not there may be there later; one that says no is not asked again by itself.
    fn failed(&self, error: &oauth::Error) -> Error {
        match error {
            oauth::Error::NoAnswer { .. } | oauth::Error::Unreadable { .. } | oauth::Error::TimedOut(_) => {
                let host = self.terms.token_url.host_str().unwrap_or_default().to_owned();
                // The request itself has not left.
                Error::Unreachable {
                    host,
                    reason: error.to_string(),
                    safe: true,
                    whose: Whose::Unknown,
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

impl Authorise for Grant {
    fn authorise<'a>(&'a self, _: Leaving<'a>) -> Proof<'a> {
        Box::pin(async move {
            let token = self.token().await?;
            let mut value = HeaderValue::from_str(&bearer(&token))
                .map_err(|_| Error::Usage("the token holds characters that no header can carry".into()))?;
            value.set_sensitive(true);
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        })
    }

    /// Forgets a token that was taken back, unless there is another one by now.
    fn refused<'a>(&'a self, shown: &'a HeaderMap) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            let mut kept = self.kept.lock().await;
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

    fn rehearse(&self) -> HeaderMap {
        let mut later = HeaderValue::from_static("Bearer got-when-it-is-sent");
        later.set_sensitive(true);
        HeaderMap::from_iter([(header::AUTHORIZATION, later)])
    }

    fn fits(&self, scheme: &SecurityScheme) -> bool {
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
