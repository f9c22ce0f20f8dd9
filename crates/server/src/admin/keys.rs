//! Issuing, listing, rotating and revoking API keys.

use super::{Admin, AdminError, now};
use rand::TryRng as _;
use rand::rngs::SysRng;
use sabir_guard::authn::api_key::{self, Kind};
use sabir_proto::{Secret, Timestamp};
use sabir_store::{ApiKey, ChangeError, Imprint, KeyId, KeyTerms, Keys as _};
use std::time::Duration;

/// How often an id is drawn before something is taken to be wrong with the draw.
const DRAWS_MAX: usize = 8;

/// What a new key shall be good for.
#[derive(Debug, Clone, Default)]
pub struct KeyOrder {
    /// Whose key it is.
    pub owner: String,
    /// What people call it.
    pub name: Option<String>,
    /// The tier; keys with one are written `agnt_…`.
    pub tier: Option<String>,
    /// Of a tier, for trying things out.
    pub test: bool,
    /// What it may be used for; empty for everything.
    pub scopes: Vec<String>,
    /// The agents it is tied to; empty for all.
    pub agents: Vec<String>,
    /// Whether envelopes under it must be signed as well.
    pub require_signature: bool,
    /// Whether it belongs to a relay, which speaks for others.
    pub relay: bool,
    /// The customer at the payment processor who pays for what it books.
    pub customer: Option<String>,
    /// Valid before this moment.
    pub expires_at: Option<Timestamp>,
}

/// A key with its text, which is seen here and never again.
#[derive(Debug)]
pub struct Issued {
    /// What is kept.
    pub key: ApiKey,
    /// What is not.
    pub text: Secret,
}

impl Admin {
    /// Makes a key.
    pub async fn create_key(&self, order: KeyOrder) -> Result<Issued, AdminError> {
        let kind = match (&order.tier, order.test) {
            (None, _) => Kind::Sabir,
            (Some(_), false) => Kind::AgntLive,
            (Some(_), true) => Kind::AgntTest,
        };
        let text = draw(kind)?;
        let KeyOrder { owner, name, tier, test: _, scopes, agents, require_signature, relay, customer, expires_at } =
            order;
        let terms = KeyTerms { owner, name, tier, scopes, agents, require_signature, relay, customer, expires_at };
        let mut draws = 1;
        loop {
            match self.store.create(id(), Imprint::of(text.expose()), terms.clone(), self.by()).await {
                Ok(key) => {
                    self.refresh_server().await;
                    return Ok(Issued { key, text });
                }
                Err(ChangeError::Taken) if draws < DRAWS_MAX => draws += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// All keys, the oldest first; expired and revoked ones too.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, AdminError> {
        Ok(self.store.list().await?)
    }

    /// Ends a key for good.
    pub async fn revoke_key(&self, id: KeyId) -> Result<ApiKey, AdminError> {
        let key = self.store.revoke(id, self.by()).await?;
        self.refresh_server().await;
        Ok(key)
    }

    /// Gives a key another text; the one before stays valid for `grace`.
    pub async fn rotate_key(&self, id: KeyId, grace: Duration) -> Result<Issued, AdminError> {
        let keys = self.store.list().await?;
        let old = keys.into_iter().find(|key| key.id == id).ok_or_else(|| ChangeError::NoSuchKey(id.clone()))?;
        // The new text is of the kind of the old one, whose prefix is all that is left of it.
        let kind = match &old.imprint.prefix {
            prefix if prefix.starts_with("agnt_test_") => Kind::AgntTest,
            prefix if prefix.starts_with("agnt_live_") => Kind::AgntLive,
            _ => Kind::Sabir,
        };
        let text = draw(kind)?;
        let by = self.by();
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let old_until = Timestamp::from_millis(by.at.millis().saturating_add(grace_ms));
        let key = self.store.rotate(id, Imprint::of(text.expose()), old_until, by).await?;
        self.refresh_server().await;
        Ok(Issued { key, text })
    }
}

/// A new text, straight from the operating system.
fn draw(kind: Kind) -> Result<Secret, AdminError> {
    let mut random = [0; 16];
    SysRng.try_fill_bytes(&mut random).map_err(|e| AdminError::Chance(e.to_string()))?;
    Ok(api_key::make(kind, random))
}

/// A new id: short enough to be typed, and drawn again where it is taken.
fn id() -> KeyId {
    let text = format!("k{:010x}", rand::random::<u64>() >> 24);
    KeyId::parse(&text).expect("hexadecimal digits are legal in an id")
}

/// How a key stands, in a word.
pub fn standing(key: &ApiKey) -> &'static str {
    match key {
        ApiKey { revoked_at: Some(_), .. } => "revoked",
        ApiKey { terms: KeyTerms { expires_at: Some(end), .. }, .. } if *end <= now() => "expired",
        _ => "valid",
    }
}
