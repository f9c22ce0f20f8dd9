//! Reports the events of a remote task as our own.
//!
//! Each report and the checkpoint after it go into one step: after a crash nothing is reported twice and nothing is
//! left out. The report comes first, because it may have to wait for room, and the checkpoint must not be committed
//! without it. The checkpoint is written only before a wait, since nothing is committed earlier: see [`unhurried`].

use super::shown::{ARTIFACTS_MAX, News, digest};
use super::trouble::Trouble;
use super::work::Work;
use sabir_engine::Ending;
use sabir_engine::agent::Report;
use sabir_proto::transfer::TRANSFERRED;
use sabir_proto::{
    Artifact, ContextId, Gap, HANDOFF, Message, Object, Role, TaskRef, TaskState, TaskStatus, TheirEvent, TheirTask,
    Transfer,
};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// The prefix of our extensions' URIs.
const OUR_EXTENSIONS: &str = "urn:sabir:";

impl Work<'_> {
    /// Reports an event; returns the ending, if that was the end of the turn.
    pub(super) async fn event(&mut self, event: TheirEvent, last: Option<String>) -> Result<Option<Ending>, Trouble> {
        let named = self.known.sent;
        let ending = match event {
            TheirEvent::Task(task) => self.task(task).await?,
            TheirEvent::StatusUpdate(update) => {
                // The agent is a hub itself, and has lost sight of something.
                if let Some(gap) = Gap::of(update.metadata.as_ref()) {
                    self.tell(self.cx.gap(gap.reason)).await?;
                }
                self.news(update.task_id, update.context_id);
                self.status(update.status, update.metadata.as_ref(), Repeats::Tell).await?
            }
            TheirEvent::ArtifactUpdate(update) => {
                self.tell_recovery().await?;
                self.news(update.task_id, update.context_id);
                self.artifact(update.artifact, update.append, update.last_chunk).await?;
                None
            }
            TheirEvent::Message(message) => {
                (self.known.sent, self.known.heard) = (true, self.cx.now().millis());
                match self.known.task {
                    // Beside a task, a message is progress.
                    Some(_) => {
                        self.tell(self.cx.progress(message.parts)).await?;
                        None
                    }
                    None => Some(self.direct_reply(message)),
                }
            }
        };
        if last.is_some() {
            self.known.last = last;
        }
        if !named && ending.is_none() {
            // The next event may be long in coming, and without its id the remote task could not be found again.
            self.put_down(None);
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
        let is_ours = |uri: &str| uri.starts_with(OUR_EXTENSIONS);
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
    pub(super) async fn task(&mut self, task: TheirTask) -> Result<Option<Ending>, Trouble> {
        // Nothing was reported yet and nothing will be later, so no checkpoint is needed.
        let is_over = task.status.state.is_settled() && went(&task.status, task.metadata.as_ref()).is_none();
        let at_once = is_over && task.artifacts.len() <= 1;
        if at_once && self.known.shown.is_nothing() && self.broken.is_none() {
            self.news(task.id, task.context_id);
            for artifact in task.artifacts {
                self.cx.chunk(artifact, false, true).await?;
            }
            return Ok(ending(task.status));
        }
        let heard = self.known.heard;
        self.known.attempts = 0;
        if let Some(reason) = self.broken.take()
            && !self.known.shown.is_level_with(&task)
        {
            self.tell(self.cx.gap(reason)).await?;
        }
        let mut moved = !self.known.sent;
        self.news(task.id, task.context_id);
        for artifact in task.artifacts {
            match self.known.shown.news(&artifact) {
                News::None => continue,
                News::More(more) => self.artifact(more, true, true).await?,
                News::Whole(whole) => self.artifact(whole, false, true).await?,
            }
            moved = true;
        }
        let same = !self.known.shown.is_news(&digest(&task.status));
        let ending = self.status(task.status, task.metadata.as_ref(), Repeats::Skip).await?;
        if !moved && same {
            // It was an answer, but no news.
            self.known.heard = heard;
        }
        Ok(ending)
    }

    async fn status(
        &mut self,
        status: TaskStatus,
        metadata: Option<&Object>,
        repeats: Repeats,
    ) -> Result<Option<Ending>, Trouble> {
        if let Some(went) = went(&status, metadata) {
            return Err(went.into());
        }
        let digest = digest(&status);
        let new = self.known.shown.is_news(&digest);
        // The status that our caller sees is our outage status, and no longer true.
        let stale = std::mem::take(&mut self.known.outage_told);
        if !new && !stale && matches!(repeats, Repeats::Skip) {
            return Ok(None);
        }
        let ending = match status.state {
            TaskState::Submitted | TaskState::Working | TaskState::Unspecified => {
                let parts = status.message.map(|message| message.parts).unwrap_or_default();
                if status.state == TaskState::Working || !parts.is_empty() || stale {
                    self.tell(self.cx.progress(parts)).await?;
                }
                None
            }
            // Some agents begin their next reports with a question that was answered already.
            TaskState::InputRequired | TaskState::AuthRequired if !new => None,
            _ => ending(status),
        };
        self.known.shown.status(digest);
        Ok(ending)
    }

    async fn artifact(&mut self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), Trouble> {
        let shown = &self.known.shown;
        if !shown.has_room_for(&artifact) {
            self.leave();
            return Err(Trouble::Over(Ending::fail(format!("the task has more than {ARTIFACTS_MAX} artifacts"))));
        }
        let (id, seen) = (artifact.artifact_id.clone(), shown.seen_with(&artifact, append));
        self.tell(self.cx.chunk(shown.named(artifact), append, last_chunk)).await?;
        self.known.shown.show(&id, seen);
        Ok(())
    }

    /// Reports something. If there is no room for it yet, the checkpoint goes with the earlier reports.
    pub(super) async fn tell(&self, report: Report<'_>) -> Result<(), Trouble> {
        Ok(unhurried(report, || self.cx.leave(self.known.write())).await?)
    }

    /// The agent has named a task, so our message has arrived.
    fn news(&mut self, task: TaskRef, context: Option<ContextId>) {
        self.known.sent = true;
        self.known.heard = self.cx.now().millis();
        self.known.task = Some(task);
        if context.is_some() {
            self.known.context = context;
        }
        if self.cx.answered() {
            // A cancel waits for the id of the remote task.
            self.cx.leave(self.known.write());
        }
    }
}

/// Awaits a future; calls `before_waiting` first, if the future is not ready.
pub(super) async fn unhurried<T>(awaited: impl Future<Output = T>, before_waiting: impl FnOnce()) -> T {
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
pub(super) enum Went {
    /// To this agent.
    To(Box<Transfer>),
    /// The receiver cannot be read.
    Astray,
}

impl Went {
    /// The reason where the receiver cannot be read.
    pub(super) const ASTRAY: &'static str = "the agent says that it has handed the task over, and not to whom";
}

impl From<Went> for Trouble {
    fn from(went: Went) -> Self {
        match went {
            Went::To(transfer) => Self::Moved(transfer),
            Went::Astray => Self::Over(Ending::fail(Went::ASTRAY)),
        }
    }
}

/// The transfer that a status reports, if any: such a task is not done, whatever its state is called.
pub(super) fn went(status: &TaskStatus, metadata: Option<&Object>) -> Option<Went> {
    if !matches!(status.state, TaskState::Completed | TaskState::Transferred) {
        return None;
    }
    let message = status.message.as_ref();
    if let Some(transfer) = Transfer::of(status.state, message, metadata) {
        return Some(Went::To(Box::new(transfer)));
    }
    let said = [message.and_then(|message| message.metadata.as_ref()), metadata];
    let says = |metadata: &Object| metadata.get(HANDOFF).is_some_and(|said| said["state"] == TRANSFERRED);
    let went = status.state == TaskState::Transferred || said.into_iter().flatten().any(says);
    went.then_some(Went::Astray)
}

/// The end of our turn, where a status is one.
fn ending(status: TaskStatus) -> Option<Ending> {
    let parts = status.message.map(|message| message.parts).unwrap_or_default();
    Some(match status.state {
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => return None,
        TaskState::InputRequired => Ending::AskInput(parts),
        TaskState::AuthRequired => Ending::AskAuth(parts),
        TaskState::Completed => Ending::Complete(parts),
        // Transfers are followed before; their end is reported there.
        TaskState::Transferred => Ending::fail(Went::ASTRAY),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        TaskState::Canceled => Ending::Cancel(parts),
    })
}

/// What to do with a status that was reported before.
enum Repeats {
    /// Report it: it is an event of its own.
    Tell,
    /// Skip it: it is the same task again.
    Skip,
}
