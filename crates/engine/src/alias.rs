//! Names that callers give their tasks.
//!
//! In some dialects the client chooses the id of a task. We make our own ids, so such a name is kept beside the task and
//! belongs to its owner: two callers may use the same one and never meet. A send under a name goes
//!
//! | when the name is | to |
//! |---|---|
//! | an unfinished task's | that task, as if its id had been given |
//! | a settled task's | a new task in the same context, which takes the name over in the commit that opens it |
//! | nobody's, but the id of a task of this owner | the same two ways |
//! | nobody's | a new task, which is given the name in the commit that opens it |
//!
//! Whoever decides on what a name was a moment ago may be late. The log refuses the name then, or the task the message;
//! in both cases the name is looked up again. Everywhere else a name is as good as an id, and an id that is no task's
//! may be a name: nothing keeps a client from choosing a UUID of our kind.

use crate::begin::{Begun, Incoming, Target};
use crate::engine::Engine;
use crate::retry::RetryKey;
use sabir_proto::{Fault, TaskId, TaskRef};
use sabir_store::{Effect, Scope, Stored};
use std::sync::Arc;

/// How often a name is looked up for one send. Each time but the last, another send under it has been faster.
const LOOKUPS_MAX: usize = 8;

impl Engine {
    /// The task a caller means, if it is this owner's.
    pub(crate) async fn find(&self, scope: &Scope, name: &TaskRef) -> Result<Stored, Fault> {
        let named = match name {
            TaskRef::Id(id) => match self.owned(scope, *id).await {
                Err(Fault::TaskNotFound(_)) => self.named(scope, &id.to_string()).await?,
                outcome => return outcome,
            },
            TaskRef::Alias(name) => self.named(scope, name).await?,
        };
        match named {
            Some(id) => self.owned(scope, id).await,
            None => Err(Fault::TaskNotFound(name.clone())),
        }
    }

    /// The names a task has been given, if it is this owner's.
    pub async fn aliases_of(&self, scope: &Scope, task: TaskId) -> Result<Vec<String>, Fault> {
        let id = self.owned(scope, task).await?.id;
        self.core.log.aliases_of(id).await.map_err(|e| self.core.store_fault("reading names", &e))
    }

    /// Whether this is a name that a caller gave to one of its tasks.
    pub async fn is_alias(&self, scope: &Scope, name: &TaskRef) -> Result<bool, Fault> {
        Ok(self.named(scope, &name.to_string()).await?.is_some())
    }

    async fn named(&self, scope: &Scope, name: &str) -> Result<Option<TaskId>, Fault> {
        self.core.log.alias(scope, name).await.map_err(|e| self.core.store_fault("looking up a name", &e))
    }
}

impl Incoming<'_> {
    /// Whom the caller wrote to: the task in the message, or else a name.
    pub(crate) fn addressee(&self) -> Option<TaskRef> {
        let name = || self.request.alias.clone().map(TaskRef::Alias);
        self.request.message.task_id.clone().or_else(name)
    }

    /// Accepts a message that says where it goes.
    pub(crate) async fn begin_named(&mut self, to: &TaskRef, key: Option<RetryKey>) -> Result<Begun, Fault> {
        let engine = Engine { core: self.core.clone() };
        match (&self.request.message.task_id, to) {
            (None, TaskRef::Alias(name)) => self.begin_under(&engine, name, key).await,
            (_, TaskRef::Alias(_)) => {
                let id = engine.find(&self.scope, to).await?.id;
                self.begin_at(Target::Continue(id), key).await
            }
            // Nearly always it is a task, so that is tried before anything is looked up.
            (_, TaskRef::Id(id)) => match self.begin_at(Target::Continue(*id), key).await {
                Err(Fault::TaskNotFound(_)) => {
                    let id = engine.find(&self.scope, to).await?.id;
                    self.begin_at(Target::Continue(id), key).await
                }
                outcome => outcome,
            },
        }
    }

    async fn begin_under(&mut self, engine: &Engine, name: &Arc<str>, key: Option<RetryKey>) -> Result<Begun, Fault> {
        for _ in 0..LOOKUPS_MAX {
            let sent = self.request.clone();
            let (target, was) = self.look_up(engine, name).await?;
            let begun = self.begin_at(target.clone(), key).await;
            match (target, settle_first_step(begun).await) {
                (Target::Continue(_), Err(Fault::TaskSettled { .. })) => {}
                (Target::Open(_), Err(fault)) => {
                    if engine.named(&self.scope, name).await? == was {
                        return Err(fault);
                    }
                }
                (_, outcome) => return outcome,
            }
            self.request = sent;
        }
        Err(Fault::Unavailable("others send under this name all the time; try again".into()))
    }

    /// Where a send under a name goes, and whose the name is.
    async fn look_up(&mut self, engine: &Engine, name: &Arc<str>) -> Result<(Target, Option<TaskId>), Fault> {
        let was = engine.named(&self.scope, name).await?;
        let stored = match was.or_else(|| TaskId::parse(name)) {
            None => None,
            Some(id) => match engine.owned(&self.scope, id).await {
                Ok(stored) => Some(stored),
                Err(Fault::TaskNotFound(_)) => None,
                Err(fault) => return Err(fault),
            },
        };
        let context = &mut self.request.message.context_id;
        match stored {
            Some(stored) if !stored.state.is_settled() => return Ok((Target::Continue(stored.id), was)),
            // A caller that says which conversation it means is taken at its word.
            Some(settled) if context.is_none() => *context = settled.context(),
            _ => {}
        }
        Ok((Target::Open(Some(Box::new(Effect::Alias { name: name.clone(), was }))), was))
    }
}

/// A new task that is at work may still be refused for its name; whether it is shows with its first commit.
async fn settle_first_step(begun: Result<Begun, Fault>) -> Result<Begun, Fault> {
    let mut begun = begun?;
    if let Begun::Running { live, from, .. } = &mut begun {
        live.committed(*from).await?;
    }
    Ok(begun)
}
