//! The runner, the one owner of a live task: agent → step → log → watchers.
//!
//! The runner is the only writer of its task's log while it lives. It polls the agent until that waits or ends, commits
//! the reports as one step, publishes them to watchers, and goes on. Of a cancel and a completion the first commit
//! wins; the loser finds the task settled. A runner that cannot commit stops after a while, but its task keeps an
//! owner: see `owed`.

use crate::agent::{CanceledTask, Ending, TransferredTask};
use crate::engine::Core;
use crate::host::BoxFuture;
use crate::live::{LiveRef, RunnerCommand, is_at_rest};
use crate::recorder::Recorder;
use crate::turn::Turn;
use crate::unstored_endings::{self, PAUSE_MAX, PAUSE_MIN, TaskFailure, UnstoredEnding};
use sabir_proto::{Fault, FrozenTask, Seq, TaskState};
use sabir_store::{AppendError, Effect, PendingCancel, Step, StoreError};
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

enum RunnerWakeup {
    Reported,
    Ended(Ending),
    Commanded(RunnerCommand),
    OutOfTime,
}

/// Whether the agent or the engine ends the turn.
#[derive(Clone, Copy)]
enum EndedBy {
    Agent,
    Engine,
}

/// Whether the runner goes on.
enum RunnerFlow {
    Continue,
    Stop,
    /// The store has not taken this step.
    GiveUp(Box<Step>),
    /// The store has refused an effect of the step, for this reason; a retry would not help.
    Refused(String),
}

impl Runner {
    /// Runs the turn to its end, and releases the task or queues its unstored ending.
    pub(crate) async fn run(mut self) {
        let owed = self.run_turn().await;
        let task = self.recorder.task.id;
        let is_settled = self.recorder.task.status.state.is_settled();
        // A first turn that never delegated and was not interrupted has no children; for others only the log knows.
        let may_have_children = self.number != (Seq(0), 1) || self.turn.reports.has_delegated();
        let agent = self.turn.agent.clone();
        if owed.is_none() && is_settled && self.turn.reports.awaits_answer() {
            // Only this turn outlives its task: it learns the id of what must be canceled on the other server. Its
            // reports are refused.
            self.core.cancel_once_answered(task, self.turn);
        } else {
            // Before the task is released: a caller that is told that the agent was stopped may rely on it, and reports
            // from the agent's destructors are counted too.
            let late = self.turn.stop();
            self.core.metrics.late_reports.inc_by(late);
            if self.canceled {
                self.core.host.spawn(self.turn.notify_canceled(task));
            }
        }
        match owed {
            None => {
                self.live.release();
                if may_have_children {
                    self.core.cancel_children(task, self.recorder.task.status.state);
                }
            }
            Some(ending) => {
                let agent = Some(agent);
                self.core.store_ending(UnstoredEnding { live: self.live, ending, agent });
            }
        }
    }

    /// Works until the task rests or is parked. Returns the unstored ending if it has to give up.
    async fn run_turn(&mut self) -> Option<unstored_endings::EndingWrite> {
        if let Some(first) = self.first.take() {
            match self.commit(first).await {
                RunnerFlow::Continue => {}
                RunnerFlow::Stop => return None,
                // The sender was told that its message failed, so this step must not be stored later.
                RunnerFlow::GiveUp(_) => return Some(self.store_failure()),
                RunnerFlow::Refused(why) => return Some(self.failure_with(why)),
            }
        }
        let mut deadline = self.core.host.sleep(self.core.limits.turn_time_max);
        loop {
            let woken = self.next_wakeup(&mut deadline).await;
            match self.handle_wakeup(woken).await {
                RunnerFlow::Continue => {}
                RunnerFlow::Stop => return None,
                RunnerFlow::Refused(why) => return Some(self.failure_with(why)),
                RunnerFlow::GiveUp(step) => {
                    let settles = step.placement.is_some_and(|p| p.state.is_settled());
                    return Some(if settles { self.refused_step(step) } else { self.store_failure() });
                }
            }
        }
    }

    fn refused_step(&self, step: Box<Step>) -> unstored_endings::EndingWrite {
        let image = self.image(&step);
        unstored_endings::EndingWrite::RefusedStep(step, image)
    }

    fn store_failure(&self) -> unstored_endings::EndingWrite {
        self.failure_with("the server could not store what the agent reported; send the message again".into())
    }

    fn failure_with(&self, why: String) -> unstored_endings::EndingWrite {
        unstored_endings::EndingWrite::Failure(TaskFailure {
            why,
            notify: self.recorder.notifies(),
            cancel: self.cancel_to_send(),
        })
    }

    async fn next_wakeup(&mut self, deadline: &mut BoxFuture<'static, ()>) -> RunnerWakeup {
        poll_fn(|cx| {
            if let Some(order) = self.live.poll_command(cx) {
                return Poll::Ready(RunnerWakeup::Commanded(order));
            }
            if let Poll::Ready(ending) = self.turn.poll(cx) {
                return Poll::Ready(RunnerWakeup::Ended(ending));
            }
            if self.turn.reports.is_due() {
                return Poll::Ready(RunnerWakeup::Reported);
            }
            deadline.as_mut().poll(cx).map(|()| RunnerWakeup::OutOfTime)
        })
        .await
    }

