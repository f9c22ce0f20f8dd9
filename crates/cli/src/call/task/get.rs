//! `sabir task get`.

use super::TaskArgument;
use crate::Invocation;
use crate::call::{InterruptHandling, Session, run_session};
use crate::cli::Verb;
use crate::problem::Outcome;
use crate::render::Node;
use crate::settings::WaitMode;
use clap::Args;
use sabir_proto::{GetTask, Tenant};

/// Read a task: its state, artifacts and history.
///
/// With --wait, asks again until the task is settled or waits for input or credentials.
#[derive(Debug, Args)]
pub(crate) struct TaskGet {
    #[command(flatten)]
    which: TaskArgument,
}

impl Verb for TaskGet {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl TaskGet {
    async fn execute(self, session: &Session) -> Outcome {
        let waiting = session.settings.waiting(WaitMode::ReturnAtOnce)?;
        session.reference()?;
        let id = self.which.task_id(session)?;
        let agent = session.connect().await?;
        let history_length = session.settings.history.copied().and_then(|count| i32::try_from(count).ok());
        let read = async || {
            let request = GetTask { tenant: Tenant::none(), id: id.clone(), history_length };
            agent.get(request).await.map_err(|error| session.failed(error))
        };
        let said = match waiting {
            WaitMode::ReturnAtOnce => read().await?,
            WaitMode::UntilSettled => {
                let settled =
                    agent.wait(id.clone(), session.poll_pace()).await.map_err(|error| session.failed(error))?;
                // The calls that wait ask for no history; a history that was asked for is read once at the end.
                if history_length.is_some() { read().await? } else { settled }
            }
        };
        session.report_task(said.json(), Node::new(said.json()))
    }
}
