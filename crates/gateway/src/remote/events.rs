//! Reports the events of a remote task as our own.
//!
//! Each report and the checkpoint after it go into one step: after a crash nothing is reported twice and nothing is
//! left out. The report comes first, because it may have to wait for room, and the checkpoint must not be committed
//! without it. The checkpoint is written only before a wait, since nothing is committed earlier: see [`await_with`].

use super::call_failure::CallFailure;
use super::delivered_content::{ARTIFACTS_MAX, ArtifactChange, status_digest};
use super::remote_turn::RemoteTurn;
use sabir_engine::Ending;
use sabir_engine::agent::Report;
use sabir_proto::transfer::TRANSFERRED;
use sabir_proto::{
    Artifact, ContextId, Gap, HANDOFF, Message, Object, Role, TaskRef, TaskState, TaskStatus, Transfer, WireEvent,
    WireTask,
};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// The prefix of our extensions' URIs.
const OWN_EXTENSION_PREFIX: &str = "urn:sabir:";

impl RemoteTurn<'_> {
    /// Reports an event; returns the ending, if that was the end of the turn.
    pub(super) async fn event(
        &mut self,
        event: WireEvent,
        last: Option<String>,
    ) -> Result<Option<Ending>, CallFailure> {
        let named = self.checkpoint.sent;
        let ending = match event {
            WireEvent::Task(task) => self.task(task).await?,
            WireEvent::StatusUpdate(update) => {
                // The agent is a hub itself, and has lost sight of something.
                if let Some(gap) = Gap::of(update.metadata.as_ref()) {
                    self.report(self.cx.gap(gap.reason)).await?;
                }
                self.record_remote_task(update.task_id, update.context_id);
                self.status(update.status, update.metadata.as_ref(), RepeatedStatus::Report).await?
            }
            WireEvent::ArtifactUpdate(update) => {
                self.report_recovery().await?;
                self.record_remote_task(update.task_id, update.context_id);
                self.artifact(update.artifact, update.append, update.last_chunk).await?;
                None
            }
            WireEvent::Message(message) => {
                (self.checkpoint.sent, self.checkpoint.heard) = (true, self.cx.now().millis());
                match self.checkpoint.task {
                    // Beside a task, a message is progress.
                    Some(_) => {
                        self.report(self.cx.progress(message.parts)).await?;
                        None
                    }
                    None => Some(self.direct_reply(message)),
                }
            }
        };
        if last.is_some() {
            self.checkpoint.last = last;
        }
        if !named && ending.is_none() {
            // The next event may be long in coming, and without its id the remote task could not be found again.
            self.save_checkpoint(None);
            self.cx.commit().await?;
        }
        Ok(ending)
    }

    /// The end of a turn that was answered without a task. A caller that continues a task of ours is answered in that.
    pub(super) fn direct_reply(&self, message: Message) -> Ending {
        if self.cx.before().is_some() {
            return Ending::Complete(message.parts);
        }
        // Our extensions are about our tasks, and only we may use them; ids of remote tasks mean nothing here.
        let is_ours = |uri: &str| uri.starts_with(OWN_EXTENSION_PREFIX);
        let others = |metadata: Object| {
            let mut members = metadata.to_map();
            members.retain(|name, _| !is_ours(name));
            Object::from_map(&members).ok().filter(|_| !members.is_empty())
        };
        Ending::DirectMessage(Box::new(Message {
            role: Role::Agent,
            metadata: message.metadata.and_then(others),
            extensions: message.extensions.into_iter().filter(|uri| !is_ours(uri)).collect(),
            reference_task_ids: Vec::new(),
            ..message
        }))
    }

    /// Reports what is new in the remote task.
    pub(super) async fn task(&mut self, task: WireTask) -> Result<Option<Ending>, CallFailure> {
        // Nothing was reported yet and nothing will be later, so no checkpoint is needed.
        let is_over = task.status.state.is_settled() && transfer_notice(&task.status, task.metadata.as_ref()).is_none();
        let at_once = is_over && task.artifacts.len() <= 1;
        if at_once && self.checkpoint.shown.is_empty() && self.gap_reason.is_none() {
            self.record_remote_task(task.id, task.context_id);
            for artifact in task.artifacts {
                self.cx.chunk(artifact, false, true).await?;
            }
            return Ok(ending_of(task.status));
        }
        let heard = self.checkpoint.heard;
        self.checkpoint.attempts = 0;
        if let Some(reason) = self.gap_reason.take()
            && !self.checkpoint.shown.covers_task(&task)
        {
            self.report(self.cx.gap(reason)).await?;
        }
        let mut moved = !self.checkpoint.sent;
        self.record_remote_task(task.id, task.context_id);
        for artifact in task.artifacts {
            match self.checkpoint.shown.change_of(&artifact) {
                ArtifactChange::Unchanged => continue,
                ArtifactChange::Appended(more) => self.artifact(more, true, true).await?,
                ArtifactChange::Replaced(whole) => self.artifact(whole, false, true).await?,
            }
            moved = true;
        }
        let same = !self.checkpoint.shown.is_new_status(&status_digest(&task.status));
        let ending = self.status(task.status, task.metadata.as_ref(), RepeatedStatus::Skip).await?;
        if !moved && same {
            // It was an answer, but no news.
            self.checkpoint.heard = heard;
        }
        Ok(ending)
    }

    async fn status(
        &mut self,
        status: TaskStatus,
        metadata: Option<&Object>,
        repeats: RepeatedStatus,
    ) -> Result<Option<Ending>, CallFailure> {
        if let Some(went) = transfer_notice(&status, metadata) {
            return Err(went.into());
        }
        let digest = status_digest(&status);
        let new = self.checkpoint.shown.is_new_status(&digest);
        // The status that our caller sees is our outage status, and no longer true.
        let stale = std::mem::take(&mut self.checkpoint.outage_told);
        if !new && !stale && matches!(repeats, RepeatedStatus::Skip) {
            return Ok(None);
        }
        let ending = match status.state {
            TaskState::Submitted | TaskState::Working | TaskState::Unspecified => {
                let parts = status.message.map(|message| message.parts).unwrap_or_default();
                if status.state == TaskState::Working || !parts.is_empty() || stale {
                    self.report(self.cx.progress(parts)).await?;
                }
                None
            }
            // Some agents begin their next reports with a question that was answered already.
            TaskState::InputRequired | TaskState::AuthRequired if !new => None,
            _ => ending_of(status),
        };
        self.checkpoint.shown.record_status(digest);
        Ok(ending)
    }

    async fn artifact(&mut self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), CallFailure> {
        let shown = &self.checkpoint.shown;
        if !shown.has_room_for(&artifact) {
            self.request_remote_cancel();
            return Err(CallFailure::TaskOver(Ending::fail(format!(
                "the task has more than {ARTIFACTS_MAX} artifacts"
            ))));
        }
        let (id, seen) = (artifact.artifact_id.clone(), shown.prefix_with(&artifact, append));
        self.report(self.cx.chunk(shown.with_caller_name(artifact), append, last_chunk)).await?;
        self.checkpoint.shown.record_artifact(&id, seen);
        Ok(())
    }

    /// Reports something. If there is no room for it yet, the checkpoint goes with the earlier reports.
    pub(super) async fn report(&self, report: Report<'_>) -> Result<(), CallFailure> {
        Ok(await_with(report, || self.cx.set_next_checkpoint(self.checkpoint.encode())).await?)
    }

    /// The agent has named a task, so our message has arrived.
    fn record_remote_task(&mut self, task: TaskRef, context: Option<ContextId>) {
        self.checkpoint.sent = true;
        self.checkpoint.sought_in = None;
        self.checkpoint.heard = self.cx.now().millis();
        self.checkpoint.task = Some(task);
        if context.is_some() {
            self.checkpoint.context = context;
        }
        if self.cx.answer_received() {
            // A cancel waits for the id of the remote task.
            self.cx.set_next_checkpoint(self.checkpoint.encode());
        }
    }
}

