//! Cancels work that goes on at another server, and repeats a cancel until it is acknowledged.
//!
//! An agent that proxies a remote one cannot decide how a cancel ends: the remote agent may have finished already, or
//! never answer. The proxy has a grace in which to ask, and the task ends as the remote agent reports. Without an
//! answer, the task is canceled with a gap mark, and the same step stores a pending cancel for the remote agent. The
//! engine sends that again, across restarts, until it is acknowledged. A pending cancel is also stored where the engine
//! ends a task by itself: one that exceeded its limits, took too long, or cannot resume.
//! A cancel that comes while the message to the other server is in flight waits for the answer, which names the task
//! there. If the grace ends first, the task is canceled here and the same step stores the pending cancel without an id.
//! The turn goes on to wait for the answer, which completes the pending cancel. If the process ends before that, the
//! next process reads the pending cancel, and the agent searches for the task by the id of its message.

use crate::agent::{AnyAgent, CancelOutcome, CanceledTask, Ending};
use crate::engine::{Core, Engine, HostedAgent};
use crate::host::BoxFuture;
use crate::recorder::Recorder;
use crate::turn::Turn;
use bytes::Bytes;
use sabir_proto::{AgentName, TaskId, Timestamp};
use sabir_store::{Effect, PendingCancel, Step, StoreError};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// The shortest and the longest pause between two cancels of one task.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// The number of rows per page.
const PAGE: usize = 256;

