//! Card signatures: verifies whether a trusted key vouches for a card.
//!
//! A card may carry detached JWS signatures (A2A 1.0 §8.4). There are exactly three outcomes: [`Verdict::Absent`],
//! which is no failure; [`Verdict::Unverifiable`], which says why; and [`Verdict::Verified`], which names the key and
//! its source. One valid signature is enough.
//!
//! [`TrustPolicy`] configures the sources of keys. A key is looked up in this order, the most reliable source first:
//!
//! 1. [`TrustPolicy::keys`]: pinned keys. A key id that is pinned is looked up nowhere else.
//! 2. [`TrustPolicy::authorities`]: the certificates in the signature's `x5c`, if one of these vouches for the card's host.
//! 3. [`TrustPolicy::registry`]: the keys that a registry lists for the card's host, at `{registry}/{host}`.
//! 4. The `jku` of the signature, or a `jwks_uri` of the card. Both URLs come from an untrusted card, so keys are
//!    fetched only below the URLs in [`TrustPolicy::roots`], below the registry, or, unless
//!    [`TrustPolicy::roots_only`] is set, at the card's own host and port.
//!
//! A verdict is about a signature. [`verified_card`] decides what of a card may be used because of it: only the covered
//! members, parsed again, and only if they name the agent's addresses and its security requirements. [`SignatureMode`]
//! configures how much of this is required; a client with a mode ([`crate::ClientBuilder::trust`]) refuses cards by it.
//!
//! ```no_run
//! # async fn example(found: sabir_client::DiscoveredCard, now: u64, client: sabir_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use sabir_client::signature::{Authorities, Jwks, SignatureMode, TrustPolicy};
//!
//! let trust = TrustPolicy {
//!     card_url: found.url.clone(),
//!     keys: Jwks::parse_set_or_key(&std::fs::read("keys.json")?)?,
//!     authorities: Authorities::parse(&std::fs::read("ca.pem")?)?,
//!     registry: Some("https://keys.example/agents".parse()?),
//!     roots_only: true,
//!     now,
//!     ..TrustPolicy::default()
//! };
//! let found = SignatureMode::Require.check_card(found, &trust, &client).await?;
//! # Ok(()) }
//! ```
//!
//! [`sabir_proto::digest`] defines what is signed. A verdict contains the covered members, because a canonical form
//! that leaves unknown members out does not cover them. This module opens no socket; [`FetchKeys`] fetches key sets for
//! it.

mod card_verification;
mod chain;
mod header;
pub(crate) mod jwks;
mod mode;

pub use crate::error::{SignatureFault, UntrustedReason};
pub use card_verification::{VerifiedCard, verified_card};
pub use chain::{Authorities, AuthoritiesFault};
pub use jwks::{Jwks, SignerKey};
pub use mode::{SignatureMode, UnknownSignatureMode};
pub use sabir_proto::digest::{CERTIFICATES_MAX, CanonicalForm, SIGNATURES_MAX};
pub use sabir_proto::jwks::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, JwksFault};
pub use sabir_wire::card::CARD_BYTES_MAX;

use crate::agent_reference::is_loopback;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use header::Header;
use sabir_proto::jwks::{KeyFault, SignedInput};
use sabir_proto::{canon, digest};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use url::Url;

/// The longest protected header, encoded. A chain of certificates fits, which is base64 twice over.
pub const PROTECTED_BYTES_MAX: usize = 32 * 1024;
/// The number of different key sets that are fetched for one card.
pub const KEY_FETCHES_MAX: usize = 4;

/// The result of checking the signatures of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A trusted key made one of the signatures.
    Verified {
        /// The id of the key.
        kid: String,
        /// The source of the key.
        source: CardKeySource,
        /// The canonical form under which the signature is valid.
        form: CanonicalForm,
        /// The members of the card that the signature covers, as canonical JSON. Trust no others.
        covered: String,
    },
    /// There are signatures, and none of them proves anything.
    Unverifiable {
        /// Why; of several signatures the one that is wrong, otherwise the first.
        reason: SignatureFault,
    },
    /// The card has no signature.
    Absent,
}

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardKeySource {
    /// The user configured the key.
    Given,
    /// The key is in a certificate for the card's host, signed by a configured authority.
    Certified,
    /// The configured registry lists the key for the card's host.
    Registered(Url),
    /// The key was fetched from the `jku` of the signature or the `jwks_uri` of the card.
    Fetched(Url),
}

