//! The clock, randomness and tasks that the engine uses in production.

use sabir_engine::{BoxFuture, Host};
use sabir_proto::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock, the random numbers of the operating system, and tokio tasks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TokioHost;

impl Host for TokioHost {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn random(&self) -> u64 {
        // The thread-local generator: seeded by the operating system, buffered, and not predictable from its output.
        rand::random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        // The engine tracks the task in its list of live tasks; `Engine::stop` waits for it.
        drop(tokio::spawn(future));
    }
}
