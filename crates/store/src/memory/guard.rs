//! The guard's stores in memory: the reference for the tests of other backends, and the store of throw-away servers.
//! Nothing survives the process, the audit included.

mod registry;

use crate::audit::{Chained, Checker, Pending, entry_of, link};
use crate::counters::{Day, Sliding};
use crate::replay::{Marks, mark};
use crate::{
    About, Answer, ApiKey, Audit, By, ChangeError, Counters, Digest, Domain, Hash, Hit, Imprint, KEYS_MAX, KeyId,
    KeyTerms, Keys, Known, Linked, ORGANISATIONS_MAX, Organisation, Organisations, Record, ReplayGuard, SecretRef,
    Seen, Spent, Standing, StoreError, Verified, Window,
};
use sabir_proto::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store of the guard in memory, which does not survive the process.
#[derive(Debug, Default)]
pub struct MemoryGuard {
    inner: Mutex<Inner>,
    marks: Mutex<Marks>,
    sliding: Sliding,
}

#[derive(Debug, Default)]
struct Inner {
    keys: HashMap<KeyId, Arc<ApiKey>>,
    hashes: HashMap<Hash, KeyId>,
    organisations: BTreeMap<Domain, Arc<Organisation>>,
    quotas: HashMap<KeyId, (Day, u64)>,
    chain: Vec<Chained>,
    pending: Pending,
    registry: registry::Kept,
}

impl MemoryGuard {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic under the lock is a bug; the data behind it is still what was committed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes the waiting refusals first, then this record.
    fn record(&mut self, record: &Record) -> u64 {
        self.flush();
        self.chain.push(link(self.end(), record));
        self.end().seq
    }

    fn flush(&mut self) {
        for record in self.pending.take() {
            self.chain.push(link(self.end(), &record));
        }
    }

    fn end(&self) -> Known {
        let row = self.chain.last();
        Known { seq: row.map_or(0, |row| row.seq), hash: row.map_or_else(Hash::default, |row| row.hash) }
    }

    fn change(&mut self, key: ApiKey, operation: &'static str, by: &By) -> Result<ApiKey, ChangeError> {
        if key.hashes().any(|hash| self.hashes.get(&hash).is_some_and(|owner| *owner != key.id)) {
            return Err(ChangeError::Taken);
        }
        self.record(&Record::change(by, operation, Some(About::Key(key.id.clone()))));
        self.hashes.retain(|_, owner| *owner != key.id);
        self.hashes.extend(key.hashes().map(|hash| (hash, key.id.clone())));
        self.keys.insert(key.id.clone(), Arc::new(key.clone()));
        Ok(key)
    }

    fn key(&self, id: &KeyId) -> Result<ApiKey, ChangeError> {
        self.keys.get(id).map(|key| (**key).clone()).ok_or_else(|| ChangeError::NoSuchKey(id.clone()))
    }

    fn create(&mut self, key: ApiKey, by: &By) -> Result<ApiKey, ChangeError> {
        if self.keys.contains_key(&key.id) || self.hashes.contains_key(&key.imprint.hash) {
            return Err(ChangeError::Taken);
        }
        if self.keys.len() >= KEYS_MAX {
            return Err(ChangeError::TooMany { what: "keys", max: KEYS_MAX });
        }
        self.change(key, "key.create", by)
    }

    fn revoke(&mut self, id: &KeyId, by: &By) -> Result<ApiKey, ChangeError> {
        let mut key = self.key(id)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        key.revoked_at = Some(by.at);
        self.change(key, "key.revoke", by)
    }

    fn rotate(&mut self, id: &KeyId, imprint: Imprint, old_until: Timestamp, by: &By) -> Result<ApiKey, ChangeError> {
        let mut key = self.key(id)?;
        if self.hashes.contains_key(&imprint.hash) {
            return Err(ChangeError::Taken);
        }
        key.rotate(imprint, old_until, by.at)?;
        self.change(key, "key.rotate", by)
    }

    fn add(&mut self, organisation: Organisation, by: &By) -> Result<Option<Organisation>, ChangeError> {
        let domain = organisation.domain.clone();
        if self.organisations.len() >= ORGANISATIONS_MAX && !self.organisations.contains_key(&domain) {
            return Err(ChangeError::TooMany { what: "organisations", max: ORGANISATIONS_MAX });
        }
        self.record(&Record::change(by, "organisation.add", Some(About::Organisation(domain.clone()))));
        Ok(self.organisations.insert(domain, Arc::new(organisation)).map(|old| (*old).clone()))
    }

    fn remove(&mut self, domain: &Domain, by: &By) -> Result<Option<Organisation>, ChangeError> {
        let Some(removed) = self.organisations.get(domain).cloned() else { return Ok(None) };
        self.record(&Record::change(by, "organisation.remove", Some(About::Organisation(domain.clone()))));
        self.organisations.remove(domain);
        Ok(Some((*removed).clone()))
    }
}

