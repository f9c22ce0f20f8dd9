//! Card signatures: whether somebody we can name vouches for a card.
//!
//! A card may carry detached JWS signatures (A2A 1.0 §8.4). There are three outcomes and no fourth:
//! [`Verdict::Absent`], which is no failure; [`Verdict::Unverifiable`], which says why; and [`Verdict::Verified`],
//! which says by which key, and where that key came from. One good signature is enough.
//!
//! Whom we believe is in [`Trust`], and a key is looked for in this order, the surest first:
//!
//! 1. [`Trust::keys`]: pinned keys. A name that is among them is looked for nowhere else.
//! 2. [`Trust::authorities`]: the certificates in the signature's `x5c`, where one of these vouches for the
//!    card's host.
//! 3. [`Trust::registry`]: the keys that a registry has for the card's host, at `{registry}/{host}`.
//! 4. The `jku` of the signature, or a `jwks_uri` of the card. Both are URLs chosen by a stranger, so they are followed
//!    only to places in [`Trust::roots`], below the registry, or, unless [`Trust::roots_only`], at the card's own
//!    host and port.
//!
//! A verdict is about a signature. What of a card may be used because of it is for [`vouched`] to say: what was
//! covered, read anew, and only if that tells where the agent is and what it asks for. How much of this somebody wants
//! is their [`Mode`]; a client that was given one ([`crate::Builder::trust`]) refuses cards by it.
//!
//! ```no_run
//! # async fn example(found: sabir_client::Found, now: u64, client: sabir_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use sabir_client::signature::{Authorities, Jwks, Mode, Trust};
//!
//! let trust = Trust {
//!     card_url: found.url.clone(),
//!     keys: Jwks::parse(&std::fs::read("keys.json")?)?,
//!     authorities: Authorities::parse(&std::fs::read("ca.pem")?)?,
//!     registry: Some("https://keys.example/agents".parse()?),
//!     roots_only: true,
//!     now,
//!     ..Trust::default()
//! };
//! let found = Mode::Require.admit(found, &trust, &client).await?;
//! # Ok(()) }
//! ```
//!
//! What is signed is defined in [`sabir_proto::digest`], and the verdict repeats what was covered: a reading that
//! leaves unknown members out says nothing about them. No socket is opened here; [`FetchKeys`] does that for us.

mod chain;
mod header;
pub(crate) mod jwks;
mod mode;
mod vouch;

pub use chain::{Authorities, AuthoritiesFault, CERTIFICATES_MAX};
pub use jwks::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, Jwks, JwksFault};
pub use mode::{Distrust, Mode, UnknownMode};
pub use sabir_proto::digest::Form;
pub use vouch::{Vouched, vouched};

use crate::reference::is_loopback;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use header::Header;
use jwks::{KeyFault, Signed};
use sabir_proto::{canon, digest};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use url::Url;

/// The largest card whose signatures we check; canonical forms are built in memory, three times over.
pub const CARD_BYTES_MAX: usize = 1024 * 1024;
/// How many signatures of one card we look at. Rotation needs two.
pub const SIGNATURES_MAX: usize = 16;
/// The longest protected header, encoded. A chain of certificates fits, which is encoded twice over.
pub const PROTECTED_BYTES_MAX: usize = 32 * 1024;
/// How many different key sets we fetch for one card.
pub const KEY_FETCHES_MAX: usize = 4;

/// What became of the signatures of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A key we trust made one of the signatures.
    Verified {
        /// The name of the key.
        kid: String,
        /// Where the key came from.
        source: Source,
        /// The reading under which the signature holds.
        form: Form,
        /// The members of the card that the signature speaks for, as canonical JSON. Trust no other.
        covered: String,
    },
    /// There are signatures, and none of them tells us anything.
    Unverifiable {
        /// Why; of several signatures the one that is plainly wrong, else the first.
        reason: Reason,
    },
    /// Nobody signed.
    Absent,
}

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The user gave it.
    Given,
    /// A configured authority vouches for it, and that it is the card's host's.
    Certified,
    /// The configured registry has it for the card's host.
    Registered(Url),
    /// It was fetched from the `jku` of the signature.
    Fetched(Url),
}

