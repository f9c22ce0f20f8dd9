//! Signs cards with the keys of `[server.signing]`, and publishes the key set.

use super::document::Document;
use super::{PublicAddress, WELL_KNOWN_KEYS};
use crate::config::Config;
use sabir_gateway::{WebhookTokenKey, redact};
use sabir_guard::sign::{SIGNATURES_MAX, SignFault, SigningKey, SigningKeyFault, public_jwk, sign_as};
use sabir_proto::card::CardSignature;
use sabir_proto::{AgentCard, Secret};
use sabir_store::SecretRef;
use sabir_wire::Losses;
use sabir_wire::card::{self as form, CardSchema};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;
use url::Url;

/// Signatures that one key may add to one card: readers may read it in this many forms.
const READINGS_MAX: usize = 4;

/// Signs agent cards with our keys.
#[derive(Debug)]
pub(crate) struct Signer {
    keys: Vec<SigningKey>,
    keys_url: Url,
    key_set: Document,
}

impl Signer {
    /// The signer of a configuration; `None` if no key is configured. An error names the setting that is wrong.
    pub(crate) fn open(config: &Config, public: &PublicAddress, now: SystemTime) -> Result<Option<Self>, String> {
        let signing = &config.server.signing;
        if signing.keys.is_empty() && signing.retired.is_empty() {
            return Ok(None);
        }
        let mut keys: Vec<SigningKey> = Vec::new();
        for reference in &signing.keys {
            let key = read_reference(config, reference, |text| SigningKey::read(text, None));
            let key = key.map_err(|what| format!("server.signing.keys: {what}"))?;
            if keys.iter().any(|known| known.id() == key.id()) {
                return Err(format!(
                    "server.signing.keys: {reference} is the same key, or has the same name, as another"
                ));
            }
            keys.push(key);
        }
        if keys.len() * READINGS_MAX > SIGNATURES_MAX {
            return Err(format!("server.signing.keys: no more than {} keys may sign", SIGNATURES_MAX / READINGS_MAX));
        }
        let mut set: Vec<Value> = keys.iter().map(SigningKey::public).collect();
        for reference in &signing.retired {
            let key = read_reference(config, reference, public_jwk);
            let key = key.map_err(|what| format!("server.signing.retired: {what}"))?;
            if !set.iter().any(|known| known["kid"] == key["kid"]) {
                set.push(key);
            }
        }
        let keys_url = keys_url(public)?;
        let key_set = Document::new(json!({"keys": set}).to_string().into_bytes(), now);
        Ok(Some(Self { keys, keys_url, key_set }))
    }

    /// The document at `/.well-known/jwks.json`.
    pub(crate) const fn key_set(&self) -> &Document {
        &self.key_set
    }

    /// The key that signs first; `None` if all are retired.
    pub(crate) fn first_key(&self) -> Option<&SigningKey> {
        self.keys.first()
    }

    /// A card with the URL of the keys, for verifiers that look for it there and not in the signatures. The pure card
    /// of 1.0 has no such member, and validators refuse unknown members there.
    pub(super) fn with_keys_url(&self, mut card: Vec<u8>) -> Vec<u8> {
        if !self.keys.is_empty() && card.pop() == Some(b'}') {
            card.extend_from_slice(b",\"jwks_uri\":");
            card.extend_from_slice(json!(self.keys_url.as_str()).to_string().as_bytes());
            card.push(b'}');
        }
        card
    }

    /// A card as a document, with its signatures.
    pub(super) fn document(&self, card: Vec<u8>, modified: SystemTime) -> Result<Document, SignFault> {
        if self.keys.is_empty() {
            return Ok(Document::new(card, modified));
        }
        let signatures = Value::Array(self.signatures(&card)?).to_string();
        // Appended at the end, so that the other bytes of the card do not change.
        let mut bytes = card.clone();
        bytes.truncate(card.len().saturating_sub(1));
        bytes.extend_from_slice(b",\"signatures\":");
        bytes.extend_from_slice(signatures.as_bytes());
        bytes.push(b'}');
        let signers: Vec<&str> = self.keys.iter().map(SigningKey::id).collect();
        Ok(Document::signed(bytes, &card, &signers, modified))
    }

    /// The card with signatures for readers of 1.0 and for readers of 0.3. The binding that encodes it decides which
    /// form a reader gets, and a reader ignores signatures that do not fit.
    pub(super) fn sign(&self, mut card: AgentCard) -> Result<AgentCard, SignFault> {
        card.signatures.clear();
        if self.keys.is_empty() {
            return Ok(card);
        }
        let mut signatures = Vec::new();
        for form in [CardSchema::V1, CardSchema::V03] {
            let bytes = form::write(&card, form, &mut Losses::new());
            signatures.extend(self.signatures(&bytes)?);
        }
        signatures.truncate(SIGNATURES_MAX);
        let read = |signature: Value| serde_json::from_value::<CardSignature>(signature).ok();
        card.signatures = signatures.into_iter().filter_map(read).collect();
        Ok(card)
    }

    fn signatures(&self, card: &[u8]) -> Result<Vec<Value>, SignFault> {
        let text = str::from_utf8(card).map_err(|_| SignFault::NotACard)?;
        let mut signed = sign_as(text, &self.keys, Some(&self.keys_url), self.keys_url.host_str())?;
        match signed.get_mut("signatures").map(Value::take) {
            Some(Value::Array(signatures)) => Ok(signatures),
            _ => Err(SignFault::Signing),
        }
    }
}

/// The key for signatures other than those of cards: the first that signs cards. `None` if there is none.
pub(crate) fn signing_key(config: &Config, public: &PublicAddress) -> Result<Option<WebhookTokenKey>, String> {
    let Some(reference) = config.server.signing.keys.first() else { return Ok(None) };
    let wrong = |what: String| format!("server.signing.keys: {what}");
    let key = Arc::new(read_reference(config, reference, |text| SigningKey::read(text, None)).map_err(wrong)?);
    let keys_url = keys_url(public)?;
    Ok(Some(WebhookTokenKey { key, keys_url, issuer: public.url.clone() }))
}

/// The URL of our key set.
fn keys_url(public: &PublicAddress) -> Result<Url, String> {
    Url::parse(&format!("{}{WELL_KNOWN_KEYS}", public.url))
        .map_err(|e| format!("server.public_url = {:?}, below which keys are published: {e}", public.url))
}

/// Reads the file or variable of a reference; relative paths start at the configuration's directory. No error text
/// contains the content.
pub(crate) fn read_reference<T>(
    config: &Config,
    reference: &str,
    parse: impl FnOnce(&Secret) -> Result<T, SigningKeyFault>,
) -> Result<T, String> {
    let place = SecretRef::parse(reference).map_err(|_| "a key is given as file:PATH or env:NAME".to_owned())?;
    let (place, text) = match &place {
        SecretRef::Env(name) => {
            (name.clone(), std::env::var(name).map_err(|_| format!("the variable {name} is not set"))?)
        }
        SecretRef::File(path) => {
            let path = config.resolve(path);
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            (path.display().to_string(), text)
        }
    };
    redact::process_redactor().learn(&text);
    parse(&Secret::new(text)).map_err(|fault| format!("{place}: {fault}"))
}
