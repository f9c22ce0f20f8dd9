//! A single-threaded executor whose order of jobs is decided by a seed.
//!
//! Ready jobs have no order: the next one is drawn from all of them, so wake-ups are reordered as a multi-threaded
//! runtime might reorder them. Time stands still while a job is ready, and then jumps to the next timer. Jobs belong to
//! groups, and a group can be dropped as a whole, which is how a process dies.

use crate::clock::{Clock, Timer};
use crate::seeded_rng::SeededRng;
use sabir_engine::BoxFuture;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The executor. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Executor(Arc<SharedExecutor>);

/// Jobs that end together. Zero is for jobs outside all processes.
pub type JobGroup = u32;

/// A future on the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job(pub u64);

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// This job was polled.
    Ran(Job),
    /// No job was ready; time moved to this many milliseconds after the start.
    TimeMoved(u64),
    /// No job is ready, and there is no timer.
    Idle,
}

#[derive(Debug)]
struct SharedExecutor(Mutex<ExecutorState>);

#[derive(Debug)]
struct ExecutorState {
    rng: SeededRng,
    clock: Clock,
    jobs: BTreeMap<Job, JobEntry>,
    ready: Vec<Job>,
    next: u64,
}

struct JobEntry {
    group: JobGroup,
    /// Taken out while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
    is_ready: bool,
}

impl std::fmt::Debug for JobEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("group", &self.group).finish_non_exhaustive()
    }
}

impl SharedExecutor {
    fn lock(&self) -> MutexGuard<'_, ExecutorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct JobWaker {
    job: Job,
    shared: Weak<SharedExecutor>,
}

impl Wake for JobWaker {
    fn wake(self: Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        // The job may have ended or been dropped.
        if let Some(entry) = state.jobs.get_mut(&self.job)
            && !std::mem::replace(&mut entry.is_ready, true)
        {
            state.ready.push(self.job);
        }
    }
}

impl Executor {
    /// An executor without jobs.
    pub fn new(seed: u64) -> Self {
        let (chance, clock) = (SeededRng::new(seed), Clock::default());
        Self(Arc::new(SharedExecutor(Mutex::new(ExecutorState {
            rng: chance,
            clock,
            jobs: BTreeMap::new(),
            ready: Vec::new(),
            next: 0,
        }))))
    }

    /// Milliseconds since the start of the simulation.
    pub fn now(&self) -> u64 {
        self.0.lock().clock.now()
    }

    /// Adds a job to a group.
    pub fn spawn(&self, group: JobGroup, future: BoxFuture<'static, ()>) -> Job {
        let mut state = self.0.lock();
        state.next += 1;
        let job = Job(state.next);
        let waker = Waker::from(Arc::new(JobWaker { job, shared: Arc::downgrade(&self.0) }));
        state.jobs.insert(job, JobEntry { group, future: Some(future), waker, is_ready: true });
        state.ready.push(job);
        job
    }

    /// Completes after this long.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep { at: self.0.lock().clock.after(duration), executor: self.clone(), timer: None }
    }

    /// How far the next step would move time, in milliseconds; `None` when no step can follow.
    pub fn gap(&self) -> Option<u64> {
        let state = self.0.lock();
        if state.ready.is_empty() { state.clock.until_next() } else { Some(0) }
    }

    /// Polls one job that is ready; when there is none, moves time.
    pub fn step(&self) -> StepResult {
        let mut state = self.0.lock();
        if state.ready.is_empty() {
            let wakers = state.clock.advance();
            let now = state.clock.now();
            drop(state);
            let anybody = !wakers.is_empty();
            wakers.into_iter().for_each(Waker::wake);
            return if anybody { StepResult::TimeMoved(now) } else { StepResult::Idle };
        }
        let ExecutorState { rng: chance, ready, jobs, .. } = &mut *state;
        let job = ready.swap_remove(chance.below(ready.len()));
        let Some(entry) = jobs.get_mut(&job) else { return StepResult::Ran(job) };
        entry.is_ready = false;
        let (future, waker) = (entry.future.take(), entry.waker.clone());
        drop(state);
        if let Some(mut future) = future {
            let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            let mut state = self.0.lock();
            match state.jobs.get_mut(&job) {
                Some(entry) if !done => entry.future = Some(future),
                _ => {
                    state.jobs.remove(&job);
                    // Dropped without the lock: dropping a future may wake others.
                    drop(state);
                    drop(future);
                }
            }
        }
        StepResult::Ran(job)
    }

    /// Drops a job at once.
    pub fn abort(&self, job: Job) {
        let entry = self.0.lock().jobs.remove(&job);
        drop(entry);
    }

    /// Drops every job of a group at once, also those that the dropped ones spawn.
    pub fn abort_group(&self, group: JobGroup) {
        let any = || self.0.lock().jobs.iter().find(|(_, e)| e.group == group).map(|(job, _)| *job);
        while let Some(job) = any() {
            self.abort(job);
        }
    }

    /// The number of jobs left in a group.
    pub fn alive(&self, group: JobGroup) -> usize {
        self.0.lock().jobs.values().filter(|e| e.group == group).count()
    }

    /// Runs everything until this future is done; for tests that need fake time and no faults.
    ///
    /// # Panics
    /// When no job can go on.
    pub fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = Arc::new(Mutex::new(None));
        let filled = slot.clone();
        self.spawn(
            0,
            Box::pin(async move { *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(future.await) }),
        );
        loop {
            if let Some(value) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return value;
            }
            assert_ne!(self.step(), StepResult::Idle, "everybody waits for something that will not come");
        }
    }
}

/// The future of [`Executor::sleep`].
#[derive(Debug)]
pub struct Sleep {
    executor: Executor,
    at: u64,
    timer: Option<Timer>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.executor.0.clone();
        let mut state = shared.lock();
        if let Some(timer) = self.timer.take() {
            state.clock.cancel(timer);
        }
        if state.clock.now() >= self.at {
            return Poll::Ready(());
        }
        self.timer = Some(state.clock.set(self.at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.executor.0.lock().clock.cancel(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which ten sleepers wake, three of them at the same time.
    fn order(seed: u64) -> Vec<u64> {
        let executor = Executor::new(seed);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for n in 0..10_u64 {
            let (sleep, seen) = (executor.sleep(Duration::from_millis(n / 3)), seen.clone());
            executor.spawn(
                0,
                Box::pin(async move {
                    sleep.await;
                    seen.lock().unwrap().push(n);
                }),
            );
        }
        while executor.step() != StepResult::Idle {}
        assert_eq!(executor.now(), 3);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn a_seed_decides_who_runs_and_time_decides_when() {
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
        for seed in 0..20 {
            let moments: Vec<u64> = order(seed).iter().map(|n| n / 3).collect();
            assert!(moments.is_sorted(), "{moments:?}");
        }
    }

    #[test]
    fn a_group_ends_where_it_stands() {
        let executor = Executor::new(1);
        let held = Arc::new(());
        for group in [1, 2] {
            let (held, sleep) = (held.clone(), executor.sleep(Duration::from_secs(1)));
            executor.spawn(
                group,
                Box::pin(async move {
                    sleep.await;
                    drop(held);
                }),
            );
        }
        executor.step();
        executor.abort_group(1);
        assert_eq!((executor.alive(1), executor.alive(2), Arc::strong_count(&held)), (0, 1, 2));
    }
}