impl Core {
    /// Asks an agent to cancel its work elsewhere, until `grace` ends or `stopping` is true.
    pub(crate) async fn cancel_elsewhere(
        &self,
        agent: &Arc<dyn AnyAgent>,
        canceled: CanceledTask,
        grace: &mut BoxFuture<'static, ()>,
        stopping: impl Fn(&mut Context<'_>) -> bool,
    ) -> CancelOutcome {
        let mut asked = agent.any_cancel_elsewhere(canceled);
        poll_fn(|cx| {
            match poll_catching_panic(&mut asked, cx) {
                Some(Poll::Ready(off)) => return Poll::Ready(off),
                Some(Poll::Pending) => {}
                None => {
                    return Poll::Ready(CancelOutcome::unacknowledged("the agent broke down while it was called off"));
                }
            }
            if stopping(cx) {
                return Poll::Ready(CancelOutcome::unacknowledged(
                    "the server stopped before the agent answered the cancel",
                ));
            }
            let late = || CancelOutcome::unacknowledged("the agent did not answer the cancel in time");
            grace.as_mut().poll(cx).map(|()| late())
        })
        .await
    }

    /// The pending cancel to store where the remote agent has not acknowledged.
    pub(crate) fn pending_cancel(&self, off: &CancelOutcome, canceled: &CanceledTask) -> Option<PendingCancel> {
        let data = canceled.checkpoint.clone().filter(|_| !off.acknowledged)?;
        Some(PendingCancel { data, attempts: 0, due: later(self.host.now(), PAUSE_MIN) })
    }

    /// The pending cancel for work that the remote agent was not told of at all: due at once.
    pub(crate) fn immediate_cancel(&self, checkpoint: Option<Bytes>) -> Option<PendingCancel> {
        Some(PendingCancel { data: checkpoint?, attempts: 0, due: self.host.now() })
    }

    /// Waits for the answer to a message that was sent before its task was canceled, and cancels the task that it
    /// names. The turn may take no longer than any other turn.
    pub(crate) fn cancel_once_answered(self: &Arc<Self>, task: TaskId, mut turn: Turn) {
        let core = self.clone();
        self.host.spawn(Box::pin(async move {
            let mut deadline = core.host.sleep(core.limits.turn_time_max);
            let has_ended = poll_fn(|cx| {
                if turn.poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                if !turn.reports.awaits_answer() {
                    return Poll::Ready(false);
                }
                deadline.as_mut().poll(cx).map(|()| false)
            })
            .await;
            let (_, left) = turn.reports.take();
            core.metrics.late_reports.inc_by(turn.stop());
            // A turn that ended and left nothing has nothing to cancel; of any other it is not known.
            let known = left.or_else(|| turn.checkpoint.take().filter(|_| !has_ended));
            let Some(owed) = core.immediate_cancel(known) else {
                let nothing = Step::effects_only(task, vec![Effect::SetPendingCancel(None)]);
                if let Err(error) = core.log.append(nothing).await {
                    // The next process finds out the same.
                    tracing::warn!(%task, %error, "that no cancel is owed could not be stored");
                }
                return;
            };
            let effect = Effect::SetPendingCancel(Some(Box::new(owed.clone())));
            if let Err(error) = core.log.append(Step::effects_only(task, vec![effect])).await {
                // The cancel is sent anyway, unless this process ends first.
                tracing::warn!(%task, %error, "that a cancel is owed could not be stored");
            }
            core.start_cancel(task, turn.agent.clone(), owed);
        }));
    }

    /// Starts sending the cancel that a step stores, if it has one.
    pub(crate) fn start_cancels_of(self: &Arc<Self>, step: &Step, agent: &Arc<dyn AnyAgent>) {
        for effect in &step.effects {
            if let Effect::SetPendingCancel(Some(owed)) = effect {
                self.start_cancel(step.task, agent.clone(), (**owed).clone());
            }
        }
    }

    /// Sends a cancel through an agent again and again, until it is acknowledged.
    pub(crate) fn start_cancel(self: &Arc<Self>, task: TaskId, agent: Arc<dyn AnyAgent>, mut owed: PendingCancel) {
        let core = self.clone();
        if !self.active_cancels.lock().unwrap_or_else(PoisonError::into_inner).insert(task) {
            return;
        }
        self.metrics.cancels_owed.inc();
        self.host.spawn(Box::pin(async move {
            loop {
                let wait = owed.due.millis().saturating_sub(core.host.now().millis());
                core.host.sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
                if core.live.is_stopping() {
                    return;
                }
                // The agent that has the name now: its configuration may have been fixed since.
                let owner = core.log.owner(task).await.ok().flatten();
                let now = owner.and_then(|scope| core.find_agent(&scope.agent));
                let agent = now.map_or_else(|| agent.clone(), |resident| resident.agent.clone());
                let mut told = agent.any_repeat_cancel(CanceledTask { task, checkpoint: Some(owed.data.clone()) });
                let told = poll_fn(|cx| poll_catching_panic(&mut told, cx).unwrap_or(Poll::Ready(false))).await;
                if !told {
                    owed.attempts = owed.attempts.saturating_add(1);
                    owed.due = later(core.host.now(), (PAUSE_MIN * 2_u32.pow(owed.attempts.min(10))).min(PAUSE_MAX));
                }
                let effect = Effect::SetPendingCancel((!told).then(|| Box::new(owed.clone())));
                match core.log.append(Step::effects_only(task, vec![effect])).await {
                    Ok(()) if told => break,
                    // The task was pruned, and the pending cancel with it.
                    Err(sabir_store::AppendError::Stale) => break,
                    Ok(()) => {}
                    // One more cancel is sent then, which does no harm.
                    Err(error) => tracing::warn!(%task, %error, "what is known of a cancel could not be stored"),
                }
            }
            core.metrics.cancels_owed.dec();
            core.active_cancels.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        }));
    }
}

impl Engine {
    /// Sends pending cancels again that were stored before this start.
    pub(crate) async fn restart_pending_cancels(
        &self,
        resident: &impl Fn(&AgentName) -> Option<Arc<HostedAgent>>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.core.log.pending_cancels(after, PAGE).await?;
            let Some((last, ..)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (task, agent, owed) in page {
                match resident(&agent) {
                    Some(resident) => self.core.start_cancel(task, resident.agent.clone(), owed),
                    None => tracing::debug!(%task, %agent, "an agent that is not here owes a cancel; the row stays"),
                }
            }
        }
    }
}

impl Recorder {
    /// Adds the end of a canceled task.
    pub(crate) fn end_canceled(&mut self, core: &Core, off: CancelOutcome) {
        for (artifact, append) in off.artifacts {
            self.artifact(artifact, append, true);
        }
        if let Some(reason) = off.gap {
            self.gap(reason);
        }
        // A canceled task must not go on asking.
        let ending = match off.ending {
            Ending::AskInput(parts) | Ending::AskAuth(parts) => Ending::Cancel(parts),
            ending => ending,
        };
        self.end(core, ending);
    }
}

/// Polls a future of an agent; `None` if it panicked.
fn poll_catching_panic<T>(future: &mut BoxFuture<'_, T>, cx: &mut Context<'_>) -> Option<Poll<T>> {
    catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))).ok()
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
