//! Reports an answer: as one document, or as fields with the ids and the commands to continue with.

use super::Session;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome, Problem, Stop};
use crate::render::{self, Detail, Fields, Node, Tone, escape, state_word};
use sabir_proto::{Message, WireEvent, WireTask};

impl Session {
    /// How much is shown of a task.
    pub(crate) fn detail(&self) -> Detail {
        let history = self.settings.history.copied().is_some_and(|wanted| wanted > 0);
        Detail { verbose: self.out.verbose, history }
    }

    /// A task as it is: `json` is what goes out in JSON, `task` the task inside it.
    pub(crate) fn report_task(&self, json: &str, task: Node<'_>) -> Outcome {
        if let (true, Ok(typed)) = (self.prints_answer_text(), serde_json::from_str::<WireTask>(task.raw())) {
            return self.report_answer_text(&typed);
        }
        let resume =
            self.resume_commands(task.word("id").as_deref(), task.word("contextId").as_deref(), &state_of(task));
        if self.out.is_json() {
            self.out.document(json)?;
            self.note_resume(&resume);
        } else {
            let mut fields = Fields::new();
            render::task(&mut fields, task, &resume, self.detail());
            self.out.fields(fields)?;
        }
        self.warn_about_state(&state_of(task));
        Ok(self.exit_of_state(&state_of(task)))
    }

    /// Whether a task is shown as its answer. The whole exchange is shown as fields.
    fn prints_answer_text(&self) -> bool {
        let detail = self.detail();
        self.out.is_running() && !detail.verbose && !detail.history
    }

    /// A task as its answer, with the ids below it.
    fn report_answer_text(&self, task: &WireTask) -> Outcome {
        let mut printer = self.printer(self.agent_name().as_deref().unwrap_or("agent"));
        self.print(&mut printer, |printer| printer.task(task))?;
        self.out.payload(&printer.end())?;
        let context = task.context_id.as_ref().map(ToString::to_string);
        self.report_state_and_ids(Some(&task.id.to_string()), context.as_deref(), task.status.state.name())
    }

    /// Prints the lines below an answer: the state, the ids, and the commands to continue with.
    pub(crate) fn report_state_and_ids(&self, task: Option<&str>, context: Option<&str>, state: &str) -> Outcome {
        let verdict = self.exit_of_state(state);
        if self.out.quiet {
            return Ok(verdict);
        }
        let paint = self.out.paint;
        let dim = |text: &str| paint.tint(Tone::Dim, &escape(text));
        let mut facts: Vec<String> = Vec::new();
        if task.is_some() && !state.is_empty() {
            facts.push(paint.state(&state_word(state)));
        }
        facts.extend(task.map(|task| dim(&format!("task {task}"))));
        facts.extend(context.map(|context| dim(&format!("context {context}"))));
        let mut text = facts.join(&dim(" · ")) + "\n";
        let done = matches!(
            state,
            "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED"
        );
        if task.is_some() && !done {
            for way in self.resume_commands(task, context, state) {
                text += &(dim(&format!("go on: {way}")) + "\n");
            }
        }
        self.out.payload(&text)?;
        Ok(verdict)
    }

    /// The exit status: of the state, where `--fail-on` names it.
    fn exit_of_state(&self, state: &str) -> Exit {
        let named = self.settings.fail_on.list().iter().flat_map(|list| list.split(','));
        Exit::of_state(state)
            .filter(|exit| named.into_iter().any(|name| exit.is_named(name.trim())))
            .unwrap_or(Exit::Done)
    }

    /// A `SendMessageResponse`: a task or a direct reply.
    pub(crate) fn report_response(&self, json: &str) -> Outcome {
        let response = Node::new(json);
        if let Some(task) = response.get("task") {
            return self.report_task(json, task);
        }
        let Some(message) = response.get("message") else {
            return Err(invalid_answer("the answer is neither a task nor a message").into());
        };
        let context = message.word("contextId");
        if let (true, Ok(typed)) = (self.prints_answer_text(), serde_json::from_str::<Message>(message.raw())) {
            let mut printer = self.printer(self.agent_name().as_deref().unwrap_or("agent"));
            self.print(&mut printer, |printer| printer.event(&WireEvent::Message(typed)))?;
            self.out.payload(&printer.end())?;
            return self.report_state_and_ids(None, context.as_deref(), "");
        }
        let resume: Vec<String> = context.iter().map(|context| self.resume().continue_context(context)).collect();
        if self.out.is_json() {
            self.out.document(json)?;
            self.note_resume(&resume);
        } else {
            let mut fields = Fields::new();
            fields.maybe("Task ID", message.word("taskId").as_deref());
            fields.field("Context ID", context.as_deref().unwrap_or("-"));
            render::message(&mut fields, message, self.out.verbose);
            resume.iter().for_each(|way| fields.field("Resume", way));
            self.out.fields(fields)?;
        }
        Ok(Exit::Done)
    }

    /// One event of a stream, at once.
    pub(crate) fn report_event(&self, json: &str) -> Result<(), Stop> {
        if self.out.is_json() {
            return self.out.line(json);
        }
        let mut fields = Fields::new();
        render::event(&mut fields, Node::new(json), self.out.verbose);
        self.out.fields(fields)
    }

    /// What follows the last event of a stream.
    pub(crate) fn report_end(&self, task: Option<&str>, context: Option<&str>, state: &str) -> Outcome {
        let resume = self.resume_commands(task, context, state);
        if self.out.is_json() {
            self.note_resume(&resume);
        } else {
            let mut fields = Fields::new();
            resume.iter().for_each(|way| fields.field("Resume", way));
            self.out.fields(fields)?;
        }
        self.warn_about_state(state);
        Ok(self.exit_of_state(state))
    }

    fn resume_commands(&self, task: Option<&str>, context: Option<&str>, state: &str) -> Vec<String> {
        match (task, context) {
            (Some(task), context) => self.resume().for_state(task, context, state),
            (None, Some(context)) => vec![self.resume().continue_context(context)],
            (None, None) => Vec::new(),
        }
    }

    /// Prints the commands to continue with as notes, because a JSON document has only members of the protocol.
    fn note_resume(&self, ways: &[String]) {
        ways.iter().for_each(|way| self.out.note(&format!("Resume: {way}")));
    }

    /// Warns about a state of failure, which does not change the exit code.
    fn warn_about_state(&self, state: &str) {
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
pub(crate) fn invalid_answer(message: &str) -> Problem {
    Problem::new(ErrorCode::Protocol("InvalidAgentResponseError"), message)
        .hint("add --debug for the agent's own reply")
}

/// Whether an agent refused a stream because it has none, not because of the message.
pub(crate) fn is_no_stream(error: &sabir_client::Error) -> bool {
    use sabir_proto::FaultCode::{MethodNotFound, UnsupportedOperation};
    match error {
        sabir_client::Error::Fault { fault, transport: Some(_), .. } => {
            matches!(fault.code(), MethodNotFound | UnsupportedOperation)
        }
        _ => false,
    }
}
