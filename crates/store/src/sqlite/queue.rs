//! The writer thread and the queue in front of it.
//!
//! A group is whatever queued up while the last group was being synced: no timer, no minimum. One step alone commits
//! at once; under load groups grow by themselves.
//!
//! Answers of a group are handed to the runtime in one piece where the server runs [`Delivery::run`]: waking sixty
//! waiters one by one from this thread would switch threads sixty times.

use super::writer::Writer;
use crate::{Answer, AppendError, Step, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{Notify, oneshot};

/// Steps in one transaction at most; bounds how long the first of them waits for the last.
const GROUP_STEPS_MAX: usize = 1024;
/// Bytes in one transaction at most; a larger step goes alone.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How often the writer steps aside for steps that are about to be queued. Each time costs a microsecond when there are
/// none.
const GATHER_YIELDS_MAX: usize = 4;

pub(super) type Reply = oneshot::Sender<Result<(), AppendError>>;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every job is a step; a box would cost each of them")]
enum Job {
    Step(Step, Reply),
    PagesMax(u32, oneshot::Sender<Result<(), StoreError>>),
    /// A bug of ours.
    #[cfg(test)]
    Panic,
}

/// Answers on their way to those who wait for them.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    ready: Mutex<Vec<Answered>>,
    news: Notify,
    /// Somebody runs [`Delivery::run`]; until then answers are sent from the writer's own thread.
    running: AtomicBool,
    closed: AtomicBool,
}

type Answered = (Reply, Result<(), AppendError>);

impl Delivery {
    fn take(&self) -> Vec<Answered> {
        std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a group.
    pub(super) fn deliver(&self, answers: impl Iterator<Item = Answered>) {
        if self.running.load(Ordering::Acquire) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
            self.news.notify_one();
            // The runner may have stopped in between; then nobody else will look.
            if !self.running.load(Ordering::Acquire) {
                send(self.take());
            }
        } else {
            send(answers);
        }
    }

    /// Sends answers from the runtime they are awaited in, until the store is closed.
    pub(super) async fn run(self: Arc<Self>) {
        struct Running(Arc<Delivery>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.running.store(false, Ordering::Release);
                send(self.0.take());
            }
        }
        self.running.store(true, Ordering::Release);
        let running = Running(self);
        while !running.0.closed.load(Ordering::Acquire) {
            running.0.news.notified().await;
            send(running.0.take());
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.news.notify_one();
    }
}

/// A caller that no longer waits is no reason to do anything: its step is committed all the same.
fn send(answers: impl IntoIterator<Item = Answered>) {
    answers.into_iter().for_each(|(reply, verdict)| drop(reply.send(verdict)));
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) delivery: Arc<Delivery>,
    shared: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Waiting {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    closed: bool,
}

impl Queue {
    pub(super) fn start(writer: Writer) -> Self {
        let delivery = writer.delivery.clone();
        let shared = Arc::new(Waiting::default());
        let waiting = shared.clone();
        let run = move || {
            let _leaving = Leaving(&waiting);
            waiting.run(writer);
        };
        let thread = std::thread::Builder::new().name("sabir-writer".into()).spawn(run).ok();
        if thread.is_none() {
            // Answers become `Closed`; the caller reports it like any other store failure.
            shared.lock().closed = true;
        }
        Self { delivery, shared, thread }
    }

    pub(super) fn append(&self, step: Step) -> Answer<(), AppendError> {
        let (sender, receiver) = oneshot::channel();
        self.push(Job::Step(step, sender));
        Answer::later(receiver)
    }

    pub(super) fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.push(Job::PagesMax(pages, sender));
        receiver.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        if state.closed {
            return; // dropping the sender answers `Closed`
        }
        let was_empty = state.jobs.is_empty();
        state.jobs.push(job);
        drop(state);
        if was_empty {
            self.shared.wake.notify_one();
        }
    }
}

