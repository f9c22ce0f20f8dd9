//! The guard's stores in memory: the reference for the tests of other backends, and the store of throw-away servers.
//! Nothing survives the process, the audit included.

mod agent_registry;

use crate::audit::{ChainRow, ChainVerifier, PendingRefusals, next_row, parse_entry};
use crate::counters::{Day, SlidingWindows};
use crate::replay::{ReplayMarks, replay_mark};
use crate::{
    ApiKey, Audit, AuditActor, AuditRecord, AuditSubject, ChainPosition, ChainVerification, ChangeError, Counters,
    Digest, Domain, Hash, KEYS_MAX, KeyFingerprint, KeyId, KeyStatus, KeyTerms, Keys, LinkedEntry, ORGANISATIONS_MAX,
    Organisation, Organisations, QuotaDecision, RateDecision, RateWindow, ReplayGuard, ReplayVerdict, SecretRef,
    StoreError, StoreFuture,
};
use sabir_proto::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store of the guard in memory, which does not survive the process.
#[derive(Debug, Default)]
pub(crate) struct MemoryGuard {
    inner: Mutex<GuardState>,
    marks: Mutex<ReplayMarks>,
    sliding: SlidingWindows,
}

#[derive(Debug, Default)]
struct GuardState {
    keys: HashMap<KeyId, Arc<ApiKey>>,
    hashes: HashMap<Hash, KeyId>,
    organisations: BTreeMap<Domain, Arc<Organisation>>,
    quotas: HashMap<KeyId, (Day, u64)>,
    chain: Vec<ChainRow>,
    pending: PendingRefusals,
    registry: agent_registry::RegistryState,
}

impl MemoryGuard {
    fn lock(&self) -> MutexGuard<'_, GuardState> {
        // A panic under the lock is a bug; the data behind it is still what was committed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuardState {
    /// Writes the waiting refusals first, then this record.
    fn record(&mut self, record: &AuditRecord) -> u64 {
        self.flush();
        self.chain.push(next_row(self.end(), record));
        self.end().seq
    }

    fn flush(&mut self) {
        for record in self.pending.take() {
            self.chain.push(next_row(self.end(), &record));
        }
    }

    fn end(&self) -> ChainPosition {
        let row = self.chain.last();
        ChainPosition { seq: row.map_or(0, |row| row.seq), hash: row.map_or_else(Hash::default, |row| row.hash) }
    }

    fn change(&mut self, key: ApiKey, operation: &'static str, by: &AuditActor) -> Result<ApiKey, ChangeError> {
        if key.hashes().any(|hash| self.hashes.get(&hash).is_some_and(|owner| *owner != key.id)) {
            return Err(ChangeError::KeyTaken);
        }
        self.record(&AuditRecord::change(by, operation, Some(AuditSubject::Key(key.id.clone()))));
        self.hashes.retain(|_, owner| *owner != key.id);
        self.hashes.extend(key.hashes().map(|hash| (hash, key.id.clone())));
        self.keys.insert(key.id.clone(), Arc::new(key.clone()));
        Ok(key)
    }

    fn key(&self, id: &KeyId) -> Result<ApiKey, ChangeError> {
        self.keys.get(id).map(|key| (**key).clone()).ok_or_else(|| ChangeError::NoSuchKey(id.clone()))
    }

    fn create(&mut self, key: ApiKey, by: &AuditActor) -> Result<ApiKey, ChangeError> {
        if self.keys.contains_key(&key.id) || self.hashes.contains_key(&key.fingerprint.hash) {
            return Err(ChangeError::KeyTaken);
        }
        if self.keys.len() >= KEYS_MAX {
            return Err(ChangeError::TooMany { what: "keys", max: KEYS_MAX });
        }
        self.change(key, "key.create", by)
    }

    fn revoke(&mut self, id: &KeyId, by: &AuditActor) -> Result<ApiKey, ChangeError> {
        let mut key = self.key(id)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        key.revoked_at = Some(by.at);
        self.change(key, "key.revoke", by)
    }

    fn rotate(
        &mut self,
        id: &KeyId,
        imprint: KeyFingerprint,
        old_until: Timestamp,
        by: &AuditActor,
    ) -> Result<ApiKey, ChangeError> {
        let mut key = self.key(id)?;
        if self.hashes.contains_key(&imprint.hash) {
            return Err(ChangeError::KeyTaken);
        }
        key.rotate(imprint, old_until, by.at)?;
        self.change(key, "key.rotate", by)
    }

    fn add(&mut self, organisation: Organisation, by: &AuditActor) -> Result<Option<Organisation>, ChangeError> {
        let domain = organisation.domain.clone();
        if self.organisations.len() >= ORGANISATIONS_MAX && !self.organisations.contains_key(&domain) {
            return Err(ChangeError::TooMany { what: "organisations", max: ORGANISATIONS_MAX });
        }
        self.record(&AuditRecord::change(by, "organisation.add", Some(AuditSubject::Organisation(domain.clone()))));
        Ok(self.organisations.insert(domain, Arc::new(organisation)).map(|old| (*old).clone()))
    }

