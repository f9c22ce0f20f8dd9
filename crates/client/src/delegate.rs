//! Work passed on to another agent: its task is created, followed and mirrored, and cancelled when ours is.
//!
//! A delegation outlives its turns: when the other agent asks for something, the turn ends with the question, and the
//! answer is the next turn of the same task there.

use crate::agent::{Agent, send_message};
use crate::events::{Events, Follow};
use crate::wait::{Outcome, Pace};
use crate::{Error, Said};
use sabir_proto::{CancelTask, Code, ContextId, Fault, Message, TaskRef, Tenant, TheirEvent, TheirTask};
use std::pin::pin;
use std::time::Duration;

/// A task of ours that another agent works on.
pub struct Delegation {
    agent: Agent,
    follow: Follow,
    cancel_grace: Duration,
    /// Theirs, while it is open.
    task: Option<TaskRef>,
    context: Option<ContextId>,
}

impl Delegation {
    /// Delegates to an agent.
    pub fn to(agent: Agent) -> Self {
        let cancel_grace = Duration::from_secs(10);
        Self { agent, follow: Follow::default(), cancel_grace, task: None, context: None }
    }

    /// How their task is followed.
    #[must_use]
    pub const fn following(mut self, follow: Follow) -> Self {
        self.follow = follow;
        self
    }

    /// How long their task may take to settle after we cancelled it.
    #[must_use]
    pub const fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// Their task, while it is open.
    pub const fn task(&self) -> Option<&TaskRef> {
        self.task.as_ref()
    }

    /// Their conversation.
    pub const fn context(&self) -> Option<&ContextId> {
        self.context.as_ref()
    }

    /// One turn: passes a message on and mirrors what they do, until their task settles or asks for something.
    ///
    /// When `canceled` comes first, their task is cancelled and given `cancel_grace` to settle; the outcome is the state
    /// it reached by then, which may be a completion that was faster. A turn that is dropped half-way, as an engine does
    /// with an agent whose task is cancelled, sends the cancellation after it, once and without waiting for the answer.
    pub async fn turn(
        &mut self,
        mut message: Message,
        canceled: impl Future<Output = ()>,
        mut mirror: impl FnMut(&Said<TheirEvent>),
    ) -> Result<Outcome, Error> {
        message.task_id.clone_from(&self.task);
        message.context_id.clone_from(&self.context);
        let mut canceled = pin!(canceled);
        let mut asked_to_stop = false;
        let mut events = self.agent.stream(send_message(message), self.follow).await?;
        let mut reply = None;
        let mut abandoned = Abandoned { agent: self.agent.clone(), task: self.task.clone() };
        loop {
            let next = tokio::select! {
                biased;
                () = &mut canceled, if !asked_to_stop => {
                    asked_to_stop = true;
                    match events.task().map(|t| t.id.clone()) {
                        Some(task) => {
                            abandoned.task = None;
                            return self.stop(task, &mut events).await;
                        }
                        // Created, but we do not know its name yet: the next event tells.
                        None => continue,
                    }
                }
                next = events.next() => next,
            };
            let Some(said) = next.transpose()? else { break };
            if let Some(task) = events.task() {
                self.remember(task);
                abandoned.task.clone_from(&self.task);
            }
            mirror(&said);
            if let TheirEvent::Message(message) = said.value {
                reply = Some(message);
            }
            if let (true, Some(task)) = (asked_to_stop, self.task.clone()) {
                abandoned.task = None;
                return self.stop(task, &mut events).await;
            }
        }
        // It settled, or it waits for us: neither is to be cancelled.
        abandoned.task = None;
        match (reply, events.task().cloned().and_then(Outcome::of)) {
            (_, Some(outcome)) => Ok(outcome),
            (Some(message), None) => Ok(Outcome::Message(Box::new(message))),
            (None, None) => Err(Fault::InvalidAgentResponse("the stream said nothing".into()).into()),
        }
    }

    fn remember(&mut self, task: &TheirTask) {
        self.task = (!task.status.state.is_settled()).then(|| task.id.clone());
        if task.context_id.is_some() {
            self.context.clone_from(&task.context_id);
        }
    }

    /// Cancels their task and waits for its last word.
    async fn stop(&mut self, task: TaskRef, events: &mut Events) -> Result<Outcome, Error> {
        let request = CancelTask { tenant: Tenant::none(), id: task.clone(), metadata: None };
        let answer = match self.agent.cancel(request).await {
            Ok(said) => Some(said.value),
            // It was done before we said so.
            Err(Error::Fault { fault, .. }) if fault.code() == Code::TaskNotCancelable => None,
            Err(error) => return Err(error),
        };
        if let Some(outcome) = answer.filter(|t| t.status.state.is_settled()).and_then(Outcome::of) {
            self.task = None;
            return Ok(outcome);
        }
        let pace = Pace { first: Duration::from_millis(250), ..self.follow.pace };
        let settled = async {
            loop {
                let said = self.agent.wait(task.clone(), pace).await?;
                // An interrupted task that we cancelled may yet settle.
                if said.value.status.state.is_settled() {
                    return Ok::<_, Error>(said.value);
                }
                tokio::time::sleep(pace.first).await;
            }
        };
        match tokio::time::timeout(self.cancel_grace, settled).await {
            Ok(task) => {
                let task = task?;
                self.remember(&task);
                Outcome::of(task).ok_or_else(|| Fault::InvalidAgentResponse("not settled".into()).into())
            }
            Err(_) => Err(Error::StreamLost {
                task: events.task().map(|t| t.id.clone()),
                reason: "the agent was asked to cancel and did not say how it ended".into(),
            }),
        }
    }
}

/// Their task while a turn is under way. Dropped with a task inside, the turn was abandoned and so is the task.
struct Abandoned {
    agent: Agent,
    task: Option<TaskRef>,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.task.take(), tokio::runtime::Handle::try_current()) else { return };
        let agent = self.agent.clone();
        runtime.spawn(async move {
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            if let Err(error) = agent.cancel(request).await {
                tracing::warn!(%error, "a delegated task could not be cancelled");
            }
        });
    }
}
