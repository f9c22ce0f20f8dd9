//! The task log in one SQLite file: write-ahead log, one writer, group commit. Beside it, in another file, the guard's
//! data. For `memory:` both are databases in memory, where the caller's thread writes and reads on one connection: a
//! throw-away server and a test have the same rules as a file.
//!
//! | Module | Content |
//! |---|---|
//! | `admin_queries` | the tasks of all callers, for operators |
//! | `guard` | keys, organisations, replay marks, quotas and the audit: another file, open to other processes |
//! | `schema` | tables, versions, opening and refusing files |
//! | `queue` | the writer thread: everything that piled up during one sync is the next group |
//! | `writer` | one group is one transaction; a step that is refused does not affect the others |
//! | `loss_notes` | loss notes, which no caller waits for, written when the writer is idle |
//! | `ledger` | venues, bookings and what belongs to them |
//! | `outbox` | deliveries to push configurations; updated without a sync |
//! | `write_health` | whether writes work |
//! | `reader`, `task_list` | reads, inline on pooled connections; lists as of a commit |
//! | `prune` | deletes settled tasks when the writer is idle |
//! | `settled_cache` | a cache of settled tasks |
//! | `stored_bytes` | how many bytes each caller has stored, where that is limited |
//! | `backup` | copies of both files while a server runs, and restoring them |
//! | `check` | whether both files are intact and consistent |
//! | `checkpoint` | moving the write-ahead log into the file, on its own connection |
//!
//! Keys rise with time everywhere on the send path, and a task that opens and settles in one step is one row and one
//! index entry. `docs/decisions/0002-one-row-per-answer.md` has the measurements.

mod admin_queries;
mod backup;
mod check;
mod checkpoint;
mod continuations;
mod guard;
mod ledger;
mod loss_notes;
mod outbox;
mod pending_cancels;
mod prune;
mod queue;
mod ranking;
mod reader;
mod recent_changes;
mod schema;
mod scopes;
mod settled_cache;
mod stored_bytes;
mod subtasks;
mod task_list;
mod write_health;
mod writer;

pub(crate) use backup::{backup, restore};
pub(crate) use check::check;
pub(crate) use guard::SqliteGuard;
pub(crate) use prune::prunable_tasks;
pub(crate) use ranking::rank;
pub(crate) use stored_bytes::stored_bytes;

use crate::file_lock::FileLock;
use crate::outbox::OutboxChange;
use crate::{
    AppendError, Delivery, DeliveryMark, DeliveryQuery, Digest, DueDeliveries, DueDelivery, DueQuery, Durability,
    LossNote, OpenError, OpenOptions, Outbox, PendingCancel, PushReceiver, Scope, Step, StoreError, StoreFuture,
    StoredRetry, StoredTask, StoredTaskPage, TaskListQuery, TaskLog, Upkeep, WakeSignal, WriterMode,
};
use bytes::Bytes;
use reader::Readers;
use rusqlite::Connection;
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Seq, Stamp, TaskId, Timestamp};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// The task log in an SQLite file.
#[derive(Debug)]
pub(crate) struct SqliteLog {
    backend: LogBackend,
    shared: Arc<StoreState>,
    // Dropped last: while this lock is held no other process may open the file, since heads, retry keys and running
    // agents are in the memory of one process only.
    _lock: Option<FileLock>,
}

#[derive(Debug)]
enum LogBackend {
    Threaded {
        readers: Readers,
        queue: queue::WriterQueue,
        _checkpoints: checkpoint::Checkpointer,
    },
    /// In memory there are no readers: the writer's connection is the only one.
    Inline {
        readers: Option<Readers>,
        writer: Mutex<writer::TaskLogWriter>,
    },
}

/// The state that the writer and the readers share.
#[derive(Debug, Default)]
struct StoreState {
    scopes: scopes::Scopes,
    settled: settled_cache::SettledCache,
    stored_bytes: stored_bytes::StoredBytes,
    recent_changes: recent_changes::RecentChanges,
    ledger: ledger::LedgerCache,
    /// The number of the last commit; only stored after the commit has returned.
    commit: AtomicU64,
    /// The number of commits without a sync (loss notes, delivery updates), which readers do not count by.
    unsynced_commits: AtomicU64,
    /// The error of the last write, if it failed.
    write_error: Mutex<Option<StoreError>>,
    /// The first damage that was found.
    damage: Mutex<Option<StoreError>>,
    /// Set when a delivery may have become due.
    due_signal: Arc<WakeSignal>,
    /// Held by the writer for a group, and by a checkpoint that must not run beside one.
    write_lock: Mutex<()>,
}