/// The trusted sources of keys. By default only the card's own host is trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    /// The URL of the card; `None` for a file, which has no host.
    pub card_url: Option<Url>,
    /// Pinned keys of the user. An id of a pinned key is not looked up anywhere else.
    pub keys: Jwks,
    /// Authorities that may sign the certificate of a signer. The certificate must be for the card's host.
    pub authorities: Authorities,
    /// A registry of keys by host: `GET {registry}/{host}` returns a key set.
    pub registry: Option<Url>,
    /// URLs beyond the card's host below which keys may be fetched, with the same origin.
    pub roots: Vec<Url>,
    /// Trust only what is configured here. Keys at the card's own host prove nothing then, because an attacker that
    /// changes the card there can change the keys too.
    pub roots_only: bool,
    /// Also fetch keys from loopback without TLS, for tests.
    pub plain_loopback: bool,
    /// The current time, in Unix seconds.
    pub now: u64,
}

/// Fetches key sets. The URL comes from an untrusted card: the implementation sends no credential, follows no redirect,
/// applies the address policy, and reads at most [`JWKS_BYTES_MAX`] bytes.
pub trait FetchKeys: Send + Sync {
    /// Returns the body of a successful answer, or the reason of the failure in words.
    fn fetch(&self, url: &Url) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
}

/// Fetches nothing, so that only configured keys count.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFetch;

impl FetchKeys for NoFetch {
    async fn fetch(&self, _url: &Url) -> Result<Vec<u8>, String> {
        Err("fetching keys is switched off".to_owned())
    }
}

/// Checks the signatures of a card, given as received. [`verified_card`] decides which members of the card may be used.
pub async fn verify(card_json: &str, trust: &TrustPolicy, fetch: &impl FetchKeys) -> Verdict {
    match first_valid_signature(card_json, trust, fetch, Ok::<ValidSignature, Infallible>).await {
        Ok(ValidSignature { kid, source, form, covered, .. }) => Verdict::Verified { kid, source, form, covered },
        Err(VerificationFailure::Unverifiable(reason)) => Verdict::Unverifiable { reason },
        Err(VerificationFailure::Absent) => Verdict::Absent,
        Err(VerificationFailure::Refused(never)) => match never {},
    }
}

/// A valid signature of a card.
struct ValidSignature {
    kid: String,
    source: CardKeySource,
    form: CanonicalForm,
    covered: String,
    /// The signature as JSON, without its unprotected header.
    signature: String,
}

/// Why no signature of a card was accepted.
enum VerificationFailure<E> {
    Absent,
    Unverifiable(SignatureFault),
    /// A signature is valid, and the caller's `take` refused it.
    Refused(E),
}

