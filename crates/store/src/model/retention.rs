//! Pruning: there is no file to spare, so everything goes at once.

use super::{LogState, ModelLog, TaskRow};
use crate::retention::{OLDEST_MAX, PruneCursor, PruneProgress, Retention};
use crate::{StoreError, StoreFuture, Upkeep, WriteHealth};
use sabir_proto::{AgentName, Stamp, TaskId};
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

impl LogState {
    fn settled<'a>(&'a self, agent: &'a AgentName) -> impl Iterator<Item = (TaskId, &'a TaskRow)> {
        let rows = self.tasks.iter().filter(move |(_, row)| row.scope.agent == *agent && row.state.is_settled());
        rows.map(|(id, row)| (*id, row))
    }
}

impl Retention for ModelLog {
    fn agents(&self) -> StoreFuture<Vec<AgentName>> {
        let mut agents: Vec<AgentName> = self.lock().tasks.values().map(|row| row.scope.agent.clone()).collect();
        agents.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        agents.dedup();
        StoreFuture::ready(Ok(agents))
    }

    fn settled_count(&self, agent: &AgentName) -> StoreFuture<u64> {
        StoreFuture::ready(Ok(u64::try_from(self.lock().settled(agent).count()).unwrap_or(u64::MAX)))
    }

    fn oldest_settled(&self, agent: &AgentName, count: u64) -> StoreFuture<Option<Stamp>> {
        let mut places: Vec<Stamp> = self.lock().settled(agent).map(|(_, row)| row.current()).collect();
        places.sort_unstable();
        places.truncate(usize::try_from(count.min(OLDEST_MAX)).unwrap_or(usize::MAX));
        StoreFuture::ready(Ok(places.last().copied()))
    }

    fn prune(&self, agent: &AgentName, below: Stamp, _: Option<PruneCursor>) -> StoreFuture<PruneProgress> {
        let mut inner = self.lock();
        let now = inner.last_stamp;
        let keyed: HashSet<TaskId> =
            inner.keys.values().filter(|(_, until)| *until > now).map(|(kept, _)| kept.task).collect();
        let kept = |id: &TaskId| inner.outbox.has_pending(*id) || keyed.contains(id);
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
        StoreFuture::ready(Ok(PruneProgress { tasks: u64::try_from(gone.len()).unwrap_or(u64::MAX), next: None }))
    }
}

/// Memory takes all writes.
impl WriteHealth for ModelLog {
    fn write_error(&self) -> Option<StoreError> {
        None
    }

    fn damage(&self) -> Option<StoreError> {
        None
    }

    fn probe(&self) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }
}

impl Upkeep for ModelLog {
    fn compact(&self) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }

    fn dispatch_replies(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn set_pages_max(&self, _: u32) -> Result<(), StoreError> {
        Ok(())
    }
}
