//! Direct replies of remote agents: the caller gets a message, and the log has a task that stands for it.
//!
//! A local agent that replies directly makes no task; see [`Ending::Reply`](crate::Ending::Reply). A remote agent has a
//! task here before it is asked, so that nothing is lost if something fails. That task completes with the reply and is
//! marked. By the mark a send knows to answer with the message, the first time and on every repeat.

use super::Begun;
use crate::engine::{Engine, Resident};
use sabir_proto::{Fault, FrozenTask, Message, SendMessage, Sent, TaskState, View, direct};
use sabir_store::Stored;

/// Whether a sender may get a message instead of a task. Only from an agent that answers directly, in a dialect that
/// has direct replies, and not for a message to an existing task.
pub(super) fn takes_message(to: &Resident, request: &SendMessage) -> bool {
    let names_task = request.message.task_id.is_some() || request.alias.is_some();
    !request.wants_task && !names_task && to.agent.any_nature().answers_directly
}

/// The response to a send: the task, or the message that it stands for.
pub(super) fn sent(task: FrozenTask, view: View, takes_message: bool) -> Sent {
    match takes_message.then(|| direct::message(&task)).flatten() {
        Some(message) => Sent::Message(Box::new(message)),
        None => Sent::Task(task, view),
    }
}

impl Engine {
    /// The direct reply for a stream, if its task stands for one. Waits for the agent's first report up to a limit: a
    /// stream that has shown a task can show no message.
    pub(super) async fn direct_reply(&self, begun: &Begun) -> Result<Option<Message>, Fault> {
        match begun {
            Begun::Rested { task, .. } => Ok(direct::message(task)),
            Begun::Running { id, from, .. } => {
                let over = self.core.host.sleep(self.core.limits.direct_reply_wait);
                let rest = self.core.live.enter(*id).first_word(*from, over).await?;
                Ok(rest.as_ref().and_then(direct::message))
            }
            Begun::Reply(_) | Begun::Repeat { .. } => Ok(None),
        }
    }

    /// The direct reply for a repeated send, if its task stands for one.
    pub(super) fn direct_reply_again(&self, stored: &Stored) -> Result<Option<Message>, Fault> {
        if stored.state != TaskState::Completed {
            return Ok(None);
        }
        Ok(direct::message(&self.fold(stored)?))
    }
}
