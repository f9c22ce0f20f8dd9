//! `sabir task …`: reads and controls tasks.

mod cancel;
mod download;
mod get;
mod list;
mod subscribe;

pub(crate) use cancel::TaskCancel;
pub(crate) use download::TaskDownload;
pub(crate) use get::TaskGet;
pub(crate) use list::TaskList;
pub(crate) use subscribe::TaskSubscribe;

use super::Session;
use super::target::is_address;
use crate::problem::Problem;
use clap::Args;
use sabir_proto::TaskRef;

/// The task that a command is about.
#[derive(Debug, Args)]
pub(crate) struct TaskArgument {
    /// The task, with the agent before it unless --agent-card names it. Without a task, --task-id or its variable.
    #[arg(value_names = ["AGENT", "TASK_ID"], num_args = 0..=2)]
    words: Vec<String>,
}

impl From<String> for TaskArgument {
    fn from(task: String) -> Self {
        Self { words: vec![task] }
    }
}

impl TaskArgument {
    /// The agent, where it was typed before the task or in its place.
    pub(crate) fn agent(&self) -> Option<&str> {
        match self.words.as_slice() {
            [agent, _] => Some(agent),
            [word] if is_address(word) => Some(word),
            _ => None,
        }
    }

    /// The task that was typed.
    pub(crate) fn typed(&self) -> Option<&str> {
        let last = self.words.last()?;
        (self.words.len() == 2 || !is_address(last)).then_some(last)
    }

    /// Whether any task was given at all.
    pub(crate) fn is_given(&self, session: &Session) -> bool {
        self.typed().is_some() || session.settings.task_id.text().is_some()
    }

    /// The id of the task. The argument takes precedence over what is configured, but not over another flag.
    pub(crate) fn task_id(&self, session: &Session) -> Result<TaskRef, Problem> {
        let flag = session.settings.task_id.text();
        let help = format!("sabir {} --help", session.path);
        let id = match (self.typed(), flag) {
            (Some(argument), Some(flag)) if session.settings.task_id.is_typed() && argument != flag => {
                return Err(Problem::usage("two different tasks were given").hint(help));
            }
            (Some(argument), _) => argument,
            (None, Some(flag)) => flag,
            (None, None) => {
                return Err(Problem::usage("no task was given").hint(format!("sabir {} <taskId>", session.path)));
            }
        };
        let task = TaskRef::parse(id).map_err(|fault| Problem::usage(format!("the task id {fault}")).hint(help))?;
        session.observer.set_task(&task.to_string());
        Ok(task)
    }
}
