//! The audit log: which callers were refused, which changes were made, which decisions were taken on another's behalf.
//! It is append-only and hash-chained.
//!
//! Each entry carries `SHA-256(hash of the one before ‖ canonical entry)`, the canonical entry being its JSON without
//! the hash in the form of RFC 8785, and the first one following 32 zero bytes. An attacker who edits, removes or
//! inserts an entry has to rewrite all that follow, and an operator who wrote down a hash earlier (see [`ChainPosition`])
//! notices even that.
//!
//! Secrets and bodies cannot get in: from the request come only the names of the caller and the agent, and ids of ours;
//! every other word is `&'static str`, text of this program.
//!
//! Strangers can cause refusals at will, so a refusal may not cost what a change may cost. No caller waits for it,
//! equal refusals within a second are one entry with a count, and the number of different ones that are written is
//! bounded. What is over that bound is counted in an entry of its own and never lost silently.

mod chain;
mod pending;

pub(crate) use chain::{ChainRow, ChainVerifier, next_row, parse_entry};
pub(crate) use pending::PendingRefusals;
pub use pending::{REFUSALS_BURST, REFUSALS_PER_SECOND};

use crate::{Domain, Hash, KeyId, StoreFuture};
use sabir_proto::{AgentName, Caller, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a caller's name that are stored. Names come from certificates, tokens and chains; none needs more.
pub const CALLER_BYTES_MAX: usize = 128;

/// The outcome that an audit entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditOutcome {
    /// The server turned the caller away.
    Refused,
    /// The server let the caller in, on another's behalf.
    Allowed,
    /// An administrator changed something.
    Changed,
    /// This many refusals were not written one by one.
    Dropped,
}

/// The object of an audit entry, by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AuditSubject {
    Task(TaskId),
    /// The API key of this id.
    Key(KeyId),
    /// The organisation of this domain.
    Organisation(Domain),
    /// The agent of this name.
    Agent(AgentName),
}

impl fmt::Display for AuditSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id) => write!(f, "task:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Organisation(domain) => write!(f, "organisation:{domain}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

/// The author and the time of a change. Every change of stored credentials takes one and is audited with it, in one
/// commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditActor {
    /// The caller that makes the change.
    pub caller: Caller,
    /// How the caller was identified.
    pub scheme: &'static str,
    /// The time of the change.
    pub at: Timestamp,
}

/// An event to be recorded in the audit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AuditRecord {
    /// The time of the event.
    pub time: Timestamp,
    /// The authenticated caller, or a placeholder name where the caller could not be authenticated. Cut to
    /// [`CALLER_BYTES_MAX`]; never the credential.
    pub caller: Caller,
    /// How the caller was identified, or tried to be.
    pub scheme: &'static str,
    /// The operation that was requested.
    pub operation: &'static str,
    /// The agent it was requested of; none for changes of the server itself.
    pub agent: Option<AgentName>,
    /// The object that it concerns.
    pub about: Option<AuditSubject>,
    pub job: Option<u64>,
    pub outcome: AuditOutcome,
    /// The rule that decided.
    pub reason: &'static str,
    /// How many equal events this record stands for.
    pub count: u64,
}

impl AuditRecord {
    /// The record of a caller that is turned away.
    pub fn refusal(
        time: Timestamp,
        caller: Caller,
        scheme: &'static str,
        operation: &'static str,
        reason: &'static str,
    ) -> Self {
        let (agent, about, job, outcome) = (None, None, None, AuditOutcome::Refused);
        Self { time, caller, scheme, operation, agent, about, job, outcome, reason, count: 1 }
    }

    /// The record of a change made by an administrator.
    pub fn change(by: &AuditActor, operation: &'static str, about: Option<AuditSubject>) -> Self {
        let base = Self::refusal(by.at, by.caller.clone(), by.scheme, operation, "administration");
        Self { about, outcome: AuditOutcome::Changed, ..base }
    }

