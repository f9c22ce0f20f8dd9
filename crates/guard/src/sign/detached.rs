//! Detached signatures: a JWS (RFC 7515) without its payload, over the RFC 8785 form.

use super::SigningKey;
use crate::authn::jwks::KeySet;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::jwks::{JwsAlgorithm, SignedInput};
use sabir_proto::{Json, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The longest header that is read.
const HEADER_BYTES_MAX: usize = 4096;

/// A signature beside a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedSignature {
    /// The header: algorithm and name of the key, as base64url.
    pub protected: String,
    /// The signature, as base64url.
    pub signature: String,
}

impl DetachedSignature {
    /// Signs bytes; `None` if the library refuses, for no reason we know of.
    pub fn sign(payload: &[u8], key: &SigningKey) -> Option<Self> {
        let header = json!({"alg": key.algorithm().name(), "kid": key.id(), "typ": "JOSE"});
        let protected = URL_SAFE_NO_PAD.encode(header.to_string());
        let signature = URL_SAFE_NO_PAD.encode(key.sign(&digest::signing_input(&protected, payload))?);
        Some(Self { protected, signature })
    }

    /// The id of the key in the header.
    pub fn key_id(&self) -> Option<String> {
        self.header()?.get("kid")?.as_str().map(str::to_owned)
    }

    /// Whether a key of the set signed these bytes. The header names the key; a header with critical parameters is
    /// refused, since we know none.
    pub fn is_signed_by(&self, payload: &[u8], keys: &KeySet) -> bool {
        let Some(header) = self.header().filter(|header| !header.contains_key("crit")) else { return false };
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        match (text("alg").and_then(JwsAlgorithm::parse), text("kid")) {
            (Some(algorithm), Some(id)) => {
                let input = digest::signing_input(&self.protected, payload);
                let signed = SignedInput { algorithm, input: &input, signature: &self.signature };
                keys.check(Some(id), &signed, None).is_ok()
            }
            _ => false,
        }
    }

    fn header(&self) -> Option<Map<String, Value>> {
        if self.protected.len() > HEADER_BYTES_MAX {
            return None;
        }
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(&self.protected).ok()?).ok()?;
        Json::parse(&text).ok()?.read().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_its_bytes_and_its_key_alone() {
        let (ours, _) = SigningKey::generate(Some("one")).unwrap();
        let (other, _) = SigningKey::generate(Some("one")).unwrap();
        let set = |key: &SigningKey| {
            KeySet::parse(super::super::key_set(std::slice::from_ref(key)).to_string().as_bytes()).unwrap()
        };
        let signed = DetachedSignature::sign(b"text", &ours).unwrap();
        assert_eq!(signed.key_id().as_deref(), Some("one"));
        assert!(signed.is_signed_by(b"text", &set(&ours)));
        assert!(!signed.is_signed_by(b"texT", &set(&ours)) && !signed.is_signed_by(b"text", &set(&other)));
        let crit = URL_SAFE_NO_PAD.encode(r#"{"alg":"ES256","kid":"one","crit":["x"]}"#);
        assert!(!DetachedSignature { protected: crit, ..signed }.is_signed_by(b"text", &set(&ours)));
    }
}
