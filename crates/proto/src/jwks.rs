//! Key sets (RFC 7517): reads them under limits and chooses the keys that may have made a signature.
//!
//! A set comes from a file of the user or from a server that we do not control, so its size is bounded. Keys that we
//! cannot use are skipped. Symmetric keys and their algorithms are not supported: a verifier with such a key could also
//! have signed with it. Each key takes only algorithms of its own kind, whatever a token claims.
//!
//! Absent on purpose: cryptography and I/O. The crate that verifies brings its keys as a [`SignatureKey`].

use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt;

/// The largest key set that is read. A hundred RSA keys with certificate chains fit; more is an attack or a mistake.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of keys in a set. Rotation needs three.
pub const JWKS_KEYS_MAX: usize = 100;
/// The number of keys of one id that are tried. A set may hold an elliptic and an RSA key under one id, not fifty.
const SAME_ID_KEYS_MAX: usize = 4;

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

    /// The `kty` of the keys for the algorithm, and their `crv`.
    const fn key_kind(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::ES256 => ("EC", Some("P-256")),
            Self::ES384 => ("EC", Some("P-384")),
            Self::RS256 | Self::RS384 | Self::RS512 | Self::PS256 | Self::PS384 | Self::PS512 => ("RSA", None),
            Self::EdDSA => ("OKP", Some("Ed25519")),
        }
    }
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
    /// The text is no key set.
    #[error("not a key set: {0}")]
    Unreadable(String),
}

/// Why no key of a set verifies a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// No key has this id, or the signature names no key and several fit.
    Unknown,
    /// The key of that id is of another kind than the algorithm, or not for signatures.
    Mismatch,
    /// The key of that id is not valid yet, expired or revoked.
    Expired,
    /// The key fits the algorithm, and the signature is wrong.
    Wrong,
}

/// A signature and the bytes that it signs.
#[derive(Debug, Clone, Copy)]
pub struct SignedInput<'a> {
    /// The algorithm that the header names.
    pub algorithm: JwsAlgorithm,
    /// The bytes that the signature covers.
    pub input: &'a [u8],
    /// The signature in base64url, as in the JWS.
    pub signature: &'a str,
}

/// A public key as a library for cryptography holds it.
pub trait SignatureKey: Sized {
    /// Builds the key from a JWK; the result is empty for a key that the library cannot use.
    fn from_jwk(jwk: &Value) -> Option<Self>;

    /// Whether this key made the signature. A key that is unusable (not a point of its curve, too short) did not.
    fn verifies(&self, signed: &SignedInput<'_>) -> bool;
}

/// A set of public keys.
#[derive(Clone)]
pub struct KeySet<K> {
    keys: Vec<SetKey<K>>,
}

#[derive(Clone)]
struct SetKey<K> {
    id: Option<String>,
    /// The algorithms that this key may be used with; empty for a key that is not for signatures.
    algorithms: Vec<JwsAlgorithm>,
    validity: ValidityPeriod,
    key: K,
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

impl<K> Default for KeySet<K> {
    fn default() -> Self {
        Self { keys: Vec::new() }
    }
}

impl<K: SignatureKey> KeySet<K> {
    /// Parses a key set, within the limits of this module.
    pub fn parse(text: &[u8]) -> Result<Self, JwksFault> {
        Self::from_members(members(text)?)
    }

    /// Parses a key set or a single key.
    pub fn parse_set_or_key(text: &[u8]) -> Result<Self, JwksFault> {
        let members = members(text)?;
        if members.contains_key("kty") && !members.contains_key("keys") {
            return Ok(Self { keys: SetKey::read(&Value::Object(members)).into_iter().collect() });
        }
        Self::from_members(members)
    }

    fn from_members(mut members: Map<String, Value>) -> Result<Self, JwksFault> {
        let Some(Value::Array(keys)) = members.remove("keys") else {
            return Err(JwksFault::Unreadable("`keys` must be a list".to_owned()));
        };
        if keys.len() > JWKS_KEYS_MAX {
            return Err(JwksFault::TooMany(keys.len()));
        }
        Ok(Self { keys: keys.iter().filter_map(SetKey::read).collect() })
    }

