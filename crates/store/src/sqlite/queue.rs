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
//! Replies of a group are handed to the runtime in one piece where the server runs [`ReplyDispatcher::run`]: waking sixty
//! waiters one by one from this thread would switch threads sixty times.

use super::writer::TaskLogWriter;
use crate::outbox::OutboxChange;
use crate::{AppendError, INTERACTIONS_WAITING_MAX, Interaction, LossNote, Step, StoreError, StoreFuture};
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
const LOSS_NOTES_WAITING_MAX: usize = 4096;
/// Loss notes written before the writer looks for steps again, unless one call brings more.
const LOSS_NOTES_AT_ONCE: usize = 64;

/// Changes of the outbox in one transaction.
const CHANGES_AT_ONCE: usize = 256;

/// Records of envelopes that one group includes.
const INTERACTIONS_AT_ONCE: usize = 512;
/// How long a record waits for a group before it is written alone.
const INTERACTION_WAIT: Duration = Duration::from_secs(1);

/// How often the writer yields for steps that are about to be queued. Each time costs a microsecond when there are
/// none.
const GATHER_YIELDS_MAX: usize = 4;

pub(super) type AppendReply = oneshot::Sender<Result<(), AppendError>>;

#[expect(clippy::large_enum_variant, reason = "nearly every job is a step; a box would cost each of them")]
enum WriterJob {
    Step(Step, AppendReply),
    PagesMax(u32, oneshot::Sender<Result<(), StoreError>>),
    /// Other work, in its turn and by itself.
    Work(IdleWork),
    /// Makes the writer panic.
    #[cfg(test)]
    Panic,
}

