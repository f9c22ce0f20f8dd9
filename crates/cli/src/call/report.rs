//! Reporting an answer: one document, or fields, and what a person should know beside it.

use super::Session;
use crate::exit::Exit;
use crate::problem::{Code, Outcome, Problem, Stop};
use crate::render::{self, Detail, Floor, Node};

impl Session {
    /// How much is shown of a task.
    pub(crate) fn detail(&self) -> Detail {
        let history = self.settings.count("history").is_some_and(|wanted| wanted > 0);
        Detail { verbose: self.out.verbose, history }
    }

    /// A task as it is: `json` is what goes out in JSON, `task` the task inside it.
    pub(crate) fn report_task(&self, json: &str, task: Node<'_>) -> Outcome {
        let resume = self.ways_on(task.word("id").as_deref(), task.word("contextId").as_deref(), &state_of(task));
        if self.out.is_json() {
            self.out.document(json)?;
            self.note_resume(&resume);
        } else {
            let mut floor = Floor::new();
            render::task(&mut floor, task, &resume, self.detail());
            self.out.payload(&floor.finish())?;
        }
        self.warn_of(&state_of(task));
        Ok(Exit::Done)
    }

    /// A `SendMessageResponse`: a task or a direct reply.
    pub(crate) fn report_response(&self, json: &str) -> Outcome {
        let response = Node::new(json);
        if let Some(task) = response.get("task") {
            return self.report_task(json, task);
        }
        let Some(message) = response.get("message") else {
            return Err(strange("the answer is neither a task nor a message").into());
        };
        let context = message.word("contextId");
        let resume: Vec<String> = context.iter().map(|context| self.resume().go_on(context)).collect();
        if self.out.is_json() {
            self.out.document(json)?;
            self.note_resume(&resume);
        } else {
            let mut floor = Floor::new();
            floor.maybe("Task ID", message.word("taskId").as_deref());
            floor.field("Context ID", context.as_deref().unwrap_or("-"));
            render::message(&mut floor, message, self.out.verbose);
            resume.iter().for_each(|way| floor.field("Resume", way));
            self.out.payload(&floor.finish())?;
        }
        Ok(Exit::Done)
    }

    /// One event of a stream, at once.
    pub(crate) fn report_event(&self, json: &str) -> Result<(), Stop> {
        if self.out.is_json() {
            return self.out.line(json);
        }
        let mut floor = Floor::new();
        render::event(&mut floor, Node::new(json), self.out.verbose);
        self.out.payload(&floor.finish())
    }

    /// What follows the last event of a stream.
    pub(crate) fn report_end(&self, task: Option<&str>, context: Option<&str>, state: &str) -> Outcome {
        let resume = self.ways_on(task, context, state);
        if self.out.is_json() {
            self.note_resume(&resume);
        } else {
            let mut floor = Floor::new();
            resume.iter().for_each(|way| floor.field("Resume", way));
            self.out.payload(&floor.finish())?;
        }
        self.warn_of(state);
        Ok(Exit::Done)
    }

    fn ways_on(&self, task: Option<&str>, context: Option<&str>, state: &str) -> Vec<String> {
        match (task, context) {
            (Some(task), context) => self.resume().after(task, context, state),
            (None, Some(context)) => vec![self.resume().go_on(context)],
            (None, None) => Vec::new(),
        }
    }

    /// In JSON the document is the protocol's, so the way on stands beside it.
    fn note_resume(&self, ways: &[String]) {
        ways.iter().for_each(|way| self.out.note(&format!("Resume: {way}")));
    }

    /// What became of a task does not move the exit code, so it is said.
    fn warn_of(&self, state: &str) {
        match state {
            "TASK_STATE_FAILED" | "TASK_STATE_REJECTED" | "TASK_STATE_CANCELED" => {
                self.out.warn(&format!("the task ended in {state}"));
            }
            "TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED" => {
                self.out.warn(&format!("the task is paused at {state}"));
            }
            _ => {}
        }
    }
}

/// The state of a task, by its name on the wire.
pub(crate) fn state_of(task: Node<'_>) -> String {
    let state = task.get("status").and_then(|status| status.get("state"));
    state.map_or_else(|| "TASK_STATE_UNSPECIFIED".to_owned(), Node::shown)
}

/// An answer that breaks the protocol.
pub(crate) fn strange(message: &str) -> Problem {
    Problem::new(Code::Protocol("InvalidAgentResponseError"), message).hint("add --debug for the agent's own reply")
}

/// Whether an agent refused a stream because it has none, not because of the message.
pub(crate) fn is_no_stream(error: &sabir_client::Error) -> bool {
    use sabir_proto::Code::{MethodNotFound, UnsupportedOperation};
    match error {
        sabir_client::Error::Fault { fault, transport: Some(_), .. } => {
            matches!(fault.code(), MethodNotFound | UnsupportedOperation)
        }
        _ => false,
    }
}
