//! Drains the outbox: one loop reads due deliveries and gives them to workers.
//!
//! The loop reads a bounded number at a time. A worker makes one attempt at a time and records its result before it
//! goes on, so that a crash repeats no more than the event in flight. While the store takes no writes, workers keep
//! their results: a delivered event is not delivered again because the disk is full.

use super::breaker::{Admission, Breakers, later};
use super::ready_queue::{ReadyQueue, WorkerShares};
use super::schedule::{self, DeliveryClock, RetryDecision};
use crate::engine::Core;
use crate::host::BoxFuture;
use crate::push_transport::{DeliveryOutcome, DeliveryRequest, DeliveryResult, PushTransport, delivery_id};
use sabir_proto::{Seq, Timestamp};
use sabir_store::{Attempt, DeliveryMark, DueDeliveries, DueDelivery, PushReceiver, StoreError, WakeSignal};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// Events that a worker delivers to one receiver before others get their turn.
const RUN_MAX: usize = 32;
/// The shortest and the longest pause before the store is asked again.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The longest sleep, so that a clock that is set forward delays no delivery for longer.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// The handle of the drain loop. It does not refer to the engine, which refers to it.
pub(crate) struct Drainer {
    transport: Arc<dyn PushTransport>,
    /// When deliveries began in this process.
    begun: Timestamp,
    state: Mutex<DrainerState>,
    /// Wakes the loop when a worker is free again, and at the stop.
    wake: WakeSignal,
    stopping: AtomicBool,
}

#[derive(Default)]
struct DrainerState {
    ready: ReadyQueue,
    breakers: Breakers,
}

impl Drainer {
    pub(crate) fn new(transport: Arc<dyn PushTransport>, begun: Timestamp) -> Self {
        Self {
            transport,
            begun,
            state: Mutex::default(),
            wake: WakeSignal::default(),
            stopping: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DrainerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins no more deliveries.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.lock().ready.in_flight()
    }

    pub(crate) fn transport(&self) -> &dyn PushTransport {
        &*self.transport
    }
}

/// Runs the drain loop until the engine stops.
pub(crate) async fn drain(core: Arc<Core>, drainer: Arc<Drainer>) {
    let drain = DrainLoop { core, drainer };
    let owed = drain.core.log.due_signal();
    while !drain.drainer.is_stopping() {
        let wait = match drain.run_round().await {
            Ok(DrainRound::MoreIsDue) => continue,
            Ok(DrainRound::Next(due)) => due.map(|due| drain.time_until(due)),
            Err(error) => {
                tracing::warn!(%error, "the outbox cannot be read or marked; trying again");
                Some(PAUSE_MAX)
            }
        };
        drain.wait_for_work(&owed, wait.map(|wait| drain.core.host.sleep(wait))).await;
    }
}

/// The result of one round of the loop.
enum DrainRound {
    /// More is due than was read.
    MoreIsDue,
    /// Nothing is due before then, unless the loop is woken.
    Next(Option<Timestamp>),
}

#[derive(Clone)]
struct DrainLoop {
    core: Arc<Core>,
    drainer: Arc<Drainer>,
}

impl DrainLoop {
    fn time_until(&self, due: Timestamp) -> Duration {
        let ms = due.millis().saturating_sub(self.core.host.now().millis());
        Duration::from_millis(u64::try_from(ms).unwrap_or(0) + 1).min(SLEEP_MAX)
    }

