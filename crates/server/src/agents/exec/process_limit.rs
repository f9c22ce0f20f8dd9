//! How many commands run at the same time, and which turn is next.
//!
//! A turn holds a slot from before its private directory is made until the directory and all processes of the turn are
//! gone. A turn that finds no slot waits in the lane of its caller, and lanes are served in rotation: a caller with
//! four hundred messages delays one with a single message by one command. A turn that is dropped, because its task was
//! canceled or the server stops, leaves its lane. How many turns wait is bounded by `limits.live_tasks_max`.
//!
//! There are two limits: that of the agent, with a lane for each caller, and that of the server, with a lane for each
//! agent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A limit on the commands that run at the same time.
#[derive(Debug)]
pub(crate) struct ProcessLimit {
    processes_max: usize,
    state: Mutex<ProcessLimitState>,
}

#[derive(Debug, Default)]
struct ProcessLimitState {
    running: usize,
    /// The number of turns that were ever queued; the number of the next turn.
    queued: u64,
    lanes: HashMap<Arc<str>, BTreeMap<u64, oneshot::Sender<()>>>,
    /// The lanes that are not empty; the first is served next.
    rotation: VecDeque<Arc<str>>,
}

/// The right to run one command. Dropping it lets the next turn begin.
#[derive(Debug)]
pub(crate) struct ProcessSlot {
    limit: Arc<ProcessLimit>,
}

/// A turn that waits in a lane.
struct QueuedTurn {
    limit: Arc<ProcessLimit>,
    lane: Arc<str>,
    number: u64,
    has_slot: bool,
}

impl ProcessLimit {
    pub(crate) fn new(processes_max: usize) -> Arc<Self> {
        Arc::new(Self { processes_max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, ProcessLimitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) const fn processes_max(&self) -> usize {
        self.processes_max
    }

    /// A slot, if one is free. While turns wait none is: a slot that is given back goes to the next of them.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<ProcessSlot> {
        let mut state = self.lock();
        let is_free = state.running < self.processes_max;
        is_free.then(|| {
            state.running += 1;
            ProcessSlot { limit: self.clone() }
        })
    }

    /// Waits for a slot in this lane.
    pub(super) async fn acquire(self: &Arc<Self>, lane: &Arc<str>) -> ProcessSlot {
        let (mut queued, granted) = {
            // Checked and queued under one lock: a slot that is given back in between would go to no turn.
            let mut state = self.lock();
            if state.running < self.processes_max {
                state.running += 1;
                return ProcessSlot { limit: self.clone() };
            }
            let (sender, granted) = oneshot::channel();
            let number = state.enqueue(lane, sender);
            (QueuedTurn { limit: self.clone(), lane: lane.clone(), number, has_slot: false }, granted)
        };
        // The sender is dropped only with the slot: this turn holds the limit, and removes itself from its lane.
        drop(granted.await);
        queued.has_slot = true;
        ProcessSlot { limit: self.clone() }
    }

    fn release(&self) {
        let mut state = self.lock();
        match state.dequeue() {
            // The receiver exists: a dropped turn leaves its lane under the same lock first.
            Some(next) => drop(next.send(())),
            None => state.running -= 1,
        }
    }
}

impl ProcessLimitState {
    fn enqueue(&mut self, lane: &Arc<str>, sender: oneshot::Sender<()>) -> u64 {
        self.queued += 1;
        let turns = self.lanes.entry(lane.clone()).or_default();
        if turns.is_empty() {
            self.rotation.push_back(lane.clone());
        }
        turns.insert(self.queued, sender);
        self.queued
    }

    /// The turn that has waited longest in the lane that is next.
    fn dequeue(&mut self) -> Option<oneshot::Sender<()>> {
        let lane = self.rotation.pop_front()?;
        let turns = self.lanes.get_mut(&lane)?;
        let next = turns.pop_first().map(|(_, sender)| sender);
        if turns.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.rotation.push_back(lane);
        }
        next
    }

    /// Removes a turn from its lane; false if it is no longer there.
    fn leave(&mut self, lane: &Arc<str>, number: u64) -> bool {
        let Some(turns) = self.lanes.get_mut(lane) else { return false };
        let was_there = turns.remove(&number).is_some();
        if turns.is_empty() {
            self.lanes.remove(lane);
            self.rotation.retain(|other| other != lane);
        }
        was_there
    }
}

impl Drop for QueuedTurn {
    fn drop(&mut self) {
        if self.has_slot {
            return;
        }
        let is_queued = self.limit.lock().leave(&self.lane, self.number);
        // The turn got a slot, and was dropped before it could take it.
        if !is_queued {
            self.limit.release();
        }
    }
}

impl Drop for ProcessSlot {
    fn drop(&mut self) {
        self.limit.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn lanes_are_served_in_rotation_and_in_order() {
        let limit = ProcessLimit::new(1);
        let (crowd, single): (Arc<str>, Arc<str>) = ("crowd".into(), "single".into());
        let mut held = limit.try_acquire();
        assert!(held.is_some() && limit.try_acquire().is_none());
        let (mut first, mut second) = (Box::pin(limit.acquire(&crowd)), Box::pin(limit.acquire(&crowd)));
        assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none());
        let mut other = Box::pin(limit.acquire(&single));
        assert!(poll(other.as_mut()).is_none());
        held.take();
        assert!(limit.try_acquire().is_none(), "the slot belongs to a turn that waits");
        let slot = poll(first.as_mut()).expect("the one who waits longest is first");
        assert!(poll(other.as_mut()).is_none() && poll(second.as_mut()).is_none());
        drop(slot);
        let slot = poll(other.as_mut()).expect("a single message waits for one command, not for all");
        assert!(poll(second.as_mut()).is_none());
        drop(slot);
        drop(poll(second.as_mut()).expect("then the crowd goes on"));
        assert!(limit.try_acquire().is_some());
    }

    #[test]
    fn a_turn_that_is_dropped_leaves_its_lane_and_no_slot_is_lost() {
        let limit = ProcessLimit::new(1);
        let lane: Arc<str> = "lane".into();
        let held = limit.try_acquire();
        {
            let mut gone = pin!(limit.acquire(&lane));
            assert!(poll(gone.as_mut()).is_none());
        }
        assert!(limit.lock().lanes.is_empty() && limit.lock().rotation.is_empty());
        {
            let mut late = pin!(limit.acquire(&lane));
            assert!(poll(late.as_mut()).is_none());
            // Given the slot, and dropped before it is polled again.
            drop(held);
        }
        assert!(limit.try_acquire().is_some());
    }
}
