//! Direct replies of agents elsewhere: the caller is answered with a message, and the log has a task that stands for it.
//!
//! An agent here that replies directly makes no task; see [`Ending::Reply`](crate::Ending::Reply). One elsewhere has a task
//! here before it is asked, so that nothing is lost whatever happens meanwhile. That task completes with the reply and is
//! marked, and from the mark a send knows to answer with the message: the first time, and whenever it is repeated.

use super::Begun;
use crate::engine::{Engine, Resident};
use sabir_proto::{Fault, FrozenTask, Message, SendMessage, Sent, TaskState, View, direct};
use sabir_store::Stored;

/// Whether a sender may be answered with a message instead of a task, by an agent that answers so: not in dialects that
/// have only tasks, nor where it goes on with a task that it knows.
pub(super) fn takes_message(to: &Resident, request: &SendMessage) -> bool {
    let names_task = request.message.task_id.is_some() || request.alias.is_some();
    !request.wants_task && !names_task && to.agent.any_nature().answers_directly
}

/// What a send ends in: the task, or the message that it stands for.
pub(super) fn sent(task: FrozenTask, view: View, takes_message: bool) -> Sent {
    match takes_message.then(|| direct::message(&task)).flatten() {
        Some(message) => Sent::Message(Box::new(message)),
        None => Sent::Task(task, view),
    }
}

impl Engine {
    /// The direct reply that a stream is to consist of, if the task that was begun stands for one. The agent is waited for
    /// a while: a stream that has shown a task can show no message.
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

    /// The direct reply to a send that is repeated, if its task stands for one.
    pub(super) fn direct_reply_again(&self, stored: &Stored) -> Result<Option<Message>, Fault> {
        if stored.state != TaskState::Completed {
            return Ok(None);
        }
        Ok(direct::message(&self.fold(stored)?))
    }
}
