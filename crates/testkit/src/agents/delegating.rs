//! Agents that delegate their work.

use super::{TurnTracker, execution_with, requested_count};
use sabir_engine::{Agent, Context, Ending, Execution, Failure, Recovery};
use sabir_proto::{AgentName, Message, TaskState};

/// The agents to which it delegates.
const TARGET_AGENTS: [&str; 5] = ["streams", "asks", "fragile", "steady", "tells"];

/// Delegates its message to another agent, and passes that agent's questions and results to its caller. The variant
/// that resumes after a crash follows every event of its child and never calls its own kind. The one that fails only
/// waits for the end, and delegates some work to the other variant, so that trees have grandchildren.
#[derive(Debug)]
pub struct DelegatingAgent {
    /// The record of turns at work.
    pub tracker: TurnTracker,
    /// What to do with its turn after a crash.
    pub recovery: Recovery,
}

impl DelegatingAgent {
    fn follows_events(&self) -> bool {
        self.recovery == Recovery::Resume
    }

    fn target_agent(&self, work: u64) -> &'static str {
        let at = usize::try_from(work).unwrap_or(0) % TARGET_AGENTS.len();
        if !self.follows_events() && work.is_multiple_of(3) { "leads" } else { TARGET_AGENTS[at] }
    }
}

impl Agent for DelegatingAgent {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.tracker.start_turn(cx);
        let first = cx.before().and_then(|task| task.history.first()).unwrap_or_else(|| cx.message());
        let to = AgentName::parse(self.target_agent(requested_count(&first.joined_text())))?;
        let mut child = cx.delegate(&to, "help", first.parts.clone(), None).await?;
        if cx.before().is_some() {
            child.answer(cx.message().parts.clone()).await?;
        }
        if self.follows_events() {
            let mut last = sabir_proto::Seq(0);
            while let Some(event) = child.next().await {
                let event = event?;
                if event.seq != last.next() {
                    return Ok(Ending::fail(format!("event {} of a child came after {last}", event.seq)));
                }
                last = event.seq;
            }
        }
        let task = child.wait_until_rest().await?.thaw().ok_or(std::fmt::Error)?;
        let said = task.status.message.as_ref().map(Message::joined_text).unwrap_or_default();
        Ok(match task.status.state {
            TaskState::Completed => Ending::complete_with(said),
            TaskState::InputRequired => Ending::ask_input(said),
            state => Ending::fail(format!("{to} is {state}: {said}")),
        })
    }

    fn execution(&self) -> Execution {
        execution_with(self.recovery)
    }
}
