//! `sabir inbox …`: the tasks that wait for an answer, of all agents of a server; and `sabir task cancel --tree`.

use super::{ServerFiles, problem, wait};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{ErrorCode, Outcome as Ran, Problem, Stop};
use crate::render::Fields;
use clap::Args;
use sabir_proto::{NonText, Role, WireTask};
use sabir_server::Config;
use sabir_server::admin::{
    AdminError, InboxRequest, InboxResponse, QUESTIONS_MAX, WaitingTaskView, operator_name, run_inbox_request,
};
use serde_json::json;

/// List the tasks that wait for input or credentials, of every agent and every caller.
///
/// The longest waiting come first. A task that asks because an agent behind it does is listed once. This looks into the
/// files of a server, or asks it while it runs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir inbox list\n  \
    sabir inbox list --agent booking --data /var/lib/sabir\n  \
    sabir inbox list -o json")]
pub(crate) struct InboxList {
    /// Only of this agent.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for InboxList {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        if !(1..=QUESTIONS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {QUESTIONS_MAX}")).into());
        }
        let config = self.server.config()?;
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < self.limit {
            let said = ask(&config, InboxRequest::Inbox { after, limit: QUESTIONS_MAX })?;
            let InboxResponse::Inbox { questions, next } = said else { return Err(unexpected_response()) };
            let wanted = |waiting: &WaitingTaskView| self.agent.as_ref().is_none_or(|agent| *agent == waiting.agent);
            found.extend(questions.into_iter().filter(wanted));
            after = next;
            if after.is_none() {
                break;
            }
        }
        found.truncate(self.limit);
        if out.is_json() {
            out.document(&json!({"questions": found}).to_string())?;
        }
        out.text(|fields| {
            found.iter().for_each(|waiting| write_fields(fields, waiting));
            fields.field("Total", &found.len().to_string());
        })?;
        Ok(Exit::Done)
    }
}

/// Show one question, with everything that was said before it.
#[derive(Debug, Args)]
pub(crate) struct InboxShow {
    /// The task that asks.
    #[arg(value_name = "TASK_ID")]
    task: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for InboxShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let said = ask(&self.server.config()?, InboxRequest::Question { task: self.task })?;
        let InboxResponse::Question { question, task } = said else { return Err(unexpected_response()) };
        if out.is_json() {
            out.document(&json!({"question": question, "task": task}).to_string())?;
        }
        let task: Option<WireTask> = task.read().ok();
        out.text(|fields| {
            write_fields(fields, &question);
            let Some(task) = task else { return };
            for message in &task.history {
                let who = if message.role == Role::User { "Caller" } else { "Agent" };
                fields.field(who, &message.text_with(NonText::Describe));
            }
            for artifact in &task.artifacts {
                fields.field("Artifact", &artifact.text_with(NonText::Describe));
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Answer a question in its caller's place. The agent goes on at once.
///
/// The answer is part of the task, with a note of who gave it. It needs the server to run, since it is the agent that has to
/// hear it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sabir inbox reply 0198c0de-… \"a table for two\"")]
pub(crate) struct InboxReply {
    /// The task that asks.
    #[arg(value_name = "TASK_ID")]
    task: String,
    /// The answer.
    text: String,
    #[command(flatten)]
    server: ServerFiles,
}

impl Verb for InboxReply {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let order = InboxRequest::Reply { task: self.task, text: self.text, by: operator_name() };
        let said = ask(&self.server.config()?, order)?;
        let InboxResponse::Replied { task, state } = said else { return Err(unexpected_response()) };
        if out.is_json() {
            out.document(&json!({"taskId": task, "state": state}).to_string())?;
        }
        out.text(|fields| {
            fields.field("Task ID", &task);
            fields.field("State", &state);
        })?;
        Ok(Exit::Done)
    }
}

/// The kill switch: cancels the whole family of a task, from the task that a caller sent down to the last subtask.
pub(crate) fn cancel_tree(invocation: &Invocation, task: Option<&str>, server: &ServerFiles) -> Ran {
    let Some(task) = task else {
        return Err(Problem::usage("no task was given").hint("sabir task cancel <taskId> --tree").into());
    };
    let said = ask(&server.config()?, InboxRequest::CancelTree { task: task.to_owned() })?;
    let InboxResponse::Canceled(ended) = said else { return Err(unexpected_response()) };
    let out = &invocation.out;
    if out.is_json() {
        out.document(&json!({"canceled": ended}).to_string())?;
    }
    out.text(|fields| {
        for one in &ended {
            fields.field("Task ID", &one.task_id);
            fields.field("Agent", &one.agent);
            fields.maybe("Opened for", one.parent_id.as_deref());
        }
        fields.field("Canceled", &ended.len().to_string());
    })?;
    Ok(Exit::Done)
}

/// Sends a request to the running server, or to its store if none runs. A refusal becomes a problem.
fn ask(config: &Config, order: InboxRequest) -> Result<InboxResponse, Stop> {
    match wait(run_inbox_request(config, order))? {
        InboxResponse::Failed(reason) => {
            let problem = Problem::new(ErrorCode::Vendor("SABIR_ERR_REFUSED"), reason);
            Err(problem.hint("sabir inbox list shows the tasks that wait for a person").into())
        }
        said => Ok(said),
    }
}

fn unexpected_response() -> Stop {
    problem(AdminError::Failed("the server answers something else than it was asked; is it another version?".into()))
        .into()
}

/// Shows a question as fields.
fn write_fields(fields: &mut Fields, waiting: &WaitingTaskView) {
    fields.field("Task ID", &waiting.task_id);
    fields.field("Agent", &waiting.agent);
    fields.field("State", &waiting.state);
    fields.field("Question", &waiting.question);
    fields.field("Since", &waiting.since.to_string());
    fields.field("Caller", &waiting.caller);
    fields.field("Context ID", &waiting.context_id);
}