/// Awaits a future; calls `before_waiting` first, if the future is not ready.
pub(super) async fn await_with<T>(awaited: impl Future<Output = T>, before_waiting: impl FnOnce()) -> T {
    let mut awaited = pin!(awaited);
    match poll_fn(|cx| Poll::Ready(awaited.as_mut().poll(cx))).await {
        Poll::Ready(value) => value,
        Poll::Pending => {
            before_waiting();
            awaited.await
        }
    }
}

/// What a status says about a transfer of its task.
pub(super) enum TransferNotice {
    /// To this agent.
    Followable(Box<Transfer>),
    /// The receiver cannot be read.
    Unreadable,
}

impl TransferNotice {
    /// The reason where the receiver cannot be read.
    pub(super) const UNREADABLE: &'static str = "the agent says that it has handed the task over, and not to whom";
}

impl From<TransferNotice> for CallFailure {
    fn from(went: TransferNotice) -> Self {
        match went {
            TransferNotice::Followable(transfer) => Self::Transferred(transfer),
            TransferNotice::Unreadable => Self::TaskOver(Ending::fail(TransferNotice::UNREADABLE)),
        }
    }
}

/// The transfer that a status reports, if any: such a task is not done, whatever its state is called.
pub(super) fn transfer_notice(status: &TaskStatus, metadata: Option<&Object>) -> Option<TransferNotice> {
    if !matches!(status.state, TaskState::Completed | TaskState::Transferred) {
        return None;
    }
    let message = status.message.as_ref();
    if let Some(transfer) = Transfer::of(status.state, message, metadata) {
        return Some(TransferNotice::Followable(Box::new(transfer)));
    }
    let said = [message.and_then(|message| message.metadata.as_ref()), metadata];
    let says = |metadata: &Object| metadata.get(HANDOFF).is_some_and(|said| said["state"] == TRANSFERRED);
    let went = status.state == TaskState::Transferred || said.into_iter().flatten().any(says);
    went.then_some(TransferNotice::Unreadable)
}

/// The end of our turn, where a status is one.
fn ending_of(status: TaskStatus) -> Option<Ending> {
    let parts = status.message.map(|message| message.parts).unwrap_or_default();
    Some(match status.state {
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => return None,
        TaskState::InputRequired => Ending::AskInput(parts),
        TaskState::AuthRequired => Ending::AskAuth(parts),
        TaskState::Completed => Ending::Complete(parts),
        // Transfers are followed before; their end is reported there.
        TaskState::Transferred => Ending::fail(TransferNotice::UNREADABLE),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        TaskState::Canceled => Ending::Cancel(parts),
    })
}

/// What to do with a status that was reported before.
enum RepeatedStatus {
    /// Report it: it is an event of its own.
    Report,
    /// Skip it: it is the same task again.
    Skip,
}
