//! Pruning, in memory: there is no file to spare, so everything goes at once.

use super::{Inner, MemoryLog, Row};
use crate::retention::{Bookmark, Forgotten, OLDEST_MAX, Retention};
use crate::{Answer, Pulse, StoreError};
use sabir_proto::{AgentName, Stamp, TaskId};
use std::collections::HashSet;

impl Inner {
    fn settled<'a>(&'a self, agent: &'a AgentName) -> impl Iterator<Item = (TaskId, &'a Row)> {
        let rows = self.tasks.iter().filter(move |(_, row)| row.scope.agent == *agent && row.state.is_settled());
        rows.map(|(id, row)| (*id, row))
    }
}

impl Retention for MemoryLog {
    fn agents(&self) -> Answer<Vec<AgentName>> {
        let mut agents: Vec<AgentName> = self.lock().tasks.values().map(|row| row.scope.agent.clone()).collect();
        agents.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        agents.dedup();
        Answer::now(Ok(agents))
    }

    fn settled(&self, agent: &AgentName) -> Answer<u64> {
        Answer::now(Ok(u64::try_from(self.lock().settled(agent).count()).unwrap_or(u64::MAX)))
    }

    fn oldest(&self, agent: &AgentName, count: u64) -> Answer<Option<Stamp>> {
        let mut places: Vec<Stamp> = self.lock().settled(agent).map(|(_, row)| row.current()).collect();
        places.sort_unstable();
        places.truncate(usize::try_from(count.min(OLDEST_MAX)).unwrap_or(usize::MAX));
        Answer::now(Ok(places.last().copied()))
    }

    fn forget(&self, agent: &AgentName, below: Stamp, _: Option<Bookmark>) -> Answer<Forgotten> {
        let mut inner = self.lock();
        let now = inner.last_stamp;
        let keyed: HashSet<TaskId> =
            inner.keys.values().filter(|(_, until)| *until > now).map(|(kept, _)| kept.task).collect();
        let kept = |id: &TaskId| inner.outbox.owes(*id) || keyed.contains(id);
        let old = inner.settled(agent).filter(|(id, row)| row.current() < below && !kept(id));
        let gone: HashSet<TaskId> = old.map(|(id, _)| id).collect();
        gone.iter().for_each(|id| inner.outbox.forget_task(*id));
        for id in &gone {
            if let Some(row) = inner.tasks.remove(id) {
                inner.take_off(&row.scope.caller, row.bytes);
            }
        }
        inner.keys.retain(|_, (kept, _)| !gone.contains(&kept.task));
        inner.aliases.retain(|_, named| !gone.contains(named));
        inner.notes.retain(|id, _| !gone.contains(id));
        inner.owed_cancels.retain(|id, _| !gone.contains(id));
        inner.spent.retain(|id, _| !gone.contains(id));
        Answer::now(Ok(Forgotten { tasks: u64::try_from(gone.len()).unwrap_or(u64::MAX), next: None }))
    }
}

/// Memory takes all writes.
impl Pulse for MemoryLog {
    fn trouble(&self) -> Option<StoreError> {
        None
    }

    fn damage(&self) -> Option<StoreError> {
        None
    }

    fn probe(&self) -> Answer<()> {
        Answer::now(Ok(()))
    }
}
