//! The guard's data, in an SQLite file of its own beside the task log.
//!
//! | Module | Content |
//! |---|---|
//! | `queue` | the writer: all waiting jobs are one transaction |
//! | `key_cache` | keys and organisations in memory, and the thread that refreshes them |
//! | `keys`, `organisations`, `agent_registry`, `replay`, `quota`, `audit` | the rows of each |
//!
//! It is a separate file, because commands such as `sabir key create` must work on it with and without a server
//! running, while the task log belongs to one process alone, which holds a lock. There is no lock here: any number of
//! processes may have this file open, every change is one transaction, and a writer waits its turn (SQLite's
//! write-ahead log, five seconds at most). It also keeps writes that strangers cause (refusals, replay marks) out of
//! the commits that sends wait for.
//!
//! The server that holds the task log's lock writes replay marks and quotas. Both would stay exact with more than one
//! server on the file; sliding windows would not, for they are each process's own.

mod agent_registry;
pub(super) mod audit;
mod key_cache;
mod keys;
mod organisations;
mod queue;
mod quota;
mod replay;
#[cfg(test)]
mod tests;

use super::{lock, schema};
use crate::audit::PendingRefusals;
use crate::counters::{Day, SlidingWindows};
use crate::replay::{ReplayMarks, replay_mark};
use crate::{
    AgentRegistry, ApiKey, Audit, AuditActor, AuditRecord, CardChange, CardObservation, ChainPosition,
    ChainVerification, ChangeError, Counters, Digest, Domain, Durability, Hash, KeyFingerprint, KeyId, KeyStatus,
    KeyTerms, Keys, LinkedEntry, OpenError, OpenOptions, Organisation, Organisations, QuotaDecision, RateDecision,
    RateWindow, RegisteredAgent, ReplayGuard, ReplayVerdict, SecretRef, StoreError, StoreFuture, StoredCard,
    WriterMode,
};
use key_cache::{KeyCache, KeyCacheRefresher, PendingKeyUses};
use queue::{FnJob, GuardQueue, GuardWriter, JobWeight};
use quota::{ExhaustedQuotas, QuotaReservations};
use rusqlite::Connection;
use sabir_proto::{AgentName, Timestamp};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The guard's store in an SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteGuard {
    key_cache: Arc<KeyCache>,
    uses: Arc<PendingKeyUses>,
    marks: Arc<Mutex<ReplayMarks>>,
    sliding: SlidingWindows,
    exhausted: Arc<ExhaustedQuotas>,
    reservations: Arc<QuotaReservations>,
    pending: Arc<Mutex<PendingRefusals>>,
    backend: GuardBackend,
}

#[derive(Debug)]
enum GuardBackend {
    Threaded {
        file: PathBuf,
        watch: Option<KeyCacheRefresher>,
        queue: Arc<GuardQueue>,
    },
    /// In memory there is no file: the writer's connection is the only one.
    Inline {
        file: Option<PathBuf>,
        writer: Mutex<GuardWriter>,
    },
}

impl SqliteGuard {
    /// The path of the guard's file beside a task log.
    pub(crate) fn path_beside(task_log: &Path) -> PathBuf {
        crate::file_lock::beside(task_log, ".guard")
    }

    /// Opens the file, creating it if there is none. A file that is damaged, newer or foreign is left as it is.
    ///
    /// With [`WriterMode::Threaded`] it has a writer and a refresher thread of its own, for servers. With
    /// [`WriterMode::Inline`] every change is written by its caller and every lookup reads the file, for a command that
    /// makes one change and ends; refusals are then written with the next record, or when the store is closed.
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self, OpenError> {
        let connection = queue::open(path, options.durability)?;
        Self::on(connection, Some(path), options)
    }

    /// Makes a guard's store in memory. Every change is written by its caller.
    pub(crate) fn in_memory(options: OpenOptions) -> Result<Self, OpenError> {
        let (durability, writer_mode) = (Durability::Normal, WriterMode::Inline);
        let options = OpenOptions { durability, writer_mode, ..options };
        Self::on(schema::open_in_memory(&schema::GUARD)?, None, options)
    }

