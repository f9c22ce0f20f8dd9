//! Tokens of an issuer that publishes its keys: JWTs under RFC 9068, or as OpenID providers make them.
//!
//! A token must name a configured issuer, exactly. The keys are in the configuration, or fetched from a URL, or from
//! where the discovery document says. Keys change: a token with an unknown key makes us fetch the set again, but not
//! too often, because any sender can invent names of keys. While an issuer is unreachable, its last keys serve for a
//! bounded time.

use super::jwks::{self, Algorithm, KeyFault, KeySet};
use super::jws::{Claims, Jws, JwsFault};
use super::verified::{self, Entry, Verified};
use super::{Scheme, Who, is_name};
use crate::fetch::Fetch;
use crate::memo::{Limits, Meanwhile, Memo, Miss};
use crate::seconds;
use sabir_proto::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// How long a key set is fresh.
pub const KEYS_FRESH: Duration = Duration::from_secs(10 * 60);
/// How long a discovery document is fresh.
pub const METADATA_FRESH: Duration = Duration::from_secs(60 * 60);
/// How old keys and metadata may be while the issuer is unreachable.
pub const STALE_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// How long no request is made to an issuer after a failure.
pub const PAUSE: Duration = Duration::from_secs(10);
/// The shortest time between two fetches of a key set because of unknown keys.
pub const REFRESH_MIN: Duration = Duration::from_secs(30);
/// How far two clocks may be apart.
pub const SKEW: Duration = Duration::from_secs(60);
/// The largest skew that may be configured: more makes an expiry meaningless.
pub const SKEW_MAX: Duration = Duration::from_secs(5 * 60);
const METADATA_BYTES_MAX: usize = 64 * 1024;
const ISSUERS_MAX: usize = 64;

/// An issuer whose tokens are accepted, and the rules for them.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// The `iss` claim, compared exactly.
    pub issuer: String,
    /// A token must be for one of these audiences. There must be one.
    pub audiences: Vec<String>,
    /// The source of the issuer's keys.
    pub keys: KeySource,
    /// The accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// The scopes that a token must have, all of them.
    pub scopes: Vec<String>,
    /// How far the issuer's clock and ours may be apart.
    pub skew: Duration,
}

impl Issuer {
    /// An issuer whose keys are found by discovery, with the usual rules.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            keys: KeySource::Discovery,
            algorithms: Algorithm::ALL.to_vec(),
            scopes: Vec::new(),
            skew: SKEW,
        }
    }
}

/// The source of the keys of an issuer.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// Keys from the configuration.
    Given(Arc<KeySet>),
    /// At a URL.
    At(Url),
    /// At the URL that `/.well-known/openid-configuration` below the issuer names.
    Discovery,
}

/// Why the configuration of an issuer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssuerFault {
    /// Without an audience, a token for any server would be accepted here.
    #[error("issuer {0:?} needs an audience")]
    NoAudience(String),
    /// No token could pass.
    #[error("issuer {0:?} allows no algorithm")]
    NoAlgorithm(String),
    /// Keys that are fetched without TLS may be replaced on the way.
    #[error("issuer {0:?} must be reached by https")]
    NotHttps(String),
    /// Not a URL, or with a query or a fragment.
    #[error("issuer {0:?} is not a URL to discover from")]
    NotAUrl(String),
    /// The same issuer is configured twice.
    #[error("issuer {0:?} is configured twice")]
    Twice(String),
    /// More than [`SKEW_MAX`].
    #[error("the clock of issuer {0:?} may be 5 minutes off and no more")]
    Skew(String),
    /// More than 64 issuers.
    #[error("more than 64 issuers")]
    TooMany,
}

/// The holder of a verified token, and what the token allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bearer {
    /// The `iss` claim of the token.
    pub issuer: String,
    /// The `sub` claim of the token.
    pub subject: String,
    /// The client that got the token, from `azp` or `client_id`, if the token says so.
    pub client: Option<String>,
    /// The scopes, from `scope` and `scp`.
    pub scopes: Vec<String>,
    /// The moment from which the token is invalid; `None` if no token was shown.
    pub until: Option<Timestamp>,
}