impl SqliteLog {
    /// Opens the file, creating it if there is none. A file that is locked, newer or foreign is left as it is.
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self, OpenError> {
        let lock = FileLock::take(path)?;
        let connection = schema::open_writer(path, &schema::TASK_LOG, options.durability)?;
        let fail = |e: rusqlite::Error| OpenError::Io { path: path.into(), reason: e.to_string() };
        // Checkpoints run on their own connection: inside the writer's commit they would cause pauses of 20 to 50 ms.
        connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(fail)?;
        let (readers, mode) = (Readers::new(path), options.writer_mode);
        let (writer, shared) = open_writer(connection, options).map_err(fail)?;
        let backend = match mode {
            WriterMode::Inline => LogBackend::Inline { readers: Some(readers), writer: Mutex::new(writer) },
            WriterMode::Threaded => LogBackend::Threaded {
                readers,
                queue: queue::WriterQueue::start(writer),
                _checkpoints: checkpoint::Checkpointer::start(path, shared.clone())?,
            },
        };
        Ok(Self { backend, shared, _lock: Some(lock) })
    }

    /// Makes a log in memory. Its callers write and read on one connection, which has no disk to wait for.
    pub(crate) fn in_memory(options: OpenOptions) -> Result<Self, OpenError> {
        let connection = schema::open_in_memory(&schema::TASK_LOG)?;
        let options = OpenOptions { durability: Durability::Normal, ..options };
        let (writer, shared) = open_writer(connection, options).map_err(|e| schema::memory_error(&e))?;
        Ok(Self { backend: LogBackend::Inline { readers: None, writer: Mutex::new(writer) }, shared, _lock: None })
    }

    /// Fails if the guard's file is missing beside the file of a log that has tasks: every key would be unknown, and
    /// signed requests could be replayed. An operator who wants that puts an empty file in its place.
    pub(crate) fn require_guard(&self, path: &Path) -> Result<(), OpenError> {
        let guard = SqliteGuard::path_beside(path);
        let io = |e: StoreError| OpenError::Io { path: path.into(), reason: e.to_string() };
        if guard.exists() || !self.read_now(|r| r.has_tasks()).map_err(io)? {
            return Ok(());
        }
        Err(OpenError::GuardMissing { log: path.into(), guard })
    }
}

/// The writer of a log, and the state that it shares with the readers.
fn open_writer(
    mut connection: Connection,
    options: OpenOptions,
) -> rusqlite::Result<(writer::TaskLogWriter, Arc<StoreState>)> {
    let shared = Arc::new(StoreState::default());
    shared.scopes.load(&connection)?;
    shared.ledger.load(&connection)?;
    shared.open_stored_bytes(&mut connection, options.byte_counting)?;
    Ok((writer::TaskLogWriter::new(connection, shared.clone(), options)?, shared))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic under the lock is a bug; SQLite's own state behind it is consistent.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Maps errors of the engine to those that callers react to.
fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly};
    match error.sqlite_error_code() {
        Some(DiskFull) => StoreError::Full,
        Some(ReadOnly) => StoreError::ReadOnly(error.to_string()),
        Some(DatabaseCorrupt | NotADatabase) => StoreError::Corrupt(error.to_string()),
        _ => StoreError::Io(error.to_string()),
    }
}

/// Keys are 63 bits, so they fit SQLite's signed integers.
fn key(stamp: Stamp) -> i64 {
    i64::try_from(stamp.get()).unwrap_or(i64::MAX)
}

