//! `sabir inbox …`: the tasks that wait for an answer, of all agents of a server; and `sabir task cancel --tree`.

use super::{ServerTarget, print_json};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome as Ran, Problem};
use crate::render::Fields;
use clap::Args;
use sabir_proto::{NonText, Role, WireTask};
use sabir_server::admin::{
    CancelTree, ListInbox, QUESTIONS_MAX, QuestionView, ReplyToQuestion, ShowQuestion, WaitingTaskView,
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
    server: ServerTarget,
}

impl Verb for InboxList {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        if !(1..=QUESTIONS_MAX).contains(&self.limit) {
            return Err(Problem::usage(format!("--limit is between 1 and {QUESTIONS_MAX}")).into());
        }
        let (mut found, mut after) = (Vec::new(), None);
        while found.len() < self.limit {
            let page = self.server.ask(ListInbox { after, limit: QUESTIONS_MAX })?;
            let wanted = |waiting: &WaitingTaskView| self.agent.as_ref().is_none_or(|agent| *agent == waiting.agent);
            found.extend(page.questions.into_iter().filter(wanted));
            after = page.next;
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
    server: ServerTarget,
}

impl Verb for InboxShow {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let shown = self.server.ask(ShowQuestion { task: self.task })?;
        print_json(&out, &shown)?;
        let QuestionView { question, task } = shown;
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
    server: ServerTarget,
}

impl Verb for InboxReply {
    fn run(self, Invocation { out, .. }: Invocation) -> Ran {
        let replied = self.server.ask(ReplyToQuestion { task: self.task, text: self.text })?;
        print_json(&out, &replied)?;
        out.text(|fields| {
            fields.field("Task ID", &replied.task_id);
            fields.field("State", &replied.state);
        })?;
        Ok(Exit::Done)
    }
}

/// The kill switch: cancels the whole family of a task, from the task that a caller sent down to the last subtask.
pub(crate) fn cancel_tree(invocation: &Invocation, task: Option<&str>, server: &ServerTarget) -> Ran {
    let Some(task) = task else {
        return Err(Problem::usage("no task was given").hint("sabir task cancel <taskId> --tree").into());
    };
    let ended = server.ask(CancelTree { task: task.to_owned() })?;
    let out = &invocation.out;
    print_json(out, &ended)?;
    out.text(|fields| {
        for one in &ended.canceled {
            fields.field("Task ID", &one.task_id);
            fields.field("Agent", &one.agent);
            fields.maybe("Opened for", one.parent_id.as_deref());
        }
        fields.field("Canceled", &ended.canceled.len().to_string());
    })?;
    Ok(Exit::Done)
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