impl Bearer {
    /// The caller as a principal. A subject is unique within its issuer only; an issuer has no fragment, so `#` ends
    /// it.
    pub fn who(&self) -> Who {
        Who::new(Scheme::Jwt, format!("{}#{}", self.issuer, self.subject))
    }
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Not a token.
    #[error(transparent)]
    Token(#[from] JwsFault),
    /// `none`, an HMAC, or an algorithm that is not allowed for this issuer.
    #[error("the algorithm is not allowed")]
    Algorithm,
    /// A token of another kind, such as a logout token.
    #[error("not an access token")]
    Kind,
    /// The issuer is not configured.
    #[error("the issuer is not configured")]
    Issuer,
    /// The issuer has no such key.
    #[error("the key is not known")]
    UnknownKey,
    /// The key is not for this algorithm.
    #[error("the key does not fit the algorithm")]
    KeyMismatch,
    /// The key did not make this signature.
    #[error("the signature is wrong")]
    Signature,
    /// For another audience, or for none in particular.
    #[error("for another audience")]
    Audience,
    /// The token has expired.
    #[error("expired")]
    Expired,
    /// The token would be valid for ever.
    #[error("the token has no expiry")]
    NoExpiry,
    /// The token is not valid yet.
    #[error("not valid yet")]
    NotYet,
    /// It names no subject.
    #[error("the token names nobody")]
    Nobody,
    /// A scope is missing. The caller is known, and is told which one.
    #[error("the token does not have scope {0:?}")]
    Scope(String),
    /// The keys of the issuer are unavailable.
    #[error("the keys of the issuer cannot be had: {0}")]
    KeysUnavailable(String),
}

impl Reason {
    /// A short, stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Token(JwsFault::TooLong | JwsFault::Malformed(_)) => "token_malformed",
            Self::Token(JwsFault::Critical) => "token_critical",
            Self::Algorithm => "token_algorithm",
            Self::Kind => "token_kind",
            Self::Issuer => "token_issuer",
            Self::UnknownKey => "token_unknown_key",
            Self::KeyMismatch => "token_key_mismatch",
            Self::Signature => "token_signature",
            Self::Audience => "token_audience",
            Self::Expired => "token_expired",
            Self::NoExpiry => "token_no_expiry",
            Self::NotYet => "token_not_yet",
            Self::Nobody => "token_nobody",
            Self::Scope(_) => "token_scope",
            Self::KeysUnavailable(_) => "keys_unavailable",
        }
    }
}

/// The configured issuers, with caches of their keys and of verified tokens.
pub struct Issuers<F> {
    issuers: Vec<Issuer>,
    fetch: F,
    key_sets: Memo<Url, Arc<KeySet>>,
    metadata: Memo<Url, Arc<Url>>,
    verified: Verified,
}

/// Whether the cached keys are good enough.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Usual,
    News,
}

impl<F: Fetch> Issuers<F> {
    /// Checks the configuration; fetches nothing yet.
    pub fn new(issuers: Vec<Issuer>, fetch: F) -> Result<Self, IssuerFault> {
        if issuers.len() > ISSUERS_MAX {
            return Err(IssuerFault::TooMany);
        }
        for (at, issuer) in issuers.iter().enumerate() {
            check(issuer)?;
            if issuers[..at].iter().any(|other| other.issuer == issuer.issuer) {
                return Err(IssuerFault::Twice(issuer.issuer.clone()));
            }
        }
        let limits = Limits { stale: STALE_MAX, pause: PAUSE, entries_max: 2 * ISSUERS_MAX, loads_max: ISSUERS_MAX };
        let (key_sets, metadata) = (Memo::new(limits), Memo::new(limits));
        Ok(Self { issuers, fetch, key_sets, metadata, verified: Verified::default() })
    }

    /// Whether a token claims a configured issuer, so that it must be verified here. Nothing is proven.
    pub fn knows(&self, token: &str) -> bool {
        Jws::parse(token).is_ok_and(|jws| self.issuer_of(&jws.claims).is_some())
    }

