//! The writer thread and the queue in front of it.
//!
//! A group is whatever queued up while the last group was being synced: no timer, no minimum. One step alone commits
//! at once; under load groups grow by themselves.
//!
//! Loss notes wait in a short queue of their own, and are taken when no step waits: they delay a step by no more than
//! it takes to write a few of them without a sync.
//!
//! Changes of the outbox have a queue as well. They are taken together with the steps, in a transaction of their own
//! that is not synced: no delivery waits for the disk, and no step for more than a few hundred small updates.
//!
//! Behind the loss notes wait jobs without urgency, such as pruning; each runs alone, when nothing else waits.
//!
//! Records of envelopes are written with the next group, or alone once the first has waited a second.
//!
//! Replies of a group are handed to the runtime in one piece where the server runs [`Delivery::run`]: waking sixty
//! waiters one by one from this thread would switch threads sixty times.

use super::writer::Writer;
use crate::outbox::Change;
use crate::{Answer, AppendError, INTERACTIONS_WAITING_MAX, Interaction, Note, Step, StoreError};
use prometheus_client::metrics::counter::Counter;
use sabir_proto::TaskId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Steps in one transaction at most; bounds how long the first of them waits for the last.
const GROUP_STEPS_MAX: usize = 1024;
/// Bytes in one transaction at most; a larger step goes alone.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Loss notes that may wait; more are dropped and counted.
const NOTES_WAITING_MAX: usize = 4096;
/// Loss notes written before the writer looks for steps again, unless one call brings more.
const NOTES_AT_ONCE: usize = 64;

/// Changes of the outbox in one transaction.
const CHANGES_AT_ONCE: usize = 256;

/// Records of envelopes that one group includes.
const RIDING_AT_ONCE: usize = 512;
/// How long a record waits for a group before it is written alone.
const RIDING_WAIT: Duration = Duration::from_secs(1);

/// How often the writer yields for steps that are about to be queued. Each time costs a microsecond when there are
/// none.
const GATHER_YIELDS_MAX: usize = 4;

pub(super) type Reply = oneshot::Sender<Result<(), AppendError>>;

#[expect(clippy::large_enum_variant, reason = "nearly every job is a step; a box would cost each of them")]
enum Job {
    Step(Step, Reply),
    PagesMax(u32, oneshot::Sender<Result<(), StoreError>>),
    /// Other work, in its turn and by itself.
    Work(Idle),
    /// Makes the writer panic.
    #[cfg(test)]
    Panic,
}

/// Loss notes of one task, and the channel that reports their result.
#[derive(Debug)]
struct Noting {
    task: TaskId,
    notes: Vec<Note>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// A change of the outbox, and the channel that reports its result.
type Changing = (Change, oneshot::Sender<Result<bool, StoreError>>);

/// Work for when the writer is idle.
type Idle = Box<dyn FnOnce(&mut Writer) + Send>;

/// The next work of the writer.
#[derive(Default)]
struct Work {
    jobs: Vec<Job>,
    /// Written before the jobs: without a sync they cost next to nothing, and receivers wait for them.
    changes: Vec<Changing>,
    /// Only where there is no other work.
    idle: Option<Idle>,
    /// Only where there are no jobs.
    notings: Vec<Noting>,
    /// Together with any other work.
    riding: Vec<Interaction>,
}

/// Replies of committed groups, on their way to the waiting callers.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    ready: Mutex<Vec<Answered>>,
    news: Notify,
    /// Whether a task runs [`Delivery::run`]; until then replies are sent from the writer's own thread.
    running: AtomicBool,
    closed: AtomicBool,
}

type Answered = (Reply, Result<(), AppendError>);

impl Delivery {
    fn take(&self) -> Vec<Answered> {
        std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends or queues the replies of a group.
    pub(super) fn deliver(&self, answers: impl Iterator<Item = Answered>) {
        if self.running.load(Ordering::Acquire) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
            self.news.notify_one();
            // `run` may have stopped in between; then this thread has to send the replies.
            if !self.running.load(Ordering::Acquire) {
                send(self.take());
            }
        } else {
            send(answers);
        }
    }

