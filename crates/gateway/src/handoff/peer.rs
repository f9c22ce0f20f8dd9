//! The agent on the other side.

use sabir_client::{Error, is_confidential};
use sabir_engine::BoxFuture;
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::{AgentCard, HANDOFF, Message, TaskId, TaskRef, TheirTask};
use sha2::{Digest as _, Sha256};
use url::Url;

/// What is known of an agent before a task goes there.
#[derive(Debug, Clone)]
pub struct Face {
    /// Where it is: the interface of its card that is spoken to.
    pub endpoint: String,
    /// How it is spoken to.
    pub binding: String,
    /// What it can do, by its card.
    pub caps: Capabilities,
    /// Whether it takes tasks that are handed over; only who knows the extension can say no.
    pub accepts: bool,
    /// Whether it knows the extension, and so holds tasks.
    pub holds: bool,
    /// Whether it recognises a message that it has seen before, or does no harm by taking it twice.
    pub recognises: bool,
    /// Whether it is an agent of this server, where the task is its caller's from the beginning.
    pub here: bool,
    /// The digest of its card.
    pub digest: String,
    /// Whether it has a signature that was checked and holds.
    pub signed: bool,
    /// Whether a caller goes there who is sent: over TLS, or where it has been already.
    pub followed: bool,
}

/// What a message came to.
#[derive(Debug)]
pub enum Taken {
    /// A task.
    Task(Box<TheirTask>),
    /// Words, and no task.
    Words,
}

/// An agent to which tasks may be handed. `of` is the task of ours that goes there, and says for whom.
pub trait Peer: Send + Sync + 'static {
    /// What it says of itself, now.
    fn face(&self) -> BoxFuture<'_, Result<Face, Error>>;
    /// Sends, and does not wait for the end.
    fn send(&self, of: TaskId, message: Message) -> BoxFuture<'_, Result<Taken, Error>>;
    /// Cancels a task there; no error if it has ended.
    fn cancel(&self, of: TaskId, task: TaskRef) -> BoxFuture<'_, Result<(), Error>>;
}

impl Face {
    /// What a card says, of the interface that is spoken to.
    pub fn of(card: &AgentCard, endpoint: &str, binding: &str) -> Self {
        let digest = serde_json::to_vec(card).map(|bytes| Sha256::digest(&bytes)).unwrap_or_default();
        let accepts = accepts(card);
        Self {
            endpoint: endpoint.to_owned(),
            binding: binding.to_owned(),
            caps: Capabilities::of_card(card),
            accepts: accepts.unwrap_or(true),
            holds: accepts.unwrap_or(false),
            recognises: false,
            here: false,
            digest: sabir_proto::digest::hex(&digest),
            // What a card says of itself proves nothing; whoever checks it knows better.
            signed: false,
            followed: Url::parse(endpoint).is_ok_and(|url| is_confidential(&url)),
        }
    }
}

/// What a card says about tasks that are handed over: nothing, where it does not know the extension.
pub fn accepts(card: &AgentCard) -> Option<bool> {
    let known = card.capabilities.extensions.iter().find(|extension| extension.uri == HANDOFF)?;
    let said = known.params.as_ref().and_then(|params| params.get("acceptsTransfers"));
    Some(said.and_then(|said| said.as_bool()).unwrap_or(true))
}