    /// Verifies a token and returns its holder.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Bearer>, Reason> {
        let print = verified::print(token);
        if let Some(entry) = self.verified.get(&print, now) {
            let keys = self.keys(&self.issuers[entry.issuer], Need::Usual, now).await?;
            if Arc::ptr_eq(&keys, &entry.keys) {
                return Ok(entry.bearer);
            }
        }
        let jws = Jws::parse(token)?;
        let (number, issuer) = self.issuer_of(&jws.claims).ok_or(Reason::Issuer)?;
        let algorithm = Algorithm::parse(&jws.algorithm).ok_or(Reason::Algorithm)?;
        if !issuer.algorithms.contains(&algorithm) {
            return Err(Reason::Algorithm);
        }
        if jws.kind.as_deref().is_some_and(|kind| !matches!(kind, "jwt" | "at+jwt")) {
            return Err(Reason::Kind);
        }
        let keys = self.vouch(issuer, &jws, algorithm, now).await?;
        // Only now are the claims proven to be the issuer's.
        let until = check_times(&jws.claims, issuer.skew, now)?;
        let bearer = Arc::new(Bearer { until: Some(until), ..read(&jws.claims, issuer)? });
        self.verified.insert(print, Entry { bearer: bearer.clone(), issuer: number, keys, until }, now);
        Ok(bearer)
    }

    fn issuer_of(&self, claims: &Claims) -> Option<(usize, &Issuer)> {
        let named = claims.text("iss")?;
        self.issuers.iter().enumerate().find(|(_, issuer)| issuer.issuer == named)
    }

    /// The key set with the key that made the signature.
    async fn vouch(
        &self,
        issuer: &Issuer,
        jws: &Jws<'_>,
        algorithm: Algorithm,
        now: Timestamp,
    ) -> Result<Arc<KeySet>, Reason> {
        let check = |keys: &KeySet| keys.check(jws.key.as_deref(), algorithm, jws.input, jws.signature_text);
        let mut keys = self.keys(issuer, Need::Usual, now).await?;
        let mut checked = check(&keys);
        // An unnamed key may have been replaced by another unnamed one.
        let may_be_new = matches!((checked, &jws.key), (Err(KeyFault::Unknown), _) | (Err(KeyFault::Wrong), None));
        if may_be_new {
            keys = self.keys(issuer, Need::News, now).await?;
            checked = check(&keys);
        }
        match checked {
            Ok(()) => Ok(keys),
            Err(KeyFault::Unknown) => Err(Reason::UnknownKey),
            Err(KeyFault::Mismatch) => Err(Reason::KeyMismatch),
            Err(KeyFault::Wrong) => Err(Reason::Signature),
        }
    }

    async fn keys(&self, issuer: &Issuer, need: Need, now: Timestamp) -> Result<Arc<KeySet>, Reason> {
        let url = match &issuer.keys {
            KeySource::Given(keys) => return Ok(keys.clone()),
            KeySource::At(url) => url.clone(),
            KeySource::Discovery => self.discover(issuer, need, now).await?,
        };
        let load = async { jwks::fetch(&url, &self.fetch).await.map(Arc::new).map_err(Miss::Unavailable) };
        let (age_max, meanwhile) = terms(need, KEYS_FRESH);
        self.key_sets.get(&url, age_max, meanwhile, now, load).await.map_err(unavailable)
    }

    async fn discover(&self, issuer: &Issuer, need: Need, now: Timestamp) -> Result<Url, Reason> {
        let base = issuer.issuer.trim_end_matches('/');
        let Ok(place) = Url::parse(&format!("{base}/.well-known/openid-configuration")) else {
            return Err(Reason::KeysUnavailable("not a URL to discover from".to_owned()));
        };
        let load = async {
            let document = jwks::document(&place, METADATA_BYTES_MAX, &self.fetch).await.map_err(Miss::Unavailable)?;
            read_metadata(&document, &issuer.issuer).map(Arc::new).map_err(|why| Miss::Unavailable(why.to_owned()))
        };
        let (age_max, meanwhile) = terms(need, METADATA_FRESH);
        let found = self.metadata.get(&place, age_max, meanwhile, now, load).await.map_err(unavailable)?;
        Ok((*found).clone())
    }
}

