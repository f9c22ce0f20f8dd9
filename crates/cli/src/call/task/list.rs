//! `sabir task list`.

use crate::Invocation;
use crate::call::target::AgentArgument;
use crate::call::{InterruptHandling, Session, job, run_session};
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem, Stop};
use crate::render::{Fields, Node, page};
use clap::Args;
use sabir_client::Agent;
use sabir_proto::{ContextId, ListTasks, TaskState, Timestamp, WireReply};

/// Most pages that `--all` walks: an agent that never ends its list must not hold us for ever.
const PAGES_MAX: usize = 10_000;
/// Most pages that are looked through for the tasks of a job, and how large they are asked to be: the protocol has no
/// such question, so every task is looked at.
const JOB_PAGES_MAX: usize = 100;
const JOB_PAGE_SIZE: i32 = 100;

/// List the tasks of an agent, latest first.
///
/// --context-id keeps those of one context. A list is shown page by page: `Next page token` is for --page-token.
#[derive(Debug, Args)]
pub(crate) struct TaskList {
    #[command(flatten)]
    target: AgentArgument,
    /// Only tasks in this state, such as working or TASK_STATE_WORKING.
    #[arg(long, value_name = "STATE")]
    status: Option<String>,
    /// The page after the one that named this token.
    #[arg(long, value_name = "TOKEN", conflicts_with = "all")]
    page_token: Option<String>,
    /// Only tasks whose state changed after this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// With the artifacts of each task.
    #[arg(long)]
    include_artifacts: bool,
    /// Every page, one after the other.
    #[arg(long)]
    all: bool,
    /// Only tasks of this job on XPR Network (xpr:jobId); looks through pages for them.
    #[arg(long, value_name = "N")]
    job: Option<u64>,
}

impl Verb for TaskList {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.target.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl TaskList {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let mut request = self.request(session)?;
        let agent = session.connect().await?;
        if self.job.is_some() {
            request.page_size = request.page_size.or(Some(JOB_PAGE_SIZE));
        }
        if self.all || self.job.is_some() {
            let pages_max = if self.all { PAGES_MAX } else { JOB_PAGES_MAX };
            return PagedListing { session, job: self.job, pages_max, whole: Vec::new(), found: 0 }
                .fetch_all(&agent, request)
                .await;
        }
        let said = agent.list(request).await.map_err(|error| session.failed(error))?;
        let answer = Node::new(said.json());
        if session.out.lines && session.out.is_json() {
            answer.list("tasks").into_iter().try_for_each(|task| session.out.line(task.raw()))?;
            if let Some(token) = answer.word("nextPageToken") {
                session.out.note(&format!("Next page token: {token}"));
            }
        } else if session.out.is_json() {
            session.out.document(said.json())?;
        } else {
            let mut fields = Fields::new();
            page(&mut fields, answer, session.detail());
            session.out.fields(fields)?;
        }
        Ok(Exit::Done)
    }

    fn request(&self, session: &Session) -> Result<ListTasks, Problem> {
        let wrong = |what: String| Problem::usage(what).hint("sabir task list --help");
        let page_size = session.settings.page_size.copied();
        if page_size.is_some_and(|size| !(1..=100).contains(&size)) {
            return Err(wrong("--page-size is 1 to 100".into()));
        }
        Ok(ListTasks {
            context_id: match session.settings.context_id.text() {
                Some(id) => Some(ContextId::parse(id).map_err(|fault| wrong(format!("--context-id {fault}")))?),
                None => None,
            },
            status: match &self.status {
                Some(name) => {
                    Some(parse_state(name).ok_or_else(|| wrong(format!("--status {name} is no state of a task")))?)
                }
                None => None,
            },
            page_size: page_size.and_then(|size| i32::try_from(size).ok()),
            page_token: self.page_token.clone().unwrap_or_default(),
            history_length: session.settings.history.copied().and_then(|count| i32::try_from(count).ok()),
            status_timestamp_after: match &self.since {
                Some(time) => Some(
                    Timestamp::parse_loose(time)
                        .ok_or_else(|| wrong("--since is a time such as 2026-09-01T08:00:00Z".into()))?,
                ),
                None => None,
            },
            include_artifacts: self.include_artifacts.then_some(true),
            ..ListTasks::default()
        })
    }
}

