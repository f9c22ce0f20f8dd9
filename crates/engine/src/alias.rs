//! Aliases: names that callers give their tasks.
//!
//! In some dialects the client chooses the id of a task. We make our own ids, so such a name is stored beside the task
//! and belongs to its owner: two callers may use the same one independently. A send under a name goes
//!
//! | when the name belongs to | to |
//! |---|---|
//! | an unfinished task | that task, as if its id had been given |
//! | a settled task | a new task in the same context, which takes the name over in the commit that opens it |
//! | no task, but is the id of a task of this owner | the same two ways |
//! | no task | a new task, which gets the name in the commit that opens it |
//!
//! The name may change between the lookup and the commit. Then the log refuses the name, or the task refuses the
//! message; in both cases the name is looked up again. In all other calls a name is as good as an id. An id without a
//! task may be a name, since a client may choose a UUID like ours.

use crate::begin::{Begun, Incoming, Target};
use crate::engine::Engine;
use crate::retry::RetryKey;
use sabir_proto::{Fault, TaskId, TaskRef};
use sabir_store::{Effect, Scope, Stored};
use std::sync::Arc;

/// The number of lookups for one send. Each lookup but the first follows a race that another send won.
const LOOKUPS_MAX: usize = 8;

impl Engine {
    /// Loads the task that a caller names, if this owner has it.
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

    /// The aliases of a task, if this owner has it.
    pub async fn aliases_of(&self, scope: &Scope, task: TaskId) -> Result<Vec<String>, Fault> {
        let id = self.owned(scope, task).await?.id;
        self.core.log.aliases_of(id).await.map_err(|e| self.core.store_fault("reading names", &e))
    }

    /// Whether this is an alias of one of the owner's tasks.
    pub async fn is_alias(&self, scope: &Scope, name: &TaskRef) -> Result<bool, Fault> {
        Ok(self.named(scope, &name.to_string()).await?.is_some())
    }

    async fn named(&self, scope: &Scope, name: &str) -> Result<Option<TaskId>, Fault> {
        self.core.log.alias(scope, name).await.map_err(|e| self.core.store_fault("looking up a name", &e))
    }
}

impl Incoming<'_> {
    /// The address of the message: the task in it, or else an alias.
    pub(crate) fn addressee(&self) -> Option<TaskRef> {
        let name = || self.request.alias.clone().map(TaskRef::Alias);
        self.request.message.task_id.clone().or_else(name)
    }

    /// Accepts a message that names a task or an alias.
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

    /// The target of a send under a name, and the task that has the name now.
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
            // A context id that the caller gave is kept.
            Some(settled) if context.is_none() => *context = settled.context(),
            _ => {}
        }
        Ok((Target::Open(Some(Box::new(Effect::Alias { name: name.clone(), was }))), was))
    }
}

/// Waits for the first commit of a new task at work, since the log may still refuse its name.
async fn settle_first_step(begun: Result<Begun, Fault>) -> Result<Begun, Fault> {
    let mut begun = begun?;
    if let Begun::Running { live, from, .. } = &mut begun {
        live.committed(*from).await?;
    }
    Ok(begun)
}