/// Why a signature tells us nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Not a JWS, or beyond a limit.
    #[error("malformed: {0}")]
    Malformed(String),
    /// The card has no canonical form, so nothing can be computed over it.
    #[error("the card has no canonical form: {0}")]
    NotCanonical(String),
    /// `none`, an HMAC, or something we do not know.
    #[error("algorithm {0:?} is not accepted")]
    AlgorithmRefused(String),
    /// The header asks for something we do not understand.
    #[error("critical header parameters {0} are not understood")]
    Critical(String),
    /// A2A requires `kid`.
    #[error("the header names no key")]
    NoKeyId,
    /// No key of this name where we looked.
    #[error("key {0:?} is not known")]
    UnknownKey(String),
    /// The key is of another kind than the algorithm, or not for signatures.
    #[error("key {0:?} does not fit the algorithm")]
    KeyMismatch(String),
    /// The key is expired, revoked or not valid yet.
    #[error("key {0:?} is expired, revoked or not valid yet")]
    KeyExpired(String),
    /// The certificates in the header are no reason to believe anything.
    #[error("the certificate of key {key:?} is not accepted: {why}")]
    CertificateRefused {
        /// The name of the key.
        key: String,
        /// What is wrong with them.
        why: String,
    },
    /// The `jku` points somewhere we do not follow.
    #[error("keys at {url:?} are not trusted: {why}")]
    PlaceRefused {
        /// The `jku` as it was written.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The `jku` was followed and led nowhere.
    #[error("keys at {url} could not be read: {why}")]
    KeysUnavailable {
        /// Where.
        url: Url,
        /// What went wrong.
        why: String,
    },
    /// The header names an issuer that is not the card's host.
    #[error("issued by {issuer:?}, but the card comes from {host}")]
    ForeignIssuer {
        /// The `iss` as it was written.
        issuer: String,
        /// The card's host, or where else it came from.
        host: String,
    },
    /// The key fits and the signature does not: the card or the signature was changed.
    #[error("the signature is wrong: the card is not what was signed")]
    Wrong,
}

impl Reason {
    /// A short name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NotCanonical(_) => "not_canonical",
            Self::AlgorithmRefused(_) => "alg_not_allowed",
            Self::Critical(_) => "unsupported_crit",
            Self::NoKeyId => "no_kid",
            Self::UnknownKey(_) => "unknown_key",
            Self::KeyMismatch(_) => "alg_key_mismatch",
            Self::KeyExpired(_) => "key_expired",
            Self::CertificateRefused { .. } => "x5c_refused",
            Self::PlaceRefused { .. } => "jku_refused",
            Self::KeysUnavailable { .. } => "keys_unavailable",
            Self::ForeignIssuer { .. } => "foreign_issuer",
            Self::Wrong => "bad_signature",
        }
    }

    /// Whether this is evidence against the card, and not only a lack of evidence for it.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong)
    }
}

/// Whom we believe. By default nobody but the card's own host.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Where the card came from; `None` for a file, which has no host of its own.
    pub card_url: Option<Url>,
    /// Keys the user gave. A key here settles the matter: its name is not looked up anywhere else.
    pub keys: Jwks,
    /// Authorities that may vouch for the certificate of a signer. The certificate must be for the card's host.
    pub authorities: Authorities,
    /// A registry of keys by host: `GET {registry}/{host}` is a key set.
    pub registry: Option<Url>,
    /// Places beyond the card's host from which keys may be fetched: same origin, and below this path.
    pub roots: Vec<Url>,
    /// Believe nothing but what is configured here: keys at the card's own host are no reason, since whoever changes a
    /// card there can change them too.
    pub roots_only: bool,
    /// Also fetch keys from loopback without TLS. For tests.
    pub plain_loopback: bool,
    /// The time, in Unix seconds.
    pub now: u64,
}

