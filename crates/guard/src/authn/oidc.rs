//! Tokens of an issuer that publishes its keys: JWTs under RFC 9068, or as OpenID providers make them.
//!
//! A token must name a configured issuer, exactly. The keys are in the configuration, or fetched from a URL, or from
//! where the discovery document says. Keys change: a token with an unknown key makes us fetch the set again, but not
//! too often, because any sender can invent names of keys. While an issuer is unreachable, its last keys serve for a
//! bounded time.

use super::jwks::{self, KeySet};
use super::jws::{Claims, Jws, JwsFault};
use super::token_cache::{self, CachedToken, VerifiedTokenCache};
use super::{Principal, Scheme, is_name};
use crate::fetch::Fetch;
use crate::refreshing_cache::{CacheLimits, LoadFault, RefreshingCache, WhileLoading};
use crate::unix_seconds;
use sabir_proto::Timestamp;
use sabir_proto::jwks::{JwsAlgorithm, KeyFault, SignedInput};
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
pub struct TrustedIssuer {
    /// The `iss` claim, compared exactly.
    pub issuer: String,
    /// A token must be for one of these audiences. There must be one.
    pub audiences: Vec<String>,
    /// The source of the issuer's keys.
    pub keys: KeySource,
    /// The accepted signature algorithms.
    pub algorithms: Vec<JwsAlgorithm>,
    /// The scopes that a token must have, all of them.
    pub scopes: Vec<String>,
    /// How far the issuer's clock and ours may be apart.
    pub skew: Duration,
}

impl TrustedIssuer {
    /// An issuer whose keys are found by discovery, with the usual rules.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            keys: KeySource::Discovery,
            algorithms: JwsAlgorithm::ALL.to_vec(),
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
pub struct VerifiedToken {
    /// The `iss` claim of the token.
    pub issuer: String,
    /// The `sub` claim of the token.
    pub subject: String,
    /// The client that got the token, from `azp` or `client_id`, if the token says so.
    pub client: Option<String>,
    /// The scopes, from `scope` and `scp`.
    pub scopes: Vec<String>,
    /// The moment from which the token is invalid; `None` if no token was shown.
    pub valid_until: Option<Timestamp>,
}

impl VerifiedToken {
    /// The caller as a principal. A subject is unique within its issuer only; an issuer has no fragment, so `#` ends
    /// it.
    pub fn principal(&self) -> Principal {
        Principal::new(Scheme::Jwt, format!("{}#{}", self.issuer, self.subject))
    }
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessTokenFault {
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
    #[error("the token names no user")]
    NoSubject,
    /// A scope is missing. The caller is known, and is told which one.
    #[error("the token does not have scope {0:?}")]
    Scope(String),
    /// The keys of the issuer are unavailable.
    #[error("the keys of the issuer cannot be had: {0}")]
    KeysUnavailable(String),
}

impl AccessTokenFault {
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
            Self::NoSubject => "token_nobody",
            Self::Scope(_) => "token_scope",
            Self::KeysUnavailable(_) => "keys_unavailable",
        }
    }
}

/// The configured issuers, with caches of their keys and of verified tokens.
pub struct TrustedIssuers<F> {
    issuers: Vec<TrustedIssuer>,
    fetch: F,
    key_sets: RefreshingCache<Url, Arc<KeySet>>,
    metadata: RefreshingCache<Url, Arc<Url>>,
    token_cache: VerifiedTokenCache,
}

/// Whether the cached keys are good enough.
#[derive(Clone, Copy, PartialEq)]
enum KeyFreshness {
    Usual,
    Refreshed,
}

impl<F: Fetch> TrustedIssuers<F> {
    /// Checks the configuration; fetches nothing yet.
    pub fn new(issuers: Vec<TrustedIssuer>, fetch: F) -> Result<Self, IssuerFault> {
        if issuers.len() > ISSUERS_MAX {
            return Err(IssuerFault::TooMany);
        }
        for (at, issuer) in issuers.iter().enumerate() {
            check_issuer(issuer)?;
            if issuers[..at].iter().any(|other| other.issuer == issuer.issuer) {
                return Err(IssuerFault::Twice(issuer.issuer.clone()));
            }
        }
        let limits =
            CacheLimits { stale: STALE_MAX, pause: PAUSE, entries_max: 2 * ISSUERS_MAX, loads_max: ISSUERS_MAX };
        let (key_sets, metadata) = (RefreshingCache::new(limits), RefreshingCache::new(limits));
        Ok(Self { issuers, fetch, key_sets, metadata, token_cache: VerifiedTokenCache::default() })
    }

