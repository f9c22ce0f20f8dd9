//! Held tasks: tasks that another server has handed over to us, and that wait for its confirmation.
//!
//! There is no transaction across servers. So the sender first has us make the task, which then is *held*: submitted,
//! without any work. Once the sender has committed that its own task is over, it sends `activate`, and only then does
//! our agent begin. If the sender never does, the task is canceled when the hold expires, so that no work is done
//! without a caller. The id of the handoff is the retry key of all this: however often it is sent, there is one task.
//! A task is held exactly while it is submitted, so no other state is stored: the step that makes it working ends the
//! hold, and after a crash before that step it is still held.

use crate::agent::TurnInfo;
use crate::engine::{Core, Engine};
use crate::host::BoxFuture;
use crate::incoming::{IncomingMessage, SendOutcome};
use crate::live::RunnerCommand;
use crate::machine;
use sabir_proto::transfer::{self, HandoffClaim, TransferContext, with_member};
use sabir_proto::{
    Caller, Fault, HANDOFF, HANDOFF_LITERAL, Message, Object, Role, Stamp, TaskId, TaskRef, TaskState, Timestamp,
};
use sabir_store::{AppendError, Effect, Scope, Step, StoredTask};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// The status text of a task whose hold expired.
pub(crate) const EXPIRED: &str = "the handoff was not confirmed in time, so nothing was done";

/// Reads the handoff in a message, if there is one. An unreadable handoff is an error: ignoring it would begin work
/// that the sender wants held.
pub(crate) fn read_handoff(message: &Message) -> Result<Option<transfer::HandoffMessage>, Fault> {
    if !message.metadata.as_ref().is_some_and(|metadata| metadata.as_str().contains(HANDOFF)) {
        return Ok(None);
    }
    let wrong =
        |fault: transfer::TransferFault| Fault::invalid(format!("message.metadata[{HANDOFF}]"), fault.to_string());
    transfer::HandoffMessage::of(message).transpose().map_err(wrong)
}

/// Whether a caller with these active extensions supports handoffs.
pub(crate) fn supports_handoffs(extensions: &[String]) -> bool {
    extensions.iter().any(|uri| uri == HANDOFF || uri == HANDOFF_LITERAL)
}

/// Whether a message asks us to hold its task.
pub(crate) fn is_held(message: &Message) -> bool {
    matches!(read_handoff(message), Ok(Some(transfer::HandoffMessage::Create { hold: true, .. })))
}

/// The retry key of a message that hands a task over, if it has a transfer id.
pub(crate) fn retry_key(incoming: &transfer::HandoffMessage) -> Option<String> {
    match incoming {
        transfer::HandoffMessage::Create { context, .. } if !context.transfer_id.is_empty() => {
            Some(format!("handoff:{}", context.transfer_id))
        }
        _ => None,
    }
}

/// The origin of a handed-over task, for its metadata.
pub(crate) fn provenance(message: &Message) -> Option<Object> {
    let context = transfer_context_of(message)?;
    let from = serde_json::json!({
        "agent": context.originating_agent,
        "task_id": context.originating_task_id,
        "transfer_id": context.transfer_id,
    });
    Some(with_member(None, HANDOFF, serde_json::json!({ "transferred_from": from })))
}

/// Waits until the task is activated; false if the hold expires first.
pub(crate) async fn wait_for_release(gate: Arc<AtomicBool>, mut expiry: BoxFuture<'static, ()>) -> bool {
    // No waker is needed: the runner polls the turn right after it has set the flag.
    poll_fn(|cx| {
        if gate.load(Ordering::Acquire) {
            return Poll::Ready(true);
        }
        expiry.as_mut().poll(cx).map(|()| false)
    })
    .await
}

/// The time left before the hold expires.
pub(crate) fn hold_time_left(info: &TurnInfo) -> Duration {
    let opened = info.task.stamp().time().millis();
    let held = info.core.host.now().millis().saturating_sub(opened);
    info.core.limits.hold_time_max.saturating_sub(Duration::from_millis(u64::try_from(held).unwrap_or(0)))
}

impl Core {
    /// The earliest handoff of ours that may still wait for its activation on the other server.
    pub(crate) fn handoffs_since(&self) -> Stamp {
        let held = i64::try_from(self.limits.hold_time_max.as_millis()).unwrap_or(i64::MAX);
        // Other servers may hold longer than we do.
        let since = self.host.now().millis().saturating_sub(held.saturating_mul(4));
        Stamp::first_of(Timestamp::from_millis(since.max(0)))
    }
}

