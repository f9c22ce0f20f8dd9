//! Recovery after a crash: which interrupted tasks resume and which fail.
//!
//! | Found | Agent declares | Result |
//! |---|---|---|
//! | a turn begun fewer than `attempts_max` times | `Resume` | called again with its last committed checkpoint |
//! | the same | `Restart` | called again from the beginning |
//! | the same | `Fail` | failed: the server stopped while the agent was at work |
//! | a turn begun `attempts_max` times | anything | failed: it crashed the process each time |
//! | a task whose agent is away: disabled, or it cannot be made | – | left unchanged until the agent is back |
//! | a task whose agent is no longer configured | – | failed with that reason; its pending cancel waits for the agent |
//! | a child whose parent was canceled, failed or rejected | anything | canceled |
//!
//! A new checkpoint resets the count of attempts: a server that is killed three times during one long turn loses
//! nothing, and a turn that kills the server three times at the same point is given up.
//!
//! Half-finished steps need no handling here: a step is a transaction.

use crate::agent::{Recovery, TransferredTask, TurnInfo};
use crate::engine::{AgentStatus, Engine, HostedAgent, TaskOwnership};
use crate::live::is_at_rest;
use crate::machine;
use crate::recorder::Recorder;
use crate::runner::Runner;
use crate::turn::Turn;
use crate::unstored_endings::{EndingWrite, TaskFailure, UnstoredEnding};
use sabir_proto::{AgentName, CallAttachment, FrozenEvent, Role, Seq, Task, TaskId, TaskState};
use sabir_store::{StoreError, StoredTask};
use std::sync::{Arc, Mutex, OnceLock};

/// The number of unfinished tasks, or events of one task, per page.
const PAGE: usize = 256;
/// The most handoffs that are notified again after a start. Each is confirmed within a few minutes or never.
const REMINDERS_MAX: usize = 10_000;

impl Engine {
    /// Resumes or fails what a crash interrupted. Returns how many turns resume and how many were failed.
    pub async fn recover<P: Into<AgentStatus>>(
        &self,
        find: impl Fn(&AgentName) -> P,
    ) -> Result<(usize, usize), StoreError> {
        let resident = |name: &AgentName| find(name).into().hosted();
        self.cancel_orphans(&resident).await?;
        self.restart_pending_cancels(&resident).await?;
        let taken_up = self.resume_all(|name| Some(find(name).into())).await?;
        self.repeat_handoffs(&resident).await?;
        Ok(taken_up)
    }

    /// Resumes or fails the unowned tasks of one agent that is back, or was removed. Its pending cancels are sent
    /// again.
    pub async fn recover_agent(&self, agent: &AgentName, presence: AgentStatus) -> Result<(usize, usize), StoreError> {
        let resident = |name: &AgentName| (name == agent).then(|| presence.clone().hosted()).flatten();
        self.restart_pending_cancels(&resident).await?;
        self.resume_all(|name| (name == agent).then(|| presence.clone())).await
    }

