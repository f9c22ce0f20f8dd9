//! What a call that failed means for the turn.

use sabir_client::Error;
use sabir_engine::Ending;
use sabir_engine::agent::Ended;
use sabir_proto::Code;
use std::time::Duration;

/// Why a call brought nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may work later; they may have said when.
    Passing { why: String, after: Option<Duration> },
    /// Nobody was called: it is not the time, as far as we know.
    Held { why: String, after: Option<Duration> },
    /// It will not.
    Over(Ending),
    /// Our own task is over.
    Ended,
}

impl From<Ended> for Trouble {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl From<Error> for Trouble {
    /// Our caller is told what the agent said. What we know of the way there is for our log.
    fn from(error: Error) -> Self {
        let after = error.retry_after();
        match error {
            error if is_held(&error) => Self::Held { why: error.to_string(), after },
            error if may_pass(&error) => Self::Passing { why: error.to_string(), after },
            Error::Fault { fault, .. } => Self::Over(Ending::fail(format!("the agent refused: {fault}"))),
            Error::AuthFailed { .. } | Error::CredentialsMissing { .. } => {
                tracing::error!(%error, "a remote agent does not accept the credentials that are configured for it");
                Self::Over(Ending::fail("the agent behind this one did not accept our credentials"))
            }
            error => {
                tracing::error!(%error, "a remote agent cannot be called");
                Self::Over(Ending::fail("the agent behind this one cannot be called"))
            }
        }
    }
}

/// Whether the same call may succeed later. A card that is not there may be put there again: servers start up.
fn may_pass(error: &Error) -> bool {
    error.is_passing() || matches!(error, Error::CardNotFound { .. }) || is_put_off(error)
}

/// Whether we did not call, because it is not the time.
pub(super) fn is_held(error: &Error) -> bool {
    matches!(error, Error::Fault { fault, transport: None, .. } if fault.code() == Code::Unavailable)
}

/// Whether they have answered that it is not the time.
pub(super) fn is_put_off(error: &Error) -> bool {
    match error {
        Error::Fault { fault, transport: Some(_), .. } => {
            matches!(fault.code(), Code::Unavailable | Code::Exhausted | Code::TooMany)
        }
        _ => false,
    }
}
