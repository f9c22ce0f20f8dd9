//! Public keys that are still published though they sign no more.

use super::key::{FILE_BYTES_MAX, thumbprint, without_leading_zeros};
use super::{SigningAlgorithm, SigningKey, SigningKeyFault};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use sabir_proto::{Secret, canon};
use serde_json::{Map, Value, json};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The JWK to publish for a key file: that of a private key, or a public one (PEM or JWK).
pub fn public_jwk(text: &Secret) -> Result<Value, SigningKeyFault> {
    match SigningKey::read(text, None) {
        Ok(key) => Ok(key.public()),
        Err(SigningKeyFault::NotPrivate) => public(text.expose().trim()),
        Err(other) => Err(other),
    }
}

fn public(text: &str) -> Result<Value, SigningKeyFault> {
    if text.len() > FILE_BYTES_MAX {
        return Err(SigningKeyFault::TooLong);
    }
    let (members, name) = if text.starts_with('{') { from_jwk(text)? } else { (from_pem(text)?, None) };
    let algorithm = match members.get("kty").and_then(Value::as_str) {
        Some("EC") => SigningAlgorithm::Es256,
        Some("RSA") => SigningAlgorithm::Rs256,
        _ => SigningAlgorithm::EdDsa,
    };
    let name = match name {
        Some(name) => name,
        None => thumbprint(&members).ok_or(SigningKeyFault::Making)?,
    };
    let mut jwk = Value::Object(members);
    jwk["kid"] = json!(name);
    jwk["alg"] = json!(algorithm.name());
    jwk["use"] = json!("sig");
    Ok(jwk)
}

/// The members that make up the key, and its name. Other members are not published.
fn from_jwk(text: &str) -> Result<(Map<String, Value>, Option<String>), SigningKeyFault> {
    let Ok(Value::Object(jwk)) = canon::read(text) else { return Err(SigningKeyFault::Unreadable) };
    let word = |name: &str| jwk.get(name).and_then(Value::as_str);
    let wanted: &[&str] = match (word("kty"), word("crv")) {
        (Some("EC"), Some("P-256")) => &["kty", "crv", "x", "y"],
        (Some("OKP"), Some("Ed25519")) => &["kty", "crv", "x"],
        (Some("RSA"), _) => &["kty", "n", "e"],
        _ => return Err(SigningKeyFault::Unsupported),
    };
    let mut members = Map::new();
    for name in wanted {
        let value = word(name).filter(|value| !value.is_empty()).ok_or(SigningKeyFault::Unreadable)?;
        members.insert((*name).to_owned(), json!(value));
    }
    Ok((members, word("kid").map(str::to_owned)))
}

fn from_pem(text: &str) -> Result<Map<String, Value>, SigningKeyFault> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| SigningKeyFault::Unreadable)?;
    let (_, info) = SubjectPublicKeyInfo::from_der(&der).map_err(|_| SigningKeyFault::Unreadable)?;
    from_info(&info)
}

/// The members of a public key as X.509 has it.
pub(super) fn from_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Map<String, Value>, SigningKeyFault> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let jwk = match info.parsed().map_err(|_| SigningKeyFault::Unsupported)? {
        PublicKey::RSA(key) => {
            json!({"kty": "RSA", "n": encode(without_leading_zeros(key.modulus)), "e": encode(without_leading_zeros(key.exponent))})
        }
        PublicKey::EC(point) => match point.data() {
            // Another curve of the same size would have another name; P-256 is the only one we sign with.
            [4, point @ ..] if point.len() == 64 && is_p256(info) => {
                json!({"kty": "EC", "crv": "P-256", "x": encode(&point[..32]), "y": encode(&point[32..])})
            }
            _ => return Err(SigningKeyFault::Unsupported),
        },
        PublicKey::Unknown(bytes) if bytes.len() == 32 && info.algorithm.algorithm.to_id_string() == "1.3.101.112" => {
            json!({"kty": "OKP", "crv": "Ed25519", "x": encode(bytes)})
        }
        _ => return Err(SigningKeyFault::Unsupported),
    };
    jwk.as_object().cloned().ok_or(SigningKeyFault::Unsupported)
}

fn is_p256(info: &SubjectPublicKeyInfo<'_>) -> bool {
    let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    curve.is_some_and(|curve| curve.to_id_string() == "1.2.840.10045.3.1.7")
}
