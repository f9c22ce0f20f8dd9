//! Trees of subtasks: every query walks through all tasks.

use super::{LogState, ModelLog, TaskRow};
use crate::subtasks::{
    ChildOf, InterruptedTask, ParentLink, SubtaskSpend, TaskTree, TaskTreeNode, ended_unsuccessfully,
};
use crate::{AppendError, StoreFuture};
use sabir_proto::{Stamp, TaskId};

impl LogState {
    /// Whether a child may be opened.
    pub(super) fn check_new_child(&self, birth: &ChildOf) -> Result<(), AppendError> {
        let kin = &birth.parent_link;
        if self.tasks.get(&kin.parent).is_none_or(|parent| parent.state.is_settled()) {
            return Err(AppendError::ParentSettled);
        }
        if self.children().any(|(_, _, other)| other.parent == kin.parent && other.key == kin.key) {
            return Err(AppendError::DuplicateChild);
        }
        if self.calls(kin.root) >= birth.subtasks_max {
            return Err(AppendError::TooManySubtasks);
        }
        Ok(())
    }

    fn children(&self) -> impl Iterator<Item = (TaskId, &TaskRow, &ParentLink)> {
        self.tasks.iter().filter_map(|(id, row)| row.kin.as_ref().map(|kin| (*id, row, kin)))
    }

    fn calls(&self, root: TaskId) -> u64 {
        u64::try_from(self.children().filter(|(_, _, kin)| kin.root == root).count()).unwrap_or(u64::MAX)
    }

    fn filter_children(
        &self,
        after: Option<TaskId>,
        limit: usize,
        wanted: impl Fn(&TaskRow, &ParentLink) -> bool,
    ) -> Vec<TaskTreeNode> {
        let after = |id: TaskId| after.is_none_or(|after| id > after);
        let some = self.children().filter(|(id, row, kin)| after(*id) && wanted(row, kin)).take(limit);
        some.map(|(id, row, kin)| TaskTreeNode {
            id,
            parent: Some(kin.parent),
            scope: row.scope.clone(),
            state: row.state,
        })
        .collect()
    }

    fn parent_ended_unsuccessfully(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|row| ended_unsuccessfully(row.state))
    }
}

impl TaskTree for ModelLog {
    fn parent_link(&self, task: TaskId) -> StoreFuture<Option<ParentLink>> {
        StoreFuture::ready(Ok(self.lock().tasks.get(&task).and_then(|row| row.kin.clone())))
    }

    fn child(&self, parent: TaskId, key: &str) -> StoreFuture<Option<TaskId>> {
        let inner = self.lock();
        let mut children = inner.children();
        StoreFuture::ready(Ok(children.find(|(_, _, kin)| kin.parent == parent && *kin.key == *key).map(|(id, ..)| id)))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        StoreFuture::ready(Ok(self.lock().filter_children(after, limit, |_, kin| kin.root == root)))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        StoreFuture::ready(Ok(self.lock().filter_children(after, limit, |_, kin| kin.parent == parent)))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> StoreFuture<Vec<TaskTreeNode>> {
        let inner = self.lock();
        StoreFuture::ready(Ok(inner.filter_children(after, limit, |row, kin| {
            !row.state.is_settled() && inner.parent_ended_unsuccessfully(kin.parent)
        })))
    }

    fn subtask_spend(&self, root: TaskId) -> StoreFuture<SubtaskSpend> {
        let inner = self.lock();
        StoreFuture::ready(Ok(SubtaskSpend {
            calls: inner.calls(root),
            spent: inner.spent.get(&root).copied().unwrap_or(0),
        }))
    }

    fn interrupted(&self, after: Option<Stamp>, limit: usize) -> StoreFuture<Vec<InterruptedTask>> {
        let inner = self.lock();
        let mut asking: Vec<(Stamp, TaskId, &TaskRow)> = inner
            .tasks
            .iter()
            .filter(|(_, row)| row.state.is_interrupted() && after.is_none_or(|after| row.current() > after))
            .map(|(id, row)| (row.current(), *id, row))
            .collect();
        asking.sort_unstable_by_key(|(since, ..)| *since);
        asking.truncate(limit);
        let asking = asking.into_iter().map(|(since, id, row)| InterruptedTask { task: row.stored(id), since });
        StoreFuture::ready(Ok(asking.collect()))
    }
}
