//! Draining the outbox: what is delivered next, by how many at once, and what the outbox is told afterwards.
//!
//! One loop reads what is due, up to a bounded number, and gives it to workers. A worker makes one attempt at a time and
//! marks it before it goes on, so that a crash repeats no more than the event in flight. While the store takes no marks
//! workers hold on to theirs: an event that was delivered is not delivered again and again because the disk is full.

use super::breaker::{Admission, Breakers, host_of, later};
use super::ready::Ready;
use super::schedule::{self, Next};
use crate::courier::{Courier, Delivered, Outcome, Parcel, delivery_id};
use crate::engine::Core;
use crate::host::BoxFuture;
use sabir_proto::{Seq, Timestamp};
use sabir_store::{Attempt, Bell, Mark, Owed, Receiver, StoreError};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Read from the outbox at a time.
const PAGE: usize = 256;
/// Events a worker delivers to one receiver before others get their turn.
const RUN_MAX: usize = 32;
/// How long to wait before the store is asked again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest sleep: whoever sets the clock forward does not make receivers wait for longer.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// The state of the drain. Knows no engine, so that the engine may know it.
pub(crate) struct Drainer {
    courier: Arc<dyn Courier>,
    state: Mutex<State>,
    /// Rung when a worker is free again, and at the end.
    bell: Bell,
    stopping: AtomicBool,
}

#[derive(Default)]
struct State {
    ready: Ready,
    breakers: Breakers,
}

impl Drainer {
    pub(crate) fn new(courier: Arc<dyn Courier>) -> Self {
        Self { courier, state: Mutex::default(), bell: Bell::default(), stopping: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins no more deliveries.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.bell.ring();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.lock().ready.in_flight()
    }
}

/// Delivers until the engine stops.
pub(crate) async fn drain(core: Arc<Core>, drainer: Arc<Drainer>) {
    let drain = Drain { core, drainer };
    let owed = drain.core.log.bell();
    while !drain.drainer.is_stopping() {
        let wait = match drain.go_round().await {
            Ok(Round::MoreIsDue) => continue,
            Ok(Round::Next(due)) => due.map(|due| drain.until(due)),
            Err(error) => {
                tracing::warn!(%error, "the outbox cannot be read or marked; trying again");
                Some(PAUSE_MAX)
            }
        };
        drain.woken(&owed, wait.map(|wait| drain.core.host.sleep(wait))).await;
    }
}

/// What a look at the outbox led to.
enum Round {
    /// There was more than fits.
    MoreIsDue,
    /// Nothing to do before then, unless somebody rings.
    Next(Option<Timestamp>),
}

#[derive(Clone)]
struct Drain {
    core: Arc<Core>,
    drainer: Arc<Drainer>,
}

impl Drain {
    fn until(&self, due: Timestamp) -> Duration {
        let ms = due.millis().saturating_sub(self.core.host.now().millis());
        Duration::from_millis(u64::try_from(ms).unwrap_or(0) + 1).min(SLEEP_MAX)
    }