    /// Sends replies from the runtime that awaits them, until the store is closed.
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

/// Ignores callers that no longer wait: their steps are committed all the same.
fn send(answers: impl IntoIterator<Item = Answered>) {
    answers.into_iter().for_each(|(reply, verdict)| drop(reply.send(verdict)));
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) delivery: Arc<Delivery>,
    shared: Arc<Waiting>,
    notes_dropped: Counter,
    interactions_dropped: Counter,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    state: Mutex<State>,
    wake: Condvar,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    changes: VecDeque<Changing>,
    idle: VecDeque<Idle>,
    notings: VecDeque<Noting>,
    /// How many loss notes those are.
    notes: usize,
    riding: VecDeque<Interaction>,
    /// The time since which the first of them waits.
    riding_since: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(super) fn start(writer: Writer) -> Self {
        let (delivery, notes_dropped) = (writer.delivery.clone(), writer.metrics.notes_dropped.clone());
        let interactions_dropped = writer.metrics.interactions_dropped.clone();
        let shared = Arc::new(Waiting::default());
        let waiting = shared.clone();
        let run = move || {
            let _leaving = Leaving(&waiting);
            waiting.run(writer);
        };
        let thread = std::thread::Builder::new().name("sabir-writer".into()).spawn(run).ok();
        if thread.is_none() {
            // Replies become `Closed`; the caller reports it like any other store failure.
            shared.lock().closed = true;
        }
        Self { delivery, shared, notes_dropped, interactions_dropped, thread }
    }

    pub(super) fn append(&self, step: Step) -> Answer<(), AppendError> {
        let (sender, receiver) = oneshot::channel();
        self.push(Job::Step(step, sender));
        Answer::later(receiver)
    }

    pub(super) fn note(&self, task: TaskId, notes: Vec<Note>) -> Answer<()> {
        let mut state = self.shared.lock();
        if state.notes + notes.len() > NOTES_WAITING_MAX {
            drop(state);
            self.notes_dropped.inc_by(u64::try_from(notes.len()).unwrap_or(u64::MAX));
            return Answer::now(Ok(()));
        }
        let (reply, receiver) = oneshot::channel();
        if !state.closed {
            state.notes += notes.len();
            state.notings.push_back(Noting { task, notes, reply });
            drop(state);
            self.shared.wake.notify_one();
        }
        Answer::later(receiver)
    }

    /// Queues a record for the next group; false where there is no room.
    pub(super) fn record(&self, interaction: Interaction) -> bool {
        let mut state = self.shared.lock();
        if state.closed || state.riding.len() >= INTERACTIONS_WAITING_MAX {
            drop(state);
            self.interactions_dropped.inc();
            return false;
        }
        let first = state.riding_since.is_none();
        state.riding.push_back(interaction);
        state.riding_since.get_or_insert_with(Instant::now);
        drop(state);
        if first {
            // Wakes the writer, so that it limits its sleep.
            self.shared.wake.notify_one();
        }
        true
    }

