//! The registry: which networks there are, what they cover, and how they are found.
//!
//! A network is taken up for the first time when the host of its endpoint publishes the key that signed its record. From
//! then on a record follows the one before it: it is signed by a key of that one, and its number is higher. Two records
//! with one number are a lie to somebody, so neither counts until a higher one comes.
//!
//! Registries read each other's changes. What came from elsewhere keeps the name of the registry it was published at and
//! the signature it was published with; what comes back to us with our own name is ignored.
//!
//! | Room | What is there |
//! |---|---|
//! | `search` | who covers what, best first |

mod search;

pub use search::{Match, Query, RESULTS_MAX, Standing};

use crate::record::{Record, RecordFault, Signed};
use sabir_guard::authn::jwks::{self, KeySet};
use sabir_guard::fetch::{Fetch, Method, Request};
use sabir_proto::{Json, Timestamp};
use sabir_store::{NetworkRecord, Networks, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use url::Url;

/// How many networks are kept.
pub const NETWORKS_MAX: usize = 10_000;
/// How many changes are read at a time.
pub const CHANGES_MAX: usize = 500;
/// Where a network's host publishes its keys.
const KEYS: &str = "/.well-known/jwks.json";

/// What the registry did with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the first of its network.
    First,
    /// It replaces the one before it.
    Newer,
    /// It is the one that is kept.
    Same,
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untaken {
    /// It cannot be kept.
    #[error(transparent)]
    Record(#[from] RecordFault),
    /// It is another network's.
    #[error("the record is of {0}")]
    Another(String),
    /// There is a newer one.
    #[error("there is a record with seq {0}; a newer one has a higher number")]
    Stale(u64),
    /// There is another with this number.
    #[error("there is another record with seq {0}; neither counts until a higher one comes")]
    Equivocation(u64),
    /// The host does not publish the key. Why not is in our log alone: whoever publishes may be anybody, and would learn
    /// which inner names there are and where they lead.
    #[error("the keys of {0} cannot be read; a network's host publishes them at {KEYS}")]
    Unproven(String),
    /// There is no room.
    #[error("there are {NETWORKS_MAX} networks already")]
    Full,
}

/// Who told us of a record that was not published here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<'a> {
    /// The registry it was published at.
    pub origin: &'a str,
    /// The neighbour that told us.
    pub through: &'a str,
}

/// A network that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it said.
    pub record: Record,
    /// As it was signed.
    pub signed: Signed,
    /// The registry it was published at.
    pub origin: String,
    /// The neighbour that told us, if we were told.
    pub through: Option<String>,
    /// When it was taken, in the order of changes.
    pub number: u64,
    /// It said two things under one number.
    pub disputed: bool,
}

/// One change, as registries read it of each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its number.
    pub number: u64,
    /// The registry it was published at.
    pub origin: String,
    /// The record and its signature.
    pub signed: Signed,
}

/// A page of changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Whose they are.
    pub registry: String,
    /// When its numbers began; after a change of this they are read from the start.
    pub epoch: u64,
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// After which number to go on.
    pub next: u64,
    /// Whether there are more.
    pub more: bool,
}

/// The registry. All of it is in memory; where there is a ledger, what is taken is in there before it is acknowledged.
pub struct Registry {
    own: String,
    epoch: u64,
    shelf: RwLock<Shelf>,
    ledger: Option<Arc<dyn Networks>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Registry").field("own", &self.own).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Shelf {
    entries: BTreeMap<String, Entry>,
    number: u64,
}

impl Registry {
    /// An empty one that forgets. `own` is the name under which what is published here goes to others.
    pub fn new(own: impl Into<String>, now: Timestamp) -> Self {
        let epoch = u64::try_from(now.millis()).unwrap_or(0);
        Self { own: own.into(), epoch, shelf: RwLock::default(), ledger: None }
    }

