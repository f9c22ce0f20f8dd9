//! A task that another agent works on, on behalf of the task at hand.

use super::{message_id, request};
use crate::agent::TurnInfo;
use crate::engine::Engine;
use crate::live::rests;
use crate::watch::{Item, Until, Watch};
use sabir_proto::{AgentName, Fault, FrozenEvent, FrozenTask, Message, Part, Role, Seq, TaskId};
use sabir_store::Scope;
use std::sync::{Arc, PoisonError};

/// A child, as its parent sees it. Dropping it changes nothing: the child goes on.
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

    /// The task.
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// The agent that works on it.
    pub fn agent(&self) -> &AgentName {
        &self.scope.agent
    }

    /// Goes on after this event, for a parent that has seen those before it.
    #[must_use]
    pub fn after(mut self, seen: Seq) -> Self {
        (self.cursor, self.watch) = (seen, None);
        self
    }

    /// Its next event; `None` while it rests, having settled or asked. After an [answer](Self::answer) there are more.
    pub async fn next(&mut self) -> Option<Result<FrozenEvent, Fault>> {
        if self.watch.is_none() {
            match self.follow().await {
                Ok(Some(watch)) => self.watch = Some(watch),
                Ok(None) => return None,
                Err(fault) => return Some(Err(self.unless_stopping(fault).await)),
            }
        }
        match self.watch.as_mut()?.next().await {
            Some(Ok(Item::Event(event))) => {
                self.cursor = event.seq;
                Some(Ok(event))
            }
            Some(Err(fault)) => {
                self.watch = None;
                Some(Err(self.unless_stopping(fault).await))
            }
            // A child is always a task.
            Some(Ok(Item::Reply(_))) | None => {
                self.watch = None;
                None
            }
        }
    }

    /// The last event that was seen.
    pub const fn seen(&self) -> Seq {
        self.cursor
    }

    /// The child as it stands. [`next`](Self::next) goes on from there.
    pub async fn look(&mut self) -> Result<FrozenTask, Fault> {
        let stored = match self.engine.owned(&self.scope, self.id).await {
            Ok(stored) => stored,
            Err(fault) => return Err(self.unless_stopping(fault).await),
        };
        (self.cursor, self.watch) = (stored.head, None);
        self.engine.fold(&stored)
    }

    /// Waits until it rests, and shows it: settled, or asking.
    pub async fn rest(&self) -> Result<FrozenTask, Fault> {
        // Joined before the log is read: whatever is committed after that reading is published to us. Nobody may be at
        // work on it yet: after a crash, parents are taken up before their children.
        let mut live = self.engine.core.live.enter(self.id);
        let stored = match self.engine.owned(&self.scope, self.id).await {
            Ok(stored) => stored,
            Err(fault) => return Err(self.unless_stopping(fault).await),
        };
        if rests(stored.state) {
            return self.engine.fold(&stored);
        }
        match live.rested(stored.head).await {
            Ok(task) => Ok(task),
            Err(fault) => Err(self.unless_stopping(fault).await),
        }
    }

    /// Answers its question; its next turn begins. A turn that is begun again after a crash may answer again: what was
    /// said the first time counts, and nothing is said twice.
    pub async fn answer(&mut self, parts: Vec<Part>) -> Result<(), Fault> {
        let number = {
            let mut answers = self.turn.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let number = answers.entry(self.key.clone()).or_default();
            *number += 1;
            *number
        };
        let name = format!("{}/{}/{number}/{}", self.turn.task, self.turn.turn, self.id);
        let id = message_id(&name).unwrap_or_else(|| self.engine.mint());
        let mut said = Message::text(id, Role::User, "");
        said.parts = parts;
        said.task_id = Some(self.id.into());
        let resident = self.engine.core.resident_or_fault(&self.scope.agent)?;
        match self.engine.reply(&resident, self.scope.clone(), request(said), name).await {
            // It has had another answer in this place, before the crash.
            Ok(()) | Err(Fault::RetryConflict) => Ok(()),
            Err(fault) => Err(self.unless_stopping(fault).await),
        }
    }

    /// Calls it off. No error if it has settled.
    pub async fn cancel(&self) -> Result<(), Fault> {
        self.engine.call_off(&self.scope, self.id).await
    }

    async fn follow(&self) -> Result<Option<Watch>, Fault> {
        let core = &self.engine.core;
        let live = core.live.enter(self.id);
        let stored = self.engine.owned(&self.scope, self.id).await?;
        if rests(stored.state) && self.cursor >= stored.head {
            return Ok(None);
        }
        live.publish(stored.head, &[], None);
        Ok(Some(Watch::follow(core.clone(), self.id, live, self.cursor, Until::Rest)))
    }

    /// While the server stops, parent and child are both put aside, and nobody is told that the other has failed.
    async fn unless_stopping(&self, fault: Fault) -> Fault {
        if self.engine.core.live.is_stopping() {
            std::future::pending::<()>().await;
        }
        fault
    }
}
