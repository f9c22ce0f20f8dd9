//! The registry: the known networks, what they cover, and the search among them.
//!
//! A new network is accepted when the host of its endpoint publishes the key that signed its record. From then on each
//! record follows the one before: it is signed by a key of that one, and its number is higher. Two records with the
//! same number show that the network tells different peers different things, so neither counts until a higher one
//! comes.
//!
//! Registries read each other's changes. A record from another registry keeps the name of the registry it was published
//! at and its signature; a record that comes back with our own name is ignored.
//!
//! | Module | Content |
//! |---|---|
//! | `search` | the search for networks that cover a place |

mod search;

pub use search::{NetworkHealth, NetworkQuery, PlaceMatch, RESULTS_MAX};

use crate::record::{Record, RecordFault, SignedRecord};
use sabir_guard::authn::jwks::KeySet;
use sabir_guard::fetch::{Fetch, FetchMethod, FetchRequest};
use sabir_proto::jwks::JWKS_BYTES_MAX;
use sabir_proto::{Json, Timestamp};
use sabir_store::{NetworkRecord, Networks, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use url::Url;

/// Networks in the registry, at most.
pub const NETWORKS_MAX: usize = 10_000;
/// Changes in one page.
pub const CHANGES_MAX: usize = 500;
/// The path at which a network's host publishes its keys.
const KEYS: &str = "/.well-known/jwks.json";

/// What the registry did with an accepted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedRecord {
    /// It is the first record of its network.
    First,
    /// It replaces the record before it.
    Newer,
    /// The very same record is stored already.
    Unchanged,
}

/// Why a record was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRejection {
    /// The record is invalid.
    #[error(transparent)]
    Record(#[from] RecordFault),
    /// The record belongs to another network.
    #[error("the record is of {0}")]
    WrongNetwork(String),
    /// A newer record is stored.
    #[error("there is a record with seq {0}; a newer one has a higher number")]
    Stale(u64),
    /// Another record with this number is stored.
    #[error("there is another record with seq {0}; neither counts until a higher one comes")]
    Equivocation(u64),
    /// The host does not publish the key. Only our log says why: the publisher may be a stranger, and would learn which
    /// internal names there are and where they lead.
    #[error("the keys of {0} cannot be read; a network's host publishes them at {KEYS}")]
    Unproven(String),
    /// The registry is full.
    #[error("there are {NETWORKS_MAX} networks already")]
    Full,
}

/// The origin of a record that was not published here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSource<'a> {
    /// The registry it was published at.
    pub origin: &'a str,
    /// The peer that sent it to us.
    pub through: &'a str,
}

/// A network in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct RegistryEntry {
    /// The content of its record.
    pub record: Record,
    /// The record with its signature.
    pub signed: SignedRecord,
    /// The registry it was published at.
    pub origin: String,
    /// The peer that sent it to us, if it was not published here.
    pub through: Option<String>,
    /// The number of the change that stored it.
    pub number: u64,
    /// Whether the network published two records with one number.
    pub disputed: bool,
}

/// A change, as registries read it from each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryChange {
    /// The number of the change.
    pub number: u64,
    /// The registry it was published at.
    pub origin: String,
    /// The record and its signature.
    pub signed: SignedRecord,
}

/// A page of changes of one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesPage {
    /// The id of the registry.
    pub registry: String,
    /// When its numbers began; if this changes, the reader starts over.
    pub epoch: u64,
    /// The changes, oldest first.
    pub changes: Vec<RegistryChange>,
    /// The number after which the next page begins.
    pub next: u64,
    /// Whether there are more.
    pub more: bool,
}

/// The registry of networks. It is in memory; with a ledger, an accepted record is stored there before it is
/// acknowledged.
pub struct NetworkRegistry {
    own_id: String,
    epoch: u64,
    cache: RwLock<RecordCache>,
    ledger: Option<Arc<dyn Networks>>,
}

impl std::fmt::Debug for NetworkRegistry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Registry").field("own", &self.own_id).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct RecordCache {
    entries: BTreeMap<String, RegistryEntry>,
    number: u64,
}

impl NetworkRegistry {
    /// An empty registry without a ledger. `own` is the name under which records published here go to others.
    pub fn new(own: impl Into<String>, now: Timestamp) -> Self {
        let epoch = u64::try_from(now.millis()).unwrap_or(0);
        Self { own_id: own.into(), epoch, cache: RwLock::default(), ledger: None }
    }

