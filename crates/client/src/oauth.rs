//! Gets tokens: the OAuth 2 and OpenID Connect flows that a client runs on behalf of its user.
//!
//! An [`OAuthClient`] is our registration at one authorization server; each flow is a method that returns a [`Token`], or
//! an [`OAuthError`] that says what to do. A card names the flow and its endpoints, which are not trustworthy. So endpoints
//! must be https (or loopback), answers are bounded, redirects are not followed, and the metadata of a server must
//! match the URL that we asked.
//!
//! The network is behind [`Http`] and time is behind [`Clock`], so tests can replace both. The only socket opened here
//! is the loopback listener that receives the browser's redirect. [`crate::tokens`] stores the tokens.

mod code;
mod device_code;
mod grants;
mod id_token;
mod loopback;
mod metadata;
mod openid;
mod token_endpoint;

pub use code::AuthorizationCodeFlow;
pub use device_code::DeviceCodeFlow;
pub use id_token::{IdTokenFault, Identity};
pub use metadata::{Metadata, endpoint_or};
pub use openid::{OpenIdFlow, OpenIdLogin};

pub use crate::clock::{Clock, WallClock};

use crate::agent_reference::is_loopback;
use crate::secret::Secret;
use http::StatusCode;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use url::Url;

/// The largest answer that we read from an authorization server. Tokens with many claims reach tens of kilobytes.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A token is renewed this long before it expires, so that it does not expire during a call.
pub const REFRESH_BEFORE: Duration = Duration::from_secs(60);

/// An error of an [`Http`] implementation.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends requests. The implementation follows no redirect, adds no credential, applies its own timeouts and reads at
/// most [`ANSWER_BYTES_MAX`] bytes.
pub trait Http: Send + Sync {
    /// Sends a request and returns the answer, whatever its status.
    fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> impl Future<Output = Result<http::Response<Vec<u8>>, BoxError>> + Send;
}

/// Our registration at one authorization server, and how we reach the server.
pub struct OAuthClient<'a, H, C> {
    http: &'a H,
    clock: &'a C,
    id: &'a str,
    secret: Option<&'a Secret>,
    /// The server wants the secret in the form and not in a header. It is set once the server has shown it.
    secret_in_form: AtomicBool,
}

impl<'a, H: Http, C: Clock> OAuthClient<'a, H, C> {
    /// A client with its registered id, and its secret if it has one.
    pub fn new(http: &'a H, clock: &'a C, id: &'a str, secret: Option<&'a Secret>) -> Self {
        Self { http, clock, id, secret, secret_in_form: AtomicBool::new(false) }
    }
}

/// A token from an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The access token, which is sent to the agent.
    pub access: Secret,
    /// The refresh token, which is sent to the authorization server.
    pub refresh: Option<Secret>,
    /// When the token expires, in Unix seconds; `None` if the server did not say.
    pub expires: Option<u64>,
    /// The scopes of the token, as the server says, otherwise as we asked.
    pub scopes: Vec<String>,
}

impl Token {
    /// Whether the token is valid for a call that starts now. Without an expiry only the agent knows.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now.saturating_add(REFRESH_BEFORE.as_secs()) < expires)
    }
}

/// An instruction for the user, to be shown by the program.
#[derive(Debug)]
pub enum Prompt<'a> {
    /// Open a URL on any device and type a code.
    Device {
        /// The URL that the user opens.
        verification_url: &'a str,
        /// The URL with the code in it, if the server offers one.
        complete_url: Option<&'a str>,
        /// The code that the user types.
        user_code: &'a str,
        /// How long the code is valid.
        expires_in: Duration,
    },
    /// Open a URL in a browser on this machine.
    Browser {
        /// The URL to open. It contains no secret, but the first person that opens it determines the identity of the
        /// login.
        url: &'a Url,
    },
}