    async fn handle_wakeup(&mut self, woken: RunnerWakeup) -> RunnerFlow {
        match woken {
            RunnerWakeup::Reported => self.report(None, EndedBy::Agent).await,
            RunnerWakeup::Ended(ending) => self.report(Some(ending), EndedBy::Agent).await,
            RunnerWakeup::OutOfTime => {
                self.turn.reports.close();
                let seconds = self.core.limits.turn_time_max.as_secs();
                let ending = Ending::fail(format!("the agent did not finish within {seconds} s"));
                self.report(Some(ending), EndedBy::Engine).await
            }
            RunnerWakeup::Commanded(RunnerCommand::Cancel) if !self.turn.agent.any_cancel_grace().is_zero() => {
                self.cancel_elsewhere().await
            }
            RunnerWakeup::Commanded(RunnerCommand::Cancel) => {
                // Closed first, so that later reports are refused and uncommitted ones are not published after the
                // cancel.
                self.turn.reports.close();
                let (_, left) = self.turn.reports.take();
                self.turn.checkpoint = left.or(self.turn.checkpoint.take());
                self.canceled = true;
                self.recorder.status(&self.core, TaskState::Canceled, Vec::new(), None);
                let step = Box::new(self.recorder.step(&self.core, None));
                self.commit(step).await
            }
            RunnerWakeup::Commanded(RunnerCommand::Activate) => {
                if !self.turn.release_hold() {
                    return RunnerFlow::Continue;
                }
                self.recorder.status(&self.core, TaskState::Working, Vec::new(), None);
                let step = Box::new(self.recorder.step(&self.core, None));
                self.commit(step).await
            }
            RunnerWakeup::Commanded(RunnerCommand::Park) => {
                self.turn.reports.close();
                // An orderly stop is no crash, so this attempt does not count.
                let (turn, attempt) = self.number;
                let mut step = Box::new(self.recorder.step(&self.core, None));
                step.turn = Some((turn, attempt.saturating_sub(1)));
                // If the store refuses this, the attempt counts after all, which does little harm.
                drop(self.commit(step).await);
                self.live.fail(Fault::Unavailable("the server is stopping; the task goes on after its restart".into()));
                RunnerFlow::Stop
            }
        }
    }

    /// Cancels the work on the other server, and ends the task as that server reports.
    async fn cancel_elsewhere(&mut self) -> RunnerFlow {
        let mut grace = self.core.host.sleep(self.turn.agent.any_cancel_grace());
        if self.turn.reports.awaits_answer() {
            match self.wait_for_answer(&mut grace).await {
                Ok(Some(ending)) if !ending.is_question() => return self.report(Some(ending), EndedBy::Agent).await,
                Ok(_) => {}
                Err(next) => return next,
            }
        }
        self.turn.reports.close();
        // The final artifacts are compared with the committed reports and the checkpoint, so these reports are recorded
        // first.
        let (drafts, left) = self.turn.reports.take();
        self.recorder.add(&self.core, drafts);
        let (task, agent) = (self.recorder.task.id, self.turn.agent.clone());
        let canceled = CanceledTask { task, checkpoint: left.or(self.turn.checkpoint.take()) };
        let is_unanswered = self.turn.reports.awaits_answer();
        if !is_unanswered {
            self.turn.stop();
        }
        let (core, live) = (self.core.clone(), &self.live);
        let off = core.cancel_elsewhere(&agent, canceled.clone(), &mut grace, |cx| live.poll_stopping(cx)).await;
        // The row is stored also without an id there, in case this process ends before the answer names the task.
        let owed = core.pending_cancel(&off, &canceled);
        if is_unanswered {
            self.turn.checkpoint = canceled.checkpoint;
        }
        self.recorder.end_canceled(&core, off);
        let mut step = Box::new(self.recorder.step(&core, None));
        step.effects.extend(self.turn.reports.take_effects());
        step.effects.extend(owed.clone().map(|owed| Effect::SetPendingCancel(Some(Box::new(owed)))));
        let next = self.commit(step).await;
        if let (Some(owed), RunnerFlow::Stop, false) = (owed, &next, is_unanswered) {
            core.start_cancel(task, agent, owed);
        }
        next
    }

    /// Polls the turn until the other server has answered the message. Returns the ending, if the turn ends with that
    /// answer.
    async fn wait_for_answer(&mut self, grace: &mut BoxFuture<'static, ()>) -> Result<Option<Ending>, RunnerFlow> {
        self.turn.reports.set_cancel_waits();
        loop {
            let woken = poll_fn(|cx| {
                if let Poll::Ready(ending) = self.turn.poll(cx) {
                    return Poll::Ready(Some(RunnerWakeup::Ended(ending)));
                }
                if !self.turn.reports.awaits_answer() || self.live.poll_stopping(cx) {
                    return Poll::Ready(None);
                }
                if self.turn.reports.is_due() {
                    return Poll::Ready(Some(RunnerWakeup::Reported));
                }
                grace.as_mut().poll(cx).map(|()| None)
            })
            .await;
            match woken {
                Some(RunnerWakeup::Ended(ending)) => return Ok(Some(ending)),
                Some(_) => match self.report(None, EndedBy::Agent).await {
                    RunnerFlow::Continue => {}
                    next => return Err(next),
                },
                None => return Ok(None),
            }
        }
    }

