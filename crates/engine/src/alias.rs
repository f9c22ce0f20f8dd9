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

use crate::engine::Engine;
use crate::incoming::{IncomingMessage, SendOutcome, SendTarget};
use crate::retry::RetryKey;
use sabir_proto::{Fault, TaskId, TaskRef};
use sabir_store::{Effect, Scope, StoredTask};
use std::sync::Arc;

/// The number of lookups for one send. Each lookup but the first follows a race that another send won.
const LOOKUPS_MAX: usize = 8;

impl Engine {
    /// Loads the task that a caller names, if this owner has it.
    pub(crate) async fn find(&self, scope: &Scope, name: &TaskRef) -> Result<StoredTask, Fault> {
        let named = match name {
            TaskRef::Id(id) => match self.load_owned(scope, *id).await {
                Err(Fault::TaskNotFound(_)) => self.resolve_alias(scope, &id.to_string()).await?,
                outcome => return outcome,
            },
            TaskRef::Alias(name) => self.resolve_alias(scope, name).await?,
        };
        match named {
            Some(id) => self.load_owned(scope, id).await,
            None => Err(Fault::TaskNotFound(name.clone())),
        }
    }

    /// The aliases of a task, if this owner has it.
    pub async fn aliases_of(&self, scope: &Scope, task: TaskId) -> Result<Vec<String>, Fault> {
        let id = self.load_owned(scope, task).await?.id;
        self.core.log.aliases_of(id).await.map_err(|e| self.core.store_fault("reading names", &e))
    }

    /// Whether this is an alias of one of the owner's tasks.
    pub async fn is_alias(&self, scope: &Scope, name: &TaskRef) -> Result<bool, Fault> {
        Ok(self.resolve_alias(scope, &name.to_string()).await?.is_some())
    }

    async fn resolve_alias(&self, scope: &Scope, name: &str) -> Result<Option<TaskId>, Fault> {
        self.core.log.alias(scope, name).await.map_err(|e| self.core.store_fault("looking up a name", &e))
    }
}

impl IncomingMessage<'_> {
    /// The address of the message: the task in it, or else an alias.
    pub(crate) fn addressee(&self) -> Option<TaskRef> {
        let name = || self.request.alias.clone().map(TaskRef::Alias);
        self.request.message.task_id.clone().or_else(name)
    }

    /// Accepts a message that names a task or an alias.
    pub(crate) async fn accept_addressed(&mut self, to: &TaskRef, key: Option<RetryKey>) -> Result<SendOutcome, Fault> {
        let engine = Engine { core: self.core.clone() };
        match (&self.request.message.task_id, to) {
            (None, TaskRef::Alias(name)) => self.accept_by_alias(&engine, name, key).await,
            (_, TaskRef::Alias(_)) => {
                let id = engine.find(&self.scope, to).await?.id;
                self.accept_at(SendTarget::Continue(id), key).await
            }
            // Nearly always it is a task, so that is tried before anything is looked up.
            (_, TaskRef::Id(id)) => match self.accept_at(SendTarget::Continue(*id), key).await {
                Err(Fault::TaskNotFound(_)) => {
                    let id = engine.find(&self.scope, to).await?.id;
                    self.accept_at(SendTarget::Continue(id), key).await
                }
                outcome => outcome,
            },
        }
    }

    async fn accept_by_alias(
        &mut self,
        engine: &Engine,
        name: &Arc<str>,
        key: Option<RetryKey>,
    ) -> Result<SendOutcome, Fault> {
        for _ in 0..LOOKUPS_MAX {
            let sent = self.request.clone();
            let (target, was) = self.resolve_target(engine, name).await?;
            let begun = self.accept_at(target.clone(), key).await;
            match (target, wait_first_commit(begun).await) {
                (SendTarget::Continue(_), Err(Fault::TaskSettled { .. })) => {}
                (SendTarget::Open(_), Err(fault)) => {
                    if engine.resolve_alias(&self.scope, name).await? == was {
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
    async fn resolve_target(
        &mut self,
        engine: &Engine,
        name: &Arc<str>,
    ) -> Result<(SendTarget, Option<TaskId>), Fault> {
        let was = engine.resolve_alias(&self.scope, name).await?;
        let stored = match was.or_else(|| TaskId::parse(name)) {
            None => None,
            Some(id) => match engine.load_owned(&self.scope, id).await {
                Ok(stored) => Some(stored),
                Err(Fault::TaskNotFound(_)) => None,
                Err(fault) => return Err(fault),
            },
        };
        let context = &mut self.request.message.context_id;
        match stored {
            Some(stored) if !stored.state.is_settled() => return Ok((SendTarget::Continue(stored.id), was)),
            // A context id that the caller gave is kept.
            Some(settled) if context.is_none() => *context = settled.context(),
            _ => {}
        }
        Ok((SendTarget::Open(Some(Box::new(Effect::SetAlias { name: name.clone(), was }))), was))
    }
}

/// Waits for the first commit of a new task at work, since the log may still refuse its name.
async fn wait_first_commit(begun: Result<SendOutcome, Fault>) -> Result<SendOutcome, Fault> {
    let mut begun = begun?;
    if let SendOutcome::AtWork { live, from, .. } = &mut begun {
        live.wait_committed(*from).await?;
    }
    Ok(begun)
}
