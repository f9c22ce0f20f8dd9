//! What translations lost, on its way to those who want to know: the log at debug, a counter, and a note beside the task.

use crate::app::App;
use sabir_proto::{FrozenTask, Reply, Sent, TaskId};
use sabir_wire::{Dialect, Losses};

/// The losses of one request and its answer.
#[derive(Debug)]
pub(crate) struct Told {
    dialect: Dialect,
    task: Option<TaskId>,
    losses: Losses,
}

impl Told {
    pub(crate) const fn new(dialect: Dialect, losses: Losses) -> Self {
        Self { dialect, task: None, losses }
    }

    /// Where to note more of them.
    pub(crate) const fn losses(&mut self) -> &mut Losses {
        &mut self.losses
    }

    /// The task they are about, where the answer is one.
    pub(crate) fn about<S>(&mut self, reply: &Reply<S>) {
        self.task = match reply {
            Reply::Sent(Sent::Task(task, _)) | Reply::Task(task, _) => FrozenTask::id(task),
            Reply::Push(task, _) | Reply::Pushes(task, _) => Some(*task),
            Reply::Sent(Sent::Message(_)) | Reply::Tasks(_) | Reply::Deleted | Reply::Card(_) | Reply::Stream(_) => {
                None
            }
        };
    }

    /// The task they are about, from an event of its stream.
    pub(crate) fn about_event(&mut self, event: &sabir_proto::FrozenEvent) {
        if self.task.is_none() && !self.losses.is_empty() {
            self.task = event.task_id();
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
    }
}
