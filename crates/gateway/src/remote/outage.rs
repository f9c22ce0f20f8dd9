//! What our caller hears while an agent cannot be reached, and when a task fails for it.
//!
//! | The message | Our caller hears | The task fails |
//! |---|---|---|
//! | never left: connections refused, or no such name | each attempt, and the next | after `connect_give_up` |
//! | never left, for another reason | the same | after the attempts of `WaitLimits` |
//! | may have arrived | the same, and that this is not known | the same |
//! | may have arrived, no answer yet | that, after [`SILENCE_REPORTED_AFTER`] | after the silence of `WaitLimits` |
//! | has arrived | the same, and that the task may go on there | the same |
//! | may not leave: a breaker is open | once, and when the next call is | as in the first row, if that was the reason |
//!
//! There is at most one event for each attempt, and the pauses between attempts grow, so their number is bounded.

use super::call_failure::{CallFailure, RetryableFailure};
use super::checkpoint::Absence;
use super::followed_transfer::public_address;
use super::remote_turn::RemoteTurn;
use crate::failure_words::{SILENCE_REPORTED_AFTER, duration_words};
use sabir_client::Error;
use sabir_engine::Ending;
use sabir_engine::agent::TaskEnded;
use std::pin::pin;
use std::time::Duration;

impl RemoteTurn<'_> {
    /// Records a failed call that began at this time.
    pub(super) fn record_failure(&mut self, failed: &RetryableFailure, begun: i64) {
        self.checkpoint.attempts += 1;
        let (agent, url, attempt) = (&self.remote.upstream.name, self.last_address(), self.checkpoint.attempts);
        tracing::warn!(task = %self.cx.task_id(), agent, url, attempt, error = failed.why,
            "a call to an agent elsewhere failed");
        match failed.reason.filter(|_| failed.not_listening && !self.may_have_begun()) {
            Some(reason) => self.record_absence(reason, begun),
            None => self.checkpoint.absent = None,
        }
    }

    fn record_absence(&mut self, reason: &str, begun: i64) {
        let (since, attempts) =
            self.checkpoint.absent.as_ref().map_or((begun, 0), |absent| (absent.since, absent.attempts));
        self.checkpoint.absent = Some(Absence { since, attempts: attempts + 1, reason: reason.into() });
    }

    /// Logs an error that will not pass.
    pub(super) fn log_fatal(&self, error: &Error) {
        let (task, agent, url) = (self.cx.task_id(), &self.remote.upstream.name, self.last_address());
        match error {
            Error::Fault { .. } => tracing::info!(%task, agent, url, %error, "an agent elsewhere refused a call"),
            Error::AuthFailed { .. } | Error::CredentialsMissing { .. } => {
                tracing::error!(%task, agent, url, %error, "a remote agent does not accept the credentials that are configured for it");
            }
            _ => tracing::error!(%task, agent, url, %error, "a remote agent cannot be called"),
        }
    }

    /// Tells our caller of a failed call, and when the next attempt is.
    pub(super) async fn report_failure(&mut self, failed: &RetryableFailure, pause: Duration) -> Result<(), TaskEnded> {
        let Some(reason) = failed.reason else { return Ok(()) };
        let head = match failed.answered {
            true => "the agent behind this one did not answer as it should",
            false => "cannot reach the agent behind this one",
        };
        let next = duration_words(pause);
        let words = match (self.checkpoint.sent, self.checkpoint.tried) {
            (true, _) => format!("{head} ({reason}); the task may go on there; next attempt in {next}"),
            (_, true) => format!(
                "it is not known whether the agent received the message ({reason}); next attempt to find out in {next}"
            ),
            _ => format!("{head} ({reason}); next attempt in {next}"),
        };
        self.report_outage(words).await
    }

    /// Tells our caller that a breaker is open, once, and when the agent is called again.
    pub(super) async fn report_open_breaker(&mut self) -> Result<(), TaskEnded> {
        let Some(after) = self.remote.retry_after().filter(|_| self.checkpoint.moved.is_none()) else { return Ok(()) };
        if self.checkpoint.absent.is_none()
            && !self.may_have_begun()
            && let Some(reason) = self.remote.absence_reason()
        {
            self.checkpoint.absent =
                Some(Absence { since: self.cx.now().millis(), attempts: 0, reason: reason.into() });
        }
        if std::mem::replace(&mut self.open_breaker_reported, true) {
            return Ok(());
        }
        let next = duration_words(after);
        let words = match self.connect_time_left().filter(|left| *left < after) {
            Some(left) => format!(
                "the agent behind this one failed again and again and is not called for {next}; this task fails in {}",
                duration_words(left)
            ),
            None => format!("the agent behind this one failed again and again; next attempt in {next}"),
        };
        self.report_outage(words).await
    }

    async fn report_outage(&mut self, words: String) -> Result<(), TaskEnded> {
        self.cx.status(words).await?;
        self.checkpoint.outage_told = true;
        self.cx.set_next_checkpoint(self.checkpoint.encode());
        Ok(())
    }

    /// Takes back what our caller was told, before something that says nothing about the state.
    pub(super) async fn report_recovery(&mut self) -> Result<(), CallFailure> {
        if std::mem::take(&mut self.checkpoint.outage_told) {
            self.report(self.cx.status("")).await?;
        }
        Ok(())
    }

    /// How long connections may still be refused before the task fails; `None` where that has no bound, or none was.
    pub(super) fn connect_time_left(&self) -> Option<Duration> {
        let give_up = self.remote.upstream.wait_limits.connect_time_max?;
        let absent = self.checkpoint.absent.as_ref().filter(|_| !self.may_have_begun())?;
        Some(give_up.saturating_sub(self.time_since(absent.since)))
    }

    /// Waits for the answer to a message, and tells our caller where that takes long.
    pub(super) async fn await_answer<T>(&mut self, call: impl Future<Output = T>) -> Result<T, TaskEnded> {
        let mut call = pin!(call);
        if let Ok(answer) = tokio::time::timeout(SILENCE_REPORTED_AFTER, call.as_mut()).await {
            return Ok(answer);
        }
        let silence = duration_words(SILENCE_REPORTED_AFTER);
        let words =
            format!("no answer from the agent behind this one for {silence}; it may have the message; still waiting");
        self.report_outage(words).await?;
        Ok(call.await)
    }

    /// Whether the message never left and no replica could be connected to, for too long.
    pub(super) fn is_absent_for_too_long(&self) -> bool {
        let elsewhere = || self.remote.replicas.iter().any(|replica| !self.has_failed_at(replica));
        self.called && self.connect_time_left() == Some(Duration::ZERO) && !elsewhere()
    }

    /// The end of a task whose message never left.
    pub(super) fn never_reached_ending(&self, absent: &Absence) -> Ending {
        let Absence { reason, attempts, since } = absent;
        let tried = match attempts {
            0 => String::new(),
            1 => ": 1 attempt".into(),
            _ => format!(": {attempts} attempts in {}", duration_words(self.time_since(*since))),
        };
        Ending::fail(format!(
            "cannot reach the agent behind this one ({reason}){tried}; it did not receive the message"
        ))
    }

    /// Whether our message, or an earlier one, may have arrived.
    pub(super) fn may_have_begun(&self) -> bool {
        self.checkpoint.tried || self.checkpoint.task.is_some() || self.cx.before().is_some()
    }

    pub(super) fn time_since(&self, millis: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.cx.now().millis().saturating_sub(millis)).unwrap_or(0))
    }

    /// The address of the last call, without a query or credentials.
    fn last_address(&self) -> String {
        public_address(self.checkpoint.at.as_deref().unwrap_or(&self.remote.upstream.replicas[0].url))
    }
}
