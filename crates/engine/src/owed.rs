//! Unstored endings: tasks that cannot end because the store takes no writes.
//!
//! A turn whose step is refused for longer than `store_patience` is given up, but recording that is a write as well. So
//! the task keeps its owner and waits here. Once the store takes writes again, the engine settles it: with the refused
//! step itself where that would have ended the task, so that a finished answer is not lost; otherwise as failed. Only
//! one task retries at a time, since a hundred thousand retries do not help a store in trouble.
//!
//! Meanwhile *get* shows the task as the log has it. A caller that sends to it, cancels it or waits for it is told that
//! nothing can be stored. A task that waits here counts as running, so `live_tasks_max` bounds the list. A stop
//! releases all of them: they are unfinished, and the next start resumes them.

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

/// The shortest and the longest pause between two attempts to write.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A task with an owner, without a running agent, whose ending is not stored yet.
pub(crate) struct Owed {
    pub(crate) live: LiveRef,
    pub(crate) ending: Ending,
    /// The agent that gets the pending cancel of the step, if it is hosted here.
    pub(crate) agent: Option<Arc<dyn AnyAgent>>,
}

/// How the task will end.
pub(crate) enum Ending {
    /// With a step that the store has refused, and the task after it.
    Step(Box<Step>, FrozenTask),
    /// With a failure, written anew.
    Failed(Failed),
}

/// The failure of a task that has no running agent.
pub(crate) struct Failed {
    pub(crate) why: String,
    pub(crate) notify: bool,
    /// A cancel for the remote agent that may still work on it.
    pub(crate) cancel: Option<OwedCancel>,
}

/// The queue of unstored endings.
#[derive(Default)]
pub(crate) struct Endings(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Owed>,
    /// Whether the retry loop is running.
    knocking: bool,
}

impl Endings {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Ends a task whose agent has stopped, in the background and for as long as it takes.
    pub(crate) fn owe(self: &Arc<Self>, owed: Owed) {
        let core = self.clone();
        self.host.spawn(Box::pin(async move {
            if let Err(owed) = core.pay(owed).await {
                core.put_off(owed);
            }
        }));
    }

    /// Releases every waiting task: the next start resumes them.
    pub(crate) fn give_up_owing(&self) {
        let waiting = std::mem::take(&mut self.endings.lock().waiting);
        waiting.iter().for_each(|owed| owed.live.release());
        self.metrics.endings_owed.set(0);
    }

    /// Tries to store an ending; returns it if the store refuses.
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

    /// Fails a task, unless the log has it at rest: the step that could not be committed may have been its first, or
    /// the first of a turn that then never began.
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

    /// The step that ends a task without a runner, and the task after it; `None` for a damaged record.
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
        // Checked under the lock: a stop sets the flag first, and then takes what is in the list.
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

    /// Takes the task that has waited longest; without one, the retry loop ends.
    fn next_owed(&self) -> Option<Owed> {
        let mut endings = self.endings.lock();
        let next = endings.waiting.pop_front();
        endings.knocking = next.is_some();
        self.metrics.endings_owed.set(i64::try_from(endings.waiting.len()).unwrap_or(i64::MAX));
        next
    }
}

/// Retries one task at a time. Once the store accepts that one, all others follow.
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
                // To the end of the queue: a task that is refused for a reason of its own does not block the others.
                core.put_off(owed);
            }
        }
    }
}
