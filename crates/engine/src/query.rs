//! Reading, following and canceling tasks that exist.

use crate::agent::{AnyAgent, CanceledTask};
use crate::engine::{Engine, HostedAgent, TaskOwnership};
use crate::incoming::history_length;
use crate::live::{LiveRef, RunnerCommand};
use crate::machine;
use crate::recorder::Recorder;
use crate::turn::notify_agent_canceled;
use crate::watch::{StreamEnd, Watch};
use bytes::Bytes;
use sabir_proto::{
    CancelTask, Fault, FrozenEvent, FrozenTask, GetTask, ListTasks, Seq, ServiceParameters, Stamp, Subscribe, TaskId,
    TaskPage, TaskState, View,
};
use sabir_store::{Effect, PageToken, Scope, StateSet, Step, StoredTask, TaskListQuery};
use std::sync::Arc;

/// Tasks on a page when the caller does not say.
const PAGE_DEFAULT: u32 = 50;
/// Tasks on a page at most; the specification's bound.
const PAGE_MAX: u32 = 100;

impl Engine {
    /// *Get*: returns the task as the log has it.
    pub async fn get(&self, scope: &Scope, call: &GetTask) -> Result<(FrozenTask, View), Fault> {
        let view = View::with_history(history_length("historyLength", call.history_length)?);
        let stored = self.find(scope, &call.id).await?;
        self.release_held(&stored);
        Ok((self.fold(&stored)?, view))
    }

    /// *List*: returns one page of the owner's tasks.
    pub async fn list(&self, scope: Arc<Scope>, call: &ListTasks) -> Result<TaskPage, Fault> {
        self.list_states(scope, call, call.status.map(StateSet::from)).await
    }

    /// *List* for a dialect in which several states look like one.
    pub async fn list_states(
        &self,
        scope: Arc<Scope>,
        call: &ListTasks,
        states: Option<StateSet>,
    ) -> Result<TaskPage, Fault> {
        let page_size = match call.page_size {
            None => PAGE_DEFAULT,
            Some(n) => u32::try_from(n)
                .ok()
                .filter(|n| (1..=PAGE_MAX).contains(n))
                .ok_or_else(|| Fault::invalid("pageSize", format!("must be between 1 and {PAGE_MAX}")))?,
        };
        let fault = |e| self.core.store_fault("listing tasks", &e);
        let token = match &*call.page_token {
            "" => None,
            text => Some(PageToken::decode(text).map_err(fault)?),
        };
        let view = View {
            history: history_length("historyLength", call.history_length)?,
            artifacts: call.include_artifacts == Some(true),
        };
        let listing = TaskListQuery {
            scope,
            context: call.context_id.clone(),
            state: states,
            since: call.status_timestamp_after.map(Stamp::first_of),
            limit: page_size as usize,
            bytes_max: self.core.limits.list_bytes_max,
            token,
        };
        let listed = self.core.log.list(listing).await.map_err(fault)?;
        let mut tasks = Vec::with_capacity(listed.tasks.len());
        for stored in &listed.tasks {
            tasks.push(self.fold(stored)?);
        }
        let next_page_token = listed.next.as_ref().map(PageToken::encode).unwrap_or_default();
        Ok(TaskPage { tasks, view, next_page_token, page_size, total_size: listed.total })
    }

    /// *Subscribe*: a snapshot and what follows; or, from a given event on, exactly what follows that.
    pub async fn subscribe(&self, scope: &Scope, call: &Subscribe, terms: &ServiceParameters) -> Result<Watch, Fault> {
        let stored = self.find(scope, &call.id).await?;
        self.release_held(&stored);
        self.follow_from(scope, stored.id, terms.last_event_id, StreamEnd::Settled, true).await
    }