    async fn woken(&self, owed: &Bell, mut alarm: Option<BoxFuture<'static, ()>>) {
        poll_fn(|cx| {
            let rung = (owed.poll_heard(cx).is_ready(), self.drainer.bell.poll_heard(cx).is_ready());
            let alarmed = alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_ready());
            if rung == (false, false) && !alarmed { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Reads what is due, and sends off as many as may go.
    async fn go_round(&self) -> Result<Round, StoreError> {
        let page = self.fill().await?;
        let left_alone = self.send_off();
        let postponed = !left_alone.is_empty();
        // All at once: each mark alone would be a transaction of its own.
        let mark =
            |(owed, until): &(Owed, Timestamp)| self.core.log.mark(owed, Mark::Postpone { until: *until, tried: None });
        for answer in left_alone.iter().map(mark).collect::<Vec<_>>() {
            answer.await?;
        }
        if self.is_idle() && (page == Page::Full || postponed) {
            return Ok(Round::MoreIsDue);
        }
        Ok(Round::Next(self.core.log.next_due(self.core.host.now()).await?))
    }

    /// A worker is free and nothing waits for it.
    fn is_idle(&self) -> bool {
        let state = self.drainer.lock();
        state.ready.in_flight() < self.core.limits.push_workers_max && state.ready.waiting() == 0
    }

    /// Reads what is due, unless enough waits.
    async fn fill(&self) -> Result<Page, StoreError> {
        let limit = {
            let state = self.drainer.lock();
            if state.ready.waiting() >= 2 * self.core.limits.push_workers_max {
                return Ok(Page::Unread);
            }
            state.ready.held() + PAGE
        };
        let page = self.core.log.due(self.core.host.now(), limit).await?;
        let full = page.len() >= limit;
        for owed in page {
            if self.drainer.lock().ready.holds(&owed) {
                continue;
            }
            let Some(receiver) = self.core.log.receiver(owed.task, &owed.config).await? else {
                // Deleted since, and the row with it. Should it be there after all, it must not be found again and again.
                self.core.log.discard(owed.number).await?;
                continue;
            };
            self.drainer.lock().ready.add(owed, &host_of(&receiver.config.url));
        }
        Ok(if full { Page::Full } else { Page::Whole })
    }

    /// Gives to workers what may go; returns what must wait because its host is left alone.
    fn send_off(&self) -> Vec<(Owed, Timestamp)> {
        let limits = &self.core.limits;
        let mut left_alone = Vec::new();
        let mut state = self.drainer.lock();
        while !self.drainer.is_stopping() && state.ready.in_flight() < limits.push_workers_max {
            let Some((owed, host)) = state.ready.next(limits.push_host_workers_max) else { break };
            match state.breakers.ask(&host, self.core.host.now(), self.core.host.random()) {
                Admission::Go => {
                    let worker = Worker { drain: self.clone(), owed, host, admitted: true };
                    self.core.host.spawn(Box::pin(worker.run()));
                }
                Admission::Wait(until) => {
                    let others = state.ready.dismiss(&host);
                    state.ready.ended(owed.task, &owed.config, &host);
                    left_alone.extend(std::iter::once(owed).chain(others).map(|owed| (owed, until)));
                }
            }
        }
        self.show(&state);
        left_alone
    }

    fn show(&self, state: &State) {
        let metrics = &self.core.metrics;
        metrics.push_in_flight.set(i64::try_from(state.ready.in_flight()).unwrap_or(i64::MAX));
        metrics.push_hosts_paused.set(i64::try_from(state.breakers.paused()).unwrap_or(i64::MAX));
    }
}

/// How much of what is due was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Unread,
    Whole,
    Full,
}

/// Delivers to one configuration.
struct Worker {
    drain: Drain,
    owed: Owed,
    host: Arc<str>,
    /// Let go, and has not reported what came of it.
    admitted: bool,
}

/// Also when a courier panics: its place must not stay taken.
impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.drain.drainer.lock();
        if self.admitted {
            state.breakers.give_back(&self.host);
        }
        state.ready.ended(self.owed.task, &self.owed.config, &self.host);
        self.drain.show(&state);
        drop(state);
        self.drain.drainer.bell.ring();
    }
}

impl Worker {
    async fn run(mut self) {
        for _ in 0..RUN_MAX {
            if !self.admitted && !self.ask() || !self.deliver_next().await || self.drain.drainer.is_stopping() {
                return;
            }
        }
    }

    fn ask(&mut self) -> bool {
        let host = &self.drain.core.host;
        let asked = self.drain.drainer.lock().breakers.ask(&self.host, host.now(), host.random());
        self.admitted = asked == Admission::Go;
        self.admitted
    }

    /// Delivers one event; true when the next one of the row can follow.
    async fn deliver_next(&mut self) -> bool {
        let core = &self.drain.core;
        let parcel = match self.parcel().await {
            Ok(Ok(parcel)) => parcel,
            Ok(Err(missing)) => {
                if let Some(reason) = missing {
                    core.metrics.push_buried.inc();
                    self.mark(Mark::Bury { now: core.host.now(), reason, tried: None }).await;
                }
                return false;
            }
            Err(error) => {
                tracing::warn!(%error, task = %self.owed.task, "an event that is owed cannot be read; trying again");
                core.host.sleep(PAUSE_MAX).await;
                return false;
            }
        };
        let delivered = self.drain.drainer.courier.deliver(parcel).await;
        let now = core.host.now();
        core.metrics.delivered(&delivered);
        self.admitted = false;
        if self.drain.drainer.lock().breakers.report(&self.host, &delivered.outcome, now, &core.limits) {
            tracing::warn!(host = %self.host, "a receiver's host fails; it is left alone for a while");
        }
        let accepted = matches!(delivered.outcome, Outcome::Accepted { .. });
        let kept = self.mark(self.verdict(&delivered, now)).await;
        let goes_on = accepted && kept && self.owed.seq < self.owed.last;
        if goes_on {
            self.owed.seq = self.owed.seq.next();
            self.owed.attempts = 0;
        }
        goes_on
    }

