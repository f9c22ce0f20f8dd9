//! Follows a task to its end, over connections that may break.
//!
//! A stream that ends before its task has settled or asks for something was cut off. The client reconnects: after the
//! last numbered event, where the agent numbers its events; otherwise by a new subscription, which begins with the
//! current task; and if that fails too, by polling. The events that an agent without numbers sent in between are lost,
//! but the task contains their result; the client invents no events.

use crate::agent::{Agent, another_task, is_unknown_to_it};
use crate::door::ANSWER_BYTES_MAX;
use crate::transport::{Line, Numbered, Opened};
use crate::wait::{Pace, Poll};
use crate::{Error, Note, Said, retry};
use sabir_proto::{Call, Code, Fault, SendMessage, TaskRef, TaskState, TheirEvent, TheirTask};
use sabir_wire::{Losses, v1};
use std::sync::Arc;
use std::time::Duration;

/// How a task is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// How often the task is polled where there is no stream.
    pub pace: Pace,
    /// The number of reconnects before the client changes to polling. Each new event resets the count.
    pub reconnects_max: u32,
    /// The pause before the first reconnect; it doubles each time.
    pub reconnect_pause: Duration,
    /// The longest pause before a reconnect.
    pub reconnect_pause_max: Duration,
    /// Whether to reconnect when a stream breaks. Otherwise the break is reported as an error.
    pub resume: bool,
    /// The state at which following ends.
    pub until: Until,
}

/// The state at which following ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// Until the task settles, or waits for input or authorization.
    #[default]
    Interrupted,
    /// Until the task settles. An agent that waits for an authorization may continue by itself.
    Settled,
}

impl Until {
    const fn is_reached(self, state: TaskState) -> bool {
        state.is_settled() || (matches!(self, Self::Interrupted) && state.is_interrupted())
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            reconnects_max: 6,
            reconnect_pause: Duration::from_millis(500),
            reconnect_pause_max: Duration::from_secs(8),
            resume: true,
            until: Until::default(),
        }
    }
}

/// The events of a task, in order, until following ends.
pub struct Events {
    agent: Agent,
    follow: Follow,
    source: Source,
    /// The id of the task, once it is known.
    id: Option<TaskRef>,
    /// Whether the task may be polled although no event has arrived. False when a message opened the stream, because
    /// the client does not know whether the message has arrived.
    known: bool,
    task: Option<TheirTask>,
    /// The size of the artifacts in `task`, in bytes. Beyond a limit the client drops them; the agent still has them.
    weight: usize,
    /// The number of the last event that had one.
    last_id: Option<String>,
    /// The number of the last returned event, if it had one.
    told: Option<String>,
    /// The number of reconnects since the last new event.
    reconnects: u32,
    /// The JSON of the task at the last poll.
    asked: Option<String>,
    /// The error that made the client poll; returned if polling fails too.
    failure: Option<Error>,
    /// The time at which the operation times out.
    deadline: Option<tokio::time::Instant>,
}

enum Source {
    Stream(Opened),
    Polling(Poll),
    Over,
}

impl Events {
    /// Sends a message and follows the task that it creates.
    pub(crate) async fn send(agent: Agent, mut request: SendMessage, follow: Follow) -> Result<Self, Error> {
        request.tenant = agent.tenant().clone();
        let (line, id) = (agent.line().clone(), request.message.task_id.clone());
        if agent.streams() {
            let call = agent.with_extensions(Call::Stream(Box::new(request)));
            let opened = match open(&line, &call).await {
                Err(error) => match agent.after(&error, false) {
                    None => return Err(error),
                    Some(v01) => match open(v01.line(), &call).await {
                        Err(again) if is_unknown_to_it(&again) => return Err(error),
                        opened => {
                            agent.stay_in(&v01);
                            opened?
                        }
                    },
                },
                Ok(opened) => opened,
            };
            return Ok(Self::new(agent, follow, Source::Stream(opened), id));
        }
        // Returning at once yields the id of the task before the wait.
        request.configuration.return_immediately = true;
        line.door.note(&Note::Polling { reason: "the agent does not stream" });
        let said = agent.send(request).await?;
        let event = match said.value.clone() {
            sabir_proto::Answer::SentTask(task) => TheirEvent::Task(*task),
            sabir_proto::Answer::SentMessage(message) => TheirEvent::Message(*message),
            _ => return Err(Error::local(Fault::InvalidAgentResponse("neither a task nor a message".into()))),
        };
        // `{"task": …}` is an event as well as the answer to a send.
        let said = said.map(|_| event);
        let opened = Opened::One(Some(Box::new(Numbered { id: None, said })));
        Ok(Self::new(agent, follow, Source::Stream(opened), id))
    }

    /// Follows an existing task, after an earlier event if one is given.
    pub(crate) async fn subscribe(
        agent: Agent,
        task: TaskRef,
        after: Option<String>,
        follow: Follow,
    ) -> Result<Self, Error> {
        let call = agent.subscription(task.clone());
        let line = agent.line().clone();
        let opened =
            retry::repeat(&line.door, line.attempts, retry::safety(&call), || line.open(&call, after.as_deref()))
                .await?;
        let events = Self::new(agent, follow, Source::Stream(opened), Some(task));
        Ok(Self { known: true, last_id: after, ..events })
    }