impl Engine {
    /// The owner of a task, for code that forwards it.
    pub async fn owner_of(&self, task: TaskId) -> Result<Arc<Scope>, Fault> {
        let owner = self.core.log.owner(task).await;
        let owner = owner.map_err(|error| self.core.store_fault("looking for a task's caller", &error))?;
        owner.ok_or_else(|| Fault::TaskNotFound(task.into()))
    }

    /// Gives a handed-over task to the caller that presents its claim. A claim that does not fit is no error: other
    /// callers must not learn that the task exists. An anonymous caller gets nothing, since all anonymous callers would
    /// own the task.
    pub async fn claim_task(&self, scope: &Arc<Scope>, task: &TaskRef, claim: &HandoffClaim) -> Result<(), Fault> {
        let &TaskRef::Id(id) = task else { return Ok(()) };
        let read = |error| self.core.store_fault("looking whose a task is", &error);
        let Some(owner) = self.core.log.owner(id).await.map_err(read)? else { return Ok(()) };
        if owner.tenant != scope.tenant || owner.agent != scope.agent || scope.caller == Caller::anonymous() {
            return Ok(());
        }
        let Some(stored) = self.core.log.load(id).await.map_err(read)? else { return Ok(()) };
        let digest = opening_message(&stored).and_then(|message| transfer_context_of(&message)?.claim_digest);
        if stored.is_claimed || stored.is_child || !digest.is_some_and(|digest| claim.matches_digest(&digest)) {
            return Ok(());
        }
        match self.core.log.append(Step::effects_only(id, vec![Effect::Claim(scope.clone())])).await {
            Ok(()) => {
                tracing::info!(task = %id, "a task that was handed over has gone to whom it is for");
                if owner != *scope {
                    self.core.live.join(id).mark_owner_changed();
                }
                // The caller has the claim only after the sender has let go. The sender does not own the task any more,
                // so it cannot activate it.
                self.release_held(&stored);
                Ok(())
            }
            // Another caller has claimed it before.
            Err(AppendError::Stale) => Ok(()),
            Err(error) => Err(self.core.append_fault("giving a task to whom it is for", &error)),
        }
    }

    /// Activates a held task because its owner asks for it: the sender told the owner of the task only after it had let
    /// go.
    pub(crate) fn release_held(&self, stored: &StoredTask) {
        let opening = stored.tail.first().map(|event| &event.json[..]).unwrap_or_default();
        let may_be = stored.state == TaskState::Submitted && String::from_utf8_lossy(opening).contains(HANDOFF);
        if may_be && opening_message(stored).is_some_and(|message| is_held(&message)) {
            self.core.live.join(stored.id).send_command(RunnerCommand::Activate);
        }
    }
}

impl IncomingMessage<'_> {
    /// Activates a held task; a repeat succeeds as well.
    pub(crate) async fn activate(&self, order: &transfer::HandoffActivation) -> Result<SendOutcome, Fault> {
        let named = self.request.message.task_id.as_ref();
        let named = named.ok_or_else(|| Fault::invalid("message.taskId", "says which task is activated"))?;
        let engine = Engine { core: self.core.clone() };
        let id = engine.find(&self.scope, named).await?.id;
        loop {
            let stored = engine.load_owned(&self.scope, id).await?;
            self.check_transfer(&stored, order, id)?;
            if stored.state != TaskState::Submitted {
                return Ok(SendOutcome::Repeat { id, awaited_mark: None });
            }
            let mut live = self.core.live.join(id);
            if !live.is_running() {
                return Err(Fault::Unavailable("the task is not being looked after at the moment; try again".into()));
            }
            live.send_command(RunnerCommand::Activate);
            live.wait_moved_or_released(stored.head).await?;
        }
    }

    fn check_transfer(
        &self,
        stored: &StoredTask,
        order: &transfer::HandoffActivation,
        id: TaskId,
    ) -> Result<(), Fault> {
        let came = opening_message(stored).and_then(|message| transfer_context_of(&message));
        match came {
            Some(context) if context.transfer_id == order.transfer_id => Ok(()),
            _ => {
                let words = format!("task {id} was not handed over by this transfer");
                Err(Fault::invalid("message.metadata.transfer_id", words))
            }
        }
    }
}

/// The transfer context in the message that handed a task over.
pub(crate) fn transfer_context_of(message: &Message) -> Option<TransferContext> {
    match read_handoff(message) {
        Ok(Some(transfer::HandoffMessage::Create { context, .. })) => Some(*context),
        _ => None,
    }
}

/// The message that opened a task.
fn opening_message(stored: &StoredTask) -> Option<Message> {
    machine::thaw(stored)?.history.into_iter().find(|message| message.role == Role::User)
}
