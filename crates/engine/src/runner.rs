//! The runner, the one owner of a live task: agent → step → log → watchers.
//!
//! The runner is the only writer of its task's log while it lives. It polls the agent until that waits or ends, commits
//! the reports as one step, publishes them to watchers, and goes on. Of a cancel and a completion the first commit
//! wins; the loser finds the task settled. A runner that cannot commit stops after a while, but its task keeps an
//! owner: see `owed`.

use crate::agent::{Canceled, Ending, HandedOver};
use crate::engine::Core;
use crate::host::BoxFuture;
use crate::live::{LiveRef, Order, rests};
use crate::owed::{self, Failed, Owed, PAUSE_MAX, PAUSE_MIN};
use crate::record::Recorder;
use crate::turn::Turn;
use sabir_proto::{Fault, FrozenTask, Seq, TaskState};
use sabir_store::{AppendError, Effect, OwedCancel, Step, StoreError};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

pub(crate) struct Runner {
    pub(crate) core: Arc<Core>,
    pub(crate) live: LiveRef,
    pub(crate) recorder: Recorder,
    pub(crate) turn: Turn,
    /// The step that must be committed before the agent goes on.
    pub(crate) first: Option<Box<Step>>,
    /// The turn and the attempt, for an orderly stop.
    pub(crate) number: (Seq, u32),
    /// Whether the caller has canceled the task.
    pub(crate) canceled: bool,
}

enum Woken {
    Reported,
    Ended(Ending),
    Ordered(Order),
    OutOfTime,
}

/// Whether the agent or the engine ends the turn.
#[derive(Clone, Copy)]
enum By {
    Agent,
    Us,
}

/// Whether the runner goes on.
enum Next {
    GoOn,
    Stop,
    /// The store has not taken this step.
    GiveUp(Box<Step>),
    /// The store has refused an effect of the step, for this reason; a retry would not help.
    Refused(String),
}

impl Runner {
    /// Runs the turn to its end, and releases the task or queues its unstored ending.
    pub(crate) async fn run(mut self) {
        let owed = self.work().await;
        let task = self.recorder.task.id;
        let is_settled = self.recorder.task.status.state.is_settled();
        // A first turn that never delegated and was not interrupted has no children; for others only the log knows.
        let may_have_children = self.number != (Seq(0), 1) || self.turn.outlet.has_delegated();
        let agent = self.turn.agent.clone();
        if owed.is_none() && is_settled && self.turn.outlet.awaits_answer() {
            // Only this turn outlives its task: it learns the id of what must be canceled on the other server. Its
            // reports are refused.
            self.core.cancel_once_answered(task, self.turn);
        } else {
            // Before the task is released: a caller that is told that the agent was stopped may rely on it, and reports
            // from the agent's destructors are counted too.
            let late = self.turn.stop();
            self.core.metrics.late_reports.inc_by(late);
            if self.canceled {
                self.core.host.spawn(self.turn.canceled(task));
            }
        }
        match owed {
            None => {
                self.live.release();
                if may_have_children {
                    self.core.bereave(task, self.recorder.task.status.state);
                }
            }
            Some(ending) => {
                let agent = Some(agent);
                self.core.owe(Owed { live: self.live, ending, agent });
            }
        }
    }

    /// Works until the task rests or is parked. Returns the unstored ending if it has to give up.
    async fn work(&mut self) -> Option<owed::Ending> {
        if let Some(first) = self.first.take() {
            match self.commit(first).await {
                Next::GoOn => {}
                Next::Stop => return None,
                // The sender was told that its message failed, so this step must not be stored later.
                Next::GiveUp(_) => return Some(self.failure()),
                Next::Refused(why) => return Some(self.failure_because(why)),
            }
        }
        let mut deadline = self.core.host.sleep(self.core.limits.turn_time_max);
        loop {
            let woken = self.woken(&mut deadline).await;
            match self.react(woken).await {
                Next::GoOn => {}
                Next::Stop => return None,
                Next::Refused(why) => return Some(self.failure_because(why)),
                Next::GiveUp(step) => {
                    let settles = step.placement.is_some_and(|p| p.state.is_settled());
                    return Some(if settles { self.ending(step) } else { self.failure() });
                }
            }
        }
    }

    fn ending(&self, step: Box<Step>) -> owed::Ending {
        let image = self.image(&step);
        owed::Ending::Step(step, image)
    }

    fn failure(&self) -> owed::Ending {
        self.failure_because("the server could not store what the agent reported; send the message again".into())
    }

    fn failure_because(&self, why: String) -> owed::Ending {
        owed::Ending::Failed(Failed { why, notify: self.recorder.notifies(), cancel: self.owed() })
    }

    async fn woken(&mut self, deadline: &mut BoxFuture<'static, ()>) -> Woken {
        poll_fn(|cx| {
            if let Some(order) = self.live.poll_order(cx) {
                return Poll::Ready(Woken::Ordered(order));
            }
            if let Poll::Ready(ending) = self.turn.poll(cx) {
                return Poll::Ready(Woken::Ended(ending));
            }
            if self.turn.outlet.is_due() {
                return Poll::Ready(Woken::Reported);
            }
            deadline.as_mut().poll(cx).map(|()| Woken::OutOfTime)
        })
        .await
    }