impl Keys for MemoryGuard {
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<Standing, StoreError> {
        let inner = self.lock();
        let key = inner.hashes.get(hash).and_then(|id| inner.keys.get(id));
        Ok(Standing::of(key, hash, now))
    }

    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError> {
        Ok(self.lock().keys.get(id).cloned())
    }

    fn refresh(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn create(&self, id: KeyId, imprint: Imprint, terms: KeyTerms, by: By) -> Answer<ApiKey, ChangeError> {
        Answer::now(self.lock().create(ApiKey::new(id, imprint, terms, by.at), &by))
    }

    fn list(&self) -> Answer<Vec<ApiKey>> {
        let mut keys: Vec<ApiKey> = self.lock().keys.values().map(|key| (**key).clone()).collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Answer::now(Ok(keys))
    }

    fn revoke(&self, id: KeyId, by: By) -> Answer<ApiKey, ChangeError> {
        Answer::now(self.lock().revoke(&id, &by))
    }

    fn rotate(&self, id: KeyId, imprint: Imprint, old_until: Timestamp, by: By) -> Answer<ApiKey, ChangeError> {
        Answer::now(self.lock().rotate(&id, imprint, old_until, &by))
    }

    fn used(&self, id: &KeyId, at: Timestamp) {
        if let Some(key) = self.lock().keys.get_mut(id) {
            let key = Arc::make_mut(key);
            key.last_used_at = key.last_used_at.max(Some(at));
        }
    }
}

impl Organisations for MemoryGuard {
    fn organisation(&self, domain: &str) -> Result<Option<Arc<Organisation>>, StoreError> {
        Ok(Domain::parse(domain).and_then(|domain| self.lock().organisations.get(&domain).cloned()))
    }

    fn add(&self, domain: Domain, secret: SecretRef, by: By) -> Answer<Option<Organisation>, ChangeError> {
        Answer::now(self.lock().add(Organisation { domain, secret, added_at: by.at }, &by))
    }

    fn organisations(&self) -> Answer<Vec<Organisation>> {
        Answer::now(Ok(self.lock().organisations.values().map(|o| (**o).clone()).collect()))
    }

    fn remove(&self, domain: Domain, by: By) -> Answer<Option<Organisation>, ChangeError> {
        Answer::now(self.lock().remove(&domain, &by))
    }
}

impl ReplayGuard for MemoryGuard {
    fn seen_as(&self, scope: &str, digest: Digest, meaning: Digest, now: Timestamp, until: Timestamp) -> Answer<Seen> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        Answer::now(Ok(marks.claim(mark(scope, &digest), scope, meaning, now, until)))
    }
}

impl Counters for MemoryGuard {
    fn hit(&self, caller: &str, window: Window<'_>, now: Timestamp) -> Answer<Hit> {
        Answer::now(Ok(self.sliding.hit(caller, window, now)))
    }

    fn spend(&self, key: &KeyId, limit: u64, now: Timestamp) -> Answer<Spent> {
        let (mut inner, today) = (self.lock(), Day::of(now));
        let (day, used) = inner.quotas.entry(key.clone()).or_insert((today, 0));
        if *day != today {
            (*day, *used) = (today, 0);
        }
        if *used >= limit {
            return Answer::now(Ok(Spent::Exhausted { resets_at: today.end() }));
        }
        *used += 1;
        Answer::now(Ok(Spent::Within { used: *used }))
    }

    fn spent(&self, key: &KeyId, now: Timestamp) -> Answer<u64> {
        let inner = self.lock();
        Answer::now(Ok(inner.quotas.get(key).filter(|(day, _)| *day == Day::of(now)).map_or(0, |(_, used)| *used)))
    }
}

impl Audit for MemoryGuard {
    fn record(&self, record: Record) -> Answer<u64> {
        Answer::now(Ok(self.lock().record(&record)))
    }

    fn refused(&self, record: Record) {
        self.lock().pending.add(record);
    }

    fn flush(&self) -> Answer<()> {
        self.lock().flush();
        Answer::now(Ok(()))
    }

    fn end(&self) -> Answer<Known> {
        Answer::now(Ok(self.lock().end()))
    }

    fn entries(&self, after: u64, limit: usize) -> Answer<Vec<Linked>> {
        let inner = self.lock();
        let later = inner.chain.iter().filter(|row| row.seq > after).take(limit);
        Answer::now(Ok(later.filter_map(|row| Some(Linked { entry: entry_of(row)?, hash: row.hash })).collect()))
    }

    fn verify(&self, known: Option<Known>) -> Answer<Verified> {
        let inner = self.lock();
        let mut checker = Checker::new(known);
        inner.chain.iter().all(|row| checker.take(row.clone()));
        Answer::now(Ok(checker.finish(inner.end())))
    }
}