    /// Follows a task from after `last`. Without it, from the beginning of the log or from a snapshot.
    pub(crate) async fn follow_from(
        &self,
        scope: &Scope,
        id: TaskId,
        last: Option<Seq>,
        until: StreamEnd,
        snapshot: bool,
    ) -> Result<Watch, Fault> {
        // Joined before the log is read: what is committed after that reading is published to us.
        let live = self.core.live.join(id);
        let stored = self.load_owned(scope, id).await?;
        if last.is_some_and(|last| last > stored.head) {
            let problem = format!("is after the last event of task {id}, which is {}", stored.head);
            return Err(Fault::invalid("Last-Event-ID", problem));
        }
        live.publish(stored.head, &[], None);
        let watch = |cursor| Watch::follow(self.core.clone(), id, live, cursor, until);
        match last {
            Some(last) if stored.state.is_settled() && last == stored.head => Ok(Watch::replay(Vec::new())),
            Some(last) => Ok(watch(last)),
            None if !snapshot => Ok(watch(Seq(0))),
            None if stored.state.is_settled() && until == StreamEnd::Settled => {
                Err(Fault::NothingToSubscribe { id: id.into(), state: stored.state })
            }
            None => {
                let image = self.fold(&stored)?;
                Ok(watch(stored.head).starting_with(FrozenEvent::of_task(stored.head, &image)))
            }
        }
    }

    /// *Cancel*: stops the agent, and answers after the commit that decided between cancel and completion.
    pub async fn cancel(&self, scope: &Scope, of: &HostedAgent, call: &CancelTask) -> Result<FrozenTask, Fault> {
        let id = self.find(scope, &call.id).await?.id;
        self.cancel_by_id(scope, id, Some((of.agent.clone(), of.push))).await
    }

    /// Cancels a task by its id; `of` is its agent, if that is still hosted.
    pub(crate) async fn cancel_by_id(
        &self,
        scope: &Scope,
        id: TaskId,
        of: Option<(Arc<dyn AnyAgent>, bool)>,
    ) -> Result<FrozenTask, Fault> {
        loop {
            let stored = self.load_owned(scope, id).await?;
            if stored.state.is_settled() {
                return Err(Fault::TaskNotCancelable { id: id.into(), state: stored.state });
            }
            match TaskOwnership::acquire(self.core.live.join(id)) {
                Ok(claimed) => {
                    let (outcome, mut waiting) = (stored.head, self.core.live.join(id));
                    self.cancel_waiting(claimed, id, of.clone());
                    waiting.wait_rested(outcome.next()).await?;
                    waiting.wait_released().await?;
                }
                Err(mut live) => {
                    live.send_command(RunnerCommand::Cancel);
                    live.wait_released().await?;
                }
            }
            // Of a cancel and a completion the first commit wins; a task that began to ask meanwhile is canceled again.
            let now = self.load_owned(scope, id).await?;
            if now.state == TaskState::Canceled {
                return self.fold(&now);
            }
        }
    }

    /// Cancels a task that waits for its caller, in the background like a runner, so that it happens even if the caller
    /// disconnects. If the store refuses, the task goes on waiting.
    fn cancel_waiting(&self, claimed: TaskOwnership, id: TaskId, of: Option<(Arc<dyn AnyAgent>, bool)>) {
        // Registered receivers get the end, whatever the agent offers now.
        let (engine, notify) = (self.clone(), true);
        self.core.host.spawn(Box::pin(async move {
            let live = claimed.into_live();
            if let Some((agent, _)) = of.as_ref().filter(|(agent, _)| !agent.any_cancel_grace().is_zero()) {
                match engine.cancel_waiting_elsewhere(id, agent, notify, &live).await {
                    Ok((step, image)) => {
                        let state = image.state;
                        live.publish(step.head(), &step.events, Some(image));
                        engine.core.cancel_children(id, state);
                    }
                    Err(fault) => live.fail(fault),
                }
                return live.release();
            }
            // The agent is gone and cannot say whether work goes on elsewhere, so a pending cancel waits for its
            // return.
            let is_gone = of.is_none();
            let outcome = engine.append_ending(id, TaskState::Canceled, Vec::new(), (notify, is_gone)).await;
            let told = match outcome {
                Ok((step, image, checkpoint)) => {
                    live.publish(step.head(), &step.events, Some(image));
                    engine.core.cancel_children(id, TaskState::Canceled);
                    of.map(|(agent, _)| notify_agent_canceled(agent, CanceledTask { task: id, checkpoint }))
                }
                Err(fault) => {
                    live.fail(fault);
                    None
                }
            };
            live.release();
            if let Some(told) = told {
                told.await;
            }
        }));
    }

