//! The memory budget of webhook bodies.
//!
//! Received requests have a budget, and so have webhook bodies: a receiver in an older dialect gets the whole task with
//! each event, and slow receivers would hold one copy per worker.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget of all bodies that are being sent. A larger body is sent alone.
const BYTES_MAX: usize = 64 << 20;
/// Bodies up to this size are not counted: one per worker is not much, and they must not wait for large ones.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Whole tasks that are read and encoded at the same time, the wait for the budget included.
const WRITERS_MAX: usize = 4;
/// The bytes of one permit.
const UNIT: usize = 1 << 10;

/// A cheap clone; all clones share the budget.
#[derive(Debug, Clone)]
pub(super) struct PayloadBudget {
    bytes: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

impl Default for PayloadBudget {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(BYTES_MAX / UNIT)), writers: Arc::new(Semaphore::new(WRITERS_MAX)) }
    }
}

impl PayloadBudget {
    /// Waits for a permit to read a whole task.
    pub(super) async fn acquire_writer(&self) -> Option<OwnedSemaphorePermit> {
        self.writers.clone().acquire_owned().await.ok()
    }

    /// Waits for budget for a body, until the permit is dropped. `None` where no budget is needed.
    pub(super) async fn acquire_bytes(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return None;
        }
        let units = u32::try_from(bytes.min(BYTES_MAX) / UNIT).unwrap_or(u32::MAX);
        self.bytes.clone().acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => None,
        }
    }

    #[test]
    fn large_bodies_wait_for_each_other_and_small_ones_for_nobody() {
        let room = PayloadBudget::default();
        let half = at_once(room.acquire_bytes(BYTES_MAX / 2)).expect("there is room");
        let rest = at_once(room.acquire_bytes(BYTES_MAX / 2)).expect("there is room");
        assert!(half.is_some() && rest.is_some());
        assert!(at_once(room.acquire_bytes(UNCOUNTED_BYTES_MAX + UNIT)).is_none(), "it waits");
        assert!(at_once(room.acquire_bytes(UNCOUNTED_BYTES_MAX)).expect("it does not wait").is_none());
        drop(half);
        assert!(at_once(room.acquire_bytes(UNCOUNTED_BYTES_MAX + UNIT)).is_some());
        drop(rest);
        assert!(at_once(room.acquire_bytes(4 * BYTES_MAX)).is_some(), "one that is larger than all of it goes alone");
    }

    #[test]
    fn few_read_whole_tasks_at_once() {
        let room = PayloadBudget::default();
        let writers: Vec<_> =
            (0..WRITERS_MAX).map(|_| at_once(room.acquire_writer()).expect("it is its turn")).collect();
        assert!(at_once(room.acquire_writer()).is_none());
        drop(writers);
        assert!(at_once(room.acquire_writer()).is_some());
    }
}