    /// A registry with the records of a ledger, which also stores new ones.
    pub async fn open(own: impl Into<String>, ledger: Arc<dyn Networks>, now: Timestamp) -> Result<Self, StoreError> {
        let registry = Self::new(own, now);
        let mut shelf = RecordCache::default();
        for row in ledger.network_changes(0, NETWORKS_MAX).await? {
            let kept = Json::parse(&row.record).ok().zip(serde_json::from_str(&row.signature).ok());
            let signed = kept.map(|(record, signature)| SignedRecord { record, signature });
            let Some((record, signed)) = signed.and_then(|signed| Some((signed.parse_record().ok()?, signed))) else {
                tracing::warn!(network = %row.network, "a record in the ledger cannot be read");
                continue;
            };
            shelf.number = shelf.number.max(row.change);
            let NetworkRecord { origin, change: number, disputed, .. } = row;
            let entry = RegistryEntry { record, signed, origin, through: None, number, disputed };
            shelf.entries.insert(row.network, entry);
        }
        *registry.write() = shelf;
        Ok(Self { ledger: Some(ledger), ..registry })
    }

    /// Stores the present record of a network in the ledger.
    async fn persist(&self, id: &str, now: Timestamp) {
        let Some(ledger) = &self.ledger else { return };
        let Some(entry) = self.read().entries.get(id).cloned() else { return };
        let row = NetworkRecord {
            network: id.to_owned(),
            seq: entry.record.seq,
            record: entry.signed.record.as_str().to_owned(),
            signature: serde_json::to_string(&entry.signed.signature).unwrap_or_default(),
            origin: entry.origin,
            received_at: now,
            expires_at: entry.record.expires(),
            gone: entry.record.withdrawn,
            disputed: entry.disputed,
            change: entry.number,
        };
        if let Err(error) = ledger.put_network(row).await {
            tracing::error!(network = %id, %error, "a record is kept in memory alone");
        }
    }

    /// The name of this registry.
    pub fn own_id(&self) -> &str {
        &self.own_id
    }

    /// Whether a record of this network would be verified with the stored one, and not with the keys of its host.
    pub fn has_record(&self, id: &str, now: Timestamp) -> bool {
        self.unexpired(id, now).is_some()
    }

    /// Accepts or rejects a record that was published here, or that a peer's registry sent.
    pub async fn accept(
        &self,
        id: &str,
        signed: SignedRecord,
        source: Option<RecordSource<'_>>,
        fetch: &impl Fetch,
        now: Timestamp,
    ) -> Result<AcceptedRecord, RecordRejection> {
        let record = signed.parse_record()?;
        if record.network_id != id {
            return Err(RecordRejection::WrongNetwork(record.network_id));
        }
        record.check(now)?;
        let known = self.unexpired(id, now);
        let keys = match &known {
            Some(entry) => entry.record.key_set()?,
            None => {
                // Later records are signed by a key of this one, so it must contain the key that signed it.
                if !signed.is_signed_by(&record.key_set()?) {
                    return Err(RecordFault::Signature.into());
                }
                fetch_published_keys(&record, fetch).await?
            }
        };
        if !signed.is_signed_by(&keys) {
            return Err(RecordFault::Signature.into());
        }
        let taken = self.insert(record, signed, source, known.map(|entry| entry.number));
        if matches!(taken, Ok(AcceptedRecord::First | AcceptedRecord::Newer)) {
            self.persist(id, now).await;
        }
        taken
    }

    /// Accepts our own record, whose key needs no proof.
    pub async fn publish(
        &self,
        record: Record,
        signed: SignedRecord,
        now: Timestamp,
    ) -> Result<AcceptedRecord, RecordRejection> {
        let id = record.network_id.clone();
        let number = self.read().entries.get(&id).map(|entry| entry.number);
        let taken = self.insert(record, signed, None, number)?;
        self.persist(&id, now).await;
        Ok(taken)
    }

    /// Inserts a record, unless another one was inserted since the check.
    fn insert(
        &self,
        record: Record,
        signed: SignedRecord,
        source: Option<RecordSource<'_>>,
        seen: Option<u64>,
    ) -> Result<AcceptedRecord, RecordRejection> {
        let mut shelf = self.write();
        let RecordCache { entries, number } = &mut *shelf;
        let full = entries.len() >= NETWORKS_MAX;
        let taken = match entries.get_mut(&record.network_id) {
            // The keys that were checked are not those of the record that is stored now.
            Some(entry) if Some(entry.number) != seen => return Err(RecordRejection::Stale(entry.record.seq)),
            Some(entry) if record.seq < entry.record.seq => return Err(RecordRejection::Stale(entry.record.seq)),
            Some(entry) if record.seq == entry.record.seq => {
                if entry.signed.canonical() == signed.canonical() {
                    // After a restart this restores which peer sent it.
                    entry.through = entry.through.take().or_else(|| source.map(|source| source.through.to_owned()));
                    return if entry.disputed {
                        Err(RecordRejection::Equivocation(record.seq))
                    } else {
                        Ok(AcceptedRecord::Unchanged)
                    };
                }
                tracing::warn!(network = %record.network_id, seq = record.seq, "a network says two things under one number");
                *number += 1;
                (entry.disputed, entry.number) = (true, *number);
                return Err(RecordRejection::Equivocation(record.seq));
            }
            Some(_) => AcceptedRecord::Newer,
            None if full => return Err(RecordRejection::Full),
            None => AcceptedRecord::First,
        };
        *number += 1;
        let id = record.network_id.clone();
        let origin = source.map_or(&*self.own_id, |source| source.origin).to_owned();
        let through = source.map(|source| source.through.to_owned());
        let entry = RegistryEntry { record, signed, origin, through, number: *number, disputed: false };
        entries.insert(id, entry);
        Ok(taken)
    }

