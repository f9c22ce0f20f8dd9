//! The agent on the other side.

use sabir_client::{Agent, Client, Credentials, Egress, Error, Reference, Version};
use sabir_engine::BoxFuture;
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::{
    AgentCard, Answer, CancelTask, Code, Fault, HANDOFF, Message, SendMessage, TaskRef, Tenant, TheirTask,
};
use sha2::{Digest as _, Sha256};

/// What is known of an agent before a task goes there.
#[derive(Debug, Clone)]
pub struct Face {
    /// Where it is: the interface of its card that is spoken to.
    pub endpoint: String,
    /// How it is spoken to.
    pub binding: String,
    /// What it can do, by its card.
    pub caps: Capabilities,
    /// Whether it knows the extension, and so holds tasks.
    pub holds: bool,
    /// The digest of its card.
    pub digest: String,
    /// Whether somebody has signed it.
    pub signed: bool,
}

/// What a message came to.
#[derive(Debug)]
pub enum Taken {
    /// A task.
    Task(Box<TheirTask>),
    /// Words, and no task.
    Words,
}

/// An agent to which tasks may be handed.
pub trait Peer: Send + Sync + 'static {
    /// What it says of itself, now.
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>>;
    /// Sends, and does not wait for the end.
    fn send(&self, message: Message) -> BoxFuture<'_, Result<Taken, Error>>;
    /// Cancels a task there; no error if it has ended.
    fn cancel(&self, task: TaskRef) -> BoxFuture<'_, Result<(), Error>>;
}

/// A line to an agent elsewhere.
pub struct Line {
    client: Client,
    reference: Reference,
}

impl Line {
    /// To an agent, with what it is shown. Nothing is asked of it yet.
    pub fn new(url: &str, credentials: Credentials, egress: Egress) -> Result<Self, Error> {
        let client = Client::builder()
            .egress(egress)
            .version(Version::Any)
            .credentials(credentials)
            .extensions([HANDOFF.to_owned()])
            .build()?;
        Ok(Self { client, reference: Reference::parse(url)? })
    }

    /// The card is fetched each time: a handoff is rare, and what is allowed is decided by the card of this moment.
    async fn agent(&self) -> Result<Agent, Error> {
        self.client.connect(&self.reference).await
    }
}

impl Peer for Line {
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>> {
        Box::pin(async move {
            let agent = self.agent().await?;
            Ok(Face::of(agent.card(), &agent.interface().url, &agent.interface().protocol_binding))
        })
    }

    fn send(&self, message: Message) -> BoxFuture<'_, Result<Taken, Error>> {
        Box::pin(async move {
            let mut request: SendMessage = sabir_client::send_message(message);
            request.configuration.return_immediately = true;
            match self.agent().await?.send(request).await?.value {
                Answer::SentTask(task) => Ok(Taken::Task(task)),
                Answer::SentMessage(_) => Ok(Taken::Words),
                _ => Err(Fault::InvalidAgentResponse("neither a task nor a message".into()).into()),
            }
        })
    }

    fn cancel(&self, id: TaskRef) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let request = CancelTask { tenant: Tenant::none(), id, metadata: None };
            match self.agent().await?.cancel(request).await {
                Err(Error::Fault { fault, .. })
                    if matches!(fault.code(), Code::TaskNotCancelable | Code::TaskNotFound) =>
                {
                    Ok(())
                }
                other => other.map(drop),
            }
        })
    }
}

impl Face {
    /// What a card says, of the interface that is spoken to.
    pub fn of(card: &AgentCard, endpoint: &str, binding: &str) -> Self {
        let digest = serde_json::to_vec(card).map(|bytes| Sha256::digest(&bytes)).unwrap_or_default();
        Self {
            endpoint: endpoint.to_owned(),
            binding: binding.to_owned(),
            caps: Capabilities::of_card(card),
            holds: card.capabilities.extensions.iter().any(|extension| extension.uri == HANDOFF),
            digest: sabir_proto::digest::hex(&digest),
            signed: !card.signatures.is_empty(),
        }
    }
}
