//! The only access to the engine. Nothing else in the server holds the engine, and a call needs a [`Permit`], which
//! only the guard can make. Two exceptions: operators on this machine, and agents of this server that hand a permitted
//! task over to agents that the configuration names.

use crate::app::Served;
use crate::watched::Watched;
use sabir_engine::{Courier, Engine, Presence, Resident, Residents};
use sabir_guard::{Identity, Permit};
use sabir_proto::{
    AgentName, Call, CancelTask, Fault, HANDOFF, Message, MessageId, Reply, Sent, TaskId, TaskRef, Tenant, Terms,
    TheirTask, View,
};
use sabir_store::{Note, Scope, StoreError};
use sabir_wire::Handoffs;
use std::sync::Arc;

/// Serves permitted calls.
pub(crate) struct Route {
    engine: Engine,
}

impl Route {
    pub(crate) const fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Serves a call in its caller's scope.
    pub(crate) async fn serve(
        &self,
        served: &Served,
        permit: Permit,
        (terms, shows): (&Terms, Handoffs),
    ) -> Result<(Reply<Watched>, Arc<Scope>), Fault> {
        let scope = served.scope(permit.call().tenant(), permit.caller());
        if let (Some(claim), Some(task)) = (&terms.claim, crate::wire::named(permit.call())) {
            Box::pin(self.engine.adopt(&scope, task, claim)).await?;
        }
        let (call, identity) = permit.into_parts();
        let reply = match call {
            Call::Send(request) => {
                Reply::Sent(self.engine.send(&served.resident, scope.clone(), request, terms).await?)
            }
            // Boxed, so that the future of a send is not as large as the largest of all calls.
            Call::ExtendedCard { .. } => Reply::Card(served.extended_card(&identity)?),
            call => Box::pin(self.serve_other(served, (&identity, scope.clone()), call, (terms, shows))).await?,
        };
        Ok((reply, scope))
    }

    async fn serve_other(
        &self,
        served: &Served,
        (identity, scope): (&Identity, Arc<Scope>),
        call: Call,
        (terms, shows): (&Terms, Handoffs),
    ) -> Result<Reply<Watched>, Fault> {
        let engine = &self.engine;
        Ok(match call {
            Call::Send(request) => Reply::Sent(engine.send(&served.resident, scope, request, terms).await?),
            Call::Stream(request) => {
                let watch = engine.stream(&served.resident, scope, request, terms).await?;
                Reply::Stream(Watched::by(identity, watch))
            }
            Call::Get(call) => {
                let (task, view) = engine.get(&scope, &call).await?;
                Reply::Task(task, view)
            }
            Call::List(call) => {
                let states = call.status.map(|asked| shows.states(asked).into_iter().collect());
                Reply::Tasks(engine.list_in(scope, &call, states).await?)
            }
            Call::Cancel(call) => {
                let task = engine.cancel(&scope, &served.resident, &call).await?;
                Reply::Task(task, View::WHOLE)
            }
            Call::Subscribe(call) => {
                Reply::Stream(Watched::by(identity, engine.subscribe(&scope, &call, terms).await?))
            }
            Call::CreatePush { task, config, .. } => {
                let (task, config) = engine.create_push(&scope, &task, config, terms.dialect).await?;
                Reply::Push(task, config)
            }
            Call::GetPush(call) => {
                let (task, config) = engine.get_push(&scope, &call).await?;
                Reply::Push(task, config)
            }
            Call::ListPush(call) => {
                let (task, page) = engine.list_push(&scope, &call).await?;
                Reply::Pushes(task, page)
            }
            Call::DeletePush(call) => {
                engine.delete_push(&scope, &call).await?;
                Reply::Deleted
            }
            Call::ExtendedCard { .. } => return Err(Fault::ExtendedCardNotConfigured),
        })
    }

    /// The engine itself, for operators on this machine: they own the files, and so everything in them.
    pub(crate) fn for_operators(&self) -> Engine {
        self.engine.clone()
    }

    /// The name of the caller of a task.
    pub(crate) async fn caller_of(&self, task: TaskId) -> Result<String, Fault> {
        self.engine.scope_of(task).await.map(|scope| scope.caller.name().to_owned())
    }

    /// Hands a task over to another agent of this server, for the same caller. `None` if that agent only answers with a
    /// message.
    pub(crate) async fn hand(&self, of: TaskId, to: &Resident, message: Message) -> Result<Option<TheirTask>, Fault> {
        let scope = self.scope_at(of, to).await?;
        let mut request = Box::new(sabir_gateway::send_message(message));
        request.configuration.return_immediately = true;
        // The agent that hands the task over follows it further.
        let terms = Terms { extensions: vec![HANDOFF.to_owned()], ..Terms::default() };
        match self.engine.send(to, scope, request, &terms).await? {
            Sent::Task(task, _) => Ok(task.show(View::WHOLE)),
            Sent::Message(_) => Ok(None),
        }
    }

    /// Cancels a task that was handed over; no error if it has ended.
    pub(crate) async fn take_back(&self, of: TaskId, from: &Resident, id: TaskRef) -> Result<(), Fault> {
        let scope = self.scope_at(of, from).await?;
        let call = CancelTask { tenant: Tenant::none(), id, metadata: None };
        match self.engine.cancel(&scope, from, &call).await {
            Ok(_) | Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    async fn scope_at(&self, of: TaskId, at: &Resident) -> Result<Arc<Scope>, Fault> {
        let Scope { tenant, caller, .. } = (*self.engine.scope_of(of).await?).clone();
        Ok(Arc::new(Scope { tenant, caller, agent: at.name.clone() }))
    }

    /// A new id for a message.
    pub(crate) fn mint(&self) -> MessageId {
        self.engine.mint()
    }

    /// Whether the caller of this scope uses that name for a task. False if the store does not answer: the call itself
    /// will report that.
    pub(crate) async fn is_alias(&self, scope: &Scope, name: &TaskRef) -> bool {
        self.engine.is_alias(scope, name).await.unwrap_or(false)
    }

    /// Stores notes at a task.
    pub(crate) fn note(&self, scope: &Arc<Scope>, task: TaskId, notes: Vec<Note>) {
        self.engine.note(scope, task, notes);
    }

    /// Sets the agents to which tasks are passed on.
    pub(crate) fn know(&self, residents: Arc<dyn Residents>) {
        self.engine.know(residents);
    }

    /// Recovers the turns that a crash interrupted: returns how many were resumed, and how many failed.
    pub(crate) async fn recover(
        &self,
        presence: impl Fn(&AgentName) -> Presence,
    ) -> Result<(usize, usize), StoreError> {
        self.engine.recover(presence).await
    }

    /// Recovers the tasks of one agent that is back or was removed.
    pub(crate) async fn recover_of(&self, agent: &AgentName, presence: Presence) -> Result<(usize, usize), StoreError> {
        self.engine.recover_of(agent, presence).await
    }

    /// Resumes a task that no worker runs, if it exists.
    pub(crate) async fn wake(&self, id: TaskId, presence: impl Fn(&AgentName) -> Presence) -> Result<(), StoreError> {
        self.engine.wake(id, presence).await
    }

    /// Starts the delivery of pending webhook deliveries, until [`Self::stop`].
    pub(crate) fn start_deliveries(&self, courier: Arc<dyn Courier>) {
        self.engine.start_deliveries(courier);
    }

    /// Parks the running turns.
    pub(crate) async fn stop(&self) {
        self.engine.stop().await;
    }
}
