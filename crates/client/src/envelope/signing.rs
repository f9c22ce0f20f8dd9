//! Signs envelopes: an HMAC over the canonical payload, which also contains time, sender, recipient and intent.

pub use sabir_proto::digest::ENVELOPE_KEY_BYTES_MIN as KEY_BYTES_MIN;

use crate::{Error, Secret};
use aws_lc_rs::{hkdf, hmac};
use sabir_proto::canon::python::CanonicalObject;
use sabir_proto::{Json, Object, digest};
use sabir_wire::agnt::Envelope;
use serde::Serialize;
use std::fmt;

/// The HKDF info string. It separates keys that are derived from one secret for different purposes.
const INFO: &[u8] = b"agnt-a2a-signing-v1";
/// The first character of payload members that belong to the envelope.
const RESERVED: char = '_';

/// Holds the key of a network, and computes MACs with it.
pub trait EnvelopeMac: Send + Sync {
    /// The MAC of a text, in lower-case hex.
    fn mac(&self, text: &[u8]) -> String;

    /// Checks a MAC of a text.
    fn verify(&self, text: &[u8], mac: &str) -> bool;
}

/// How a configured value becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyDerivation {
    /// Its UTF-8 bytes.
    #[default]
    Raw,
    /// The bytes that the value encodes in hex.
    Hex,
    /// HKDF-SHA-256 over its UTF-8 bytes.
    Hkdf,
}

/// A signing key of a network.
pub struct EnvelopeKey(hmac::Key);

impl EnvelopeKey {
    /// Makes a key from a secret. Errors do not repeat the secret.
    pub fn new(secret: &Secret, derivation: KeyDerivation) -> Result<Self, Error> {
        let text = secret.expose().as_bytes();
        let bytes = match derivation {
            KeyDerivation::Raw | KeyDerivation::Hkdf => text.to_vec(),
            KeyDerivation::Hex => unhex(text).ok_or_else(|| Error::Usage("the signing key is not hex".into()))?,
        };
        let short = || Error::Usage(format!("a signing key needs at least {KEY_BYTES_MIN} bytes"));
        if bytes.len() < KEY_BYTES_MIN {
            return Err(short());
        }
        if derivation != KeyDerivation::Hkdf {
            return Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)));
        }
        let mut derived = [0; 32];
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&bytes);
        let filled = extracted.expand(&[INFO], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut derived));
        // HKDF fails only for wrong lengths, and the lengths here are constant.
        filled.map_err(|_| short())?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &derived)))
    }
}

impl EnvelopeMac for EnvelopeKey {
    fn mac(&self, text: &[u8]) -> String {
        digest::hex(hmac::sign(&self.0, text).as_ref())
    }

    fn verify(&self, text: &[u8], mac: &str) -> bool {
        let lower = mac.bytes().all(|byte| !byte.is_ascii_uppercase());
        lower && unhex(mac.as_bytes()).is_some_and(|mac| hmac::verify(&self.0, text, &mac).is_ok())
    }
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SealKey")
    }
}

/// Signs the payload of an envelope as `sender` at a time in Unix seconds. It first removes the envelope's own members
/// from the payload, so that a relay leaves nothing of an earlier signature.
pub fn sign_envelope(envelope: &mut Envelope, sender: &str, at: i64, key: &dyn EnvelopeMac) -> Result<(), Error> {
    let unfit = |why: String| Error::Usage(format!("the payload cannot be signed: {why}"));
    let mut payload = CanonicalObject::read(envelope.payload.as_str()).map_err(|fault| unfit(fault.to_string()))?;
    payload.retain(|name| !name.starts_with(RESERVED));
    let nonce = digest::hex(&rand::random::<[u8; 16]>());
    set(&mut payload, "_ts", &at).map_err(unfit)?;
    for (name, value) in
        [("_from", sender), ("_to", envelope.to.as_str()), ("_intent", envelope.intent.as_str()), ("_nonce", &nonce)]
    {
        set(&mut payload, name, &value).map_err(unfit)?;
    }
    let mac = key.mac(signed_text(&payload).as_bytes());
    set(&mut payload, "_sig", &mac).map_err(unfit)?;
    let signed = Json::parse(&payload.canonical()).and_then(Object::new);
    envelope.payload = signed.map_err(|fault| unfit(fault.to_string()))?;
    Ok(())
}

