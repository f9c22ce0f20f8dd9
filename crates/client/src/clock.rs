//! The time, which tests replace.

use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time, and a way to wait.
pub trait Clock: Send + Sync {
    /// The time in Unix seconds.
    fn now(&self) -> u64;
    /// Waits for a duration.
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> u64 {
        // With a clock before 1970 every token is fresh; such a clock has other problems.
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}
