//! Issuing, listing, rotating and revoking API keys.

use super::{Admin, AdminError, now};
use rand::TryRng as _;
use rand::rngs::SysRng;
use sabir_guard::authn::api_key::{self, KeyKind};
use sabir_proto::{Secret, Timestamp};
use sabir_store::{ApiKey, ChangeError, KeyFingerprint, KeyId, KeyTerms};
use std::time::Duration;

/// How often a random id may be taken already before the command fails: the random numbers are wrong then.
const DRAWS_MAX: usize = 8;

/// The properties of a new key.
#[derive(Debug, Clone, Default)]
pub struct NewKey {
    /// The owner of the key.
    pub owner: String,
    /// A name for operators.
    pub name: Option<String>,
    /// The tier. The text of a key with a tier begins with `agnt_`.
    pub tier: Option<String>,
    /// Whether a key with a tier is a test key.
    pub test: bool,
    /// The scopes; all when empty.
    pub scopes: Vec<String>,
    /// The agents that the key may send as; all when empty.
    pub agents: Vec<String>,
    /// Whether envelopes with this key must be signed too.
    pub require_signature: bool,
    /// Whether the key belongs to a relay, which forwards the envelopes of other agents.
    pub relay: bool,
    /// The customer at the payment processor who pays for bookings made with it.
    pub customer: Option<String>,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
}

/// A key with its text, which is shown once and not stored.
#[derive(Debug)]
pub struct IssuedKey {
    /// The key as it is stored, without its text.
    pub key: ApiKey,
    /// The text of the key, which callers present.
    pub text: Secret,
}

impl Admin {
    pub async fn create_key(&self, order: NewKey) -> Result<IssuedKey, AdminError> {
        let kind = match (&order.tier, order.test) {
            (None, _) => KeyKind::Sabir,
            (Some(_), false) => KeyKind::AgntLive,
            (Some(_), true) => KeyKind::AgntTest,
        };
        let text = random_text(kind)?;
        let NewKey { owner, name, tier, test: _, scopes, agents, require_signature, relay, customer, expires_at } =
            order;
        let terms = KeyTerms { owner, name, tier, scopes, agents, require_signature, relay, customer, expires_at };
        let mut draws = 1;
        loop {
            match self.store.create(random_id(), KeyFingerprint::of(text.expose()), terms.clone(), self.by()).await {
                Ok(key) => {
                    self.refresh_server().await;
                    return Ok(IssuedKey { key, text });
                }
                Err(ChangeError::KeyTaken) if draws < DRAWS_MAX => draws += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// All keys, the oldest first; expired and revoked ones too.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, AdminError> {
        Ok(self.store.list().await?)
    }

    /// Revokes a key for good.
    pub async fn revoke_key(&self, id: KeyId) -> Result<ApiKey, AdminError> {
        let key = self.store.revoke(id, self.by()).await?;
        self.refresh_server().await;
        Ok(key)
    }

    /// Gives a key a new text; the previous one stays valid for `grace`.
    pub async fn rotate_key(&self, id: KeyId, grace: Duration) -> Result<IssuedKey, AdminError> {
        let keys = self.store.list().await?;
        let old = keys.into_iter().find(|key| key.id == id).ok_or_else(|| ChangeError::NoSuchKey(id.clone()))?;
        // The new text has the kind of the old one. Of that only the prefix is stored.
        let kind = match &old.fingerprint.prefix {
            prefix if prefix.starts_with("agnt_test_") => KeyKind::AgntTest,
            prefix if prefix.starts_with("agnt_live_") => KeyKind::AgntLive,
            _ => KeyKind::Sabir,
        };
        let text = random_text(kind)?;
        let by = self.by();
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let old_until = Timestamp::from_millis(by.at.millis().saturating_add(grace_ms));
        let key = self.store.rotate(id, KeyFingerprint::of(text.expose()), old_until, by).await?;
        self.refresh_server().await;
        Ok(IssuedKey { key, text })
    }
}

/// A new random text, from the operating system.
fn random_text(kind: KeyKind) -> Result<Secret, AdminError> {
    let mut random = [0; 16];
    SysRng.try_fill_bytes(&mut random).map_err(|e| AdminError::NoRandomness(e.to_string()))?;
    Ok(api_key::key_text(kind, random))
}

/// A new random id: short enough to type. The caller draws again when it is taken.
fn random_id() -> KeyId {
    let text = format!("k{:010x}", rand::random::<u64>() >> 24);
    KeyId::parse(&text).expect("hexadecimal digits are legal in an id")
}

/// The standing of a key: `valid`, `expired` or `revoked`.
pub fn key_status(key: &ApiKey) -> &'static str {
    match key {
        ApiKey { revoked_at: Some(_), .. } => "revoked",
        ApiKey { terms: KeyTerms { expires_at: Some(end), .. }, .. } if *end <= now() => "expired",
        _ => "valid",
    }
}
