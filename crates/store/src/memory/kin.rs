//! Trees of subtasks, in memory: every query walks through all tasks.

use super::{Inner, MemoryLog, Row};
use crate::kin::{Asking, Birth, Family, Kin, Relative, Toll, is_given_up};
use crate::{Answer, AppendError};
use sabir_proto::{Stamp, TaskId};

impl Inner {
    /// Whether a child may be opened.
    pub(super) fn may_be_born(&self, birth: &Birth) -> Result<(), AppendError> {
        let kin = &birth.kin;
        if self.tasks.get(&kin.parent).is_none_or(|parent| parent.state.is_settled()) {
            return Err(AppendError::Orphan);
        }
        if self.children().any(|(_, _, other)| other.parent == kin.parent && other.key == kin.key) {
            return Err(AppendError::Twin);
        }
        if self.calls(kin.root) >= birth.family_max {
            return Err(AppendError::TooManyKin);
        }
        Ok(())
    }

    fn children(&self) -> impl Iterator<Item = (TaskId, &Row, &Kin)> {
        self.tasks.iter().filter_map(|(id, row)| row.kin.as_ref().map(|kin| (*id, row, kin)))
    }

    fn calls(&self, root: TaskId) -> u64 {
        u64::try_from(self.children().filter(|(_, _, kin)| kin.root == root).count()).unwrap_or(u64::MAX)
    }

    fn some(&self, after: Option<TaskId>, limit: usize, wanted: impl Fn(&Row, &Kin) -> bool) -> Vec<Relative> {
        let after = |id: TaskId| after.is_none_or(|after| id > after);
        let some = self.children().filter(|(id, row, kin)| after(*id) && wanted(row, kin)).take(limit);
        some.map(|(id, row, kin)| Relative { id, parent: Some(kin.parent), scope: row.scope.clone(), state: row.state })
            .collect()
    }

    fn is_given_up(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|row| is_given_up(row.state))
    }
}

impl Family for MemoryLog {
    fn kin(&self, task: TaskId) -> Answer<Option<Kin>> {
        Answer::now(Ok(self.lock().tasks.get(&task).and_then(|row| row.kin.clone())))
    }

    fn child(&self, parent: TaskId, key: &str) -> Answer<Option<TaskId>> {
        let inner = self.lock();
        let mut children = inner.children();
        Answer::now(Ok(children.find(|(_, _, kin)| kin.parent == parent && *kin.key == *key).map(|(id, ..)| id)))
    }

    fn descendants(&self, root: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        Answer::now(Ok(self.lock().some(after, limit, |_, kin| kin.root == root)))
    }

    fn children(&self, parent: TaskId, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        Answer::now(Ok(self.lock().some(after, limit, |_, kin| kin.parent == parent)))
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Answer<Vec<Relative>> {
        let inner = self.lock();
        Answer::now(Ok(inner.some(after, limit, |row, kin| !row.state.is_settled() && inner.is_given_up(kin.parent))))
    }

    fn toll(&self, root: TaskId) -> Answer<Toll> {
        let inner = self.lock();
        Answer::now(Ok(Toll { calls: inner.calls(root), spent: inner.spent.get(&root).copied().unwrap_or(0) }))
    }

    fn asking(&self, after: Option<Stamp>, limit: usize) -> Answer<Vec<Asking>> {
        let inner = self.lock();
        let mut asking: Vec<(Stamp, TaskId, &Row)> = inner
            .tasks
            .iter()
            .filter(|(_, row)| row.state.is_interrupted() && after.is_none_or(|after| row.current() > after))
            .map(|(id, row)| (row.current(), *id, row))
            .collect();
        asking.sort_unstable_by_key(|(since, ..)| *since);
        asking.truncate(limit);
        let asking = asking.into_iter().map(|(since, id, row)| Asking { task: row.stored(id), since });
        Answer::now(Ok(asking.collect()))
    }
}
