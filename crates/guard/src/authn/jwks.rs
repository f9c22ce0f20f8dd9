//! Key sets (RFC 7517) of the issuers whose tokens we accept.
//!
//! A set comes from a server that we do not control, so its size is bounded, and keys that we cannot use are skipped.
//! Symmetric keys and their algorithms are not supported: a verifier with such a key could also have signed with it.
//! Each key takes only algorithms of its own kind, whatever a token claims.

use crate::fetch::{self, Fetch, FetchMethod, FetchRequest};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm as Known, DecodingKey};
use serde_json::Value;
use std::fmt;
use url::Url;

/// The largest key set that is read, in bytes.
pub const BYTES_MAX: usize = 256 * 1024;
/// The maximum number of keys in a set. Rotation needs three.
pub const KEYS_MAX: usize = 100;
/// The maximum number of keys with the same id that are tried.
const SAME_NAME_MAX: usize = 4;

/// The algorithms that a signature may use. There is no `none` and no HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
pub enum JwsAlgorithm {
    ES256,
    ES384,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    EdDSA,
}

impl JwsAlgorithm {
    /// Every supported algorithm.
    pub const ALL: [Self; 9] = [
        Self::ES256,
        Self::ES384,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::EdDSA,
    ];

    /// The `alg` value in tokens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::EdDSA => "EdDSA",
        }
    }

    /// Parses an `alg` value, exactly as tokens write it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    const fn library_algorithm(self) -> Known {
        match self {
            Self::ES256 => Known::ES256,
            Self::ES384 => Known::ES384,
            Self::RS256 => Known::RS256,
            Self::RS384 => Known::RS384,
            Self::RS512 => Known::RS512,
            Self::PS256 => Known::PS256,
            Self::PS384 => Known::PS384,
            Self::PS512 => Known::PS512,
            Self::EdDSA => Known::EdDSA,
        }
    }
}

/// Why no key verifies a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySetFault {
    /// No key has this id, or the token names no key and there are several.
    Unknown,
    /// The key is not for this algorithm.
    Mismatch,
    /// The key fits the algorithm, and the signature is wrong.
    Wrong,
}

/// A set of public keys.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Known>,
    key: DecodingKey,
}

impl KeySet {
    /// Parses a set; the error says what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        if text.len() > BYTES_MAX {
            return Err("the key set is too long");
        }
        let document: Value = serde_json::from_slice(text).map_err(|_| "the key set is not JSON")?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or("the key set has no `keys`")?;
        if keys.len() > KEYS_MAX {
            return Err("the key set has too many keys");
        }
        Ok(Self { keys: keys.iter().filter_map(Key::read).collect() })
    }

    /// The number of usable keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the set has no usable key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key with this id made the signature (base64url).
    pub fn has_signed(&self, id: &str, algorithm: JwsAlgorithm, input: &[u8], signature: &str) -> bool {
        self.check(Some(id), algorithm, input, signature).is_ok()
    }

    /// Whether a key with this id made the signature (base64url). Without an id, exactly one key must fit.
    pub(super) fn check(
        &self,
        id: Option<&str>,
        algorithm: JwsAlgorithm,
        input: &[u8],
        signature: &str,
    ) -> Result<(), KeySetFault> {
        let named = |key: &&Key| id.is_none() || key.id.as_deref() == id;
        let mut candidates: Vec<&Key> = self.keys.iter().filter(named).collect();
        if candidates.is_empty() {
            return Err(KeySetFault::Unknown);
        }
        candidates.retain(|key| key.algorithms.contains(&algorithm.library_algorithm()));
        match candidates.len() {
            0 => return Err(KeySetFault::Mismatch),
            2.. if id.is_none() => return Err(KeySetFault::Unknown),
            _ => {}
        }
        let good = |key: &&Key| {
            jsonwebtoken::crypto::verify(signature, input, &key.key, algorithm.library_algorithm()).unwrap_or(false)
        };
        if candidates.iter().take(SAME_NAME_MAX).any(good) { Ok(()) } else { Err(KeySetFault::Wrong) }
    }
}

/// Prints the ids only: the keys are public, but their numbers would only fill the log.
impl fmt::Debug for KeySet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.keys.iter().map(|key| key.id.as_deref().unwrap_or("(unnamed)"))).finish()
    }
}

