//! A few settled tasks in memory, for those who ask again.
//!
//! Settled means settled: such a record never changes, so a copy of it is never wrong. Direct-mapped, because then
//! there is nothing to evict, no order to keep and no lock that two tasks share but by chance.

use super::lock;
use crate::{Scope, Stored};
use sabir_proto::TaskId;
use std::sync::{Arc, Mutex};

/// Tasks kept at most.
const SLOTS: usize = 1024;
/// Larger tasks are not kept; with [`SLOTS`] this bounds the memory to 4 MiB.
const BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Settled(Vec<Mutex<Option<Stored>>>);

impl Default for Settled {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| Mutex::default()).collect())
    }
}

impl Settled {
    fn slot(&self, id: TaskId) -> &Mutex<Option<Stored>> {
        // The random bits of the id choose the slot.
        let random = usize::from(u16::from_be_bytes([id.to_bytes()[14], id.to_bytes()[15]]));
        &self.0[random % SLOTS]
    }

    pub(super) fn get(&self, id: TaskId) -> Option<Stored> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).cloned()
    }

    pub(super) fn owner(&self, id: TaskId) -> Option<Arc<Scope>> {
        lock(self.slot(id)).as_ref().filter(|stored| stored.id == id).map(|stored| stored.scope.clone())
    }

    pub(super) fn keep(&self, stored: &Stored) {
        let small = stored.base.as_ref().is_some_and(|base| base.task.json.len() <= BYTES_MAX);
        if stored.state.is_settled() && small {
            *lock(self.slot(stored.id)) = Some(stored.clone());
        }
    }
}
