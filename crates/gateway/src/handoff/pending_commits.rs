//! Handoffs whose last step is not in the log yet: they are recorded as committed once it is there, and not before.
//!
//! Between decision and commit a cancel may win, or the process may end; then there is nothing to record, and the
//! process that resumes the turn decides again.

use super::{HandoffAttempt, HandoffPolicy, TargetProfile};
use sabir_engine::Context;
use sabir_guard::policy::lattice::ScopeVerdict;
use sabir_proto::{Caller, TaskId, TaskRef};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What the audit record of a handoff needs, before its commit.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub(super) transfer_id: String,
    pub(super) to: String,
    pub(super) face: TargetProfile,
    pub(super) their_task: TaskRef,
    pub(super) verdict: ScopeVerdict,
}

/// The handoffs that wait for their commit.
#[derive(Debug)]
pub(super) struct PendingCommits(Mutex<BTreeMap<TaskId, (Caller, usize, PendingCommit)>>);

impl PendingCommits {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(super) fn insert(&self, cx: &Context, booking: PendingCommit) {
        let hops = cx.transfer_context().map_or(0, |came| came.chain.len()) + 1;
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(cx.task_id(), (cx.caller().clone(), hops, booking));
    }

    /// Drops a handoff that was not committed.
    pub(super) fn remove(&self, task: TaskId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
    }

    /// Records a handoff that is committed. What another process has committed, that process records.
    pub(super) fn record_committed(&self, policy: &HandoffPolicy, task: TaskId) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        let Some((caller, hops, booking)) = waiting else { return };
        let PendingCommit { transfer_id, to, face, their_task, verdict } = booking;
        policy.audit.record(&HandoffAttempt {
            transfer_id: &transfer_id,
            caller: &caller,
            task,
            from: &policy.agent,
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
