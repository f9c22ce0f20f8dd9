//! `sabir task …`: looking at tasks and steering them.

mod cancel;
mod download;
mod get;
mod list;
mod subscribe;

pub(crate) use cancel::Cancel;
pub(crate) use download::Download;
pub(crate) use get::Get;
pub(crate) use list::List;
pub(crate) use subscribe::Subscribe;

use super::Session;
use crate::problem::Problem;
use clap::Args;
use sabir_proto::TaskRef;

/// Which task.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The task; --task-id or its variable where it is left out.
    #[arg(value_name = "TASK_ID")]
    task: Option<String>,
}

impl From<String> for Which {
    fn from(task: String) -> Self {
        Self { task: Some(task) }
    }
}

impl Which {
    /// What was typed.
    pub(crate) fn typed(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Whether any task was given at all.
    pub(crate) fn is_given(&self, session: &Session) -> bool {
        self.task.is_some() || session.settings.text("task-id").is_some()
    }

    /// The id that was meant. The argument stands before what is configured, but not before another flag.
    pub(crate) fn one(&self, session: &Session) -> Result<TaskRef, Problem> {
        let flag = session.settings.text("task-id");
        let help = format!("sabir {} --help", session.path);
        let id = match (&self.task, flag) {
            (Some(argument), Some(flag)) if session.settings.typed("task-id") && argument != flag => {
                return Err(Problem::usage("two different tasks were given").hint(help));
            }
            (Some(argument), _) => argument,
            (None, Some(flag)) => flag,
            (None, None) => {
                return Err(Problem::usage("no task was given").hint(format!("sabir {} <taskId>", session.path)));
            }
        };
        let task = TaskRef::parse(id).map_err(|fault| Problem::usage(format!("the task id {fault}")).hint(help))?;
        session.watcher.about(&task.to_string());
        Ok(task)
    }
}
