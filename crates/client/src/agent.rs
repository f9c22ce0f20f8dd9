//! An agent that can be called: the operations of A2A, checked against its card before anything is sent.

use crate::binding::Binding;
use crate::client::Client;
use crate::discover::DiscoveredCard;
use crate::interface_choice::{ChosenInterface, VersionPolicy};
use crate::retry;
use crate::transport::{AgentTransport, RequestPreview, new_message_id};
use crate::{AgentReference, AgentResponse, Credentials, Error, Observation};
use futures_util::future::BoxFuture;
use sabir_proto::card::Interface;
use sabir_proto::transfer::HandoffClaim;
use sabir_proto::{
    AgentCard, Call, CancelTask, DeletePush, Fault, FaultCode, GetPush, GetTask, ListPush, ListTasks, Message,
    MessageId, PushConfig, PushPage, Role, SendConfiguration, SendMessage, Subscribe, TaskRef, Tenant, WireReply,
    WireTask,
};
use sabir_wire::Dialect;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

/// An agent and the transport to one of its interfaces. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    client: Client,
    discovered_card: Arc<DiscoveredCard>,
    transport: Arc<AgentTransport>,
    /// The transport for 0.1, set once the agent has shown that it speaks no later version.
    v01_transport: Arc<OnceLock<Arc<AgentTransport>>>,
    /// The card does not name a version, and the caller's settings allow a change of version.
    is_version_open: bool,
    tenant: Tenant,
}

impl Client {
    /// Finds the card of an agent and prepares the transport to it.
    pub async fn connect(&self, reference: &AgentReference) -> Result<Agent, Error> {
        let found = self.card(reference).await?;
        self.agent(found)
    }

    /// Prepares the transport to the agent of a card: chooses the interface and attaches the credentials it asks for.
    /// The card is used as it is; pass a card that did not come from [`Client::card`] to [`Client::apply_trust`] first.
    pub fn agent(&self, found: DiscoveredCard) -> Result<Agent, Error> {
        self.agent_with(found, self.credentials())
    }

    /// The same with credentials for this agent, in place of the client's own. Whether a certificate is sent is still
    /// the client's setting.
    pub fn agent_with(&self, found: DiscoveredCard, credentials: &Credentials) -> Result<Agent, Error> {
        let transport = self.transport(&found, credentials)?;
        Ok(Agent::new(self.clone(), found, transport))
    }
}

impl Agent {
    fn new(client: Client, found: DiscoveredCard, line: AgentTransport) -> Self {
        let tenant = line.chosen.interface.tenant.as_deref().map_or_else(Tenant::none, Tenant::of_peer);
        let has_fallback = line.chosen.dialect.features().unnamed_fallback.is_some();
        let is_version_open = has_fallback && client.may_try_versions() && found.is_version_open();
        let (discovered_card, transport) = (Arc::new(found), Arc::new(line));
        Self { client, discovered_card, transport, v01_transport: Arc::default(), is_version_open, tenant }
    }

    /// The transport that is in use.
    pub(crate) fn transport(&self) -> &Arc<AgentTransport> {
        self.v01_transport.get().unwrap_or(&self.transport)
    }

    /// The card of the agent.
    pub fn card(&self) -> &AgentCard {
        &self.discovered_card.card
    }

    /// The card of the agent, with its URL and its form.
    pub fn discovered_card(&self) -> &DiscoveredCard {
        &self.discovered_card
    }

    /// The interface that is called.
    pub fn interface(&self) -> &Interface {
        &self.transport().chosen.interface
    }

    /// The protocol binding of the requests.
    pub fn binding(&self) -> Binding {
        self.transport().chosen.binding
    }

    /// The dialect of A2A that the agent is called in.
    pub fn dialect(&self) -> Dialect {
        self.transport().chosen.dialect
    }

    /// The chosen interface, with binding, dialect and URL.
    pub fn chosen_interface(&self) -> &ChosenInterface {
        &self.transport().chosen
    }

    /// Whether the agent's dialect and card offer streaming.
    pub fn streams(&self) -> bool {
        self.dialect().features().streams && self.card().capabilities.streaming.unwrap_or(false)
    }

    /// Whether the agent streams, and its streams report as much as polling does.
    pub fn streams_faithfully(&self) -> bool {
        self.streams() && self.dialect().features().complete_streams
    }

