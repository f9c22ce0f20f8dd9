//! Cancels the children of a task that was canceled, failed or was rejected, and so on down the tree.
//!
//! Each child is canceled by a step of its own log, after the parent's step. A crash in between leaves orphans; the
//! next start finds and cancels them before it resumes anything else. The log refuses to open a child of a task that
//! has ended.

use crate::agent::AnyAgent;
use crate::engine::{Core, Engine, HostedAgent};
use crate::unstored_endings::{PAUSE_MAX, PAUSE_MIN};
use sabir_proto::{AgentName, Fault, TaskId, TaskState};
use sabir_store::{Scope, StoreError, TaskTreeNode, ended_unsuccessfully};
use std::sync::Arc;

/// The number of tasks read per page.
const PAGE: usize = 256;

impl Core {
    /// Starts canceling the children of a task, if it ended in a state that gives them up.
    pub(crate) fn cancel_children(self: &Arc<Self>, task: TaskId, state: TaskState) {
        if ended_unsuccessfully(state) {
            let engine = Engine { core: self.clone() };
            self.host.spawn(Box::pin(async move { engine.cancel_children_of(task).await }));
        }
    }
}

impl Engine {
    /// Cancels every unfinished task of the tree that a task belongs to, from the root down: the kill switch. Returns
    /// the canceled tasks. The caller need not own any of them.
    pub async fn cancel_tree(&self, of: TaskId) -> Result<Vec<TaskTreeNode>, Fault> {
        let fault = |e: StoreError| self.core.store_fault("reading a family", &e);
        let kin = self.core.log.parent_link(of).await.map_err(fault)?;
        let root = kin.map_or(of, |kin| kin.root);
        let mut family = Vec::new();
        // The root may have been pruned while tasks below it are at work.
        if let Some(scope) = self.core.log.owner(root).await.map_err(fault)? {
            let stored = self.core.log.load(root).await.map_err(fault)?;
            family.extend(stored.map(|stored| TaskTreeNode { id: root, parent: None, scope, state: stored.state }));
        } else if of == root {
            return Err(Fault::TaskNotFound(of.into()));
        }
        let mut after = None;
        loop {
            let page = self.core.log.descendants(root, after, PAGE).await.map_err(fault)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            family.extend(page);
        }
        let mut canceled = Vec::new();
        for relative in family.into_iter().filter(|relative| !relative.state.is_settled()) {
            let now =
                match self.cancel_by_id(&relative.scope, relative.id, self.agent_and_push(&relative.scope.agent)).await
                {
                    // A child of a task that was canceled is canceled with it, by a job of its own.
                    Ok(_) | Err(Fault::TaskNotCancelable { state: TaskState::Canceled, .. }) => TaskState::Canceled,
                    // It has settled meanwhile.
                    Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => continue,
                    Err(fault) => return Err(fault),
                };
            canceled.push(TaskTreeNode { state: now, ..relative });
        }
        Ok(canceled)
    }

    /// Cancels children whose parent ended shortly before a crash.
    pub(crate) async fn cancel_orphans(
        &self,
        resident: &impl Fn(&AgentName) -> Option<Arc<HostedAgent>>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            // A child is younger than its parent, so children that become orphans here are on later pages.
            let page = self.core.log.orphans(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            for orphan in page {
                let of = resident(&orphan.scope.agent).map(|r| (r.agent.clone(), r.push));
                match self.cancel_by_id(&orphan.scope, orphan.id, of).await {
                    Ok(_) => drop(self.core.metrics.children_called_off.inc()),
                    Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => {}
                    // Retried in the background; the task may resume until then.
                    Err(_) => self.cancel_later(orphan.scope, orphan.id),
                }
            }
        }
    }

    async fn cancel_children_of(&self, parent: TaskId) {
        let (mut after, mut pause) = (None, PAUSE_MIN);
        while !self.core.live.is_stopping() {
            match self.core.log.children(parent, after, PAGE).await {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    after = Some(last.id);
                    // Each in a job of its own: a remote agent may be slow to answer.
                    let unfinished = page.into_iter().filter(|child| !child.state.is_settled());
                    unfinished.for_each(|child| self.cancel_later(child.scope, child.id));
                }
                Err(error) => {
                    tracing::warn!(task = %parent, %error, "children cannot be read; trying again");
                    self.core.host.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Cancels a task in the background and retries until it succeeds; after a stop the next start does.
    fn cancel_later(&self, scope: Arc<Scope>, id: TaskId) {
        let engine = self.clone();
        self.core.host.spawn(Box::pin(async move {
            let mut pause = PAUSE_MIN;
            while let Err(fault) = engine.cancel_unless_settled(&scope, id).await {
                if engine.core.live.is_stopping() {
                    return;
                }
                tracing::warn!(task = %id, %fault, "a child cannot be called off; trying again");
                engine.core.host.sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }));
    }

    /// Cancels a task, unless it has settled.
    pub(super) async fn cancel_unless_settled(&self, scope: &Scope, id: TaskId) -> Result<(), Fault> {
        match self.cancel_by_id(scope, id, self.agent_and_push(&scope.agent)).await {
            Ok(_) => {
                self.core.metrics.children_called_off.inc();
                Ok(())
            }
            Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn agent_and_push(&self, agent: &AgentName) -> Option<(Arc<dyn AnyAgent>, bool)> {
        self.core.find_agent(agent).map(|resident| (resident.agent.clone(), resident.push))
    }
}