fn stamp(key: i64) -> Stamp {
    Stamp::from_u64(u64::try_from(key).unwrap_or(0))
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn seq(number: i64) -> Seq {
    Seq(u64::try_from(number).unwrap_or(0))
}

fn number(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// The random bits of an id; together with the key they make the id again.
fn salt(id: TaskId) -> i64 {
    let low: [u8; 8] = id.to_bytes()[8..].try_into().unwrap_or_default();
    i64::try_from(u64::from_be_bytes(low) & ((1 << 59) - 1)).unwrap_or(0)
}

fn task_id(key: i64, salt: i64) -> TaskId {
    TaskId::new(stamp(key), u64::try_from(salt).unwrap_or(0))
}

impl TaskLog for SqliteLog {
    fn handed_over(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<TaskId>> {
        self.read(|r| r.handed_over(since, limit))
    }

    fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.append(step),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(lock(writer).commit_one(step)),
        }
    }

    fn load(&self, id: TaskId) -> StoreFuture<Option<StoredTask>> {
        if let Some(stored) = self.shared.settled.get(id) {
            return StoreFuture::ready(Ok(Some(stored)));
        }
        let age = self.shared.settled.age();
        let loaded = self.read_now(|r| r.load(id));
        if let Ok(Some(stored)) = &loaded {
            self.shared.settled.keep(stored, age);
        }
        StoreFuture::ready(loaded)
    }

    fn events(&self, id: TaskId, after: Seq, limit: usize) -> StoreFuture<Vec<FrozenEvent>> {
        self.read(|r| r.events(id, after, limit))
    }

    fn list(&self, listing: TaskListQuery) -> StoreFuture<StoredTaskPage> {
        self.read(|r| task_list::list(r, &listing))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<StoredTask>> {
        self.read(|r| r.unfinished(after, limit))
    }

    fn pending_cancels(
        &self,
        after: Option<TaskId>,
        limit: usize,
    ) -> StoreFuture<Vec<(TaskId, AgentName, PendingCancel)>> {
        self.read(|r| r.owed_cancels(after, limit))
    }

    fn recent_retries(&self, since: Stamp, limit: usize) -> StoreFuture<Vec<StoredRetry>> {
        self.read(|r| r.recent_retries(since, limit))
    }

    fn explicit_retry(&self, key: Digest, now: Stamp) -> StoreFuture<Option<StoredRetry>> {
        self.read(|r| r.explicit_retry(key, now))
    }

    fn retry_key_before(&self, key: Digest) -> StoreFuture<Option<Digest>> {
        self.read(|r| r.retry_key_before(key))
    }

    fn alias(&self, scope: &Scope, name: &str) -> StoreFuture<Option<TaskId>> {
        self.read(|r| r.alias(scope, name))
    }

    fn aliases_of(&self, task: TaskId) -> StoreFuture<Vec<String>> {
        self.read(|r| r.aliases_of(task))
    }

    fn owner(&self, task: TaskId) -> StoreFuture<Option<Arc<Scope>>> {
        if let Some(scope) = self.shared.settled.owner(task) {
            return StoreFuture::ready(Ok(Some(scope)));
        }
        self.read(|r| r.owner(task))
    }

    fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.add_loss_notes(task, notes),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(lock(writer).write_loss_notes(&[(task, notes)])),
        }
    }

    fn loss_notes(&self, task: TaskId) -> StoreFuture<Vec<LossNote>> {
        self.read(|r| r.loss_notes(task))
    }

    fn agent_data(&self, task: TaskId) -> StoreFuture<Option<Bytes>> {
        self.read(|r| r.agent_data(task))
    }

    fn pushes(&self, task: TaskId) -> StoreFuture<Vec<PushConfig>> {
        self.read(|r| r.pushes(task))
    }

    fn stored_bytes(&self, caller: &Caller) -> u64 {
        self.shared.stored_bytes.of(caller)
    }

    fn last_stamp(&self) -> StoreFuture<Stamp> {
        self.read(|r| Ok(r.last_stamp()))
    }
}

impl SqliteLog {
    fn change(&self, change: OutboxChange) -> StoreFuture<bool> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.change(change),
            LogBackend::Inline { writer, .. } => {
                let made = lock(writer).change_outbox(&[change]);
                StoreFuture::ready(made.map(|made| made.first().copied().unwrap_or(false)))
            }
        }
    }
}

impl Outbox for SqliteLog {
    fn due_signal(&self) -> Arc<WakeSignal> {
        self.shared.due_signal.clone()
    }

    fn due(&self, reading: DueQuery) -> StoreFuture<DueDeliveries> {
        self.read(|r| r.due(&reading))
    }

    fn next_due(&self, after: Timestamp) -> StoreFuture<Option<Timestamp>> {
        self.read(|r| r.next_due(after))
    }

    fn receiver(&self, task: TaskId, config: &str) -> StoreFuture<Option<PushReceiver>> {
        self.read(|r| r.receiver(task, config))
    }

    fn mark(&self, owed: &DueDelivery, mark: DeliveryMark) -> StoreFuture<bool> {
        self.change(OutboxChange::of(owed, mark))
    }

    fn deliveries(&self, letters: DeliveryQuery) -> StoreFuture<Vec<Delivery>> {
        self.read(|r| r.deliveries(&letters))
    }

    fn delivery(&self, number: i64) -> StoreFuture<Option<Delivery>> {
        self.read(|r| r.delivery(number))
    }

    fn retry(&self, number: i64, now: Timestamp) -> StoreFuture<bool> {
        self.change(OutboxChange::Retry { number, now })
    }

    fn discard(&self, number: i64) -> StoreFuture<bool> {
        self.change(OutboxChange::Discard { number })
    }
}

impl Upkeep for SqliteLog {
    fn compact(&self) -> StoreFuture<()> {
        let work =
            |writer: &mut writer::TaskLogWriter| writer.connection.execute_batch("VACUUM").map_err(|e| store_error(&e));
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.when_idle(work),
            LogBackend::Inline { writer, .. } => StoreFuture::ready(work(&mut lock(writer))),
        }
    }

    /// See `queue`.
    fn dispatch_replies(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => {
                let dispatcher = queue.dispatcher.clone();
                Box::pin(async move { dispatcher.run().await })
            }
            LogBackend::Inline { .. } => Box::pin(std::future::ready(())),
        }
    }

    fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        match &self.backend {
            LogBackend::Threaded { queue, .. } => queue.set_pages_max(pages),
            LogBackend::Inline { writer, .. } => lock(writer).set_pages_max(pages),
        }
    }
}
