//! One request to an endpoint, with its attempts, and what the caller learns about them.

use super::answer;
use http::StatusCode;
use sabir_engine::{Context, Ending, Failure};
use sabir_gateway::{
    EndpointClient, EndpointRequest, EndpointResponse, Error, SILENCE_REPORTED_AFTER, address_words, duration_words,
    failure_reason, redact,
};
use std::pin::pin;
use std::time::Duration;
use url::Url;

/// The wait before the second attempt; each later wait is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest wait before an attempt, also if the endpoint asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Requests of one turn to one endpoint.
#[derive(Clone, Copy)]
pub(in crate::agents) struct EndpointCall<'a> {
    pub(in crate::agents) cx: &'a Context,
    pub(in crate::agents) endpoint: &'a EndpointClient,
    pub(in crate::agents) url: &'a Url,
    /// Maximum size of one answer, in bytes.
    pub(in crate::agents) bytes_max: usize,
    /// Maximum number of attempts for one request.
    pub(in crate::agents) attempts_max: u32,
}

/// Which failures a request is repeated after, besides those that kept it from arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::agents) enum RepeatAfter {
    /// After no other failure.
    Nothing,
    /// An answer that the endpoint is busy.
    Busy,
    /// `Busy`, and any failure that may pass.
    AnyFailure,
}

impl EndpointCall<'_> {
    /// Sends the request, and repeats it where that is safe, until an answer begins. The caller is told of each failed
    /// attempt that is followed by another one.
    pub(in crate::agents) async fn send(
        &self,
        asking: EndpointRequest,
        repeat: RepeatAfter,
    ) -> Result<EndpointResponse, Failure> {
        let (mut pause, mut told) = (PAUSE_MIN, false);
        for attempt in 1.. {
            let asked = self.wait_for_answer(self.endpoint.send(asking.clone(), self.bytes_max), &mut told).await?;
            let (again, after) = match &asked {
                Ok(answer) => (repeat != RepeatAfter::Nothing && is_busy(answer.status()), answer.retry_after()),
                Err(error) => {
                    let passing = repeat == RepeatAfter::AnyFailure && error.is_transient();
                    (passing || error.cannot_have_arrived(), None)
                }
            };
            if !again || attempt >= self.attempts_max {
                if told && asked.is_ok() {
                    // The last status that the caller got is no longer true.
                    self.cx.status("").await?;
                }
                return asked.map_err(|error| self.failed(&error));
            }
            let wait = after.unwrap_or(pause).min(PAUSE_MAX);
            self.report_retry(asked, attempt, wait).await?;
            told = true;
            self.cx.sleep(wait).await;
            pause *= 2;
        }
        Err(Failure("the endpoint behind this agent was not asked".into()))
    }

    /// Waits for an answer to begin. If that takes long, the caller is told.
    async fn wait_for_answer<T>(&self, call: impl Future<Output = T>, told: &mut bool) -> Result<T, Failure> {
        let mut call = pin!(call);
        if let Ok(answer) = tokio::time::timeout(SILENCE_REPORTED_AFTER, call.as_mut()).await {
            return Ok(answer);
        }
        let silence = duration_words(SILENCE_REPORTED_AFTER);
        self.cx.status(format!("no answer from the endpoint behind this agent for {silence}; still waiting")).await?;
        *told = true;
        Ok(call.await)
    }

    async fn report_retry(
        &self,
        asked: Result<EndpointResponse, Error>,
        attempt: u32,
        wait: Duration,
    ) -> Result<(), Failure> {
        let (agent, task, url, next) =
            (self.cx.agent(), self.cx.task_id(), address_words(self.url), duration_words(wait));
        let words = match asked {
            Ok(answer) => {
                let code = answer.status().as_u16();
                tracing::warn!(%agent, %task, url, attempt, code, "an endpoint behind an agent is busy or broken");
                format!("the endpoint behind this agent is busy or broken (HTTP {code}); next attempt in {next}")
            }
            Err(error) => {
                tracing::warn!(%agent, %task, url, attempt, %error, "an endpoint behind an agent cannot be reached");
                format!(
                    "cannot reach the endpoint behind this agent ({}); next attempt in {next}",
                    failure_reason(&error)
                )
            }
        };
        Ok(self.cx.status(words).await?)
    }

    /// The caller is told what happened. The log also says with which endpoint.
    pub(in crate::agents) fn failed(&self, error: &Error) -> Failure {
        let (agent, task, url) = (self.cx.agent(), self.cx.task_id(), address_words(self.url));
        tracing::warn!(%agent, %task, url, %error, "an endpoint behind an agent did not answer as it should");
        Failure(match error {
            Error::Timeout { .. } => "the endpoint behind this agent took too long".into(),
            Error::TooLarge { limit, .. } => format!("the endpoint behind this agent said more than {limit} bytes"),
            Error::CapacityExceeded => {
                "there was no room for the answer of the endpoint behind this agent; try again later".into()
            }
            Error::Fault { fault, .. } => {
                let why = fault.to_string();
                format!(
                    "the answer of the endpoint behind this agent cannot be read: {}",
                    redact::process_redactor().agent_text(&why)
                )
            }
            Error::StreamLost { .. } => "the endpoint behind this agent broke off in the middle of its answer".into(),
            Error::Refused(_) => "the endpoint behind this agent may not be called from here".into(),
            _ => format!("the endpoint behind this agent cannot be reached ({})", failure_reason(error)),
        })
    }

    /// The end of a turn whose request was refused: with the endpoint's own error text, if it is meant for people.
    pub(in crate::agents) async fn refused(&self, answer: EndpointResponse) -> Ending {
        let (status, code) = (answer.status(), answer.status().as_u16());
        let (agent, task, url) = (self.cx.agent(), self.cx.task_id(), address_words(self.url));
        if matches!(code, 401 | 403 | 407) {
            tracing::error!(%agent, %task, url, code, "an endpoint does not accept the credentials that are configured for it");
            return Ending::fail("the endpoint behind this agent did not accept our credentials");
        }
        tracing::warn!(%agent, %task, url, code, "an endpoint behind an agent refused a request");
        let words = match answer.body().await {
            Ok(body) => answer::error_text(&body),
            Err(_) => None,
        };
        let what = if is_busy(status) { "is busy or broken" } else { "refused the request" };
        let why = words.map(|words| format!(": {words}")).unwrap_or_default();
        Ending::fail(format!("the endpoint behind this agent {what} (HTTP {code}){why}"))
    }
}

/// Whether the endpoint says that it is busy or broken for the moment.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502..=504)
}
