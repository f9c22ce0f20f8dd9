//! Live tasks: those with a runner or a watcher. Each entry connects one runner and any number of watchers.
//!
//! A live task keeps its latest committed events in a small ring. A watcher is only a position and a waker; when the
//! ring no longer reaches back to its position it reads the log. So a slow reader costs nothing and is never cut off.

use crate::host::BoxFuture;
use crate::limits::Limits;
use sabir_proto::{Fault, FrozenEvent, FrozenTask, Seq, TaskId, TaskState};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Shards of the map, so that locks of different tasks rarely collide.
const SHARDS: usize = 32;

/// The map of all live tasks.
#[derive(Debug)]
pub(crate) struct LiveMap {
    shards: Vec<Mutex<HashMap<TaskId, Arc<LiveTask>>>>,
    hasher: RandomState,
    running: AtomicUsize,
    stopping: AtomicBool,
    ring_events_max: usize,
    ring_bytes_max: usize,
}

/// The shared state of one live task.
#[derive(Debug, Default)]
pub(crate) struct LiveTask {
    state: Mutex<LiveState>,
}

#[derive(Debug, Default)]
struct LiveState {
    /// The number of shares held; the last one to go removes the entry.
    users: usize,
    /// The last committed event known here; zero until one was published or read.
    head: Seq,
    ring: VecDeque<FrozenEvent>,
    ring_bytes: usize,
    /// The task when it last came to rest (settled, or waiting for the caller), and at which event.
    rest: Option<(Seq, FrozenTask)>,
    fault: Option<Fault>,
    /// The remote server behind the owner's agent has answered.
    answered: bool,
    /// The number of the current owner; owners are counted from 1.
    owner: u64,
    /// The last owner that failed to commit, the head at that moment, and why: a waiter may look only after the next
    /// owner has claimed the task.
    last_failure: Option<(u64, Seq, Fault)>,
    running: bool,
    /// The owner is blocked until the store takes writes.
    waits_for_store: bool,
    /// How often the owning caller has changed during the life of this entry.
    owner_changes: u32,
    command: Option<RunnerCommand>,
    runner: Option<Waker>,
    /// Wakers of watchers. A list, since most tasks have one watcher and a tree's first node has room for eleven.
    watchers: Vec<(u64, Waker)>,
    next_watcher: u64,
}

/// A command to the runner of a task.
///
/// The higher one outranks the other: a caller that cancels was promised an outcome, and a server that stops begins
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunnerCommand {
    /// The server that handed the task over to us has activated it.
    Activate,
    /// The server stops; the task goes on after the next start.
    Park,
    /// The caller cancels the task.
    Cancel,
}

/// A counted reference to a live task.
#[derive(Debug)]
pub(crate) struct LiveRef {
    map: Arc<LiveMap>,
    id: TaskId,
    live: Arc<LiveTask>,
    /// The owner's number when this reference was made.
    owner: u64,
    /// The count of owner changes at that time.
    owner_changes: u32,
    watcher: Option<u64>,
}

impl LiveMap {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            running: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            ring_events_max: limits.ring_events_max,
            ring_bytes_max: limits.ring_bytes_max,
        }
    }

    fn shard(&self, id: TaskId) -> MutexGuard<'_, HashMap<TaskId, Arc<LiveTask>>> {
        let at = usize::try_from(self.hasher.hash_one(id)).unwrap_or(0) % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a reference to a task, and makes its entry if there is none.
    pub(crate) fn join(self: &Arc<Self>, id: TaskId) -> LiveRef {
        let mut shard = self.shard(id);
        let live = shard.entry(id).or_default().clone();
        let mut state = live.lock();
        state.users += 1;
        let (owner, hands) = (state.owner, state.owner_changes);
        drop(state);
        drop(shard);
        LiveRef { map: self.clone(), id, live, owner, owner_changes: hands, watcher: None }
    }

    /// The number of turns at work.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Whether the server stops: no new work begins.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Parks every runner, oldest task first: the maps have no order of their own, and a simulated stop must happen the
    /// same way twice. A runner that starts later is parked from the beginning.
    pub(crate) fn park_all(&self) {
        self.stopping.store(true, Ordering::Release);
        let mut tasks: Vec<(TaskId, Arc<LiveTask>)> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.extend(shard.iter().map(|(id, live)| (*id, live.clone())));
        }
        tasks.sort_unstable_by_key(|(id, _)| *id);
        tasks.iter().for_each(|(_, live)| live.order(RunnerCommand::Park));
    }
}

impl LiveTask {
    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: RunnerCommand) {
        let mut state = self.lock();
        if state.running {
            state.command = state.command.max(Some(order));
            if let Some(waker) = state.runner.take() {
                waker.wake();
            }
        }
    }
}

