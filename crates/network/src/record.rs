//! Records of networks: what a network says about itself, signed with its own key, so that any registry may pass it on.
//!
//! A record is valid until it expires, and a newer one replaces it. A network that wants to be forgotten signs a record
//! that says so. The signature covers the RFC 8785 form of the record, stands beside it, and is never made anew.

use sabir_guard::authn::jwks::KeySet;
use sabir_guard::sign::SigningKey;
use sabir_guard::sign::detached::DetachedSignature;
use sabir_proto::{Json, Timestamp, canon};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use url::Url;

/// The longest validity of a record.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of a record, at most.
pub const BYTES_MAX: usize = 64 * 1024;
/// Entries in a list of a record, at most.
pub const ENTRIES_MAX: usize = 500;
/// Characters of an entry in a list, at most.
pub const ENTRY_CHARS_MAX: usize = 256;
/// How far ahead of our clock a record's `issued_at` may be.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// The record of a network. A newer network may add members; they are kept as signed, and not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the network, such as `network:agnt`.
    pub network_id: String,
    /// The URL to which envelopes are posted.
    pub endpoint: String,
    /// The versions of the envelope that it accepts.
    #[serde(default)]
    pub protocols: Vec<String>,
    /// The intents that it accepts.
    #[serde(default)]
    pub intents: Vec<String>,
    /// Further features: `via`, `payment.authorize`, `registry`.
    #[serde(default)]
    pub features: Vec<String>,
    /// The categories and places of its venues.
    #[serde(default)]
    pub coverage: Coverage,
    /// The fees of the network.
    #[serde(default)]
    pub pricing: Pricing,
    /// Its public keys, as a JSON key set.
    pub keys: Json,
    /// The URL of its agent card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
    /// The sequence number: higher is newer.
    pub seq: u64,
    /// The time at which it was signed.
    pub issued_at: String,
    /// The time until which it is valid.
    pub expires_at: String,
    /// Whether the network has withdrawn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

/// The categories and places of a network's venues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Coverage {
    /// Categories, such as `restaurant`.
    pub categories: Vec<String>,
    /// Areas, which are parts of cities.
    pub areas: Vec<String>,
    pub cities: Vec<String>,
    pub countries: Vec<String>,
}

/// The fees of a network.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pricing {
    /// The referral fee, in percent.
    pub fee_pct: f64,
    /// The price of a confirmed booking for the caller, in cents.
    pub confirm_usd_cents: u64,
}

/// A record and its signature, as they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedRecord {
    /// The record, as it was signed.
    pub record: Json,
    /// The detached signature over the record.
    pub signature: DetachedSignature,
}

/// Why a record is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// It cannot be parsed, or has invalid values.
    #[error("{0}")]
    Invalid(String),
    /// No trusted key has signed it.
    #[error("no key that counts has signed the record")]
    Signature,
}

impl Record {
    /// Signs the record; `None` if it has no canonical form or signing fails.
    pub fn sign(&self, key: &SigningKey) -> Option<SignedRecord> {
        let text = canon::jcs(&canon::read(Json::of(self).ok()?.as_str()).ok()?).ok()?;
        let signature = DetachedSignature::sign(&text, key)?;
        let record = Json::parse(std::str::from_utf8(&text).ok()?).ok()?;
        Some(SignedRecord { record, signature })
    }

    /// Parses its public keys.
    pub fn key_set(&self) -> Result<KeySet, RecordFault> {
        KeySet::parse(self.keys.as_str().as_bytes()).map_err(|why| RecordFault::Invalid(format!("keys: {why}")))
    }

    /// The time until which it is valid.
    pub fn expires(&self) -> Timestamp {
        Timestamp::parse(&self.expires_at).unwrap_or_else(|| Timestamp::from_millis(0))
    }

