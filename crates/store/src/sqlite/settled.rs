//! A few settled tasks in memory, for those who ask again.
//!
//! Settled means settled: such a record never changes, so a copy of it is never wrong until the task is forgotten, which
//! is told here. Direct-mapped, because then there is nothing to evict, no order to keep and no lock that two tasks share
//! but by chance.

use super::lock;
use crate::{Scope, Stored};
use sabir_proto::TaskId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Tasks kept at most.
const SLOTS: usize = 1024;
/// Larger tasks are not kept; with [`SLOTS`] this bounds the memory to 4 MiB.
const BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Settled {
    slots: Vec<Mutex<Option<Stored>>>,
    /// How often tasks were forgotten.
    age: AtomicU64,
}

impl Default for Settled {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Mutex::default()).collect(), age: AtomicU64::new(0) }
    }
}

impl Settled {
    fn slot(&self, id: TaskId) -> &Mutex<Option<Stored>> {
        // The random bits of the id choose the slot.
        let random = usize::from(u16::from_be_bytes([id.to_bytes()[14], id.to_bytes()[15]]));
        &self.slots[random % SLOTS]
    }

    pub(super) fn get(&self, id: TaskId) -> Option<Stored> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).cloned()
    }

    pub(super) fn owner(&self, id: TaskId) -> Option<Arc<Scope>> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).map(|stored| stored.scope.clone())
    }

    /// To be asked before a task is read that may be kept then.
    pub(super) fn age(&self) -> u64 {
        self.age.load(Ordering::Acquire)
    }

    /// Keeps a task that was read at this age; not if any were forgotten since, for it may be one of them.
    pub(super) fn keep(&self, stored: &Stored, age: u64) {
        let small = stored.base.as_ref().is_some_and(|base| base.task.json.len() <= BYTES_MAX);
        if stored.state.is_settled() && small {
            let mut slot = lock(self.slot(stored.id));
            if self.age() == age {
                *slot = Some(stored.clone());
            }
        }
    }

    /// These are gone. In this order: whoever keeps one asks for the age under the lock of its slot.
    pub(super) fn forget(&self, gone: &[TaskId]) {
        self.age.fetch_add(1, Ordering::AcqRel);
        for id in gone {
            lock(self.slot(*id)).take_if(|stored| stored.id == *id);
        }
    }
}
