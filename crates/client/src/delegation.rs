//! Delegates work to another agent: creates a task there, follows and mirrors it, and cancels it when ours is
//! cancelled.
//!
//! A delegation outlives its turns: when the other agent asks for something, the turn ends with the question, and the
//! answer is the next turn of the same task there. A turn returns its events one by one, so that the caller can commit
//! each before taking the next.

use crate::agent::{Agent, send_message};
use crate::events::{FollowOptions, TaskEvents};
use crate::polling::SendOutcome;
use crate::{AgentResponse, Error};
use sabir_proto::{CancelTask, ContextId, Fault, FaultCode, Message, TaskRef, Tenant, WireEvent};
use std::pin::pin;
use std::time::Duration;

/// How often a cancelled task is asked whether it has settled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A task of ours that another agent works on.
pub struct Delegation {
    agent: Agent,
    follow: FollowOptions,
    cancel_grace: Duration,
    /// The task at the other agent, while it is open.
    task: Option<TaskRef>,
    context: Option<ContextId>,
}

/// One exchange: from a message to its outcome.
///
/// A turn that is dropped before its end, as the engine does when an agent's task is cancelled, sends one cancellation
/// and does not wait for the answer. A turn that failed sends none: the other agent may still be at work.
pub struct DelegationTurn<'a> {
    delegation: &'a mut Delegation,
    events: TaskEvents,
    reply: Option<Message>,
    /// Set when the turn was cancelled: the time until which its end is awaited.
    canceled: Option<tokio::time::Instant>,
    is_over: bool,
}

impl Delegation {
    /// A delegation to an agent, without a task yet.
    pub fn to(agent: Agent) -> Self {
        let cancel_grace = Duration::from_secs(10);
        Self { agent, follow: FollowOptions::default(), cancel_grace, task: None, context: None }
    }

    /// Resumes a delegation that another process began.
    pub fn with_open_task(agent: Agent, task: TaskRef, context: Option<ContextId>) -> Self {
        Self { task: Some(task), context, ..Self::to(agent) }
    }

    /// Sets how the task at the other agent is followed.
    #[must_use]
    pub const fn with_follow(mut self, follow: FollowOptions) -> Self {
        self.follow = follow;
        self
    }

    /// Sets how long the task at the other agent may take to settle after it was cancelled.
    #[must_use]
    pub const fn with_cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// The task at the other agent, while it is open.
    pub const fn task(&self) -> Option<&TaskRef> {
        self.task.as_ref()
    }

    /// The context id at the other agent, once it is known.
    pub const fn context(&self) -> Option<&ContextId> {
        self.context.as_ref()
    }

    /// Begins a turn: sends a message to the other agent, to the open task if there is one.
    pub async fn begin(&mut self, mut message: Message) -> Result<DelegationTurn<'_>, Error> {
        message.task_id.clone_from(&self.task);
        message.context_id.clone_from(&self.context);
        let events = self.agent.stream(send_message(message), self.follow).await?;
        Ok(DelegationTurn { delegation: self, events, reply: None, canceled: None, is_over: false })
    }

    /// Continues the open task without a message, after the event at [`DelegationTurn::resume_point`].
    pub async fn resume(&mut self, after: Option<String>) -> Result<DelegationTurn<'_>, Error> {
        let Some(task) = self.task.clone() else {
            return Err(Error::Usage("there is no open task to go on with".into()));
        };
        let events = self.agent.resume(task, after, self.follow).await?;
        Ok(DelegationTurn { delegation: self, events, reply: None, canceled: None, is_over: false })
    }

    /// Runs a whole turn: mirrors the events of the task there until it settles or asks for something. When `canceled`
    /// completes first, that task is cancelled too; the outcome is the state it reached, which may be an earlier
    /// completion.
    pub async fn turn(
        &mut self,
        message: Message,
        canceled: impl Future<Output = ()>,
        mut mirror: impl FnMut(&AgentResponse<WireEvent>),
    ) -> Result<SendOutcome, Error> {
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

impl DelegationTurn<'_> {
    /// The next event; `None` when the turn is over.
    pub async fn next(&mut self) -> Option<Result<AgentResponse<WireEvent>, Error>> {
        let next = match self.canceled {
            None => self.events.next().await,
            Some(until) => tokio::time::timeout_at(until, self.events.next()).await.unwrap_or_else(|_| {
                let reason = "the agent was asked to cancel and did not say how it ended".into();
                Some(Err(Error::StreamLost { task: self.delegation.task.clone(), reason }))
            }),
        };
        match &next {
            Some(Ok(said)) => {
                if let WireEvent::Message(message) = &said.value {
                    self.reply = Some(message.clone());
                }
                self.update_delegation();
                // The task id was not known when the cancellation was requested.
                let named_late = self.canceled.is_some() && !matches!(said.value, WireEvent::Message(_));
                if named_late && let Err(error) = self.send_cancel().await {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
            // Neither an end nor a failure is a reason to cancel.
            Some(Err(_)) | None => self.is_over = true,
        }
        next
    }

    /// Cancels the task at the other agent. The events that follow tell how it ends, within the delegation's grace
    /// period.
    pub async fn cancel(&mut self) -> Result<(), Error> {
        if self.canceled.is_none() {
            self.canceled = Some(tokio::time::Instant::now() + self.delegation.cancel_grace);
            self.send_cancel().await?;
        }
        Ok(())
    }

    async fn send_cancel(&mut self) -> Result<(), Error> {
        if self.is_over {
            return Ok(());
        }
        let Some(id) = self.events.task().map(|t| t.id.clone()) else { return Ok(()) };
        self.is_over = true;
        match self.delegation.agent.cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }).await {
            // The task ended before the cancellation arrived; its state tells how.
            Err(Error::Fault { fault, .. }) if fault.code() == FaultCode::TaskNotCancelable => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // A question does not end a cancelled turn, and the stream may stay silent about it.
        self.events.poll_until_settled(CANCEL_POLL_INTERVAL);
        Ok(())
    }

    /// The event after which to resume, where the agent numbers its events.
    pub fn resume_point(&self) -> Option<&str> {
        self.events.resume_point()
    }

    /// The outcome of the turn, once it is over.
    pub fn outcome(mut self) -> Result<SendOutcome, Error> {
        self.is_over = true;
        match (self.events.task().cloned().and_then(SendOutcome::of), self.reply.take()) {
            (Some(outcome), _) => Ok(outcome),
            (None, Some(message)) => Ok(SendOutcome::Message(Box::new(message))),
            (None, None) => Err(Fault::InvalidAgentResponse("the stream said nothing".into()).into()),
        }
    }

    fn update_delegation(&mut self) {
        let Some(task) = self.events.task() else { return };
        self.delegation.task = (!task.status.state.is_settled()).then(|| task.id.clone());
        if task.context_id.is_some() {
            self.delegation.context.clone_from(&task.context_id);
        }
    }
}

impl Drop for DelegationTurn<'_> {
    fn drop(&mut self) {
        let open = self.events.task().filter(|t| !t.status.state.is_settled() && !t.status.state.is_interrupted());
        let (false, Some(task), Ok(runtime)) = (self.is_over, open, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (agent, id) = (self.delegation.agent.clone(), task.id.clone());
        runtime.spawn(async move {
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            if let Err(error) = agent.cancel(request).await {
                tracing::warn!(%error, "a delegated task could not be cancelled");
            }
        });
    }
}
