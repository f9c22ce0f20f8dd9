//! The parts of an open store, as the traits that its callers use.

use crate::open::{open_guard, open_tasks};
use crate::{
    AdminQueries, AgentRegistry, Audit, ByteCounting, Counters, Keys, Ledger, OpenOptions, Organisations, ReplayGuard,
    Retention, StoreError, StoreFuture, StoreUrl, TaskLog, WriteHealth,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// All stores of the guard in one trait.
pub trait GuardStore: Keys + Organisations + ReplayGuard + Counters + Audit + AgentRegistry {}

impl<T: Keys + Organisations + ReplayGuard + Counters + Audit + AgentRegistry> GuardStore for T {}

/// The maintenance of a store of tasks: what its server and its operator do with it as a whole.
pub trait Upkeep: Retention + WriteHealth {
    /// Shrinks the store to its content. Needs as much free disk space again while it works, and blocks writes.
    fn compact(&self) -> StoreFuture<()>;

    /// Sends the replies of commits from the runtime that awaits them, a group at a time. A server should run it; the
    /// store works without it.
    fn dispatch_replies(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Limits the store to this many pages, so that tests can fill the disk.
    fn set_pages_max(&self, pages: u32) -> Result<(), StoreError>;
}

/// An open store: that of the tasks, and that of the guard.
#[derive(Debug, Clone)]
pub struct Store {
    pub tasks: TaskStore,
    pub guard: Arc<dyn GuardStore>,
}

/// An open store of tasks, as the traits that its users need: one store stands behind all of them.
#[derive(Clone)]
pub struct TaskStore {
    pub log: Arc<dyn TaskLog>,
    pub ledger: Arc<dyn Ledger>,
    pub upkeep: Arc<dyn Upkeep>,
    pub queries: Arc<dyn AdminQueries>,
}

impl fmt::Debug for TaskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStore").finish_non_exhaustive()
    }
}

impl fmt::Debug for dyn GuardStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardStore").finish_non_exhaustive()
    }
}

impl TaskStore {
    pub(crate) fn new<S: TaskLog + Ledger + Upkeep + AdminQueries>(store: Arc<S>) -> Self {
        Self { log: store.clone(), ledger: store.clone(), queries: store.clone(), upkeep: store }
    }

    /// The model of a store of tasks, for tests alone. It is in memory, and has no other owner.
    #[cfg(feature = "model")]
    pub fn model() -> Self {
        Self::new(Arc::new(crate::model::ModelLog::default()))
    }

    /// A new store of tasks in memory, which does not survive the process and counts the bytes of callers.
    ///
    /// # Panics
    /// When there is no memory for it.
    pub fn in_memory() -> Self {
        let options = OpenOptions { byte_counting: ByteCounting::On, ..OpenOptions::default() };
        open_tasks(&StoreUrl::MEMORY, options).expect("memory has no file that could be refused")
    }
}

/// A new store of the guard in memory, which does not survive the process.
///
/// # Panics
/// When there is no memory for it.
pub fn guard_in_memory() -> Arc<dyn GuardStore> {
    open_guard(&StoreUrl::MEMORY, OpenOptions::default()).expect("memory has no file that could be refused")
}
