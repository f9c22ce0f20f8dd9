//! Handoffs whose last step is not in the log yet: they are recorded as committed once it is there, and not before.
//!
//! Between decision and commit a cancel may win, or the process may end; then there is nothing to record, and the
//! process that resumes the turn decides again.

use super::{Attempt, Desk, Face};
use sabir_engine::Context;
use sabir_guard::policy::lattice::Verdict;
use sabir_proto::{Caller, TaskId, TaskRef};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What the audit record of a handoff needs, before its commit.
#[derive(Debug)]
pub(super) struct Booking {
    pub(super) transfer_id: String,
    pub(super) to: String,
    pub(super) face: Face,
    pub(super) their_task: TaskRef,
    pub(super) verdict: Verdict,
}

/// The handoffs that wait for their commit.
#[derive(Debug)]
pub(super) struct Bookings(Mutex<BTreeMap<TaskId, (Caller, usize, Booking)>>);

impl Bookings {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(super) fn expect(&self, cx: &Context, booking: Booking) {
        let hops = cx.transfer_context().map_or(0, |came| came.chain.len()) + 1;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(cx.task_id(), (cx.caller().clone(), hops, booking));
    }

    /// Drops a handoff that was not committed.
    pub(super) fn forget(&self, task: TaskId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
    }

    /// Records a handoff that is committed. What another process has committed, that process records.
    pub(super) fn settle(&self, desk: &Desk, task: TaskId) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        let Some((caller, hops, booking)) = waiting else { return };
        let Booking { transfer_id, to, face, their_task, verdict } = booking;
        desk.ledger.record(&Attempt {
            transfer_id: &transfer_id,
            caller: &caller,
            task,
            from: &desk.agent,
            to: &to,
            endpoint: Some(&face.endpoint),
            their_task: Some(&their_task),
            hops,
            required: &verdict.required,
            allowed: &verdict.allowed,
            missing: &verdict.missing,
            card: Some((&*face.digest, face.signed)),
            outcome: "committed",
        });
    }
}
