//! What happens to children whose parent has ended without them.
//!
//! A task that is canceled, fails or is rejected calls off its unfinished children, and so on down. That is a step of each
//! child's own log, taken after the parent's: a crash in between leaves orphans, which the next start finds and calls off
//! before it takes up anything else. No child is born to a parent that has ended, since the log refuses it.

use crate::agent::AnyAgent;
use crate::engine::{Core, Engine, Resident};
use crate::owed::{PAUSE_MAX, PAUSE_MIN};
use sabir_proto::{AgentName, Fault, TaskId, TaskState};
use sabir_store::{Relative, Scope, StoreError, is_given_up};
use std::sync::Arc;

/// Relatives read at a time.
const PAGE: usize = 256;

impl Core {
    /// A task has come to rest in this state: if that is the end of it, its children are called off.
    pub(crate) fn bereave(self: &Arc<Self>, task: TaskId, state: TaskState) {
        if is_given_up(state) {
            let engine = Engine { core: self.clone() };
            self.host.spawn(Box::pin(async move { engine.call_off_children(task).await }));
        }
    }
}

impl Engine {
    /// Calls off every unfinished task of the family that a task belongs to, from the root down: the kill switch. Gives how
    /// many were canceled. Whoever asks need not own any of them.
    pub async fn cancel_tree(&self, of: TaskId) -> Result<Vec<Relative>, Fault> {
        let fault = |e: StoreError| self.core.store_fault("reading a family", &e);
        let kin = self.core.log.kin(of).await.map_err(fault)?;
        let root = kin.map_or(of, |kin| kin.root);
        let mut family = Vec::new();
        // A root may have been forgotten while its family is at work.
        if let Some(scope) = self.core.log.owner(root).await.map_err(fault)? {
            let stored = self.core.log.load(root).await.map_err(fault)?;
            family.extend(stored.map(|stored| Relative { id: root, parent: None, scope, state: stored.state }));
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
            let now = match self.cancel_known(&relative.scope, relative.id, self.whom(&relative.scope.agent)).await {
                // Those below a task that was canceled go with it, by themselves and at the same moment.
                Ok(_) | Err(Fault::TaskNotCancelable { state: TaskState::Canceled, .. }) => TaskState::Canceled,
                // It was faster.
                Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => continue,
                Err(fault) => return Err(fault),
            };
            canceled.push(Relative { state: now, ..relative });
        }
        Ok(canceled)
    }

    /// Calls off children that a crash left without a parent.
    pub(crate) async fn call_off_orphans(
        &self,
        resident: &impl Fn(&AgentName) -> Option<Arc<Resident>>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            // A child is younger than its parent, so those who lose theirs here are further on.
            let page = self.core.log.orphans(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            for orphan in page {
                let of = resident(&orphan.scope.agent).map(|r| (r.agent.clone(), r.push));
                match self.cancel_known(&orphan.scope, orphan.id, of).await {
                    Ok(_) => drop(self.core.metrics.children_called_off.inc()),
                    Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => {}
                    // Its work is not taken up in vain for long: this is tried again.
                    Err(_) => self.call_off_later(orphan.scope, orphan.id),
                }
            }
        }
    }

    async fn call_off_children(&self, parent: TaskId) {
        let (mut after, mut pause) = (None, PAUSE_MIN);
        while !self.core.live.is_stopping() {
            match self.core.log.children(parent, after, PAGE).await {
                Ok(page) => {
                    let Some(last) = page.last() else { return };
                    after = Some(last.id);
                    // Each by itself: an agent elsewhere may take its time over it.
                    let unfinished = page.into_iter().filter(|child| !child.state.is_settled());
                    unfinished.for_each(|child| self.call_off_later(child.scope, child.id));
                }
                Err(error) => {
                    tracing::warn!(task = %parent, %error, "children cannot be read; trying again");
                    self.core.host.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Calls a task off, sooner or later; after a stop the next start does.
    fn call_off_later(&self, scope: Arc<Scope>, id: TaskId) {
        let engine = self.clone();
        self.core.host.spawn(Box::pin(async move {
            let mut pause = PAUSE_MIN;
            while let Err(fault) = engine.call_off(&scope, id).await {
                if engine.core.live.is_stopping() {
                    return;
                }
                tracing::warn!(task = %id, %fault, "a child cannot be called off; trying again");
                engine.core.host.sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }));
    }

    /// Calls a task off, unless it has settled.
    pub(super) async fn call_off(&self, scope: &Scope, id: TaskId) -> Result<(), Fault> {
        match self.cancel_known(scope, id, self.whom(&scope.agent)).await {
            Ok(_) => {
                self.core.metrics.children_called_off.inc();
                Ok(())
            }
            Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    fn whom(&self, agent: &AgentName) -> Option<(Arc<dyn AnyAgent>, bool)> {
        self.core.resident(agent).map(|resident| (resident.agent.clone(), resident.push))
    }
}
