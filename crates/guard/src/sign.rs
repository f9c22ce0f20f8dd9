//! Signs our cards, so that a reader can verify that a card is ours (A2A 1.0 §8.4). [`webhook`] signs deliveries.
//!
//! Readers differ on which members of a card a signature covers. Where all readings of a card agree, each key signs
//! once; where they do not, each key signs each reading, since one valid signature is enough for every reader. They
//! cannot agree on a card that asks for a credential without scopes (an empty list, which the SDKs strip) or that has
//! the members of 0.3 beside those of 1.0. A reading that drops where the agent is or what it asks of callers is not
//! signed: under such a signature the card could be made to lead anywhere. An empty member that could as well be filled
//! in or left out is no such case: the card is not signed, and the member named. [`sabir_proto::digest`] defines what
//! is signed. Several keys may sign, so that a new key can be announced before the old one goes.

mod coverage;
pub mod detached;
mod key;
mod public_key;
mod v03_reading;

pub mod webhook;

pub use key::{SigningAlgorithm, SigningKey, SigningKeyFault};
pub use public_key::public_jwk;

pub use sabir_proto::digest::SIGNATURES_MAX;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::canon::CanonFault;
use sabir_proto::digest::CanonicalForm;
use sabir_proto::{canon, digest};
use serde_json::{Map, Value, json};
use url::Url;

/// How many members are named when a card cannot be signed.
const DISPUTED_MAX: usize = 8;
/// Members below which empty values are allowed.
const EMPTY_ALLOWED: [&str; 3] = ["params", "securityRequirements", "securitySchemes"];

/// Why a card was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignFault {
    /// Not JSON, or JSON that two readers could read differently.
    #[error("the card has no canonical form: {0}")]
    NotCanonical(#[from] CanonFault),
    /// Not an object.
    #[error("a card is an object")]
    NotACard,
    /// Readers would disagree on what was signed, over empty members.
    #[error("readers disagree on what a signature of this card covers; fill in or remove {}", .0.join(", "))]
    Disputed(Vec<String>),
    /// None, or more than [`SIGNATURES_MAX`].
    #[error("a card has 1 to {SIGNATURES_MAX} signatures, not {0}")]
    Signatures(usize),
    /// The library refused, which has no reason we know of.
    #[error("signing failed")]
    Signing,
}

/// Signs a card with every key, once for each reading that leaves enough of it, and returns it with its signatures.
/// Those of other signers stay; those under the names of our keys are replaced. `keys_url` is where our key set can be
/// fetched.
pub fn sign(card: &str, keys: &[SigningKey], keys_url: Option<&Url>) -> Result<Value, SignFault> {
    sign_as(card, keys, keys_url, None)
}

/// Signs a card, and names in each signature the domain it is made for: verifiers compare it with where the card is
/// from.
pub fn sign_as(
    card: &str,
    keys: &[SigningKey],
    keys_url: Option<&Url>,
    issuer: Option<&str>,
) -> Result<Value, SignFault> {
    let mut card = canon::read(card)?;
    let payloads = readings(&card)?;
    let Value::Object(members) = &mut card else { return Err(SignFault::NotACard) };
    let mut signatures = match members.remove("signatures") {
        Some(Value::Array(signatures)) => signatures,
        _ => Vec::new(),
    };
    let hollow = empty_members(&card);
    if !hollow.is_empty() {
        return Err(SignFault::Disputed(hollow));
    }
    signatures.retain(|signature| !keys.iter().any(|key| signer_id(signature).as_deref() == Some(key.id())));
    for key in keys {
        for payload in &payloads {
            signatures.push(signature(payload, key, keys_url, issuer)?);
        }
    }
    if keys.is_empty() || signatures.len() > SIGNATURES_MAX {
        return Err(SignFault::Signatures(signatures.len()));
    }
    card["signatures"] = Value::Array(signatures);
    Ok(card)
}

/// The canonical bytes of a card, once for each reading that is worth a signature and differs from those before. There
/// is always one: the card as received is complete.
fn readings(card: &Value) -> Result<Vec<Vec<u8>>, CanonFault> {
    let mut payloads = vec![digest::card(card, CanonicalForm::Specification)?];
    let whole = digest::card(card, CanonicalForm::AsReceived)?;
    let sdk = digest::card(card, CanonicalForm::Sdk)?;
    let stripped = [Some(sdk), v03_reading::reading(card)?].into_iter().flatten();
    let worthy =
        stripped.filter(|payload| coverage::covers(&serde_json::from_slice(payload).unwrap_or_default(), card));
    for payload in worthy.chain([whole]) {
        if !payloads.contains(&payload) {
            payloads.push(payload);
        }
    }
    Ok(payloads)
}

/// The document at `/.well-known/jwks.json`: the public halves of our keys.
pub fn key_set(keys: &[SigningKey]) -> Value {
    json!({"keys": keys.iter().map(SigningKey::public).collect::<Vec<_>>()})
}

fn signature(
    payload: &[u8],
    key: &SigningKey,
    keys_url: Option<&Url>,
    issuer: Option<&str>,
) -> Result<Value, SignFault> {
    let mut header = json!({"alg": key.algorithm().name(), "kid": key.id(), "typ": "JOSE"});
    if let Some(url) = keys_url {
        header["jku"] = json!(url.as_str());
    }
    if let Some(issuer) = issuer {
        header["iss"] = json!(issuer);
    }
    if !key.certificate_chain().is_empty() {
        header["x5c"] = json!(key.certificate_chain());
    }
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let signature = key.sign(&digest::signing_input(&protected, payload)).ok_or(SignFault::Signing)?;
    Ok(json!({"protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature)}))
}

/// The id of the key in the header of a signature.
fn signer_id(signature: &Value) -> Option<String> {
    let header = URL_SAFE_NO_PAD.decode(signature.get("protected")?.as_str()?).ok()?;
    let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
    Some(header.get("kid")?.as_str()?.to_owned())
}

/// Empty members, as JSON pointers. Not those of an extension's parameters, which are its own; not those about
/// security, where an empty list of scopes means something; and not those that 1.0 does not know.
fn empty_members(card: &Value) -> Vec<String> {
    let mut places = Vec::new();
    let known = digest::known_members(card);
    collect_empty(&known, String::new(), &mut places);
    places.truncate(DISPUTED_MAX);
    places
}

fn collect_empty(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| !EMPTY_ALLOWED.contains(&name.as_str())) {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                let empty = match value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    // A message without members, such as `capabilities`, says something by being there.
                    Value::Object(_) | Value::Bool(_) | Value::Number(_) => false,
                };
                if empty { places.push(at) } else { collect_empty(value, at, places) }
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, item)| collect_empty(item, format!("{at}/{number}"), places));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