/// Fetches a key set. The other end was chosen by a stranger: no credential, no redirect, the usual checks on the
/// address, and at most [`JWKS_BYTES_MAX`] bytes.
pub trait FetchKeys: Send + Sync {
    /// The body of a successful answer, or in words what went wrong.
    fn fetch(&self, url: &Url) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
}

/// Fetches nothing: only keys the user gave count.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFetch;

impl FetchKeys for NoFetch {
    async fn fetch(&self, _url: &Url) -> Result<Vec<u8>, String> {
        Err("fetching keys is switched off".to_owned())
    }
}

/// Judges the signatures of a card, which is given as it was received. Which of its members may be used is another
/// question, that [`vouched`] answers.
pub async fn verify(card_json: &str, trust: &Trust, fetch: &impl FetchKeys) -> Verdict {
    match holding(card_json, trust, fetch, Ok::<Held, Infallible>).await {
        Ok(Held { kid, source, form, covered, .. }) => Verdict::Verified { kid, source, form, covered },
        Err(Failure::Unverifiable(reason)) => Verdict::Unverifiable { reason },
        Err(Failure::Absent) => Verdict::Absent,
        Err(Failure::Refused(never)) => match never {},
    }
}

/// A signature that holds.
struct Held {
    kid: String,
    source: Source,
    form: Form,
    covered: String,
    /// Itself, as JSON, without what is not under it.
    signature: String,
}

/// Why no signature was taken.
enum Failure<E> {
    Absent,
    Unverifiable(Reason),
    /// One holds, and whoever asked wants none of it.
    Refused(E),
}

/// What is made of the first signature that holds and is taken.
async fn holding<T, E>(
    card_json: &str,
    trust: &Trust,
    fetch: &impl FetchKeys,
    take: impl Fn(Held) -> Result<T, E>,
) -> Result<T, Failure<E>> {
    let unverifiable = |reason| Err(Failure::Unverifiable(reason));
    if card_json.len() > CARD_BYTES_MAX {
        let why = format!("card of {} bytes, more than {CARD_BYTES_MAX}", card_json.len());
        return unverifiable(Reason::Malformed(why));
    }
    let card = match canon::read(card_json) {
        Ok(card) => card,
        // What has no canonical form may still be an unsigned card, which is no failure.
        Err(_) if is_unsigned(card_json) => return Err(Failure::Absent),
        Err(fault) => return unverifiable(Reason::NotCanonical(fault.to_string())),
    };
    let signatures = match card.get("signatures") {
        None | Some(Value::Null) => return Err(Failure::Absent),
        Some(Value::Array(signatures)) if signatures.is_empty() => return Err(Failure::Absent),
        Some(Value::Array(signatures)) => signatures,
        Some(_) => return unverifiable(Reason::Malformed("`signatures` must be a list".to_owned())),
    };
    if signatures.len() > SIGNATURES_MAX {
        let why = format!("{} signatures, more than {SIGNATURES_MAX}", signatures.len());
        return unverifiable(Reason::Malformed(why));
    }
    let mut verifier = Verifier { card: &card, trust, fetch, fetched: HashMap::new() };
    let (mut reasons, mut refused) = (Vec::new(), None);
    for signature in signatures {
        match verifier.judge(signature).await.map(&take) {
            Ok(Ok(taken)) => return Ok(taken),
            Ok(Err(why)) => refused = refused.or(Some(why)),
            Err(reason) => reasons.push(reason),
        }
    }
    if let Some(why) = refused {
        return Err(Failure::Refused(why));
    }
    let telling = reasons.iter().position(Reason::is_wrong).unwrap_or(0);
    unverifiable(reasons.swap_remove(telling))
}

fn is_unsigned(card_json: &str) -> bool {
    let card: Value = serde_json::from_str(card_json).unwrap_or_default();
    card.is_object() && card.get("signatures").is_none_or(Value::is_null)
}

struct Verifier<'a, F> {
    card: &'a Value,
    trust: &'a Trust,
    fetch: &'a F,
    /// Several signatures often point to one set.
    fetched: HashMap<Url, Result<Jwks, Reason>>,
}

