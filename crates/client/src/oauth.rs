//! Getting tokens: the OAuth 2 and OpenID Connect flows that a client can run on behalf of its user.
//!
//! A [`Client`] is who we are to one authorization server; each flow is a method that ends in a [`Token`] or in an
//! [`Error`] that says what to do. A card names the flow and its endpoints, and all of them may be strangers, so
//! endpoints must be https (or loopback), answers are bounded, nothing follows a redirect, and what a server says about
//! itself is compared with where we asked.
//!
//! The network is behind [`Http`] and time is behind [`Clock`]; tests bring their own. The one socket opened here is
//! the loopback listener that receives a browser's redirect. Storing tokens is the business of [`crate::tokens`].

mod code;
mod device;
mod exchange;
mod grants;
mod id_token;
mod loopback;
mod metadata;
mod openid;

pub use code::AuthorizationCode;
pub use device::DeviceCode;
pub use id_token::{IdTokenFault, Identity};
pub use metadata::{Metadata, endpoint_or};
pub use openid::{OpenId, OpenIdLogin};

use crate::reference::is_loopback;
use crate::secret::Secret;
use http::StatusCode;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use url::Url;

/// The largest answer we read from an authorization server. Tokens with many claims reach tens of kilobytes.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A token is renewed this long before it expires, so that it does not expire on the way.
pub const REFRESH_BEFORE: Duration = Duration::from_secs(60);

/// Whatever a transport has to say about its failures.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends one request. The implementation follows no redirect, adds no credential, applies its own timeouts and reads
/// at most [`ANSWER_BYTES_MAX`] bytes.
pub trait Http: Send + Sync {
    /// The answer, whatever its status.
    fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> impl Future<Output = Result<http::Response<Vec<u8>>, BoxError>> + Send;
}

/// The time, and waiting for it to pass.
pub trait Clock: Send + Sync {
    /// Unix seconds.
    fn now(&self) -> u64;
    /// Waits.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The clock on the wall.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> u64 {
        // Before 1970 every token is fresh; such a clock has other problems.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Who we are to one authorization server, and how we reach it.
pub struct Client<'a, H, C> {
    http: &'a H,
    clock: &'a C,
    id: &'a str,
    secret: Option<&'a Secret>,
    /// The server wants the secret in the form rather than in a header; learnt from it, and then remembered.
    secret_in_form: AtomicBool,
}

impl<'a, H: Http, C: Clock> Client<'a, H, C> {
    /// A client with the id it was registered under, and its secret if it has one.
    pub fn new(http: &'a H, clock: &'a C, id: &'a str, secret: Option<&'a Secret>) -> Self {
        Self { http, clock, id, secret, secret_in_form: AtomicBool::new(false) }
    }
}

/// What an authorization server gave us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What is shown to the agent.
    pub access: Secret,
    /// What is shown to the authorization server to get the next one.
    pub refresh: Option<Secret>,
    /// Unix seconds; `None` when the server did not say.
    pub expires: Option<u64>,
    /// What it allows, as the server said, or else as we asked.
    pub scopes: Vec<String>,
}

impl Token {
    /// Whether it can still be used for a call that starts now. Without a stated end only the agent can tell.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now.saturating_add(REFRESH_BEFORE.as_secs()) < expires)
    }
}

/// What the user has to do, to be shown by whoever talks to the user.
#[derive(Debug)]
pub enum Prompt<'a> {
    /// Go to an address on any device and type a code.
    Device {
        /// `Verification URL`
        verification_url: &'a str,
        /// The same with the code already in it, where the server offers that.
        complete_url: Option<&'a str>,
        /// `User code`
        user_code: &'a str,
        /// How long that is possible.
        expires_in: Duration,
    },
    /// Open an address in a browser on this machine.
    Browser {
        /// Where to. It holds no secret, but whoever opens it first is who we will be logged in as.
        url: &'a Url,
    },
}

