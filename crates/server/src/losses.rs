//! What translations lost, on its way to those who want to know: the log at debug, a counter, and a note beside the task.

use crate::app::App;
use crate::host::TokioHost;
use sabir_engine::Host;
use sabir_proto::{FrozenTask, Reply, Sent, TaskId};
use sabir_store::{Note, Scope};
use sabir_wire::{Dialect, Loss, Losses};
use std::sync::Arc;

/// The losses of one request and its answer.
#[derive(Debug)]
pub(crate) struct Told {
    dialect: Dialect,
    /// Whose task it is; `None` until the call was served.
    scope: Option<Arc<Scope>>,
    // Boxed, because a stream that loses nothing never has one.
    task: Option<Box<TaskId>>,
    losses: Losses,
}

impl Told {
    /// What a request lost so far.
    pub(crate) const fn new(dialect: Dialect, losses: Losses) -> Self {
        Self { dialect, scope: None, task: None, losses }
    }

    /// Whose task the answer is about.
    pub(crate) fn in_scope(&mut self, scope: Arc<Scope>) {
        self.scope = Some(scope);
    }

    /// Where to note more of them.
    pub(crate) const fn losses(&mut self) -> &mut Losses {
        &mut self.losses
    }

    /// The task they are about, where the answer is one.
    pub(crate) fn about<S>(&mut self, reply: &Reply<S>) {
        if !self.losses.is_empty() {
            self.about_task(task_of(reply));
        }
    }

    /// The same, where the answer is gone already.
    pub(crate) fn about_task(&mut self, task: Option<TaskId>) {
        if !self.losses.is_empty() {
            self.task = task.map(Box::new);
        }
    }

    /// The task they are about, from an event of its stream.
    pub(crate) fn about_event(&mut self, event: &sabir_proto::FrozenEvent) {
        if self.task.is_none() && !self.losses.is_empty() {
            self.task = event.task_id().map(Box::new);
        }
    }

    /// Tells everybody. Nothing is lost in most requests, and then this is nothing.
    pub(crate) fn report(&mut self, app: &App) {
        if self.losses.is_empty() {
            return;
        }
        let (dialect, losses) = (self.dialect, std::mem::take(&mut self.losses));
        for loss in losses.notes() {
            app.metrics.loss(dialect.name(), loss.kind.name());
            tracing::debug!(%dialect, kind = %loss.kind, path = loss.path, task = ?self.task, "lost in translation");
        }
        if let (Some(task), Some(scope)) = (&self.task, &self.scope) {
            let now = TokioHost.now();
            let note = |loss: &Loss| Note::new(dialect.name(), loss.kind.name(), &loss.path, now);
            app.route.note(scope, **task, losses.notes().iter().map(note).collect());
        }
    }
}

/// The task an answer is about.
pub(crate) fn task_of<S>(reply: &Reply<S>) -> Option<TaskId> {
    match reply {
        Reply::Sent(Sent::Task(task, _)) | Reply::Task(task, _) => FrozenTask::id(task),
        Reply::Push(task, _) | Reply::Pushes(task, _) => Some(*task),
        Reply::Sent(Sent::Message(_)) | Reply::Tasks(_) | Reply::Deleted | Reply::Card(_) | Reply::Stream(_) => None,
    }
}