impl<F: FetchKeys> Verifier<'_, F> {
    /// The cheap checks come first, so that a hopeless signature costs no fetch.
    async fn judge(&mut self, signature: &Value) -> Result<Held, Reason> {
        let text = |name: &str| match signature.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(Reason::Malformed(format!("`{name}` must be a string"))),
        };
        let (protected, signature) = (text("protected")?, text("signature")?);
        let header = Header::parse(protected)?;
        self.check_issuer(&header)?;
        URL_SAFE_NO_PAD.decode(signature).map_err(|e| Reason::Malformed(format!("signature: {e}")))?;
        let (keys, source) = self.keys(&header).await?;
        let mut fault = KeyFault::Unknown;
        for form in Form::ALL {
            let payload = digest::card(self.card, form).map_err(|e| Reason::NotCanonical(e.to_string()))?;
            let input = digest::signing_input(protected, &payload);
            let signed = Signed { algorithm: header.algorithm, input: &input, signature };
            match keys.check(Some(&header.key), &signed, self.trust.now) {
                Ok(()) => {
                    let covered = String::from_utf8(payload).map_err(|e| Reason::NotCanonical(e.to_string()))?;
                    let signature = json!({"protected": protected, "signature": signature}).to_string();
                    return Ok(Held { kid: header.key, source, form, covered, signature });
                }
                Err(KeyFault::Wrong) => fault = KeyFault::Wrong,
                // About the key, so another reading of the card changes nothing.
                Err(other) => {
                    fault = other;
                    break;
                }
            }
        }
        Err(match fault {
            KeyFault::Unknown => Reason::UnknownKey(header.key),
            KeyFault::Mismatch => Reason::KeyMismatch(header.key),
            KeyFault::Expired => Reason::KeyExpired(header.key),
            KeyFault::Wrong => Reason::Wrong,
        })
    }

    /// The keys to check a signature with, and where they are from. A root that does not help leaves it to the next,
    /// and what it said is the reason if none does.
    async fn keys(&mut self, header: &Header) -> Result<(Jwks, Source), Reason> {
        if self.trust.keys.knows(&header.key) {
            return Ok((self.trust.keys.clone(), Source::Given));
        }
        let mut failed = None;
        if !header.chain.is_empty() && !self.trust.authorities.is_empty() {
            match self.certified(header) {
                Ok(keys) => return Ok((keys, Source::Certified)),
                Err(reason) => failed = Some(reason),
            }
        }
        if let Some(entry) = self.trust.entry()? {
            match self.fetch(&entry).await {
                Ok(keys) if keys.knows(&header.key) => return Ok((keys, Source::Registered(entry))),
                Ok(_) => {}
                Err(reason) => failed = failed.or(Some(reason)),
            }
        }
        let stated = || self.card.get("jwks_uri").and_then(Value::as_str).map(str::to_owned);
        let Some(written) = header.keys_url.clone().or_else(stated) else {
            return Err(failed.unwrap_or_else(|| Reason::UnknownKey(header.key.clone())));
        };
        let url = match self.trust.place(&written) {
            Ok(url) => url,
            Err(why) => return Err(failed.unwrap_or(Reason::PlaceRefused { url: written, why })),
        };
        let keys = self.fetch(&url).await?;
        Ok((keys, Source::Fetched(url)))
    }

    /// The key in the certificate of a signature.
    fn certified(&self, header: &Header) -> Result<Jwks, Reason> {
        let refused = |why: String| Reason::CertificateRefused { key: header.key.clone(), why };
        let host = self.trust.host().ok_or_else(|| refused("the card is a file, which has no host".to_owned()))?;
        self.trust.authorities.key(&header.chain, host, &header.key, self.trust.now).map_err(refused)
    }

    async fn fetch(&mut self, url: &Url) -> Result<Jwks, Reason> {
        if let Some(keys) = self.fetched.get(url) {
            return keys.clone();
        }
        if self.fetched.len() >= KEY_FETCHES_MAX {
            return Err(Reason::PlaceRefused { url: url.to_string(), why: "the card names too many places" });
        }
        let unavailable = |why: String| Reason::KeysUnavailable { url: url.clone(), why };
        let keys = match self.fetch.fetch(url).await {
            Ok(body) => Jwks::parse(&body).map_err(|fault| unavailable(fault.to_string())),
            Err(why) => Err(unavailable(why)),
        };
        self.fetched.insert(url.clone(), keys.clone());
        keys
    }

    /// The host of the first address on the card.
    fn declared_host(&self) -> Option<String> {
        let first =
            self.card.get("supportedInterfaces").and_then(|list| list.get(0)).and_then(|first| first.get("url"));
        let url = first.or_else(|| self.card.get("url"))?.as_str()?;
        Url::parse(url).ok()?.host_str().map(str::to_owned)
    }

    /// A key set may serve many hosts; a signer that says for which one it signed is taken at its word.
    fn check_issuer(&self, header: &Header) -> Result<(), Reason> {
        let Some(issuer) = &header.issuer else { return Ok(()) };
        let foreign = |host: String| Reason::ForeignIssuer { issuer: issuer.clone(), host };
        let Some(card_url) = &self.trust.card_url else {
            // A file is from nowhere; what is left is the domain that the card says its agent is at.
            let declared = self.declared_host();
            let fine = declared.as_deref().is_some_and(|host| issuer.eq_ignore_ascii_case(host));
            return if fine { Ok(()) } else { Err(foreign(declared.unwrap_or_else(|| "a file".to_owned()))) };
        };
        let host = card_url.host_str().unwrap_or_default();
        let bare = issuer.eq_ignore_ascii_case(host);
        let as_url = || Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == card_url.origin());
        if bare || as_url() { Ok(()) } else { Err(foreign(host.to_owned())) }
    }
}

