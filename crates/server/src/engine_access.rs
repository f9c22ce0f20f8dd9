//! The only access to the engine. Nothing else in the server holds the engine, and a call needs a [`Permit`], which
//! only the guard can make. Two exceptions: operators, on this machine or with the scope `admin`, and agents of this server
//! that hand a permitted task over to agents that the configuration names.

use crate::authorized_stream::AuthorizedStream;
use crate::directory::ServedAgent;
use sabir_engine::{AgentDirectory, AgentStatus, Engine, HostedAgent, PushTransport};
use sabir_guard::{Identity, Permit};
use sabir_proto::{
    AgentName, Call, CancelTask, Fault, HANDOFF, Message, MessageId, Reply, SendReply, ServiceParameters, TaskId,
    TaskRef, Tenant, View, WireTask,
};
use sabir_store::{LossNote, Scope, StoreError};
use sabir_wire::HandoffSupport;
use std::sync::Arc;

/// Serves permitted calls.
pub(crate) struct EngineAccess {
    engine: Engine,
}

impl EngineAccess {
    pub(crate) const fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Serves a call in its caller's scope.
    pub(crate) async fn serve(
        &self,
        served: &ServedAgent,
        permit: Permit,
        terms: &ServiceParameters,
        shows: HandoffSupport,
    ) -> Result<(Reply<AuthorizedStream>, Arc<Scope>), Fault> {
        let scope = served.scope(permit.call().tenant(), permit.caller());
        if let (Some(claim), Some(task)) = (&terms.claim, task_of_call(permit.call())) {
            Box::pin(self.engine.claim_task(&scope, task, claim)).await?;
        }
        let (call, identity) = permit.into_parts();
        let reply = match call {
            Call::Send(request) => Reply::Sent(self.engine.send(&served.hosted, scope.clone(), request, terms).await?),
            // Boxed, so that the future of a send is not as large as the largest of all calls.
            Call::ExtendedCard { .. } => Reply::Card(served.extended_card(&identity)?),
            call => Box::pin(self.serve_other(served, &identity, scope.clone(), call, terms, shows)).await?,
        };
        Ok((reply, scope))
    }