    /// Checks a signature with the keys of this id. Without an id, exactly one key must fit the algorithm. With `at`
    /// (seconds since 1970) the key must be valid at that time; without it, its validity period is ignored.
    pub fn check(&self, id: Option<&str>, signed: &SignedInput<'_>, at: Option<u64>) -> Result<(), KeyFault> {
        let named = |key: &&SetKey<K>| id.is_none() || key.id.as_deref() == id;
        let mut candidates: Vec<&SetKey<K>> = self.keys.iter().filter(named).collect();
        if candidates.is_empty() {
            return Err(KeyFault::Unknown);
        }
        candidates.retain(|key| key.algorithms.contains(&signed.algorithm));
        match candidates.len() {
            0 => return Err(KeyFault::Mismatch),
            2.. if id.is_none() => return Err(KeyFault::Unknown),
            _ => {}
        }
        candidates.retain(|key| at.is_none_or(|at| key.validity.includes(at)));
        if candidates.is_empty() {
            return Err(KeyFault::Expired);
        }
        let good = candidates.into_iter().take(SAME_ID_KEYS_MAX).any(|key| key.key.verifies(signed));
        if good { Ok(()) } else { Err(KeyFault::Wrong) }
    }
}

impl<K> KeySet<K> {
    /// The set with one key, which may be used with one algorithm and is always valid.
    pub fn single(id: &str, algorithm: JwsAlgorithm, key: K) -> Self {
        let validity = ValidityPeriod::default();
        Self { keys: vec![SetKey { id: Some(id.to_owned()), algorithms: vec![algorithm], validity, key }] }
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

    /// Whether the set has a usable key with this id.
    pub fn contains(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }
}

/// Shows only ids: a key set is public, but long.
impl<K> fmt::Debug for KeySet<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.keys.iter().map(|key| key.id.as_deref().unwrap_or("(unnamed)"))).finish()
    }
}

fn members(text: &[u8]) -> Result<Map<String, Value>, JwksFault> {
    if text.len() > JWKS_BYTES_MAX {
        return Err(JwksFault::TooLarge(text.len()));
    }
    serde_json::from_slice(text).map_err(|error| JwksFault::Unreadable(error.to_string()))
}