/// Returns the result of `take` for the first valid signature that it accepts.
async fn first_valid_signature<T, E>(
    card_json: &str,
    trust: &TrustPolicy,
    fetch: &impl FetchKeys,
    take: impl Fn(ValidSignature) -> Result<T, E>,
) -> Result<T, VerificationFailure<E>> {
    let unverifiable = |reason| Err(VerificationFailure::Unverifiable(reason));
    if card_json.len() > CARD_BYTES_MAX {
        let why = format!("card of {} bytes, more than {CARD_BYTES_MAX}", card_json.len());
        return unverifiable(SignatureFault::Malformed(why));
    }
    let card = match canon::read(card_json) {
        Ok(card) => card,
        // A card without a canonical form may still be unsigned, which is no failure.
        Err(_) if is_unsigned(card_json) => return Err(VerificationFailure::Absent),
        Err(fault) => return unverifiable(SignatureFault::NotCanonical(fault.to_string())),
    };
    let signatures = match card.get("signatures") {
        None | Some(Value::Null) => return Err(VerificationFailure::Absent),
        Some(Value::Array(signatures)) if signatures.is_empty() => return Err(VerificationFailure::Absent),
        Some(Value::Array(signatures)) => signatures,
        Some(_) => return unverifiable(SignatureFault::Malformed("`signatures` must be a list".to_owned())),
    };
    if signatures.len() > SIGNATURES_MAX {
        let why = format!("{} signatures, more than {SIGNATURES_MAX}", signatures.len());
        return unverifiable(SignatureFault::Malformed(why));
    }
    let mut verifier = SignatureVerifier { card: &card, trust, fetch, fetched: HashMap::new() };
    let (mut reasons, mut refused) = (Vec::new(), None);
    for signature in signatures {
        match verifier.judge(signature).await.map(&take) {
            Ok(Ok(taken)) => return Ok(taken),
            Ok(Err(why)) => refused = refused.or(Some(why)),
            Err(reason) => reasons.push(reason),
        }
    }
    if let Some(why) = refused {
        return Err(VerificationFailure::Refused(why));
    }
    let telling = reasons.iter().position(SignatureFault::is_bad_signature).unwrap_or(0);
    unverifiable(reasons.swap_remove(telling))
}

fn is_unsigned(card_json: &str) -> bool {
    let card: Value = serde_json::from_str(card_json).unwrap_or_default();
    card.is_object() && card.get("signatures").is_none_or(Value::is_null)
}

struct SignatureVerifier<'a, F> {
    card: &'a Value,
    trust: &'a TrustPolicy,
    fetch: &'a F,
    /// Several signatures often use one key set.
    fetched: HashMap<Url, Result<Jwks, SignatureFault>>,
}