    /// The same agent, called in 0.1. An agent whose card names no version may speak 0.1; such an agent does not know
    /// later methods and has done nothing with them. `None` where the card names a version.
    pub fn in_v01(&self) -> Option<Self> {
        let older = self.dialect().features().unnamed_fallback?;
        self.client.with_version(VersionPolicy::Exactly(older)).agent((*self.discovered_card).clone()).ok()
    }

    /// The same agent; its requests carry the claim to a task that was handed over for this client's user.
    pub fn with_claim(&self, claim: &HandoffClaim) -> Result<Self, Error> {
        Ok(Self {
            transport: Arc::new(self.transport().with_claim(claim)?),
            v01_transport: Arc::default(),
            ..self.clone()
        })
    }

    /// Whether the agent recognises a message that is sent twice: its dialect has a field for a retry key, and the
    /// client fills it.
    pub fn has_retry_keys(&self) -> bool {
        self.dialect().features().retry_keys
    }

    /// Sends a message, and waits for as long as the request's configuration says.
    pub fn send(&self, request: SendMessage) -> BoxFuture<'_, Result<AgentResponse<WireReply>, Error>> {
        let call = Call::Send(Box::new(request));
        Box::pin(async move {
            let (said, call) = self.make(call).await?;
            match (&said.value, call) {
                (WireReply::SentTask(task), Call::Send(sent)) => match &sent.message.task_id {
                    Some(asked) if *asked != task.id => return Err(wrong_task_error(asked, &task.id)),
                    _ => self.observe_task(task),
                },
                (WireReply::SentMessage(_), _) => {}
                _ => return Err(unexpected_answer()),
            }
            Ok(said)
        })
    }

    /// Reads a task with the options of `GetTaskRequest`.
    pub async fn get(&self, request: GetTask) -> Result<AgentResponse<WireTask>, Error> {
        let id = request.id.clone();
        self.call(Call::Get(request)).await?.try_map(|answer| expect_task(&id, answer))
    }

    /// Reads a task as it stands.
    pub async fn task(&self, id: &TaskRef) -> Result<AgentResponse<WireTask>, Error> {
        self.get(GetTask { tenant: Tenant::none(), id: id.clone(), history_length: None }).await
    }

    /// Lists tasks; see [`ListTasks`] for the filters.
    pub async fn list(&self, request: ListTasks) -> Result<AgentResponse<WireReply>, Error> {
        self.call(Call::List(request)).await
    }

    /// Cancels a task and returns its state afterwards.
    pub async fn cancel(&self, request: CancelTask) -> Result<AgentResponse<WireTask>, Error> {
        let id = request.id.clone();
        self.call(Call::Cancel(request)).await?.try_map(|answer| expect_task(&id, answer))
    }

    /// Registers a webhook for a task.
    pub async fn create_push(
        &self,
        task: TaskRef,
        mut config: PushConfig,
    ) -> Result<AgentResponse<(TaskRef, PushConfig)>, Error> {
        // The Python SDK of 0.3 leaves that part of the name empty without an id.
        let names_it = self.dialect().features().push_ids_in_names && self.binding() != Binding::JsonRpc;
        if names_it && config.id.is_none() {
            config.id = Some(new_message_id().to_string());
        }
        self.call(Call::CreatePush { tenant: Tenant::none(), task, config }).await?.try_map(expect_push)
    }

    /// Reads a webhook's registration.
    pub async fn get_push(&self, request: GetPush) -> Result<AgentResponse<(TaskRef, PushConfig)>, Error> {
        self.call(Call::GetPush(request)).await?.try_map(expect_push)
    }

    /// Lists the webhooks of a task.
    pub async fn list_push(&self, request: ListPush) -> Result<AgentResponse<PushPage>, Error> {
        self.call(Call::ListPush(request)).await?.try_map(|answer| match answer {
            WireReply::Pushes(_, page) => Ok(page),
            _ => Err(unexpected_answer()),
        })
    }

    /// Removes a webhook from a task.
    pub async fn delete_push(&self, request: DeletePush) -> Result<(), Error> {
        self.call(Call::DeletePush(request)).await.map(drop)
    }

    /// Reads the card for authenticated callers, and applies the trust rules of the public card to it
    /// ([`Client::apply_trust`]).
    pub async fn extended_card(&self) -> Result<AgentResponse<AgentCard>, Error> {
        self.call(Call::ExtendedCard { tenant: Tenant::none() }).await?.try_map(|answer| match answer {
            WireReply::Card(card) => Ok(*card),
            _ => Err(unexpected_answer()),
        })
    }

    /// Reads a task without retries: for callers that poll anyway.
    pub(crate) async fn task_once(&self, id: &TaskRef) -> Result<AgentResponse<WireTask>, Error> {
        let call = Call::Get(GetTask { tenant: self.tenant.clone(), id: id.clone(), history_length: None });
        self.transport().send_call(&call, None).await?.try_map(|answer| expect_task(id, answer))
    }

    /// Makes any call that has one answer. A transient failure is retried where that is safe.
    pub fn call(&self, call: Call) -> BoxFuture<'_, Result<AgentResponse<WireReply>, Error>> {
        // Boxed, and not `async` itself: a call is large, and every future around it would reserve its size twice.
        Box::pin(async move { self.make(call).await.map(|(said, _)| said) })
    }

    /// The same agent in 0.1, if the error may mean that the agent speaks no later version: it does not know the
    /// method, and so has done nothing, or its task cannot be parsed.
    pub(crate) fn v01_after_error(&self, error: &Error, is_read: bool) -> Option<Self> {
        let may_mean_it = is_unknown_method(error) || (is_read && is_code(error, FaultCode::InvalidAgentResponse));
        if !self.is_version_open || self.v01_transport.get().is_some() || !may_mean_it {
            return None;
        }
        self.in_v01()
    }

    /// Switches this agent to 0.1 for all later calls.
    pub(crate) fn switch_to(&self, v01: &Self) {
        if self.v01_transport.set(v01.transport().clone()).is_ok() {
            self.client.warn("its card names no version, and it knows no method of A2A 0.3; it is called in 0.1");
        }
    }

    /// Makes a call, and returns it beside its answer.
    async fn make(&self, call: Call) -> Result<(AgentResponse<WireReply>, Call), Error> {
        if self.is_version_open && self.v01_transport.get().is_none() {
            // Boxed, because it is rare and has room for two calls.
            return Box::pin(self.make_in_open_version(call)).await;
        }
        self.make_in_version(call).await
    }

    /// Makes a call to an agent whose card names no version. If the agent does not know the method, the client makes the
    /// call again in 0.1.
    async fn make_in_open_version(&self, call: Call) -> Result<(AgentResponse<WireReply>, Call), Error> {
        let error = match self.make_in_version(call.clone()).await {
            Err(error) => error,
            made => return made,
        };
        let Some(v01) = self.v01_after_error(&error, matches!(call, Call::Get(_))) else { return Err(error) };
        match v01.make_in_version(call).await {
            // The agent knows neither method name, so the first error says more.
            Err(again) if is_unknown_method(&again) => Err(error),
            made => {
                self.switch_to(&v01);
                made
            }
        }
    }

    async fn make_in_version(&self, mut call: Call) -> Result<(AgentResponse<WireReply>, Call), Error> {
        self.check_capabilities(&call)?;
        *call.tenant_mut() = self.tenant.clone();
        let call = self.with_extensions(call);
        // A dialect with its own message ids gets a retry key where it has a field for one.
        let key = match &call {
            Call::Send(send) if self.has_retry_keys() => Some(format!("auto:{}", send.message.message_id)),
            _ => None,
        };
        let (http_client, attempts) = (&self.transport().http_client, self.transport().attempts);
        let ask = || self.transport().send_call(&call, key.as_deref());
        let said = {
            let asked = pin!(retry::with_retries(http_client, attempts, retry::safety(&call), ask));
            http_client.with_total_timeout(asked).await?
        };
        let said = match said.value {
            WireReply::Card(_) => Box::pin(self.client.apply_trust_to_answer(&self.discovered_card, said)).await?,
            _ => said,
        };
        Ok((said, call))
    }

    /// Previews a call as it would be sent, for callers that send it by other means. Nothing is sent.
    pub fn preview(&self, mut call: Call) -> Result<RequestPreview, Error> {
        *call.tenant_mut() = self.tenant.clone();
        self.transport().preview(&self.with_extensions(call))
    }

    /// Lists the active extensions in messages, as the specification requires, in addition to the header.
    pub(crate) fn with_extensions(&self, mut call: Call) -> Call {
        if let Call::Send(send) | Call::Stream(send) = &mut call
            && send.message.extensions.is_empty()
        {
            let offered = &self.card().capabilities.extensions;
            let active = self.transport().active_extensions.iter().filter(|uri| offered.iter().any(|e| e.uri == **uri));
            send.message.extensions = active.cloned().collect();
        }
        call
    }

    pub(crate) fn subscription(&self, id: TaskRef) -> Call {
        Call::Subscribe(Subscribe { tenant: self.tenant.clone(), id })
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Tells the observer the id of the task, as soon as it is known.
    pub(crate) fn observe_task(&self, task: &WireTask) {
        self.transport()
            .http_client
            .observe(&Observation::TaskKnown { task: &task.id, context: task.context_id.as_ref() });
    }

    /// Refuses a call that the card or the dialect does not allow; no request is sent.
    pub(crate) fn check_capabilities(&self, call: &Call) -> Result<(), Error> {
        let capabilities = &self.card().capabilities;
        let reach = self.dialect().features();
        let fault = match call {
            Call::Stream(_) | Call::Subscribe(_) if !self.streams() => {
                Fault::UnsupportedOperation("the agent's card does not offer streaming".into())
            }
            Call::CreatePush { .. } | Call::GetPush(_) | Call::ListPush(_) | Call::DeletePush(_)
                if !reach.push || !capabilities.push_notifications.unwrap_or(false) =>
            {
                Fault::PushNotificationNotSupported
            }
            Call::ExtendedCard { .. } if !reach.extended_card || !capabilities.extended_agent_card.unwrap_or(false) => {
                Fault::UnsupportedOperation("the agent's card does not offer an extended card".into())
            }
            Call::ExtendedCard { .. } if !self.transport().attached.has_any => {
                let mut wanted = self.transport().wanted_schemes.clone();
                if wanted.is_empty() {
                    wanted.push("any that it takes, for its extended card; its card declares no scheme".into());
                }
                return Err(Error::CredentialsMissing { wanted, transport: None });
            }
            _ => return Ok(()),
        };
        Err(Error::local(fault))
    }
}