    /// Runs a function between two groups.
    pub(super) fn work<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, E> + Send + 'static,
    ) -> Answer<T, E> {
        let (reply, receiver) = oneshot::channel();
        // The caller may no longer wait for the reply.
        self.push(Job::Work(Box::new(move |writer| drop(reply.send(work(writer))))));
        Answer::later(receiver)
    }

    /// Runs a function when the writer is idle.
    pub(super) fn when_idle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.shared.lock();
        if !state.closed {
            // The caller may no longer wait for the reply.
            state.idle.push_back(Box::new(move |writer| drop(reply.send(work(writer)))));
            drop(state);
            self.shared.wake.notify_one();
        }
        Answer::later(receiver)
    }

    pub(super) fn change(&self, change: Change) -> Answer<bool> {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.shared.lock();
        if !state.closed {
            state.changes.push_back((change, reply));
            drop(state);
            self.shared.wake.notify_one();
        }
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

/// Closes the queue when the writer thread ends, also after a panic: a caller that queues a step later must not wait
/// for an answer that never comes.
struct Leaving<'a>(&'a Waiting);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the writer broke down; nothing can be stored until the next start");
        }
        let mut state = self.0.lock();
        state.closed = true;
        let State { jobs, changes, notings, idle, .. } = &mut *state;
        let unanswered = (std::mem::take(jobs), std::mem::take(changes), std::mem::take(notings), std::mem::take(idle));
        drop(state);
        // Without their senders the replies become `Closed`.
        drop(unanswered);
    }
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: Writer) {
        let mut work = Work::default();
        while self.next(&mut work) {
            if !work.changes.is_empty() {
                change_outbox(&mut writer, std::mem::take(&mut work.changes));
            }
            if !work.notings.is_empty() {
                write_notes(&mut writer, std::mem::take(&mut work.notings));
            }
            if let Some(idle) = work.idle.take() {
                idle(&mut writer);
            }
            writer.take_along(work.riding.drain(..));
            let mut group: Vec<(Step, Reply)> = Vec::with_capacity(work.jobs.len());
            let mut bytes = 0;
            for job in work.jobs.drain(..) {
                match job {
                    Job::Step(step, reply) => {
                        bytes += step.weight();
                        group.push((step, reply));
                        if group.len() >= GROUP_STEPS_MAX || bytes >= GROUP_BYTES_MAX {
                            writer.commit(std::mem::take(&mut group));
                            bytes = 0;
                        }
                    }
                    // The caller may no longer wait for the reply.
                    Job::PagesMax(pages, reply) => drop(reply.send(writer.set_pages_max(pages))),
                    Job::Work(work) => work(&mut writer),
                    // Like `panic!`, without the page of output.
                    #[cfg(test)]
                    Job::Panic => std::panic::resume_unwind(Box::new("planned")),
                }
            }
            if group.is_empty() {
                writer.flush();
            } else {
                writer.commit(group);
            }
        }
    }

    /// Waits for work; false once the queue is closed and empty.
    fn next(&self, work: &mut Work) -> bool {
        let mut state = self.lock();
        let mut waited = false;
        while state.jobs.is_empty() {
            if !state.changes.is_empty() {
                work.changes = state.some_changes();
                work.notings = state.some_notings();
                return true;
            }
            if !state.notings.is_empty() {
                work.notings = state.some_notings();
                return true;
            }
            if let Some(idle) = state.idle.pop_front() {
                work.idle = Some(idle);
                return true;
            }
            let left = state.riding_since.map(|since| RIDING_WAIT.saturating_sub(since.elapsed()));
            if left.is_some_and(|left| state.closed || left.is_zero()) {
                work.riding = state.some_riding();
                return true;
            }
            if state.closed {
                return false;
            }
            state = match left {
                Some(left) => self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            waited = true;
        }
        // Woken by the first step of a wave: the writer yields while the thread that queued it adds more, or that first
        // step would be a group of its own (on one core, nine groups out of ten were).
        for _ in 0..if waited { GATHER_YIELDS_MAX } else { 0 } {
            let before = state.jobs.len();
            drop(state);
            std::thread::yield_now();
            state = self.lock();
            if state.jobs.len() == before {
                break;
            }
        }
        std::mem::swap(&mut work.jobs, &mut state.jobs);
        work.changes = state.some_changes();
        work.riding = state.some_riding();
        true
    }
}

impl State {
    /// Takes the changes that have waited longest.
    fn some_changes(&mut self) -> Vec<Changing> {
        let count = self.changes.len().min(CHANGES_AT_ONCE);
        self.changes.drain(..count).collect()
    }

    /// Takes the records that have waited longest.
    fn some_riding(&mut self) -> Vec<Interaction> {
        let count = self.riding.len().min(RIDING_AT_ONCE);
        let some = self.riding.drain(..count).collect();
        if self.riding.is_empty() {
            self.riding_since = None;
        }
        some
    }

    /// Takes the loss notes that have waited longest, few enough not to delay steps.
    fn some_notings(&mut self) -> Vec<Noting> {
        let (mut some, mut count) = (Vec::new(), 0);
        while count < NOTES_AT_ONCE
            && let Some(noting) = self.notings.pop_front()
        {
            count += noting.notes.len();
            some.push(noting);
        }
        self.notes -= count;
        some
    }
}

fn change_outbox(writer: &mut Writer, changing: Vec<Changing>) {
    let (changes, replies): (Vec<_>, Vec<_>) = changing.into_iter().unzip();
    match writer.change_outbox(&changes) {
        // The component that delivered may have been stopped meanwhile.
        Ok(made) => replies.into_iter().zip(made).for_each(|(reply, made)| drop(reply.send(Ok(made)))),
        Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
    }
}

