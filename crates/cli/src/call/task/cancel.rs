//! `sabir task cancel`.

use super::TaskArgument;
use crate::Invocation;
use crate::admin::{ServerTarget, inbox};
use crate::call::{InterruptHandling, Session, run_session, send};
use crate::cli::Verb;
use crate::problem::Outcome;
use crate::render::Node;
use clap::Args;
use sabir_client::Error;
use sabir_proto::{CancelTask, FaultCode, TaskState, Tenant};
use std::path::PathBuf;

/// Cancel a task, and show the state it is in then.
///
/// Cancelling what is cancelled already is fine.
///
/// Subtasks that agents opened for the task are cancelled with it. --tree is for the operator of the server: it ends
/// the whole family of a task, from the one that a caller sent down to the last, whichever of them is named and
/// whichever caller owns them. It looks for the server in its files, on this machine, and asks no agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    sabir task cancel 0198c0de-… -a https://agents.example\n  \
    sabir task cancel 0198c0de-… --tree --data /var/lib/sabir")]
pub(crate) struct TaskCancel {
    #[command(flatten)]
    which: TaskArgument,
    /// Cancel the whole family of the task, on the server whose files these are.
    #[arg(long)]
    tree: bool,
    /// Data directory of the server, for --tree.
    #[arg(long, value_name = "DIR", requires = "tree")]
    data: Option<PathBuf>,
    /// Configuration file of the server, for --tree; ./sabir.toml if there is one.
    #[arg(long, value_name = "FILE", requires = "tree")]
    server_config: Option<PathBuf>,
}

impl Verb for TaskCancel {
    fn run(self, invocation: Invocation) -> Outcome {
        if self.tree {
            return inbox::cancel_tree(
                &invocation,
                self.which.typed(),
                &ServerTarget::local(self.server_config, self.data),
            );
        }
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl TaskCancel {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let id = self.which.task_id(session)?;
        let metadata = send::metadata(session)?;
        let agent = session.connect().await?;
        let request = CancelTask { tenant: Tenant::none(), id: id.clone(), metadata };
        let said = match agent.cancel(request).await {
            Ok(said) => said,
            // The agent says that the task is settled; if it was cancelled before, that is what was asked for.
            Err(error) if is_not_cancelable(&error) => {
                let problem = session.failed(error);
                match agent.task(&id).await {
                    Ok(said) if said.value.status.state == TaskState::Canceled => said,
                    Ok(said) => {
                        let hint = format!(
                            "the task is at {}; {}",
                            said.value.status.state.name(),
                            problem.hint.as_deref().unwrap_or_default()
                        );
                        return Err(crate::problem::Problem { hint: Some(hint), ..problem }.into());
                    }
                    Err(_) => return Err(problem.into()),
                }
            }
            Err(error) => return Err(session.failed(error).into()),
        };
        session.report_task(said.json(), Node::new(said.json()))
    }
}

fn is_not_cancelable(error: &Error) -> bool {
    matches!(error, Error::Fault { fault, .. } if fault.code() == FaultCode::TaskNotCancelable)
}