/// `working`, `WORKING`, `input-required` or the name on the wire.
fn parse_state(name: &str) -> Option<TaskState> {
    let plain = name.to_ascii_uppercase().replace('-', "_");
    let plain = plain.strip_prefix("TASK_STATE_").unwrap_or(&plain);
    TaskState::ALL.into_iter().find(|state| state.name().strip_prefix("TASK_STATE_") == Some(plain))
}

/// Every page, as one list.
struct PagedListing<'a> {
    session: &'a Session,
    /// Keeps only tasks of this job.
    job: Option<u64>,
    pages_max: usize,
    /// What is printed at the end, where it is one document.
    whole: Vec<String>,
    /// How many tasks were kept.
    found: u64,
}

impl PagedListing<'_> {
    async fn fetch_all(mut self, agent: &Agent, mut request: ListTasks) -> Outcome {
        let (mut size, mut total) = (0, 0);
        for _ in 0..self.pages_max {
            let said = agent.list(request.clone()).await.map_err(|error| self.session.failed(error))?;
            let WireReply::Tasks { next_page_token, page_size, total_size, .. } = &said.value else {
                return Err(crate::call::report::invalid_answer("the answer is not a list of tasks").into());
            };
            (size, total) = (*page_size, *total_size);
            self.page(Node::new(said.json()))?;
            if next_page_token.is_empty() {
                return self.end(size, total, "");
            }
            if *next_page_token == request.page_token {
                return Err(crate::call::report::invalid_answer("the agent's list goes in a circle").into());
            }
            request.page_token.clone_from(next_page_token);
        }
        let (pages, token) = (self.pages_max, request.page_token);
        self.session.out.warn(&format!("the list goes on after {pages} pages: --page-token {token}"));
        self.end(size, total, &token)
    }

    /// Shows a page, or keeps it for the end.
    fn page(&mut self, answer: Node<'_>) -> Result<(), Stop> {
        let out = &self.session.out;
        let kept = |task: &Node<'_>| self.job.is_none_or(|number| job::owns(number, task.raw()));
        let tasks: Vec<String> =
            answer.list("tasks").into_iter().filter(kept).map(|task| task.raw().to_owned()).collect();
        self.found += tasks.len() as u64;
        if out.lines && out.is_json() {
            tasks.iter().try_for_each(|task| out.line(task))?;
        } else if out.is_json() {
            self.whole.extend(tasks);
        } else {
            // Shown as they come; a page without its end is a page of fields.
            let mut fields = Fields::new();
            page(&mut fields, Node::new(&format!(r#"{{"tasks":[{}]}}"#, tasks.join(","))), self.session.detail());
            out.fields(fields)?;
        }
        Ok(())
    }

    fn end(&self, size: u32, total: u64, next: &str) -> Result<Exit, Stop> {
        let out = &self.session.out;
        let total = if self.job.is_some() { self.found } else { total };
        if out.is_json() && !out.lines {
            let (tasks, next) = (self.whole.join(","), serde_json::Value::from(next));
            out.document(&format!(
                r#"{{"tasks":[{tasks}],"nextPageToken":{next},"pageSize":{size},"totalSize":{total}}}"#
            ))?;
        } else if !out.is_json() {
            let mut fields = Fields::new();
            fields.field("Total", &total.to_string());
            out.fields(fields)?;
        }
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_taken_as_people_write_them() {
        for name in ["input-required", "INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED", "task_state_input_required"] {
            assert_eq!(parse_state(name), Some(TaskState::InputRequired), "{name}");
        }
        assert_eq!(parse_state("sleeping"), None);
    }
}
