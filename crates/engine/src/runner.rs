//! One owner per live task: agent → step → log → watchers.
//!
//! The runner is the only writer of its task's log while it lives. It polls the agent until that waits or ends,
//! commits what it reported as one step, shows it to watchers, and goes on. Whichever of a cancel and a completion
//! commits first wins; the loser finds the task settled.

use crate::agent::Ending;
use crate::engine::Core;
use crate::host::BoxFuture;
use crate::live::{LiveRef, Order, rests};
use crate::record::Recorder;
use crate::turn::Turn;
use sabir_proto::{Fault, FrozenTask, Seq, TaskState};
use sabir_store::{AppendError, Step, StoreError};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

pub(crate) struct Runner {
    pub(crate) core: Arc<Core>,
    pub(crate) live: LiveRef,
    pub(crate) recorder: Recorder,
    pub(crate) turn: Turn,
    /// What has to be committed before the agent goes on.
    pub(crate) first: Option<Box<Step>>,
    /// The turn and attempt, for a stop in an orderly way.
    pub(crate) number: (Seq, u32),
}

enum Woken {
    Reported,
    Ended(Ending),
    Ordered(Order),
    OutOfTime,
}

/// Whether the runner goes on.
enum Next {
    GoOn,
    Stop,
}

impl Runner {
    /// Runs until the turn ends.
    pub(crate) async fn run(mut self) {
        self.work().await;
        // Before the task is given back: whoever is told that the agent was stopped may rely on it, and what it says in
        // its destructors is counted, too.
        let late = self.turn.stop();
        self.core.metrics.late_reports.inc_by(late);
        self.live.release();
    }

    async fn work(&mut self) {
        if let Some(step) = self.first.take()
            && matches!(self.commit(step).await, Next::Stop)
        {
            return;
        }
        let mut deadline = self.core.host.sleep(self.core.limits.turn_time_max);
        loop {
            let woken = self.woken(&mut deadline).await;
            if matches!(self.react(woken).await, Next::Stop) {
                return;
            }
        }
    }

    async fn woken(&mut self, deadline: &mut BoxFuture<'static, ()>) -> Woken {
        poll_fn(|cx| {
            if let Some(order) = self.live.poll_order(cx) {
                return Poll::Ready(Woken::Ordered(order));
            }
            if let Poll::Ready(ending) = self.turn.poll(cx) {
                return Poll::Ready(Woken::Ended(ending));
            }
            if self.turn.outlet.has_drafts() {
                return Poll::Ready(Woken::Reported);
            }
            deadline.as_mut().poll(cx).map(|()| Woken::OutOfTime)
        })
        .await
    }

    async fn react(&mut self, woken: Woken) -> Next {
        match woken {
            Woken::Reported => self.report(None).await,
            Woken::Ended(ending) => self.report(Some(ending)).await,
            Woken::OutOfTime => {
                self.turn.outlet.close();
                let seconds = self.core.limits.turn_time_max.as_secs();
                self.report(Some(Ending::fail(format!("the agent did not finish within {seconds} s")))).await
            }
            Woken::Ordered(Order::Cancel) => {
                // Closed first: whatever the agent still reports is refused, and nothing it reported before but did
                // not get committed is shown after the cancel.
                self.turn.outlet.close();
                drop(self.turn.outlet.take());
                self.recorder.status(&self.core, TaskState::Canceled, Vec::new(), None);
                let step = Box::new(self.recorder.step(None));
                self.commit(step).await;
                Next::Stop
            }
            Woken::Ordered(Order::Park) => {
                self.turn.outlet.close();
                // An orderly stop is no crash, so this attempt does not count.
                let (turn, attempt) = self.number;
                let mut step = Box::new(self.recorder.step(None));
                step.turn = Some((turn, attempt.saturating_sub(1)));
                self.commit(step).await;
                self.live.fail(Fault::Unavailable("the server is stopping; the task goes on after its restart".into()));
                Next::Stop
            }
        }
    }

    /// Commits what the agent reported, and its ending if it has ended.
    async fn report(&mut self, ending: Option<Ending>) -> Next {
        let (drafts, checkpoint) = self.turn.outlet.take();
        self.recorder.add(&self.core, drafts);
        let ended = ending.is_some();
        let ending = ending.or_else(|| self.excess());
        let stop = ending.is_some();
        if let Some(ending) = ending {
            if !ended {
                self.turn.outlet.close();
            }
            self.recorder.end(&self.core, ending);
        }
        let mut step = Box::new(self.recorder.step(checkpoint));
        // Whoever moves on is not in a loop: only a turn that dies again and again at the same point is given up.
        if step.checkpoint.is_some() && self.number.1 > 1 {
            self.number.1 = 1;
            step.turn = Some(self.number);
        }
        match self.commit(step).await {
            Next::GoOn if !stop => Next::GoOn,
            _ => Next::Stop,
        }
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

    /// Commits a step and shows it. A store that refuses writes is tried again for a while: the agent's work is worth
    /// more than the wait.
    async fn commit(&mut self, step: Box<Step>) -> Next {
        let state = step.placement.map(|p| p.state);
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(50);
        loop {
            match self.core.log.append(Step::clone(&step)).await {
                Ok(()) => break,
                Err(AppendError::Store(error @ (StoreError::Full | StoreError::Io(_))))
                    if waited < self.core.limits.store_patience =>
                {
                    tracing::warn!(task = %step.task, %error, "the store refused a step; trying again");
                    self.core.host.sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                Err(error) => {
                    self.turn.outlet.close();
                    self.core.forget_retry(&step);
                    self.live.fail(self.core.append_fault("committing a step", &error));
                    return Next::Stop;
                }
            }
        }
        self.core.keep_retry(&step);
        let rest = state.filter(|s| rests(*s)).map(|_| self.image(&step));
        self.live.publish(step.head(), &step.events, rest);
        if state.is_some_and(rests) { Next::Stop } else { Next::GoOn }
    }

    fn image(&self, step: &Step) -> FrozenTask {
        step.snapshot.clone().unwrap_or_else(|| FrozenTask::freeze(&self.recorder.task))
    }
}
