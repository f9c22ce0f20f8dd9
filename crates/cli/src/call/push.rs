//! `sabir task push-config …`: having an agent notify a webhook.

mod listen;
mod receiver;

pub(crate) use listen::PushConfigListen;

use super::task::TaskArgument;
use super::{InterruptHandling, Session, run_session};
use crate::Invocation;
use crate::cli::Verb;
use crate::exit::Exit;
use crate::problem::{Outcome, Problem};
use crate::render::{Fields, Node, push_config, push_page};
use clap::Args;
use sabir_proto::{Authentication, DeletePush, GetPush, ListPush, PushConfig, Tenant};

/// Register a webhook for a task.
#[derive(Debug, Args)]
pub(crate) struct PushConfigCreate {
    #[command(flatten)]
    which: TaskArgument,
    /// Where the agent shall send notifications.
    #[arg(long, value_name = "URL")]
    url: String,
    /// Id of the registration; the agent gives one where it is left out.
    #[arg(long, value_name = "ID")]
    config_id: Option<String>,
}

/// Which registration of which task.
#[derive(Debug, Args)]
pub(crate) struct PushConfigArguments {
    /// The task and the registration, with the agent before them unless --agent-card names it.
    #[arg(value_names = ["AGENT", "TASK_ID", "CONFIG_ID"], num_args = 2..=3, required = true)]
    words: Vec<String>,
}

impl PushConfigArguments {
    /// The agent, if it was typed, the task and the registration.
    fn read(self) -> Result<(Option<String>, String, String), Problem> {
        let mut words = self.words;
        let registration = words.pop();
        match (words.pop(), registration) {
            (Some(task), Some(registration)) => Ok((words.pop(), task, registration)),
            _ => {
                Err(Problem::usage("a task and a registration are needed").hint("sabir task push-config list <taskId>"))
            }
        }
    }
}

/// Show a registration.
#[derive(Debug, Args)]
pub(crate) struct PushConfigGet {
    #[command(flatten)]
    which: PushConfigArguments,
}

/// List the registrations of a task.
#[derive(Debug, Args)]
pub(crate) struct PushConfigList {
    #[command(flatten)]
    which: TaskArgument,
    /// The page after the one that named this token.
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

/// Remove a registration.
#[derive(Debug, Args)]
pub(crate) struct PushConfigDelete {
    #[command(flatten)]
    which: PushConfigArguments,
}

impl Verb for PushConfigCreate {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            session.reference()?;
            let task = self.which.task_id(session)?;
            let config = self.config(session)?;
            let agent = session.connect().await?;
            let said = agent.create_push(task, config).await.map_err(|error| session.failed(error))?;
            report_config(session, said.json())
        })
    }
}

impl PushConfigCreate {
    fn config(self, session: &Session) -> Result<PushConfig, Problem> {
        let url = webhook(&self.url)?;
        let settings = &session.settings;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let authentication = match (owned(settings.push_scheme.text()), owned(settings.push_credentials.text())) {
            (Some(scheme), credentials) => Some(Authentication { scheme, credentials }),
            (None, Some(credentials)) => {
                Some(Authentication { scheme: "Bearer".to_owned(), credentials: Some(credentials) })
            }
            (None, None) => None,
        };
        Ok(PushConfig { id: self.config_id, url, token: owned(settings.push_token.text()), authentication })
    }
}

/// An address that an agent can call.
pub(crate) fn webhook(url: &str) -> Result<String, Problem> {
    match url::Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => Ok(url.to_owned()),
        _ => Err(Problem::usage("a webhook has an http or https URL").hint("--url https://hooks.example/a2a")),
    }
}

impl Verb for PushConfigGet {
    fn run(self, invocation: Invocation) -> Outcome {
        let (agent, task, registration) = self.which.read()?;
        let invocation = invocation.with_agent(agent.as_deref())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            session.reference()?;
            let task_id = TaskArgument::from(task).task_id(session)?;
            let agent = session.connect().await?;
            let request = GetPush { tenant: Tenant::none(), task_id, id: registration };
            let said = agent.get_push(request).await.map_err(|error| session.failed(error))?;
            report_config(session, said.json())
        })
    }
}

impl Verb for PushConfigList {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            session.reference()?;
            let task_id = self.which.task_id(session)?;
            let page_size = session.settings.page_size.copied().and_then(|size| i32::try_from(size).ok());
            let page_token = self.page_token.unwrap_or_default();
            let agent = session.connect().await?;
            let request = ListPush { tenant: Tenant::none(), task_id, page_size, page_token };
            let said = agent.list_push(request).await.map_err(|error| session.failed(error))?;
            let page = Node::new(said.json());
            if session.out.is_json() && session.out.lines {
                page.list("configs").into_iter().try_for_each(|config| session.out.line(config.raw()))?;
                if let Some(token) = page.word("nextPageToken") {
                    session.out.note(&format!("Next page token: {token}"));
                }
            } else if session.out.is_json() {
                session.out.document(said.json())?;
            } else {
                let mut fields = Fields::new();
                push_page(&mut fields, page);
                session.out.fields(fields)?;
            }
            Ok(Exit::Done)
        })
    }
}

impl Verb for PushConfigDelete {
    fn run(self, invocation: Invocation) -> Outcome {
        let (agent, task, registration) = self.which.read()?;
        let invocation = invocation.with_agent(agent.as_deref())?;
        run_session(invocation, InterruptHandling::Detach, async |session| {
            session.reference()?;
            let task_id = TaskArgument::from(task).task_id(session)?;
            let agent = session.connect().await?;
            let mut fields = Fields::new();
            fields.field("Task ID", &task_id.to_string());
            fields.field("Deleted", &registration);
            let request = DeletePush { tenant: Tenant::none(), task_id, id: registration };
            agent.delete_push(request).await.map_err(|error| session.failed(error))?;
            if session.out.is_json() {
                session.out.document("{}")?;
            } else {
                session.out.fields(fields)?;
            }
            Ok(Exit::Done)
        })
    }
}

fn report_config(session: &Session, json: &str) -> Outcome {
    if session.out.is_json() {
        session.out.document(json)?;
    } else {
        let mut fields = Fields::new();
        push_config(&mut fields, Node::new(json));
        session.out.fields(fields)?;
    }
    Ok(Exit::Done)
}