impl Key {
    fn read(value: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        let fit: &[Known] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => {
                &[Known::RS256, Known::RS384, Known::RS512, Known::PS256, Known::PS384, Known::PS512]
            }
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Known::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Known::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Known::EdDSA],
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let common = jwk.common;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            && common.key_operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        // A key that names its algorithm is for that one alone, also if we do not know it.
        let pinned = |algorithm: &&Known| common.key_algorithm.is_none_or(|only| only == (**algorithm).into());
        let algorithms = if signs { fit.iter().filter(pinned).copied().collect() } else { Vec::new() };
        Some(Self { id: common.key_id, algorithms, key })
    }
}

/// Fetches and parses a key set.
pub(super) async fn fetch(url: &Url, fetch: &impl Fetch) -> Result<KeySet, String> {
    let body = document(url, BYTES_MAX, fetch).await?;
    KeySet::parse(&body).map_err(str::to_owned)
}

/// Fetches a document; any status but 200 is an error.
pub(super) async fn document(url: &Url, bytes_max: usize, fetch: &impl Fetch) -> Result<bytes::Bytes, String> {
    let request = FetchRequest { url: url.clone(), method: FetchMethod::Get, bytes_max };
    let answer = fetch::fetch_bounded(fetch, request).await.map_err(|fault| fault.to_string())?;
    if answer.status == 200 { Ok(answer.body) } else { Err(format!("status {}", answer.status)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn elliptic(id: &str) -> Value {
        json!({
            "kty": "EC", "crv": "P-256", "kid": id,
            "x": "2q6fzIMTBVo4WLU6j-ZOyZMe0bEYXKWC9Pgt2T0hIUg", "y": "a1lclVZXoXUVlCz2dxxi5yW6vUzRaFNg1rPN9aT9dS4",
        })
    }

    fn parse(keys: &Value) -> KeySet {
        KeySet::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keys_that_we_cannot_use_are_passed_over() {
        let set = parse(&json!([
            {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}, {"kty": "LATTICE", "kid": "later"}, {}, 7, elliptic("good"),
        ]));
        assert_eq!((set.len(), format!("{set:?}").as_str()), (1, r#"["good"]"#));
        assert!(parse(&json!([])).is_empty());
    }

    #[test]
    fn a_set_that_is_none_or_too_much_is_refused() {
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(KeySet::parse(&vec![b' '; BYTES_MAX + 1]).is_err());
        let many = vec![json!({}); KEYS_MAX + 1];
        assert!(KeySet::parse(json!({"keys": many}).to_string().as_bytes()).is_err());
    }

    #[test]
    fn each_key_takes_only_what_it_is_for() {
        let check = |member: &str, value: Value| {
            let mut key = elliptic("k");
            key[member] = value;
            parse(&json!([key])).check(Some("k"), JwsAlgorithm::ES256, b"x", "AA")
        };
        assert_eq!(check("use", json!("enc")), Err(KeySetFault::Mismatch));
        assert_eq!(check("key_ops", json!(["sign"])), Err(KeySetFault::Mismatch));
        assert_eq!(check("alg", json!("ES384")), Err(KeySetFault::Mismatch));
        assert_eq!(check("alg", json!("ES256")), Err(KeySetFault::Wrong));
        let set = parse(&json!([elliptic("a"), elliptic("b")]));
        assert_eq!(set.check(Some("a"), JwsAlgorithm::RS256, b"x", "AA"), Err(KeySetFault::Mismatch));
        assert_eq!(set.check(Some("c"), JwsAlgorithm::ES256, b"x", "AA"), Err(KeySetFault::Unknown));
        assert_eq!(set.check(None, JwsAlgorithm::ES256, b"x", "AA"), Err(KeySetFault::Unknown), "no choice is made");
    }

    #[test]
    fn no_algorithm_uses_a_shared_secret() {
        for name in ["none", "HS256", "HS384", "HS512", "es256", "ES256 ", ""] {
            assert_eq!(JwsAlgorithm::parse(name), None, "{name}");
        }
        for algorithm in JwsAlgorithm::ALL {
            assert_eq!(JwsAlgorithm::parse(algorithm.name()), Some(algorithm));
        }
    }
}
