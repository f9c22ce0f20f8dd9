//! Key sets of the issuers whose tokens we accept: fetches them, and verifies signatures with their keys.
//!
//! The limits and the choice of the key are those of [`sabir_proto::jwks`].

use crate::fetch::{self, Fetch, FetchMethod, FetchRequest};
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::Jwk;
use sabir_proto::jwks::{JWKS_BYTES_MAX, SignatureKey, SignedInput};
use serde_json::Value;
use url::Url;

/// A set of public keys.
pub type KeySet = sabir_proto::jwks::KeySet<IssuerKey>;

/// A public key of an issuer.
#[derive(Clone)]
pub struct IssuerKey(DecodingKey);

impl SignatureKey for IssuerKey {
    fn from_jwk(jwk: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk.clone()).ok()?;
        DecodingKey::from_jwk(&jwk).ok().map(Self)
    }

    fn verifies(&self, signed: &SignedInput<'_>) -> bool {
        let Ok(algorithm) = signed.algorithm.name().parse() else { return false };
        jsonwebtoken::crypto::verify(signed.signature, signed.input, &self.0, algorithm).unwrap_or(false)
    }
}

/// Fetches and parses a key set.
pub(super) async fn fetch(url: &Url, fetch: &impl Fetch) -> Result<KeySet, String> {
    let body = document(url, JWKS_BYTES_MAX, fetch).await?;
    KeySet::parse(&body).map_err(|fault| fault.to_string())
}

/// Fetches a document; any status but 200 is an error.
pub(super) async fn document(url: &Url, bytes_max: usize, fetch: &impl Fetch) -> Result<bytes::Bytes, String> {
    let request = FetchRequest { url: url.clone(), method: FetchMethod::Get, bytes_max };
    let answer = fetch::fetch_bounded(fetch, request).await.map_err(|fault| fault.to_string())?;
    if answer.status == 200 { Ok(answer.body) } else { Err(format!("status {}", answer.status)) }
}