    /// The URL of its endpoint, if that is valid.
    pub fn url(&self) -> Option<Url> {
        Url::parse(&self.endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    }

    /// Checks whether the record may be stored now.
    pub fn check(&self, now: Timestamp) -> Result<(), RecordFault> {
        let wrong = |why: &str| Err(RecordFault::Invalid(why.to_owned()));
        if !is_network(&self.network_id) {
            return wrong("network_id has the form network:name");
        }
        if self.url().is_none_or(|url| !url.username().is_empty() || url.password().is_some()) {
            return wrong("endpoint is an http or https URL without credentials");
        }
        let Coverage { categories, areas, cities, countries } = &self.coverage;
        for list in [&self.protocols, &self.intents, &self.features, categories, areas, cities, countries] {
            if list.len() > ENTRIES_MAX || list.iter().any(|entry| entry.chars().count() > ENTRY_CHARS_MAX) {
                return wrong("a list of the record is too long");
            }
        }
        if !(0.0..=100.0).contains(&self.pricing.fee_pct) {
            return wrong("pricing.fee_pct is a percentage");
        }
        let (Some(issued), Some(expires)) = (Timestamp::parse(&self.issued_at), Timestamp::parse(&self.expires_at))
        else {
            return wrong("issued_at and expires_at are times such as 2026-04-02T10:22:03Z");
        };
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let lease = expires.millis().saturating_sub(issued.millis());
        if lease <= 0 || lease > millis(LEASE_MAX) {
            return wrong("a record is good for no more than 24 hours");
        }
        if expires <= now {
            return wrong("the record has expired");
        }
        if issued.millis().saturating_sub(now.millis()) > millis(AHEAD_MAX) {
            return wrong("issued_at is in the future");
        }
        Ok(())
    }
}

impl SignedRecord {
    /// Parses a record and its signature. Verifies nothing yet.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordFault> {
        let wrong = |why: String| RecordFault::Invalid(why);
        if bytes.len() > BYTES_MAX {
            return Err(wrong(format!("a record has no more than {BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("the record is not UTF-8".into()))?;
        let json = Json::parse(text).map_err(|fault| wrong(fault.to_string()))?;
        json.read().map_err(|error| wrong(format!("not a signed record: {error}")))
    }

    /// Parses the record, whose content is only a claim until its signature is verified.
    pub fn parse_record(&self) -> Result<Record, RecordFault> {
        self.record.read().map_err(|error| RecordFault::Invalid(format!("not a record: {error}")))
    }

    /// Whether one of these keys has signed it.
    pub fn is_signed_by(&self, keys: &KeySet) -> bool {
        self.canonical().is_some_and(|text| self.signature.is_signed_by(&text, keys))
    }

    /// The signed bytes, by which two records are also compared.
    pub fn canonical(&self) -> Option<Vec<u8>> {
        canon::jcs(&canon::read(self.record.as_str()).ok()?).ok()
    }

    /// The JSON text that is stored and sent.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether a text is the id of a network.
pub fn is_network(id: &str) -> bool {
    let name = id.strip_prefix("network:").unwrap_or_default();
    (1..=128).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sabir_guard::sign::key_set;

    pub(crate) const NOW: i64 = 1_776_000_000_000;

    pub(crate) fn record(id: &str, key: &SigningKey, seq: u64) -> Record {
        let at = |hours: i64| Timestamp::from_millis(NOW + hours * 3_600_000).to_string();
        Record {
            network_id: id.into(),
            endpoint: format!("https://{}.example/a2a/v1", id.replace(':', "-")),
            protocols: vec!["openclaw/a2a/v1".into()],
            intents: vec!["booking.search".into()],
            features: vec!["via".into()],
            coverage: Coverage::default(),
            pricing: Pricing { fee_pct: 7.0, confirm_usd_cents: 25 },
            keys: Json::of(&key_set(std::slice::from_ref(key))).unwrap(),
            card_url: None,
            seq,
            issued_at: at(0),
            expires_at: at(12),
            withdrawn: false,
        }
    }

    pub(crate) fn key() -> SigningKey {
        SigningKey::generate(None).unwrap().0
    }

    #[test]
    fn a_record_is_read_back_as_it_was_signed() {
        let key = key();
        let signed = record("network:a", &key, 1).sign(&key).unwrap();
        let read = SignedRecord::read(signed.write().as_bytes()).unwrap();
        assert_eq!(read, signed);
        let claimed = read.parse_record().unwrap();
        assert_eq!(claimed.check(Timestamp::from_millis(NOW)), Ok(()));
        assert!(read.is_signed_by(&claimed.key_set().unwrap()));
        let forged = signed.write().replace("network:a", "network:b");
        assert!(!SignedRecord::read(forged.as_bytes()).unwrap().is_signed_by(&claimed.key_set().unwrap()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let key = key();
        let good = record("network:a", &key, 1);
        let at = |millis: i64| Timestamp::from_millis(millis).to_string();
        for (wrong, says) in [
            (Record { network_id: "agnt".into(), ..good.clone() }, "network:name"),
            (Record { endpoint: "ftp://x".into(), ..good.clone() }, "endpoint"),
            (Record { endpoint: "https://u:p@x/".into(), ..good.clone() }, "endpoint"),
            (Record { features: vec!["x".repeat(257)], ..good.clone() }, "too long"),
            (Record { pricing: Pricing { fee_pct: 101.0, ..good.pricing }, ..good.clone() }, "percentage"),
            (Record { issued_at: "yesterday".into(), ..good.clone() }, "times"),
            (Record { expires_at: at(NOW + 25 * 3_600_000), ..good.clone() }, "24 hours"),
            (Record { issued_at: at(NOW - 3_600_000), expires_at: at(NOW - 1), ..good.clone() }, "expired"),
            (Record { issued_at: at(NOW + 61_000), ..good.clone() }, "future"),
        ] {
            let fault = wrong.check(Timestamp::from_millis(NOW)).unwrap_err().to_string();
            assert!(fault.contains(says), "{fault}");
        }
        for text in ["", "[]", r#"{"record":{}}"#, r#"{"record":{},"signature":{"protected":"","signature":""},"x":1}"#]
        {
            assert!(SignedRecord::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
