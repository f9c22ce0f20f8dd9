//! Following a task to its end: as events, or for its result alone.

use super::report::invalid_answer;
use super::{Session, report};
use crate::problem::{Outcome, Stop};
use crate::render::{AnswerPrinter, Node, PrinterOutput};
use sabir_client::{Agent, AgentResponse, FollowOptions, TaskEvents};
use sabir_proto::{SendMessage, TaskRef, WireEvent, WireReply};

impl Session {
    pub(crate) fn follow(&self) -> FollowOptions {
        FollowOptions { schedule: self.poll_pace(), ..FollowOptions::default() }
    }

    /// Prints every event as it comes.
    pub(crate) async fn print_events(&self, events: &mut TaskEvents) -> Outcome {
        let mut last = None;
        while let Some(next) = events.next().await {
            let said = next.map_err(|error| self.failed(error))?;
            self.report_event(said.json())?;
            last = Some(said);
        }
        let Some(last) = last else { return Err(invalid_answer("the stream ended without an event").into()) };
        let (task, context) = ids_of(&last.value);
        let state = event_state(&last);
        self.report_end(task.as_deref(), context.as_deref(), &state)
    }

    /// Writes what an event adds to an answer.
    pub(crate) fn print(
        &self,
        printer: &mut AnswerPrinter,
        event: impl FnOnce(&mut AnswerPrinter) -> PrinterOutput,
    ) -> Result<(), Stop> {
        let printed = event(printer);
        if !printed.text.is_empty() {
            self.out.payload(&printed.text)?;
        }
        if let Some(remark) = &printed.remark {
            self.out.warn(remark);
        }
        if printed.doing.is_some() {
            self.observer.set_activity(printed.doing);
        }
        Ok(())
    }

    /// Writes an answer as running text, for a person or where the answer alone is wanted.
    pub(crate) fn printer(&self, name: &str) -> AnswerPrinter {
        AnswerPrinter::new(self.out.paint, (!self.out.quiet).then_some(name))
    }

    /// Follows an answer and writes it as it comes.
    pub(crate) async fn print_answer(&self, events: &mut TaskEvents, name: &str) -> Outcome {
        let mut printer = self.printer(name);
        let mut last = None;
        while let Some(next) = events.next().await {
            let said = next.map_err(|error| self.failed(error))?;
            self.print(&mut printer, |printer| printer.event(&said.value))?;
            last = Some(said);
        }
        let Some(last) = last else { return Err(invalid_answer("the stream ended without an event").into()) };
        self.out.payload(&printer.end())?;
        let (task, context) = ids_of(&last.value);
        self.report_state_and_ids(task.as_deref(), context.as_deref(), &event_state(&last))
    }

    /// Sends a message and writes the answer as it comes.
    pub(crate) async fn send_and_print(&self, agent: &Agent, request: SendMessage) -> Outcome {
        match agent.stream(request.clone(), self.follow()).await {
            Ok(mut events) => self.print_answer(&mut events, &agent.card().name).await,
            Err(error) if report::is_no_stream(&error) && !self.settings.stream.is_on() => {
                let json = self.send_and_poll(agent, request).await?;
                self.report_response(&json)
            }
            Err(error) => Err(self.failed(error).into()),
        }
    }

    /// Waits for the last event and says nothing on the way. Returns it as `{"task": …}` or `{"message": …}`.
    pub(crate) async fn last_event(&self, events: &mut TaskEvents) -> Result<LastEvent, Stop> {
        let mut last = None;
        while let Some(next) = events.next().await {
            let said = next.map_err(|error| self.failed(error))?;
            last = Some(said);
        }
        match last {
            None => Err(invalid_answer("the stream ended without an event").into()),
            Some(said) if matches!(said.value, WireEvent::Task(_) | WireEvent::Message(_)) => {
                Ok(LastEvent::Whole(said.json().to_owned()))
            }
            Some(said) => match task_of(&said.value).cloned() {
                Some(task) => Ok(LastEvent::Part(task)),
                None => Err(invalid_answer("the last event names no task").into()),
            },
        }
    }

    /// Sends a message and waits for its result: by a stream if the agent streams, else by asking for the task.
    pub(crate) async fn send_and_wait(&self, agent: &Agent, request: SendMessage) -> Result<String, Stop> {
        let mut events = match agent.stream(request.clone(), self.follow()).await {
            Ok(events) => events,
            // The card promises a stream and the agent knows nothing of it: ask instead. It has refused the message, so
            // nothing is done twice.
            Err(error) if report::is_no_stream(&error) => {
                self.observer.debug("the agent does not stream after all; asking for the task instead");
                return self.send_and_poll(agent, request).await;
            }
            Err(error) => return Err(self.failed(error).into()),
        };
        match self.last_event(&mut events).await? {
            LastEvent::Whole(json) => Ok(json),
            LastEvent::Part(task) => match agent.task(&task).await {
                // The agent's own task is more complete than one folded from its events.
                Ok(said) => Ok(format!(r#"{{"task":{}}}"#, said.json())),
                Err(_) => {
                    let folded = events.folded_task().ok_or_else(|| invalid_answer("the events make no task"))?;
                    Ok(format!(r#"{{"task":{}}}"#, folded.json()))
                }
            },
        }
    }

    async fn send_and_poll(&self, agent: &Agent, mut request: SendMessage) -> Result<String, Stop> {
        request.configuration.return_immediately = true;
        let said = agent.send(request).await.map_err(|error| self.failed(error))?;
        let WireReply::SentTask(task) = &said.value else { return Ok(said.json().to_owned()) };
        if task.status.state.is_settled() || task.status.state.is_interrupted() {
            return Ok(said.json().to_owned());
        }
        let settled = agent.wait(task.id.clone(), self.poll_pace()).await.map_err(|error| self.failed(error))?;
        Ok(format!(r#"{{"task":{}}}"#, settled.json()))
    }
}

/// What a stream ended with.
pub(crate) enum LastEvent {
    /// A whole task or a message, as it was written.
    Whole(String),
    /// A piece; the whole has to be put together.
    Part(TaskRef),
}

/// The task that an event is about.
fn task_of(event: &WireEvent) -> Option<&TaskRef> {
    match event {
        WireEvent::Task(task) => Some(&task.id),
        WireEvent::StatusUpdate(update) => Some(&update.task_id),
        WireEvent::ArtifactUpdate(update) => Some(&update.task_id),
        WireEvent::Message(message) => message.task_id.as_ref(),
    }
}

fn ids_of(event: &WireEvent) -> (Option<String>, Option<String>) {
    let context = match event {
        WireEvent::Task(task) => task.context_id.as_ref(),
        WireEvent::StatusUpdate(update) => update.context_id.as_ref(),
        WireEvent::ArtifactUpdate(update) => update.context_id.as_ref(),
        WireEvent::Message(message) => return (None, message.context_id.as_ref().map(ToString::to_string)),
    };
    (task_of(event).map(ToString::to_string), context.map(ToString::to_string))
}

/// The state an event tells, by its name on the wire.
fn event_state(said: &AgentResponse<WireEvent>) -> String {
    let event = Node::new(said.json());
    match event.get("task").or_else(|| event.get("statusUpdate")) {
        Some(holder) => report::state_of(holder),
        None => String::new(),
    }
}