fn terms(need: Need, fresh: Duration) -> (Duration, Meanwhile) {
    match need {
        Need::Usual => (fresh, Meanwhile::Serve),
        Need::News => (REFRESH_MIN, Meanwhile::Wait),
    }
}

fn unavailable(miss: Miss) -> Reason {
    match miss {
        Miss::Absent => Reason::KeysUnavailable("there are none".to_owned()),
        Miss::Unavailable(why) => Reason::KeysUnavailable(why),
    }
}

fn check(issuer: &Issuer) -> Result<(), IssuerFault> {
    let name = || issuer.issuer.clone();
    if issuer.audiences.iter().all(String::is_empty) {
        return Err(IssuerFault::NoAudience(name()));
    }
    if issuer.algorithms.is_empty() {
        return Err(IssuerFault::NoAlgorithm(name()));
    }
    if issuer.skew > SKEW_MAX {
        return Err(IssuerFault::Skew(name()));
    }
    let place = match &issuer.keys {
        KeySource::Given(_) => return Ok(()),
        KeySource::At(url) => url.clone(),
        KeySource::Discovery => Url::parse(&issuer.issuer)
            .ok()
            .filter(|url| url.query().is_none() && url.fragment().is_none())
            .ok_or_else(|| IssuerFault::NotAUrl(name()))?,
    };
    if is_safe(&place) { Ok(()) } else { Err(IssuerFault::NotHttps(name())) }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether a URL uses TLS, or leads to our own machine.
fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_here(url))
}

/// The URL of the keys in a discovery document, which must be about the requested issuer (OpenID Connect Discovery
/// §4.3).
fn read_metadata(document: &[u8], issuer: &str) -> Result<Url, &'static str> {
    let metadata: Value = serde_json::from_slice(document).map_err(|_| "the discovery document is not JSON")?;
    if metadata.get("issuer").and_then(Value::as_str) != Some(issuer) {
        return Err("the discovery document is about another issuer");
    }
    let url = metadata.get("jwks_uri").and_then(Value::as_str).ok_or("the discovery document names no keys")?;
    let url = Url::parse(url).map_err(|_| "the discovery document names no keys")?;
    if is_safe(&url) { Ok(url) } else { Err("the keys are not behind https") }
}

/// The moment from which the token is invalid.
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for longer than we do")]
#[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
fn check_times(claims: &Claims, skew: Duration, now: Timestamp) -> Result<Timestamp, Reason> {
    let (at, skew) = (seconds(now) as f64, skew.as_secs_f64());
    let expires = claims.time("exp")?.ok_or(Reason::NoExpiry)? + skew;
    if expires <= at {
        return Err(Reason::Expired);
    }
    for name in ["nbf", "iat"] {
        if claims.time(name)?.is_some_and(|from| from > at + skew) {
            return Err(Reason::NotYet);
        }
    }
    Ok(Timestamp::from_millis((expires * 1000.0) as i64))
}

fn read(claims: &Claims, issuer: &Issuer) -> Result<Bearer, Reason> {
    let audience = claims.audience().unwrap_or_default();
    let ours = |name: &&str| issuer.audiences.iter().any(|own| own == name && !own.is_empty());
    if !audience.iter().any(ours) {
        return Err(Reason::Audience);
    }
    let scopes = scopes(claims);
    if let Some(missing) = issuer.scopes.iter().find(|scope| !scopes.contains(scope)) {
        return Err(Reason::Scope(missing.clone()));
    }
    Ok(Bearer {
        issuer: issuer.issuer.clone(),
        subject: claims.text("sub").filter(|sub| is_name(sub)).ok_or(Reason::Nobody)?.to_owned(),
        client: claims.text("azp").or_else(|| claims.text("client_id")).map(str::to_owned),
        scopes,
        until: None,
    })
}

/// `scope` is one text with blanks (RFC 8693); some providers write `scp`, as a list or as such a text.
fn scopes(claims: &Claims) -> Vec<String> {
    let words = |value: &Value| match value {
        Value::String(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let mut scopes: Vec<String> =
        ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).flat_map(words).collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

#[cfg(test)]
mod tests;
