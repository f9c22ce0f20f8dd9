//! Agents that delegate their work.

use super::{Roster, nature, wanted};
use sabir_engine::{Agent, Context, Ending, Failure, Nature, Recovery};
use sabir_proto::{AgentName, Message, TaskState};

/// The agents to which it delegates.
const OTHERS: [&str; 5] = ["streams", "asks", "fragile", "steady", "tells"];

/// Delegates its message to another agent, and passes that agent's questions and results to its caller. The variant
/// that resumes after a crash follows every event of its child and never calls its own kind. The one that fails only
/// waits for the end, and delegates some work to the other variant, so that trees have grandchildren.
#[derive(Debug)]
pub struct Leads {
    /// The record of turns at work.
    pub roster: Roster,
    /// What to do with its turn after a crash.
    pub recovery: Recovery,
}

impl Leads {
    fn follows(&self) -> bool {
        self.recovery == Recovery::Resume
    }

    fn other(&self, work: u64) -> &'static str {
        let at = usize::try_from(work).unwrap_or(0) % OTHERS.len();
        if !self.follows() && work.is_multiple_of(3) { "leads" } else { OTHERS[at] }
    }
}

impl Agent for Leads {
    async fn turn(&self, cx: &mut Context) -> Result<Ending, Failure> {
        let _present = self.roster.sign(cx);
        let first = cx.before().and_then(|task| task.history.first()).unwrap_or_else(|| cx.message());
        let to = AgentName::parse(self.other(wanted(&first.joined_text())))?;
        let mut child = cx.delegate(&to, "help", first.parts.clone(), None).await?;
        if cx.before().is_some() {
            child.answer(cx.message().parts.clone()).await?;
        }
        if self.follows() {
            let mut last = sabir_proto::Seq(0);
            while let Some(event) = child.next().await {
                let event = event?;
                if event.seq != last.next() {
                    return Ok(Ending::fail(format!("event {} of a child came after {last}", event.seq)));
                }
                last = event.seq;
            }
        }
        let task = child.rest().await?.thaw().ok_or(std::fmt::Error)?;
        let said = task.status.message.as_ref().map(Message::joined_text).unwrap_or_default();
        Ok(match task.status.state {
            TaskState::Completed => Ending::complete_with(said),
            TaskState::InputRequired => Ending::ask_input(said),
            state => Ending::fail(format!("{to} is {state}: {said}")),
        })
    }

    fn nature(&self) -> Nature {
        nature(self.recovery)
    }
}