    async fn serve_other(
        &self,
        served: &ServedAgent,
        identity: &Identity,
        scope: Arc<Scope>,
        call: Call,
        terms: &ServiceParameters,
        shows: HandoffSupport,
    ) -> Result<Reply<AuthorizedStream>, Fault> {
        let engine = &self.engine;
        Ok(match call {
            Call::Send(request) => Reply::Sent(engine.send(&served.hosted, scope, request, terms).await?),
            Call::Stream(request) => {
                let watch = engine.stream(&served.hosted, scope, request, terms).await?;
                Reply::Stream(AuthorizedStream::new(identity, watch))
            }
            Call::Get(call) => {
                let (task, view) = engine.get(&scope, &call).await?;
                Reply::Task(task, view)
            }
            Call::List(call) => {
                let states = call.status.map(|asked| shows.stored_states(asked).into_iter().collect());
                Reply::Tasks(engine.list_states(scope, &call, states).await?)
            }
            Call::Cancel(call) => {
                let task = engine.cancel(&scope, &served.hosted, &call).await?;
                Reply::Task(task, View::WHOLE)
            }
            Call::Subscribe(call) => {
                Reply::Stream(AuthorizedStream::new(identity, engine.subscribe(&scope, &call, terms).await?))
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

    /// The engine itself, for the service of operators: they may do everything.
    pub(crate) fn for_operators(&self) -> Engine {
        self.engine.clone()
    }

    /// The name of the caller of a task.
    pub(crate) async fn caller_of(&self, task: TaskId) -> Result<String, Fault> {
        self.engine.owner_of(task).await.map(|scope| scope.caller.name().to_owned())
    }

    /// Hands a task over to another agent of this server, for the same caller. `None` if that agent only answers with a
    /// message.
    pub(crate) async fn hand_over(
        &self,
        of: TaskId,
        to: &HostedAgent,
        message: Message,
    ) -> Result<Option<WireTask>, Fault> {
        let scope = self.scope_for(of, to).await?;
        let mut request = Box::new(sabir_gateway::send_message(message));
        request.configuration.return_immediately = true;
        // The agent that hands the task over follows it further.
        let terms = ServiceParameters { extensions: vec![HANDOFF.to_owned()], ..ServiceParameters::default() };
        match self.engine.send(to, scope, request, &terms).await? {
            SendReply::Task(task, _) => Ok(task.to_wire(View::WHOLE)),
            SendReply::Message(_) => Ok(None),
        }
    }

    /// Cancels a task that was handed over; no error if it has ended.
    pub(crate) async fn cancel_handed_over(&self, of: TaskId, from: &HostedAgent, id: TaskRef) -> Result<(), Fault> {
        let scope = self.scope_for(of, from).await?;
        let call = CancelTask { tenant: Tenant::none(), id, metadata: None };
        match self.engine.cancel(&scope, from, &call).await {
            Ok(_) | Err(Fault::TaskNotCancelable { .. } | Fault::TaskNotFound(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    async fn scope_for(&self, of: TaskId, at: &HostedAgent) -> Result<Arc<Scope>, Fault> {
        let Scope { tenant, caller, .. } = (*self.engine.owner_of(of).await?).clone();
        Ok(Arc::new(Scope { tenant, caller, agent: at.name.clone() }))
    }

    /// A new id for a message.
    pub(crate) fn new_message_id(&self) -> MessageId {
        self.engine.new_message_id()
    }

    /// Whether the caller of this scope uses that name for a task. False if the store does not answer: the call itself
    /// will report that.
    pub(crate) async fn is_alias(&self, scope: &Scope, name: &TaskRef) -> bool {
        self.engine.is_alias(scope, name).await.unwrap_or(false)
    }

    /// Stores notes at a task.
    pub(crate) fn note(&self, scope: &Arc<Scope>, task: TaskId, notes: Vec<LossNote>) {
        self.engine.note(scope, task, notes);
    }

    /// Sets the agents to which tasks are passed on.
    pub(crate) fn set_directory(&self, residents: Arc<dyn AgentDirectory>) {
        self.engine.set_directory(residents);
    }

    /// Recovers the turns that a crash interrupted: returns how many were resumed, and how many failed.
    pub(crate) async fn recover(
        &self,
        status: impl Fn(&AgentName) -> AgentStatus,
    ) -> Result<(usize, usize), StoreError> {
        self.engine.recover(status).await
    }

    /// Recovers the tasks of one agent that is back or was removed.
    pub(crate) async fn recover_of(
        &self,
        agent: &AgentName,
        status: AgentStatus,
    ) -> Result<(usize, usize), StoreError> {
        self.engine.recover_agent(agent, status).await
    }

    /// Resumes a task that no worker runs, if it exists.
    pub(crate) async fn resume(
        &self,
        id: TaskId,
        status: impl Fn(&AgentName) -> AgentStatus,
    ) -> Result<(), StoreError> {
        self.engine.recover_task(id, status).await
    }

    /// Starts the delivery of pending webhook deliveries, until [`Self::stop`].
    pub(crate) fn start_deliveries(&self, transport: Arc<dyn PushTransport>) {
        self.engine.start_deliveries(transport);
    }

    /// Parks the running turns.
    pub(crate) async fn stop(&self) {
        self.engine.stop().await;
    }
}

/// The task that a call names.
pub(crate) fn task_of_call(call: &Call) -> Option<&TaskRef> {
    match call {
        Call::Send(request) | Call::Stream(request) => request.message.task_id.as_ref(),
        Call::Get(call) => Some(&call.id),
        Call::Cancel(call) => Some(&call.id),
        Call::Subscribe(call) => Some(&call.id),
        Call::CreatePush { task, .. } => Some(task),
        Call::List(_) | Call::GetPush(_) | Call::ListPush(_) | Call::DeletePush(_) | Call::ExtendedCard { .. } => None,
    }
}