    fn new(agent: Agent, follow: Follow, source: Source, id: Option<TaskRef>) -> Self {
        let deadline = agent.line().door.timeouts().total.map(|total| tokio::time::Instant::now() + total);
        Self {
            agent,
            follow,
            source,
            id,
            known: false,
            task: None,
            weight: 0,
            last_id: None,
            told: None,
            reconnects: 0,
            asked: None,
            failure: None,
            deadline,
        }
    }

    /// The task as folded from the events so far. Artifacts are kept up to a limit; see [`Events::folded`].
    pub const fn task(&self) -> Option<&TheirTask> {
        self.task.as_ref()
    }

    /// Polls the task until it settles, whatever its agent asks on the way.
    pub(crate) fn wait_for_the_end(&mut self, first: Duration) {
        self.follow.until = Until::Settled;
        self.follow.pace.first = self.follow.pace.first.min(first);
        if let (Some(task), false) = (self.id.clone(), matches!(self.source, Source::Over)) {
            self.source = Source::Polling(Poll::at_once(task, self.follow.pace));
        }
    }

    /// The event after which [`Agent::resume`] can continue, where the agent numbers its events.
    pub fn resume_point(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The number of the event that [`next`](Self::next) returned last, if the agent gave it one.
    pub fn number(&self) -> Option<&str> {
        self.told.as_deref()
    }

    /// The next event. `None` after the last one: the event that settles the task, the question that ends the turn, or
    /// a direct reply.
    pub async fn next(&mut self) -> Option<Result<Said<TheirEvent>, Error>> {
        let Some(deadline) = self.deadline else { return self.advance().await };
        match tokio::time::timeout_at(deadline, self.advance()).await {
            Ok(next) => next,
            Err(_) => {
                self.source = Source::Over;
                let after = self.agent.line().door.timeouts().total.unwrap_or_default();
                Some(Err(Error::Timeout { what: "the operation", after }))
            }
        }
    }

    async fn advance(&mut self) -> Option<Result<Said<TheirEvent>, Error>> {
        loop {
            let step = match &mut self.source {
                Source::Over => return None,
                Source::Stream(opened) => {
                    let next = opened.next().await;
                    self.after_stream(next).await
                }
                Source::Polling(poll) => {
                    let found = poll.next(&self.agent).await;
                    self.after_poll(found)
                }
            };
            match step {
                Ok(Some(said)) => return Some(Ok(self.take(said))),
                Ok(None) => {}
                Err(error) => {
                    self.source = Source::Over;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Handles the result of a stream read: returns an event, or nothing yet, or a final error.
    async fn after_stream(&mut self, next: Result<Option<Numbered>, Error>) -> Result<Option<Said<TheirEvent>>, Error> {
        let next = next.and_then(|numbered| match numbered {
            Some(numbered) => self.ours(&numbered.said.value).map(|()| Some(numbered)),
            None => Ok(None),
        });
        let reason = match next {
            Ok(Some(numbered)) => {
                // A subscription always begins with a snapshot; one that equals the known task is not news.
                if self.is_news(&numbered.said.value) {
                    self.reconnects = 0;
                }
                self.told.clone_from(&numbered.id);
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
                self.ask(&reason);
                return Ok(None);
            }
            Err(other) => return Err(other),
        };
        if !self.known || !self.follow.resume {
            return Err(Error::StreamLost { task: self.id.clone(), reason });
        }
        self.take_up_again(reason).await
    }

    async fn take_up_again(&mut self, mut reason: String) -> Result<Option<Said<TheirEvent>>, Error> {
        let Some(task) = self.id.clone() else { return Err(Error::StreamLost { task: None, reason }) };
        let line = self.agent.line().clone();
        while self.agent.streams() && self.reconnects < self.follow.reconnects_max {
            self.reconnects += 1;
            line.door.note(&Note::Reconnecting { attempt: self.reconnects, reason: &reason });
            let pause = self.follow.reconnect_pause * 2_u32.saturating_pow(self.reconnects - 1);
            tokio::time::sleep(pause.min(self.follow.reconnect_pause_max)).await;
            match line.open(&self.agent.subscription(task.clone()), self.last_id.as_deref()).await {
                Ok(opened) => {
                    line.door.note(&Note::Reconnected { after: self.last_id.as_deref() });
                    self.source = Source::Stream(opened);
                    return Ok(None);
                }
                // The task has settled in the meantime, or the agent does not support subscriptions.
                Err(Error::Fault { fault, .. }) if fault.code() != Code::Unavailable => {
                    reason = fault.to_string();
                    break;
                }
                Err(error) if error.is_passing() => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        self.ask(&reason);
        Ok(None)
    }

    /// Polls the task from now on.
    fn ask(&mut self, reason: &str) {
        self.agent.line().door.note(&Note::Polling { reason });
        self.source = match self.id.clone() {
            Some(task) => Source::Polling(Poll::at_once(task, self.follow.pace)),
            None => Source::Over,
        };
    }

    fn after_poll(&mut self, found: Result<Said<TheirTask>, Error>) -> Result<Option<Said<TheirEvent>>, Error> {
        let said = found.map_err(|error| self.failure.take().unwrap_or(error))?;
        self.failure = None;
        if self.asked.as_deref() == Some(said.json()) {
            return Ok(None);
        }
        self.asked = Some(said.json().to_owned());
        self.told = None;
        // Wraps the task as the agent wrote it into an event.
        let json = format!(r#"{{"task":{}}}"#, said.json());
        Ok(Some(Said::new(TheirEvent::Task(said.value), json, Losses::new())))
    }

    /// Checks that an event is about our task; an event about another task must not change it.
    fn ours(&self, event: &TheirEvent) -> Result<(), Error> {
        match (&self.id, about(event)) {
            (Some(ours), Some(told)) if ours != told => Err(another_task(ours, told)),
            _ => Ok(()),
        }
    }

    fn is_news(&self, event: &TheirEvent) -> bool {
        match (event, &self.task) {
            (TheirEvent::Task(told), Some(known)) => told.status != known.status || told.artifacts != known.artifacts,
            _ => true,
        }
    }

    /// Folds an event into the task, and ends following after the last one.
    fn take(&mut self, said: Said<TheirEvent>) -> Said<TheirEvent> {
        let first = self.task.is_none();
        self.fold(&said);
        if let (true, Some(task)) = (first, &self.task) {
            self.agent.known(task);
        }
        let over = match &said.value {
            // A message beside a task does not end it; agents of 0.3 send such messages.
            TheirEvent::Message(_) => self.task.is_none(),
            event => event.state().is_some_and(|state| self.follow.until.is_reached(state)),
        };
        if over {
            self.source = Source::Over;
        } else if matches!(&self.source, Source::Stream(Opened::One(None)))
            && let Some(task) = &self.task
        {
            // The answer was a single task that has not settled: poll for the rest.
            self.asked = None;
            self.source = Source::Polling(Poll::after_a_pause(task.id.clone(), self.follow.pace));
        }
        said
    }

    fn fold(&mut self, said: &Said<TheirEvent>) {
        if let Some(id) = about(&said.value).filter(|_| !matches!(said.value, TheirEvent::Message(_))) {
            (self.id, self.known) = (Some(id.clone()), true);
        }
        match &said.value {
            TheirEvent::Task(_) => self.weight = said.len(),
            TheirEvent::ArtifactUpdate(_) => self.weight = self.weight.saturating_add(said.len()),
            TheirEvent::StatusUpdate(_) | TheirEvent::Message(_) => {}
        }
        let too_heavy = self.weight > ANSWER_BYTES_MAX;
        match (&mut self.task, &said.value) {
            (Some(_), TheirEvent::ArtifactUpdate(_)) if too_heavy => {}
            (Some(task), event) => task.apply(event.clone(), None),
            (None, TheirEvent::Task(task)) => self.task = Some(task.clone()),
            (None, TheirEvent::StatusUpdate(update)) => {
                self.task = Some(blank(update.task_id.clone(), update.context_id.clone(), update.status.clone()));
            }
            (None, TheirEvent::ArtifactUpdate(update)) => {
                let status = sabir_proto::TaskStatus { state: TaskState::Working, message: None, timestamp: None };
                let mut task = blank(update.task_id.clone(), update.context_id.clone(), status);
                task.apply(said.value.clone(), None);
                self.task = Some(task);
            }
            (None, TheirEvent::Message(_)) => {}
        }
        if let (true, Some(task)) = (too_heavy, &mut self.task) {
            task.artifacts = Vec::new();
        }
    }

    /// The task as folded from the events, with its JSON. `None` if there is none, or if its artifacts exceeded the
    /// limit.
    pub fn folded(&self) -> Option<Said<TheirTask>> {
        let task = self.task.clone().filter(|_| self.weight <= ANSWER_BYTES_MAX)?;
        let mut out = Vec::new();
        v1::json::write_answer(&sabir_proto::Answer::Task(Box::new(task.clone())), &mut out);
        Some(Said::new(task, String::from_utf8_lossy(&out).into_owned(), Losses::new()))
    }
}

/// Opens the stream of a message, with retries.
async fn open(line: &Arc<Line>, call: &Call) -> Result<Opened, Error> {
    retry::repeat(&line.door, line.attempts, retry::safety(call), || line.open(call, None)).await
}

/// The id of the task that an event is about.
fn about(event: &TheirEvent) -> Option<&TaskRef> {
    match event {
        TheirEvent::Task(task) => Some(&task.id),
        TheirEvent::StatusUpdate(update) => Some(&update.task_id),
        TheirEvent::ArtifactUpdate(update) => Some(&update.task_id),
        TheirEvent::Message(message) => message.task_id.as_ref(),
    }
}

fn blank(id: TaskRef, context_id: Option<sabir_proto::ContextId>, status: sabir_proto::TaskStatus) -> TheirTask {
    TheirTask { id, context_id, status, metadata: None, history: Vec::new(), artifacts: Vec::new() }
}