/// Shows a [`Prompt`].
pub type Show<'a> = &'a (dyn Fn(&Prompt<'_>) + Send + Sync);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transport failed.
    #[error("no answer from {url}")]
    NoAnswer {
        /// Whom we asked.
        url: Url,
        /// What the transport says.
        #[source]
        cause: BoxError,
    },
    /// Something came back that is not an answer to what we asked.
    #[error("{url} answered with status {status} and no readable answer: {why}")]
    Unreadable {
        /// Whom we asked.
        url: Url,
        /// The HTTP status.
        status: StatusCode,
        /// What is wrong with it.
        why: String,
    },
    /// The server understood and said no.
    #[error("the authorization server refused: {error}{}", .description.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
    Refused {
        /// The error code of RFC 6749, such as `invalid_grant`.
        error: String,
        /// The server's words, shortened and without control characters.
        description: Option<String>,
    },
    /// The user, or a policy on the user's behalf, said no.
    #[error("access was denied")]
    Denied,
    /// The code was not entered in time.
    #[error("the code has expired before it was used")]
    CodeExpired,
    /// Our own patience ended first.
    #[error("not finished within {0:?}")]
    TimedOut(Duration),
    /// An endpoint without TLS would show our secrets to everybody on the way.
    #[error("{0} is neither https nor on this machine")]
    Insecure(Url),
    /// Neither the card nor the server says where.
    #[error("no {0} is known")]
    Missing(&'static str),
    /// Not a URL.
    #[error("{what} is not a usable URL: {value:?}")]
    BadUrl {
        /// What it is supposed to be.
        what: &'static str,
        /// What it is.
        value: String,
    },
    /// A server speaks for another issuer than the one we asked.
    #[error("issuer {found:?} does not match {expected:?}")]
    Issuer {
        /// Whom we asked.
        expected: String,
        /// Who answered.
        found: String,
    },
    /// The token is of a kind we cannot present.
    #[error("tokens of type {0:?} are not supported")]
    TokenType(String),
    /// The identity in the answer is not proven.
    #[error("id token: {0}")]
    IdToken(#[from] IdTokenFault),
    /// The server cannot do PKCE with SHA-256, without which an intercepted code is enough to be us.
    #[error("the authorization server does not offer PKCE with S256")]
    NoPkce,
    /// A browser is needed and there is nobody in front of one.
    #[error("this login needs a browser and somebody at the terminal")]
    NeedsBrowser,
    /// The browser came back with an answer to a question we did not ask.
    #[error("the browser returned with an unexpected answer: {0}")]
    Redirect(&'static str),
    /// The listener for the browser's return could not be opened or used.
    #[error("cannot listen for the browser's return")]
    Listen(#[source] std::io::Error),
    /// There is nothing to renew the token with.
    #[error("the token has expired and cannot be renewed")]
    NotRenewable,
}

impl Error {
    /// Whether logging in again is the way on, because what we hold is worth nothing any more.
    pub fn needs_login(&self) -> bool {
        match self {
            Self::NotRenewable => true,
            Self::Refused { error, .. } => error == "invalid_grant",
            _ => false,
        }
    }
}

/// Endpoints carry secrets in both directions (RFC 6749 §3.1, §3.2): TLS, or a server on this very machine.
fn check_endpoint(url: &Url) -> Result<(), Error> {
    let secure = match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_loopback(url),
        _ => false,
    };
    if secure { Ok(()) } else { Err(Error::Insecure(url.clone())) }
}

/// Words of a server, fit to be shown.
fn fit_to_show(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    text.chars().filter(|c| !c.is_control()).take(CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod fakes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_stale_a_minute_before_its_end() {
        let token = |expires| Token { access: Secret::new("a"), refresh: None, expires, scopes: vec![] };
        assert!(token(None).is_fresh(u64::MAX));
        assert!(token(Some(1061)).is_fresh(1000));
        assert!(!token(Some(1060)).is_fresh(1000));
        assert!(!token(Some(1)).is_fresh(u64::MAX));
    }

    #[test]
    fn endpoints_need_tls_or_this_machine() {
        for (url, fine) in [
            ("https://as.example/token", true),
            ("http://127.0.0.1:9/token", true),
            ("http://localhost/token", true),
            ("http://[::1]/token", true),
            ("http://as.example/token", false),
            ("http://localhost.as.example/token", false),
            ("ftp://as.example/token", false),
            ("file:///token", false),
        ] {
            assert_eq!(check_endpoint(&Url::parse(url).unwrap()).is_ok(), fine, "{url}");
        }
    }

    #[test]
    fn no_error_or_token_prints_a_secret() {
        let secret = Secret::new("s3cr3t-value");
        let token =
            Token { access: secret.clone(), refresh: Some(secret), expires: Some(1), scopes: vec!["a".to_owned()] };
        assert!(!format!("{token:?}").contains("s3cr3t"));
        let refused = Error::Refused { error: "invalid_grant".to_owned(), description: Some("used".to_owned()) };
        assert_eq!(refused.to_string(), "the authorization server refused: invalid_grant (used)");
        assert!(refused.needs_login() && Error::NotRenewable.needs_login() && !Error::Denied.needs_login());
    }
}