    async fn react(&mut self, woken: Woken) -> Next {
        match woken {
            Woken::Reported => self.report(None, By::Agent).await,
            Woken::Ended(ending) => self.report(Some(ending), By::Agent).await,
            Woken::OutOfTime => {
                self.turn.outlet.close();
                let seconds = self.core.limits.turn_time_max.as_secs();
                let ending = Ending::fail(format!("the agent did not finish within {seconds} s"));
                self.report(Some(ending), By::Us).await
            }
            Woken::Ordered(Order::Cancel) if !self.turn.agent.any_grace().is_zero() => self.call_off().await,
            Woken::Ordered(Order::Cancel) => {
                // Closed first, so that later reports are refused and uncommitted ones are not published after the
                // cancel.
                self.turn.outlet.close();
                let (_, left) = self.turn.outlet.take();
                self.turn.checkpoint = left.or(self.turn.checkpoint.take());
                self.canceled = true;
                self.recorder.status(&self.core, TaskState::Canceled, Vec::new(), None);
                let step = Box::new(self.recorder.step(&self.core, None));
                self.commit(step).await
            }
            Woken::Ordered(Order::Activate) => {
                if !self.turn.release() {
                    return Next::GoOn;
                }
                self.recorder.status(&self.core, TaskState::Working, Vec::new(), None);
                let step = Box::new(self.recorder.step(&self.core, None));
                self.commit(step).await
            }
            Woken::Ordered(Order::Park) => {
                self.turn.outlet.close();
                // An orderly stop is no crash, so this attempt does not count.
                let (turn, attempt) = self.number;
                let mut step = Box::new(self.recorder.step(&self.core, None));
                step.turn = Some((turn, attempt.saturating_sub(1)));
                // If the store refuses this, the attempt counts after all, which does little harm.
                drop(self.commit(step).await);
                self.live.fail(Fault::Unavailable("the server is stopping; the task goes on after its restart".into()));
                Next::Stop
            }
        }
    }

    /// Cancels the work on the other server, and ends the task as that server reports.
    async fn call_off(&mut self) -> Next {
        let mut grace = self.core.host.sleep(self.turn.agent.any_grace());
        if self.turn.outlet.awaits_answer() {
            match self.until_answered(&mut grace).await {
                Ok(Some(ending)) if !ending.asks() => return self.report(Some(ending), By::Agent).await,
                Ok(_) => {}
                Err(next) => return next,
            }
        }
        self.turn.outlet.close();
        // The final artifacts are compared with the committed reports and the checkpoint, so these reports are recorded
        // first.
        let (drafts, left) = self.turn.outlet.take();
        self.recorder.add(&self.core, drafts);
        let (task, agent) = (self.recorder.task.id, self.turn.agent.clone());
        let canceled = Canceled { task, checkpoint: left.or(self.turn.checkpoint.take()) };
        let is_unanswered = self.turn.outlet.awaits_answer();
        if !is_unanswered {
            self.turn.stop();
        }
        let (core, live) = (self.core.clone(), &self.live);
        let off = core.call_off(&agent, canceled.clone(), &mut grace, |cx| live.poll_stopping(cx)).await;
        // Without an id there, the cancel is stored later, once the answer names one.
        let owed = core.owed_cancel(&off, &canceled).filter(|_| !is_unanswered);
        self.recorder.call_off(&core, off);
        let mut step = Box::new(self.recorder.step(&core, None));
        step.effects.extend(self.turn.outlet.take_effects());
        step.effects.extend(owed.clone().map(|owed| Effect::OweCancel(Some(Box::new(owed)))));
        let next = self.commit(step).await;
        if let (Some(owed), Next::Stop) = (owed, &next) {
            core.chase(task, agent, owed);
        }
        next
    }

    /// Polls the turn until the other server has answered the message. Returns the ending, if the turn ends with that
    /// answer.
    async fn until_answered(&mut self, grace: &mut BoxFuture<'static, ()>) -> Result<Option<Ending>, Next> {
        self.turn.outlet.set_cancel_waits();
        loop {
            let woken = poll_fn(|cx| {
                if let Poll::Ready(ending) = self.turn.poll(cx) {
                    return Poll::Ready(Some(Woken::Ended(ending)));
                }
                if !self.turn.outlet.awaits_answer() || self.live.poll_stopping(cx) {
                    return Poll::Ready(None);
                }
                if self.turn.outlet.is_due() {
                    return Poll::Ready(Some(Woken::Reported));
                }
                grace.as_mut().poll(cx).map(|()| None)
            })
            .await;
            match woken {
                Some(Woken::Ended(ending)) => return Ok(Some(ending)),
                Some(_) => match self.report(None, By::Agent).await {
                    Next::GoOn => {}
                    next => return Err(next),
                },
                None => return Ok(None),
            }
        }
    }