    /// Commits the agent's reports, and its ending if it has ended.
    async fn report(&mut self, ending: Option<Ending>, by: EndedBy) -> RunnerFlow {
        let (drafts, checkpoint) = self.turn.reports.take();
        if checkpoint.is_some() {
            self.turn.checkpoint.clone_from(&checkpoint);
        }
        self.recorder.add(&self.core, drafts);
        let ended = ending.is_some();
        let excess = if ended { None } else { self.limit_failure() };
        let is_ours =
            excess.is_some() || matches!(by, EndedBy::Engine) || (ended && self.turn.reports.is_cancel_required());
        let owed = if is_ours { self.cancel_to_send() } else { None };
        excess.iter().for_each(|excess| self.turn.log_failure(excess));
        let ending = ending.or(excess);
        let stop = ending.is_some();
        if let Some(ending) = ending {
            if !ended {
                self.turn.reports.close();
            }
            self.recorder.end(&self.core, ending);
        }
        let mut step = Box::new(self.recorder.step(&self.core, checkpoint));
        step.effects.extend(self.turn.reports.take_effects());
        // A settled task waits for nothing, and needs no record of it.
        let settles = step.placement.is_some_and(|p| p.state.is_settled());
        let waits_for = self.turn.reports.take_waiting_for().filter(|_| !settles);
        step.effects.extend(waits_for.map(|whom| Effect::WaitFor(whom.map(Box::new))));
        // A turn that makes progress is not in a crash loop: only one that crashes again and again at the same point is
        // given up.
        if step.checkpoint.is_some() && self.number.1 > 1 {
            self.number.1 = 1;
            step.turn = Some(self.number);
        }
        step.effects.extend(owed.clone().map(|owed| Effect::SetPendingCancel(Some(Box::new(owed)))));
        let task = step.task;
        let next = match self.commit(step).await {
            RunnerFlow::Continue if stop => RunnerFlow::Stop,
            next => next,
        };
        // Of a task that has no name yet `cancel_once_answered` takes care.
        if let (Some(owed), RunnerFlow::Stop, false) = (owed, &next, self.turn.reports.awaits_answer()) {
            self.core.start_cancel(task, self.turn.agent.clone(), owed);
        }
        next
    }

    /// The cancel for a remote agent whose task here the engine has ended by itself.
    fn cancel_to_send(&self) -> Option<PendingCancel> {
        let wants_to_know = !self.turn.agent.any_cancel_grace().is_zero();
        self.core.immediate_cancel(self.turn.checkpoint.clone().filter(|_| wants_to_know))
    }

    /// The failure of a task that has outgrown its limits.
    fn limit_failure(&self) -> Option<Ending> {
        let limits = &self.core.limits;
        if self.recorder.head.0 >= limits.task_events_max {
            return Some(Ending::fail(format!("the task has more than {} events", limits.task_events_max)));
        }
        let bytes = self.recorder.written_bytes();
        (bytes > limits.task_bytes_max)
            .then(|| Ending::fail(format!("the task has more than {} bytes", limits.task_bytes_max)))
    }

    /// Commits a step and publishes it. A store that refuses writes is retried for `store_patience`: the agent's work
    /// is worth more than the wait.
    async fn commit(&mut self, step: Box<Step>) -> RunnerFlow {
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
            if passing && waited < self.core.limits.store_patience && self.pause_unless_stopping(pause).await {
                tracing::warn!(task = %step.task, %error, "the store refused a step; trying again");
                waited += pause;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            self.turn.reports.close();
            self.core.forget_retry(&step);
            let (fault, refused) = (self.core.append_fault("committing a step", &error), error);
            let why = fault.to_string();
            self.live.fail(fault);
            return if matches!(refused, AppendError::Ledger(_)) {
                RunnerFlow::Refused(why)
            } else {
                RunnerFlow::GiveUp(step)
            };
        }
        self.core.confirm_retry(&step);
        let rest = state.filter(|s| is_at_rest(*s)).map(|_| self.image(&step));
        if self.turn.reports.has_answered() {
            self.live.set_answered();
        }
        self.live.publish(step.head(), &step.events, rest);
        if let (Some(TaskState::Transferred), Some(transfer)) = (state, self.recorder.task.transfer()) {
            let told = TransferredTask { task: step.task, transfer };
            self.core.host.spawn(self.turn.notify_handed_over(told));
        }
        if state.is_some_and(is_at_rest) { RunnerFlow::Stop } else { RunnerFlow::Continue }
    }

    /// Pauses; false as soon as the server stops.
    async fn pause_unless_stopping(&mut self, pause: Duration) -> bool {
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
