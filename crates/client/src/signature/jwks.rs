//! Key sets (RFC 7517): public keys, and the verification of signatures with them.
//!
//! A set comes from a file of the user or from an untrusted server, so its size is bounded. Keys that we cannot use are
//! skipped. Symmetric keys are never used: a verifier that holds one could also sign with it. Each key accepts only the
//! algorithms of its own kind, whatever a header claims.

use super::chain::KeyKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// The largest key set that is read. A hundred RSA keys with certificate chains fit; more is an attack or a mistake.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// The number of keys of one set that are used.
pub const JWKS_KEYS_MAX: usize = 100;
/// The number of keys of one id that are tried. A set may hold an elliptic and an RSA key under one id, not fifty.
const SAME_NAME_MAX: usize = 4;

/// A set of public keys.
#[derive(Clone, Default)]
pub struct Jwks {
    keys: Vec<JwksKey>,
}

/// Why a text is not a key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwksFault {
    /// The set exceeds [`JWKS_BYTES_MAX`].
    #[error("key set of {0} bytes, more than {JWKS_BYTES_MAX}")]
    TooLarge(usize),
    /// The set has more than [`JWKS_KEYS_MAX`] keys.
    #[error("key set of {0} keys, more than {JWKS_KEYS_MAX}")]
    TooMany(usize),
    /// The text is neither a key set nor a key.
    #[error("not a key set: {0}")]
    Unreadable(String),
}

/// Why no key of a set verifies a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFault {
    /// The set has no key of that id.
    Unknown,
    /// The key of that id is of another kind than the algorithm, or not for signatures.
    Mismatch,
    /// The key of that id is not valid yet, expired or revoked.
    Expired,
    /// The key fits and the signature is wrong.
    Wrong,
}

#[derive(Clone)]
struct JwksKey {
    id: Option<String>,
    /// The algorithms that this key may be used with; empty for a key that is not for signatures.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
    validity: ValidityPeriod,
}

/// When a key may be used. RFC 7517 has no such members; OpenID Federation and several issuers use them, and A2A 1.0
/// §8.4.3 forbids expired and revoked keys.
#[derive(Clone, Default, Deserialize)]
struct ValidityPeriod {
    #[serde(default)]
    nbf: Option<f64>,
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    revoked: Option<Value>,
}

impl Jwks {
    /// Parses a key set or a single key. Keys of a kind that we cannot use are skipped.
    pub fn parse(text: &[u8]) -> Result<Self, JwksFault> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(JwksFault::TooLarge(text.len()));
        }
        let unreadable = |why: &str| JwksFault::Unreadable(why.to_owned());
        let document: Value = serde_json::from_slice(text).map_err(|e| JwksFault::Unreadable(e.to_string()))?;
        let keys = match document {
            Value::Object(mut members) => match members.remove("keys") {
                Some(Value::Array(keys)) => keys,
                Some(_) => return Err(unreadable("`keys` must be a list")),
                None if members.contains_key("kty") => vec![Value::Object(members)],
                None => return Err(unreadable("neither `keys` nor `kty`")),
            },
            _ => return Err(unreadable("must be an object")),
        };
        if keys.len() > JWKS_KEYS_MAX {
            return Err(JwksFault::TooMany(keys.len()));
        }
        Ok(Self { keys: keys.into_iter().filter_map(JwksKey::read).collect() })
    }

    /// A set with the key of a certificate, under a key id.
    pub(super) fn from_certificate_key(id: &str, kind: KeyKind, public: &[u8]) -> Self {
        let (algorithms, key) = match kind {
            KeyKind::P256 => (vec![Algorithm::ES256], DecodingKey::from_ec_der(public)),
            KeyKind::Rsa => (vec![Algorithm::RS256], DecodingKey::from_rsa_der(public)),
            KeyKind::Ed25519 => (vec![Algorithm::EdDSA], DecodingKey::from_ed_der(public)),
        };
        // The certificate limits the validity.
        Self { keys: vec![JwksKey { id: Some(id.to_owned()), algorithms, key, validity: ValidityPeriod::default() }] }
    }

    /// The set with the keys of both sets.
    #[must_use]
    pub fn with(mut self, others: Self) -> Self {
        self.keys.extend(others.keys);
        self
    }

    /// The number of usable keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the set has no usable key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// Checks a signature, which is base64url, with the keys of this id. Without an id the set must have exactly one
    /// key that fits the algorithm.
    pub(crate) fn check(&self, id: Option<&str>, signed: &SignedInput<'_>, now: u64) -> Result<(), KeyFault> {
        let named = |key: &&JwksKey| id.is_none() || key.id.as_deref() == id;
        let mut candidates: Vec<&JwksKey> = self.keys.iter().filter(named).collect();
        if candidates.is_empty() {
            return Err(KeyFault::Unknown);
        }
        candidates.retain(|key| key.algorithms.contains(&signed.algorithm));
        if candidates.is_empty() {
            return Err(KeyFault::Mismatch);
        }
        if id.is_none() && candidates.len() > 1 {
            return Err(KeyFault::Unknown);
        }
        candidates.retain(|key| key.validity.includes(now));
        if candidates.is_empty() {
            return Err(KeyFault::Expired);
        }
        let good = |key: &&JwksKey| {
            // An unusable key (not a point of the curve, too short) has not made the signature.
            jsonwebtoken::crypto::verify(signed.signature, signed.input, &key.key, signed.algorithm).unwrap_or(false)
        };
        if candidates.into_iter().take(SAME_NAME_MAX).any(|key| good(&key)) { Ok(()) } else { Err(KeyFault::Wrong) }
    }
}

