//! Tasks that were handed to us, and wait until whoever gave them away has let go.
//!
//! There is no transaction across servers. So the sender first has us make the task, which then is *held*: submitted,
//! with nothing done for it. Once the sender has committed that its own task is over it says so (`activate`), and only
//! then does our agent begin. A sender that never comes back has its task canceled when the hold runs out, so nobody works
//! for nobody. The name of the handoff is the retry key of all this: however often it is said, there is one task.
//!
//! A task is held exactly while it is submitted, so nothing else has to be remembered: what lets go of it is the step that
//! makes it working, and a crash before that step finds it held as before.

use crate::agent::TurnInfo;
use crate::begin::{Begun, Incoming};
use crate::engine::{Core, Engine};
use crate::host::BoxFuture;
use crate::live::Order;
use crate::machine;
use sabir_proto::transfer::{self, Claim, TransferContext, with_member};
use sabir_proto::{
    Caller, Fault, HANDOFF, HANDOFF_LITERAL, Message, Object, Role, Stamp, TaskId, TaskRef, TaskState, Timestamp,
};
use sabir_store::{AppendError, Effect, Scope, Step, Stored};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// What the caller of a task reads whose hold ran out.
pub(crate) const EXPIRED: &str = "the handoff was not confirmed in time, so nothing was done";

/// What a message says about a handoff, if anything. What cannot be understood is refused: ignoring it would begin work
/// that its sender wants held.
pub(crate) fn read(message: &Message) -> Result<Option<transfer::Incoming>, Fault> {
    if !message.metadata.as_ref().is_some_and(|metadata| metadata.as_str().contains(HANDOFF)) {
        return Ok(None);
    }
    let wrong =
        |fault: transfer::TransferFault| Fault::invalid(format!("message.metadata[{HANDOFF}]"), fault.to_string());
    transfer::Incoming::of(message).transpose().map_err(wrong)
}

/// Whether whoever has these extensions active follows handoffs.
pub(crate) fn follows(extensions: &[String]) -> bool {
    extensions.iter().any(|uri| uri == HANDOFF || uri == HANDOFF_LITERAL)
}

/// Whether a message wants its task held.
pub(crate) fn is_held(message: &Message) -> bool {
    matches!(read(message), Ok(Some(transfer::Incoming::Create { hold: true, .. })))
}

/// The retry key of a handoff.
pub(crate) fn retry_key(incoming: &transfer::Incoming) -> Option<String> {
    match incoming {
        transfer::Incoming::Create { context, .. } if !context.transfer_id.is_empty() => {
            Some(format!("handoff:{}", context.transfer_id))
        }
        _ => None,
    }
}

/// Where a task came from, for its metadata.
pub(crate) fn provenance(message: &Message) -> Option<Object> {
    let context = came_with(message)?;
    let from = serde_json::json!({
        "agent": context.originating_agent,
        "task_id": context.originating_task_id,
        "transfer_id": context.transfer_id,
    });
    Some(with_member(None, HANDOFF, serde_json::json!({ "transferred_from": from })))
}

/// Waits until the task is let go of; false if nobody did so in time.
pub(crate) async fn released(gate: Arc<AtomicBool>, mut expiry: BoxFuture<'static, ()>) -> bool {
    // Whoever opens the gate polls the turn next.
    poll_fn(|cx| {
        if gate.load(Ordering::Acquire) {
            return Poll::Ready(true);
        }
        expiry.as_mut().poll(cx).map(|()| false)
    })
    .await
}

/// How long a task is still held.
pub(crate) fn time_left(info: &TurnInfo) -> Duration {
    let opened = info.task.stamp().time().millis();
    let held = info.core.host.now().millis().saturating_sub(opened);
    info.core.limits.hold_time_max.saturating_sub(Duration::from_millis(u64::try_from(held).unwrap_or(0)))
}

impl Core {
    /// Since when handoffs of ours may still wait for their activation on the other side.
    pub(crate) fn handoffs_since(&self) -> Stamp {
        let held = i64::try_from(self.limits.hold_time_max.as_millis()).unwrap_or(i64::MAX);
        // Others may hold longer than we do.
        let since = self.host.now().millis().saturating_sub(held.saturating_mul(4));
        Stamp::first_of(Timestamp::from_millis(since.max(0)))
    }
}

