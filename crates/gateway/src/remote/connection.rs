//! A connection to an agent elsewhere, behind its breakers: every call passes them, and reports its result to them.

use super::replica::{BulkheadPermit, Replica};
use crate::circuit::CallPermit;
use crate::exchange_log::UpstreamExchange;
use sabir_client::redact::{self, Redact};
use sabir_client::{Agent, AgentResponse, Error, FollowOptions, TaskEvents};
use sabir_proto::transfer::HandoffClaim;
use sabir_proto::{
    CancelTask, ContextId, FaultCode, ListTasks, MessageId, SendMessage, TaskRef, WireEvent, WireReply, WireTask,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long an open stream may be silent before it counts as an answer all the same.
const FIRST_EVENT_TIME_MAX: Duration = Duration::from_secs(10);

/// How many of their tasks are looked through for our message.
const TASKS_SEARCHED_MAX: usize = 20;

/// Calls one replica of an agent.
pub(super) struct ReplicaConnection {
    agent: Agent,
    replica: Arc<Replica>,
}

impl ReplicaConnection {
    pub(super) const fn new(agent: Agent, replica: Arc<Replica>) -> Self {
        Self { agent, replica }
    }

    /// The client for the agent, with its card.
    pub(super) const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Whether a message with an unknown result may be sent there again.
    pub(super) fn is_idempotent(&self) -> bool {
        self.replica.idempotent || self.agent.has_retry_keys()
    }

    pub(super) async fn send(&self, request: SendMessage) -> Result<WireReply, Error> {
        self.call(self.agent.send(request)).await
    }

    pub(super) async fn task(&self, id: &TaskRef) -> Result<WireTask, Error> {
        self.call(self.agent.task(id)).await
    }

    /// Reads a task, with a claim that shows that it was handed over to us.
    pub(super) async fn task_with_claim(&self, id: &TaskRef, claim: Option<&HandoffClaim>) -> Result<WireTask, Error> {
        let Some(claim) = claim else { return self.task(id).await };
        let agent = self.agent.with_claim(claim)?;
        self.call(agent.task(id)).await
    }

    pub(super) async fn list(&self, request: ListTasks) -> Result<WireReply, Error> {
        self.call(self.agent.list(request)).await
    }

    /// Looks in a conversation for the task that has heard a message. That there is none proves nothing: agents answer without
    /// a task, name their task late, or keep no history.
    pub(super) async fn task_with_message(
        &self,
        conversation: ContextId,
        message: &MessageId,
    ) -> Result<Option<WireTask>, Error> {
        let heard = |task: &WireTask| task.history.iter().any(|one| one.message_id == *message);
        let listing = ListTasks { context_id: Some(conversation), history_length: Some(100), ..ListTasks::default() };
        let tasks = match self.list(listing).await {
            Ok(WireReply::Tasks { tasks, .. }) => tasks,
            Err(error) if error.is_transient() => return Err(error),
            Ok(_) | Err(_) => return Ok(None),
        };
        for task in tasks.into_iter().take(TASKS_SEARCHED_MAX) {
            if heard(&task) || task.history.is_empty() {
                let whole = self.task(&task.id).await?;
                if heard(&whole) {
                    return Ok(Some(whole));
                }
            }
        }
        Ok(None)
    }

    pub(super) async fn cancel(&self, request: CancelTask) -> Result<WireTask, Error> {
        let permit = self.replica.acquire_without_bulkhead()?;
        let answer = redacted(self.agent.cancel(request).await.map(|said| said.value));
        permit.report_result(answer.as_ref().err());
        answer.inspect_err(|error| self.note_error(error))
    }

    pub(super) async fn stream(&self, request: SendMessage, follow: FollowOptions) -> Result<RemoteEvents, Error> {
        self.open_stream(self.agent.stream(request, follow)).await
    }

    pub(super) async fn resume(
        &self,
        task: TaskRef,
        after: Option<String>,
        follow: FollowOptions,
    ) -> Result<RemoteEvents, Error> {
        self.open_stream(self.agent.resume(task, after, follow)).await
    }

    async fn call<T: Redact>(&self, call: impl Future<Output = Result<AgentResponse<T>, Error>>) -> Result<T, Error> {
        let (permit, _room) = self.replica.acquire()?;
        let (answer, heard) = self.replica.exchange_log.record(call).await;
        let answer = redacted(answer.map(|said| said.value));
        self.replica.report_result(permit, answer.as_ref().err());
        if let Some(heard) = heard {
            heard.finish(answer.as_ref().err().map(ToString::to_string));
        }
        answer.inspect_err(|error| self.note_error(error))
    }

    async fn open_stream(&self, call: impl Future<Output = Result<TaskEvents, Error>>) -> Result<RemoteEvents, Error> {
        let (permit, room) = self.replica.acquire()?;
        let (opened, heard) = self.replica.exchange_log.record(call).await;
        match opened.map_err(redact_error) {
            Ok(events) => Ok(RemoteEvents {
                events,
                permit: Some(permit),
                opened: Instant::now(),
                exchange: heard,
                _bulkhead_permit: room,
            }),
            Err(error) => {
                if let Some(heard) = heard {
                    heard.finish(Some(error.to_string()));
                }
                self.replica.report_result(permit, Some(&error));
                self.note_error(&error);
                Err(error)
            }
        }
    }

    /// Speaks 0.1 from now on, if the agent's card leaves that open.
    pub(super) fn switch_to_v01(&self) -> bool {
        self.agent.in_v01().is_some_and(|agent| {
            self.replica.switch_to_v01(agent);
            true
        })
    }

    /// Reacts to an error. An agent that no longer knows the version or the methods of its card has another card by
    /// now; one that cannot be reached may have another interface.
    fn note_error(&self, error: &Error) {
        if contradicts_card(error) {
            self.replica.mark_card_outdated();
        }
        if error.cannot_have_arrived() {
            self.replica.mark_interface_dead(self.agent.interface());
        }
    }
}

/// Removes our secrets from what the agent repeats: it goes to our caller and into the log.
fn redacted<T: Redact>(mut answer: Result<T, Error>) -> Result<T, Error> {
    answer.redact(redact::process_redactor());
    answer
}

fn redact_error(mut error: Error) -> Error {
    error.redact(redact::process_redactor());
    error
}

/// Whether the agent does not speak as its card says.
pub(super) fn contradicts_card(error: &Error) -> bool {
    match error {
        Error::Fault { fault, transport: Some(_), .. } => {
            matches!(
                fault.code(),
                FaultCode::VersionNotSupported | FaultCode::MethodNotFound | FaultCode::InvalidRequest
            )
        }
        _ => false,
    }
}

/// The events of a remote task.
pub(super) struct RemoteEvents {
    events: TaskEvents,
    /// The passage, until the first event: an open stream alone is not yet an answer.
    permit: Option<CallPermit>,
    opened: Instant,
    /// The exchange so far, where it is logged.
    exchange: Option<UpstreamExchange>,
    /// A stream counts as a call in progress for as long as it is open.
    _bulkhead_permit: BulkheadPermit,
}

impl RemoteEvents {
    pub(super) async fn next(&mut self) -> Result<Option<WireEvent>, Error> {
        let Some(mut heard) = self.exchange.take() else { return self.next_unlogged().await };
        let said = heard.record_more(self.next_unlogged()).await;
        match &said {
            Ok(Some(_)) => self.exchange = Some(heard),
            Ok(None) => heard.finish(None),
            Err(error) => heard.finish(Some(error.to_string())),
        }
        said
    }

    async fn next_unlogged(&mut self) -> Result<Option<WireEvent>, Error> {
        let mut next = std::pin::pin!(self.events.next());
        let said = match self.permit.take() {
            None => next.await,
            Some(passage) => match tokio::time::timeout_at(self.opened + FIRST_EVENT_TIME_MAX, &mut next).await {
                Ok(said) => {
                    passage.report_result(said.as_ref().and_then(|said| said.as_ref().err()));
                    said
                }
                Err(_) => {
                    passage.report_result(None);
                    next.await
                }
            },
        };
        redacted(said.map(|said| said.map(|said: AgentResponse<WireEvent>| said.value)).transpose())
    }

    /// Ends the stream: the turn needs no more of it.
    pub(super) fn close(mut self) {
        if let Some(heard) = self.exchange.take() {
            heard.finish(None);
        }
    }

    /// The number of the last event, if the agent gave it one.
    pub(super) fn last_event_id(&self) -> Option<&str> {
        self.events.number()
    }
}
