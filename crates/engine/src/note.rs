//! Notes beside tasks: what a translation could not carry. They do not affect the task, and no request waits for them.

use crate::engine::Engine;
use sabir_proto::{Fault, TaskId, TaskRef, id_limits};
use sabir_store::{LossNote, Scope};
use std::sync::Arc;

impl Engine {
    /// Stores notes beside a task in the background; see [`sabir_store::TaskLog::add_loss_notes`]. A task of another owner gets
    /// none.
    pub fn note(&self, scope: &Arc<Scope>, task: TaskId, mut notes: Vec<LossNote>) {
        if notes.is_empty() {
            return;
        }
        for note in &mut notes {
            // A path is made of member names, and those of free-form values are the caller's.
            [&mut note.dialect, &mut note.kind, &mut note.path].into_iter().for_each(shorten);
        }
        let (core, scope) = (self.core.clone(), scope.clone());
        self.core.host.spawn(Box::pin(async move {
            if matches!(core.log.owner(task).await, Ok(Some(owner)) if owner == scope) {
                // A lost note is not an error, so the result is ignored.
                drop(core.log.add_loss_notes(task, notes));
            }
        }));
    }

    /// The notes beside a task, oldest first.
    pub async fn notes(&self, scope: &Scope, task: &TaskRef) -> Result<Vec<LossNote>, Fault> {
        let id = self.find(scope, task).await?.id;
        self.core.log.loss_notes(id).await.map_err(|e| self.core.store_fault("reading notes", &e))
    }
}

/// Cuts a text to the length of an id.
fn shorten(text: &mut String) {
    let mut end = text.len().min(id_limits::ID_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
