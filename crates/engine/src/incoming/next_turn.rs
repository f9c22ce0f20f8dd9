//! The next turn of a task: accepting a message for a task that waits for its caller.

use super::{IncomingMessage, ResponseMode, SendOutcome, poll_once};
use crate::engine::{Engine, TaskOwnership};
use crate::machine;
use crate::recorder::Recorder;
use crate::repeat::set_retry_key;
use crate::retry::RetryKey;
use sabir_proto::{Fault, FrozenEvent, FrozenTask, Task, TaskId, TaskState};
use sabir_store::StoredTask;

impl IncomingMessage<'_> {
    /// Begins the next turn of a task that waits for its caller.
    pub(super) async fn continue_task(&mut self, id: TaskId, key: Option<RetryKey>) -> Result<SendOutcome, Fault> {
        let core = self.core;
        // Checked twice: first without a claim, so that another caller cannot affect the task, then as its owner.
        let (claimed, head, task) = loop {
            let (stored, task) = self.load_acceptable(id).await?;
            let mut owned = match TaskOwnership::acquire(core.live.join(id)) {
                Ok(claimed) => break (claimed, stored.head, task),
                Err(owned) => owned,
            };
            if !stored.state.is_interrupted() {
                let problem = || format!("task {id} is at work; send when it asks for input, or cancel it");
                return Err(owned.store_fault().unwrap_or_else(|| Fault::UnsupportedOperation(problem())));
            }
            // The task asks and still has an owner: one about to leave, or one that another message has just made.
            owned.wait_moved_or_released(stored.head).await?;
        };
        let engine = Engine { core: core.clone() };
        let stored = engine.load_owned(&self.scope, id).await?;
        // Nearly always the head is unchanged, and a large task is not parsed again.
        let (stored, task) = if stored.head == head { (stored, task) } else { self.load_acceptable(id).await? };
        self.add_handoff_extension();
        let message = &mut self.request.message;
        message.context_id = Some(task.context_id.clone());
        message.task_id = Some(id.into());
        let (input, number) = (message.clone(), (stored.head, 1));
        let checkpoint = stored.progress.checkpoint.clone();
        let lineage = engine.lineage_of(&stored, &task).await?;
        let mut turn = self.new_turn(id, &task.context_id, number, Some(Box::new(task.clone())), checkpoint, lineage);
        let mut recorder = Recorder::resume(task, &stored, self.resident.push);
        recorder.status(core, TaskState::Working, Vec::new(), Some(input));
        // The caller has the earlier events: its stream begins with the task including its new message.
        let snapshot = (self.response_mode == ResponseMode::Stream)
            .then(|| FrozenEvent::of_task(recorder.head, &FrozenTask::freeze(&recorder.task)));
        let (mut checkpoint, mut effects) = (None, Vec::new());
        if self.resident.agent.any_execution().instant {
            let ending = poll_once(&mut turn);
            let (drafts, left) = turn.reports.take();
            if left.is_some() {
                turn.checkpoint.clone_from(&left);
            }
            checkpoint = left;
            effects = turn.reports.take_effects();
            recorder.add(core, drafts);
            if let Some(ending) = ending {
                recorder.end(core, ending);
            }
        }
        let mut step = recorder.step(core, checkpoint);
        step.turn = Some(number);
        let at = step.placement.map_or_else(|| core.stamp(), |p| p.position);
        set_retry_key(&mut step, key, at, core.limits.explicit_retry_time);
        step.effects.extend(effects);
        self.register_push_config(&mut step);
        Ok(self.spawn_runner(claimed, recorder, turn, step, number, snapshot))
    }

    /// Loads the task, if this message may continue it.
    async fn load_acceptable(&self, id: TaskId) -> Result<(StoredTask, Task), Fault> {
        let engine = Engine { core: self.core.clone() };
        let stored = engine.load_owned(&self.scope, id).await?;
        if stored.state == TaskState::Transferred
            && let Some(transfer) = machine::thaw(&stored).and_then(|task| task.transfer())
        {
            return Err(Fault::TaskTransferred { id: id.into(), transfer: Box::new(transfer) });
        }
        if stored.state.is_settled() {
            return Err(Fault::TaskSettled { id: id.into(), state: stored.state });
        }
        let task = machine::thaw(&stored).ok_or_else(|| self.core.internal("reading a task", &"damaged record"))?;
        if self.request.message.context_id.as_ref().is_some_and(|c| *c != task.context_id) {
            return Err(Fault::invalid("message.contextId", "is not the context of the task in message.taskId"));
        }
        if !stored.state.is_interrupted() && !self.core.live.join(id).is_running() {
            let problem = format!("task {id} is {}; it takes messages only when it asks for input", stored.state);
            return Err(Fault::UnsupportedOperation(problem));
        }
        if task.history.len() >= self.core.limits.history_messages_max {
            let most = self.core.limits.history_messages_max;
            return Err(Fault::Exhausted(format!("a task has at most {most} messages; open a new one in its context")));
        }
        Ok((stored, task))
    }
}
