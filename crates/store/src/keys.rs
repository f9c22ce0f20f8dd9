//! API keys: secrets that this server issued and of which it stores only the hash.
//!
//! A key is a record with terms; the secret that callers send is recognised by its [`KeyFingerprint`]. Rotating replaces the
//! secret and keeps the record, so that tasks, quotas and audit entries go on belonging to the same key.
//!
//! A secret is 128 random bits, so a plain SHA-256 is enough: there is nothing to guess, and a slow hash would be work
//! that strangers can order. A lookup compares hashes, whose bytes no caller can choose, so its time reveals nothing.

use crate::{AuditActor, ChangeError, Hash, StoreError, StoreFuture};
use sabir_proto::Timestamp;
use std::fmt;
use std::sync::Arc;

/// Keys in one store, revoked ones included. All of them are in memory, at about a kilobyte each.
pub const KEYS_MAX: usize = 100_000;
/// Replaced secrets of one key that may still be valid.
pub const RETIRING_MAX: usize = 4;
/// Characters of a secret that stay visible, so that people can distinguish keys.
pub const PREFIX_CHARS: usize = 14;
/// Longest id of a key, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 64;

/// The id of a key. Not secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Parses an id: letters, digits, `_` and `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let ok = (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(legal);
        ok.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// What the store has of a secret: its hash and its visible prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFingerprint {
    /// SHA-256 of the whole secret.
    pub hash: Hash,
    /// Its first [`PREFIX_CHARS`] characters.
    pub prefix: String,
}

impl KeyFingerprint {
    /// Computes the fingerprint of a secret.
    pub fn of(text: &str) -> Self {
        Self { hash: Self::hash_of(text), prefix: text.chars().take(PREFIX_CHARS).collect() }
    }

    /// The hash alone, which is all that a lookup needs.
    pub fn hash_of(text: &str) -> Hash {
        Hash::of(&[text.as_bytes()])
    }
}

/// The terms of a key. The store holds these words; the guard gives them their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyTerms {
    /// The owner of the key.
    pub owner: String,
    /// The name that people use for it.
    pub name: Option<String>,
    /// The tier, which sets rate limits.
    pub tier: Option<String>,
    /// The scopes it grants; empty for all.
    pub scopes: Vec<String>,
    /// The agents it is bound to; empty for all.
    pub agents: Vec<String>,
    /// Whether requests must be signed as well.
    pub require_signature: bool,
    /// Whether it belongs to a relay, which sends on behalf of other callers.
    pub relay: bool,
    pub customer: Option<String>,
    /// The key is valid before this time.
    pub expires_at: Option<Timestamp>,
}

/// A secret that was replaced and is valid for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiringSecret {
    /// The fingerprint of the replaced secret.
    pub imprint: KeyFingerprint,
    /// The secret is valid before this time.
    pub until: Timestamp,
}

/// A stored key with its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id, which never changes.
    pub id: KeyId,
    /// The fingerprint of its current secret.
    pub fingerprint: KeyFingerprint,
    /// What the key may be used for.
    pub terms: KeyTerms,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The time of the revocation; from then on the key is invalid, whatever else it says.
    pub revoked_at: Option<Timestamp>,
    /// The last recorded use; the true one may be a little later. See [`Keys::record_use`].
    pub last_used_at: Option<Timestamp>,
    /// Replaced secrets, the latest first.
    pub retiring: Vec<RetiringSecret>,
}

impl ApiKey {
    pub(crate) fn new(id: KeyId, fingerprint: KeyFingerprint, terms: KeyTerms, created_at: Timestamp) -> Self {
        Self { id, fingerprint, terms, created_at, revoked_at: None, last_used_at: None, retiring: Vec::new() }
    }

    /// The hashes of all its secrets, valid or not.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = Hash> {
        std::iter::once(self.fingerprint.hash).chain(self.retiring.iter().map(|r| r.imprint.hash))
    }

    /// Gives the key another secret.
    pub(crate) fn rotate(
        &mut self,
        imprint: KeyFingerprint,
        old_until: Timestamp,
        now: Timestamp,
    ) -> Result<(), ChangeError> {
        if self.revoked_at.is_some() {
            return Err(ChangeError::Revoked(self.id.clone()));
        }
        self.retiring.retain(|r| r.until > now);
        if old_until > now {
            let imprint = self.fingerprint.clone();
            self.retiring.insert(0, RetiringSecret { imprint, until: old_until });
        }
        if self.retiring.len() > RETIRING_MAX {
            return Err(ChangeError::TooMany { what: "replaced texts of one key", max: RETIRING_MAX });
        }
        self.fingerprint = imprint;
        Ok(())
    }
}

/// The status of a presented secret. The caller refuses all but [`Valid`](KeyStatus::Valid), in the same words; the
/// difference is for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyStatus {
    /// The secret of a valid key.
    Valid(Arc<ApiKey>),
    /// No key has this secret.
    Unknown,
    /// The key, or this secret of it, has expired.
    Expired(Arc<ApiKey>),
    /// The key was revoked.
    Revoked(Arc<ApiKey>),
}

impl KeyStatus {
    /// The only place that decides on the status of a key.
    pub(crate) fn of(key: Option<&Arc<ApiKey>>, hash: &Hash, now: Timestamp) -> Self {
        let Some(key) = key else { return Self::Unknown };
        let retiring = key.retiring.iter().find(|r| r.imprint.hash == *hash).map(|r| r.until);
        let ends = [key.terms.expires_at, retiring];
        if key.revoked_at.is_some() {
            Self::Revoked(key.clone())
        } else if ends.into_iter().flatten().any(|end| end <= now) {
            Self::Expired(key.clone())
        } else {
            Self::Valid(key.clone())
        }
    }
}

/// The API keys. Other processes may change them at any time.
pub trait Keys: Send + Sync + 'static {
    /// The status of a secret, by its [hash](Imprint::hash). From memory: never waits for a disk or for another caller.
    ///
    /// A change by this store is visible at once, one by another process within a second. When the file cannot be read
    /// for ten seconds, this fails, because a key may have been revoked meanwhile.
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<KeyStatus, StoreError>;

    /// The key with this id, expired and revoked ones too. From memory, and as fresh as [`find`](Self::find).
    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError>;

    /// Reads what other processes have changed, now rather than within a second: keys, organisations and agents.
    fn refresh(&self) -> Result<(), StoreError>;

    /// Adds a key. It is on disk, with its audit entry, before this returns.
    fn create(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        terms: KeyTerms,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError>;

    /// All keys by age, the oldest first; expired and revoked ones too.
    fn list(&self) -> StoreFuture<Vec<ApiKey>>;

    /// Revokes a key for good, with all its secrets and an audit entry. Doing it again changes nothing.
    fn revoke(&self, id: KeyId, by: AuditActor) -> StoreFuture<ApiKey, ChangeError>;

    /// Gives a key another secret, with an audit entry. The one before stays valid until `old_until`, or not at all if
    /// that has passed; so do those before it, each until its own time. The new secret takes the terms over, expiry
    /// included.
    fn rotate(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        old_until: Timestamp,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError>;

    /// Records that a key was used. Costs no write: the use is kept in memory, and the latest use of each key is
    /// written every few seconds. A crash loses the uses since then, so no decision may depend on them.
    fn record_use(&self, id: &KeyId, at: Timestamp);
}