impl Engine {
    /// Whose task this is, for whoever passes it on.
    pub async fn scope_of(&self, task: TaskId) -> Result<Arc<Scope>, Fault> {
        let owner = self.core.log.owner(task).await;
        let owner = owner.map_err(|error| self.core.store_fault("looking for a task's caller", &error))?;
        owner.ok_or_else(|| Fault::TaskNotFound(task.into()))
    }

    /// Gives a task that was handed over to whoever shows the claim to it. What does not fit is not said here: to everybody
    /// else the task is not there. A caller without a name is given nothing: it would be everybody's.
    pub async fn adopt(&self, scope: &Arc<Scope>, task: &TaskRef, claim: &Claim) -> Result<(), Fault> {
        let &TaskRef::Id(id) = task else { return Ok(()) };
        let read = |error| self.core.store_fault("looking whose a task is", &error);
        let Some(owner) = self.core.log.owner(id).await.map_err(read)? else { return Ok(()) };
        if owner.tenant != scope.tenant || owner.agent != scope.agent || scope.caller == Caller::anonymous() {
            return Ok(());
        }
        let Some(stored) = self.core.log.load(id).await.map_err(read)? else { return Ok(()) };
        let digest = first_message(&stored).and_then(|message| came_with(&message)?.claim_digest);
        if stored.is_adopted || stored.is_child || !digest.is_some_and(|digest| claim.fits(&digest)) {
            return Ok(());
        }
        match self.core.log.append(Step::bare(id, vec![Effect::Adopt(scope.clone())])).await {
            Ok(()) => {
                tracing::info!(task = %id, "a task that was handed over has gone to whom it is for");
                if owner != *scope {
                    self.core.live.enter(id).hand_on();
                }
                // The claim is told only once the sender has let go, and the sender cannot say so any more.
                self.claim_held(&stored);
                Ok(())
            }
            // It has gone to somebody else before.
            Err(AppendError::Stale) => Ok(()),
            Err(error) => Err(self.core.append_fault("giving a task to whom it is for", &error)),
        }
    }

    /// Lets go of a held task because its owner is here: it was told of the task by whoever gave it away, who has done so by
    /// then.
    pub(crate) fn claim_held(&self, stored: &Stored) {
        let opening = stored.tail.first().map(|event| &event.json[..]).unwrap_or_default();
        let may_be = stored.state == TaskState::Submitted && String::from_utf8_lossy(opening).contains(HANDOFF);
        if may_be && first_message(stored).is_some_and(|message| is_held(&message)) {
            self.core.live.enter(stored.id).order(Order::Activate);
        }
    }
}

impl Incoming<'_> {
    /// Lets go of a held task. Said twice it is as good as said once.
    pub(crate) async fn activate(&self, order: &transfer::Order) -> Result<Begun, Fault> {
        let named = self.request.message.task_id.as_ref();
        let named = named.ok_or_else(|| Fault::invalid("message.taskId", "says which task is activated"))?;
        let engine = Engine { core: self.core.clone() };
        let id = engine.find(&self.scope, named).await?.id;
        loop {
            let stored = engine.owned(&self.scope, id).await?;
            self.belongs(&stored, order, id)?;
            if stored.state != TaskState::Submitted {
                return Ok(Begun::Repeat { id, heard: None });
            }
            let mut live = self.core.live.enter(id);
            if !live.is_running() {
                return Err(Fault::Unavailable("the task is not being looked after at the moment; try again".into()));
            }
            live.order(Order::Activate);
            live.moved_or_released(stored.head).await?;
        }
    }

    fn belongs(&self, stored: &Stored, order: &transfer::Order, id: TaskId) -> Result<(), Fault> {
        let came = first_message(stored).and_then(|message| came_with(&message));
        match came {
            Some(context) if context.transfer_id == order.transfer_id => Ok(()),
            _ => {
                let words = format!("task {id} was not handed over by this transfer");
                Err(Fault::invalid("message.metadata.transfer_id", words))
            }
        }
    }
}

/// What was told with a task that was handed over, by the message that opened it.
pub(crate) fn came_with(message: &Message) -> Option<TransferContext> {
    match read(message) {
        Ok(Some(transfer::Incoming::Create { context, .. })) => Some(*context),
        _ => None,
    }
}

/// The message that opened a task.
fn first_message(stored: &Stored) -> Option<Message> {
    machine::thaw(stored)?.history.into_iter().find(|message| message.role == Role::User)
}
