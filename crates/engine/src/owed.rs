//! Endings we owe: tasks that cannot end because the store takes no writes.
//!
//! A turn whose step is refused for longer than `store_patience` is given up, but to say so is a write as well. So the
//! task keeps its owner and waits here. Once the store takes writes again it is settled: with the very step that was
//! refused where that would have ended it, so that a finished answer is not lost; as failed where not. Only one task
//! knocks at a time, since a store in trouble is not helped by a hundred thousand retries.
//!
//! In the meantime *get* shows the task as the log has it, and whoever writes to it, cancels it or waits for it is told
//! that nothing can be stored. A task that waits here counts as running, so `live_tasks_max` bounds the list. A stop
//! gives all of them back: they are unfinished, and the next start takes them up.

use crate::agent::AnyAgent;
use crate::engine::Core;
use crate::live::{LiveRef, rests};
use crate::machine;
use crate::record::Recorder;
use crate::turn::log_failed_task;
use sabir_proto::{Fault, FrozenTask, Part, TaskState};
use sabir_store::{AppendError, Effect, OwedCancel, Step, Stored};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait before the store is asked again, at first and at most.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A task that has an owner, no agent any more, and no end yet.
pub(crate) struct Owed {
    pub(crate) live: LiveRef,
    pub(crate) ending: Ending,
    /// Who is to be told that nobody waits for what it does elsewhere, if it is here.
    pub(crate) agent: Option<Arc<dyn AnyAgent>>,
}

/// What the task is to end with.
pub(crate) enum Ending {
    /// A step that was refused, and the task after it.
    Step(Box<Step>, FrozenTask),
    /// Failed.
    Failed(Failed),
}

/// How a task fails that nobody works on any more.
pub(crate) struct Failed {
    pub(crate) why: String,
    pub(crate) notify: bool,
    /// What is owed to whoever may still work on it elsewhere.
    pub(crate) cancel: Option<OwedCancel>,
}

/// The endings that wait.
#[derive(Default)]
pub(crate) struct Endings(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Owed>,
    /// Somebody asks the store from time to time.
    knocking: bool,
}

impl Endings {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Ends a task whose agent is gone, sooner or later and whatever becomes of the caller.
    pub(crate) fn owe(self: &Arc<Self>, owed: Owed) {
        let core = self.clone();
        self.host.spawn(Box::pin(async move {
            if let Err(owed) = core.pay(owed).await {
                core.put_off(owed);
            }
        }));
    }

    /// Gives back every task that waits for its end: the next start takes them up.
    pub(crate) fn give_up_owing(&self) {
        let waiting = std::mem::take(&mut self.endings.lock().waiting);
        waiting.iter().for_each(|owed| owed.live.release());
        self.metrics.endings_owed.set(0);
    }

    /// Tries to end a task; gives it back if the store does not want to.
    async fn pay(self: &Arc<Self>, owed: Owed) -> Result<(), Owed> {
        let outcome = match &owed.ending {
            Ending::Failed(failed) => self.fail_unfinished(&owed.live, failed).await,
            Ending::Step(step, image) => match self.log.append(Step::clone(step)).await {
                Ok(()) => Ok(Some((Step::clone(step), image.clone()))),
                Err(AppendError::Stale) => {
                    let (why, notify) = ("the task's log has moved on".into(), step.notify.is_some());
                    self.fail_unfinished(&owed.live, &Failed { why, notify, cancel: None }).await
                }
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(settled) => {
                let state = settled.as_ref().map(|(_, image)| image.state);
                if let Some((step, image)) = settled {
                    owed.live.publish(step.head(), &step.events, Some(image));
                    if let Some(agent) = &owed.agent {
                        self.chase_for(&step, agent);
                    }
                }
                owed.live.release();
                if let Some(state) = state {
                    self.bereave(owed.live.id(), state);
                }
                Ok(())
            }
            Err(error) => {
                tracing::warn!(task = %owed.live.id(), %error, "the store refuses the end of a task; trying again");
                Err(owed)
            }
        }
    }

    /// Fails a task, unless it rests in the log: what could not be committed may have been its very first step, or the
    /// first of a turn that then never began.
    async fn fail_unfinished(
        &self,
        live: &LiveRef,
        Failed { why, notify, cancel }: &Failed,
    ) -> Result<Option<(Step, FrozenTask)>, AppendError> {
        let stored = self.log.load(live.id()).await?;
        let Some(stored) = stored.filter(|stored| !rests(stored.state)) else { return Ok(None) };
        let words = crate::agent::words(why.clone());
        let Some((mut step, image)) = self.ending(&stored, TaskState::Failed, words, *notify) else {
            tracing::error!(task = %stored.id, "a damaged record; the task stays as it is");
            return Ok(None);
        };
        step.effects.extend(cancel.clone().map(|cancel| Effect::OweCancel(Some(Box::new(cancel)))));
        self.log.append(step.clone()).await?;
        log_failed_task(&stored.scope.agent, stored.id, why);
        Ok(Some((step, image)))
    }

    /// The step that ends a task from outside, and the task after it; `None` for a damaged record.
    pub(crate) fn ending(
        &self,
        stored: &Stored,
        state: TaskState,
        words: Vec<Part>,
        notify: bool,
    ) -> Option<(Step, FrozenTask)> {
        let mut recorder = Recorder::resume(machine::thaw(stored)?, stored, notify);
        recorder.status(self, state, words, None);
        Some((recorder.step(self, None), FrozenTask::freeze(&recorder.task)))
    }

    fn put_off(self: &Arc<Self>, owed: Owed) {
        let mut endings = self.endings.lock();
        // Asked under the lock: whoever stops takes what is in the list after it has said so.
        if self.live.is_stopping() {
            drop(endings);
            return owed.live.release();
        }
        owed.live.put_off(Fault::Unavailable("the server cannot store anything right now; try again later".into()));
        endings.waiting.push_back(owed);
        self.metrics.endings_owed.set(i64::try_from(endings.waiting.len()).unwrap_or(i64::MAX));
        if !std::mem::replace(&mut endings.knocking, true) {
            drop(endings);
            self.host.spawn(Box::pin(knock(self.clone())));
        }
    }

    /// The task that has waited longest; `None`, and nobody knocks any more, when there is none.
    fn next_owed(&self) -> Option<Owed> {
        let mut endings = self.endings.lock();
        let next = endings.waiting.pop_front();
        endings.knocking = next.is_some();
        self.metrics.endings_owed.set(i64::try_from(endings.waiting.len()).unwrap_or(i64::MAX));
        next
    }
}

/// Asks the store from time to time, with one task. When it takes that one, all others follow.
async fn knock(core: Arc<Core>) {
    let mut pause = PAUSE_MIN;
    loop {
        core.host.sleep(pause).await;
        let Some(owed) = core.next_owed() else { return };
        match core.pay(owed).await {
            Ok(()) => {
                pause = PAUSE_MIN;
                let others = std::mem::take(&mut core.endings.lock().waiting);
                others.into_iter().for_each(|owed| core.owe(owed));
            }
            Err(owed) => {
                pause = (pause * 2).min(PAUSE_MAX);
                // At the end of the line: a task that is refused for reasons of its own does not hold up the others.
                core.put_off(owed);
            }
        }
    }
}
