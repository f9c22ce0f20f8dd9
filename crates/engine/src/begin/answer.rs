//! The next turn of a task: accepting a message for a task that waits for its caller.

use super::{Begun, Incoming, Shape, poll_once};
use crate::engine::{Claimed, Engine};
use crate::machine;
use crate::record::Recorder;
use crate::repeat::keep_key;
use crate::retry::RetryKey;
use sabir_proto::{Fault, FrozenEvent, FrozenTask, Task, TaskId, TaskState};
use sabir_store::Stored;

impl Incoming<'_> {
    /// Begins the next turn of a task that waits for its caller.
    pub(super) async fn go_on(&mut self, id: TaskId, key: Option<RetryKey>) -> Result<Begun, Fault> {
        let core = self.core;
        // Checked twice: first without a claim, so that another caller cannot affect the task, then as its owner.
        let (claimed, head, task) = loop {
            let (stored, task) = self.acceptable(id).await?;
            let mut owned = match Claimed::take(core.live.enter(id)) {
                Ok(claimed) => break (claimed, stored.head, task),
                Err(owned) => owned,
            };
            if !stored.state.is_interrupted() {
                let problem = || format!("task {id} is at work; send when it asks for input, or cancel it");
                return Err(owned.why_put_off().unwrap_or_else(|| Fault::UnsupportedOperation(problem())));
            }
            // The task asks and still has an owner: one about to leave, or one that another message has just made.
            owned.moved_or_released(stored.head).await?;
        };
        let engine = Engine { core: core.clone() };
        let stored = engine.owned(&self.scope, id).await?;
        // Nearly always the head is unchanged, and a large task is not parsed again.
        let (stored, task) = if stored.head == head { (stored, task) } else { self.acceptable(id).await? };
        self.name_what_it_follows();
        let message = &mut self.request.message;
        message.context_id = Some(task.context_id.clone());
        message.task_id = Some(id.into());
        let (heard, number) = (message.clone(), (stored.head, 1));
        let checkpoint = stored.progress.checkpoint.clone();
        let lineage = engine.lineage_of(&stored, &task).await?;
        let mut turn = self.turn(id, &task.context_id, number, Some(Box::new(task.clone())), checkpoint, lineage);
        let mut recorder = Recorder::resume(task, &stored, self.resident.push);
        recorder.status(core, TaskState::Working, Vec::new(), Some(heard));
        // The caller has the earlier events: its stream begins with the task including its new message.
        let snapshot = (self.shape == Shape::Stream)
            .then(|| FrozenEvent::of_task(recorder.head, &FrozenTask::freeze(&recorder.task)));
        let (mut checkpoint, mut effects) = (None, Vec::new());
        if self.resident.agent.any_nature().instant {
            let ending = poll_once(&mut turn);
            let (drafts, left) = turn.outlet.take();
            if left.is_some() {
                turn.checkpoint.clone_from(&left);
            }
            checkpoint = left;
            effects = turn.outlet.take_effects();
            recorder.add(core, drafts);
            if let Some(ending) = ending {
                recorder.end(core, ending);
            }
        }
        let mut step = recorder.step(core, checkpoint);
        step.turn = Some(number);
        let at = step.placement.map_or_else(|| core.stamp(), |p| p.position);
        keep_key(&mut step, key, at, core.limits.explicit_retry_time);
        step.effects.extend(effects);
        self.inline_push(&mut step);
        Ok(self.run(claimed, recorder, turn, step, number, snapshot))
    }

    /// Loads the task, if this message may continue it.
    async fn acceptable(&self, id: TaskId) -> Result<(Stored, Task), Fault> {
        let engine = Engine { core: self.core.clone() };
        let stored = engine.owned(&self.scope, id).await?;
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
        if !stored.state.is_interrupted() && !self.core.live.enter(id).is_running() {
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