    /// The record of a network, if it is valid now.
    pub fn get(&self, id: &str, now: Timestamp) -> Option<RegistryEntry> {
        self.unexpired(id, now).filter(|entry| !entry.disputed && !entry.record.withdrawn)
    }

    /// The records of all networks that are valid now.
    pub fn all(&self, now: Timestamp) -> Vec<RegistryEntry> {
        let shelf = self.read();
        let good = |entry: &&RegistryEntry| entry.record.expires() > now && !entry.disputed && !entry.record.withdrawn;
        shelf.entries.values().filter(good).cloned().collect()
    }

    /// The changes after a number. Disputed records are left out; withdrawals are included.
    pub fn changes(&self, since: u64, now: Timestamp) -> ChangesPage {
        let shelf = self.read();
        let newer = |entry: &&RegistryEntry| entry.number > since && entry.record.expires() > now && !entry.disputed;
        let mut entries: Vec<&RegistryEntry> = shelf.entries.values().filter(newer).collect();
        entries.sort_by_key(|entry| entry.number);
        let more = entries.len() > CHANGES_MAX;
        entries.truncate(CHANGES_MAX);
        let next = entries.last().map_or(since.max(shelf.number), |entry| entry.number);
        let change = |entry: &RegistryEntry| RegistryChange {
            number: entry.number,
            origin: entry.origin.clone(),
            signed: entry.signed.clone(),
        };
        let changes = entries.into_iter().map(change).collect();
        ChangesPage { registry: self.own_id.clone(), epoch: self.epoch, changes, next, more }
    }

    /// Accepts the changes of another registry; a rejected record does not stop the next one. Returns how many were
    /// accepted.
    pub async fn apply_changes(&self, through: &str, page: ChangesPage, fetch: &impl Fetch, now: Timestamp) -> usize {
        let mut taken = 0;
        for RegistryChange { origin, signed, .. } in page.changes {
            let Ok(record) = signed.parse_record() else { continue };
            if origin == self.own_id {
                continue;
            }
            let source = RecordSource { origin: &origin, through };
            match self.accept(&record.network_id, signed, Some(source), fetch, now).await {
                Ok(AcceptedRecord::First | AcceptedRecord::Newer) => taken += 1,
                Ok(AcceptedRecord::Unchanged) | Err(RecordRejection::Stale(_)) => {}
                Err(why) => tracing::info!(network = %record.network_id, %origin, %why, "a record was not taken"),
            }
        }
        taken
    }

    /// Removes expired records.
    pub fn remove_expired(&self, now: Timestamp) {
        self.write().entries.retain(|_, entry| entry.record.expires() > now);
    }

    fn unexpired(&self, id: &str, now: Timestamp) -> Option<RegistryEntry> {
        self.read().entries.get(id).filter(|entry| entry.record.expires() > now).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, RecordCache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RecordCache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fetches the keys that the host of an endpoint publishes.
async fn fetch_published_keys(record: &Record, fetch: &impl Fetch) -> Result<KeySet, RecordRejection> {
    let invalid = || RecordFault::Invalid("endpoint is not a URL".into());
    let endpoint = record.url().ok_or_else(invalid)?;
    let host = endpoint.host_str().unwrap_or_default();
    let unproven = |reason: String| {
        tracing::info!(network = %record.network_id, host, reason, "the keys of a network's host cannot be read");
        RecordRejection::Unproven(host.to_owned())
    };
    let url: Url = endpoint.join(KEYS).map_err(|_| invalid())?;
    let answer = fetch.fetch(FetchRequest { url, method: FetchMethod::Get, bytes_max: JWKS_BYTES_MAX }).await;
    let answer = answer.map_err(|fault| unproven(fault.to_string()))?;
    if answer.status != 200 {
        return Err(unproven(format!("HTTP {}", answer.status)));
    }
    KeySet::parse(&answer.body).map_err(|why| unproven(why.to_string()))
}

#[cfg(test)]
mod tests;
