//! The writer of the guard's file: one thread, and all waiting jobs are one transaction.
//!
//! A refused job is rolled back alone, behind a savepoint; an error of the engine fails the whole group. A group is
//! synced to disk only if one of its jobs requires that. Refusals for the audit are written together with other jobs,
//! or alone once they have waited long enough.

use super::super::{lock, schema};
use super::audit;
use super::key_cache::KeyCache;
use crate::Durability;
use crate::audit::PendingRefusals;
use crate::{AuditRecord, Metrics, StoreError, StoreFuture};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Jobs in one transaction at most; bounds how long the first of them waits for the last.
const GROUP_JOBS_MAX: usize = 1024;
/// How long refusals wait for equal ones.
const REFUSALS_WAIT: Duration = Duration::from_secs(1);

/// The requirements of a job beyond being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobWeight {
    /// None: it survives the process, and losing it with the machine does no harm.
    Light,
    /// It is on disk before its caller gets the answer.
    Durable,
    /// As `Durable`; refusals that came before it are written before it, and its changes are visible at once.
    Audited,
}

/// A write that a caller waits for.
pub(super) trait GuardJob: Send {
    fn weight(&self) -> JobWeight;
    /// Runs it; false if it was refused and must leave no trace.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<bool>;
    /// Sends the answer, once the result of the group is known.
    fn reply_to_caller(self: Box<Self>, committed: &Result<(), StoreError>);
}

/// A job made of a function, a reply channel, and a function to run before the reply.
pub(super) struct FnJob<T, E, W, A> {
    weight: JobWeight,
    work: Option<W>,
    outcome: Option<Result<T, E>>,
    after: A,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<T, E, W, A> FnJob<T, E, W, A>
where
    W: FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
    A: FnOnce(&Result<T, E>) + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    pub(super) fn new(weight: JobWeight, work: W, after: A) -> (Self, StoreFuture<T, E>) {
        let (reply, receiver) = oneshot::channel();
        (Self { weight, work: Some(work), outcome: None, after, reply }, StoreFuture::from_receiver(receiver))
    }
}

impl<T, E, W, A> GuardJob for FnJob<T, E, W, A>
where
    W: FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
    A: FnOnce(&Result<T, E>) + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn weight(&self) -> JobWeight {
        self.weight
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        if let Some(work) = self.work.take() {
            self.outcome = Some(work(connection)?);
        }
        Ok(self.outcome.as_ref().is_some_and(Result::is_ok))
    }

    fn reply_to_caller(self: Box<Self>, committed: &Result<(), StoreError>) {
        let outcome = match committed {
            Ok(()) => self.outcome.unwrap_or_else(|| Err(StoreError::Closed.into())),
            Err(error) => Err(error.clone().into()),
        };
        (self.after)(&outcome);
        // The caller may no longer wait; what was committed stays committed.
        drop(self.reply.send(outcome));
    }
}

/// The connection that writes, and its state.
#[derive(Debug)]
pub(super) struct GuardWriter {
    connection: Connection,
    /// None in memory.
    file: Option<PathBuf>,
    durability: Durability,
    is_synced: bool,
    metrics: Metrics,
    pending: Arc<Mutex<PendingRefusals>>,
    directory: Arc<KeyCache>,
}

impl GuardWriter {
    pub(super) fn new(
        (file, connection): (Option<&Path>, Connection),
        durability: Durability,
        metrics: Metrics,
        (pending, directory): (Arc<Mutex<PendingRefusals>>, Arc<KeyCache>),
    ) -> Self {
        let is_synced = durability == Durability::Full;
        Self { connection, file: file.map(Path::to_owned), durability, is_synced, metrics, pending, directory }
    }

    /// The connection, which in memory serves reads as well.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Commits a group and answers all its callers.
    pub(super) fn commit(&mut self, mut jobs: Vec<Box<dyn GuardJob>>, are_refusals_due: bool) {
        let is_audited = jobs.iter().any(|job| job.weight() == JobWeight::Audited);
        let refusals = if is_audited || are_refusals_due { self.take_refusals() } else { Vec::new() };
        if jobs.is_empty() && refusals.is_empty() {
            return;
        }
        let is_durable = jobs.iter().any(|job| job.weight() != JobWeight::Light);
        let committed =
            self.attempt(&mut jobs, &refusals, is_durable).map_err(|e| super::store_error(self.file.as_deref(), &e));
        if let Err(error) = &committed {
            if !self.connection.is_autocommit() {
                // Fails only where SQLite has rolled back already.
                drop(self.connection.execute_batch("ROLLBACK"));
            }
            self.metrics.commit_failures.inc();
            self.metrics.audit_dropped.inc_by(lock(&self.pending).count_as_dropped(&refusals));
            tracing::error!(%error, jobs = jobs.len(), "what the guard keeps could not be written");
        } else if is_audited && let Err(error) = self.directory.refresh(&self.connection) {
            // The refresher thread will see the change a moment later.
            tracing::warn!(%error, "a change of keys is not seen at once");
        }
        jobs.into_iter().for_each(|job| job.reply_to_caller(&committed));
    }

    fn take_refusals(&self) -> Vec<AuditRecord> {
        let mut pending = lock(&self.pending);
        self.metrics.audit_dropped.inc_by(pending.newly_dropped());
        pending.take()
    }

