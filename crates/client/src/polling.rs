//! Polls a task until it ends, and reports the outcome.

use crate::agent::Agent;
use crate::{AgentResponse, Error, Observation};
use sabir_proto::{Fault, Message, NonText, SendMessage, TaskRef, TaskState, WireReply, WireTask};
use std::pin::pin;
use std::time::Duration;

/// The schedule of polls: a steady pace at first, then growing pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollSchedule {
    /// The pause between the first polls.
    pub first: Duration,
    /// The number of polls at that pace before it slows down.
    pub steady: u32,
    /// The longest pause between polls.
    pub max: Duration,
    /// The number of polls in a row that may fail.
    pub failures_max: u32,
}

impl PollSchedule {
    /// A schedule that begins with this pause, and slows down to at most every half minute.
    pub fn every(first: Duration) -> Self {
        Self { first, max: first.max(Duration::from_secs(30)), ..Self::default() }
    }

    /// The pause before a poll, by its number and the number of failures in a row.
    fn pause(&self, question: u32, failures: u32) -> Duration {
        let slower = question.saturating_sub(self.steady).min(64);
        let grown = self.first.mul_f64(1.5_f64.powi(slower.cast_signed()).min(1e6));
        let grown = grown.min(self.max.max(self.first));
        grown.saturating_mul(2_u32.saturating_pow(failures.min(8))).min(self.max.max(self.first))
    }
}

impl Default for PollSchedule {
    fn default() -> Self {
        Self { first: Duration::from_secs(2), steady: 5, max: Duration::from_secs(30), failures_max: 3 }
    }
}

/// Polls a task repeatedly.
pub(crate) struct TaskPoller {
    task: TaskRef,
    pace: PollSchedule,
    questions: u32,
    failures: u32,
    waits: bool,
    retry_after: Option<Duration>,
}

impl TaskPoller {
    /// Polls at once, then on schedule.
    pub(crate) const fn starting_now(task: TaskRef, pace: PollSchedule) -> Self {
        Self { task, pace, questions: 0, failures: 0, waits: false, retry_after: None }
    }

    /// Waits before the first poll too.
    pub(crate) const fn starting_after_pause(task: TaskRef, pace: PollSchedule) -> Self {
        Self { task, pace, questions: 0, failures: 0, waits: true, retry_after: None }
    }

    /// The pause before the next poll. A longer `Retry-After` of the agent is shortened to the longest pause.
    fn pause(&self) -> Duration {
        match self.retry_after {
            Some(asked) => asked.min(self.pace.max.max(self.pace.first)),
            None => self.pace.pause(self.questions, self.failures),
        }
    }

    /// Waits and polls. A poll with a transient error is repeated, up to the limit of failures.
    pub(crate) async fn next(&mut self, agent: &Agent) -> Result<AgentResponse<WireTask>, Error> {
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
                Err(error) if error.is_transient() && self.failures + 1 < self.pace.failures_max => {
                    self.failures += 1;
                    self.retry_after = error.retry_after();
                    let (attempt, reason, pause) = (self.failures, error.to_string(), self.pause());
                    agent.transport().http_client.observe(&Observation::Retry { attempt, pause, reason: &reason });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The outcome of a message. A failed task is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendOutcome {
    /// The agent gave a direct reply.
    Message(Box<Message>),
    /// The task is completed, or was handed over.
    Completed(Box<WireTask>),
    /// The task has failed.
    Failed(Box<WireTask>),
    /// The agent rejected the task.
    Rejected(Box<WireTask>),
    /// The task was cancelled.
    Canceled(Box<WireTask>),
    /// The agent asks for input.
    InputRequired(Box<WireTask>),
    /// The agent needs an authorization.
    AuthRequired(Box<WireTask>),
}

impl SendOutcome {
    /// The outcome of a task; `None` while the agent works on it.
    pub fn of(task: WireTask) -> Option<Self> {
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

    /// The task, unless the agent gave a direct reply.
    pub fn task(&self) -> Option<&WireTask> {
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

    /// Whether the agent did what it was asked to do.
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
    /// Sends a message without waiting, then polls until there is an outcome.
    pub async fn send_and_wait(
        &self,
        request: SendMessage,
        pace: PollSchedule,
    ) -> Result<AgentResponse<SendOutcome>, Error> {
        self.transport().http_client.with_total_timeout(pin!(self.send_then_poll(request, pace))).await
    }

    async fn send_then_poll(
        &self,
        mut request: SendMessage,
        pace: PollSchedule,
    ) -> Result<AgentResponse<SendOutcome>, Error> {
        request.configuration.return_immediately = true;
        let said = self.send(request).await?;
        let task = match said.value.clone() {
            WireReply::SentMessage(message) => return Ok(said.map(|_| SendOutcome::Message(message))),
            WireReply::SentTask(task) => task,
            _ => return Err(Error::local(Fault::InvalidAgentResponse("neither a task nor a message".into()))),
        };
        let id = task.id.clone();
        if let Some(outcome) = SendOutcome::of(*task) {
            return Ok(said.map(|_| outcome));
        }
        let settled = self.poll(TaskPoller::starting_after_pause(id, pace)).await?;
        settled.try_map(outcome)
    }

    /// Polls a task until it settles, or waits for input or authorization.
    pub async fn wait(&self, task: TaskRef, pace: PollSchedule) -> Result<AgentResponse<WireTask>, Error> {
        self.transport().http_client.with_total_timeout(pin!(self.poll(TaskPoller::starting_now(task, pace)))).await
    }

    async fn poll(&self, mut poll: TaskPoller) -> Result<AgentResponse<WireTask>, Error> {
        loop {
            let said = poll.next(self).await?;
            let state = said.value.status.state;
            if state.is_settled() || state.is_interrupted() {
                return Ok(said);
            }
        }
    }
}

fn outcome(task: WireTask) -> Result<SendOutcome, Error> {
    SendOutcome::of(task).ok_or_else(|| Error::local(Fault::InvalidAgentResponse("the task is not done".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_steady_at_first_then_slows_down_to_a_bound() {
        let pace = PollSchedule::every(Duration::from_secs(2));
        let pauses: Vec<u64> = (0..14).map(|q| pace.pause(q, 0).as_secs()).collect();
        assert_eq!(&pauses[..6], &[2; 6]);
        assert_eq!(pauses[6], 3);
        assert_eq!(pauses[13], 30);
        // A failure doubles the pause, up to the longest one; a slower pace stays as configured.
        assert_eq!(pace.pause(0, 1).as_secs(), 4);
        assert_eq!(pace.pause(0, 9).as_secs(), 30);
        assert_eq!(PollSchedule::every(Duration::from_secs(60)).pause(40, 3).as_secs(), 60);
    }
}
