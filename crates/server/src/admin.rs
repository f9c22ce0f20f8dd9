//! Administration: agents, keys, organisations, the audit, signatures of cards, webhooks and the files of a server. The
//! commands work with or without a running server.
//!
//! A command opens the guard's file next to the task log and makes one change. If a server runs on the same file, the
//! command makes it read the change before it ends. Every change is in the audit, with the name of the operator.
//!
//! Absent on purpose: what is printed and how. A key's text is made here, returned once, and never stored.

mod agents;
mod billing;
mod booking;
mod cards;
mod envelope;
mod files;
mod guard_requests;
mod inbox;
mod key_scopes;
mod keys;
mod open_or_ask;
mod outbox;
mod webhook;

pub use crate::card::CardDecision;
pub use agents::{AddedAgent, AgentError, AgentOrigin, AgentView, NewAgent, parse_card_form};
pub use billing::{BatchView, TallyView};
pub(crate) use booking::NetworkAdmin;
pub use booking::{
    BookingView, MoveView, NetworkRequest, NetworkResponse, ROWS_MAX, SlotView, SubscriptionView, VenueView,
    run_network_request,
};
pub use cards::{CardKeys, key_set_at, key_set_of, make_key, make_withdrawal};
pub use envelope::{EnvelopeQuery, EnvelopeView};
pub use files::{
    CheckProgress, CheckReport, CopyError, CopyReport, backup, check, exchanges, has_store, is_store, prunable, prune,
    restore,
};
pub(crate) use guard_requests::{GuardRequest, GuardRequestHandler};
pub(crate) use inbox::handle_inbox_request;
pub use inbox::{
    CanceledTaskView, InboxRequest, InboxResponse, QUESTIONS_MAX, WaitingTaskView, operator_name, run_inbox_request,
};
pub use key_scopes::scope_fault;
pub use keys::{IssuedKey, NewKey, key_status};
pub(crate) use outbox::handle_outbox_request;
pub use outbox::{AttemptView, DELIVERIES_MAX, DeliveryView, OutboxRequest, OutboxResponse, run_outbox_request};
pub use sabir_gateway::ProbedInterface as TriedInterface;
pub use sabir_store::{
    ApiKey, AuditEntry, BookingStatus, CardState, ChainBreak, ChainPosition, ChainVerification, ChangeError, Domain,
    Hash, InvalidSecretRef, KeyId, LinkedEntry, OpenError, Organisation, PinnedInterface, RegisteredAgent, SecretRef,
    StoreError, StoredCard,
};
pub use webhook::{DeliveryOutcome, DeliveryResult, Webhook, WebhookTrial, try_webhook};

