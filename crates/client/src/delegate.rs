//! Work passed on to another agent: its task is created, followed and mirrored, and cancelled when ours is.
//!
//! A delegation outlives its turns: when the other agent asks for something, the turn ends with the question, and the
//! answer is the next turn of the same task there. A turn gives its events one by one, so that whoever mirrors them can
//! commit each before taking the next.

use crate::agent::{Agent, send_message};
use crate::events::{Events, Follow};
use crate::wait::Outcome;
use crate::{Error, Said};
use sabir_proto::{CancelTask, Code, ContextId, Fault, Message, TaskRef, Tenant, TheirEvent};
use std::pin::pin;
use std::time::Duration;

/// How often a cancelled task is asked whether it has settled.
const SETTLING: Duration = Duration::from_millis(250);

/// A task of ours that another agent works on.
pub struct Delegation {
    agent: Agent,
    follow: Follow,
    cancel_grace: Duration,
    /// Theirs, while it is open.
    task: Option<TaskRef>,
    context: Option<ContextId>,
}

/// One exchange: from a message to what came of it.
///
/// A turn that is dropped half-way, as an engine does with an agent whose task is cancelled, sends a cancellation after
/// it, once and without waiting for the answer. A turn that failed does not: the other agent may well be at work.
pub struct Turn<'a> {
    delegation: &'a mut Delegation,
    events: Events,
    reply: Option<Message>,
    /// Cancelled, and until when its end is waited for.
    canceled: Option<tokio::time::Instant>,
    over: bool,
}

impl Delegation {
    /// Delegates to an agent.
    pub fn to(agent: Agent) -> Self {
        let cancel_grace = Duration::from_secs(10);
        Self { agent, follow: Follow::default(), cancel_grace, task: None, context: None }
    }

    /// Takes up a delegation that another process began.
    pub fn rejoin(agent: Agent, task: TaskRef, context: Option<ContextId>) -> Self {
        Self { task: Some(task), context, ..Self::to(agent) }
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

    /// Begins a turn: passes a message on, to the open task if there is one.
    pub async fn begin(&mut self, mut message: Message) -> Result<Turn<'_>, Error> {
        message.task_id.clone_from(&self.task);
        message.context_id.clone_from(&self.context);
        let events = self.agent.stream(send_message(message), self.follow).await?;
        Ok(Turn { delegation: self, events, reply: None, canceled: None, over: false })
    }

    /// Goes on with the open task without a message, after the event at which [`Turn::resume_point`] was.
    pub async fn resume(&mut self, after: Option<String>) -> Result<Turn<'_>, Error> {
        let Some(task) = self.task.clone() else {
            return Err(Error::Usage("there is no open task to go on with".into()));
        };
        let events = self.agent.resume(task, after, self.follow).await?;
        Ok(Turn { delegation: self, events, reply: None, canceled: None, over: false })
    }

    /// A whole turn at once: mirrors what they do until their task settles or asks for something. When `canceled` comes
    /// first, theirs is cancelled too; the outcome is the state it reached, which may be a completion that was faster.
    pub async fn turn(
        &mut self,
        message: Message,
        canceled: impl Future<Output = ()>,
        mut mirror: impl FnMut(&Said<TheirEvent>),
    ) -> Result<Outcome, Error> {
        let mut canceled = pin!(canceled);
        let mut stopped = false;
        let mut turn = self.begin(message).await?;
        loop {
            let next = tokio::select! {
                biased;
                () = &mut canceled, if !stopped => {
                    stopped = true;
                    turn.cancel().await?;
                    continue;
                }
                next = turn.next() => next,
            };
            match next.transpose()? {
                Some(said) => mirror(&said),
                None => return turn.outcome(),
            }
        }
    }
}

impl Turn<'_> {
    /// The next event; `None` when the turn is over.
    pub async fn next(&mut self) -> Option<Result<Said<TheirEvent>, Error>> {
        let next = match self.canceled {
            None => self.events.next().await,
            Some(until) => tokio::time::timeout_at(until, self.events.next()).await.unwrap_or_else(|_| {
                let reason = "the agent was asked to cancel and did not say how it ended".into();
                Some(Err(Error::StreamLost { task: self.delegation.task.clone(), reason }))
            }),
        };
        match &next {
            Some(Ok(said)) => {
                if let TheirEvent::Message(message) = &said.value {
                    self.reply = Some(message.clone());
                }
                self.remember();
                // Its name was not known when it was to be cancelled.
                let named_late = self.canceled.is_some() && !matches!(said.value, TheirEvent::Message(_));
                if named_late && let Err(error) = self.send_cancel().await {
                    self.over = true;
                    return Some(Err(error));
                }
            }
            // Neither an end nor a failure is a reason to cancel.
            Some(Err(_)) | None => self.over = true,
        }
        next
    }

    /// Cancels their task. How it ends is told by the events that follow, for as long as the delegation's grace.
    pub async fn cancel(&mut self) -> Result<(), Error> {
        if self.canceled.is_none() {
            self.canceled = Some(tokio::time::Instant::now() + self.delegation.cancel_grace);
            self.send_cancel().await?;
        }
        Ok(())
    }

    async fn send_cancel(&mut self) -> Result<(), Error> {
        if self.over {
            return Ok(());
        }
        let Some(id) = self.events.task().map(|t| t.id.clone()) else { return Ok(()) };
        self.over = true;
        match self.delegation.agent.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await {
            // It was done before we said so; the task tells how.
            Err(Error::Fault { fault, .. }) if fault.code() == Code::TaskNotCancelable => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // A question does not end what was cancelled, and a stream may keep quiet about it.
        self.events.wait_for_the_end(SETTLING);
        Ok(())
    }

    /// After which event to go on, where the agent numbers them.
    pub fn resume_point(&self) -> Option<&str> {
        self.events.resume_point()
    }

    /// What the turn came to, once it is over.
    pub fn outcome(mut self) -> Result<Outcome, Error> {
        self.over = true;
        match (self.events.task().cloned().and_then(Outcome::of), self.reply.take()) {
            (Some(outcome), _) => Ok(outcome),
            (None, Some(message)) => Ok(Outcome::Message(Box::new(message))),
            (None, None) => Err(Fault::InvalidAgentResponse("the stream said nothing".into()).into()),
        }
    }

    fn remember(&mut self) {
        let Some(task) = self.events.task() else { return };
        self.delegation.task = (!task.status.state.is_settled()).then(|| task.id.clone());
        if task.context_id.is_some() {
            self.delegation.context.clone_from(&task.context_id);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let open = self.events.task().filter(|t| !t.status.state.is_settled() && !t.status.state.is_interrupted());
        let (false, Some(task), Ok(runtime)) = (self.over, open, tokio::runtime::Handle::try_current()) else { return };
        let (agent, id) = (self.delegation.agent.clone(), task.id.clone());
        runtime.spawn(async move {
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            if let Err(error) = agent.cancel(request).await {
                tracing::warn!(%error, "a delegated task could not be cancelled");
            }
        });
    }
}
