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
use crate::live::{LiveRef, is_at_rest};
use crate::machine;
use crate::recorder::Recorder;
use crate::turn::log_failed_task;
use sabir_proto::{Fault, FrozenTask, Part, TaskState};
use sabir_store::{AppendError, Effect, PendingCancel, Step, StoredTask};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest and the longest pause between two attempts to write.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(50);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A task with an owner, without a running agent, whose ending is not stored yet.
pub(crate) struct UnstoredEnding {
    pub(crate) live: LiveRef,
    pub(crate) ending: EndingWrite,
    /// The agent that gets the pending cancel of the step, if it is hosted here.
    pub(crate) agent: Option<Arc<dyn AnyAgent>>,
}

/// How the task will end.
pub(crate) enum EndingWrite {
    /// With a step that the store has refused, and the task after it.
    RefusedStep(Box<Step>, FrozenTask),
    /// With a failure, written anew.
    Failure(TaskFailure),
}

/// The failure of a task that has no running agent.
pub(crate) struct TaskFailure {
    pub(crate) why: String,
    pub(crate) notify: bool,
    /// A cancel for the remote agent that may still work on it.
    pub(crate) cancel: Option<PendingCancel>,
}

/// The queue of unstored endings.
#[derive(Default)]
pub(crate) struct UnstoredEndings(Mutex<EndingQueue>);

#[derive(Default)]
struct EndingQueue {
    waiting: VecDeque<UnstoredEnding>,
    /// Whether the retry loop is running.
    retrying: bool,
}

impl UnstoredEndings {
    fn lock(&self) -> MutexGuard<'_, EndingQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Ends a task whose agent has stopped, in the background and for as long as it takes.
    pub(crate) fn store_ending(self: &Arc<Self>, owed: UnstoredEnding) {
        let core = self.clone();
        self.host.spawn(Box::pin(async move {
            if let Err(owed) = core.try_store(owed).await {
                core.queue_ending(owed);
            }
        }));
    }

    /// Releases every waiting task: the next start resumes them.
    pub(crate) fn release_unstored_endings(&self) {
        let waiting = std::mem::take(&mut self.unstored_endings.lock().waiting);
        waiting.iter().for_each(|owed| owed.live.release());
        self.metrics.endings_owed.set(0);
    }

    /// Tries to store an ending; returns it if the store refuses.
    async fn try_store(self: &Arc<Self>, owed: UnstoredEnding) -> Result<(), UnstoredEnding> {
        let outcome = match &owed.ending {
            EndingWrite::Failure(failed) => self.fail_unfinished(&owed.live, failed).await,
            EndingWrite::RefusedStep(step, image) => match self.log.append(Step::clone(step)).await {
                Ok(()) => Ok(Some((Step::clone(step), image.clone()))),
                Err(AppendError::Stale) => {
                    let (why, notify) = ("the task's log has moved on".into(), step.notify.is_some());
                    self.fail_unfinished(&owed.live, &TaskFailure { why, notify, cancel: None }).await
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
                        self.start_cancels_of(&step, agent);
                    }
                }
                owed.live.release();
                if let Some(state) = state {
                    self.cancel_children(owed.live.id(), state);
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
        TaskFailure { why, notify, cancel }: &TaskFailure,
    ) -> Result<Option<(Step, FrozenTask)>, AppendError> {
        let stored = self.log.load(live.id()).await?;
        let Some(stored) = stored.filter(|stored| !is_at_rest(stored.state)) else { return Ok(None) };
        let words = crate::agent::text_parts(why.clone());
        let Some((mut step, image)) = self.ending_step(&stored, TaskState::Failed, words, *notify) else {
            tracing::error!(task = %stored.id, "a damaged record; the task stays as it is");
            return Ok(None);
        };
        step.effects.extend(cancel.clone().map(|cancel| Effect::SetPendingCancel(Some(Box::new(cancel)))));
        self.log.append(step.clone()).await?;
        log_failed_task(&stored.scope.agent, stored.id, why);
        Ok(Some((step, image)))
    }

    /// The step that ends a task without a runner, and the task after it; `None` for a damaged record.
    pub(crate) fn ending_step(
        &self,
        stored: &StoredTask,
        state: TaskState,
        words: Vec<Part>,
        notify: bool,
    ) -> Option<(Step, FrozenTask)> {
        let mut recorder = Recorder::resume(machine::thaw(stored)?, stored, notify);
        recorder.status(self, state, words, None);
        Some((recorder.step(self, None), FrozenTask::freeze(&recorder.task)))
    }

    fn queue_ending(self: &Arc<Self>, owed: UnstoredEnding) {
        let mut endings = self.unstored_endings.lock();
        // Checked under the lock: a stop sets the flag first, and then takes what is in the list.
        if self.live.is_stopping() {
            drop(endings);
            return owed.live.release();
        }
        owed.live.set_waiting_for_store(Fault::Unavailable(
            "the server cannot store anything right now; try again later".into(),
        ));
        endings.waiting.push_back(owed);
        self.metrics.endings_owed.set(i64::try_from(endings.waiting.len()).unwrap_or(i64::MAX));
        if !std::mem::replace(&mut endings.retrying, true) {
            drop(endings);
            self.host.spawn(Box::pin(retry_loop(self.clone())));
        }
    }

    /// Takes the task that has waited longest; without one, the retry loop ends.
    fn next_unstored(&self) -> Option<UnstoredEnding> {
        let mut endings = self.unstored_endings.lock();
        let next = endings.waiting.pop_front();
        endings.retrying = next.is_some();
        self.metrics.endings_owed.set(i64::try_from(endings.waiting.len()).unwrap_or(i64::MAX));
        next
    }
}

/// Retries one task at a time. Once the store accepts that one, all others follow.
async fn retry_loop(core: Arc<Core>) {
    let mut pause = PAUSE_MIN;
    loop {
        core.host.sleep(pause).await;
        let Some(owed) = core.next_unstored() else { return };
        match core.try_store(owed).await {
            Ok(()) => {
                pause = PAUSE_MIN;
                let others = std::mem::take(&mut core.unstored_endings.lock().waiting);
                others.into_iter().for_each(|owed| core.store_ending(owed));
            }
            Err(owed) => {
                pause = (pause * 2).min(PAUSE_MAX);
                // To the end of the queue: a task that is refused for a reason of its own does not block the others.
                core.queue_ending(owed);
            }
        }
    }
}
