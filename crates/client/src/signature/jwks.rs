//! The public keys of signers: verifies signatures with them.
//!
//! The limits of key sets and the choice of the key are those of [`sabir_proto::jwks`].

use super::chain::KeyKind;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::Jwk;
use sabir_proto::jwks::{JwsAlgorithm, KeySet, SignatureKey, SignedInput};
use serde_json::Value;

/// A set of public keys.
pub type Jwks = KeySet<SignerKey>;

/// A public key of a signer.
#[derive(Clone)]
pub struct SignerKey(DecodingKey);

impl SignatureKey for SignerKey {
    fn from_jwk(jwk: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk.clone()).ok()?;
        DecodingKey::from_jwk(&jwk).ok().map(Self)
    }

    fn verifies(&self, signed: &SignedInput<'_>) -> bool {
        let Ok(algorithm) = signed.algorithm.name().parse() else { return false };
        jsonwebtoken::crypto::verify(signed.signature, signed.input, &self.0, algorithm).unwrap_or(false)
    }
}

/// The set with the key of a certificate, under a key id. The certificate limits the validity.
pub(super) fn certificate_key_set(id: &str, kind: KeyKind, public: &[u8]) -> Jwks {
    let (algorithm, key) = match kind {
        KeyKind::P256 => (JwsAlgorithm::ES256, DecodingKey::from_ec_der(public)),
        KeyKind::Rsa => (JwsAlgorithm::RS256, DecodingKey::from_rsa_der(public)),
        KeyKind::Ed25519 => (JwsAlgorithm::EdDSA, DecodingKey::from_ed_der(public)),
    };
    KeySet::single(id, algorithm, SignerKey(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::jwks::KeyFault;
    use serde_json::json;

    #[test]
    fn a_key_off_its_curve_has_signed_nothing() {
        let check = |x: &str| {
            let y = "a1lclVZXoXUVlCz2dxxi5yW6vUzRaFNg1rPN9aT9dS4";
            let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y}]});
            let signed = SignedInput { algorithm: JwsAlgorithm::ES256, input: b"x", signature: "AA" };
            Jwks::parse(keys.to_string().as_bytes()).unwrap().check(Some("k"), &signed, Some(0))
        };
        assert_eq!(check("2q6fzIMTBVo4WLU6j-ZOyZMe0bEYXKWC9Pgt2T0hIUg"), Err(KeyFault::Wrong));
        assert_eq!(check("AAAA"), Err(KeyFault::Wrong), "not a point of the curve");
    }
}
