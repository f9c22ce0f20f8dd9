//! The host of a test engine: a clock that a test can move, reproducible randomness, and jobs that end with a crash.

use crate::{BoxFuture, Timestamp};
use sabir_engine::Host;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The time of day when a test begins: 1 June 2026, 10:00 UTC, in milliseconds since 1970.
const START_MS: i64 = 1_780_308_000_000;
/// Sleeps of at least this length are limits of the engine, such as the time that a turn may take. They are not
/// skipped.
const LIMIT_MIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// Locks a mutex. A test that panicked while it held the lock has failed already.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that survives a crash: the clock continues, and random numbers do not repeat.
pub(super) struct Environment {
    began: Instant,
    sleeps: Mutex<Sleeps>,
    /// Notified when a sleep begins and when the clock is moved.
    changed: Notify,
    random_calls: AtomicU64,
}

#[derive(Default)]
struct Sleeps {
    /// How far the clock is ahead of the time that has passed.
    skipped: Duration,
    /// The end of each sleep, by its number.
    ends: BTreeMap<u64, Duration>,
    next: u64,
}

impl Environment {
    pub(super) fn new() -> Arc<Self> {
        let (sleeps, changed, random_calls) = Default::default();
        Arc::new(Self { began: Instant::now(), sleeps, changed, random_calls })
    }

    /// Time since the test began, with what was skipped.
    fn elapsed(&self) -> Duration {
        self.began.elapsed() + lock(&self.sleeps).skipped
    }

    /// Waits until something sleeps, and moves the clock to the end of the sleep that ends first.
    pub(super) async fn skip_sleep(&self) -> Duration {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let now = self.elapsed();
            let skipped = {
                let mut sleeps = lock(&self.sleeps);
                // A sleep that has ended stays in the list until its agent continues.
                let next = sleeps.ends.values().filter(|end| **end > now).min();
                let left = next.map(|end| *end - now);
                sleeps.skipped += left.unwrap_or_default();
                left
            };
            if let Some(skipped) = skipped {
                self.changed.notify_waiters();
                return skipped;
            }
            changed.await;
        }
    }

    async fn sleep(self: Arc<Self>, duration: Duration) {
        if duration >= LIMIT_MIN {
            return tokio::time::sleep(duration).await;
        }
        let end = self.elapsed() + duration;
        let sleep = Sleep::begin(self, end);
        let world = &sleep.environment;
        loop {
            let changed = world.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let left = end.saturating_sub(world.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                () = changed => {}
            }
        }
    }
}

/// A sleep that [`Environment::skip_sleep`] can end; removed from the list when its future is dropped.
struct Sleep {
    environment: Arc<Environment>,
    number: u64,
}

impl Sleep {
    fn begin(environment: Arc<Environment>, end: Duration) -> Self {
        let number = {
            let mut sleeps = lock(&environment.sleeps);
            sleeps.next += 1;
            let number = sleeps.next;
            sleeps.ends.insert(number, end);
            number
        };
        environment.changed.notify_waiters();
        Self { environment, number }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        lock(&self.environment.sleeps).ends.remove(&self.number);
    }
}

/// The host of one process. Everything that it runs ends when the process is killed.
pub(super) struct TestHost {
    environment: Arc<Environment>,
    /// `None` once the process was killed.
    jobs: Mutex<Option<JoinSet<()>>>,
}

impl TestHost {
    pub(super) fn new(environment: Arc<Environment>) -> Self {
        Self { environment, jobs: Mutex::new(Some(JoinSet::new())) }
    }

    /// Drops all running jobs, wherever they are suspended, and waits until they are gone.
    pub(super) async fn kill(&self) {
        let jobs = lock(&self.jobs).take();
        if let Some(mut jobs) = jobs {
            jobs.shutdown().await;
        }
    }
}

impl Host for TestHost {
    fn now(&self) -> Timestamp {
        let ms = i64::try_from(self.environment.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(START_MS.saturating_add(ms))
    }

    /// The same numbers in every run of a test (SplitMix64), and no number twice in one run.
    fn random(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut bits = self.environment.random_calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.environment.clone().sleep(duration))
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        if let Some(jobs) = &mut *lock(&self.jobs) {
            // Removes ended jobs, or the set would grow for as long as the test runs.
            while jobs.try_join_next().is_some() {}
            jobs.spawn(future);
        }
    }
}