    fn on(connection: Connection, file: Option<&Path>, options: OpenOptions) -> Result<Self, OpenError> {
        let fail = |e: rusqlite::Error| file.map_or_else(|| schema::memory_error(&e), |file| open_error(file, &e));
        let key_cache = Arc::new(KeyCache::new());
        key_cache.refresh(&connection).map_err(fail)?;
        // A command checks no replay marks, and if it did the file would decide.
        let marks = match options.writer_mode {
            WriterMode::Threaded => replay::load(&connection).map_err(fail)?,
            WriterMode::Inline => ReplayMarks::default(),
        };
        let (uses, pending) = (Arc::<PendingKeyUses>::default(), Arc::<Mutex<PendingRefusals>>::default());
        let shared = (pending.clone(), key_cache.clone());
        let writer = GuardWriter::new((file, connection), options.durability, options.metrics, shared);
        let backend = match (options.writer_mode, file) {
            (WriterMode::Threaded, Some(file)) => {
                let io = |e: std::io::Error| OpenError::Io { path: file.into(), reason: e.to_string() };
                let queue = Arc::new(GuardQueue::start(writer).map_err(io)?);
                let watch = Some(KeyCacheRefresher::start(file, key_cache.clone(), uses.clone(), queue.clone())?);
                GuardBackend::Threaded { file: file.into(), watch, queue }
            }
            (WriterMode::Inline, _) | (_, None) => {
                GuardBackend::Inline { file: file.map(Path::to_owned), writer: Mutex::new(writer) }
            }
        };
        Ok(Self {
            key_cache,
            uses,
            marks: Arc::new(Mutex::new(marks)),
            sliding: SlidingWindows::default(),
            exhausted: Arc::default(),
            reservations: Arc::default(),
            pending,
            backend,
        })
    }

    /// Limits the file to this many pages, so that tests can fill the disk.
    #[cfg(test)]
    fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        match &self.backend {
            GuardBackend::Threaded { queue, .. } => {
                queue.set_pages_max(pages);
                Ok(())
            }
            GuardBackend::Inline { writer, .. } => lock(writer).set_pages_max(pages),
        }
    }

    fn write<T, E>(
        &self,
        weight: JobWeight,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> StoreFuture<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.write_then(weight, work, |_| ())
    }

    fn write_then<T, E>(
        &self,
        weight: JobWeight,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        after: impl FnOnce(&Result<T, E>) + Send + 'static,
    ) -> StoreFuture<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (task, answer) = FnJob::new(weight, work, after);
        match &self.backend {
            GuardBackend::Threaded { queue, .. } => queue.push(Box::new(task)),
            GuardBackend::Inline { writer, .. } => lock(writer).commit(vec![Box::new(task)], false),
        }
        answer
    }

    /// Reads on a connection of its own: such reads are rare, not urgent, and may be long.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let file = match &self.backend {
            GuardBackend::Threaded { file, .. } | GuardBackend::Inline { file: Some(file), .. } => file,
            GuardBackend::Inline { file: None, writer } => {
                return read(lock(writer).connection()).map_err(|e| store_error(None, &e));
            }
        };
        schema::open_reader(file).and_then(|connection| read(&connection)).map_err(|e| store_error(Some(file), &e))
    }

    /// Refreshes the cache before a lookup in inline mode, where no thread does it.
    fn refresh_if_inline(&self) -> Result<(), StoreError> {
        match &self.backend {
            GuardBackend::Threaded { .. } => Ok(()),
            GuardBackend::Inline { .. } => self.read(|connection| self.key_cache.refresh(connection)),
        }
    }
}

/// Writes the recorded uses of keys before the store is closed.
impl Drop for SqliteGuard {
    fn drop(&mut self) {
        match &mut self.backend {
            GuardBackend::Threaded { watch, queue, .. } => {
                drop(watch.take());
                if let Some(job) = self.uses.write_job() {
                    queue.push(job);
                }
            }
            GuardBackend::Inline { writer, .. } => {
                lock(writer).commit(self.uses.write_job().into_iter().collect(), true)
            }
        }
    }
}

/// Maps errors of the engine to those that callers react to, and names the file if it is damaged.
fn store_error(file: Option<&Path>, error: &rusqlite::Error) -> StoreError {
    match (super::store_error(error), file) {
        (StoreError::Corrupt(reason), Some(file)) => StoreError::Corrupt(format!("{}: {reason}", file.display())),
        (other, _) => other,
    }
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let reason = error.to_string();
    match super::store_error(error) {
        StoreError::Corrupt(_) => OpenError::Damaged { path: path.into(), reason },
        _ => OpenError::Io { path: path.into(), reason },
    }
}

