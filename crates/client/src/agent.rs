//! An agent that can be called: the operations of A2A, checked against its card before anything is sent.

use crate::choose::{Binding, Chosen, Version};
use crate::client::Client;
use crate::discover::Found;
use crate::events::{Events, Follow};
use crate::retry;
use crate::transport::{Line, Written, mint};
use crate::{Error, Note, Said};
use futures_util::future::BoxFuture;
use sabir_proto::card::Interface;
use sabir_proto::transfer::Claim;
use sabir_proto::{
    AgentCard, Answer, Call, CancelTask, Code, DeletePush, Fault, GetPush, GetTask, ListPush, ListTasks, Message,
    MessageId, PushConfig, PushPage, Role, SendConfiguration, SendMessage, Subscribe, TaskRef, Tenant, TheirTask,
};
use sabir_wire::Dialect;
use std::sync::{Arc, OnceLock};

/// An agent and the transport to one of its interfaces. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    client: Client,
    found: Arc<Found>,
    line: Arc<Line>,
    /// The transport for 0.1, set once the agent has shown that it speaks no later version.
    in_v01: Arc<OnceLock<Arc<Line>>>,
    /// The card does not name a version, and the caller's settings allow a change of version.
    may_be_v01: bool,
    tenant: Tenant,
}

impl Agent {
    pub(crate) fn new(client: Client, found: Found, line: Line) -> Self {
        let tenant = line.chosen.interface.tenant.as_deref().map_or_else(Tenant::none, Tenant::of_peer);
        let may_be_v01 = line.chosen.dialect == Dialect::V03 && client.tries_versions() && found.is_version_open();
        let (found, line) = (Arc::new(found), Arc::new(line));
        Self { client, found, line, in_v01: Arc::default(), may_be_v01, tenant }
    }

    /// The transport that is in use.
    pub(crate) fn line(&self) -> &Arc<Line> {
        self.in_v01.get().unwrap_or(&self.line)
    }

    /// The card of the agent.
    pub fn card(&self) -> &AgentCard {
        &self.found.card
    }

    /// The card of the agent, with its URL and its form.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The interface that is called.
    pub fn interface(&self) -> &Interface {
        &self.line().chosen.interface
    }

    /// The protocol binding of the requests.
    pub fn binding(&self) -> Binding {
        self.line().chosen.binding
    }

    /// The dialect of A2A that the agent is called in.
    pub fn dialect(&self) -> Dialect {
        self.line().chosen.dialect
    }

    /// The chosen interface, with binding, dialect and URL.
    pub fn chosen(&self) -> &Chosen {
        &self.line().chosen
    }

    /// Whether the agent's dialect and card offer streaming.
    pub fn streams(&self) -> bool {
        self.dialect().reach().streams && self.card().capabilities.streaming.unwrap_or(false)
    }

    /// Whether a stream reports as much as polling does. Streams of agent-native name their task late, and report a
    /// question as if it were the answer.
    pub fn streams_faithfully(&self) -> bool {
        self.streams() && self.dialect() != Dialect::Native
    }

    /// The same agent, called in 0.1. An agent whose card names no version may speak 0.1; such an agent does not know
    /// later methods and has done nothing with them. `None` where the card names a version.
    pub fn in_the_first_version(&self) -> Option<Self> {
        if !matches!(self.dialect(), Dialect::V03 | Dialect::V02) {
            return None;
        }
        self.client.speaking(Version::Exactly(Dialect::V01)).agent((*self.found).clone()).ok()
    }

    /// The same agent; its requests carry the claim to a task that was handed over for this client's user.
    pub fn claiming(&self, claim: &Claim) -> Result<Self, Error> {
        Ok(Self { line: Arc::new(self.line().claiming(claim)?), in_v01: Arc::default(), ..self.clone() })
    }

    /// Whether the agent recognises a message that is sent twice: its dialect has a field for a retry key, and the
    /// client fills it.
    pub fn recognises_repeats(&self) -> bool {
        self.dialect() == Dialect::Native
    }

