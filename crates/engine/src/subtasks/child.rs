//! The handle that a parent has for a child: following it, answering its questions, canceling it.

use super::{message_id, send_request};
use crate::agent::TurnInfo;
use crate::engine::Engine;
use crate::live::is_at_rest;
use crate::watch::{StreamEnd, Watch, WatchItem};
use sabir_proto::{AgentName, Fault, FrozenEvent, FrozenTask, Message, Part, Role, Seq, TaskId};
use sabir_store::Scope;
use std::sync::{Arc, PoisonError};

/// A child of the current task. Dropping the handle changes nothing: the child goes on.
pub struct Child {
    engine: Engine,
    id: TaskId,
    scope: Arc<Scope>,
    turn: Arc<TurnInfo>,
    key: Arc<str>,
    cursor: Seq,
    watch: Option<Watch>,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").field("id", &self.id).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Child {
    pub(super) const fn new(engine: Engine, id: TaskId, scope: Arc<Scope>, turn: Arc<TurnInfo>, key: Arc<str>) -> Self {
        Self { engine, id, scope, turn, key, cursor: Seq(0), watch: None }
    }

    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// The agent of the child.
    pub fn agent(&self) -> &AgentName {
        &self.scope.agent
    }

    /// Continues after this event, for a parent that has processed the earlier ones.
    #[must_use]
    pub fn after(mut self, seen: Seq) -> Self {
        (self.cursor, self.watch) = (seen, None);
        self
    }

    /// The next event; `None` while the child is settled or asks. After an [answer](Self::answer) there are more.
    pub async fn next(&mut self) -> Option<Result<FrozenEvent, Fault>> {
        if self.watch.is_none() {
            match self.follow().await {
                Ok(Some(watch)) => self.watch = Some(watch),
                Ok(None) => return None,
                Err(fault) => return Some(Err(self.unless_stopping(fault).await)),
            }
        }
        match self.watch.as_mut()?.next().await {
            Some(Ok(WatchItem::Event(event))) => {
                self.cursor = event.seq;
                Some(Ok(event))
            }
            Some(Err(fault)) => {
                self.watch = None;
                Some(Err(self.unless_stopping(fault).await))
            }
            // A child is always a task.
            Some(Ok(WatchItem::Reply(_))) | None => {
                self.watch = None;
                None
            }
        }
    }

    /// The number of the last event that was returned.
    pub const fn seen(&self) -> Seq {
        self.cursor
    }

    /// Loads the child as it is now. [`next`](Self::next) continues from there.
    pub async fn load(&mut self) -> Result<FrozenTask, Fault> {
        let stored = match self.engine.load_owned(&self.scope, self.id).await {
            Ok(stored) => stored,
            Err(fault) => return Err(self.unless_stopping(fault).await),
        };
        (self.cursor, self.watch) = (stored.head, None);
        self.engine.fold(&stored)
    }

    /// Waits until the child is settled or asks, and returns it.
    pub async fn wait_until_rest(&self) -> Result<FrozenTask, Fault> {
        // Joined before the log is read, so that later commits are published to this reference. The child may have no
        // runner yet: after a crash, parents resume before their children.
        let mut live = self.engine.core.live.join(self.id);
        let stored = match self.engine.load_owned(&self.scope, self.id).await {
            Ok(stored) => stored,
            Err(fault) => return Err(self.unless_stopping(fault).await),
        };
        if is_at_rest(stored.state) {
            return self.engine.fold(&stored);
        }
        match live.wait_rested(stored.head).await {
            Ok(task) => Ok(task),
            Err(fault) => Err(self.unless_stopping(fault).await),
        }
    }

    /// Answers the child's question and begins its next turn. A turn that runs again after a crash may answer again:
    /// only the first answer counts, and nothing is sent twice.
    pub async fn answer(&mut self, parts: Vec<Part>) -> Result<(), Fault> {
        let number = {
            let mut answers = self.turn.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let number = answers.entry(self.key.clone()).or_default();
            *number += 1;
            *number
        };
        let name = format!("{}/{}/{number}/{}", self.turn.task, self.turn.turn, self.id);
        let id = message_id(&name).unwrap_or_else(|| self.engine.new_message_id());
        let mut said = Message::text(id, Role::User, "");
        said.parts = parts;
        said.task_id = Some(self.id.into());
        let resident = self.engine.core.find_agent_or_fault(&self.scope.agent)?;
        match self.engine.answer_child(&resident, self.scope.clone(), send_request(said), name).await {
            // The child got another answer at this point, before the crash.
            Ok(()) | Err(Fault::RetryConflict) => Ok(()),
            Err(fault) => Err(self.unless_stopping(fault).await),
        }
    }

    /// Cancels the child. No error if it has settled.
    pub async fn cancel(&self) -> Result<(), Fault> {
        self.engine.cancel_unless_settled(&self.scope, self.id).await
    }

    async fn follow(&self) -> Result<Option<Watch>, Fault> {
        let core = &self.engine.core;
        let live = core.live.join(self.id);
        let stored = self.engine.load_owned(&self.scope, self.id).await?;
        if is_at_rest(stored.state) && self.cursor >= stored.head {
            return Ok(None);
        }
        live.publish(stored.head, &[], None);
        Ok(Some(Watch::follow(core.clone(), self.id, live, self.cursor, StreamEnd::Rest)))
    }

    /// While the server stops, parent and child are both parked; neither learns of a failure of the other.
    async fn unless_stopping(&self, fault: Fault) -> Fault {
        if self.engine.core.live.is_stopping() {
            std::future::pending::<()>().await;
        }
        fault
    }
}