    /// The event with everything its receiver needs; else why it cannot be delivered, or nothing where nobody wants it.
    async fn parcel(&self) -> Result<Result<Parcel, Option<String>>, StoreError> {
        let (core, owed) = (&self.drain.core, &self.owed);
        // Read again: it may have changed, or gone, while the event waited.
        let Some(Receiver { config, dialect }) = core.log.receiver(owed.task, &owed.config).await? else {
            return Ok(Err(None));
        };
        let before = Seq(owed.seq.0.saturating_sub(1));
        let event = core.log.events(owed.task, before, 1).await?.into_iter().find(|event| event.seq == owed.seq);
        let (Some(event), Some(scope)) = (event, core.log.owner(owed.task).await?) else {
            return Ok(Err(Some("the event is no longer in the log".into())));
        };
        let id = delivery_id(owed.task, &owed.config, owed.seq);
        let attempt = owed.attempts.saturating_add(1);
        Ok(Ok(Parcel { config, dialect, task: owed.task, scope, event, at: owed.at, id, attempt }))
    }

    fn verdict(&self, delivered: &Delivered, now: Timestamp) -> Mark {
        let core = &self.drain.core;
        if matches!(delivered.outcome, Outcome::Accepted { .. }) {
            return Mark::Done { now };
        }
        let tried = Some(attempt(delivered, now));
        match schedule::after(&core.limits, &self.owed, &delivered.outcome, now, core.host.random()) {
            Next::Again(delay) => Mark::Postpone { until: later(now, delay), tried },
            Next::GiveUp(reason) => {
                core.metrics.push_buried.inc();
                let (task, config) = (self.owed.task, &self.owed.config);
                tracing::warn!(%task, config, seq = self.owed.seq.0, reason, "a push notification was given up");
                Mark::Bury { now, reason, tried }
            }
            Next::End(reason) => {
                core.metrics.push_buried.inc();
                tracing::info!(task = %self.owed.task, config = self.owed.config, reason, "a receiver wants no more");
                Mark::End { now, reason, tried }
            }
        }
    }

    /// Tells the outbox, however often that takes. False when the event is no longer owed, or the engine stops first: then
    /// it is delivered again after the next start.
    async fn mark(&self, mark: Mark) -> bool {
        let core = &self.drain.core;
        let mut pause = PAUSE_MIN;
        loop {
            match core.log.mark(&self.owed, mark.clone()).await {
                Ok(kept) => return kept,
                Err(error) => {
                    tracing::warn!(%error, task = %self.owed.task, "a delivery cannot be marked; trying again");
                    if matches!(error, StoreError::Closed) || self.drain.drainer.is_stopping() {
                        return false;
                    }
                }
            }
            core.host.sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// What is kept of an attempt that failed.
fn attempt(delivered: &Delivered, now: Timestamp) -> Attempt {
    let (status, problem) = match &delivered.outcome {
        Outcome::Accepted { status } => (Some(*status), String::new()),
        Outcome::Refused { status, retry_after: None } => (Some(*status), "refused".into()),
        Outcome::Refused { status, retry_after: Some(wish) } => {
            (Some(*status), format!("refused, and asked to wait for {} s", wish.as_secs()))
        }
        Outcome::Gone { status } => (Some(*status), "gone".into()),
        Outcome::Forbidden { reason } | Outcome::Unreachable { reason } => (None, reason.clone()),
    };
    let took_ms = u64::try_from(delivered.took.as_millis()).unwrap_or(u64::MAX);
    Attempt { at_ms: now.millis(), took_ms, status, problem }
}
