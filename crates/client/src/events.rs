//! Follows a task to its end, over connections that may break.
//!
//! A stream that ends before its task has settled or asks for something was cut off. The client reconnects: after the
//! last numbered event, where the agent numbers its events; otherwise by a new subscription, which begins with the
//! current task; and if that fails too, by polling. The events that an agent without numbers sent in between are lost,
//! but the task contains their result; the client invents no events.

use crate::agent::{Agent, is_unknown_method, wrong_task_error};
use crate::http_client::ANSWER_BYTES_MAX;
use crate::polling::{PollSchedule, TaskPoller};
use crate::transport::{AgentTransport, EventStream, NumberedEvent};
use crate::{AgentResponse, Error, Observation, retry};
use futures_util::future::BoxFuture;
use sabir_proto::{Call, Fault, FaultCode, SendMessage, TaskRef, TaskState, WireEvent, WireTask};
use sabir_wire::{Losses, v1};
use std::sync::Arc;
use std::time::Duration;

/// How a task is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowOptions {
    /// How often the task is polled where there is no stream.
    pub schedule: PollSchedule,
    /// The number of reconnects before the client changes to polling. Each new event resets the count.
    pub reconnects_max: u32,
    /// The pause before the first reconnect; it doubles each time.
    pub reconnect_pause: Duration,
    /// The longest pause before a reconnect.
    pub reconnect_pause_max: Duration,
    /// Whether to reconnect when a stream breaks. Otherwise the break is reported as an error.
    pub resume: bool,
    /// The state at which following ends.
    pub until: FollowUntil,
}

/// The state at which following ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FollowUntil {
    /// Until the task settles, or waits for input or authorization.
    #[default]
    Interrupted,
    /// Until the task settles. An agent that waits for an authorization may continue by itself.
    Settled,
}

impl FollowUntil {
    const fn is_reached(self, state: TaskState) -> bool {
        state.is_settled() || (matches!(self, Self::Interrupted) && state.is_interrupted())
    }
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            schedule: PollSchedule::default(),
            reconnects_max: 6,
            reconnect_pause: Duration::from_millis(500),
            reconnect_pause_max: Duration::from_secs(8),
            resume: true,
            until: FollowUntil::default(),
        }
    }
}

impl Agent {
    /// Sends a message and follows its task. The client polls an agent that does not stream.
    pub fn stream(&self, request: SendMessage, follow: FollowOptions) -> BoxFuture<'static, Result<TaskEvents, Error>> {
        // Boxed, because a call is large.
        Box::pin(TaskEvents::send(self.clone(), request, follow))
    }

    /// Follows a task: by a stream where the agent has them, otherwise by polling.
    pub async fn subscribe(&self, task: TaskRef, follow: FollowOptions) -> Result<TaskEvents, Error> {
        self.resume(task, None, follow).await
    }

    /// Follows a task from where [`TaskEvents::resume_point`] was, perhaps in another process.
    pub async fn resume(
        &self,
        task: TaskRef,
        after: Option<String>,
        follow: FollowOptions,
    ) -> Result<TaskEvents, Error> {
        self.check_capabilities(&self.subscription(task.clone()))?;
        Box::pin(TaskEvents::subscribe(self.clone(), task, after, follow)).await
    }
}

/// The events of a task, in order, until following ends.
pub struct TaskEvents {
    agent: Agent,
    follow: FollowOptions,
    source: EventSource,
    /// The id of the task, once it is known.
    id: Option<TaskRef>,
    /// Whether the task may be polled although no event has arrived. False when a message opened the stream, because
    /// the client does not know whether the message has arrived.
    is_known: bool,
    task: Option<WireTask>,
    /// The size of the artifacts in `task`, in bytes. Beyond a limit the client drops them; the agent still has them.
    artifact_bytes: usize,
    /// The number of the last event that had one.
    last_id: Option<String>,
    /// The number of the last returned event, if it had one.
    last_number: Option<String>,
    /// The number of reconnects since the last new event.
    reconnects: u32,
    /// The JSON of the task at the last poll.
    last_polled: Option<String>,
    /// The error that made the client poll; returned if polling fails too.
    failure: Option<Error>,
    /// The time at which the operation times out.
    deadline: Option<tokio::time::Instant>,
}

enum EventSource {
    Stream(EventStream),
    Polling(TaskPoller),
    Ended,
}

