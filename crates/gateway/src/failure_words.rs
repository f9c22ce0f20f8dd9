//! Words for callers about a call that failed: what went wrong and when the next attempt is.
//!
//! A caller may read all of them. They hold no host, no URL and no words of the other side; those are in our log.

use crate::remote::asks_for_later;
use sabir_client::{Error, UnreachableCause};
use sabir_proto::FaultCode;
use std::time::Duration;
use url::Url;

/// How long an answer may take before the caller is told that we still wait for it.
pub const SILENCE_REPORTED_AFTER: Duration = Duration::from_secs(10);

/// The cause of a failed call, as it stands in parentheses.
pub fn failure_reason(error: &Error) -> &'static str {
    match error {
        Error::Unreachable { cause: UnreachableCause::ConnectionRefused, .. } => "connection refused",
        Error::Unreachable { cause: UnreachableCause::NameNotResolved, .. } => "its host name does not resolve",
        Error::Unreachable { cause: UnreachableCause::ConnectTimeout, .. } => "no connection in time",
        Error::Unreachable { cause: UnreachableCause::GatewayAnswer, .. } => "it is not available",
        Error::Unreachable { safe: true, .. } => "no connection",
        Error::Unreachable { .. } | Error::StreamLost { .. } => "the connection broke off",
        Error::Timeout { .. } => "no answer in time",
        Error::TooLarge { .. } => "its answer is too large",
        Error::CapacityExceeded => "there is no room for its answer",
        Error::CardNotFound { .. } => "it has no agent card",
        error if asks_for_later(error) => "it asks to be called later",
        Error::Fault { fault, .. } if fault.code() == FaultCode::Unavailable => "it is not available",
        _ => "its answer cannot be used",
    }
}

/// Whether nothing listens at the address: it refuses connections, or its name has no address.
pub(crate) fn is_not_listening(error: &Error) -> bool {
    let Error::Unreachable { cause, safe: true, .. } = error else { return false };
    matches!(cause, UnreachableCause::ConnectionRefused | UnreachableCause::NameNotResolved)
}

/// An address for our log: scheme, host and path, without a query or credentials.
pub fn address_words(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// A time to wait, rounded up: `8 s`, `5 min`.
pub fn duration_words(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000).max(1);
    match seconds {
        ..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_what_a_person_reads() {
        for (millis, words) in [(0, "1 s"), (50, "1 s"), (1001, "2 s"), (119_000, "119 s"), (299_500, "5 min")] {
            assert_eq!(duration_words(Duration::from_millis(millis)), words);
        }
    }
}