impl Keys for SqliteGuard {
    fn find(&self, hash: &Hash, now: Timestamp) -> Result<KeyStatus, StoreError> {
        self.refresh_if_inline()?;
        self.key_cache.read(|book| KeyStatus::of(book.keys.get(hash), hash, now))
    }

    fn get(&self, id: &KeyId) -> Result<Option<Arc<ApiKey>>, StoreError> {
        self.refresh_if_inline()?;
        self.key_cache.read(|book| book.ids.get(id).cloned())
    }

    fn refresh(&self) -> Result<(), StoreError> {
        self.read(|connection| self.key_cache.refresh(connection))
    }

    fn create(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        terms: KeyTerms,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError> {
        let key = ApiKey::new(id, imprint, terms, by.at);
        self.write(JobWeight::Audited, move |connection| keys::create(connection, key, &by))
    }

    fn list(&self) -> StoreFuture<Vec<ApiKey>> {
        let listed = self.read(keys::read).and_then(|keys| {
            keys.into_iter()
                .map(|key| {
                    let mut key = key.map_err(StoreError::Corrupt)?;
                    key.last_used_at = key.last_used_at.max(self.uses.get(&key.id));
                    Ok(key)
                })
                .collect()
        });
        StoreFuture::ready(listed)
    }

    fn revoke(&self, id: KeyId, by: AuditActor) -> StoreFuture<ApiKey, ChangeError> {
        self.write(JobWeight::Audited, move |connection| keys::revoke(connection, &id, &by))
    }

    fn rotate(
        &self,
        id: KeyId,
        imprint: KeyFingerprint,
        old_until: Timestamp,
        by: AuditActor,
    ) -> StoreFuture<ApiKey, ChangeError> {
        self.write(JobWeight::Audited, move |connection| keys::rotate(connection, &id, imprint, old_until, &by))
    }

    fn record_use(&self, id: &KeyId, at: Timestamp) {
        self.uses.insert(id, at);
    }
}

impl Organisations for SqliteGuard {
    fn organisation(&self, domain: &str) -> Result<Option<Arc<Organisation>>, StoreError> {
        self.refresh_if_inline()?;
        let domain = Domain::parse(domain);
        self.key_cache.read(|book| book.organisations.get(&domain?).cloned())
    }

    fn add(&self, domain: Domain, secret: SecretRef, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError> {
        let new = Organisation { domain, secret, added_at: by.at };
        self.write(JobWeight::Audited, move |connection| organisations::add(connection, &new, &by))
    }

    fn organisations(&self) -> StoreFuture<Vec<Organisation>> {
        let listed = self.read(organisations::read);
        StoreFuture::ready(listed.and_then(|all| all.into_iter().map(|one| one.map_err(StoreError::Corrupt)).collect()))
    }

    fn remove(&self, domain: Domain, by: AuditActor) -> StoreFuture<Option<Organisation>, ChangeError> {
        self.write(JobWeight::Audited, move |connection| organisations::remove(connection, &domain, &by))
    }
}

impl AgentRegistry for SqliteGuard {
    fn generation(&self) -> Result<u64, StoreError> {
        self.refresh_if_inline()?;
        Ok(self.key_cache.agents())
    }

    fn register_agent(
        &self,
        agent: RegisteredAgent,
        card: Option<CardObservation>,
        by: AuditActor,
    ) -> StoreFuture<(), ChangeError> {
        self.write(JobWeight::Audited, move |connection| agent_registry::register_agent(connection, &agent, card, &by))
    }

    fn registered_agents(&self) -> StoreFuture<Vec<RegisteredAgent>> {
        StoreFuture::ready(self.read(agent_registry::read).and_then(agent_registry::all_readable))
    }

    fn enable_agent(
        &self,
        name: AgentName,
        enabled: bool,
        by: AuditActor,
    ) -> StoreFuture<RegisteredAgent, ChangeError> {
        self.write(JobWeight::Audited, move |connection| agent_registry::enable_agent(connection, &name, enabled, &by))
    }

    fn remove_agent(&self, name: AgentName, by: AuditActor) -> StoreFuture<RegisteredAgent, ChangeError> {
        self.write(JobWeight::Audited, move |connection| agent_registry::remove_agent(connection, &name, &by))
    }

    fn observe_card(&self, card: CardObservation) -> StoreFuture<CardChange> {
        self.write(JobWeight::Durable, move |connection| agent_registry::observe_card(connection, card).map(Ok))
    }

