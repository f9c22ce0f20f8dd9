//! Following a task to its end, over connections that break.
//!
//! A stream that ends before its task has settled or asks for something was cut off. It is taken up again: after the
//! last event that had a number, where the agent numbers its events; otherwise by a new subscription, which begins with
//! the task as it stands; and if that does not work either, by asking now and then. What an agent without numbers said
//! in between is then known from the task, not from events, and nothing is invented in its place.

use crate::agent::Agent;
use crate::transport::{Numbered, Opened};
use crate::wait::Pace;
use crate::{Error, Note, Said, retry};
use sabir_proto::{Call, Code, Fault, SendMessage, TaskRef, TaskState, TheirEvent, TheirTask};
use sabir_wire::{Losses, v1};
use std::time::Duration;

/// How a task is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// How often to ask where there is no stream.
    pub pace: Pace,
    /// How often a broken stream is taken up again before we go over to asking. Every event resets the count.
    pub reconnects_max: u32,
    /// The pause before the first time; it doubles from there.
    pub reconnect_pause: Duration,
    /// The longest such pause.
    pub reconnect_pause_max: Duration,
    /// Whether to go on when a stream breaks. Otherwise its end is told as an error.
    pub resume: bool,
}

impl Default for Follow {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            reconnects_max: 6,
            reconnect_pause: Duration::from_millis(500),
            reconnect_pause_max: Duration::from_secs(8),
            resume: true,
        }
    }
}

/// The events of a task, in order, until it settles or waits for somebody.
pub struct Events {
    agent: Agent,
    follow: Follow,
    source: Source,
    task: Option<TheirTask>,
    /// The number of the last event that had one.
    last_id: Option<String>,
    /// How often the stream was taken up again since the last event.
    reconnects: u32,
    /// What the task looked like when we last asked.
    asked: Option<String>,
    /// When the whole operation has taken long enough.
    deadline: Option<tokio::time::Instant>,
}

enum Source {
    Stream(Opened),
    Polling(crate::wait::Poll),
    Over,
}

impl Events {
    /// Sends a message and follows.
    pub(crate) async fn send(agent: Agent, mut request: SendMessage, follow: Follow) -> Result<Self, Error> {
        request.tenant = agent.tenant().clone();
        let line = agent.line.clone();
        if agent.streams() {
            let call = agent.with_extensions(Call::Stream(Box::new(request)));
            let opened = retry::repeat(&line.door, retry::safety(&call), || line.open(&call, None)).await?;
            return Ok(Self::new(agent, follow, Source::Stream(opened)));
        }
        // The name of the task is worth knowing before the wait.
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
        Ok(Self::new(agent, follow, Source::Stream(opened)))
    }

    /// Follows a task that exists.
    pub(crate) async fn subscribe(agent: Agent, task: TaskRef, follow: Follow) -> Result<Self, Error> {
        let call = agent.subscription(task);
        let line = agent.line.clone();
        let opened = retry::repeat(&line.door, retry::safety(&call), || line.open(&call, None)).await?;
        Ok(Self::new(agent, follow, Source::Stream(opened)))
    }

    fn new(agent: Agent, follow: Follow, source: Source) -> Self {
        let deadline = agent.line.door.timeouts().total.map(|total| tokio::time::Instant::now() + total);
        Self { agent, follow, source, task: None, last_id: None, reconnects: 0, asked: None, deadline }
    }

    /// The task as the events so far make it.
    pub fn task(&self) -> Option<&TheirTask> {
        self.task.as_ref()
    }

    /// The next event. `None` after the one that settles the task or asks for something, and after a direct reply.
    pub async fn next(&mut self) -> Option<Result<Said<TheirEvent>, Error>> {
        let Some(deadline) = self.deadline else { return self.advance().await };
        match tokio::time::timeout_at(deadline, self.advance()).await {
            Ok(next) => next,
            Err(_) => {
                self.source = Source::Over;
                let after = self.agent.line.door.timeouts().total.unwrap_or_default();
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

    /// What the stream gave: an event to tell, nothing yet, or a failure that cannot be mended.
    async fn after_stream(&mut self, next: Result<Option<Numbered>, Error>) -> Result<Option<Said<TheirEvent>>, Error> {
        let reason = match next {
            Ok(Some(numbered)) => {
                self.reconnects = 0;
                if numbered.id.is_some() {
                    self.last_id = numbered.id;
                }
                return Ok(Some(numbered.said));
            }
            Ok(None) => "the agent closed it before the task was done".to_owned(),
            Err(Error::StreamLost { reason, .. }) => reason,
            Err(other) => return Err(other),
        };
        let Some(task) = self.task.as_ref().map(|t| t.id.clone()) else {
            return Err(Error::StreamLost { task: None, reason });
        };
        if !self.follow.resume {
            return Err(Error::StreamLost { task: Some(task), reason });
        }
        self.take_up_again(task, &reason).await
    }

    async fn take_up_again(&mut self, task: TaskRef, reason: &str) -> Result<Option<Said<TheirEvent>>, Error> {
        let line = self.agent.line.clone();
        let mut reason = reason.to_owned();
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
                // Nothing to subscribe to: it settled in the meantime, or the agent cannot do this.
                Err(Error::Fault { fault, .. }) if fault.code() != Code::Unavailable => {
                    reason = fault.to_string();
                    break;
                }
                Err(error) if error.is_passing() => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
        line.door.note(&Note::Polling { reason: &reason });
        self.source = Source::Polling(crate::wait::Poll::at_once(task, self.follow.pace));
        Ok(None)
    }

    fn after_poll(&mut self, found: Result<Said<TheirTask>, Error>) -> Result<Option<Said<TheirEvent>>, Error> {
        let said = found?;
        if self.asked.as_deref() == Some(said.json()) {
            return Ok(None);
        }
        self.asked = Some(said.json().to_owned());
        // The task as it was written, wrapped as an event.
        let json = format!(r#"{{"task":{}}}"#, said.json());
        Ok(Some(Said::new(TheirEvent::Task(said.value), json, Losses::new())))
    }

    /// Folds an event into the task, and looks whether it is the last one.
    fn take(&mut self, said: Said<TheirEvent>) -> Said<TheirEvent> {
        let first = self.task.is_none();
        match (&mut self.task, &said.value) {
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
        if let (true, Some(task)) = (first, &self.task) {
            self.agent.known(task);
        }
        let over = match &said.value {
            TheirEvent::Message(_) => true,
            event => event.state().is_some_and(|state| state.is_settled() || state.is_interrupted()),
        };
        if over {
            self.source = Source::Over;
        } else if matches!(&self.source, Source::Stream(Opened::One(None)))
            && let Some(task) = &self.task
        {
            // The answer came in one piece and the task is not done: ask for the rest.
            self.asked = None;
            self.source = Source::Polling(crate::wait::Poll::after_a_pause(task.id.clone(), self.follow.pace));
        }
        said
    }

    /// The task as events made it, in JSON.
    pub fn folded(&self) -> Option<Said<TheirTask>> {
        let task = self.task.clone()?;
        let mut out = Vec::new();
        v1::json::write_answer(&sabir_proto::Answer::Task(Box::new(task.clone())), &mut out);
        Some(Said::new(task, String::from_utf8_lossy(&out).into_owned(), Losses::new()))
    }
}

fn blank(id: TaskRef, context_id: Option<sabir_proto::ContextId>, status: sabir_proto::TaskStatus) -> TheirTask {
    TheirTask { id, context_id, status, metadata: None, history: Vec::new(), artifacts: Vec::new() }
}
