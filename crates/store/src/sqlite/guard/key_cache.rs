//! A cache of all keys and organisations, and the thread that refreshes it.
//!
//! A number in the file rises with every change, by whichever process. The thread reads it four times a second, which
//! costs a few microseconds; only when it has risen is everything read again. So requests never touch the file, and a
//! key that another process revoked is refused within a second.

use super::super::{lock, schema};
use super::queue::{FnJob, GuardQueue, JobWeight};
use super::{keys, organisations};
use crate::{ApiKey, Domain, Hash, KEYS_MAX, KeyId, Organisation, StoreError};
use rusqlite::Connection;
use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the number is read.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// Refreshes between two writes of key uses: five seconds.
const REFRESHES_PER_WRITE: u32 = 20;
/// How long the cache is valid while the file cannot be read. After that, revocations may be missing.
const STALE_MAX: Duration = Duration::from_secs(10);

/// The content of the cache, as of one moment.
#[derive(Debug, Default)]
pub(super) struct KeyCacheSnapshot {
    generation: i64,
    pub(super) keys: HashMap<Hash, Arc<ApiKey>>,
    pub(super) ids: HashMap<KeyId, Arc<ApiKey>>,
    pub(super) organisations: HashMap<Domain, Arc<Organisation>>,
}

/// The cache, and the time of its last comparison with the file.
#[derive(Debug)]
pub(super) struct KeyCache {
    snapshot: RwLock<Arc<KeyCacheSnapshot>>,
    /// The generation of the agents and their cards.
    agents: AtomicU64,
    opened: Instant,
    refreshed_ms: AtomicU64,
}

impl KeyCache {
    pub(super) fn new() -> Self {
        Self::opened_at(Instant::now())
    }

    pub(super) fn opened_at(opened: Instant) -> Self {
        Self { snapshot: RwLock::default(), agents: AtomicU64::new(0), opened, refreshed_ms: AtomicU64::new(0) }
    }

    /// Reads the content again, if there was a change.
    pub(super) fn refresh(&self, connection: &Connection) -> rusqlite::Result<()> {
        // The time before the read: it may miss changes made during it.
        let now_ms = self.now_ms();
        let known = self.with(|book| book.generation);
        let (now, agents) = generations(connection)?;
        self.agents.fetch_max(agents, Ordering::AcqRel);
        if now != known {
            let book = Arc::new(read(connection)?);
            let mut current = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
            // Two threads may refresh at once; the later state stays.
            if book.generation > current.generation {
                *current = book;
            }
        }
        self.refreshed_ms.fetch_max(now_ms, Ordering::AcqRel);
        Ok(())
    }

    /// The generation of the agents and their cards, as of the last refresh.
    pub(super) fn agents(&self) -> u64 {
        self.agents.load(Ordering::Acquire)
    }

    /// Reads from the cache; fails when the cache may have been stale for too long.
    pub(super) fn read<T>(&self, question: impl FnOnce(&KeyCacheSnapshot) -> T) -> Result<T, StoreError> {
        let blind_ms = self.now_ms().saturating_sub(self.refreshed_ms.load(Ordering::Acquire));
        if Duration::from_millis(blind_ms) > STALE_MAX {
            return Err(StoreError::Io(format!("keys could not be read for {} seconds", blind_ms / 1000)));
        }
        Ok(self.with(question))
    }

    fn with<T>(&self, question: impl FnOnce(&KeyCacheSnapshot) -> T) -> T {
        question(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn generations(connection: &Connection) -> rusqlite::Result<(i64, u64)> {
    let sql = "SELECT number, agents FROM generation";
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))
}

/// Reads everything, on one view of the file. An unreadable row is left out: only requests with that key are refused.
fn read(connection: &Connection) -> rusqlite::Result<KeyCacheSnapshot> {
    let view = connection.unchecked_transaction()?;
    let mut book = KeyCacheSnapshot { generation: generations(&view)?.0, ..KeyCacheSnapshot::default() };
    for key in keys::read(&view)? {
        match key {
            Ok(key) => {
                let key = Arc::new(key);
                book.keys.extend(key.hashes().map(|hash| (hash, key.clone())));
                book.ids.insert(key.id.clone(), key);
            }
            Err(problem) => tracing::error!(%problem, "a key in the store is damaged and opens nothing"),
        }
    }
    for organisation in organisations::read(&view)? {
        match organisation {
            Ok(organisation) => {
                book.organisations.insert(organisation.domain.clone(), Arc::new(organisation));
            }
            Err(problem) => tracing::error!(%problem, "an organisation in the store is damaged and left out"),
        }
    }
    Ok(book)
}

/// The last uses of keys that are not yet written.
#[derive(Debug, Default)]
pub(super) struct PendingKeyUses(Mutex<HashMap<KeyId, Timestamp>>);

impl PendingKeyUses {
    pub(super) fn insert(&self, id: &KeyId, at: Timestamp) {
        let mut uses = lock(&self.0);
        if let Some(known) = uses.get_mut(id) {
            *known = at.max(*known);
        } else if uses.len() < KEYS_MAX {
            uses.insert(id.clone(), at);
        }
    }

    pub(super) fn get(&self, id: &KeyId) -> Option<Timestamp> {
        lock(&self.0).get(id).copied()
    }

    /// The job that writes the uses; `None` if there are none. They are lost if it fails, which is acceptable for uses.
    pub(super) fn write_job(&self) -> Option<Box<dyn super::queue::GuardJob>> {
        let uses = std::mem::take(&mut *lock(&self.0));
        if uses.is_empty() {
            return None;
        }
        let work = move |connection: &Connection| keys::write_uses(connection, &uses).map(Ok::<(), StoreError>);
        Some(Box::new(FnJob::new(JobWeight::Light, work, |_| ()).0))
    }
}

/// The thread that refreshes the cache.
#[derive(Debug)]
pub(super) struct KeyCacheRefresher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KeyCacheRefresher {
    pub(super) fn start(
        path: &Path,
        directory: Arc<KeyCache>,
        uses: Arc<PendingKeyUses>,
        queue: Arc<GuardQueue>,
    ) -> Result<Self, crate::OpenError> {
        let fail = |reason: String| crate::OpenError::Io { path: path.into(), reason };
        let connection = schema::open_reader(path).map_err(|e| fail(e.to_string()))?;
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let (mut looks, mut is_blind) = (0u32, false);
            while stopped.recv_timeout(REFRESH_EVERY) == Err(RecvTimeoutError::Timeout) {
                match directory.refresh(&connection) {
                    Ok(()) => is_blind = false,
                    Err(error) if !is_blind => {
                        is_blind = true;
                        tracing::error!(%error, "keys cannot be read; in ten seconds nobody is let in by one");
                    }
                    Err(_) => {}
                }
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(REFRESHES_PER_WRITE)
                    && let Some(job) = uses.write_job()
                {
                    queue.push(job);
                }
            }
        };
        let thread = std::thread::Builder::new().name("sabir-keys".into()).spawn(run);
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(|e| fail(e.to_string()))?) })
    }
}

impl Drop for KeyCacheRefresher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