/// A signature and the bytes that it signs.
pub(crate) struct SignedInput<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) input: &'a [u8],
    /// The signature in base64url, as in the JWS.
    pub(crate) signature: &'a str,
}

/// Shows only ids: a key set is public, but long.
impl fmt::Debug for Jwks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.keys.iter().map(|key| key.id.as_deref().unwrap_or("(unnamed)"))).finish()
    }
}

impl JwksKey {
    fn read(value: Value) -> Option<Self> {
        let life = ValidityPeriod::deserialize(&value).ok()?;
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let fit: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => return None,
        };
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let common = jwk.common;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            && common.key_operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        // A key that names its algorithm is only for that algorithm, even if we do not know it.
        let pinned = |algorithm: &&Algorithm| common.key_algorithm.is_none_or(|only| only == (**algorithm).into());
        let algorithms = if signs { fit.iter().filter(pinned).copied().collect() } else { Vec::new() };
        Some(Self { id: common.key_id, algorithms, key, validity: life })
    }
}

impl ValidityPeriod {
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 fit a double for longer than we do")]
    fn includes(&self, now: u64) -> bool {
        let now = now as f64;
        self.revoked.is_none() && self.nbf.is_none_or(|from| from <= now) && self.exp.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: &Value) -> Result<Jwks, JwksFault> {
        Jwks::parse(value.to_string().as_bytes())
    }

    fn elliptic(id: &str) -> Value {
        json!({
            "kty": "EC", "crv": "P-256", "kid": id,
            "x": "2q6fzIMTBVo4WLU6j-ZOyZMe0bEYXKWC9Pgt2T0hIUg", "y": "a1lclVZXoXUVlCz2dxxi5yW6vUzRaFNg1rPN9aT9dS4",
        })
    }

    #[test]
    fn keys_we_cannot_use_are_passed_over() {
        let odd = json!({"keys": [
            {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
            {"kty": "OKP", "crv": "X25519", "kid": "agreement", "x": "YafuSXz-EMXQTs2zBecmwZzv12Dn1cpXQhIpALwGlus"},
            {"kty": "LATTICE", "kid": "later"}, {}, 7, elliptic("good"),
        ]});
        let keys = parse(&odd).unwrap();
        assert_eq!(keys.len(), 1);
        assert!(keys.contains("good") && !keys.contains("shared"));
        assert_eq!(format!("{keys:?}"), r#"["good"]"#);
    }

    #[test]
    fn a_single_key_is_a_set_too() {
        assert!(parse(&elliptic("one")).unwrap().contains("one"));
        assert!(parse(&json!({"keys": []})).unwrap().is_empty());
    }

    #[test]
    fn a_huge_or_senseless_set_is_refused() {
        assert_eq!(Jwks::parse(&vec![b' '; JWKS_BYTES_MAX + 1]).err(), Some(JwksFault::TooLarge(JWKS_BYTES_MAX + 1)));
        let many = vec![json!({}); JWKS_KEYS_MAX + 1];
        assert_eq!(parse(&json!({"keys": many})).err(), Some(JwksFault::TooMany(JWKS_KEYS_MAX + 1)));
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert!(matches!(Jwks::parse(text.as_bytes()), Err(JwksFault::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_not_for_this_is_a_mismatch_and_one_out_of_its_time_has_expired() {
        let signed = SignedInput { algorithm: Algorithm::ES256, input: b"x", signature: "AA" };
        let check = |member: &str, value: Value| {
            let mut key = elliptic("k");
            key[member] = value;
            parse(&json!({"keys": [key]})).unwrap().check(Some("k"), &signed, 1000)
        };
        assert_eq!(check("use", json!("enc")), Err(KeyFault::Mismatch));
        assert_eq!(check("key_ops", json!(["sign"])), Err(KeyFault::Mismatch));
        assert_eq!(check("alg", json!("ES384")), Err(KeyFault::Mismatch));
        assert_eq!(check("alg", json!("ES999")), Err(KeyFault::Mismatch));
        assert_eq!(check("exp", json!(1000)), Err(KeyFault::Expired));
        assert_eq!(check("nbf", json!(1001)), Err(KeyFault::Expired));
        assert_eq!(check("revoked", json!({"revoked_at": 1})), Err(KeyFault::Expired));
        assert_eq!(check("alg", json!("ES256")), Err(KeyFault::Wrong));
        assert_eq!(check("x", json!("AAAA")), Err(KeyFault::Wrong), "not a point of the curve");
    }

    #[test]
    fn without_a_name_the_set_must_leave_no_choice() {
        let signed = SignedInput { algorithm: Algorithm::ES256, input: b"x", signature: "AA" };
        let check = |keys: Value| parse(&json!({"keys": keys})).unwrap().check(None, &signed, 0);
        assert_eq!(check(json!([])), Err(KeyFault::Unknown));
        assert_eq!(check(json!([elliptic("a"), elliptic("b")])), Err(KeyFault::Unknown));
        assert_eq!(check(json!([elliptic("a")])), Err(KeyFault::Wrong));
    }
}