    fn attempt(
        &mut self,
        jobs: &mut [Box<dyn GuardJob>],
        refusals: &[AuditRecord],
        is_durable: bool,
    ) -> rusqlite::Result<()> {
        let is_synced = is_durable && self.durability == Durability::Full;
        if self.is_synced != is_synced {
            // Not a cached statement: SQLite applies this pragma when it is prepared.
            self.connection.pragma_update(None, "synchronous", if is_synced { "FULL" } else { "NORMAL" })?;
            self.is_synced = is_synced;
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        audit::append(&self.connection, refusals)?;
        for job in jobs {
            self.connection.prepare_cached("SAVEPOINT job")?.execute([])?;
            if !job.run(&self.connection)? {
                self.connection.prepare_cached("ROLLBACK TO job")?.execute([])?;
            }
            self.connection.prepare_cached("RELEASE job")?.execute([])?;
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// SQLite's sync level: 1 syncs nothing at a commit, 2 everything.
    #[cfg(test)]
    pub(super) fn synchronous(&self) -> i64 {
        self.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
    }

    pub(super) fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        let set = self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
        set.map_err(|e| super::store_error(self.file.as_deref(), &e))
    }
}

/// The queue in front of a writer thread.
#[derive(Debug)]
pub(super) struct GuardQueue {
    shared: Arc<GuardQueueShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct GuardQueueShared {
    state: Mutex<GuardQueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct GuardQueueState {
    jobs: Vec<Box<dyn GuardJob>>,
    /// When the waiting refusals must be written.
    refusals_due: Option<Instant>,
    pages_max: Option<u32>,
    closed: bool,
}

impl std::fmt::Debug for GuardQueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("jobs", &self.jobs.len()).field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl GuardQueue {
    pub(super) fn start(writer: GuardWriter) -> Result<Self, std::io::Error> {
        let waiting = Arc::new(GuardQueueShared::default());
        let run = {
            let waiting = waiting.clone();
            move || {
                let _leaving = GuardCloseOnExit(&waiting);
                waiting.run(writer);
            }
        };
        let thread = std::thread::Builder::new().name("sabir-guard".into()).spawn(run)?;
        Ok(Self { shared: waiting, thread: Some(thread) })
    }

    pub(super) fn push(&self, job: Box<dyn GuardJob>) {
        let mut state = self.shared.lock();
        if state.closed {
            return; // dropping the job answers `Closed`
        }
        let was_empty = state.jobs.is_empty();
        state.jobs.push(job);
        drop(state);
        if was_empty {
            self.shared.wake.notify_one();
        }
    }

    /// Sets the time by which the first waiting refusal is written.
    pub(super) fn expect_refusals(&self) {
        self.shared.lock().refusals_due.get_or_insert(Instant::now() + REFUSALS_WAIT);
        self.shared.wake.notify_one();
    }

    #[cfg(test)]
    pub(super) fn set_pages_max(&self, pages: u32) {
        self.shared.lock().pages_max = Some(pages);
        self.shared.wake.notify_one();
    }
}

impl Drop for GuardQueue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has already answered `Closed` to all callers.
            drop(thread.join());
        }
    }
}

/// Closes the queue when the writer thread ends, also after a panic: no caller may wait for an answer that does not
/// come.
struct GuardCloseOnExit<'a>(&'a GuardQueueShared);

impl Drop for GuardCloseOnExit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the writer of the guard's file broke down; nothing can be stored until the next start");
        }
        let mut state = self.0.lock();
        state.closed = true;
        let unanswered = std::mem::take(&mut state.jobs);
        drop(state);
        drop(unanswered);
    }
}

impl GuardQueueShared {
    fn lock(&self) -> std::sync::MutexGuard<'_, GuardQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: GuardWriter) {
        while let Some((mut jobs, are_refusals_due)) = self.next(&writer) {
            while jobs.len() > GROUP_JOBS_MAX {
                let later = jobs.split_off(GROUP_JOBS_MAX);
                writer.commit(std::mem::replace(&mut jobs, later), false);
            }
            writer.commit(jobs, are_refusals_due);
            if !lock(&writer.pending).is_empty() {
                self.lock().refusals_due.get_or_insert(Instant::now() + REFUSALS_WAIT);
            }
        }
        // Refusals that came while the queue was being closed.
        writer.commit(Vec::new(), true);
    }

    /// Waits for work; `None` once the queue is closed and empty.
    fn next(&self, writer: &GuardWriter) -> Option<(Vec<Box<dyn GuardJob>>, bool)> {
        let mut state = self.lock();
        loop {
            if let Some(pages) = state.pages_max.take()
                && let Err(error) = writer.set_pages_max(pages)
            {
                tracing::warn!(%error, "the size of the file is not limited");
            }
            let now = Instant::now();
            let is_due = state.refusals_due.is_some_and(|due| due <= now);
            if is_due || !state.jobs.is_empty() {
                if is_due {
                    state.refusals_due = None;
                }
                return Some((std::mem::take(&mut state.jobs), is_due));
            }
            if state.closed {
                return None;
            }
            state = match state.refusals_due {
                Some(due) => {
                    let waited = self.wake.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Opens the connection of the writer.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection, crate::OpenError> {
    schema::open_writer(path, &schema::GUARD, durability)
}