impl Trust {
    /// The card's host.
    fn host(&self) -> Option<&str> {
        self.card_url.as_ref().and_then(Url::host_str)
    }

    /// Where the registry has the keys of the card's host. A file has no host, and no entry.
    fn entry(&self) -> Result<Option<Url>, Reason> {
        let (Some(registry), Some(host)) = (&self.registry, self.host()) else { return Ok(None) };
        let refused = |why| Reason::PlaceRefused { url: registry.to_string(), why };
        // The user named it, who may have meant this machine.
        if registry.scheme() != "https" && !is_loopback(registry) {
            return Err(refused("a registry is asked by https only"));
        }
        let mut entry = registry.clone();
        entry.path_segments_mut().map_err(|()| refused("not a place"))?.pop_if_empty().push(host);
        Ok(Some(entry))
    }

    /// Whether keys may be fetched from there, and from where exactly.
    fn place(&self, written: &str) -> Result<Url, &'static str> {
        let mut url = Url::parse(written).map_err(|_| "not a URL")?;
        url.set_fragment(None);
        url.host().ok_or("no host")?;
        match url.scheme() {
            "https" => {}
            "http" if self.plain_loopback && is_loopback(&url) => {}
            _ => return Err("keys are fetched by https only"),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL for keys carries no credentials");
        }
        // Another port is another server, and perhaps somebody else's.
        let at = |url: &Url| (url.host().map(|host| host.to_owned()), url.port_or_known_default());
        let own = !self.roots_only && self.card_url.as_ref().is_some_and(|own| at(own) == at(&url));
        let below = |root: &Url| root.origin() == url.origin() && is_below(root.path(), url.path());
        let named = self.roots.iter().chain(&self.registry).any(below);
        match (own || named, self.roots_only) {
            (true, _) => Ok(url),
            (false, false) => Err("neither the card's host nor named by the user"),
            (false, true) => Err("not among the configured roots"),
        }
    }
}

/// By whole segments: `/keys` covers `/keys` and `/keys/a`, but not `/keys-of-somebody-else`.
fn is_below(root: &str, path: &str) -> bool {
    let root = root.strip_suffix('/').unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