    /// Whether a token claims a configured issuer, so that it must be verified here. Nothing is proven.
    pub fn has_issuer_of(&self, token: &str) -> bool {
        Jws::parse(token).is_ok_and(|jws| self.issuer_of(&jws.claims).is_some())
    }

    /// Verifies a token and returns its holder.
    pub async fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<VerifiedToken>, AccessTokenFault> {
        let print = token_cache::token_hash(token);
        if let Some(entry) = self.token_cache.get(&print, now) {
            let keys = self.keys(&self.issuers[entry.issuer], KeyFreshness::Usual, now).await?;
            if Arc::ptr_eq(&keys, &entry.keys) {
                return Ok(entry.token);
            }
        }
        let jws = Jws::parse(token)?;
        let (number, issuer) = self.issuer_of(&jws.claims).ok_or(AccessTokenFault::Issuer)?;
        let algorithm = JwsAlgorithm::parse(&jws.algorithm).ok_or(AccessTokenFault::Algorithm)?;
        if !issuer.algorithms.contains(&algorithm) {
            return Err(AccessTokenFault::Algorithm);
        }
        if jws.kind.as_deref().is_some_and(|kind| !matches!(kind, "jwt" | "at+jwt")) {
            return Err(AccessTokenFault::Kind);
        }
        let keys = self.verify_signature(issuer, &jws, algorithm, now).await?;
        // Only now are the claims proven to be the issuer's.
        let until = check_times(&jws.claims, issuer.skew, now)?;
        let bearer = Arc::new(VerifiedToken { valid_until: Some(until), ..read_claims(&jws.claims, issuer)? });
        self.token_cache.insert(
            print,
            CachedToken { token: bearer.clone(), issuer: number, keys, valid_until: until },
            now,
        );
        Ok(bearer)
    }

    fn issuer_of(&self, claims: &Claims) -> Option<(usize, &TrustedIssuer)> {
        let named = claims.text("iss")?;
        self.issuers.iter().enumerate().find(|(_, issuer)| issuer.issuer == named)
    }

    /// The key set with the key that made the signature.
    async fn verify_signature(
        &self,
        issuer: &TrustedIssuer,
        jws: &Jws<'_>,
        algorithm: JwsAlgorithm,
        now: Timestamp,
    ) -> Result<Arc<KeySet>, AccessTokenFault> {
        let signed = SignedInput { algorithm, input: jws.input, signature: jws.signature_text };
        let check = |keys: &KeySet| keys.check(jws.key.as_deref(), &signed, None);
        let mut keys = self.keys(issuer, KeyFreshness::Usual, now).await?;
        let mut checked = check(&keys);
        // An unnamed key may have been replaced by another unnamed one.
        let may_be_new = matches!((checked, &jws.key), (Err(KeyFault::Unknown), _) | (Err(KeyFault::Wrong), None));
        if may_be_new {
            keys = self.keys(issuer, KeyFreshness::Refreshed, now).await?;
            checked = check(&keys);
        }
        match checked {
            Ok(()) => Ok(keys),
            Err(KeyFault::Unknown | KeyFault::Expired) => Err(AccessTokenFault::UnknownKey),
            Err(KeyFault::Mismatch) => Err(AccessTokenFault::KeyMismatch),
            Err(KeyFault::Wrong) => Err(AccessTokenFault::Signature),
        }
    }

