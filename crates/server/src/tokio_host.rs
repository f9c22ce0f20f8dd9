//! The clock, the randomness and the background tasks of a server.
//!
//! Every task of a server is in one of the sets of its [`ServerTasks`], so it has an owner that ends it: the
//! [`TaskOwner`] lives as long as the server. At the stop, connections and pieces of work may finish for
//! [`STOP_TIME_MAX`], then they are aborted; loops are aborted last, because work may need them.
//!
//! A set keeps the memory of ended tasks until its next task begins.

use sabir_engine::{BoxFuture, Host};
use sabir_proto::Timestamp;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

/// How long connections and work may finish after the server has stopped serving: short, because an operator waits.
const STOP_TIME_MAX: Duration = Duration::from_millis(500);

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
        // Only for the engine of a command that opens a store without a server: the runtime of the command owns the
        // task and ends it. `xtask tidy` refuses `TokioHost.spawn` elsewhere.
        drop(tokio::spawn(future));
    }
}

/// Tasks with one owner. Cheap to clone; all clones are one set.
#[derive(Debug, Clone)]
struct TaskSet(Arc<Mutex<Option<JoinSet<()>>>>);

impl Default for TaskSet {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(JoinSet::new()))))
    }
}

impl TaskSet {
    fn lock(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task. After the end of the set it drops the future.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = &mut *self.lock() {
            // Removes ended tasks, or the set would grow for as long as the server runs.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(future);
        }
    }

    /// Waits this long for the tasks to end, and aborts the others. No task runs when this returns.
    async fn end(&self, time_max: Duration) {
        let tasks = self.lock().take();
        let Some(mut tasks) = tasks else { return };
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(time_max, ended).await.is_err() {
            tasks.shutdown().await;
        }
    }

    /// Aborts all tasks without waiting.
    fn abort(&self) {
        let tasks = self.lock().take();
        // Outside of the lock, because what an aborted task drops may spawn.
        drop(tasks);
    }
}

/// Starts the background tasks of a server. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerTasks {
    work: TaskSet,
    loops: TaskSet,
    connections: TaskSet,
}

impl ServerTasks {
    /// Starts a piece of work that ends by itself.
    pub(crate) fn spawn_work(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.work.spawn(work);
    }

    /// Starts a job that runs until the server stops.
    pub(crate) fn spawn_loop(&self, job: impl Future<Output = ()> + Send + 'static) {
        self.loops.spawn(job);
    }

    /// Starts the task of a connection, or of a stream in one.
    pub(crate) fn spawn_connection(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.connections.spawn(connection);
    }
}

/// The engine of a server runs its tasks here.
impl Host for ServerTasks {
    fn now(&self) -> Timestamp {
        TokioHost.now()
    }

    fn random(&self) -> u64 {
        TokioHost.random()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        TokioHost.sleep(duration)
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) {
        self.spawn_work(future);
    }
}

/// Owns the background tasks of a server: they end with it. The tasks themselves hold [`ServerTasks`], which therefore
/// cannot end them.
#[derive(Debug, Default)]
pub(crate) struct TaskOwner(ServerTasks);

impl TaskOwner {
    pub(crate) const fn tasks(&self) -> &ServerTasks {
        &self.0
    }

    /// Ends all tasks: none runs when this returns.
    pub(crate) async fn stop(self) {
        let ServerTasks { work, loops, connections } = &self.0;
        tokio::join!(work.end(STOP_TIME_MAX), connections.end(STOP_TIME_MAX));
        loops.end(Duration::ZERO).await;
    }
}

impl Drop for TaskOwner {
    fn drop(&mut self) {
        let ServerTasks { work, loops, connections } = &self.0;
        for tasks in [work, connections, loops] {
            tasks.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn alive() -> usize {
        tokio::runtime::Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test]
    async fn work_may_finish_and_loops_are_aborted() {
        let owner = TaskOwner::default();
        let finished = Arc::new(AtomicBool::new(false));
        let told = finished.clone();
        owner.tasks().spawn_work(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            told.store(true, Ordering::Relaxed);
        });
        owner.tasks().spawn_work(std::future::pending());
        owner.tasks().spawn_loop(std::future::pending());
        owner.tasks().spawn_connection(std::future::pending());
        let late = owner.tasks().clone();
        owner.stop().await;
        assert!(finished.load(Ordering::Relaxed));
        late.spawn_work(std::future::pending());
        assert_eq!(alive(), 0);
    }

    #[tokio::test]
    async fn tasks_that_hold_their_set_end_with_the_owner() {
        let owner = TaskOwner::default();
        let held = owner.tasks().clone();
        owner.tasks().spawn_loop(async move {
            let _held = held;
            std::future::pending().await
        });
        assert_eq!(alive(), 1);
        drop(owner);
        // An aborted task ends when the runtime polls it next.
        while alive() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