    /// Commits the agent's reports, and its ending if it has ended.
    async fn report(&mut self, ending: Option<Ending>, by: By) -> Next {
        let (drafts, checkpoint) = self.turn.outlet.take();
        if checkpoint.is_some() {
            self.turn.checkpoint.clone_from(&checkpoint);
        }
        self.recorder.add(&self.core, drafts);
        let ended = ending.is_some();
        let excess = if ended { None } else { self.excess() };
        let is_ours = excess.is_some() || matches!(by, By::Us) || (ended && self.turn.outlet.owes_cancel());
        let owed = if is_ours { self.owed() } else { None };
        excess.iter().for_each(|excess| self.turn.log_failure(excess));
        let ending = ending.or(excess);
        let stop = ending.is_some();
        if let Some(ending) = ending {
            if !ended {
                self.turn.outlet.close();
            }
            self.recorder.end(&self.core, ending);
        }
        let mut step = Box::new(self.recorder.step(&self.core, checkpoint));
        step.effects.extend(self.turn.outlet.take_effects());
        // A settled task waits for nothing, and needs no record of it.
        let settles = step.placement.is_some_and(|p| p.state.is_settled());
        let waits_for = self.turn.outlet.take_waits_for().filter(|_| !settles);
        step.effects.extend(waits_for.map(|whom| Effect::WaitFor(whom.map(Box::new))));
        // A turn that makes progress is not in a crash loop: only one that crashes again and again at the same point is
        // given up.
        if step.checkpoint.is_some() && self.number.1 > 1 {
            self.number.1 = 1;
            step.turn = Some(self.number);
        }
        step.effects.extend(owed.clone().map(|owed| Effect::OweCancel(Some(Box::new(owed)))));
        let task = step.task;
        let next = match self.commit(step).await {
            Next::GoOn if stop => Next::Stop,
            next => next,
        };
        if let (Some(owed), Next::Stop) = (owed, &next) {
            self.core.chase(task, self.turn.agent.clone(), owed);
        }
        next
    }

    /// The cancel for a remote agent whose task here the engine has ended by itself.
    fn owed(&self) -> Option<OwedCancel> {
        // Without an id there, the cancel is stored later, once the answer names one.
        let wants_to_know = !self.turn.agent.any_grace().is_zero() && !self.turn.outlet.awaits_answer();
        self.core.untold_cancel(self.turn.checkpoint.clone().filter(|_| wants_to_know))
    }

    /// The failure of a task that has outgrown its limits.
    fn excess(&self) -> Option<Ending> {
        let limits = &self.core.limits;
        if self.recorder.head.0 >= limits.task_events_max {
            return Some(Ending::fail(format!("the task has more than {} events", limits.task_events_max)));
        }
        let bytes = self.recorder.written();
        (bytes > limits.task_bytes_max)
            .then(|| Ending::fail(format!("the task has more than {} bytes", limits.task_bytes_max)))
    }

    /// Commits a step and publishes it. A store that refuses writes is retried for `store_patience`: the agent's work
    /// is worth more than the wait.
    async fn commit(&mut self, step: Box<Step>) -> Next {
        let state = step.placement.map(|p| p.state);
        let mut waited = Duration::ZERO;
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.core.log.append(Step::clone(&step)).await {
                Ok(()) => break,
                Err(error) => error,
            };
            use StoreError::{Full, Io, ReadOnly};
            let passing = matches!(error, AppendError::Store(Full | ReadOnly(_) | Io(_)));
            if passing && waited < self.core.limits.store_patience && self.wait(pause).await {
                tracing::warn!(task = %step.task, %error, "the store refused a step; trying again");
                waited += pause;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            self.turn.outlet.close();
            self.core.forget_retry(&step);
            let (fault, refused) = (self.core.append_fault("committing a step", &error), error);
            let why = fault.to_string();
            self.live.fail(fault);
            return if matches!(refused, AppendError::Ledger(_)) { Next::Refused(why) } else { Next::GiveUp(step) };
        }
        self.core.keep_retry(&step);
        let rest = state.filter(|s| rests(*s)).map(|_| self.image(&step));
        if self.turn.outlet.has_answered() {
            self.live.set_answered();
        }
        self.live.publish(step.head(), &step.events, rest);
        if let (Some(TaskState::Transferred), Some(transfer)) = (state, self.recorder.task.transfer()) {
            let told = HandedOver { task: step.task, transfer };
            self.core.host.spawn(self.turn.handed_over(told));
        }
        if state.is_some_and(rests) { Next::Stop } else { Next::GoOn }
    }

    /// Pauses; false as soon as the server stops.
    async fn wait(&mut self, pause: Duration) -> bool {
        let mut pause = self.core.host.sleep(pause);
        poll_fn(|cx| {
            if self.live.poll_stopping(cx) {
                return Poll::Ready(false);
            }
            pause.as_mut().poll(cx).map(|()| true)
        })
        .await
    }

    fn image(&self, step: &Step) -> FrozenTask {
        step.snapshot.clone().unwrap_or_else(|| FrozenTask::freeze(&self.recorder.task))
    }
}