impl LiveState {
    fn register_waker(&mut self, watcher: &mut Option<u64>, cx: &std::task::Context<'_>) {
        let id = *watcher.get_or_insert_with(|| {
            self.next_watcher += 1;
            self.next_watcher
        });
        match self.watchers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => self.watchers.push((id, cx.waker().clone())),
        }
        // All watchers are level with the head, and a later one begins with a snapshot or the log, so the ring is not
        // needed any more. An idle stream then costs only its connection.
        if self.watchers.len() + usize::from(self.running) >= self.users {
            self.ring = VecDeque::new();
            self.ring_bytes = 0;
        }
    }

    fn rest_since(&self, seq: Seq) -> Option<FrozenTask> {
        self.rest.as_ref().filter(|(at, _)| *at >= seq).map(|(_, task)| task.clone())
    }

    fn fail(&mut self, fault: Fault) {
        self.last_failure = Some((self.owner, self.head, fault.clone()));
        self.fault = Some(fault);
        self.wake_watchers();
    }

    /// Why an owner failed before it committed `seq`. The next owner commits something else under that number.
    fn failure_of(&self, owner: u64, seq: Seq) -> Option<Fault> {
        let (failed, head, fault) = self.last_failure.as_ref()?;
        (*failed == owner && *head < seq).then(|| fault.clone())
    }

    fn wake_watchers(&mut self) {
        for (_, waker) in std::mem::take(&mut self.watchers) {
            waker.wake();
        }
    }
}

impl LiveRef {
    /// Claims the task, unless it has an owner; true on success.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.live.lock();
        if state.running {
            return false;
        }
        state.running = true;
        state.owner += 1;
        state.waits_for_store = false;
        state.answered = false;
        state.command = self.map.is_stopping().then_some(RunnerCommand::Park);
        state.fault = None;
        self.map.running.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Gives ownership back.
    pub(crate) fn release(&self) {
        let mut state = self.live.lock();
        if state.running {
            state.running = false;
            state.waits_for_store = false;
            state.runner = None;
            self.map.running.fetch_sub(1, Ordering::Relaxed);
            state.wake_watchers();
        }
    }

    /// The task now belongs to another caller: existing watchers of the old one get "not found".
    pub(crate) fn mark_owner_changed(&self) {
        let mut state = self.live.lock();
        state.owner_changes += 1;
        state.wake_watchers();
    }

    pub(crate) const fn id(&self) -> TaskId {
        self.id
    }

    pub(crate) fn is_running(&self) -> bool {
        self.live.lock().running
    }

    /// Blocks the owner until the store takes writes; current and later waiters get this fault.
    pub(crate) fn set_waiting_for_store(&self, fault: Fault) {
        let mut state = self.live.lock();
        state.waits_for_store = true;
        state.fail(fault);
    }

    /// The fault that blocks the owner, if one does.
    pub(crate) fn store_fault(&self) -> Option<Fault> {
        let state = self.live.lock();
        state.fault.clone().filter(|_| state.waits_for_store)
    }

    pub(crate) fn send_command(&self, order: RunnerCommand) {
        self.live.order(order);
    }

    /// Takes the runner's next command; the runner is woken by a later one.
    pub(crate) fn poll_command(&self, cx: &std::task::Context<'_>) -> Option<RunnerCommand> {
        let mut state = self.live.lock();
        let order = state.command.take();
        if order.is_none() {
            state.runner = Some(cx.waker().clone());
        }
        order
    }

    /// Whether the server stops; the runner is woken when it does.
    pub(crate) fn poll_stopping(&self, cx: &std::task::Context<'_>) -> bool {
        self.live.lock().runner = Some(cx.waker().clone());
        self.map.is_stopping()
    }

    /// Records that the remote server behind the agent has answered; the next publish wakes those who wait for it.
    pub(crate) fn set_answered(&self) {
        self.live.lock().answered = true;
    }

    /// Publishes committed events to watchers. `rest` is the task, where it came to rest with this step.
    pub(crate) fn publish(&self, head: Seq, events: &[FrozenEvent], rest: Option<FrozenTask>) {
        let mut state = self.live.lock();
        state.head = state.head.max(head);
        if state.last_failure.as_ref().is_some_and(|(owner, ..)| *owner == state.owner) {
            // The same owner has committed after all.
            state.last_failure = None;
        }
        for event in events {
            state.ring_bytes += event.json.len();
            state.ring.push_back(event.clone());
        }
        while state.ring.len() > self.map.ring_events_max || state.ring_bytes > self.map.ring_bytes_max {
            let Some(old) = state.ring.pop_front() else { break };
            state.ring_bytes -= old.json.len();
        }
        if let Some(task) = rest {
            state.rest = Some((head, task));
            state.fault = None;
        }
        state.wake_watchers();
    }

    /// Ends all watchers with this fault.
    pub(crate) fn fail(&self, fault: Fault) {
        self.live.lock().fail(fault);
    }