    /// Resumes or fails all unowned tasks of the agents for which `find` has a status.
    async fn resume_all(&self, find: impl Fn(&AgentName) -> Option<AgentStatus>) -> Result<(usize, usize), StoreError> {
        let (mut resumed, mut failed) = (0, 0);
        let mut after = None;
        loop {
            let page = self.core.log.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok((resumed, failed)) };
            after = Some(last.id);
            for stored in page {
                let Some(presence) = find(&stored.scope.agent) else { continue };
                match self.resume_task(&stored, presence).await {
                    Ok(Some(true)) => resumed += 1,
                    Ok(Some(false)) => failed += 1,
                    Ok(None) => {}
                    // An unreadable task must not keep others from being resumed.
                    Err(error @ StoreError::Corrupt(_)) => {
                        tracing::error!(task = %stored.id, %error, "a task cannot be taken up; it stays as it is");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Notifies agents again of their recent handovers.
    async fn repeat_handoffs(
        &self,
        resident: &impl Fn(&AgentName) -> Option<Arc<HostedAgent>>,
    ) -> Result<(), StoreError> {
        for id in self.core.log.handed_over(self.core.handoffs_since(), REMINDERS_MAX).await? {
            let Some(stored) = self.core.log.load(id).await? else { continue };
            let Some(agent) = resident(&stored.scope.agent) else { continue };
            let Some(transfer) = machine::thaw(&stored).and_then(|task| task.transfer()) else { continue };
            let told = TransferredTask { task: id, transfer };
            self.core.host.spawn(Box::pin(async move { agent.agent.any_on_handed_over(told).await }));
        }
        Ok(())
    }

    /// Resumes one task, if it was at work and has no owner now. The caller need not own it and learns nothing; a task
    /// that is at work, at rest or missing is left unchanged.
    pub async fn recover_task<P: Into<AgentStatus>>(
        &self,
        id: TaskId,
        find: impl Fn(&AgentName) -> P,
    ) -> Result<(), StoreError> {
        // Checked first: a task that is being opened has an owner before it has a row.
        if self.core.live.is_stopping() || self.core.live.join(id).is_running() {
            return Ok(());
        }
        let Some(stored) = self.core.log.load(id).await?.filter(|stored| !is_at_rest(stored.state)) else {
            return Ok(());
        };
        self.resume_task(&stored, find(&stored.scope.agent).into()).await.map(drop)
    }

    /// Resumes a turn (true) or fails it (false); `None` where it is left unchanged.
    async fn resume_task(&self, stored: &StoredTask, presence: AgentStatus) -> Result<Option<bool>, StoreError> {
        if matches!(presence, AgentStatus::Unavailable) || self.core.live.join(stored.id).is_running() {
            return Ok(None);
        }
        let agent = presence.hosted();
        match self.resumable_agent(stored, agent.as_deref()) {
            Ok(agent) => {
                self.resume_turn(stored, agent).await?;
                self.core.metrics.turns_recovered.inc();
                Ok(Some(true))
            }
            Err(why) => {
                // Registered receivers get the end, whatever the agent's configuration is now.
                let notify = true;
                // The remote agent works on until it is told. If our agent is gone, the cancel is sent when it comes
                // back.
                let agent = agent.map(|resident| resident.agent.clone());
                let wants_to_know = agent.as_ref().is_none_or(|agent| !agent.any_cancel_grace().is_zero());
                let cancel = self.core.immediate_cancel(stored.progress.checkpoint.clone().filter(|_| wants_to_know));
                if let Ok(claimed) = TaskOwnership::acquire(self.core.live.join(stored.id)) {
                    let (live, ending) =
                        (claimed.into_live(), EndingWrite::Failure(TaskFailure { why, notify, cancel }));
                    self.core.store_ending(UnstoredEnding { live, ending, agent });
                }
                self.core.metrics.turns_lost.inc();
                Ok(Some(false))
            }
        }
    }

    fn resumable_agent<'a>(
        &self,
        stored: &StoredTask,
        agent: Option<&'a HostedAgent>,
    ) -> Result<&'a HostedAgent, String> {
        let agent = agent.ok_or_else(|| format!("the agent {} is no longer configured", stored.scope.agent))?;
        if is_held(stored) {
            // No work has begun, so none was lost.
            return Ok(agent);
        }
        let begun = stored.progress.attempt;
        if begun >= self.core.limits.attempts_max {
            return Err(format!("the server stopped {begun} times while the agent was at work on this"));
        }
        match agent.agent.any_execution().recovery {
            Recovery::Resume | Recovery::Restart => Ok(agent),
            Recovery::Fail => Err("the server stopped while the agent was at work; send the message again".into()),
        }
    }

    async fn resume_turn(&self, stored: &StoredTask, resident: &HostedAgent) -> Result<(), StoreError> {
        let core = &self.core;
        let before = self.load_task_before_turn(stored).await?;
        let (Some(task), Some(before)) = (machine::thaw(stored), before) else {
            tracing::error!(task = %stored.id, "a damaged record; the task stays as it is");
            return Ok(());
        };
        let Some(message) = task.history.iter().rev().find(|m| m.role == Role::User).cloned() else { return Ok(()) };
        let lineage = self.lineage_from(stored, &task).await?;
        // A child is never handed over: its parent waits for it here.
        let follows = !stored.is_child && crate::held_tasks::supports_handoffs(&message.extensions);
        let Ok(claimed) = TaskOwnership::acquire(core.live.join(stored.id)) else { return Ok(()) };
        let number = (stored.progress.turn, stored.progress.attempt + 1);
        let checkpoint = match resident.agent.any_execution().recovery {
            Recovery::Restart => None,
            Recovery::Resume | Recovery::Fail => stored.progress.checkpoint.clone(),
        };
        let info = TurnInfo {
            task: stored.id,
            scope: stored.scope.clone(),
            claimed_by: OnceLock::new(),
            context: task.context_id.clone(),
            turn: number.0.0,
            attempt: number.1,
            message,
            task_before: before,
            tool_mode: lineage.tools(resident.tool_mode),
            follows_handoffs: follows,
            held: is_held(stored),
            lineage,
            started_before_open: false,
            open_deferred: false,
            answers: Mutex::default(),
            attachment: CallAttachment::default(),
            core: core.clone(),
        };
        let turn = Turn::new(resident.agent.clone(), Arc::new(info), checkpoint, &core.limits);
        // The turn may have had children before the crash; an orderly stop does not even count as an attempt.
        turn.reports.set_delegated();
        let mut recorder = Recorder::resume(task, stored, true);
        let mut first = recorder.step(core, None);
        first.turn = Some(number);
        let live = claimed.into_live();
        live.publish(stored.head, &[], None);
        let runner =
            Runner { core: core.clone(), live, recorder, turn, first: Some(Box::new(first)), number, canceled: false };
        core.host.spawn(Box::pin(runner.run()));
        Ok(())
    }

    /// The task before the interrupted turn, as on its first attempt: without the message that began the turn and the
    /// events since. `Some(None)` on a task's first turn, `None` for a damaged record.
    async fn load_task_before_turn(&self, stored: &StoredTask) -> Result<Option<Option<Box<Task>>>, StoreError> {
        let turn = stored.progress.turn;
        if turn == Seq(0) {
            return Ok(Some(None));
        }
        let mut then = StoredTask { head: turn, ..stored.clone() };
        if then.base.as_ref().is_some_and(|base| base.seq > turn) {
            // A long turn has taken a snapshot of its own, and only the latest one is kept.
            then.base = None;
            then.tail = self.events_until(stored.id, turn).await?;
        }
        then.tail.retain(|event| event.seq <= turn);
        Ok(machine::thaw(&then).map(|task| Some(Box::new(task))))
    }

    async fn events_until(&self, id: TaskId, last: Seq) -> Result<Vec<FrozenEvent>, StoreError> {
        let mut events: Vec<FrozenEvent> = Vec::new();
        loop {
            let cursor = events.last().map_or(Seq(0), |event| event.seq);
            let page = self.core.log.events(id, cursor, PAGE).await?;
            events.extend(page);
            // A page without new events is the end of a damaged log.
            if events.last().is_none_or(|event| event.seq >= last || event.seq == cursor) {
                return Ok(events);
            }
        }
    }
}

/// Whether a task is held until its sender activates it.
fn is_held(stored: &StoredTask) -> bool {
    stored.state == TaskState::Submitted
        && !stored.is_child
        && stored.progress.turn == Seq(0)
        && machine::thaw(stored).is_some_and(|task| task.history.first().is_some_and(crate::held_tasks::is_held))
}