/// Loss notes of one task, and the channel that reports their result.
#[derive(Debug)]
struct LossNoteBatch {
    task: TaskId,
    notes: Vec<LossNote>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// A change of the outbox, and the channel that reports its result.
type PendingChange = (OutboxChange, oneshot::Sender<Result<bool, StoreError>>);

/// Work for when the writer is idle.
type IdleWork = Box<dyn FnOnce(&mut TaskLogWriter) + Send>;

/// The next work of the writer.
#[derive(Default)]
struct WriterBatch {
    jobs: Vec<WriterJob>,
    /// Written before the jobs: without a sync they cost next to nothing, and receivers wait for them.
    changes: Vec<PendingChange>,
    /// Only where there is no other work.
    idle: Option<IdleWork>,
    /// Only where there are no jobs.
    loss_notes: Vec<LossNoteBatch>,
    /// Together with any other work.
    interactions: Vec<Interaction>,
}

/// Replies of committed groups, on their way to the waiting callers.
#[derive(Debug, Default)]
pub(super) struct ReplyDispatcher {
    ready: Mutex<Vec<PendingReply>>,
    wake: Notify,
    /// Whether a task runs [`ReplyDispatcher::run`]; until then replies are sent from the writer's own thread.
    running: AtomicBool,
    closed: AtomicBool,
}

type PendingReply = (AppendReply, Result<(), AppendError>);

impl ReplyDispatcher {
    fn take(&self) -> Vec<PendingReply> {
        std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends or queues the replies of a group.
    pub(super) fn dispatch(&self, answers: impl Iterator<Item = PendingReply>) {
        if self.running.load(Ordering::Acquire) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
            self.wake.notify_one();
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
        struct Running(Arc<ReplyDispatcher>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.running.store(false, Ordering::Release);
                send(self.0.take());
            }
        }
        self.running.store(true, Ordering::Release);
        let running = Running(self);
        while !running.0.closed.load(Ordering::Acquire) {
            running.0.wake.notified().await;
            send(running.0.take());
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// Ignores callers that no longer wait: their steps are committed all the same.
fn send(answers: impl IntoIterator<Item = PendingReply>) {
    answers.into_iter().for_each(|(reply, verdict)| drop(reply.send(verdict)));
}

#[derive(Debug)]
pub(super) struct WriterQueue {
    pub(super) dispatcher: Arc<ReplyDispatcher>,
    shared: Arc<WriterQueueShared>,
    notes_dropped: Counter,
    interactions_dropped: Counter,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct WriterQueueShared {
    state: Mutex<WriterQueueState>,
    wake: Condvar,
}

impl std::fmt::Debug for WriterQueueShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct WriterQueueState {
    jobs: Vec<WriterJob>,
    changes: VecDeque<PendingChange>,
    idle: VecDeque<IdleWork>,
    loss_notes: VecDeque<LossNoteBatch>,
    /// How many loss notes those are.
    loss_note_count: usize,
    interactions: VecDeque<Interaction>,
    /// The time since which the first of them waits.
    interactions_since: Option<Instant>,
    closed: bool,
}

impl WriterQueue {
    pub(super) fn start(writer: TaskLogWriter) -> Self {
        let (dispatcher, notes_dropped) = (writer.dispatcher.clone(), writer.metrics.notes_dropped.clone());
        let interactions_dropped = writer.metrics.interactions_dropped.clone();
        let shared = Arc::new(WriterQueueShared::default());
        let waiting = shared.clone();
        let run = move || {
            let _leaving = CloseOnExit(&waiting);
            waiting.run(writer);
        };
        let thread = std::thread::Builder::new().name("sabir-writer".into()).spawn(run).ok();
        if thread.is_none() {
            // Replies become `Closed`; the caller reports it like any other store failure.
            shared.lock().closed = true;
        }
        Self { dispatcher, shared, notes_dropped, interactions_dropped, thread }
    }

    pub(super) fn append(&self, step: Step) -> StoreFuture<(), AppendError> {
        let (sender, receiver) = oneshot::channel();
        self.push(WriterJob::Step(step, sender));
        StoreFuture::from_receiver(receiver)
    }

    pub(super) fn add_loss_notes(&self, task: TaskId, notes: Vec<LossNote>) -> StoreFuture<()> {
        let mut state = self.shared.lock();
        if state.loss_note_count + notes.len() > LOSS_NOTES_WAITING_MAX {
            drop(state);
            self.notes_dropped.inc_by(u64::try_from(notes.len()).unwrap_or(u64::MAX));
            return StoreFuture::ready(Ok(()));
        }
        let (reply, receiver) = oneshot::channel();
        if !state.closed {
            state.loss_note_count += notes.len();
            state.loss_notes.push_back(LossNoteBatch { task, notes, reply });
            drop(state);
            self.shared.wake.notify_one();
        }
        StoreFuture::from_receiver(receiver)
    }

    /// Queues a record for the next group; false where there is no room.
    pub(super) fn record_interaction(&self, interaction: Interaction) -> bool {
        let mut state = self.shared.lock();
        if state.closed || state.interactions.len() >= INTERACTIONS_WAITING_MAX {
            drop(state);
            self.interactions_dropped.inc();
            return false;
        }
        let first = state.interactions_since.is_none();
        state.interactions.push_back(interaction);
        state.interactions_since.get_or_insert_with(Instant::now);
        drop(state);
        if first {
            // Wakes the writer, so that it limits its sleep.
            self.shared.wake.notify_one();
        }
        true
    }

    /// Runs a function between two groups.
    pub(super) fn run_on_writer<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnOnce(&mut TaskLogWriter) -> Result<T, E> + Send + 'static,
    ) -> StoreFuture<T, E> {
        let (reply, receiver) = oneshot::channel();
        // The caller may no longer wait for the reply.
        self.push(WriterJob::Work(Box::new(move |writer| drop(reply.send(work(writer))))));
        StoreFuture::from_receiver(receiver)
    }

    /// Runs a function when the writer is idle.
    pub(super) fn when_idle<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut TaskLogWriter) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.shared.lock();
        if !state.closed {
            // The caller may no longer wait for the reply.
            state.idle.push_back(Box::new(move |writer| drop(reply.send(work(writer)))));
            drop(state);
            self.shared.wake.notify_one();
        }
        StoreFuture::from_receiver(receiver)
    }

    pub(super) fn change(&self, change: OutboxChange) -> StoreFuture<bool> {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.shared.lock();
        if !state.closed {
            state.changes.push_back((change, reply));
            drop(state);
            self.shared.wake.notify_one();
        }
        StoreFuture::from_receiver(receiver)
    }

    pub(super) fn set_pages_max(&self, pages: u32) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.push(WriterJob::PagesMax(pages, sender));
        receiver.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    fn push(&self, job: WriterJob) {
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
struct CloseOnExit<'a>(&'a WriterQueueShared);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the writer broke down; nothing can be stored until the next start");
        }
        let mut state = self.0.lock();
        state.closed = true;
        let WriterQueueState { jobs, changes, loss_notes: notings, idle, .. } = &mut *state;
        let unanswered = (std::mem::take(jobs), std::mem::take(changes), std::mem::take(notings), std::mem::take(idle));
        drop(state);
        // Without their senders the replies become `Closed`.
        drop(unanswered);
    }
}

