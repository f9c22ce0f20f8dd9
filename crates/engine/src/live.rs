//! Tasks that somebody works on or watches right now: the meeting place of one runner and any number of watchers.
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

/// Shards of the map, so that tasks rarely wait for each other's bookkeeping.
const SHARDS: usize = 32;

/// All live tasks.
#[derive(Debug)]
pub(crate) struct LiveMap {
    shards: Vec<Mutex<HashMap<TaskId, Arc<Live>>>>,
    hasher: RandomState,
    running: AtomicUsize,
    stopping: AtomicBool,
    ring_events_max: usize,
    ring_bytes_max: usize,
}

/// One live task.
#[derive(Debug, Default)]
pub(crate) struct Live {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Runner and watchers; the last one out removes the entry.
    users: usize,
    /// The last committed event known here; zero until one was published or read.
    head: Seq,
    ring: VecDeque<FrozenEvent>,
    ring_bytes: usize,
    /// The image at the last rest (settled, or waiting for the caller), and where that was.
    rest: Option<(Seq, FrozenTask)>,
    failed: Option<Fault>,
    /// The server that the owner's agent stands for has answered.
    answered: bool,
    /// Owners are counted.
    owner: u64,
    /// The last one that came to nothing, where the log stood then, and why: whoever waited for it may look only after the
    /// next one has claimed the task.
    last_failure: Option<(u64, Seq, Fault)>,
    running: bool,
    /// The owner cannot go on for now, and waits for the store.
    put_off: bool,
    /// How often the task changed hands while somebody was here.
    hands: u32,
    order: Option<Order>,
    runner: Option<Waker>,
    /// Who waits for news. A list, since most tasks have one watcher and a tree's first node has room for eleven.
    watchers: Vec<(u64, Waker)>,
    next_watcher: u64,
}

/// What a runner is told from outside.
///
/// The higher one outranks the other: a caller that cancels was promised an outcome, and a server that stops begins
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Whoever handed the task to us has let go of it.
    Activate,
    /// The server stops; the task goes on after the next start.
    Park,
    /// The caller no longer wants the task.
    Cancel,
}

/// A share in a live task.
#[derive(Debug)]
pub(crate) struct LiveRef {
    map: Arc<LiveMap>,
    id: TaskId,
    live: Arc<Live>,
    /// Who owned it when this share was taken.
    owner: u64,
    /// How often it had changed hands then.
    hands: u32,
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

    fn shard(&self, id: TaskId) -> MutexGuard<'_, HashMap<TaskId, Arc<Live>>> {
        let at = usize::try_from(self.hasher.hash_one(id)).unwrap_or(0) % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a task, making its entry if nobody was there.
    pub(crate) fn enter(self: &Arc<Self>, id: TaskId) -> LiveRef {
        let mut shard = self.shard(id);
        let live = shard.entry(id).or_default().clone();
        let mut state = live.lock();
        state.users += 1;
        let (owner, hands) = (state.owner, state.hands);
        drop(state);
        drop(shard);
        LiveRef { map: self.clone(), id, live, owner, hands, watcher: None }
    }

    /// How many agents are at work.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// The server stops: nobody begins anything any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Parks every runner, oldest task first: the maps have no order of their own, and a simulated stop must happen the
    /// same way twice. Whoever becomes a runner later is parked from the beginning.
    pub(crate) fn park_all(&self) {
        self.stopping.store(true, Ordering::Release);
        let mut tasks: Vec<(TaskId, Arc<Live>)> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.extend(shard.iter().map(|(id, live)| (*id, live.clone())));
        }
        tasks.sort_unstable_by_key(|(id, _)| *id);
        tasks.iter().for_each(|(_, live)| live.order(Order::Park));
    }
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) {
        let mut state = self.lock();
        if state.running {
            state.order = state.order.max(Some(order));
            if let Some(waker) = state.runner.take() {
                waker.wake();
            }
        }
    }
}

