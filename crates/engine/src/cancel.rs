//! Calling off work that goes on elsewhere.
//!
//! An agent that only stands for another one cannot decide how a cancel ends: the other one may have finished already, or
//! never answer. It is given a grace in which to ask, and the task ends as the other one says. Where nobody answers, the
//! task is canceled all the same, with a mark that something is not known; and that the other one is yet to be told is a
//! row of its own in the same step. The row is worked off from then on, across restarts, until it is acknowledged. The same
//! row is written where we end a task by ourselves: one that outgrew its limits, took too long, or cannot be taken up.
//!
//! A cancel that comes while the message to the other server is on its way waits for the answer, which names the task
//! there. Where the grace is over before that, the task is canceled here, the answer is waited for behind the caller's
//! back, and the row is written when it has come.

use crate::agent::{AnyAgent, CalledOff, Canceled, Ending};
use crate::engine::{Core, Engine, Resident};
use crate::host::BoxFuture;
use crate::record::Recorder;
use crate::turn::Turn;
use bytes::Bytes;
use sabir_proto::{AgentName, TaskId, Timestamp};
use sabir_store::{Effect, OwedCancel, Step, StoreError};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long before they are told again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Rows read at a time.
const PAGE: usize = 256;

impl Core {
    /// Asks an agent to call off its work, for as long as `grace` lasts or until `stopping`.
    pub(crate) async fn call_off(
        &self,
        agent: &Arc<dyn AnyAgent>,
        canceled: Canceled,
        grace: &mut BoxFuture<'static, ()>,
        stopping: impl Fn(&mut Context<'_>) -> bool,
    ) -> CalledOff {
        let mut asked = agent.any_call_off(canceled);
        poll_fn(|cx| {
            match poll_quietly(&mut asked, cx) {
                Some(Poll::Ready(off)) => return Poll::Ready(off),
                Some(Poll::Pending) => {}
                None => return Poll::Ready(CalledOff::unheard("the agent broke down while it was called off")),
            }
            if stopping(cx) {
                return Poll::Ready(CalledOff::unheard("the server stopped before the agent answered the cancel"));
            }
            let late = || CalledOff::unheard("the agent did not answer the cancel in time");
            grace.as_mut().poll(cx).map(|()| late())
        })
        .await
    }

    /// The row for a cancel that was not acknowledged.
    pub(crate) fn owed_cancel(&self, off: &CalledOff, canceled: &Canceled) -> Option<OwedCancel> {
        let data = canceled.checkpoint.clone().filter(|_| !off.acknowledged)?;
        Some(OwedCancel { data, attempts: 0, due: later(self.host.now(), PAUSE_MIN) })
    }

    /// The row for work that was ended without anybody having been told: it is due at once.
    pub(crate) fn untold_cancel(&self, checkpoint: Option<Bytes>) -> Option<OwedCancel> {
        Some(OwedCancel { data: checkpoint?, attempts: 0, due: self.host.now() })
    }

    /// Waits for the answer to a message that had left when its task was canceled, and has the task canceled there once it
    /// is named. The turn waits no longer than any turn may take.
    pub(crate) fn cancel_once_answered(self: &Arc<Self>, task: TaskId, mut turn: Turn) {
        let core = self.clone();
        self.host.spawn(Box::pin(async move {
            let mut deadline = core.host.sleep(core.limits.turn_time_max);
            poll_fn(|cx| {
                if turn.poll(cx).is_ready() || !turn.outlet.awaits_answer() {
                    return Poll::Ready(());
                }
                deadline.as_mut().poll(cx)
            })
            .await;
            let (_, left) = turn.outlet.take();
            core.metrics.late_reports.inc_by(turn.stop());
            let Some(owed) = core.untold_cancel(left) else { return };
            let effect = Effect::OweCancel(Some(Box::new(owed.clone())));
            if let Err(error) = core.log.append(Step::bare(task, vec![effect])).await {
                // The agent is told all the same, unless this process ends first.
                tracing::warn!(%task, %error, "that a cancel is owed could not be stored");
            }
            core.chase(task, turn.agent.clone(), owed);
        }));
    }

    /// Sees to the cancel that a step says is owed, if it does.
    pub(crate) fn chase_for(self: &Arc<Self>, step: &Step, agent: &Arc<dyn AnyAgent>) {
        for effect in &step.effects {
            if let Effect::OweCancel(Some(owed)) = effect {
                self.chase(step.task, agent.clone(), (**owed).clone());
            }
        }
    }

    /// Tells an agent of a cancel again and again, until that has been acknowledged.
    pub(crate) fn chase(self: &Arc<Self>, task: TaskId, agent: Arc<dyn AnyAgent>, mut owed: OwedCancel) {
        let core = self.clone();
        if !self.chased.lock().unwrap_or_else(PoisonError::into_inner).insert(task) {
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
                // Whoever goes by that name now: it may have been changed because it could not be called.
                let owner = core.log.owner(task).await.ok().flatten();
                let now = owner.and_then(|scope| core.resident(&scope.agent));
                let agent = now.map_or_else(|| agent.clone(), |resident| resident.agent.clone());
                let mut told = agent.any_remind(Canceled { task, checkpoint: Some(owed.data.clone()) });
                let told = poll_fn(|cx| poll_quietly(&mut told, cx).unwrap_or(Poll::Ready(false))).await;
                if !told {
                    owed.attempts = owed.attempts.saturating_add(1);
                    owed.due = later(core.host.now(), (PAUSE_MIN * 2_u32.pow(owed.attempts.min(10))).min(PAUSE_MAX));
                }
                let effect = Effect::OweCancel((!told).then(|| Box::new(owed.clone())));
                match core.log.append(Step::bare(task, vec![effect])).await {
                    Ok(()) if told => break,
                    // The task has been forgotten, and this with it.
                    Err(sabir_store::AppendError::Stale) => break,
                    Ok(()) => {}
                    // It is told once more than needed then, which does no harm.
                    Err(error) => tracing::warn!(%task, %error, "what is known of a cancel could not be stored"),
                }
            }
            core.metrics.cancels_owed.dec();
            core.chased.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
        }));
    }
}

impl Engine {
    /// Goes on telling agents elsewhere of cancels that they have not acknowledged.
    pub(crate) async fn chase_owed(
        &self,
        resident: &impl Fn(&AgentName) -> Option<Arc<Resident>>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.core.log.owed_cancels(after, PAGE).await?;
            let Some((last, ..)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (task, agent, owed) in page {
                match resident(&agent) {
                    Some(resident) => self.core.chase(task, resident.agent.clone(), owed),
                    None => tracing::debug!(%task, %agent, "an agent that is not here owes a cancel; the row stays"),
                }
            }
        }
    }
}

impl Recorder {
    /// Adds the end of a task that was called off.
    pub(crate) fn call_off(&mut self, core: &Core, off: CalledOff) {
        for (artifact, append) in off.artifacts {
            self.artifact(artifact, append, true);
        }
        if let Some(reason) = off.gap {
            self.gap(reason);
        }
        // A task that was called off does not go on asking.
        let ending = match off.ending {
            Ending::AskInput(parts) | Ending::AskAuth(parts) => Ending::Cancel(parts),
            ending => ending,
        };
        self.end(core, ending);
    }
}

/// Polls what an agent does; `None` if it panicked.
fn poll_quietly<T>(future: &mut BoxFuture<'_, T>, cx: &mut Context<'_>) -> Option<Poll<T>> {
    catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))).ok()
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