/// A function that shows a [`Prompt`] to the user.
pub type ShowPrompt<'a> = &'a (dyn Fn(&Prompt<'_>) + Send + Sync);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// The transport failed.
    #[error("no answer from {url}")]
    NoAnswer {
        /// The URL of the request.
        url: Url,
        /// The error of the transport.
        #[source]
        cause: BoxError,
    },
    /// The answer is not what the protocol defines.
    #[error("{url} answered with status {status} and no readable answer: {why}")]
    Unreadable {
        /// The URL of the request.
        url: Url,
        /// The HTTP status.
        status: StatusCode,
        /// What is wrong with the answer.
        why: String,
    },
    /// The server understood the request and refused it.
    #[error("the authorization server refused: {error}{}", .description.as_deref().map(|d| format!(" ({d})")).unwrap_or_default())]
    Refused {
        /// The error code of RFC 6749, such as `invalid_grant`.
        error: String,
        /// The message of the server, shortened and without control characters.
        description: Option<String>,
    },
    /// The user, or a policy, refused the request.
    #[error("access was denied")]
    Denied,
    /// The user did not enter the code in time.
    #[error("the code has expired before it was used")]
    CodeExpired,
    /// Our own timeout ended first.
    #[error("not finished within {0:?}")]
    TimedOut(Duration),
    /// An endpoint without TLS would show our secrets to anyone on the network path.
    #[error("{0} is neither https nor on this machine")]
    Insecure(Url),
    /// Neither the card nor the server names the endpoint.
    #[error("no {0} is known")]
    Missing(&'static str),
    /// A URL cannot be parsed or used.
    #[error("{what} is not a usable URL: {value:?}")]
    BadUrl {
        /// The meaning of the URL.
        what: &'static str,
        /// The text that should be a URL.
        value: String,
    },
    /// A server speaks for another issuer than the one that we asked.
    #[error("issuer {found:?} does not match {expected:?}")]
    Issuer {
        /// The issuer that we asked.
        expected: String,
        /// The issuer of the answer.
        found: String,
    },
    /// The token is of a type that we cannot use.
    #[error("tokens of type {0:?} are not supported")]
    TokenType(String),
    /// The id token does not prove an identity.
    #[error("id token: {0}")]
    IdToken(#[from] IdTokenFault),
    /// The server does not support PKCE with SHA-256; without it an intercepted code is enough for a login.
    #[error("the authorization server does not offer PKCE with S256")]
    NoPkce,
    /// The flow needs a browser, and no user is in front of one.
    #[error("this login needs a browser and a person at the terminal")]
    NeedsBrowser,
    /// The answer of the browser does not belong to our request.
    #[error("the browser returned with an unexpected answer: {0}")]
    Redirect(&'static str),
    /// The listener for the browser's redirect cannot be opened or used.
    #[error("cannot listen for the browser's return")]
    Listen(#[source] std::io::Error),
    /// The token has expired and has no refresh token.
    #[error("the token has expired and cannot be renewed")]
    NotRenewable,
}

impl OAuthError {
    /// Whether only a new login helps, because the server no longer accepts what we hold.
    pub fn needs_login(&self) -> bool {
        match self {
            Self::NotRenewable => true,
            Self::Refused { error, .. } => error == "invalid_grant",
            _ => false,
        }
    }
}

/// Endpoints carry secrets in both directions (RFC 6749 §3.1, §3.2): they need TLS, or a server on this machine.
fn check_endpoint(url: &Url) -> Result<(), OAuthError> {
    let secure = match url.scheme() {
        "https" => url.host().is_some(),
        "http" => is_loopback(url),
        _ => false,
    };
    if secure { Ok(()) } else { Err(OAuthError::Insecure(url.clone())) }
}

/// Prepares a message of a server for display: shortened and without control characters.
fn printable(text: &str) -> String {
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
        let refused = OAuthError::Refused { error: "invalid_grant".to_owned(), description: Some("used".to_owned()) };
        assert_eq!(refused.to_string(), "the authorization server refused: invalid_grant (used)");
        assert!(refused.needs_login() && OAuthError::NotRenewable.needs_login() && !OAuthError::Denied.needs_login());
    }
}