    fn cards(&self, name: AgentName) -> StoreFuture<Vec<StoredCard>> {
        StoreFuture::ready(
            self.read(|connection| agent_registry::cards(connection, &name)).and_then(agent_registry::all_readable),
        )
    }

    fn used_cards(&self) -> StoreFuture<Vec<StoredCard>> {
        StoreFuture::ready(self.read(agent_registry::used_cards).and_then(agent_registry::all_readable))
    }

    fn approve_card(&self, name: AgentName, by: AuditActor) -> StoreFuture<Option<StoredCard>, ChangeError> {
        self.write(JobWeight::Audited, move |connection| agent_registry::approve_card(connection, &name, &by))
    }
}

impl ReplayGuard for SqliteGuard {
    fn check_replay_as(
        &self,
        scope: &str,
        digest: Digest,
        meaning: Digest,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreFuture<ReplayVerdict> {
        let mark = replay_mark(scope, &digest);
        match lock(&self.marks).claim(mark, scope, meaning, now, until) {
            ReplayVerdict::First => {}
            known @ (ReplayVerdict::Again | ReplayVerdict::Different | ReplayVerdict::NoRoom) => {
                return StoreFuture::ready(Ok(known));
            }
        }
        let (marks, scope) = (self.marks.clone(), scope.to_owned());
        let work = move |connection: &Connection| replay::keep(connection, &mark, &scope, &meaning, now, until).map(Ok);
        self.write_then(JobWeight::Durable, work, move |outcome: &Result<ReplayVerdict, StoreError>| {
            // The mark was not stored, or the file has another one, with an end that memory does not know.
            if *outcome != Ok(ReplayVerdict::First) {
                lock(&marks).release(mark);
            }
        })
    }
}

impl Counters for SqliteGuard {
    fn hit(&self, caller: &str, window: RateWindow<'_>, now: Timestamp) -> StoreFuture<RateDecision> {
        StoreFuture::ready(Ok(self.sliding.hit(caller, window, now)))
    }

    fn spend_quota(&self, key: &KeyId, limit: u64, now: Timestamp) -> StoreFuture<QuotaDecision> {
        let (key, day) = (key.clone(), Day::of(now));
        if let Some(spent) = self.reservations.take(&key, day, limit) {
            return StoreFuture::ready(Ok(spent));
        }
        if self.exhausted.contains(&key, day, limit) {
            return StoreFuture::ready(Ok(QuotaDecision::Exhausted { resets_at: day.end() }));
        }
        let (exhausted, lots, asked) = (self.exhausted.clone(), self.reservations.clone(), key.clone());
        let taken = lots.clone();
        let work = move |connection: &Connection| quota::spend_quota(connection, &taken, &key, day, limit).map(Ok);
        self.write_then(JobWeight::Light, work, move |outcome: &Result<QuotaDecision, StoreError>| match outcome {
            Ok(QuotaDecision::Exhausted { .. }) => exhausted.insert(&asked, day, limit),
            Ok(QuotaDecision::Within { .. }) => {}
            Err(_) => lots.forget(&asked),
        })
    }

    fn quota_used(&self, key: &KeyId, now: Timestamp) -> StoreFuture<u64> {
        let day = Day::of(now);
        let counted = self.read(|connection| quota::quota_used(connection, key, day));
        StoreFuture::ready(counted.map(|counted| counted.saturating_sub(self.reservations.left(key, day))))
    }
}

impl Audit for SqliteGuard {
    fn record(&self, record: AuditRecord) -> StoreFuture<u64> {
        self.write(JobWeight::Audited, move |connection| audit::append(connection, &[record]).map(Ok))
    }

    fn record_refusal(&self, record: AuditRecord) {
        let is_first = lock(&self.pending).add(record);
        if let (true, GuardBackend::Threaded { queue, .. }) = (is_first, &self.backend) {
            queue.expect_refusals();
        }
    }

    fn flush(&self) -> StoreFuture<()> {
        self.write(JobWeight::Audited, |_| Ok(Ok(())))
    }

    fn end(&self) -> StoreFuture<ChainPosition> {
        StoreFuture::ready(self.read(audit::end))
    }

    fn entries(&self, after: u64, limit: usize) -> StoreFuture<Vec<LinkedEntry>> {
        StoreFuture::ready(self.read(|connection| audit::entries(connection, after, limit)).and_then(|entries| entries))
    }

    fn verify(&self, known: Option<ChainPosition>) -> StoreFuture<ChainVerification> {
        StoreFuture::ready(self.read(|connection| audit::verify(connection, known)))
    }
}
