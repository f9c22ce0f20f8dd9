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
        let run = move || waiting.run(writer);
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
