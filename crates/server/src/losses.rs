//! Reports what translations lost: in the log at debug level, in a metric, and in a note at the task.

use crate::app::App;
use crate::tokio_host::TokioHost;
use sabir_engine::Host;
use sabir_proto::{FrozenTask, Reply, SendReply, TaskId};
use sabir_store::{LossNote, Scope};
use sabir_wire::{Dialect, Loss, Losses};
use std::sync::Arc;

/// The losses of one request and its answer.
#[derive(Debug)]
pub(crate) struct LossReport {
    dialect: Dialect,
    /// The owner of the task; `None` until the call was served.
    scope: Option<Arc<Scope>>,
    // Boxed, because most streams lose nothing and have none.
    task: Option<Box<TaskId>>,
    losses: Losses,
}

impl LossReport {
    /// Starts a report with the losses of the request.
    pub(crate) const fn new(dialect: Dialect, losses: Losses) -> Self {
        Self { dialect, scope: None, task: None, losses }
    }

    /// Sets the scope of the task in the answer.
    pub(crate) fn in_scope(&mut self, scope: Arc<Scope>) {
        self.scope = Some(scope);
    }

    /// The losses, to add more of them.
    pub(crate) const fn losses(&mut self) -> &mut Losses {
        &mut self.losses
    }

    /// Sets the task of the losses from the reply, if it has one.
    pub(crate) fn about_reply<S>(&mut self, reply: &Reply<S>) {
        if !self.losses.is_empty() {
            self.about_task(task_of(reply));
        }
    }

    /// Sets the task of the losses, if the reply is gone already.
    pub(crate) fn about_task(&mut self, task: Option<TaskId>) {
        if !self.losses.is_empty() {
            self.task = task.map(Box::new);
        }
    }

    /// Sets the task of the losses from an event of its stream.
    pub(crate) fn about_event(&mut self, event: &sabir_proto::FrozenEvent) {
        if self.task.is_none() && !self.losses.is_empty() {
            self.task = event.task_id().map(Box::new);
        }
    }

    /// Logs, counts and notes the losses. Most requests lose nothing, and then this does nothing.
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
            let note = |loss: &Loss| LossNote::new(dialect.name(), loss.kind.name(), &loss.path, now);
            app.engine.note(scope, **task, losses.notes().iter().map(note).collect());
        }
    }
}

/// The task that a reply is about.
pub(crate) fn task_of<S>(reply: &Reply<S>) -> Option<TaskId> {
    match reply {
        Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _) => FrozenTask::id(task),
        Reply::Push(task, _) | Reply::Pushes(task, _) => Some(*task),
        Reply::Sent(SendReply::Message(_)) | Reply::Tasks(_) | Reply::Deleted | Reply::Card(_) | Reply::Stream(_) => {
            None
        }
    }
}
