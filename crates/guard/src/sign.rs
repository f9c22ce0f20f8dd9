//! Signing our cards, so that whoever reads one knows that it is ours (A2A 1.0 §8.4).
//!
//! Readers differ on which members of a card a signature covers. So we sign only cards on which all readings agree, and
//! say which members stand in the way of others: mostly a REQUIRED member that is empty. What is signed is defined in
//! [`sabir_proto::digest`]. Several keys may sign, so that a new key can be announced before the old one goes.

mod key;

pub use key::{Algorithm, KeyFault, SigningKey};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sabir_proto::canon::CanonFault;
use sabir_proto::digest::Form;
use sabir_proto::{canon, digest};
use serde_json::{Map, Value, json};
use url::Url;

/// How many signatures one card may have; our own client looks at no more.
pub const SIGNATURES_MAX: usize = 16;
/// How many members are named when a card cannot be signed.
const DISPUTED_MAX: usize = 8;

/// Why a card was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignFault {
    /// Not JSON that means the same to everybody.
    #[error("the card has no canonical form: {0}")]
    NotCanonical(#[from] CanonFault),
    /// Not an object.
    #[error("a card is an object")]
    NotACard,
    /// Readers would disagree on what was signed.
    #[error("readers disagree on what a signature of this card covers; fill in or remove {}", .0.join(", "))]
    Disputed(Vec<String>),
    /// None, or more than [`SIGNATURES_MAX`].
    #[error("a card has 1 to {SIGNATURES_MAX} signatures, not {0}")]
    Signatures(usize),
    /// The library refused, which has no reason we know of.
    #[error("signing failed")]
    Signing,
}

/// Signs a card with every key, and returns it with its signatures. Those that others made stay; those under the names
/// of our keys are replaced. `keys_url` is where our key set can be fetched.
pub fn sign(card: &str, keys: &[SigningKey], keys_url: Option<&Url>) -> Result<Value, SignFault> {
    let mut card = canon::read(card)?;
    let payload = digest::card_agreed(&card)?;
    let Value::Object(members) = &mut card else { return Err(SignFault::NotACard) };
    let mut signatures = match members.remove("signatures") {
        Some(Value::Array(signatures)) => signatures,
        _ => Vec::new(),
    };
    let Some(payload) = payload else { return Err(SignFault::Disputed(disputed(&card))) };
    signatures.retain(|signature| !keys.iter().any(|key| signer(signature).as_deref() == Some(key.id())));
    for key in keys {
        signatures.push(signature(&payload, key, keys_url)?);
    }
    if keys.is_empty() || signatures.len() > SIGNATURES_MAX {
        return Err(SignFault::Signatures(signatures.len()));
    }
    card["signatures"] = Value::Array(signatures);
    Ok(card)
}

/// The document at `/.well-known/jwks.json`: the public halves of our keys.
pub fn key_set(keys: &[SigningKey]) -> Value {
    json!({"keys": keys.iter().map(SigningKey::public).collect::<Vec<_>>()})
}

fn signature(payload: &[u8], key: &SigningKey, keys_url: Option<&Url>) -> Result<Value, SignFault> {
    let mut header = json!({"alg": key.algorithm().name(), "kid": key.id(), "typ": "JOSE"});
    if let Some(url) = keys_url {
        header["jku"] = json!(url.as_str());
    }
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let signature = key.sign(&digest::signing_input(&protected, payload)).ok_or(SignFault::Signing)?;
    Ok(json!({"protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature)}))
}

/// Whose name is under a signature.
fn signer(signature: &Value) -> Option<String> {
    let header = URL_SAFE_NO_PAD.decode(signature.get("protected")?.as_str()?).ok()?;
    let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
    Some(header.get("kid")?.as_str()?.to_owned())
}

/// The members that one reading covers and another does not, as JSON pointers.
fn disputed(card: &Value) -> Vec<String> {
    let mut places = Vec::new();
    for form in Form::ALL {
        compare(card, &digest::covered(card, form), String::new(), &mut places);
    }
    places.sort_unstable();
    places.dedup();
    places.truncate(DISPUTED_MAX);
    places
}

fn compare(full: &Value, covered: &Value, at: String, places: &mut Vec<String>) {
    match (full, covered) {
        (Value::Object(full), Value::Object(covered)) => {
            for (name, value) in full {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match covered.get(name) {
                    Some(kept) => compare(value, kept, at, places),
                    None => places.push(at),
                }
            }
        }
        (Value::Array(full), Value::Array(covered)) if full.len() == covered.len() => {
            for (number, (value, kept)) in full.iter().zip(covered).enumerate() {
                compare(value, kept, format!("{at}/{number}"), places);
            }
        }
        _ if full != covered => places.push(at),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