    async fn keys(
        &self,
        issuer: &TrustedIssuer,
        need: KeyFreshness,
        now: Timestamp,
    ) -> Result<Arc<KeySet>, AccessTokenFault> {
        let url = match &issuer.keys {
            KeySource::Given(keys) => return Ok(keys.clone()),
            KeySource::At(url) => url.clone(),
            KeySource::Discovery => self.discover(issuer, need, now).await?,
        };
        let load = async { jwks::fetch(&url, &self.fetch).await.map(Arc::new).map_err(LoadFault::Unavailable) };
        let (age_max, meanwhile) = cache_rules(need, KEYS_FRESH);
        self.key_sets.get(&url, age_max, meanwhile, now, load).await.map_err(unavailable)
    }

    async fn discover(
        &self,
        issuer: &TrustedIssuer,
        need: KeyFreshness,
        now: Timestamp,
    ) -> Result<Url, AccessTokenFault> {
        let base = issuer.issuer.trim_end_matches('/');
        let Ok(place) = Url::parse(&format!("{base}/.well-known/openid-configuration")) else {
            return Err(AccessTokenFault::KeysUnavailable("not a URL to discover from".to_owned()));
        };
        let load = async {
            let document =
                jwks::document(&place, METADATA_BYTES_MAX, &self.fetch).await.map_err(LoadFault::Unavailable)?;
            read_metadata(&document, &issuer.issuer).map(Arc::new).map_err(|why| LoadFault::Unavailable(why.to_owned()))
        };
        let (age_max, meanwhile) = cache_rules(need, METADATA_FRESH);
        let found = self.metadata.get(&place, age_max, meanwhile, now, load).await.map_err(unavailable)?;
        Ok((*found).clone())
    }
}

fn cache_rules(need: KeyFreshness, fresh: Duration) -> (Duration, WhileLoading) {
    match need {
        KeyFreshness::Usual => (fresh, WhileLoading::Serve),
        KeyFreshness::Refreshed => (REFRESH_MIN, WhileLoading::Wait),
    }
}

fn unavailable(miss: LoadFault) -> AccessTokenFault {
    match miss {
        LoadFault::Absent => AccessTokenFault::KeysUnavailable("there are none".to_owned()),
        LoadFault::Unavailable(why) => AccessTokenFault::KeysUnavailable(why),
    }
}

fn check_issuer(issuer: &TrustedIssuer) -> Result<(), IssuerFault> {
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
    if is_https_or_loopback(&place) { Ok(()) } else { Err(IssuerFault::NotHttps(name())) }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether a URL uses TLS, or leads to our own machine.
fn is_https_or_loopback(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
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
    if is_https_or_loopback(&url) { Ok(url) } else { Err("the keys are not behind https") }
}

/// The moment from which the token is invalid.
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for longer than we do")]
#[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
fn check_times(claims: &Claims, skew: Duration, now: Timestamp) -> Result<Timestamp, AccessTokenFault> {
    let (at, skew) = (unix_seconds(now) as f64, skew.as_secs_f64());
    let expires = claims.time("exp")?.ok_or(AccessTokenFault::NoExpiry)? + skew;
    if expires <= at {
        return Err(AccessTokenFault::Expired);
    }
    for name in ["nbf", "iat"] {
        if claims.time(name)?.is_some_and(|from| from > at + skew) {
            return Err(AccessTokenFault::NotYet);
        }
    }
    Ok(Timestamp::from_millis((expires * 1000.0) as i64))
}

fn read_claims(claims: &Claims, issuer: &TrustedIssuer) -> Result<VerifiedToken, AccessTokenFault> {
    let audience = claims.audience().unwrap_or_default();
    let ours = |name: &&str| issuer.audiences.iter().any(|own| own == name && !own.is_empty());
    if !audience.iter().any(ours) {
        return Err(AccessTokenFault::Audience);
    }
    let scopes = scopes(claims);
    if let Some(missing) = issuer.scopes.iter().find(|scope| !scopes.contains(scope)) {
        return Err(AccessTokenFault::Scope(missing.clone()));
    }
    Ok(VerifiedToken {
        issuer: issuer.issuer.clone(),
        subject: claims.text("sub").filter(|sub| is_name(sub)).ok_or(AccessTokenFault::NoSubject)?.to_owned(),
        client: claims.text("azp").or_else(|| claims.text("client_id")).map(str::to_owned),
        scopes,
        valid_until: None,
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