impl<K: SignatureKey> SetKey<K> {
    fn read(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let fits = |algorithm: &JwsAlgorithm| match algorithm.key_kind() {
            (kty, None) => text("kty") == Some(kty),
            (kty, curve) => text("kty") == Some(kty) && text("crv") == curve,
        };
        let mut algorithms: Vec<JwsAlgorithm> = JwsAlgorithm::ALL.into_iter().filter(fits).collect();
        if algorithms.is_empty() {
            return None;
        }
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        let signs = matches!(text("use"), None | Some("sig"))
            && operations.is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        // A key that names its algorithm is only for that algorithm, even if we do not know it.
        algorithms.retain(|algorithm| signs && text("alg").is_none_or(|only| only == algorithm.name()));
        let validity = ValidityPeriod::deserialize(jwk).ok()?;
        Some(Self { id: text("kid").map(str::to_owned), algorithms, validity, key: K::from_jwk(jwk)? })
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

    /// A key that made every signature, unless its coordinate is "other". Without a coordinate it is no key.
    struct FakeKey {
        fits: bool,
    }

    impl SignatureKey for FakeKey {
        fn from_jwk(jwk: &Value) -> Option<Self> {
            jwk.get("x").map(|x| Self { fits: x != "other" })
        }

        fn verifies(&self, signed: &SignedInput<'_>) -> bool {
            self.fits && signed.signature == "good"
        }
    }

    fn parse(value: &Value) -> Result<KeySet<FakeKey>, JwksFault> {
        KeySet::parse(value.to_string().as_bytes())
    }

    fn elliptic(id: &str) -> Value {
        json!({"kty": "EC", "crv": "P-256", "kid": id, "x": "x", "y": "y"})
    }

    fn check(keys: Value, id: Option<&str>, algorithm: JwsAlgorithm, at: Option<u64>) -> Result<(), KeyFault> {
        let signed = SignedInput { algorithm, input: b"x", signature: "good" };
        parse(&json!({"keys": keys})).unwrap().check(id, &signed, at)
    }

    #[test]
    fn keys_that_we_cannot_use_are_skipped() {
        let odd = json!({"keys": [
            {"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "x": "x"},
            {"kty": "OKP", "crv": "X25519", "kid": "agreement", "x": "x"},
            {"kty": "EC", "crv": "P-256", "kid": "empty"},
            {"kty": "LATTICE", "kid": "later", "x": "x"}, {}, 7, elliptic("good"),
        ]});
        let keys = parse(&odd).unwrap();
        assert_eq!((keys.len(), format!("{keys:?}").as_str()), (1, r#"["good"]"#));
        assert!(keys.contains("good") && !keys.contains("shared") && !keys.is_empty());
    }

    #[test]
    fn a_huge_or_senseless_set_is_refused() {
        let refused = |text: &[u8]| KeySet::<FakeKey>::parse(text).unwrap_err();
        assert_eq!(refused(&vec![b' '; JWKS_BYTES_MAX + 1]), JwksFault::TooLarge(JWKS_BYTES_MAX + 1));
        let many = json!({"keys": vec![json!({}); JWKS_KEYS_MAX + 1]});
        assert_eq!(parse(&many).err(), Some(JwksFault::TooMany(JWKS_KEYS_MAX + 1)));
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert!(matches!(refused(text.as_bytes()), JwksFault::Unreadable(_)), "{text}");
            assert!(KeySet::<FakeKey>::parse_set_or_key(text.as_bytes()).is_err(), "{text}");
        }
        let single = elliptic("one");
        assert!(parse(&single).is_err());
        assert!(KeySet::<FakeKey>::parse_set_or_key(single.to_string().as_bytes()).unwrap().contains("one"));
    }

    #[test]
    fn few_keys_of_one_id_are_tried() {
        let checked_after = |others: usize| {
            let mut other = elliptic("k");
            other["x"] = json!("other");
            let mut keys = vec![other; others];
            keys.push(elliptic("k"));
            check(json!(keys), Some("k"), JwsAlgorithm::ES256, None)
        };
        assert_eq!(checked_after(SAME_ID_KEYS_MAX - 1), Ok(()));
        assert_eq!(checked_after(SAME_ID_KEYS_MAX), Err(KeyFault::Wrong), "each key costs a verification");
    }

    #[test]
    fn each_key_takes_only_what_it_is_for_and_only_in_its_time() {
        let with = |member: &str, value: Value, at: Option<u64>| {
            let mut key = elliptic("k");
            key[member] = value;
            check(json!([key]), Some("k"), JwsAlgorithm::ES256, at)
        };
        for (member, value) in
            [("use", json!("enc")), ("key_ops", json!(["sign"])), ("alg", json!("ES384")), ("alg", json!("ES999"))]
        {
            assert_eq!(with(member, value, None), Err(KeyFault::Mismatch), "{member}");
        }
        for (member, value) in [("exp", json!(1000)), ("nbf", json!(1001)), ("revoked", json!({"revoked_at": 1}))] {
            assert_eq!(with(member, value.clone(), Some(1000)), Err(KeyFault::Expired), "{member}");
            assert_eq!(with(member, value, None), Ok(()), "{member}");
        }
        assert_eq!(with("alg", json!("ES256"), Some(1000)), Ok(()));
    }

    #[test]
    fn without_an_id_the_set_must_leave_no_choice() {
        let set = json!([elliptic("a"), elliptic("b")]);
        assert_eq!(check(set.clone(), Some("a"), JwsAlgorithm::RS256, None), Err(KeyFault::Mismatch));
        assert_eq!(check(set.clone(), Some("c"), JwsAlgorithm::ES256, None), Err(KeyFault::Unknown));
        assert_eq!(check(set, None, JwsAlgorithm::ES256, None), Err(KeyFault::Unknown));
        assert_eq!(check(json!([]), None, JwsAlgorithm::ES256, None), Err(KeyFault::Unknown));
        assert_eq!(check(json!([elliptic("a")]), None, JwsAlgorithm::ES256, None), Ok(()));
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