impl WriterQueueShared {
    fn lock(&self) -> std::sync::MutexGuard<'_, WriterQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut writer: TaskLogWriter) {
        let mut work = WriterBatch::default();
        while self.next(&mut work) {
            if !work.changes.is_empty() {
                change_outbox(&mut writer, std::mem::take(&mut work.changes));
            }
            if !work.loss_notes.is_empty() {
                write_loss_notes(&mut writer, std::mem::take(&mut work.loss_notes));
            }
            if let Some(idle) = work.idle.take() {
                idle(&mut writer);
            }
            writer.add_interactions(work.interactions.drain(..));
            let mut group: Vec<(Step, AppendReply)> = Vec::with_capacity(work.jobs.len());
            let mut bytes = 0;
            for job in work.jobs.drain(..) {
                match job {
                    WriterJob::Step(step, reply) => {
                        bytes += step.approx_bytes();
                        group.push((step, reply));
                        if group.len() >= GROUP_STEPS_MAX || bytes >= GROUP_BYTES_MAX {
                            writer.commit(std::mem::take(&mut group));
                            bytes = 0;
                        }
                    }
                    // The caller may no longer wait for the reply.
                    WriterJob::PagesMax(pages, reply) => drop(reply.send(writer.set_pages_max(pages))),
                    WriterJob::Work(work) => work(&mut writer),
                    // Like `panic!`, without the page of output.
                    #[cfg(test)]
                    WriterJob::Panic => std::panic::resume_unwind(Box::new("planned")),
                }
            }
            if group.is_empty() {
                writer.flush_interactions();
            } else {
                writer.commit(group);
            }
        }
    }

    /// Waits for work; false once the queue is closed and empty.
    fn next(&self, work: &mut WriterBatch) -> bool {
        let mut state = self.lock();
        let mut waited = false;
        while state.jobs.is_empty() {
            if !state.changes.is_empty() {
                work.changes = state.take_changes();
                work.loss_notes = state.take_loss_notes();
                return true;
            }
            if !state.loss_notes.is_empty() {
                work.loss_notes = state.take_loss_notes();
                return true;
            }
            if let Some(idle) = state.idle.pop_front() {
                work.idle = Some(idle);
                return true;
            }
            let left = state.interactions_since.map(|since| INTERACTION_WAIT.saturating_sub(since.elapsed()));
            if left.is_some_and(|left| state.closed || left.is_zero()) {
                work.interactions = state.take_interactions();
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
        work.changes = state.take_changes();
        work.interactions = state.take_interactions();
        true
    }
}

impl WriterQueueState {
    /// Takes the changes that have waited longest.
    fn take_changes(&mut self) -> Vec<PendingChange> {
        let count = self.changes.len().min(CHANGES_AT_ONCE);
        self.changes.drain(..count).collect()
    }

    /// Takes the records that have waited longest.
    fn take_interactions(&mut self) -> Vec<Interaction> {
        let count = self.interactions.len().min(INTERACTIONS_AT_ONCE);
        let some = self.interactions.drain(..count).collect();
        if self.interactions.is_empty() {
            self.interactions_since = None;
        }
        some
    }

    /// Takes the loss notes that have waited longest, few enough not to delay steps.
    fn take_loss_notes(&mut self) -> Vec<LossNoteBatch> {
        let (mut some, mut count) = (Vec::new(), 0);
        while count < LOSS_NOTES_AT_ONCE
            && let Some(noting) = self.loss_notes.pop_front()
        {
            count += noting.notes.len();
            some.push(noting);
        }
        self.loss_note_count -= count;
        some
    }
}

fn change_outbox(writer: &mut TaskLogWriter, changing: Vec<PendingChange>) {
    let (changes, replies): (Vec<_>, Vec<_>) = changing.into_iter().unzip();
    match writer.change_outbox(&changes) {
        // The component that delivered may have been stopped meanwhile.
        Ok(made) => replies.into_iter().zip(made).for_each(|(reply, made)| drop(reply.send(Ok(made)))),
        Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
    }
}

fn write_loss_notes(writer: &mut TaskLogWriter, notings: Vec<LossNoteBatch>) {
    let (noted, replies): (Vec<_>, Vec<_>) = notings.into_iter().map(|n| ((n.task, n.notes), n.reply)).unzip();
    let outcome = writer.write_loss_notes(&noted);
    // Few callers wait for a loss note.
    replies.into_iter().for_each(|reply| drop(reply.send(outcome.clone())));
}

impl Drop for WriterQueue {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has already answered `Closed` to all callers.
            drop(thread.join());
        }
        self.dispatcher.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{StoreState, schema};
    use crate::{Durability, OpenOptions};
    use sabir_proto::{Stamp, Timestamp};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    fn answer_of<E: From<StoreError>>(mut answer: StoreFuture<(), E>) -> Result<(), E> {
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
        Step::effects_only(TaskId::new(Stamp::from_u64(1), 1), Vec::new())
    }

    fn queue() -> (WriterQueue, Arc<StoreState>, tempfile::TempDir) {
        let (dir, shared) = (tempfile::tempdir().unwrap(), Arc::new(StoreState::default()));
        let connection = schema::open_writer(&dir.path().join("a.db"), &schema::TASK_LOG, Durability::Full).unwrap();
        let writer = TaskLogWriter::new(connection, shared.clone(), OpenOptions::default()).unwrap();
        (WriterQueue::start(writer), shared, dir)
    }

    fn notes(count: usize) -> Vec<LossNote> {
        (0..count).map(|n| LossNote::new("d", "k", n.to_string(), Timestamp::from_millis(0))).collect()
    }

    #[test]
    fn steps_come_before_notes() {
        let (reply, _answer) = oneshot::channel();
        let waiting = WriterQueueShared::default();
        for count in [40, 40, 40] {
            let (reply, _) = oneshot::channel();
            waiting.lock().loss_notes.push_back(LossNoteBatch { task: step().task, notes: notes(count), reply });
            waiting.lock().loss_note_count += count;
        }
        waiting.lock().jobs.push(WriterJob::Step(step(), reply));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let mut work = WriterBatch::default();
            assert!(waiting.next(&mut work));
            taken.push((work.jobs.len(), work.loss_notes.len()));
        }
        assert_eq!(taken, [(1, 0), (0, 2), (0, 1)], "the step first, then a few notes at a time");
        assert_eq!(waiting.lock().loss_note_count, 0);
    }

    #[test]
    fn notes_that_find_no_room_are_dropped_and_counted() {
        let (queue, shared, _dir) = queue();
        // While this test holds the write lock, nothing is written.
        let turn = crate::sqlite::lock(&shared.write_lock);
        let answers: Vec<_> = (0..200).map(|_| queue.add_loss_notes(step().task, notes(40))).collect();
        let behind = queue.append(step());
        let dropped = queue.notes_dropped.get();
        assert!((3800..=4000).contains(&dropped), "{dropped} of 8000: 4096 wait, and a few are in the writer's hands");
        drop(turn);
        assert_eq!(answer_of(behind), Err(AppendError::Stale));
        for answer in answers {
            assert_eq!(answer_of(answer), Ok(()));
        }
        assert_eq!(queue.shared.lock().loss_note_count, 0);
    }

    #[test]
    fn a_writer_that_broke_down_answers_everybody() {
        let (queue, _shared, _dir) = queue();
        assert_eq!(answer_of(queue.append(step())), Err(AppendError::Stale));
        // One lock, so that all of them are taken together: one before the panic, one behind it …
        let mut state = queue.shared.lock();
        let (before, before_answer) = oneshot::channel();
        let (behind, behind_answer) = oneshot::channel();
        state.jobs.extend([WriterJob::Step(step(), before), WriterJob::Panic, WriterJob::Step(step(), behind)]);
        drop(state);
        queue.shared.wake.notify_one();
        let closed = Err(AppendError::Store(StoreError::Closed));
        assert_eq!(answer_of(StoreFuture::from_receiver(before_answer)), closed);
        assert_eq!(answer_of(StoreFuture::from_receiver(behind_answer)), closed);
        // … and steps that come after the writer has ended.
        for _ in 0..3 {
            assert_eq!(answer_of(queue.append(step())), closed);
        }
        assert_eq!(queue.set_pages_max(9), Err(StoreError::Closed));
        assert_eq!(answer_of(queue.add_loss_notes(step().task, notes(1))), Err(StoreError::Closed));
    }
}
