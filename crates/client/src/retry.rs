//! Retries: which requests may be sent again, and how often.
//!
//! A request that only reads may be sent again after any transient failure. A request that changes something may be
//! sent again only if it cannot have arrived: after an ambiguous failure only the caller knows whether doing it twice
//! is harmless.

use crate::http_client::HttpClient;
use crate::{Error, Observation};
use rand::RngExt as _;
use sabir_proto::Call;
use std::time::Duration;

/// The number of attempts for a request, including the first one.
pub(crate) const ATTEMPTS_MAX: u32 = 3;
/// The pause before the first retry; it doubles each time.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest `Retry-After` that is waited here; callers with more time retry themselves.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);

/// Whether a request may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetrySafety {
    /// The request changes nothing, or has the same effect each time.
    Idempotent,
    /// The request must not be sent again once it may have arrived.
    Once,
}

/// Tells whether a call may be retried.
pub(crate) const fn safety(call: &Call) -> RetrySafety {
    match call {
        Call::Get(_)
        | Call::List(_)
        | Call::Subscribe(_)
        | Call::GetPush(_)
        | Call::ListPush(_)
        // Deleting what is already gone succeeds.
        | Call::DeletePush(_)
        | Call::ExtendedCard { .. } => RetrySafety::Idempotent,
        // A second cancel may be refused because the task is already cancelled, which looks like a failure.
        Call::Send(_) | Call::Stream(_) | Call::Cancel(_) | Call::CreatePush { .. } => RetrySafety::Once,
    }
}

/// Makes a request, and retries it while that is safe and may succeed. With `most` at 1 there is no retry: such callers
/// count and pace attempts themselves.
pub(crate) async fn with_retries<T, F>(
    http_client: &HttpClient,
    most: u32,
    safety: RetrySafety,
    mut request: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut attempt = 1;
    loop {
        let error = match request().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let again = match safety {
            // A retry after a timeout would only wait twice for a peer that does not answer.
            RetrySafety::Idempotent => error.is_transient() && !matches!(error, Error::Timeout { .. }),
            RetrySafety::Once => error.cannot_have_arrived(),
        };
        let asked = error.retry_after();
        if !again || attempt >= most || asked.is_some_and(|after| after > RETRY_AFTER_MAX) {
            return Err(error);
        }
        let pause = asked.unwrap_or_else(|| jitter(PAUSE_FIRST * 2_u32.pow(attempt - 1)));
        attempt += 1;
        http_client.observe(&Observation::Retry { attempt, pause, reason: &error.to_string() });
        tokio::time::sleep(pause).await;
    }
}

/// A random pause between half and all of `pause`, so that clients that failed together do not retry together.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..=1.0))
}