use crate::config::Config;
use crate::operator_socket;
use crate::tokio_host::TokioHost;
use sabir_engine::Host as _;
use sabir_proto::{Caller, Timestamp};
use sabir_store::{AuditActor, GuardStore, WriterMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The authentication scheme of an operator in the audit: local access to this machine.
const SCHEME: &str = "local";
/// Audit entries that are read at a time during a search.
const PAGE: usize = 1000;

/// Why an administrative command failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// `store.url` cannot be read.
    #[error("{0}")]
    Url(String),
    /// The operating system gave no random numbers, so no key can be made.
    #[error("the operating system gives no random numbers: {0}")]
    NoRandomness(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files cannot be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A server has the task log open and does not answer on its operator socket.
    #[error("a server has the task log, and does not answer at {}: {reason}", socket.display())]
    Operator {
        /// The path of the socket.
        socket: PathBuf,
        /// Why the connection failed.
        reason: String,
    },
    /// The running server cannot read a secret.
    #[error("the running server cannot read {secret}: {reason}")]
    Secret {
        /// The reference to the secret.
        secret: String,
        /// The error that the server reported.
        reason: String,
    },
    /// The request failed, for this reason.
    #[error("{0}")]
    Failed(String),
    /// The change was refused.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The agent cannot be added or changed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The guard's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a store must exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The store must exist. A missing one is an error: most likely the directory is wrong.
    Existing,
    /// The store may be created: an operator may make the first key before the first start.
    Any,
}

/// The guard's store of one server, opened by a command.
#[derive(Debug)]
pub struct Admin {
    store: Arc<dyn GuardStore>,
    path: PathBuf,
    operator: Caller,
    /// Where a running server listens for operators.
    socket: PathBuf,
}

impl Admin {
    /// Opens the store of a configuration. `user` is the operator's name, as the operating system has it.
    pub fn open(config: &Config, user: &str, expect: Expect) -> Result<Self, AdminError> {
        let url = config.store_url().map_err(AdminError::Url)?;
        let path = url.guard_file().ok_or(OpenError::InMemory)?;
        if expect == Expect::Existing && !path.exists() {
            url.existing_file()?;
        }
        url.create_directory()?;
        let store = sabir_store::open_guard(&url, config.open_options(WriterMode::Inline))?;
        // An operator can set `USER` to anything, so the user id of the operating system is added.
        let operator = Caller::named(&format!("operator:{user}/{}", uid()));
        Ok(Self { store, path, operator, socket: socket_path(config)? })
    }

    /// The path of the guard's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operator and the present time, for the audit.
    fn by(&self) -> AuditActor {
        AuditActor { caller: self.operator.clone(), scheme: SCHEME, at: now() }
    }

    /// Adds an organisation, or changes its secret. Returns the entry that it replaced.
    pub async fn add_organisation(
        &self,
        domain: Domain,
        secret: SecretRef,
    ) -> Result<Option<Organisation>, AdminError> {
        self.check_secret(&secret).await?;
        let replaced = self.store.add(domain, secret, self.by()).await?;
        self.refresh_server().await;
        Ok(replaced)
    }

    /// All organisations, by domain.
    pub async fn organisations(&self) -> Result<Vec<Organisation>, AdminError> {
        Ok(self.store.organisations().await?)
    }

    /// Removes an organisation and returns it; `None` if there was none.
    pub async fn remove_organisation(&self, domain: Domain) -> Result<Option<Organisation>, AdminError> {
        let removed = self.store.remove(domain, self.by()).await?;
        self.refresh_server().await;
        Ok(removed)
    }

    /// The last `count` audit entries that match `wanted`, oldest first, and the number after which
    /// [`Self::entries_after`] finds later ones.
    pub async fn last_entries(
        &self,
        count: usize,
        wanted: impl Fn(&AuditEntry) -> bool,
    ) -> Result<(Vec<LinkedEntry>, u64), AdminError> {
        let end = self.store.end().await?.seq;
        let mut found: Vec<LinkedEntry> = Vec::new();
        let mut below = end;
        while below > 0 && found.len() < count {
            let after = below.saturating_sub(PAGE as u64);
            let page = self.store.entries(after, PAGE).await?;
            let fit = page.into_iter().filter(|one| one.entry.seq <= below && wanted(&one.entry));
            found.splice(0..0, fit.collect::<Vec<_>>());
            below = after;
        }
        let surplus = found.len().saturating_sub(count);
        Ok((found.split_off(surplus), end))
    }

    /// The next page of audit entries after this number, oldest first.
    pub async fn entries_after(&self, after: u64) -> Result<Vec<LinkedEntry>, AdminError> {
        Ok(self.store.entries(after, PAGE).await?)
    }

    /// Verifies the hash chain of the audit, from its first entry to its last.
    pub async fn verify_audit(&self, known: Option<ChainPosition>) -> Result<ChainVerification, AdminError> {
        Ok(self.store.verify(known).await?)
    }
}

/// Where a server with this configuration listens for operators.
fn socket_path(config: &Config) -> Result<PathBuf, AdminError> {
    let file = config.data_file().map_err(AdminError::Url)?.ok_or(OpenError::InMemory)?;
    Ok(operator_socket::socket_beside(&file))
}

/// The name of the user at this machine, as the environment has it.
pub fn user() -> String {
    let named = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(uid)
}

fn uid() -> String {
    format!("uid-{}", rustix::process::getuid().as_raw())
}

/// The present time, from the same clock as the engine's.
fn now() -> Timestamp {
    TokioHost.now()
}
