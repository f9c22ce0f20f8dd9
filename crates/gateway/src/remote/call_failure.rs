//! What a call that failed means for the turn.

use crate::failure_words::{failure_reason, is_not_listening};
use sabir_client::{Error, TransportCode};
use sabir_engine::Ending;
use sabir_engine::agent::TaskEnded;
use sabir_proto::{FaultCode, Transfer};
use std::time::Duration;

/// Why a call brought no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// A later call may succeed.
    Retryable(RetryableFailure),
    /// The upstream answered that it does not take a message in this form. The turn sends the same message in another
    /// form at once: an answer is no outage, so there is nothing to wait for. Each form is tried once.
    OtherForm { why: String },
    /// No call was made: it is not the time, as far as we know.
    NotCalled { why: String, after: Option<Duration> },
    /// It will fail again, for this reason.
    Fatal(Box<Error>),
    /// It will fail again, and this is the end of the task.
    TaskOver(Ending),
    /// The agent has handed the task over.
    Transferred(Box<Transfer>),
    /// Our own task is over.
    TurnEnded,
}

/// A call that failed and may succeed later.
#[derive(Debug)]
pub(super) struct RetryableFailure {
    /// What happened, for our log and for operators.
    pub(super) why: String,
    /// The wait before the next attempt that the agent asks for.
    pub(super) retry_after: Option<Duration>,
    /// What happened, for our caller; `None` where the caller is not told.
    pub(super) reason: Option<&'static str>,
    /// There was an answer, but it is of no use.
    pub(super) answered: bool,
    /// The address refuses connections, or its name does not resolve.
    pub(super) not_listening: bool,
}

impl RetryableFailure {
    pub(super) fn new(error: &Error) -> Self {
        let answered = !matches!(error, Error::Unreachable { .. } | Error::Timeout { .. } | Error::StreamLost { .. });
        Self {
            why: error.to_string(),
            retry_after: error.retry_after(),
            reason: Some(failure_reason(error)),
            answered,
            not_listening: is_not_listening(error),
        }
    }
}

impl From<TaskEnded> for CallFailure {
    fn from(_: TaskEnded) -> Self {
        Self::TurnEnded
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        if was_not_called(&error) {
            return Self::NotCalled { why: error.to_string(), after: error.retry_after() };
        }
        if is_retryable(&error) {
            return Self::Retryable(RetryableFailure::new(&error));
        }
        Self::Fatal(Box::new(error))
    }
}

/// How a task ends after an error that will not pass. Our caller is told the agent's words; details of the way are for
/// our log.
pub(super) fn ending_after(error: &Error) -> Ending {
    match error {
        Error::Fault { fault, .. } => {
            let broken =
                matches!(fault.code(), FaultCode::Internal | FaultCode::InvalidAgentResponse | FaultCode::Unavailable);
            let verb = if broken { "failed" } else { "refused" };
            Ending::fail(format!("the agent {verb}: {fault}"))
        }
        Error::AuthFailed { .. } | Error::CredentialsMissing { .. } => {
            Ending::fail("the agent behind this one did not accept our credentials")
        }
        _ => Ending::fail("the agent behind this one cannot be called"),
    }
}

/// Whether the same call may succeed later. A missing card may come back: servers start up.
pub(super) fn is_retryable(error: &Error) -> bool {
    error.is_transient() || matches!(error, Error::CardNotFound { .. }) || asks_for_later(error)
}

/// Whether we made no call, because it is not the time.
pub(crate) fn was_not_called(error: &Error) -> bool {
    matches!(error, Error::Fault { fault, transport: None, .. } if fault.code() == FaultCode::Unavailable)
}

/// Whether the agent itself has answered that it is not the time, and so has done nothing. A gateway between us may say
/// the same of an agent that is at work: that it gave up waiting says nothing about what it waited for.
pub(crate) fn asks_for_later(error: &Error) -> bool {
    let Error::Fault { fault, transport: Some(transport), retry_after } = error else { return false };
    if !matches!(fault.code(), FaultCode::Unavailable | FaultCode::Exhausted | FaultCode::RateLimited) {
        return false;
    }
    match transport {
        TransportCode::JsonRpc(_) => true,
        TransportCode::Http(status) => *status == 429 || (*status == 503 && retry_after.is_some()),
        TransportCode::Grpc(name) => *name == "RESOURCE_EXHAUSTED" || (*name == "UNAVAILABLE" && retry_after.is_some()),
    }
}

/// Whether there was an answer that says nothing about what became of the request.
pub(super) fn is_unreadable(error: &Error) -> bool {
    match error {
        Error::TooLarge { .. } | Error::CapacityExceeded => true,
        Error::Fault { fault, transport, .. } => match (fault.code(), transport) {
            (FaultCode::InvalidAgentResponse, Some(TransportCode::Http(status))) => !(300..500).contains(status),
            (FaultCode::InvalidAgentResponse, _) => true,
            (FaultCode::Unavailable, Some(_)) => !asks_for_later(error),
            _ => false,
        },
        _ => false,
    }
}
