//! The agent to which a task is handed over.

use sabir_client::{Error, is_confidential};
use sabir_engine::BoxFuture;
use sabir_guard::policy::lattice::Capabilities;
use sabir_proto::{AgentCard, HANDOFF, Message, TaskId, TaskRef, WireTask};
use sha2::{Digest as _, Sha256};
use url::Url;

/// What we know of an agent before a task goes there.
#[derive(Debug, Clone)]
pub struct TargetProfile {
    /// The URL of the card's interface that we call.
    pub endpoint: String,
    /// The binding of that interface.
    pub binding: String,
    /// Its capabilities, by its card.
    pub caps: Capabilities,
    /// Whether it takes tasks that are handed over; only an agent that knows the extension can say no.
    pub accepts_transfers: bool,
    /// Whether it knows the extension, and so holds tasks.
    pub holds_tasks: bool,
    /// Whether it recognises a message that it has seen before, or does no harm by taking it twice.
    pub recognises_repeats: bool,
    /// Whether it is an agent of this server, where the task is its caller's from the beginning.
    pub is_local: bool,
    /// The digest of its card.
    pub digest: String,
    /// Whether the card has a signature that was checked and is valid.
    pub signed: bool,
    /// Whether callers follow a transfer to it: over TLS, or to a server where they have been already.
    pub is_followed: bool,
}

/// The answer to a message that hands a task over.
#[derive(Debug)]
pub enum HandoffReply {
    /// A task.
    Task(Box<WireTask>),
    /// A message, and no task.
    Message,
}

/// An agent to which tasks may be handed over. `of` is our task that goes there, which has a caller.
pub trait HandoffTarget: Send + Sync + 'static {
    /// Reads what the agent says of itself now.
    fn profile(&self) -> BoxFuture<'_, Result<TargetProfile, Error>>;
    /// Sends a message, and does not wait for the end of the task.
    fn send(&self, of: TaskId, message: Message) -> BoxFuture<'_, Result<HandoffReply, Error>>;
    /// Cancels a task there; no error if it has ended.
    fn cancel(&self, of: TaskId, task: TaskRef) -> BoxFuture<'_, Result<(), Error>>;
}

impl TargetProfile {
    /// Reads a card, for the interface that is called.
    pub fn of_card(card: &AgentCard, endpoint: &str, binding: &str) -> Self {
        let digest = serde_json::to_vec(card).map(|bytes| Sha256::digest(&bytes)).unwrap_or_default();
        let accepts = accepts_transfers(card);
        Self {
            endpoint: endpoint.to_owned(),
            binding: binding.to_owned(),
            caps: Capabilities::of_card(card),
            accepts_transfers: accepts.unwrap_or(true),
            holds_tasks: accepts.unwrap_or(false),
            recognises_repeats: false,
            is_local: false,
            digest: sabir_proto::digest::hex(&digest),
            // What a card says of itself proves nothing; the caller of this function can check the signature.
            signed: false,
            is_followed: Url::parse(endpoint).is_ok_and(|url| is_confidential(&url)),
        }
    }
}

/// Whether a card accepts tasks that are handed over; `None` if it does not know the extension.
pub fn accepts_transfers(card: &AgentCard) -> Option<bool> {
    let known = card.capabilities.extensions.iter().find(|extension| extension.uri == HANDOFF)?;
    let said = known.params.as_ref().and_then(|params| params.get("acceptsTransfers"));
    Some(said.and_then(|said| said.as_bool()).unwrap_or(true))
}