    /// What a watcher at `cursor` finds: events, the need to read the log, an end, or nothing yet.
    pub(crate) fn poll_events(&mut self, cursor: Seq, cx: &std::task::Context<'_>) -> PolledEvents {
        let mut state = self.live.lock();
        if state.owner_changes != self.owner_changes {
            return PolledEvents::Failed(Fault::TaskNotFound(self.id.into()));
        }
        if state.head > cursor {
            // The head may be ahead of the ring: a watcher that joined between a commit and its publish has read that
            // head in the log.
            let newest = state.ring.back().map_or(Seq(0), |e| e.seq);
            return match state.ring.front() {
                Some(oldest) if oldest.seq <= cursor.next() && newest > cursor => {
                    let skip = usize::try_from(cursor.0 + 1 - oldest.seq.0).unwrap_or(usize::MAX);
                    PolledEvents::Events(state.ring.iter().skip(skip).cloned().collect())
                }
                _ => PolledEvents::InLog,
            };
        }
        if let Some(fault) = &state.fault {
            return PolledEvents::Failed(fault.clone());
        }
        state.register_waker(&mut self.watcher, cx);
        PolledEvents::Nothing
    }

    /// The last committed event known here.
    pub(crate) fn head(&self) -> Seq {
        self.live.lock().head
    }

    /// Waits until the owner at the time of this reference has committed `seq`.
    pub(crate) async fn wait_committed(&mut self, seq: Seq) -> Result<(), Fault> {
        let owner = self.owner;
        let found = |state: &LiveState| (state.head >= seq).then_some(Ok(()));
        self.wait(|state| state.failure_of(owner, seq).map(Err).or_else(|| found(state))).await?
    }

    /// Waits until the agent reports anything after `seq`, the step with its message, or until `over` completes.
    /// Returns the task if it rests by then.
    pub(crate) async fn wait_for_first_report(
        &mut self,
        seq: Seq,
        mut over: BoxFuture<'static, ()>,
    ) -> Result<Option<FrozenTask>, Fault> {
        let owner = self.owner;
        let found = |state: &LiveState| {
            let rest = state.rest_since(seq);
            let is_heard_of = state.head > seq || (state.head == seq && (state.answered || !state.running));
            (is_heard_of || rest.is_some()).then_some(Ok(rest))
        };
        let mut wait = pin!(self.wait(|state| state.failure_of(owner, seq).map(Err).or_else(|| found(state))));
        poll_fn(|cx| match wait.as_mut().poll(cx) {
            Poll::Ready(found) => Poll::Ready(found?),
            Poll::Pending => over.as_mut().poll(cx).map(|()| Ok(None)),
        })
        .await
    }

    /// Waits until the task rests at or after `seq`, a step of the owner at the time of this reference.
    pub(crate) async fn wait_rested(&mut self, seq: Seq) -> Result<FrozenTask, Fault> {
        let owner = self.owner;
        self.wait(|state| state.failure_of(owner, seq).map(Err).or_else(|| state.rest_since(seq).map(Ok))).await?
    }

    /// Like [`Self::wait_rested`]; `None` when the task has no owner before that.
    pub(crate) async fn wait_rested_or_released(&mut self, seq: Seq) -> Result<Option<FrozenTask>, Fault> {
        self.wait(|state| match state.rest_since(seq) {
            None if state.running => None,
            rest => Some(rest),
        })
        .await
    }

    /// Waits until the task has no owner. Fails at once for an owner that is blocked on the store, since that may last.
    pub(crate) async fn wait_released(&mut self) -> Result<(), Fault> {
        self.wait_moved_or_released(Seq(u64::MAX)).await
    }

    /// Like [`Self::wait_released`], or until an event after `seq` is committed.
    pub(crate) async fn wait_moved_or_released(&mut self, seq: Seq) -> Result<(), Fault> {
        poll_fn(|cx| {
            let mut state = self.live.lock();
            match (&state.fault, state.waits_for_store) {
                _ if !state.running || state.head > seq => return Poll::Ready(Ok(())),
                (Some(fault), true) => return Poll::Ready(Err(fault.clone())),
                _ => {}
            }
            state.register_waker(&mut self.watcher, cx);
            Poll::Pending
        })
        .await
    }

    async fn wait<T>(&mut self, mut check: impl FnMut(&LiveState) -> Option<T>) -> Result<T, Fault> {
        poll_fn(|cx| {
            let mut state = self.live.lock();
            if state.owner_changes != self.owner_changes {
                return Poll::Ready(Err(Fault::TaskNotFound(self.id.into())));
            }
            if let Some(found) = check(&state) {
                return Poll::Ready(Ok(found));
            }
            if let Some(fault) = &state.fault {
                return Poll::Ready(Err(fault.clone()));
            }
            state.register_waker(&mut self.watcher, cx);
            Poll::Pending
        })
        .await
    }
}

/// See [`LiveRef::poll_events`].
pub(crate) enum PolledEvents {
    Events(Vec<FrozenEvent>),
    InLog,
    Failed(Fault),
    Nothing,
}

impl Drop for LiveRef {
    fn drop(&mut self) {
        let mut shard = self.map.shard(self.id);
        let mut state = self.live.lock();
        if let Some(watcher) = self.watcher {
            state.watchers.retain(|(id, _)| *id != watcher);
        }
        state.users -= 1;
        if state.users == 0 {
            shard.remove(&self.id);
        }
    }
}

/// Whether the task is settled or waits for its caller: a waiting sender is answered then.
pub(crate) const fn is_at_rest(state: TaskState) -> bool {
    state.is_settled() || state.is_interrupted()
}