    /// Ends a task that waits for its caller as the remote agent reports.
    async fn cancel_waiting_elsewhere(
        &self,
        id: TaskId,
        agent: &Arc<dyn AnyAgent>,
        notify: bool,
        live: &LiveRef,
    ) -> Result<(Step, FrozenTask), Fault> {
        let core = &self.core;
        let stored = core.log.load(id).await.map_err(|e| core.store_fault("reading a task", &e))?;
        let stored = stored.ok_or(Fault::TaskNotFound(id.into()))?;
        if stored.state.is_settled() {
            return Err(Fault::TaskNotCancelable { id: id.into(), state: stored.state });
        }
        let task = machine::thaw(&stored).ok_or_else(|| core.internal("reading a task", &"damaged record"))?;
        let canceled = CanceledTask { task: id, checkpoint: stored.progress.checkpoint.clone() };
        let mut grace = core.host.sleep(agent.any_cancel_grace());
        let off = core.cancel_elsewhere(agent, canceled.clone(), &mut grace, |cx| live.poll_stopping(cx)).await;
        let owed = core.pending_cancel(&off, &canceled);
        let mut recorder = Recorder::resume(task, &stored, notify);
        recorder.end_canceled(core, off);
        let mut step = recorder.step(core, None);
        step.effects.extend(owed.clone().map(|owed| Effect::SetPendingCancel(Some(Box::new(owed)))));
        core.log.append(step.clone()).await.map_err(|e| core.append_fault("ending a task", &e))?;
        if let Some(owed) = owed {
            core.start_cancel(id, agent.clone(), owed);
        }
        Ok((step, FrozenTask::freeze(&recorder.task)))
    }

    async fn append_ending(
        &self,
        id: TaskId,
        state: TaskState,
        words: Vec<sabir_proto::Part>,
        (notify, owes): (bool, bool),
    ) -> Result<(sabir_store::Step, FrozenTask, Option<Bytes>), Fault> {
        let stored = self.core.log.load(id).await.map_err(|e| self.core.store_fault("reading a task", &e))?;
        let stored = stored.ok_or(Fault::TaskNotFound(id.into()))?;
        if stored.state.is_settled() {
            return Err(Fault::TaskNotCancelable { id: id.into(), state: stored.state });
        }
        let ending = self.core.ending_step(&stored, state, words, notify);
        let (mut step, image) = ending.ok_or_else(|| self.core.internal("reading a task", &"damaged record"))?;
        let owed = self.core.immediate_cancel(stored.progress.checkpoint.clone().filter(|_| owes));
        step.effects.extend(owed.map(|owed| Effect::SetPendingCancel(Some(Box::new(owed)))));
        self.core.log.append(step.clone()).await.map_err(|e| self.core.append_fault("ending a task", &e))?;
        Ok((step, image, stored.progress.checkpoint))
    }

    /// A task, if it is this owner's. Another owner's is "not found": existence is information.
    pub(crate) async fn load_owned(&self, scope: &Scope, id: TaskId) -> Result<StoredTask, Fault> {
        // The owner is read first and alone: the time to read another owner's large task would reveal that it exists.
        let owner = self.core.log.owner(id).await.map_err(|e| self.core.store_fault("reading a task", &e))?;
        if owner.is_none_or(|owner| *owner != *scope) {
            return Err(Fault::TaskNotFound(id.into()));
        }
        let stored = self.core.log.load(id).await.map_err(|e| self.core.store_fault("reading a task", &e))?;
        stored.filter(|s| *s.scope == *scope).ok_or(Fault::TaskNotFound(id.into()))
    }

    pub(crate) async fn load_image(&self, scope: &Scope, id: TaskId) -> Result<FrozenTask, Fault> {
        self.fold(&self.load_owned(scope, id).await?)
    }

    pub(crate) fn fold(&self, stored: &StoredTask) -> Result<FrozenTask, Fault> {
        machine::fold(stored).ok_or_else(|| self.core.internal("reading a task", &"damaged record"))
    }
}