impl<F: FetchKeys> SignatureVerifier<'_, F> {
    /// Checks one signature. The cheap checks come first, so that a hopeless signature costs no fetch.
    async fn judge(&mut self, signature: &Value) -> Result<ValidSignature, SignatureFault> {
        let text = |name: &str| match signature.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(SignatureFault::Malformed(format!("`{name}` must be a string"))),
        };
        let (protected, signature) = (text("protected")?, text("signature")?);
        let header = Header::parse(protected)?;
        self.check_issuer(&header)?;
        URL_SAFE_NO_PAD.decode(signature).map_err(|e| SignatureFault::Malformed(format!("signature: {e}")))?;
        let (keys, source) = self.keys(&header).await?;
        let mut fault = KeyFault::Unknown;
        for form in CanonicalForm::ALL {
            let payload = digest::card(self.card, form).map_err(|e| SignatureFault::NotCanonical(e.to_string()))?;
            let input = digest::signing_input(protected, &payload);
            let signed = SignedInput { algorithm: header.algorithm, input: &input, signature };
            match keys.check(Some(&header.key), &signed, Some(self.trust.now)) {
                Ok(()) => {
                    let covered =
                        String::from_utf8(payload).map_err(|e| SignatureFault::NotCanonical(e.to_string()))?;
                    let signature = json!({"protected": protected, "signature": signature}).to_string();
                    return Ok(ValidSignature { kid: header.key, source, form, covered, signature });
                }
                Err(KeyFault::Wrong) => fault = KeyFault::Wrong,
                // The fault is about the key, so other canonical forms of the card change nothing.
                Err(other) => {
                    fault = other;
                    break;
                }
            }
        }
        Err(match fault {
            KeyFault::Unknown => SignatureFault::UnknownKey(header.key),
            KeyFault::Mismatch => SignatureFault::KeyMismatch(header.key),
            KeyFault::Expired => SignatureFault::KeyExpired(header.key),
            KeyFault::Wrong => SignatureFault::BadSignature,
        })
    }

    /// The keys to check a signature with, and their source. If a source fails, the next one is tried; the error of the
    /// first failed source is the reason if all fail.
    async fn keys(&mut self, header: &Header) -> Result<(Jwks, CardKeySource), SignatureFault> {
        if self.trust.keys.contains(&header.key) {
            return Ok((self.trust.keys.clone(), CardKeySource::Given));
        }
        let mut failed = None;
        if !header.chain.is_empty() && !self.trust.authorities.is_empty() {
            match self.certificate_key(header) {
                Ok(keys) => return Ok((keys, CardKeySource::Certified)),
                Err(reason) => failed = Some(reason),
            }
        }
        if let Some(entry) = self.trust.registry_url()? {
            match self.fetch(&entry).await {
                Ok(keys) if keys.contains(&header.key) => return Ok((keys, CardKeySource::Registered(entry))),
                Ok(_) => {}
                Err(reason) => failed = failed.or(Some(reason)),
            }
        }
        let stated = || self.card.get("jwks_uri").and_then(Value::as_str).map(str::to_owned);
        let Some(written) = header.keys_url.clone().or_else(stated) else {
            return Err(failed.unwrap_or_else(|| SignatureFault::UnknownKey(header.key.clone())));
        };
        let url = match self.trust.key_url(&written) {
            Ok(url) => url,
            Err(why) => return Err(failed.unwrap_or(SignatureFault::KeyUrlRefused { url: written, why })),
        };
        let keys = self.fetch(&url).await?;
        Ok((keys, CardKeySource::Fetched(url)))
    }

    /// The key in the certificate of a signature.
    fn certificate_key(&self, header: &Header) -> Result<Jwks, SignatureFault> {
        let refused = |why: String| SignatureFault::CertificateRefused { key: header.key.clone(), why };
        let host = self.trust.host().ok_or_else(|| refused("the card is a file, which has no host".to_owned()))?;
        self.trust.authorities.key(&header.chain, host, &header.key, self.trust.now).map_err(refused)
    }

    async fn fetch(&mut self, url: &Url) -> Result<Jwks, SignatureFault> {
        if let Some(keys) = self.fetched.get(url) {
            return keys.clone();
        }
        if self.fetched.len() >= KEY_FETCHES_MAX {
            return Err(SignatureFault::KeyUrlRefused { url: url.to_string(), why: "the card names too many places" });
        }
        let unavailable = |why: String| SignatureFault::KeysUnavailable { url: url.clone(), why };
        let keys = match self.fetch.fetch(url).await {
            Ok(body) => Jwks::parse_set_or_key(&body).map_err(|fault| unavailable(fault.to_string())),
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

    /// A key set may serve many hosts. If the signer names a host as issuer, it must be the card's host.
    fn check_issuer(&self, header: &Header) -> Result<(), SignatureFault> {
        let Some(issuer) = &header.issuer else { return Ok(()) };
        let foreign = |host: String| SignatureFault::ForeignIssuer { issuer: issuer.clone(), host };
        let Some(card_url) = &self.trust.card_url else {
            // A file has no host; the issuer must match the host of the agent's URL on the card.
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

impl TrustPolicy {
    /// The host of the card.
    fn host(&self) -> Option<&str> {
        self.card_url.as_ref().and_then(Url::host_str)
    }

    /// The URL of the registry's keys for the card's host. A file has no host, and so no entry.
    fn registry_url(&self) -> Result<Option<Url>, SignatureFault> {
        let (Some(registry), Some(host)) = (&self.registry, self.host()) else { return Ok(None) };
        let refused = |why| SignatureFault::KeyUrlRefused { url: registry.to_string(), why };
        // The user configured the registry, which may be on this machine.
        if registry.scheme() != "https" && !is_loopback(registry) {
            return Err(refused("a registry is asked by https only"));
        }
        let mut entry = registry.clone();
        entry.path_segments_mut().map_err(|()| refused("not a place"))?.pop_if_empty().push(host);
        Ok(Some(entry))
    }

    /// The URL to fetch keys from, or why it is not trusted.
    fn key_url(&self, written: &str) -> Result<Url, &'static str> {
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
        // Another port is another server, which may belong to another party.
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

/// Compares whole path segments: `/keys` covers `/keys` and `/keys/a`, but not `/keys-of-another`.
fn is_below(root: &str, path: &str) -> bool {
    let root = root.strip_suffix('/').unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
