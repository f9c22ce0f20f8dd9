//! A connection to an agent elsewhere, behind its breakers: every call passes them, and reports its result to them.

use super::replica::{Replica, Room};
use crate::circuit::Passage;
use crate::wire::Heard;
use sabir_client::redact::{self, Redact};
use sabir_client::{Agent, Error, Events, Follow, Said};
use sabir_proto::transfer::Claim;
use sabir_proto::{Answer, CancelTask, Code, ListTasks, SendMessage, TaskRef, TheirEvent, TheirTask};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long an open stream may be silent before it counts as an answer all the same.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Calls one replica of an agent.
pub(super) struct Line {
    agent: Agent,
    replica: Arc<Replica>,
}

impl Line {
    pub(super) const fn new(agent: Agent, replica: Arc<Replica>) -> Self {
        Self { agent, replica }
    }

    /// The client for the agent, with its card.
    pub(super) const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Whether a message with an unknown result may be sent there again.
    pub(super) fn is_idempotent(&self) -> bool {
        self.replica.idempotent || self.agent.recognises_repeats()
    }

    pub(super) async fn send(&self, request: SendMessage) -> Result<Answer, Error> {
        self.through(self.agent.send(request)).await
    }

    pub(super) async fn task(&self, id: &TaskRef) -> Result<TheirTask, Error> {
        self.through(self.agent.task(id)).await
    }

    /// Reads a task, with a claim that shows that it was handed over to us.
    pub(super) async fn claimed(&self, id: &TaskRef, claim: Option<&Claim>) -> Result<TheirTask, Error> {
        let Some(claim) = claim else { return self.task(id).await };
        let agent = self.agent.claiming(claim)?;
        self.through(agent.task(id)).await
    }

    pub(super) async fn list(&self, request: ListTasks) -> Result<Answer, Error> {
        self.through(self.agent.list(request)).await
    }

    pub(super) async fn cancel(&self, request: CancelTask) -> Result<TheirTask, Error> {
        let passage = self.replica.pass_by()?;
        let answer = redacted(self.agent.cancel(request).await.map(|said| said.value));
        passage.judge(answer.as_ref().err());
        answer.inspect_err(|error| self.doubt(error))
    }

    pub(super) async fn stream(&self, request: SendMessage, follow: Follow) -> Result<Stream, Error> {
        self.open(self.agent.stream(request, follow)).await
    }

    pub(super) async fn resume(&self, task: TaskRef, after: Option<String>, follow: Follow) -> Result<Stream, Error> {
        self.open(self.agent.resume(task, after, follow)).await
    }

    async fn through<T: Redact>(&self, call: impl Future<Output = Result<Said<T>, Error>>) -> Result<T, Error> {
        let (passage, _room) = self.replica.pass()?;
        let (answer, heard) = self.replica.wire.listen(call).await;
        let answer = redacted(answer.map(|said| said.value));
        self.replica.judge(passage, answer.as_ref().err());
        if let Some(heard) = heard {
            heard.end(answer.as_ref().err().map(ToString::to_string));
        }
        answer.inspect_err(|error| self.doubt(error))
    }

    async fn open(&self, call: impl Future<Output = Result<Events, Error>>) -> Result<Stream, Error> {
        let (passage, room) = self.replica.pass()?;
        let (opened, heard) = self.replica.wire.listen(call).await;
        match opened.map_err(clean) {
            Ok(events) => Ok(Stream { events, passage: Some(passage), opened: Instant::now(), heard, _room: room }),
            Err(error) => {
                if let Some(heard) = heard {
                    heard.end(Some(error.to_string()));
                }
                self.replica.judge(passage, Some(&error));
                self.doubt(&error);
                Err(error)
            }
        }
    }

    /// Speaks 0.1 from now on, if the agent's card leaves that open.
    pub(super) fn try_the_first_version(&self) -> bool {
        self.agent.in_the_first_version().is_some_and(|agent| {
            self.replica.speak_the_first_version(agent);
            true
        })
    }

    /// Reacts to an error. An agent that no longer knows the version or the methods of its card has another card by
    /// now; one that cannot be reached may have another interface.
    fn doubt(&self, error: &Error) {
        if has_changed(error) {
            self.replica.doubt();
        }
        if error.cannot_have_arrived() {
            self.replica.lose(self.agent.interface());
        }
    }
}

/// Removes our secrets from what the agent repeats: it goes to our caller and into the log.
fn redacted<T: Redact>(mut answer: Result<T, Error>) -> Result<T, Error> {
    answer.redact(redact::process());
    answer
}

fn clean(mut error: Error) -> Error {
    error.redact(redact::process());
    error
}

/// Whether the agent does not speak as its card says.
pub(super) fn has_changed(error: &Error) -> bool {
    match error {
        Error::Fault { fault, transport: Some(_), .. } => {
            matches!(fault.code(), Code::VersionNotSupported | Code::MethodNotFound | Code::InvalidRequest)
        }
        _ => false,
    }
}

/// The events of a remote task.
pub(super) struct Stream {
    events: Events,
    /// The passage, until the first event: an open stream alone is not yet an answer.
    passage: Option<Passage>,
    opened: Instant,
    /// The exchange so far, where it is logged.
    heard: Option<Heard>,
    /// A stream counts as a call in progress for as long as it is open.
    _room: Room,
}

impl Stream {
    pub(super) async fn next(&mut self) -> Result<Option<TheirEvent>, Error> {
        let Some(mut heard) = self.heard.take() else { return self.said().await };
        let said = heard.listen(self.said()).await;
        match &said {
            Ok(Some(_)) => self.heard = Some(heard),
            Ok(None) => heard.end(None),
            Err(error) => heard.end(Some(error.to_string())),
        }
        said
    }

    async fn said(&mut self) -> Result<Option<TheirEvent>, Error> {
        let mut next = std::pin::pin!(self.events.next());
        let said = match self.passage.take() {
            None => next.await,
            Some(passage) => match tokio::time::timeout_at(self.opened + FIRST_WORD, &mut next).await {
                Ok(said) => {
                    passage.judge(said.as_ref().and_then(|said| said.as_ref().err()));
                    said
                }
                Err(_) => {
                    passage.judge(None);
                    next.await
                }
            },
        };
        redacted(said.map(|said| said.map(|said: Said<TheirEvent>| said.value)).transpose())
    }

    /// Ends the stream: the turn needs no more of it.
    pub(super) fn close(mut self) {
        if let Some(heard) = self.heard.take() {
            heard.end(None);
        }
    }

    /// The number of the last event, if the agent gave it one.
    pub(super) fn number(&self) -> Option<&str> {
        self.events.number()
    }
}