    /// Sends a message, and waits for as long as the request's configuration says.
    pub fn send(&self, request: SendMessage) -> BoxFuture<'_, Result<Said<Answer>, Error>> {
        let call = Call::Send(Box::new(request));
        Box::pin(async move {
            let (said, call) = self.make(call).await?;
            match (&said.value, call) {
                (Answer::SentTask(task), Call::Send(sent)) => match &sent.message.task_id {
                    Some(asked) if *asked != task.id => return Err(another_task(asked, &task.id)),
                    _ => self.known(task),
                },
                (Answer::SentMessage(_), _) => {}
                _ => return Err(mismatch()),
            }
            Ok(said)
        })
    }

    /// Sends a message and follows its task. The client polls an agent that does not stream.
    pub fn stream(&self, request: SendMessage, follow: Follow) -> BoxFuture<'static, Result<Events, Error>> {
        // Boxed, because a call is large.
        Box::pin(Events::send(self.clone(), request, follow))
    }

    /// Follows a task: by a stream where the agent has them, otherwise by polling.
    pub async fn subscribe(&self, task: TaskRef, follow: Follow) -> Result<Events, Error> {
        self.resume(task, None, follow).await
    }

    /// Follows a task from where [`Events::resume_point`] was, perhaps in another process.
    pub async fn resume(&self, task: TaskRef, after: Option<String>, follow: Follow) -> Result<Events, Error> {
        self.may(&self.subscription(task.clone()))?;
        Box::pin(Events::subscribe(self.clone(), task, after, follow)).await
    }

    /// Reads a task with the options of `GetTaskRequest`.
    pub async fn get(&self, request: GetTask) -> Result<Said<TheirTask>, Error> {
        let id = request.id.clone();
        self.call(Call::Get(request)).await?.try_map(|answer| this_task(&id, answer))
    }

    /// Reads a task as it stands.
    pub async fn task(&self, id: &TaskRef) -> Result<Said<TheirTask>, Error> {
        self.get(GetTask { tenant: Tenant::none(), id: id.clone(), history_length: None }).await
    }

    /// Lists tasks; see [`ListTasks`] for the filters.
    pub async fn list(&self, request: ListTasks) -> Result<Said<Answer>, Error> {
        self.call(Call::List(request)).await
    }

    /// Cancels a task and returns its state afterwards.
    pub async fn cancel(&self, request: CancelTask) -> Result<Said<TheirTask>, Error> {
        let id = request.id.clone();
        self.call(Call::Cancel(request)).await?.try_map(|answer| this_task(&id, answer))
    }

    /// Registers a webhook for a task.
    pub async fn create_push(
        &self,
        task: TaskRef,
        mut config: PushConfig,
    ) -> Result<Said<(TaskRef, PushConfig)>, Error> {
        // In REST and gRPC of 0.3 the id is part of the resource's name, and the Python SDK leaves that part empty
        // without an id.
        if self.dialect() == Dialect::V03 && self.binding() != Binding::JsonRpc && config.id.is_none() {
            config.id = Some(mint().to_string());
        }
        self.call(Call::CreatePush { tenant: Tenant::none(), task, config }).await?.try_map(push)
    }

    /// Reads a webhook's registration.
    pub async fn get_push(&self, request: GetPush) -> Result<Said<(TaskRef, PushConfig)>, Error> {
        self.call(Call::GetPush(request)).await?.try_map(push)
    }

    /// Lists the webhooks of a task.
    pub async fn list_push(&self, request: ListPush) -> Result<Said<PushPage>, Error> {
        self.call(Call::ListPush(request)).await?.try_map(|answer| match answer {
            Answer::Pushes(_, page) => Ok(page),
            _ => Err(mismatch()),
        })
    }

    /// Removes a webhook from a task.
    pub async fn delete_push(&self, request: DeletePush) -> Result<(), Error> {
        self.call(Call::DeletePush(request)).await.map(drop)
    }

    /// Reads the card for authenticated callers, and applies the trust rules of the public card to it
    /// ([`Client::apply_trust`]).
    pub async fn extended_card(&self) -> Result<Said<AgentCard>, Error> {
        self.call(Call::ExtendedCard { tenant: Tenant::none() }).await?.try_map(|answer| match answer {
            Answer::Card(card) => Ok(*card),
            _ => Err(mismatch()),
        })
    }

    /// Reads a task without retries: for callers that poll anyway.
    pub(crate) async fn task_once(&self, id: &TaskRef) -> Result<Said<TheirTask>, Error> {
        let call = Call::Get(GetTask { tenant: self.tenant.clone(), id: id.clone(), history_length: None });
        self.line().ask(&call, None).await?.try_map(|answer| this_task(id, answer))
    }

    /// Makes any call that has one answer. A transient failure is retried where that is safe.
    pub fn call(&self, call: Call) -> BoxFuture<'_, Result<Said<Answer>, Error>> {
        // Boxed, and not `async` itself: a call is large, and every future around it would reserve its size twice.
        Box::pin(async move { self.make(call).await.map(|(said, _)| said) })
    }

    /// The same agent in 0.1, if the error may mean that the agent speaks no later version: it does not know the
    /// method, and so has done nothing, or its task cannot be parsed.
    pub(crate) fn after(&self, error: &Error, is_read: bool) -> Option<Self> {
        let may_mean_it = is_unknown_to_it(error) || (is_read && is_code(error, Code::InvalidAgentResponse));
        if !self.may_be_v01 || self.in_v01.get().is_some() || !may_mean_it {
            return None;
        }
        self.in_the_first_version()
    }

    /// Switches this agent to 0.1 for all later calls.
    pub(crate) fn stay_in(&self, v01: &Self) {
        if self.in_v01.set(v01.line().clone()).is_ok() {
            self.client.warn("its card names no version, and it knows no method of A2A 0.3; it is called in 0.1");
        }
    }

    /// Makes a call, and returns it beside its answer. If the card names no version and the agent does not know the
    /// method, the client makes the call again in 0.1.
    async fn make(&self, call: Call) -> Result<(Said<Answer>, Call), Error> {
        if !self.may_be_v01 || self.in_v01.get().is_some() {
            return self.make_in_version(call).await;
        }
        let error = match self.make_in_version(call.clone()).await {
            Err(error) => error,
            made => return made,
        };
        let Some(v01) = self.after(&error, matches!(call, Call::Get(_))) else { return Err(error) };
        match v01.make_in_version(call).await {
            // The agent knows neither method name, so the first error says more.
            Err(again) if is_unknown_to_it(&again) => Err(error),
            made => {
                self.stay_in(&v01);
                made
            }
        }
    }

    async fn make_in_version(&self, mut call: Call) -> Result<(Said<Answer>, Call), Error> {
        self.may(&call)?;
        *call.tenant_mut() = self.tenant.clone();
        let call = self.with_extensions(call);
        // A dialect with its own message ids gets a retry key where it has a field for one.
        let key = match (&call, self.dialect()) {
            (Call::Send(send), Dialect::Native) => Some(format!("auto:{}", send.message.message_id)),
            _ => None,
        };
        let (door, attempts) = (&self.line().door, self.line().attempts);
        let ask = || self.line().ask(&call, key.as_deref());
        let said = door.within(retry::repeat(door, attempts, retry::safety(&call), ask)).await?;
        let said = match said.value {
            Answer::Card(_) => Box::pin(self.client.believe_said(&self.found, said)).await?,
            _ => said,
        };
        Ok((said, call))
    }

    /// Previews a call as it would be sent, for callers that send it by other means. Nothing is sent.
    pub fn written(&self, mut call: Call) -> Result<Written, Error> {
        *call.tenant_mut() = self.tenant.clone();
        self.line().written(&self.with_extensions(call))
    }

    /// Lists the active extensions in messages, as the specification requires, in addition to the header.
    pub(crate) fn with_extensions(&self, mut call: Call) -> Call {
        if let Call::Send(send) | Call::Stream(send) = &mut call
            && send.message.extensions.is_empty()
        {
            let offered = &self.card().capabilities.extensions;
            let active = self.line().active.iter().filter(|uri| offered.iter().any(|e| e.uri == **uri));
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
    pub(crate) fn known(&self, task: &TheirTask) {
        self.line().door.note(&Note::TaskKnown { task: &task.id, context: task.context_id.as_ref() });
    }

    /// Refuses a call that the card or the dialect does not allow; no request is sent.
    pub(crate) fn may(&self, call: &Call) -> Result<(), Error> {
        let capabilities = &self.card().capabilities;
        let reach = self.dialect().reach();
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
            Call::ExtendedCard { .. } if !self.line().attached.any => {
                let mut wanted = self.line().wanted.clone();
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
    send_message(Message::text(mint(), Role::User, text))
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
    mint()
}

/// Whether an agent answered that it does not know the method. Agents of 0.1 that check a request against the methods
/// they know call it invalid.
pub(crate) fn is_unknown_to_it(error: &Error) -> bool {
    [Code::MethodNotFound, Code::InvalidRequest, Code::VersionNotSupported]
        .into_iter()
        .any(|code| matches!(error, Error::Fault { fault, transport: Some(_), .. } if fault.code() == code))
}

fn is_code(error: &Error, code: Code) -> bool {
    matches!(error, Error::Fault { fault, .. } if fault.code() == code)
}

/// Returns the task of an answer, which must be the requested one.
fn this_task(id: &TaskRef, answer: Answer) -> Result<TheirTask, Error> {
    match answer {
        Answer::Task(task) | Answer::SentTask(task) if task.id == *id => Ok(*task),
        Answer::Task(task) | Answer::SentTask(task) => Err(another_task(id, &task.id)),
        _ => Err(mismatch()),
    }
}

/// The error for an answer about another task than the one asked for.
pub(crate) fn another_task(asked: &TaskRef, told: &TaskRef) -> Error {
    Error::local(Fault::InvalidAgentResponse(format!("it is about task {told}, not {asked}")))
}

fn push(answer: Answer) -> Result<(TaskRef, PushConfig), Error> {
    match answer {
        Answer::Push(task, config) => Ok((task, config)),
        _ => Err(mismatch()),
    }
}

fn mismatch() -> Error {
    Error::local(Fault::InvalidAgentResponse("an answer to another question".into()))
}
