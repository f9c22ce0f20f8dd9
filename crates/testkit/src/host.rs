//! The host of a simulated engine: a fake clock, seeded randomness and the simulator's executor.

use crate::clock::EPOCH_MS;
use crate::seeded_rng::SeededRng;
use crate::sim::executor::{Executor, JobGroup};
use sabir_engine::{BoxFuture, Host};
use sabir_proto::Timestamp;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The host of one process. Everything it spawns belongs to the process's group and ends with it.
#[derive(Debug)]
pub struct SimHost {
    executor: Executor,
    group: JobGroup,
    rng: Mutex<SeededRng>,
    /// The error of this process's clock in milliseconds; clocks of one machine jump, too.
    skew_ms: i64,
}

impl SimHost {
    /// A host with a correct clock.
    pub const fn new(executor: Executor, group: JobGroup, chance: SeededRng) -> Self {
        Self::with_skew(executor, group, chance, 0)
    }

    /// A host whose clock is off by this much.
    pub const fn with_skew(executor: Executor, group: JobGroup, chance: SeededRng, skew_ms: i64) -> Self {
        Self { executor, group, rng: Mutex::new(chance), skew_ms }
    }
}

impl Host for SimHost {
    fn now(&self) -> Timestamp {
        let ms = i64::try_from(EPOCH_MS + self.executor.now()).unwrap_or(i64::MAX);
        Timestamp::from_millis(ms.saturating_add(self.skew_ms))
    }

    fn random(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).bits()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.executor.sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        // The group owns the job.
        self.executor.spawn(self.group, future);
    }
}
