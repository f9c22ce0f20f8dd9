//! What is safe to repeat, and how often.
//!
//! A request that only reads may be sent again after any passing failure. One that changes something may be sent again
//! only if it cannot have arrived: after an ambiguous failure nobody but the caller knows whether doing it twice is
//! harmless.

use crate::door::Door;
use crate::{Error, Note};
use rand::RngExt as _;
use sabir_proto::Call;
use std::time::Duration;

/// How often a request is sent, the first time included.
pub(crate) const ATTEMPTS_MAX: u32 = 3;
/// The pause before the first repetition; it doubles from there.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest `Retry-After` that is waited out here; callers who wait for longer have their own patience.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);

/// Whether a request may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safety {
    /// It changes nothing, or the same thing however often.
    Repeatable,
    /// Once it may have arrived, it is not sent again.
    Once,
}

/// How safe a call is.
pub(crate) const fn safety(call: &Call) -> Safety {
    match call {
        Call::Get(_)
        | Call::List(_)
        | Call::Subscribe(_)
        | Call::GetPush(_)
        | Call::ListPush(_)
        // Deleting what is gone is a success.
        | Call::DeletePush(_)
        | Call::ExtendedCard { .. } => Safety::Repeatable,
        // A repeated cancel may be told that the task was cancelled, which reads as a failure.
        Call::Send(_) | Call::Stream(_) | Call::Cancel(_) | Call::CreatePush { .. } => Safety::Once,
    }
}

/// Makes a request, and makes it again while that is safe and promising.
/// Nothing is made again where `most` is 1: whoever asks so counts and paces by itself.
pub(crate) async fn repeat<T, F>(
    door: &Door,
    most: u32,
    safety: Safety,
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
            // Waiting twice for somebody who does not answer helps nobody.
            Safety::Repeatable => error.is_passing() && !matches!(error, Error::Timeout { .. }),
            Safety::Once => error.cannot_have_arrived(),
        };
        let asked = error.retry_after();
        if !again || attempt >= most || asked.is_some_and(|after| after > RETRY_AFTER_MAX) {
            return Err(error);
        }
        let pause = asked.unwrap_or_else(|| jitter(PAUSE * 2_u32.pow(attempt - 1)));
        attempt += 1;
        door.note(&Note::Retry { attempt, pause, reason: &error.to_string() });
        tokio::time::sleep(pause).await;
    }
}

/// A pause between half and all of its length, so that clients that failed together do not return together.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..=1.0))
}
