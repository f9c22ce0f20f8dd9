//! Direct replies of remote agents: the caller gets a message, and the log has a task that stands for it.
//!
//! A local agent that replies directly makes no task; see [`Ending::Reply`](crate::Ending::Reply). A remote agent has a
//! task here before it is asked, so that nothing is lost if something fails. That task completes with the reply and is
//! marked. By the mark a send knows to answer with the message, the first time and on every repeat.

use super::SendOutcome;
use crate::engine::{Engine, HostedAgent};
use sabir_proto::{Fault, FrozenTask, Message, SendMessage, SendReply, TaskState, View, direct_message};
use sabir_store::StoredTask;

/// Whether a sender may get a message instead of a task. Only from an agent that answers directly, in a dialect that
/// has direct replies, and not for a message to an existing task.
pub(super) fn accepts_direct_reply(to: &HostedAgent, request: &SendMessage) -> bool {
    let names_task = request.message.task_id.is_some() || request.alias.is_some();
    !request.wants_task && !names_task && to.agent.any_execution().answers_directly
}

/// The response to a send: the task, or the message that it stands for.
pub(super) fn to_sent(task: FrozenTask, view: View, takes_message: bool) -> SendReply {
    match takes_message.then(|| direct_message::message(&task)).flatten() {
        Some(message) => SendReply::Message(Box::new(message)),
        None => SendReply::Task(task, view),
    }
}

impl Engine {
    /// The direct reply for a stream, if its task stands for one. Waits for the agent's first report up to a limit: a
    /// stream that has shown a task can show no message.
    pub(super) async fn direct_reply(&self, begun: &SendOutcome) -> Result<Option<Message>, Fault> {
        match begun {
            SendOutcome::AtRest { task, .. } => Ok(direct_message::message(task)),
            SendOutcome::AtWork { id, from, .. } => {
                let over = self.core.host.sleep(self.core.limits.direct_reply_wait);
                let rest = self.core.live.join(*id).wait_for_first_report(*from, over).await?;
                Ok(rest.as_ref().and_then(direct_message::message))
            }
            SendOutcome::Reply(_) | SendOutcome::Repeat { .. } => Ok(None),
        }
    }

    /// The direct reply for a repeated send, if its task stands for one.
    pub(super) fn repeated_direct_reply(&self, stored: &StoredTask) -> Result<Option<Message>, Fault> {
        if stored.state != TaskState::Completed {
            return Ok(None);
        }
        Ok(direct_message::message(&self.fold(stored)?))
    }
}