impl TaskEvents {
    /// Sends a message and follows the task that it creates.
    pub(crate) async fn send(agent: Agent, mut request: SendMessage, follow: FollowOptions) -> Result<Self, Error> {
        request.tenant = agent.tenant().clone();
        let (line, id) = (agent.transport().clone(), request.message.task_id.clone());
        if agent.streams() {
            let call = agent.with_extensions(Call::Stream(Box::new(request)));
            let opened = match open_stream(&line, &call).await {
                Err(error) => match agent.v01_after_error(&error, false) {
                    None => return Err(error),
                    Some(v01) => match open_stream(v01.transport(), &call).await {
                        Err(again) if is_unknown_method(&again) => return Err(error),
                        opened => {
                            agent.switch_to(&v01);
                            opened?
                        }
                    },
                },
                Ok(opened) => opened,
            };
            return Ok(Self::new(agent, follow, EventSource::Stream(opened), id));
        }
        // Returning at once yields the id of the task before the wait.
        request.configuration.return_immediately = true;
        line.http_client.observe(&Observation::Polling { reason: "the agent does not stream" });
        let said = agent.send(request).await?;
        let event = match said.value.clone() {
            sabir_proto::WireReply::SentTask(task) => WireEvent::Task(*task),
            sabir_proto::WireReply::SentMessage(message) => WireEvent::Message(*message),
            _ => return Err(Error::local(Fault::InvalidAgentResponse("neither a task nor a message".into()))),
        };
        // `{"task": …}` is an event as well as the answer to a send.
        let said = said.map(|_| event);
        let opened = EventStream::Single(Some(Box::new(NumberedEvent { id: None, said })));
        Ok(Self::new(agent, follow, EventSource::Stream(opened), id))
    }

    /// Follows an existing task, after an earlier event if one is given.
    pub(crate) async fn subscribe(
        agent: Agent,
        task: TaskRef,
        after: Option<String>,
        follow: FollowOptions,
    ) -> Result<Self, Error> {
        let call = agent.subscription(task.clone());
        let line = agent.transport().clone();
        let opened = retry::with_retries(&line.http_client, line.attempts, retry::safety(&call), || {
            line.open_stream(&call, after.as_deref())
        })
        .await?;
        let events = Self::new(agent, follow, EventSource::Stream(opened), Some(task));
        Ok(Self { is_known: true, last_id: after, ..events })
    }

    fn new(agent: Agent, follow: FollowOptions, source: EventSource, id: Option<TaskRef>) -> Self {
        let deadline = agent.transport().http_client.timeouts().total.map(|total| tokio::time::Instant::now() + total);
        Self {
            agent,
            follow,
            source,
            id,
            is_known: false,
            task: None,
            artifact_bytes: 0,
            last_id: None,
            last_number: None,
            reconnects: 0,
            last_polled: None,
            failure: None,
            deadline,
        }
    }

    /// The task as folded from the events so far. Artifacts are kept up to a limit; see [`TaskEvents::folded_task`].
    pub const fn task(&self) -> Option<&WireTask> {
        self.task.as_ref()
    }

    /// Polls the task until it settles, whatever its agent asks on the way.
    pub(crate) fn poll_until_settled(&mut self, first: Duration) {
        self.follow.until = FollowUntil::Settled;
        self.follow.schedule.first = self.follow.schedule.first.min(first);
        if let (Some(task), false) = (self.id.clone(), matches!(self.source, EventSource::Ended)) {
            self.source = EventSource::Polling(TaskPoller::starting_now(task, self.follow.schedule));
        }
    }

