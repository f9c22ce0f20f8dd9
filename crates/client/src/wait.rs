//! Waiting for a task by asking, and what waiting ends in.

use crate::agent::Agent;
use crate::{Error, Note, Said};
use sabir_proto::{Answer, Fault, Message, NonText, SendMessage, TaskRef, TaskState, TheirTask};
use std::time::Duration;

/// How often to ask: at first, and with growing pauses later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The pause between the first questions.
    pub first: Duration,
    /// How many questions are asked at that pace before it slows down.
    pub steady: u32,
    /// The longest pause.
    pub max: Duration,
    /// How many questions in a row may fail.
    pub failures_max: u32,
}

impl Pace {
    /// At this interval first, and never much slower than every half minute.
    pub fn every(first: Duration) -> Self {
        Self { first, max: first.max(Duration::from_secs(30)), ..Self::default() }
    }

    /// The pause before the question of this number, and after this many failures in a row.
    fn pause(&self, question: u32, failures: u32) -> Duration {
        let slower = question.saturating_sub(self.steady).min(64);
        let grown = self.first.mul_f64(1.5_f64.powi(slower.cast_signed()).min(1e6));
        let grown = grown.min(self.max.max(self.first));
        grown.saturating_mul(2_u32.saturating_pow(failures.min(8))).min(self.max.max(self.first))
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(2), steady: 5, max: Duration::from_secs(30), failures_max: 3 }
    }
}

/// Asks for a task again and again.
pub(crate) struct Poll {
    task: TaskRef,
    pace: Pace,
    questions: u32,
    failures: u32,
    waits: bool,
    retry_after: Option<Duration>,
}

impl Poll {
    /// Asks at once, then in its pace.
    pub(crate) const fn at_once(task: TaskRef, pace: Pace) -> Self {
        Self { task, pace, questions: 0, failures: 0, waits: false, retry_after: None }
    }

    /// Waits before the first question too.
    pub(crate) const fn after_a_pause(task: TaskRef, pace: Pace) -> Self {
        Self { task, pace, questions: 0, failures: 0, waits: true, retry_after: None }
    }

    /// How long to wait now. Nobody is waited for longer than the pace allows, whatever they ask.
    fn pause(&self) -> Duration {
        match self.retry_after {
            Some(asked) => asked.min(self.pace.max.max(self.pace.first)),
            None => self.pace.pause(self.questions, self.failures),
        }
    }

    /// Waits and asks. A question that fails in passing is asked again, a few times.
    pub(crate) async fn next(&mut self, agent: &Agent) -> Result<Said<TheirTask>, Error> {
        loop {
            if self.waits {
                tokio::time::sleep(self.pause()).await;
            }
            self.waits = true;
            self.questions += 1;
            match agent.task_once(&self.task).await {
                Ok(said) => {
                    (self.failures, self.retry_after) = (0, None);
                    return Ok(said);
                }
                Err(error) if error.is_passing() && self.failures + 1 < self.pace.failures_max => {
                    self.failures += 1;
                    self.retry_after = error.retry_after();
                    let (attempt, reason, pause) = (self.failures, error.to_string(), self.pause());
                    agent.line().door.note(&Note::Retry { attempt, pause, reason: &reason });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a message came to. A failed task is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A direct reply.
    Message(Box<Message>),
    /// Done.
    Completed(Box<TheirTask>),
    /// It did not work.
    Failed(Box<TheirTask>),
    /// The agent declined.
    Rejected(Box<TheirTask>),
    /// Somebody cancelled it.
    Canceled(Box<TheirTask>),
    /// The agent asks something.
    InputRequired(Box<TheirTask>),
    /// The agent needs an authorisation.
    AuthRequired(Box<TheirTask>),
}

impl Outcome {
    /// What a task came to; `None` while it is at work.
    pub fn of(task: TheirTask) -> Option<Self> {
        let wrap = match task.status.state {
            TaskState::Completed | TaskState::Transferred => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Rejected => Self::Rejected,
            TaskState::Canceled => Self::Canceled,
            TaskState::InputRequired => Self::InputRequired,
            TaskState::AuthRequired => Self::AuthRequired,
            TaskState::Submitted | TaskState::Working | TaskState::Unspecified => return None,
        };
        Some(wrap(Box::new(task)))
    }

    /// The task, where there is one.
    pub fn task(&self) -> Option<&TheirTask> {
        match self {
            Self::Message(_) => None,
            Self::Completed(task)
            | Self::Failed(task)
            | Self::Rejected(task)
            | Self::Canceled(task)
            | Self::InputRequired(task)
            | Self::AuthRequired(task) => Some(task),
        }
    }

    /// Whether the agent did what it was asked.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Completed(_))
    }

    /// The text of the answer; see [`sabir_proto::Task::answer_text`].
    pub fn text(&self) -> String {
        match self {
            Self::Message(message) => message.joined_text(),
            _ => self.task().map(|task| task.answer_text(NonText::Skip)).unwrap_or_default(),
        }
    }
}

impl Agent {
    /// Sends a message without waiting, then asks until something came of it.
    pub async fn send_and_wait(&self, request: SendMessage, pace: Pace) -> Result<Said<Outcome>, Error> {
        self.line().door.within(self.send_then_poll(request, pace)).await
    }

    async fn send_then_poll(&self, mut request: SendMessage, pace: Pace) -> Result<Said<Outcome>, Error> {
        request.configuration.return_immediately = true;
        let said = self.send(request).await?;
        let task = match said.value.clone() {
            Answer::SentMessage(message) => return Ok(said.map(|_| Outcome::Message(message))),
            Answer::SentTask(task) => task,
            _ => return Err(Error::local(Fault::InvalidAgentResponse("neither a task nor a message".into()))),
        };
        let id = task.id.clone();
        if let Some(outcome) = Outcome::of(*task) {
            return Ok(said.map(|_| outcome));
        }
        let settled = self.poll(Poll::after_a_pause(id, pace)).await?;
        settled.try_map(outcome)
    }

    /// Asks for a task until it settles or waits for somebody.
    pub async fn wait(&self, task: TaskRef, pace: Pace) -> Result<Said<TheirTask>, Error> {
        self.line().door.within(self.poll(Poll::at_once(task, pace))).await
    }

    async fn poll(&self, mut poll: Poll) -> Result<Said<TheirTask>, Error> {
        loop {
            let said = poll.next(self).await?;
            let state = said.value.status.state;
            if state.is_settled() || state.is_interrupted() {
                return Ok(said);
            }
        }
    }
}

fn outcome(task: TheirTask) -> Result<Outcome, Error> {
    Outcome::of(task).ok_or_else(|| Error::local(Fault::InvalidAgentResponse("the task is not done".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_steady_at_first_then_slows_down_to_a_bound() {
        let pace = Pace::every(Duration::from_secs(2));
        let pauses: Vec<u64> = (0..14).map(|q| pace.pause(q, 0).as_secs()).collect();
        assert_eq!(&pauses[..6], &[2; 6]);
        assert_eq!(pauses[6], 3);
        assert_eq!(pauses[13], 30);
        // A failure doubles the pause, within the bound; a slow pace stays what it was asked to be.
        assert_eq!(pace.pause(0, 1).as_secs(), 4);
        assert_eq!(pace.pause(0, 9).as_secs(), 30);
        assert_eq!(Pace::every(Duration::from_secs(60)).pause(40, 3).as_secs(), 60);
    }
}
