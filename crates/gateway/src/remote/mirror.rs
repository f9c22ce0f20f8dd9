//! Their events, as reports of ours.
//!
//! Each report and what is then known go into one step: after a crash nothing is told twice and nothing is left out. The
//! report comes first, because it may have to wait for room, and what is known must not be committed without it.

use super::shown::News;
use super::trouble::Trouble;
use super::work::Work;
use sabir_engine::Ending;
use sabir_proto::{Artifact, ContextId, Gap, TaskRef, TaskState, TaskStatus, TheirEvent, TheirTask, Transfer};

impl Work<'_> {
    /// Tells what they said; gives the ending, if that was the end of the turn.
    pub(super) async fn event(&mut self, event: TheirEvent, last: Option<String>) -> Result<Option<Ending>, Trouble> {
        let named = self.known.sent;
        let ending = match event {
            TheirEvent::Task(task) => self.task(task).await?,
            TheirEvent::StatusUpdate(update) => {
                // A hub behind the hub has lost sight of something.
                if let Some(gap) = Gap::of(update.metadata.as_ref()) {
                    self.cx.gap(gap.reason).await?;
                }
                self.news(update.task_id, update.context_id);
                self.status(update.status, Repeats::Tell).await?
            }
            TheirEvent::ArtifactUpdate(update) => {
                self.news(update.task_id, update.context_id);
                self.artifact(update.artifact, update.append, update.last_chunk).await?;
                None
            }
            TheirEvent::Message(message) => {
                (self.known.sent, self.known.heard) = (true, self.cx.now().millis());
                match self.known.task {
                    // Beside a task a message is an aside.
                    Some(_) => {
                        self.cx.progress(message.parts).await?;
                        None
                    }
                    None => Some(Ending::Reply(message.parts)),
                }
            }
        };
        if last.is_some() {
            self.known.last = last;
        }
        if named || ending.is_some() {
            self.cx.set_checkpoint(self.known.write());
        } else {
            // Whatever they say next may be long in coming, and without their task's name it could not be found again.
            self.put_down(None);
            self.cx.commit().await?;
        }
        Ok(ending)
    }

    /// Tells what is new in their task as it stands.
    pub(super) async fn task(&mut self, task: TheirTask) -> Result<Option<Ending>, Trouble> {
        // Nothing was told yet and nothing will be told again, so nobody needs to know what was.
        let at_once = task.status.state.is_settled() && task.artifacts.len() <= 1;
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
            self.cx.gap(reason).await?;
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
            self.cx.set_checkpoint(self.known.write());
        }
        let before = self.known.shown.clone();
        let ending = self.status(task.status, Repeats::Skip).await?;
        if !moved && before == self.known.shown {
            // An answer, but no news.
            self.known.heard = heard;
        }
        if ending.is_none() {
            self.cx.set_checkpoint(self.known.write());
        }
        Ok(ending)
    }

    async fn status(&mut self, status: TaskStatus, repeats: Repeats) -> Result<Option<Ending>, Trouble> {
        let new = self.known.shown.status(&status);
        if !new && matches!(repeats, Repeats::Skip) {
            return Ok(None);
        }
        match status.state {
            TaskState::Submitted | TaskState::Working | TaskState::Unspecified => {
                let parts = status.message.map(|message| message.parts).unwrap_or_default();
                if status.state == TaskState::Working || !parts.is_empty() {
                    self.cx.progress(parts).await?;
                }
                Ok(None)
            }
            // A question that was answered already is how some agents begin to tell of the answer.
            TaskState::InputRequired | TaskState::AuthRequired if !new => Ok(None),
            _ => Ok(ending(status)),
        }
    }

    async fn artifact(&mut self, artifact: Artifact, append: bool, last_chunk: bool) -> Result<(), Trouble> {
        self.known.shown.show(&artifact, append);
        self.cx.chunk(artifact, append, last_chunk).await?;
        Ok(())
    }

    /// They have spoken of a task, so our message has arrived.
    fn news(&mut self, task: TaskRef, context: Option<ContextId>) {
        self.known.sent = true;
        self.known.heard = self.cx.now().millis();
        self.known.task = Some(task);
        if context.is_some() {
            self.known.context = context;
        }
    }
}

/// The end of our turn, where a status is one.
fn ending(status: TaskStatus) -> Option<Ending> {
    let went = Transfer::of(status.state, status.message.as_ref(), None);
    let parts = status.message.map(|message| message.parts).unwrap_or_default();
    Some(match status.state {
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => return None,
        TaskState::InputRequired => Ending::AskInput(parts),
        TaskState::AuthRequired => Ending::AskAuth(parts),
        // Nobody asked for it; to say that it is done would be wrong.
        TaskState::Completed | TaskState::Transferred if went.is_some() => {
            Ending::fail(went.map(|transfer| transfer.words()).unwrap_or_default())
        }
        TaskState::Completed | TaskState::Transferred => Ending::Complete(parts),
        TaskState::Failed => Ending::Fail(parts),
        TaskState::Rejected => Ending::Reject(parts),
        TaskState::Canceled => Ending::Cancel(parts),
    })
}

/// What to do with a status that was told before.
enum Repeats {
    /// It is an event of its own.
    Tell,
    /// It is the same task again.
    Skip,
}