impl State {
    fn await_news(&mut self, watcher: &mut Option<u64>, cx: &std::task::Context<'_>) {
        let id = *watcher.get_or_insert_with(|| {
            self.next_watcher += 1;
            self.next_watcher
        });
        match self.watchers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => self.watchers.push((id, cx.waker().clone())),
        }
        // Everybody here is level with the head, and whoever comes later begins with a snapshot or the log: the ring
        // has served. An idle stream is then only its connection.
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
        self.failed = Some(fault);
        self.wake_watchers();
    }

    /// Why an owner came to nothing before `seq`. What the next one commits under that number is something else.
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
    /// Becomes the task's one owner, unless it has one.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.live.lock();
        if state.running {
            return false;
        }
        state.running = true;
        state.owner += 1;
        state.put_off = false;
        state.answered = false;
        state.order = self.map.is_stopping().then_some(Order::Park);
        state.failed = None;
        self.map.running.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Gives ownership back.
    pub(crate) fn release(&self) {
        let mut state = self.live.lock();
        if state.running {
            state.running = false;
            state.put_off = false;
            state.runner = None;
            self.map.running.fetch_sub(1, Ordering::Relaxed);
            state.wake_watchers();
        }
    }

    /// The task has gone to another caller: for whoever watches it so far, it is not there any more.
    pub(crate) fn hand_on(&self) {
        let mut state = self.live.lock();
        state.hands += 1;
        state.wake_watchers();
    }

    pub(crate) const fn id(&self) -> TaskId {
        self.id
    }

    pub(crate) fn is_running(&self) -> bool {
        self.live.lock().running
    }

    /// The owner cannot go on until the store takes writes; whoever waits for it is told so, and whoever comes.
    pub(crate) fn put_off(&self, fault: Fault) {
        let mut state = self.live.lock();
        state.put_off = true;
        state.fail(fault);
    }

    /// Why the owner cannot go on, if it cannot.
    pub(crate) fn why_put_off(&self) -> Option<Fault> {
        let state = self.live.lock();
        state.failed.clone().filter(|_| state.put_off)
    }

    pub(crate) fn order(&self, order: Order) {
        self.live.order(order);
    }

    /// The runner's look at its orders; it is woken by the next one.
    pub(crate) fn poll_order(&self, cx: &std::task::Context<'_>) -> Option<Order> {
        let mut state = self.live.lock();
        let order = state.order.take();
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

    /// Notes that the server which the agent stands for has answered; the next publish wakes those who wait for that.
    pub(crate) fn set_answered(&self) {
        self.live.lock().answered = true;
    }

    /// Tells watchers what was committed. `rest` is the image where the task came to rest with this step.
    pub(crate) fn publish(&self, head: Seq, events: &[FrozenEvent], rest: Option<FrozenTask>) {
        let mut state = self.live.lock();
        state.head = state.head.max(head);
        if state.last_failure.as_ref().is_some_and(|(owner, ..)| *owner == state.owner) {
            // It went on after all.
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
            state.failed = None;
        }
        state.wake_watchers();
    }

    /// Tells watchers that nothing more will come, and why.
    pub(crate) fn fail(&self, fault: Fault) {
        self.live.lock().fail(fault);
    }

    /// What a watcher at `cursor` finds: events, the need to read the log, an end, or nothing yet.
    pub(crate) fn poll_events(&mut self, cursor: Seq, cx: &std::task::Context<'_>) -> Found {
        let mut state = self.live.lock();
        if state.hands != self.hands {
            return Found::Failed(Fault::TaskNotFound(self.id.into()));
        }
        if state.head > cursor {
            // The head may be ahead of the ring: whoever joined after a commit and before its runner published it has
            // read that head in the log.
            let newest = state.ring.back().map_or(Seq(0), |e| e.seq);
            return match state.ring.front() {
                Some(oldest) if oldest.seq <= cursor.next() && newest > cursor => {
                    let skip = usize::try_from(cursor.0 + 1 - oldest.seq.0).unwrap_or(usize::MAX);
                    Found::Events(state.ring.iter().skip(skip).cloned().collect())
                }
                _ => Found::InLog,
            };
        }
        if let Some(fault) = &state.failed {
            return Found::Failed(fault.clone());
        }
        state.await_news(&mut self.watcher, cx);
        Found::Nothing
    }

    /// The last committed event known here.
    pub(crate) fn head(&self) -> Seq {
        self.live.lock().head
    }

    /// Waits until `seq` is committed by the owner of whom this is a share.
    pub(crate) async fn committed(&mut self, seq: Seq) -> Result<(), Fault> {
        let owner = self.owner;
        let found = |state: &State| (state.head >= seq).then_some(Ok(()));
        self.wait(|state| state.failure_of(owner, seq).map(Err).or_else(|| found(state))).await?
    }

    /// Waits until anything is heard of the agent after `seq`, the step in which it got its message, or until `over`. Gives
    /// the image if the task rests by then.
    pub(crate) async fn first_word(
        &mut self,
        seq: Seq,
        mut over: BoxFuture<'static, ()>,
    ) -> Result<Option<FrozenTask>, Fault> {
        let owner = self.owner;
        let found = |state: &State| {
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

    /// Waits until the task rests at or after `seq`, which is committed by the owner of whom this is a share.
    pub(crate) async fn rested(&mut self, seq: Seq) -> Result<FrozenTask, Fault> {
        let owner = self.owner;
        self.wait(|state| state.failure_of(owner, seq).map(Err).or_else(|| state.rest_since(seq).map(Ok))).await?
    }

    /// The same; `None` when its owner goes before that, or nobody owns it.
    pub(crate) async fn rested_or_released(&mut self, seq: Seq) -> Result<Option<FrozenTask>, Fault> {
        self.wait(|state| match state.rest_since(seq) {
            None if state.running => None,
            rest => Some(rest),
        })
        .await
    }

    /// Waits until nobody owns the task. Not for an owner that waits itself, for there is no telling how long.
    pub(crate) async fn released(&mut self) -> Result<(), Fault> {
        self.moved_or_released(Seq(u64::MAX)).await
    }

    /// The same, or until something is committed after `seq`.
    pub(crate) async fn moved_or_released(&mut self, seq: Seq) -> Result<(), Fault> {
        poll_fn(|cx| {
            let mut state = self.live.lock();
            match (&state.failed, state.put_off) {
                _ if !state.running || state.head > seq => return Poll::Ready(Ok(())),
                (Some(fault), true) => return Poll::Ready(Err(fault.clone())),
                _ => {}
            }
            state.await_news(&mut self.watcher, cx);
            Poll::Pending
        })
        .await
    }

    async fn wait<T>(&mut self, mut check: impl FnMut(&State) -> Option<T>) -> Result<T, Fault> {
        poll_fn(|cx| {
            let mut state = self.live.lock();
            if state.hands != self.hands {
                return Poll::Ready(Err(Fault::TaskNotFound(self.id.into())));
            }
            if let Some(found) = check(&state) {
                return Poll::Ready(Ok(found));
            }
            if let Some(fault) = &state.failed {
                return Poll::Ready(Err(fault.clone()));
            }
            state.await_news(&mut self.watcher, cx);
            Poll::Pending
        })
        .await
    }
}

/// See [`LiveRef::poll_events`].
pub(crate) enum Found {
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

/// Whether a state is one that a waiting sender is answered at.
pub(crate) const fn rests(state: TaskState) -> bool {
    state.is_settled() || state.is_interrupted()
}
