//! `sabir task get`.

use super::TaskArgument;
use crate::Invocation;
use crate::call::{Interrupts, Session, drive};
use crate::cli::Verb;
use crate::problem::Outcome;
use crate::render::Node;
use crate::settings::Waiting;
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
        drive(invocation, Interrupts::Detach, async |session| self.go(session).await)
    }
}

impl TaskGet {
    async fn go(self, session: &Session) -> Outcome {
        let waiting = session.settings.waiting(Waiting::Leave)?;
        session.reference()?;
        let id = self.which.one(session)?;
        let agent = session.connect().await?;
        let history_length = session.settings.count("history").and_then(|count| i32::try_from(count).ok());
        let read = async || {
            let request = GetTask { tenant: Tenant::none(), id: id.clone(), history_length };
            agent.get(request).await.map_err(|error| session.failed(error))
        };
        let said = match waiting {
            Waiting::Leave => read().await?,
            Waiting::Stay => {
                let settled = agent.wait(id.clone(), session.pace()).await.map_err(|error| session.failed(error))?;
                // The calls that wait ask for no history; a history that was asked for is read once at the end.
                if history_length.is_some() { read().await? } else { settled }
            }
        };
        session.report_task(said.json(), Node::new(said.json()))
    }
}