fn write_notes(writer: &mut Writer, notings: Vec<Noting>) {
    let (noted, replies): (Vec<_>, Vec<_>) = notings.into_iter().map(|n| ((n.task, n.notes), n.reply)).unzip();
    let outcome = writer.write_notes(&noted);
    // Few callers wait for a loss note.
    replies.into_iter().for_each(|reply| drop(reply.send(outcome.clone())));
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has already answered `Closed` to all callers.
            drop(thread.join());
        }
        self.delivery.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Durability, Options, Shared, schema};
    use sabir_proto::{Stamp, Timestamp};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn answer_of<E: From<StoreError>>(mut answer: Answer<(), E>) -> Result<(), E> {
        let began = Instant::now();
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "an append stays without an answer");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A step of a task that does not exist: a working writer refuses it.
    fn step() -> Step {
        Step::bare(TaskId::new(Stamp::from_u64(1), 1), Vec::new())
    }

    fn queue() -> (Queue, Arc<Shared>, tempfile::TempDir) {
        let (dir, shared) = (tempfile::tempdir().unwrap(), Arc::new(Shared::default()));
        let connection = schema::open_writer(&dir.path().join("a.db"), &schema::TASK_LOG, Durability::Full).unwrap();
        let writer = Writer::new(connection, shared.clone(), Options::default()).unwrap();
        (Queue::start(writer), shared, dir)
    }

    fn notes(count: usize) -> Vec<Note> {
        (0..count).map(|n| Note::new("d", "k", n.to_string(), Timestamp::from_millis(0))).collect()
    }

    #[test]
    fn steps_come_before_notes() {
        let (reply, _answer) = oneshot::channel();
        let waiting = Waiting::default();
        for count in [40, 40, 40] {
            let (reply, _) = oneshot::channel();
            waiting.lock().notings.push_back(Noting { task: step().task, notes: notes(count), reply });
            waiting.lock().notes += count;
        }
        waiting.lock().jobs.push(Job::Step(step(), reply));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let mut work = Work::default();
            assert!(waiting.next(&mut work));
            taken.push((work.jobs.len(), work.notings.len()));
        }
        assert_eq!(taken, [(1, 0), (0, 2), (0, 1)], "the step first, then a few notes at a time");
        assert_eq!(waiting.lock().notes, 0);
    }

    #[test]
    fn notes_that_find_no_room_are_dropped_and_counted() {
        let (queue, shared, _dir) = queue();
        // While this test holds the write lock, nothing is written.
        let turn = crate::sqlite::lock(&shared.turn);
        let answers: Vec<_> = (0..200).map(|_| queue.note(step().task, notes(40))).collect();
        let behind = queue.append(step());
        let dropped = queue.notes_dropped.get();
        assert!((3800..=4000).contains(&dropped), "{dropped} of 8000: 4096 wait, and a few are in the writer's hands");
        drop(turn);
        assert_eq!(answer_of(behind), Err(AppendError::Stale));
        for answer in answers {
            assert_eq!(answer_of(answer), Ok(()));
        }
        assert_eq!(queue.shared.lock().notes, 0);
    }

    #[test]
    fn a_writer_that_broke_down_answers_everybody() {
        let (queue, _shared, _dir) = queue();
        assert_eq!(answer_of(queue.append(step())), Err(AppendError::Stale));
        // One lock, so that all of them are taken together: one before the panic, one behind it …
        let mut state = queue.shared.lock();
        let (before, before_answer) = oneshot::channel();
        let (behind, behind_answer) = oneshot::channel();
        state.jobs.extend([Job::Step(step(), before), Job::Panic, Job::Step(step(), behind)]);
        drop(state);
        queue.shared.wake.notify_one();
        let closed = Err(AppendError::Store(StoreError::Closed));
        assert_eq!(answer_of(Answer::later(before_answer)), closed);
        assert_eq!(answer_of(Answer::later(behind_answer)), closed);
        // … and steps that come after the writer has ended.
        for _ in 0..3 {
            assert_eq!(answer_of(queue.append(step())), closed);
        }
        assert_eq!(queue.set_pages_max(9), Err(StoreError::Closed));
        assert_eq!(answer_of(queue.note(step().task, notes(1))), Err(StoreError::Closed));
    }
}
