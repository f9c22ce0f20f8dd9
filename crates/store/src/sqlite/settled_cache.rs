//! A cache of settled tasks, for repeated reads.
//!
//! A settled task never changes, so a cached copy is valid until the task is deleted, which the writer reports here.
//! The cache is direct-mapped, so there is nothing to evict, no order to keep, and two tasks share a lock only by
//! chance.

use super::lock;
use crate::{Scope, StoredTask};
use sabir_proto::TaskId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The number of cached tasks.
const SLOTS: usize = 1024;
/// Larger tasks are not cached; with [`SLOTS`] this bounds the memory to 4 MiB.
const BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct SettledCache {
    slots: Vec<Mutex<Option<StoredTask>>>,
    /// The number of invalidations so far.
    age: AtomicU64,
}

impl Default for SettledCache {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Mutex::default()).collect(), age: AtomicU64::new(0) }
    }
}

impl SettledCache {
    fn slot(&self, id: TaskId) -> &Mutex<Option<StoredTask>> {
        // The random bits of the id choose the slot.
        let random = usize::from(u16::from_be_bytes([id.to_bytes()[14], id.to_bytes()[15]]));
        &self.slots[random % SLOTS]
    }

    pub(super) fn get(&self, id: TaskId) -> Option<StoredTask> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).cloned()
    }

    pub(super) fn owner(&self, id: TaskId) -> Option<Arc<Scope>> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).map(|stored| stored.scope.clone())
    }

    /// The age to pass to `keep`; taken before the read.
    pub(super) fn age(&self) -> u64 {
        self.age.load(Ordering::Acquire)
    }

    /// Caches a task that was read at this age, unless tasks were deleted since, for it may be one of them.
    pub(super) fn keep(&self, stored: &StoredTask, age: u64) {
        let small = stored.base.as_ref().is_some_and(|base| base.task.json.len() <= BYTES_MAX);
        if stored.state.is_settled() && small {
            let mut slot = lock(self.slot(stored.id));
            if self.age() == age {
                *slot = Some(stored.clone());
            }
        }
    }

    /// Removes deleted tasks. The age rises first, because `keep` reads it under the lock of the slot.
    pub(super) fn forget(&self, gone: &[TaskId]) {
        self.age.fetch_add(1, Ordering::AcqRel);
        for id in gone {
            lock(self.slot(*id)).take_if(|stored| stored.id == *id);
        }
    }
}