/// A request to send a text as a user's message, with a fresh id.
pub fn text_message(text: impl Into<String>) -> SendMessage {
    send_message(Message::text(new_message_id(), Role::User, text))
}

/// A request to send a message, which waits until the task settles or asks something.
pub fn send_message(message: Message) -> SendMessage {
    SendMessage {
        tenant: Tenant::none(),
        message,
        configuration: SendConfiguration::default(),
        metadata: None,
        alias: None,
        wants_task: false,
    }
}

/// A fresh id for a message.
pub fn message_id() -> MessageId {
    new_message_id()
}

/// Whether an agent answered that it does not know the method. Agents of 0.1 that check a request against the methods
/// they know call it invalid.
pub(crate) fn is_unknown_method(error: &Error) -> bool {
    [FaultCode::MethodNotFound, FaultCode::InvalidRequest, FaultCode::VersionNotSupported]
        .into_iter()
        .any(|code| matches!(error, Error::Fault { fault, transport: Some(_), .. } if fault.code() == code))
}

fn is_code(error: &Error, code: FaultCode) -> bool {
    matches!(error, Error::Fault { fault, .. } if fault.code() == code)
}

/// Returns the task of an answer, which must be the requested one.
fn expect_task(id: &TaskRef, answer: WireReply) -> Result<WireTask, Error> {
    match answer {
        WireReply::Task(task) | WireReply::SentTask(task) if task.id == *id => Ok(*task),
        WireReply::Task(task) | WireReply::SentTask(task) => Err(wrong_task_error(id, &task.id)),
        _ => Err(unexpected_answer()),
    }
}

/// The error for an answer about another task than the one asked for.
pub(crate) fn wrong_task_error(asked: &TaskRef, told: &TaskRef) -> Error {
    Error::local(Fault::InvalidAgentResponse(format!("it is about task {told}, not {asked}")))
}

fn expect_push(answer: WireReply) -> Result<(TaskRef, PushConfig), Error> {
    match answer {
        WireReply::Push(task, config) => Ok((task, config)),
        _ => Err(unexpected_answer()),
    }
}

fn unexpected_answer() -> Error {
    Error::local(Fault::InvalidAgentResponse("an answer to another question".into()))
}