/// Returns the payload of an answer without its signature, which must be valid if there is one. The connection
/// authenticates an answer without a signature.
pub fn verify_payload(payload: Object, key: Option<&dyn EnvelopeMac>) -> Result<Object, String> {
    if !payload.to_map().keys().any(|name| name.starts_with(RESERVED)) {
        return Ok(payload);
    }
    let mut read = CanonicalObject::read(payload.as_str()).map_err(|fault| fault.to_string())?;
    if let (Some(mac), Some(key)) = (read.text("_sig"), key)
        && !key.verify(signed_text(&read).as_bytes(), &mac)
    {
        return Err("the signature of the answer is wrong".into());
    }
    read.retain(|name| !name.starts_with(RESERVED));
    Json::parse(&read.canonical()).and_then(Object::new).map_err(|fault| fault.to_string())
}

/// The text that the signature covers.
fn signed_text(payload: &CanonicalObject) -> String {
    payload.canonical_without("_sig")
}

fn set(payload: &mut CanonicalObject, name: &str, value: &impl Serialize) -> Result<(), String> {
    let value = Json::of(value).map_err(|fault| fault.to_string())?;
    payload.set(name, &value).map_err(|fault| fault.to_string())
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_wire::agnt::Intent;

    fn key() -> EnvelopeKey {
        EnvelopeKey::new(&Secret::new("k".repeat(32)), KeyDerivation::Raw).unwrap()
    }

    fn object(text: &str) -> Object {
        Object::new(Json::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn a_payload_says_who_sends_it_to_whom_and_what_for() {
        let mut envelope = Envelope::new("a", Intent::VenueList, object(r#"{"limit":5,"_from":"forged","é":1.0}"#));
        sign_envelope(&mut envelope, "a", 1_776_000_000, &key()).unwrap();
        let payload = CanonicalObject::read(envelope.payload.as_str()).unwrap();
        let text = |name| payload.text(name).unwrap();
        assert_eq!(
            (text("_from"), text("_to"), text("_intent")),
            ("a".into(), "network:agnt".into(), "venue.list".into())
        );
        assert_eq!((payload.get("_ts"), payload.get("\u{e9}")), (Some("1776000000"), Some("1.0")));
        assert_eq!(text("_nonce").len(), 32);
        assert!(key().verify(signed_text(&payload).as_bytes(), &text("_sig")));
        // Signing again replaces the signature and the nonce.
        let nonce = text("_nonce");
        sign_envelope(&mut envelope, "relay", 1_776_000_001, &key()).unwrap();
        let again = CanonicalObject::read(envelope.payload.as_str()).unwrap();
        assert_eq!(again.text("_from").unwrap(), "relay");
        assert_ne!(again.text("_nonce").unwrap(), nonce);
    }

    #[test]
    fn an_answer_with_a_wrong_signature_is_none() {
        let mut envelope = Envelope::new("venue", Intent::VenueList, object(r#"{"count":0}"#));
        sign_envelope(&mut envelope, "venue", 1, &key()).unwrap();
        let signed = envelope.payload;
        assert_eq!(verify_payload(signed.clone(), Some(&key())), Ok(object(r#"{"count":0}"#)));
        let forged = object(&signed.as_str().replace(r#""count":0"#, r#""count":1"#));
        assert!(verify_payload(forged.clone(), Some(&key())).is_err());
        assert_eq!(
            verify_payload(forged, None),
            Ok(object(r#"{"count":1}"#)),
            "who has no key takes the connection's word"
        );
        assert_eq!(verify_payload(object(r#"{"b":1,"a":2}"#), Some(&key())), Ok(object(r#"{"b":1,"a":2}"#)));
    }

    #[test]
    fn keys_are_derived_as_the_network_does_it() {
        let text = Secret::new("0123456789abcdef".repeat(4));
        let mac = |derivation| EnvelopeKey::new(&text, derivation).unwrap().mac(b"x");
        // Computed with Python's `hmac` and RFC 5869.
        assert_eq!(mac(KeyDerivation::Hkdf), "5105460b9a2ddb2ceb215d5f6c69dccb8fe742726eae4912347b1a49995e2d53");
        assert_ne!(mac(KeyDerivation::Raw), mac(KeyDerivation::Hex));
        let short = EnvelopeKey::new(&Secret::new("short-but-secret"), KeyDerivation::Raw).unwrap_err();
        assert!(!short.to_string().contains("secret"), "{short}");
        assert!(EnvelopeKey::new(&Secret::new("zz".repeat(32)), KeyDerivation::Hex).is_err());
        let key = key();
        assert!(!key.verify(b"x", &key.mac(b"x").to_ascii_uppercase()) && !key.verify(b"x", "é"));
    }
}
