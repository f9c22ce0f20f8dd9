//! What a call that failed means for the turn.

use crate::failure_words::{failure_reason, is_absent};
use sabir_client::{Error, TransportCode};
use sabir_engine::Ending;
use sabir_engine::agent::Ended;
use sabir_proto::{Code, Transfer};
use std::time::Duration;

/// Why a call brought no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A later call may succeed.
    Passing(FailedCall),
    /// No call was made: it is not the time, as far as we know.
    Held { why: String, after: Option<Duration> },
    /// It will fail again, for this reason.
    Fatal(Box<Error>),
    /// It will fail again, and this is the end of the task.
    Over(Ending),
    /// The agent has handed the task over.
    Moved(Box<Transfer>),
    /// Our own task is over.
    Ended,
}

/// A call that failed and may succeed later.
#[derive(Debug)]
pub(super) struct FailedCall {
    /// What happened, for our log and for operators.
    pub(super) why: String,
    /// The wait before the next attempt that the agent asks for.
    pub(super) after: Option<Duration>,
    /// What happened, for our caller; `None` where the caller is not told.
    pub(super) reason: Option<&'static str>,
    /// There was an answer, but it is of no use.
    pub(super) answered: bool,
    /// The address refuses connections, or its name does not resolve.
    pub(super) absent: bool,
}

impl FailedCall {
    pub(super) fn new(error: &Error) -> Self {
        let answered = !matches!(error, Error::Unreachable { .. } | Error::Timeout { .. } | Error::StreamLost { .. });
        Self {
            why: error.to_string(),
            after: error.retry_after(),
            reason: Some(failure_reason(error)),
            answered,
            absent: is_absent(error),
        }
    }

    /// A failure that our caller is not told about: the next attempt is expected to succeed.
    pub(super) fn untold(error: &Error) -> Self {
        Self { reason: None, ..Self::new(error) }
    }
}

impl From<Ended> for Trouble {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        if is_held(&error) {
            return Self::Held { why: error.to_string(), after: error.retry_after() };
        }
        if may_pass(&error) {
            return Self::Passing(FailedCall::new(&error));
        }
        Self::Fatal(Box::new(error))
    }
}

/// How a task ends after an error that will not pass. Our caller is told the agent's words; details of the way are for
/// our log.
pub(super) fn failed(error: &Error) -> Ending {
    match error {
        Error::Fault { fault, .. } => {
            let broken = matches!(fault.code(), Code::Internal | Code::InvalidAgentResponse | Code::Unavailable);
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
pub(super) fn may_pass(error: &Error) -> bool {
    error.is_passing() || matches!(error, Error::CardNotFound { .. }) || is_put_off(error)
}

/// Whether we made no call, because it is not the time.
pub(crate) fn is_held(error: &Error) -> bool {
    matches!(error, Error::Fault { fault, transport: None, .. } if fault.code() == Code::Unavailable)
}

/// Whether the agent itself has answered that it is not the time, and so has done nothing. A gateway between us may say
/// the same of an agent that is at work: that it gave up waiting says nothing about what it waited for.
pub(crate) fn is_put_off(error: &Error) -> bool {
    let Error::Fault { fault, transport: Some(transport), retry_after } = error else { return false };
    if !matches!(fault.code(), Code::Unavailable | Code::Exhausted | Code::TooMany) {
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
        Error::TooLarge { .. } | Error::Crowded => true,
        Error::Fault { fault, transport, .. } => match (fault.code(), transport) {
            (Code::InvalidAgentResponse, Some(TransportCode::Http(status))) => !(300..500).contains(status),
            (Code::InvalidAgentResponse, _) => true,
            (Code::Unavailable, Some(_)) => !is_put_off(error),
            _ => false,
        },
        _ => false,
    }
}
