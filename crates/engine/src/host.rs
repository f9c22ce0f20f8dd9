//! The host interface: clock, randomness, timers and background jobs, given to the engine as an argument.

use sabir_proto::{Stamp, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the engine needs from its process. A server gives it the real one, the simulator one of its own.
pub trait Host: Send + Sync + 'static {
    /// The time of day. May jump.
    fn now(&self) -> Timestamp;
    /// 64 random bits that cannot be predicted.
    fn random(&self) -> u64;
    /// Completes after this long.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
    /// Runs a future to its end, also when the caller has gone.
    fn spawn(&self, future: BoxFuture<'static, ()>);
}

/// Makes stamps: each above the last, none ahead of the clock by more than it must.
#[derive(Debug, Default)]
pub(crate) struct Stamper(AtomicU64);

impl Stamper {
    pub(crate) fn next(&self, now: Timestamp) -> Stamp {
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            let next = Stamp::from_u64(last).next(now).get();
            match self.0.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Stamp::from_u64(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// Makes all later stamps greater than this one.
    pub(crate) fn advance_past(&self, stamp: Stamp) {
        self.0.fetch_max(stamp.get(), Ordering::Relaxed);
    }
}
