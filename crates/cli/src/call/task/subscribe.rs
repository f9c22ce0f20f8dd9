//! `sabir task subscribe`.

use super::TaskArgument;
use crate::Invocation;
use crate::call::follow::LastEvent;
use crate::call::{InterruptHandling, Session, report, run_session};
use crate::cli::Verb;
use crate::problem::Outcome;
use crate::render::Node;
use clap::Args;

/// Join a running task and follow it to its end.
///
/// With --stream, shows every event as it comes; otherwise the task when it is settled or waits for input or
/// credentials. A connection that breaks is taken up again.
#[derive(Debug, Args)]
pub(crate) struct TaskSubscribe {
    #[command(flatten)]
    which: TaskArgument,
}

impl Verb for TaskSubscribe {
    fn run(self, invocation: Invocation) -> Outcome {
        let invocation = invocation.with_agent(self.which.agent())?;
        run_session(invocation, InterruptHandling::Detach, async |session| self.execute(session).await)
    }
}

impl TaskSubscribe {
    async fn execute(self, session: &Session) -> Outcome {
        session.reference()?;
        let id = self.which.task_id(session)?;
        let agent = session.connect().await?;
        let events = agent.subscribe(id.clone(), session.follow()).await;
        let mut events = events.map_err(|error| session.failed(error))?;
        if session.out.is_running() {
            return session.print_answer(&mut events, &agent.card().name).await;
        }
        if session.out.lines {
            return session.print_events(&mut events).await;
        }
        // The first event is the whole task, so what the events make of it is the task; there is no gap to ask about.
        match session.last_event(&mut events).await? {
            LastEvent::Whole(json) => match Node::new(&json).get("task") {
                Some(task) => session.report_task(task.raw(), task),
                None => session.report_response(&json),
            },
            LastEvent::Part(_) => {
                let folded = events.folded_task().ok_or_else(|| report::invalid_answer("the events make no task"))?;
                session.report_task(folded.json(), Node::new(folded.json()))
            }
        }
    }
}
