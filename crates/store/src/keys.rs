//! API keys: secrets that we gave away and of which we keep only the hash.
//!
//! A key is a record with terms; the text that callers send is known by its [`Imprint`]. Rotating replaces the text and
//! keeps the record, so that tasks, quotas and audit entries go on belonging to the same key.
//!
//! A key text is 128 random bits, so a plain SHA-256 is enough: there is nothing to guess, and a slow hash would be work
//! that strangers can order. Looking one up compares hashes, whose bytes nobody can choose, so its time tells nothing.

use crate::{Answer, By, ChangeError, Hash, StoreError};
use sabir_proto::Timestamp;
use std::fmt;
use std::sync::Arc;

/// Keys in one store, revoked ones included. All of them are in memory, at about a kilobyte each.
pub const KEYS_MAX: usize = 100_000;
/// Replaced texts of one key that may still be valid.
pub const RETIRING_MAX: usize = 4;
/// Characters of a key text that stay visible, so that people can tell keys apart.
pub const PREFIX_CHARS: usize = 14;
/// Longest id of a key, in bytes.
pub const KEY_ID_BYTES_MAX: usize = 64;

/// The id of a key. No secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Reads an id: letters, digits, `_` and `-`.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let ok = (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(legal);
        ok.then(|| Self(text.into()))
    }

    /// The text.
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

/// What is kept of a key's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imprint {
    /// SHA-256 of the whole text.
    pub hash: Hash,
    /// Its first [`PREFIX_CHARS`] characters.
    pub prefix: String,
}

impl Imprint {
    /// The imprint of a text.
    pub fn of(text: &str) -> Self {
        Self { hash: Self::hash(text), prefix: text.chars().take(PREFIX_CHARS).collect() }
    }

    /// The hash alone, which is all that a lookup needs.
    pub fn hash(text: &str) -> Hash {
        Hash::of(&[text.as_bytes()])
    }
}

/// What a key is good for. The store keeps these words; the guard gives them their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyTerms {
    /// Whose key it is.
    pub owner: String,
    /// What people call it.
    pub name: Option<String>,
    /// The tier, which sets limits.
    pub tier: Option<String>,
    /// What it may be used for; empty for everything.
    pub scopes: Vec<String>,
    /// The agents it is tied to; empty for all.
    pub agents: Vec<String>,
    /// Whether requests must be signed as well.
    pub require_signature: bool,
    /// Whether it belongs to a relay, which speaks for others.
    pub relay: bool,
    /// The customer at the payment processor.
    pub customer: Option<String>,
    /// Valid before this moment.
    pub expires_at: Option<Timestamp>,
}

/// A text that was replaced and is valid for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retiring {
    /// The text.
    pub imprint: Imprint,
    /// Valid before this moment.
    pub until: Timestamp,
}

/// A key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id, which stays.
    pub id: KeyId,
    /// Its present text.
    pub imprint: Imprint,
    /// What it is good for.
    pub terms: KeyTerms,
    /// Since when.
    pub created_at: Timestamp,
    /// No longer valid from this moment on, whatever else it says.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used: not before this, and a little after it perhaps. See [`Keys::used`].
    pub last_used_at: Option<Timestamp>,
    /// Replaced texts, the latest first.
    pub retiring: Vec<Retiring>,
}

impl ApiKey {
    pub(crate) fn new(id: KeyId, imprint: Imprint, terms: KeyTerms, created_at: Timestamp) -> Self {
        Self { id, imprint, terms, created_at, revoked_at: None, last_used_at: None, retiring: Vec::new() }
    }

    /// All hashes that lead to this key, valid or not.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = Hash> {
        std::iter::once(self.imprint.hash).chain(self.retiring.iter().map(|r| r.imprint.hash))
    }

    /// Gives the key another text.
    pub(crate) fn rotate(&mut self, imprint: Imprint, old_until: Timestamp, now: Timestamp) -> Result<(), ChangeError> {
        if self.revoked_at.is_some() {
            return Err(ChangeError::Revoked(self.id.clone()));
        }
        self.retiring.retain(|r| r.until > now);
        if old_until > now {
            let imprint = self.imprint.clone();
            self.retiring.insert(0, Retiring { imprint, until: old_until });
        }
        if self.retiring.len() > RETIRING_MAX {
            return Err(ChangeError::TooMany { what: "replaced texts of one key", max: RETIRING_MAX });
        }
        self.imprint = imprint;
        Ok(())
    }
}

/// What a text is worth. Whoever is not [`Valid`](Standing::Valid) is refused, all in the same words; the difference is
/// for the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// A key, and valid.
    Valid(Arc<ApiKey>),
    /// No key of ours.
    Unknown,
    /// The key, or this text of it, has expired.
    Expired(Arc<ApiKey>),
    /// The key was revoked.
    Revoked(Arc<ApiKey>),
}

impl Standing {
    /// The one place that decides.
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
    /// What a text is worth, by its [hash](Imprint::hash). From memory: never waits for a disk or for anybody.
    ///
    /// A change by this store is seen at once, one by another process within a second. If it can no longer be known
    /// whether there was one, this fails after ten seconds: a key that may have been revoked does not open a door.
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<Standing, StoreError>;

    /// The key of an id, expired and revoked ones too. From memory, and as sure of itself as [`find`](Self::find).
    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError>;

    /// Reads what other processes have changed, now rather than within a second: keys, organisations and agents.
    fn refresh(&self) -> Result<(), StoreError>;

    /// Adds a key. It is on disk, with its audit entry, before this answers.
    fn create(&self, id: KeyId, imprint: Imprint, terms: KeyTerms, by: By) -> Answer<ApiKey, ChangeError>;

    /// All keys by age, the oldest first; expired and revoked ones too.
    fn list(&self) -> Answer<Vec<ApiKey>>;

    /// Ends a key for good, all its texts, with an audit entry. Doing it again changes nothing.
    fn revoke(&self, id: KeyId, by: By) -> Answer<ApiKey, ChangeError>;

    /// Gives a key another text, with an audit entry. The one before stays valid until `old_until`, or not at all if that
    /// has passed; so do those before it, each until its own time. The new one takes the terms over, expiry included.
    fn rotate(&self, id: KeyId, imprint: Imprint, old_until: Timestamp, by: By) -> Answer<ApiKey, ChangeError>;

    /// Notes that a key was used. Costs no write: it is kept in memory, and the latest use of each key is written every
    /// few seconds. A crash loses the uses since then, which is why nothing may be decided by them.
    fn used(&self, id: &KeyId, at: Timestamp);
}