    async fn wait_for_work(&self, owed: &WakeSignal, mut alarm: Option<BoxFuture<'static, ()>>) {
        poll_fn(|cx| {
            let rung = (owed.poll_notified(cx).is_ready(), self.drainer.wake.poll_notified(cx).is_ready());
            let alarmed = alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_ready());
            if rung == (false, false) && !alarmed { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Reads what is due, and starts as many deliveries as may go.
    async fn run_round(&self) -> Result<DrainRound, StoreError> {
        let page = self.read_due().await?;
        let left_alone = self.dispatch();
        let postponed = !left_alone.is_empty();
        // All writes at once: each alone would be a transaction of its own.
        let mark = |(owed, until): &(DueDelivery, Timestamp)| {
            self.core.log.mark(owed, DeliveryMark::Postpone { until: *until, attempt: None })
        };
        for answer in left_alone.iter().map(mark).collect::<Vec<_>>() {
            answer.await?;
        }
        if (page == OutboxPage::Part || postponed) && self.drainer.lock().ready.is_idle(self.shares()) {
            return Ok(DrainRound::MoreIsDue);
        }
        Ok(DrainRound::Next(self.core.log.next_due(self.core.host.now()).await?))
    }

    fn shares(&self) -> WorkerShares {
        let limits = &self.core.limits;
        WorkerShares { workers: limits.push_workers_max, host_workers: limits.push_host_workers_max }
    }

    /// Reads what is due, unless enough deliveries wait in memory.
    async fn read_due(&self) -> Result<OutboxPage, StoreError> {
        let reading = self.drainer.lock().ready.next_reading(self.core.host.now(), self.shares());
        let Some(reading) = reading else { return Ok(OutboxPage::Unread) };
        let DueDeliveries { deliveries: owed, remainder: rest } = self.core.log.due(reading).await?;
        let mut state = self.drainer.lock();
        owed.into_iter().for_each(|owed| state.ready.add(owed));
        Ok(if state.ready.continue_from(rest) { OutboxPage::Part } else { OutboxPage::Whole })
    }

    /// Starts workers for what may go; returns what must wait for an open breaker.
    fn dispatch(&self) -> Vec<(DueDelivery, Timestamp)> {
        let (shares, host) = (self.shares(), &self.core.host);
        let mut left_alone = Vec::new();
        let mut state = self.drainer.lock();
        while !self.drainer.is_stopping() && state.ready.in_flight() < shares.workers {
            let Some(owed) = state.ready.next(shares) else { break };
            match state.breakers.admit(&owed, host.now(), host.random()) {
                Admission::Go => {
                    let worker = DeliveryWorker { drain: self.clone(), owed, admitted: true };
                    host.spawn(Box::pin(worker.run()));
                }
                Admission::Wait(until) => {
                    let others = state.ready.take_waiting(&owed.lane);
                    state.ready.finish(&owed);
                    left_alone.push((owed, until));
                    // The rest of the lane as well, each with a time of its own.
                    for other in others {
                        match state.breakers.admit(&other, host.now(), host.random()) {
                            Admission::Wait(until) => left_alone.push((other, until)),
                            Admission::Go => state.breakers.cancel_probe(&other.lane),
                        }
                    }
                }
            }
        }
        self.update_gauges(&state);
        left_alone
    }

    fn update_gauges(&self, state: &DrainerState) {
        let metrics = &self.core.metrics;
        metrics.push_in_flight.set(i64::try_from(state.ready.in_flight()).unwrap_or(i64::MAX));
        metrics.push_hosts_paused.set(i64::try_from(state.breakers.paused()).unwrap_or(i64::MAX));
    }
}

/// How much of what is due was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutboxPage {
    Unread,
    Whole,
    Part,
}

/// Delivers to one configuration.
struct DeliveryWorker {
    drain: DrainLoop,
    owed: DueDelivery,
    /// Admitted by the breakers, which have no result yet.
    admitted: bool,
}

/// Runs also when the transport panics: the worker's place must be freed, and the same event must not be retried at
/// once.
impl Drop for DeliveryWorker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let core = &self.drain.core;
            let broken = not_attempted("the delivery broke off".into());
            // The write is queued; a destructor cannot await it.
            drop(core.log.mark(&self.owed, self.mark_for(&broken, core.host.now())));
        }
        let mut state = self.drain.drainer.lock();
        if self.admitted {
            state.breakers.cancel_probe(&self.owed.lane);
        }
        state.ready.finish(&self.owed);
        self.drain.update_gauges(&state);
        drop(state);
        self.drain.drainer.wake.notify();
    }
}

/// Why an event and its receiver could not be loaded.
enum DeliveryLoadError {
    /// The configuration was deleted.
    Receiver,
    /// The event is missing for good.
    Event(String),
    /// The store cannot read it now.
    Unread(StoreError),
}

impl From<StoreError> for DeliveryLoadError {
    fn from(error: StoreError) -> Self {
        match error {
            // A later attempt cannot read it either.
            StoreError::Corrupt(what) => Self::Event(format!("the store is damaged: {what}")),
            error => Self::Unread(error),
        }
    }
}

impl DeliveryWorker {
    async fn run(mut self) {
        for _ in 0..RUN_MAX {
            if !self.admitted && !self.admit() || !self.deliver_next().await || self.drain.drainer.is_stopping() {
                return;
            }
        }
    }

    fn admit(&mut self) -> bool {
        let host = &self.drain.core.host;
        let asked = self.drain.drainer.lock().breakers.admit(&self.owed, host.now(), host.random());
        self.admitted = asked == Admission::Go;
        self.admitted
    }