    /// The entry with this number.
    pub(crate) fn to_entry(&self, seq: u64) -> AuditEntry {
        let mut end = self.caller.name().len().min(CALLER_BYTES_MAX);
        while !self.caller.name().is_char_boundary(end) {
            end -= 1;
        }
        AuditEntry {
            seq,
            time: self.time,
            caller: self.caller.name()[..end].into(),
            scheme: self.scheme.into(),
            operation: self.operation.into(),
            agent: self.agent.as_ref().map(ToString::to_string),
            about: self.about.as_ref().map(ToString::to_string),
            job: self.job.map(|job| job.to_string()),
            outcome: self.outcome,
            reason: self.reason.into(),
            count: self.count,
        }
    }
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// The number of the entry: 1, 2, 3 … without gaps.
    pub seq: u64,
    /// The time of the event.
    pub time: Timestamp,
    /// The name of the caller.
    pub caller: String,
    /// How the caller was identified, or tried to be.
    pub scheme: String,
    /// The operation that was requested.
    pub operation: String,
    /// The agent it was requested of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The object that it concerns: `task:…`, `key:…` or `organisation:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The job on a chain; text, since not every JSON reader can hold its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    pub outcome: AuditOutcome,
    /// The rule that decided.
    pub reason: String,
    /// How many equal events the entry stands for.
    pub count: u64,
}

/// An entry together with its hash in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedEntry {
    pub entry: AuditEntry,
    /// The hash of the entry, which covers everything up to it.
    pub hash: Hash,
}

/// A position in the chain: a number and the hash there. The chain alone cannot show that its end was cut off or that
/// all of it was made anew; a position that is stored elsewhere, out of reach of the chain's writer, can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition {
    pub seq: u64,
    /// The hash of that entry.
    pub hash: Hash,
}

/// The kind of tampering that a break suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tampering {
    /// This entry, or the one before it, has other content than was written.
    Edited,
    /// Entries are missing from this number on.
    Removed,
    /// This entry was added later.
    Inserted,
}

/// The first place where an entry does not follow from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainBreak {
    /// The number of the entry.
    pub seq: u64,
    /// The kind of tampering it suggests.
    pub tampering: Tampering,
}

impl fmt::Display for ChainBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seq = self.seq;
        match self.tampering {
            Tampering::Edited => write!(f, "entry {seq}, or the one before it, was edited"),
            Tampering::Removed => write!(f, "entries are missing from number {seq} on"),
            Tampering::Inserted => write!(f, "entry {seq} was inserted"),
        }
    }
}

/// The result of checking the whole chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainVerification {
    /// The number of entries that follow from each other, counted from the first.
    pub entries: u64,
    /// The hash of the last good entry; worth storing elsewhere.
    pub hash: Hash,
    /// The first entry that does not follow from the one before.
    pub first_break: Option<ChainBreak>,
}

/// The audit log. Any number of processes may append at the same time; they share one chain.
pub trait Audit: Send + Sync + 'static {
    /// Appends an entry and returns its number. When this returns `Ok`, the entry has survived a crash; it stands
    /// behind everything that was recorded or refused before. A crash at any moment leaves a whole chain.
    fn record(&self, record: AuditRecord) -> StoreFuture<u64>;

    /// Records a refusal. Never waits and never fails: the writer writes it within about a second, together with
    /// others, and equal refusals within one second (all but time and count) are one entry. At most
    /// [`REFUSALS_PER_SECOND`] different ones are written on average, after a burst of [`REFUSALS_BURST`]; refusals
    /// above that, and those that could not be written, are counted in one entry with [`AuditOutcome::Dropped`]. A crash
    /// loses what was not yet written.
    fn record_refusal(&self, record: AuditRecord);

    /// Writes all refusals recorded so far.
    fn flush(&self) -> StoreFuture<()>;

    /// The end of the chain: the number of the last entry and its hash, or 0 and zeros where there is none.
    fn end(&self) -> StoreFuture<ChainPosition>;

    /// At most `limit` entries after this number, oldest first. Does not wait for writers.
    fn entries(&self, after: u64, limit: usize) -> StoreFuture<Vec<LinkedEntry>>;

    /// Follows the chain from its first entry to its last, and finds the first break. A broken chain is a result, not
    /// an error.
    fn verify(&self, known: Option<ChainPosition>) -> StoreFuture<ChainVerification>;
}