/// The writer's way out, whether it was told to go or broke down: whoever queues a step behind it must not wait for an
/// answer that nobody will give.
struct Leaving<'a>(&'a Waiting);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the writer broke down; nothing can be stored until the next start");
        }
        let mut state = self.0.lock();
        state.closed = true;
        let unanswered = std::mem::take(&mut state.jobs);
        drop(state);
        // Without their senders the answers become `Closed`.
        drop(unanswered);
    }
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: Writer) {
        let mut jobs = Vec::new();
        while self.next(&mut jobs) {
            let mut group: Vec<(Step, Reply)> = Vec::with_capacity(jobs.len());
            let mut bytes = 0;
            for job in jobs.drain(..) {
                match job {
                    Job::Step(step, reply) => {
                        bytes += step.weight();
                        group.push((step, reply));
                        if group.len() >= GROUP_STEPS_MAX || bytes >= GROUP_BYTES_MAX {
                            writer.commit(std::mem::take(&mut group));
                            bytes = 0;
                        }
                    }
                    // The asker may have gone; then nobody needs the answer.
                    Job::PagesMax(pages, reply) => drop(reply.send(writer.set_pages_max(pages))),
                    // Like `panic!`, without the page of output.
                    #[cfg(test)]
                    Job::Panic => std::panic::resume_unwind(Box::new("planned")),
                }
            }
            if !group.is_empty() {
                writer.commit(group);
            }
        }
    }

    /// Waits for work; false once the queue is closed and empty.
    fn next(&self, jobs: &mut Vec<Job>) -> bool {
        let mut state = self.lock();
        let mut waited = false;
        while state.jobs.is_empty() {
            if state.closed {
                return false;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            waited = true;
        }
        // Woken by the first step of a wave: let the thread that queued it go on while it has more, or that first step
        // would be a group of its own (on one core, nine groups out of ten were).
        for _ in 0..if waited { GATHER_YIELDS_MAX } else { 0 } {
            let before = state.jobs.len();
            drop(state);
            std::thread::yield_now();
            state = self.lock();
            if state.jobs.len() == before {
                break;
            }
        }
        std::mem::swap(jobs, &mut state.jobs);
        true
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has already answered `Closed` to everybody.
            drop(thread.join());
        }
        self.delivery.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Durability, Shared, schema};
    use sabir_proto::{Seq, Stamp, TaskId};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn answer_of(mut answer: Answer<(), AppendError>) -> Result<(), AppendError> {
        let began = Instant::now();
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "an append stays without an answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A step of a task that is not there: refused by a writer that lives.
    fn step() -> Step {
        Step {
            task: TaskId::new(Stamp::from_u64(1), 1),
            opening: None,
            after: Seq(0),
            events: Vec::new(),
            snapshot: None,
            placement: None,
            turn: None,
            checkpoint: None,
            retry: None,
            notify: false,
            effects: Vec::new(),
        }
    }

    #[test]
    fn a_writer_that_broke_down_answers_everybody() {
        let dir = tempfile::tempdir().unwrap();
        let connection = schema::open_writer(&dir.path().join("a.db"), Durability::Normal).unwrap();
        let writer = Writer::new(connection, Arc::new(Shared::default()), crate::Metrics::default()).unwrap();
        let queue = Queue::start(writer);
        assert_eq!(answer_of(queue.append(step())), Err(AppendError::Stale));
        // One lock, so that all of them are taken together: what was before the fault, what was behind it …
        let mut state = queue.shared.lock();
        let (before, before_answer) = oneshot::channel();
        let (behind, behind_answer) = oneshot::channel();
        state.jobs.extend([Job::Step(step(), before), Job::Panic, Job::Step(step(), behind)]);
        drop(state);
        queue.shared.wake.notify_one();
        let closed = Err(AppendError::Store(StoreError::Closed));
        assert_eq!(answer_of(Answer::later(before_answer)), closed);
        assert_eq!(answer_of(Answer::later(behind_answer)), closed);
        // … and what comes when nobody is there any more.
        for _ in 0..3 {
            assert_eq!(answer_of(queue.append(step())), closed);
        }
        assert_eq!(queue.set_pages_max(9), Err(StoreError::Closed));
    }
}