    /// Delivers one event; true when the next one of the row may follow.
    async fn deliver_next(&mut self) -> bool {
        let core = self.drain.core.clone();
        let delivered = match self.load_request().await {
            Ok(parcel) => self.drain.drainer.transport.deliver(parcel).await,
            Err(DeliveryLoadError::Unread(error)) => not_attempted(format!("the event cannot be read: {error}")),
            Err(DeliveryLoadError::Receiver) => {
                // The configuration was deleted, and its row with it. A row that still exists must not be found again
                // and again.
                drop(core.log.discard(self.owed.number).await);
                return false;
            }
            Err(DeliveryLoadError::Event(reason)) => {
                core.metrics.push_buried.inc();
                self.mark(DeliveryMark::DeadLetter { now: core.host.now(), reason, attempt: None }).await;
                return false;
            }
        };
        let now = core.host.now();
        core.metrics.count_delivery(&delivered);
        self.admitted = false;
        if self.drain.drainer.lock().breakers.report(&self.owed, &delivered.outcome, now, &core.limits) {
            tracing::warn!(host = %self.owed.lane.host, "a receiver's host fails; it is left alone for a while");
        }
        let accepted = matches!(delivered.outcome, DeliveryOutcome::Accepted { .. });
        let kept = self.mark(self.mark_for(&delivered, now)).await;
        let goes_on = accepted && kept && self.owed.seq < self.owed.last && self.is_oldest().await;
        if goes_on {
            self.owed.seq = self.owed.seq.next();
            self.owed.attempts = 0;
        }
        goes_on
    }

    /// Whether this row is still the oldest of its configuration: an operator may retry an older dead letter.
    async fn is_oldest(&self) -> bool {
        let letter = self.drain.core.log.delivery(self.owed.number).await;
        letter.is_ok_and(|letter| letter.is_some_and(|letter| letter.due.is_some()))
    }

    /// Loads the event with everything that its delivery needs.
    async fn load_request(&self) -> Result<DeliveryRequest, DeliveryLoadError> {
        let (core, owed) = (&self.drain.core, &self.owed);
        // Read now: the configuration may have changed or gone while the event waited.
        let found = core.log.receiver(owed.task, &owed.config).await?;
        let PushReceiver { config, dialect } = found.ok_or(DeliveryLoadError::Receiver)?;
        let before = Seq(owed.seq.0.saturating_sub(1));
        let event = core.log.events(owed.task, before, 1).await?.into_iter().find(|event| event.seq == owed.seq);
        let (Some(event), Some(scope)) = (event, core.log.owner(owed.task).await?) else {
            return Err(DeliveryLoadError::Event("the event is no longer in the log".into()));
        };
        let id = delivery_id(owed.task, &owed.config, owed.seq);
        let attempt = owed.attempts.saturating_add(1);
        Ok(DeliveryRequest { config, dialect, task: owed.task, scope, event, at: owed.at, id, attempt })
    }

    fn mark_for(&self, delivered: &DeliveryResult, now: Timestamp) -> DeliveryMark {
        let core = &self.drain.core;
        if matches!(delivered.outcome, DeliveryOutcome::Accepted { .. }) {
            return DeliveryMark::Delivered { now };
        }
        let tried = Some(attempt(delivered, now));
        let watch = DeliveryClock { started_at: self.drain.drainer.begun, now };
        match schedule::decide(&core.limits, &self.owed, &delivered.outcome, watch, core.host.random()) {
            RetryDecision::Again(delay) => DeliveryMark::Postpone { until: later(now, delay), attempt: tried },
            RetryDecision::GiveUp(reason) => {
                core.metrics.push_buried.inc();
                let (task, config) = (self.owed.task, &self.owed.config);
                tracing::warn!(%task, config, seq = self.owed.seq.0, reason, "a push notification was given up");
                DeliveryMark::DeadLetter { now, reason, attempt: tried }
            }
            RetryDecision::EndRegistration(reason) => {
                core.metrics.push_buried.inc();
                tracing::info!(task = %self.owed.task, config = self.owed.config, reason, "a receiver wants no more");
                DeliveryMark::EndReceiver { now, reason, attempt: tried }
            }
        }
    }

    /// Records a result in the outbox, and retries until it succeeds. False when the delivery no longer exists, or the
    /// engine stops first: then it is delivered again after the next start.
    async fn mark(&self, mark: DeliveryMark) -> bool {
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

/// The result of a delivery for which no request was sent.
const fn not_attempted(reason: String) -> DeliveryResult {
    DeliveryResult { outcome: DeliveryOutcome::NotAttempted { reason }, took: Duration::ZERO }
}

/// The record of a failed attempt.
fn attempt(delivered: &DeliveryResult, now: Timestamp) -> Attempt {
    let (status, problem) = match &delivered.outcome {
        DeliveryOutcome::Accepted { status } => (Some(*status), String::new()),
        DeliveryOutcome::Refused { status, retry_after: None } => (Some(*status), "refused".into()),
        DeliveryOutcome::Refused { status, retry_after: Some(wish) } => {
            (Some(*status), format!("refused, and asked to wait for {} s", wish.as_secs()))
        }
        DeliveryOutcome::Gone { status } => (Some(*status), "gone".into()),
        DeliveryOutcome::Forbidden { reason }
        | DeliveryOutcome::Unreachable { reason }
        | DeliveryOutcome::NoAnswer { reason }
        | DeliveryOutcome::NotAttempted { reason } => (None, reason.clone()),
    };
    let took_ms = u64::try_from(delivered.took.as_millis()).unwrap_or(u64::MAX);
    Attempt { at_ms: now.millis(), took_ms, status, problem }
}