    /// The same with what a ledger has kept, and will keep.
    pub async fn open(own: impl Into<String>, ledger: Arc<dyn Networks>, now: Timestamp) -> Result<Self, StoreError> {
        let registry = Self::new(own, now);
        let mut shelf = Shelf::default();
        for row in ledger.network_changes(0, NETWORKS_MAX).await? {
            let kept = Json::parse(&row.record).ok().zip(serde_json::from_str(&row.signature).ok());
            let signed = kept.map(|(record, signature)| Signed { record, signature });
            let Some((record, signed)) = signed.and_then(|signed| Some((signed.claimed().ok()?, signed))) else {
                tracing::warn!(network = %row.network, "a record in the ledger cannot be read");
                continue;
            };
            shelf.number = shelf.number.max(row.change);
            let NetworkRecord { origin, change: number, disputed, .. } = row;
            let entry = Entry { record, signed, origin, through: None, number, disputed };
            shelf.entries.insert(row.network, entry);
        }
        *registry.write() = shelf;
        Ok(Self { ledger: Some(ledger), ..registry })
    }

    /// Writes down what stands here of a network.
    async fn keep(&self, id: &str, now: Timestamp) {
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

    /// Its name.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Whether a record of this network would be checked against one that is kept, and not against keys of its host.
    pub fn knows(&self, id: &str, now: Timestamp) -> bool {
        self.kept(id, now).is_some()
    }

    /// Takes a record that was published here, or by a registry that told us.
    pub async fn take(
        &self,
        id: &str,
        signed: Signed,
        told: Option<Told<'_>>,
        fetch: &impl Fetch,
        now: Timestamp,
    ) -> Result<Taken, Untaken> {
        let record = signed.claimed()?;
        if record.network_id != id {
            return Err(Untaken::Another(record.network_id));
        }
        record.check(now)?;
        let known = self.kept(id, now);
        let keys = match &known {
            Some(entry) => entry.record.key_set()?,
            None => {
                // Later records are signed by a key of this one, so it must name the key that it is signed with.
                if !signed.is_by(&record.key_set()?) {
                    return Err(RecordFault::Signature.into());
                }
                published(&record, fetch).await?
            }
        };
        if !signed.is_by(&keys) {
            return Err(RecordFault::Signature.into());
        }
        let taken = self.place(record, signed, told, known.map(|entry| entry.number));
        if matches!(taken, Ok(Taken::First | Taken::Newer)) {
            self.keep(id, now).await;
        }
        taken
    }

    /// Takes our own record, whose key needs no proof.
    pub async fn publish(&self, record: Record, signed: Signed, now: Timestamp) -> Result<Taken, Untaken> {
        let id = record.network_id.clone();
        let number = self.read().entries.get(&id).map(|entry| entry.number);
        let taken = self.place(record, signed, None, number)?;
        self.keep(&id, now).await;
        Ok(taken)
    }

    /// Puts a record where it belongs, unless somebody was faster.
    fn place(
        &self,
        record: Record,
        signed: Signed,
        told: Option<Told<'_>>,
        seen: Option<u64>,
    ) -> Result<Taken, Untaken> {
        let mut shelf = self.write();
        let Shelf { entries, number } = &mut *shelf;
        let full = entries.len() >= NETWORKS_MAX;
        let taken = match entries.get_mut(&record.network_id) {
            // The keys that were checked are not those of the record that is there now.
            Some(entry) if Some(entry.number) != seen => return Err(Untaken::Stale(entry.record.seq)),
            Some(entry) if record.seq < entry.record.seq => return Err(Untaken::Stale(entry.record.seq)),
            Some(entry) if record.seq == entry.record.seq => {
                if entry.signed.canonical() == signed.canonical() {
                    // After a restart it is known again by which way it came.
                    entry.through = entry.through.take().or_else(|| told.map(|told| told.through.to_owned()));
                    return if entry.disputed { Err(Untaken::Equivocation(record.seq)) } else { Ok(Taken::Same) };
                }
                tracing::warn!(network = %record.network_id, seq = record.seq, "a network says two things under one number");
                *number += 1;
                (entry.disputed, entry.number) = (true, *number);
                return Err(Untaken::Equivocation(record.seq));
            }
            Some(_) => Taken::Newer,
            None if full => return Err(Untaken::Full),
            None => Taken::First,
        };
        *number += 1;
        let id = record.network_id.clone();
        let origin = told.map_or(&*self.own, |told| told.origin).to_owned();
        let through = told.map(|told| told.through.to_owned());
        let entry = Entry { record, signed, origin, through, number: *number, disputed: false };
        entries.insert(id, entry);
        Ok(taken)
    }

    /// A network that can be believed now.
    pub fn get(&self, id: &str, now: Timestamp) -> Option<Entry> {
        self.kept(id, now).filter(|entry| !entry.disputed && !entry.record.withdrawn)
    }

    /// All of them.
    pub fn all(&self, now: Timestamp) -> Vec<Entry> {
        let shelf = self.read();
        let good = |entry: &&Entry| entry.record.expires() > now && !entry.disputed && !entry.record.withdrawn;
        shelf.entries.values().filter(good).cloned().collect()
    }

    /// What has changed after a number. What is disputed is not passed on; who withdrew is.
    pub fn changes(&self, since: u64, now: Timestamp) -> Changes {
        let shelf = self.read();
        let newer = |entry: &&Entry| entry.number > since && entry.record.expires() > now && !entry.disputed;
        let mut entries: Vec<&Entry> = shelf.entries.values().filter(newer).collect();
        entries.sort_by_key(|entry| entry.number);
        let more = entries.len() > CHANGES_MAX;
        entries.truncate(CHANGES_MAX);
        let next = entries.last().map_or(since.max(shelf.number), |entry| entry.number);
        let change =
            |entry: &Entry| Change { number: entry.number, origin: entry.origin.clone(), signed: entry.signed.clone() };
        let changes = entries.into_iter().map(change).collect();
        Changes { registry: self.own.clone(), epoch: self.epoch, changes, next, more }
    }

    /// Takes what another registry has told us; what is wrong with one record is no reason not to take the next. Gives
    /// how many were taken.
    pub async fn learn(&self, through: &str, page: Changes, fetch: &impl Fetch, now: Timestamp) -> usize {
        let mut taken = 0;
        for Change { origin, signed, .. } in page.changes {
            let Ok(record) = signed.claimed() else { continue };
            if origin == self.own {
                continue;
            }
            let told = Told { origin: &origin, through };
            match self.take(&record.network_id, signed, Some(told), fetch, now).await {
                Ok(Taken::First | Taken::Newer) => taken += 1,
                Ok(Taken::Same) | Err(Untaken::Stale(_)) => {}
                Err(why) => tracing::info!(network = %record.network_id, %origin, %why, "a record was not taken"),
            }
        }
        taken
    }

    /// Forgets what has expired.
    pub fn sweep(&self, now: Timestamp) {
        self.write().entries.retain(|_, entry| entry.record.expires() > now);
    }

    fn kept(&self, id: &str, now: Timestamp) -> Option<Entry> {
        self.read().entries.get(id).filter(|entry| entry.record.expires() > now).cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shelf> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys that the host of an endpoint publishes.
async fn published(record: &Record, fetch: &impl Fetch) -> Result<KeySet, Untaken> {
    let invalid = || RecordFault::Invalid("endpoint is not a URL".into());
    let endpoint = record.url().ok_or_else(invalid)?;
    let host = endpoint.host_str().unwrap_or_default();
    let unproven = |reason: String| {
        tracing::info!(network = %record.network_id, host, reason, "the keys of a network's host cannot be read");
        Untaken::Unproven(host.to_owned())
    };
    let url: Url = endpoint.join(KEYS).map_err(|_| invalid())?;
    let answer = fetch.fetch(Request { url, method: Method::Get, bytes_max: jwks::BYTES_MAX }).await;
    let answer = answer.map_err(|fault| unproven(fault.to_string()))?;
    if answer.status != 200 {
        return Err(unproven(format!("HTTP {}", answer.status)));
    }
    KeySet::parse(&answer.body).map_err(|why| unproven(why.to_owned()))
}

#[cfg(test)]
mod tests;