    /// The event after which [`Agent::resume`] can continue, where the agent numbers its events.
    pub fn resume_point(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The number of the event that [`next`](Self::next) returned last, if the agent gave it one.
    pub fn number(&self) -> Option<&str> {
        self.last_number.as_deref()
    }

    /// The next event. `None` after the last one: the event that settles the task, the question that ends the turn, or
    /// a direct reply.
    pub async fn next(&mut self) -> Option<Result<AgentResponse<WireEvent>, Error>> {
        let Some(deadline) = self.deadline else { return self.advance().await };
        match tokio::time::timeout_at(deadline, self.advance()).await {
            Ok(next) => next,
            Err(_) => {
                self.source = EventSource::Ended;
                let after = self.agent.transport().http_client.timeouts().total.unwrap_or_default();
                Some(Err(Error::Timeout { what: "the operation", after }))
            }
        }
    }

    async fn advance(&mut self) -> Option<Result<AgentResponse<WireEvent>, Error>> {
        loop {
            let step = match &mut self.source {
                EventSource::Ended => return None,
                EventSource::Stream(opened) => {
                    let next = opened.next().await;
                    self.after_stream(next).await
                }
                EventSource::Polling(poll) => {
                    let found = poll.next(&self.agent).await;
                    self.after_poll(found)
                }
            };
            match step {
                Ok(Some(said)) => return Some(Ok(self.accept(said))),
                Ok(None) => {}
                Err(error) => {
                    self.source = EventSource::Ended;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Handles the result of a stream read: returns an event, or nothing yet, or a final error.
    async fn after_stream(
        &mut self,
        next: Result<Option<NumberedEvent>, Error>,
    ) -> Result<Option<AgentResponse<WireEvent>>, Error> {
        let next = next.and_then(|numbered| match numbered {
            Some(numbered) => self.check_task_id(&numbered.said.value).map(|()| Some(numbered)),
            None => Ok(None),
        });
        let reason = match next {
            Ok(Some(numbered)) => {
                // A subscription always begins with a snapshot; one that equals the known task is not news.
                if self.is_news(&numbered.said.value) {
                    self.reconnects = 0;
                }
                self.last_number.clone_from(&numbered.id);
                if numbered.id.is_some() {
                    self.last_id = numbered.id;
                }
                return Ok(Some(numbered.said));
            }
            Ok(None) => "the agent closed it before the task was done".to_owned(),
            Err(Error::StreamLost { reason, .. }) => reason,
            // The stream has failed, but the task may continue.
            Err(fault @ Error::Fault { .. }) if self.task.is_some() && self.follow.resume => {
                let reason = fault.to_string();
                self.failure = Some(fault);
                self.switch_to_polling(&reason);
                return Ok(None);
            }
            Err(other) => return Err(other),
        };
        if !self.is_known || !self.follow.resume {
            return Err(Error::StreamLost { task: self.id.clone(), reason });
        }
        self.reconnect(reason).await
    }

    async fn reconnect(&mut self, mut reason: String) -> Result<Option<AgentResponse<WireEvent>>, Error> {
        let Some(task) = self.id.clone() else { return Err(Error::StreamLost { task: None, reason }) };
        let line = self.agent.transport().clone();
        while self.agent.streams() && self.reconnects < self.follow.reconnects_max {
            self.reconnects += 1;
            line.http_client.observe(&Observation::Reconnecting { attempt: self.reconnects, reason: &reason });
            let pause = self.follow.reconnect_pause * 2_u32.saturating_pow(self.reconnects - 1);
            tokio::time::sleep(pause.min(self.follow.reconnect_pause_max)).await;
            match line.open_stream(&self.agent.subscription(task.clone()), self.last_id.as_deref()).await {
                Ok(opened) => {
                    line.http_client.observe(&Observation::Reconnected { after: self.last_id.as_deref() });
                    self.source = EventSource::Stream(opened);
                    return Ok(None);
                }
                // The task has settled in the meantime, or the agent does not support subscriptions.
                Err(Error::Fault { fault, .. }) if fault.code() != FaultCode::Unavailable => {
                    reason = fault.to_string();
                    break;
                }
                Err(error) if error.is_transient() => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        self.switch_to_polling(&reason);
        Ok(None)
    }

    /// Polls the task from now on.
    fn switch_to_polling(&mut self, reason: &str) {
        self.agent.transport().http_client.observe(&Observation::Polling { reason });
        self.source = match self.id.clone() {
            Some(task) => EventSource::Polling(TaskPoller::starting_now(task, self.follow.schedule)),
            None => EventSource::Ended,
        };
    }

    fn after_poll(
        &mut self,
        found: Result<AgentResponse<WireTask>, Error>,
    ) -> Result<Option<AgentResponse<WireEvent>>, Error> {
        let said = found.map_err(|error| self.failure.take().unwrap_or(error))?;
        self.failure = None;
        if self.last_polled.as_deref() == Some(said.json()) {
            return Ok(None);
        }
        self.last_polled = Some(said.json().to_owned());
        self.last_number = None;
        // Wraps the task as the agent wrote it into an event.
        let json = format!(r#"{{"task":{}}}"#, said.json());
        Ok(Some(AgentResponse::new(WireEvent::Task(said.value), json, Losses::new())))
    }

    /// Checks that an event is about our task; an event about another task must not change it.
    fn check_task_id(&self, event: &WireEvent) -> Result<(), Error> {
        match (&self.id, task_of_event(event)) {
            (Some(ours), Some(told)) if ours != told => Err(wrong_task_error(ours, told)),
            _ => Ok(()),
        }
    }

    fn is_news(&self, event: &WireEvent) -> bool {
        match (event, &self.task) {
            (WireEvent::Task(told), Some(known)) => told.status != known.status || told.artifacts != known.artifacts,
            _ => true,
        }
    }

    /// Folds an event into the task, and ends following after the last one.
    fn accept(&mut self, said: AgentResponse<WireEvent>) -> AgentResponse<WireEvent> {
        let first = self.task.is_none();
        self.fold(&said);
        if let (true, Some(task)) = (first, &self.task) {
            self.agent.observe_task(task);
        }
        let over = match &said.value {
            // A message beside a task does not end it; agents of 0.3 send such messages.
            WireEvent::Message(_) => self.task.is_none(),
            event => event.state().is_some_and(|state| self.follow.until.is_reached(state)),
        };
        if over {
            self.source = EventSource::Ended;
        } else if matches!(&self.source, EventSource::Stream(EventStream::Single(None)))
            && let Some(task) = &self.task
        {
            // The answer was a single task that has not settled: poll for the rest.
            self.last_polled = None;
            self.source = EventSource::Polling(TaskPoller::starting_after_pause(task.id.clone(), self.follow.schedule));
        }
        said
    }

    fn fold(&mut self, said: &AgentResponse<WireEvent>) {
        if let Some(id) = task_of_event(&said.value).filter(|_| !matches!(said.value, WireEvent::Message(_))) {
            (self.id, self.is_known) = (Some(id.clone()), true);
        }
        match &said.value {
            WireEvent::Task(_) => self.artifact_bytes = said.len(),
            WireEvent::ArtifactUpdate(_) => self.artifact_bytes = self.artifact_bytes.saturating_add(said.len()),
            WireEvent::StatusUpdate(_) | WireEvent::Message(_) => {}
        }
        let too_heavy = self.artifact_bytes > ANSWER_BYTES_MAX;
        match (&mut self.task, &said.value) {
            (Some(_), WireEvent::ArtifactUpdate(_)) if too_heavy => {}
            (Some(task), event) => task.apply(event.clone(), None),
            (None, WireEvent::Task(task)) => self.task = Some(task.clone()),
            (None, WireEvent::StatusUpdate(update)) => {
                self.task = Some(empty_task(update.task_id.clone(), update.context_id.clone(), update.status.clone()));
            }
            (None, WireEvent::ArtifactUpdate(update)) => {
                let status = sabir_proto::TaskStatus { state: TaskState::Working, message: None, timestamp: None };
                let mut task = empty_task(update.task_id.clone(), update.context_id.clone(), status);
                task.apply(said.value.clone(), None);
                self.task = Some(task);
            }
            (None, WireEvent::Message(_)) => {}
        }
        if let (true, Some(task)) = (too_heavy, &mut self.task) {
            task.artifacts = Vec::new();
        }
    }

    /// The task as folded from the events, with its JSON. `None` if there is none, or if its artifacts exceeded the
    /// limit.
    pub fn folded_task(&self) -> Option<AgentResponse<WireTask>> {
        let task = self.task.clone().filter(|_| self.artifact_bytes <= ANSWER_BYTES_MAX)?;
        let mut out = Vec::new();
        v1::json::write_answer(&sabir_proto::WireReply::Task(Box::new(task.clone())), &mut out);
        Some(AgentResponse::new(task, String::from_utf8_lossy(&out).into_owned(), Losses::new()))
    }
}

/// Opens the stream of a message, with retries.
async fn open_stream(line: &Arc<AgentTransport>, call: &Call) -> Result<EventStream, Error> {
    retry::with_retries(&line.http_client, line.attempts, retry::safety(call), || line.open_stream(call, None)).await
}

/// The id of the task that an event is about.
fn task_of_event(event: &WireEvent) -> Option<&TaskRef> {
    match event {
        WireEvent::Task(task) => Some(&task.id),
        WireEvent::StatusUpdate(update) => Some(&update.task_id),
        WireEvent::ArtifactUpdate(update) => Some(&update.task_id),
        WireEvent::Message(message) => message.task_id.as_ref(),
    }
}

fn empty_task(id: TaskRef, context_id: Option<sabir_proto::ContextId>, status: sabir_proto::TaskStatus) -> WireTask {
    WireTask { id, context_id, status, metadata: None, history: Vec::new(), artifacts: Vec::new() }
}