    fn remove(&mut self, domain: &Domain, by: &AuditActor) -> Result<Option<Organisation>, ChangeError> {
        let Some(removed) = self.organisations.get(domain).cloned() else { return Ok(None) };
        self.record(&AuditRecord::change(by, "organisation.remove", Some(AuditSubject::Organisation(domain.clone()))));
        self.organisations.remove(domain);
        Ok(Some((*removed).clone()))
    }
}

impl Keys for MemoryGuard {
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<KeyStatus, StoreError> {
        let inner = self.lock();
        let key = inner.hashes.get(hash).and_then(|id| inner.keys.get(id));
        Ok(KeyStatus::of(key, hash, now))
    }

    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError> {
        Ok(self.lock().keys.get(id).cloned())
    }

    fn refresh(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn create(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        terms: KeyTerms,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError> {
        StoreFuture::ready(self.lock().create(ApiKey::new(id, imprint, terms, by.at), &by))
    }

    fn list(&self) -> StoreFuture<Vec<ApiKey>> {
        let mut keys: Vec<ApiKey> = self.lock().keys.values().map(|key| (**key).clone()).collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        StoreFuture::ready(Ok(keys))
    }

    fn revoke(&self, id: KeyId, by: AuditActor) -> StoreFuture<ApiKey, ChangeError> {
        StoreFuture::ready(self.lock().revoke(&id, &by))
    }

    fn rotate(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        old_until: Timestamp,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError> {
        StoreFuture::ready(self.lock().rotate(&id, imprint, old_until, &by))
    }

    fn record_use(&self, id: &KeyId, at: Timestamp) {
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

    fn add(&self, domain: Domain, secret: SecretRef, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError> {
        StoreFuture::ready(self.lock().add(Organisation { domain, secret, added_at: by.at }, &by))
    }

    fn organisations(&self) -> StoreFuture<Vec<Organisation>> {
        StoreFuture::ready(Ok(self.lock().organisations.values().map(|o| (**o).clone()).collect()))
    }

    fn remove(&self, domain: Domain, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError> {
        StoreFuture::ready(self.lock().remove(&domain, &by))
    }
}

impl ReplayGuard for MemoryGuard {
    fn check_replay_as(
        &self,
        scope: &str,
        digest: Digest,
        meaning: Digest,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreFuture<ReplayVerdict> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        StoreFuture::ready(Ok(marks.claim(replay_mark(scope, &digest), scope, meaning, now, until)))
    }
}

impl Counters for MemoryGuard {
    fn hit(&self, caller: &str, window: RateWindow<'_>, now: Timestamp) -> StoreFuture<RateDecision> {
        StoreFuture::ready(Ok(self.sliding.hit(caller, window, now)))
    }

    fn spend_quota(&self, key: &KeyId, limit: u64, now: Timestamp) -> StoreFuture<QuotaDecision> {
        let (mut inner, today) = (self.lock(), Day::of(now));
        let (day, used) = inner.quotas.entry(key.clone()).or_insert((today, 0));
        if *day != today {
            (*day, *used) = (today, 0);
        }
        if *used >= limit {
            return StoreFuture::ready(Ok(QuotaDecision::Exhausted { resets_at: today.end() }));
        }
        *used += 1;
        StoreFuture::ready(Ok(QuotaDecision::Within { used: *used }))
    }

    fn quota_used(&self, key: &KeyId, now: Timestamp) -> StoreFuture<u64> {
        let inner = self.lock();
        StoreFuture::ready(Ok(inner
            .quotas
            .get(key)
            .filter(|(day, _)| *day == Day::of(now))
            .map_or(0, |(_, used)| *used)))
    }
}

impl Audit for MemoryGuard {
    fn record(&self, record: AuditRecord) -> StoreFuture<u64> {
        StoreFuture::ready(Ok(self.lock().record(&record)))
    }

    fn record_refusal(&self, record: AuditRecord) {
        self.lock().pending.add(record);
    }

    fn flush(&self) -> StoreFuture<()> {
        self.lock().flush();
        StoreFuture::ready(Ok(()))
    }

    fn end(&self) -> StoreFuture<ChainPosition> {
        StoreFuture::ready(Ok(self.lock().end()))
    }

    fn entries(&self, after: u64, limit: usize) -> StoreFuture<Vec<LinkedEntry>> {
        let inner = self.lock();
        let later = inner.chain.iter().filter(|row| row.seq > after).take(limit);
        StoreFuture::ready(Ok(later
            .filter_map(|row| Some(LinkedEntry { entry: parse_entry(row)?, hash: row.hash }))
            .collect()))
    }

    fn verify(&self, known: Option<ChainPosition>) -> StoreFuture<ChainVerification> {
        let inner = self.lock();
        let mut checker = ChainVerifier::new(known);
        inner.chain.iter().all(|row| checker.add_row(row.clone()));
        StoreFuture::ready(Ok(checker.finish(inner.end())))
    }
}
