//! The audit: who was refused, who changed something, who decided on another's behalf. Append-only and hash-chained.
//!
//! Each entry carries `SHA-256(hash of the one before ‖ canonical entry)`, the canonical entry being its JSON without
//! the hash in the form of RFC 8785, and the first one following 32 zero bytes. So whoever edits, removes or inserts an
//! entry has to rewrite all that follow, and whoever wrote down a hash earlier (see [`Known`]) notices even that.
//!
//! Secrets and bodies have no way in: what a request could have said is a caller's name, an agent's, or an id of ours;
//! every other word is `&'static str`, text of this program.
//!
//! Refusals are what strangers can cause at will, so they may not cost what a change may cost. Nobody waits for them,
//! those that say the same within a second are one entry with a count, and how many different ones are written is
//! bounded; what found no room is counted in an entry of its own and never lost silently.

mod chain;
mod pending;

pub(crate) use chain::{Chained, Checker, entry_of, link};
pub(crate) use pending::Pending;
pub use pending::{REFUSALS_BURST, REFUSALS_PER_SECOND};

use crate::{Answer, Domain, Hash, KeyId};
use sabir_proto::{AgentName, Caller, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a caller's name that are kept. Names come from certificates, tokens and chains; none needs more.
pub const CALLER_BYTES_MAX: usize = 128;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The caller was turned away.
    Refused,
    /// The caller was let in, on another's behalf.
    Allowed,
    /// An administrator changed something.
    Changed,
    /// So many refusals were not written one by one.
    Dropped,
}

/// What it was about, by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// A task.
    Task(TaskId),
    /// An API key.
    Key(KeyId),
    /// An organisation.
    Organisation(Domain),
    /// An agent.
    Agent(AgentName),
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id) => write!(f, "task:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Organisation(domain) => write!(f, "organisation:{domain}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

/// Who changes something, and when. Every change of stored credentials takes one and is audited with it, in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// Who.
    pub caller: Caller,
    /// How we know.
    pub scheme: &'static str,
    /// When.
    pub at: Timestamp,
}

/// What is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// When.
    pub time: Timestamp,
    /// Who: the authenticated caller, or for one who could not be authenticated a name that tells so. Cut to
    /// [`CALLER_BYTES_MAX`]; never the credential.
    pub caller: Caller,
    /// How the caller was identified, or tried to be.
    pub scheme: &'static str,
    /// What was asked for.
    pub operation: &'static str,
    /// Of which agent; none for changes of the server itself.
    pub agent: Option<AgentName>,
    /// About which thing.
    pub about: Option<About>,
    /// The job on a chain that the request belongs to.
    pub job: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why: the rule that decided.
    pub reason: &'static str,
    /// How often, where several say the same.
    pub count: u64,
}

impl Record {
    /// A caller is turned away.
    pub fn refusal(
        time: Timestamp,
        caller: Caller,
        scheme: &'static str,
        operation: &'static str,
        reason: &'static str,
    ) -> Self {
        let (agent, about, job, outcome) = (None, None, None, Outcome::Refused);
        Self { time, caller, scheme, operation, agent, about, job, outcome, reason, count: 1 }
    }

    /// Somebody changes something.
    pub fn change(by: &By, operation: &'static str, about: Option<About>) -> Self {
        let base = Self::refusal(by.at, by.caller.clone(), by.scheme, operation, "administration");
        Self { about, outcome: Outcome::Changed, ..base }
    }

    /// As the entry of this number.
    pub(crate) fn numbered(&self, seq: u64) -> Entry {
        let mut end = self.caller.name().len().min(CALLER_BYTES_MAX);
        while !self.caller.name().is_char_boundary(end) {
            end -= 1;
        }
        Entry {
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

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// 1, 2, 3 … without gaps.
    pub seq: u64,
    /// When.
    pub time: Timestamp,
    /// Who.
    pub caller: String,
    /// How the caller was identified, or tried to be.
    pub scheme: String,
    /// What was asked for.
    pub operation: String,
    /// Of which agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// About which thing: `task:…`, `key:…` or `organisation:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The job on a chain; text, since not every reader of JSON can hold its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// An entry in its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// The entry.
    pub entry: Entry,
    /// Its hash, which stands for everything up to it.
    pub hash: Hash,
}

/// A place in the chain that was written down somewhere else. The chain alone cannot show that its end was cut off or
/// that all of it was made anew; a number and a hash that its keeper cannot reach can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The number of an entry.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

/// What it looks like was done to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tampering {
    /// This entry, or the one before it, does not say what it said.
    Edited,
    /// Entries are missing from this number on.
    Removed,
    /// This entry was not there.
    Inserted,
}

/// The first place where an entry does not follow from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    /// Where.
    pub seq: u64,
    /// What it looks like.
    pub tampering: Tampering,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seq = self.seq;
        match self.tampering {
            Tampering::Edited => write!(f, "entry {seq}, or the one before it, was edited"),
            Tampering::Removed => write!(f, "entries are missing from number {seq} on"),
            Tampering::Inserted => write!(f, "entry {seq} was inserted"),
        }
    }
}

/// What a check of the whole chain found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many entries follow from each other, from the first on.
    pub entries: u64,
    /// The hash of the last of them; worth writing down elsewhere.
    pub hash: Hash,
    /// The first place where one does not.
    pub broken: Option<Break>,
}

/// The audit. Any number of processes may append at the same time; the chain is one.
pub trait Audit: Send + Sync + 'static {
    /// Appends an entry and answers its number. When this answers `Ok`, the entry has survived a crash; it stands behind
    /// everything that was recorded or refused before. A crash at any moment leaves a whole chain.
    fn record(&self, record: Record) -> Answer<u64>;

    /// Notes a refusal. Never waits and never fails: it is written within about a second, together with others, and those
    /// that say the same within one second (all but time and count) are one entry. At most [`REFUSALS_PER_SECOND`]
    /// different ones are written on average, after a burst of [`REFUSALS_BURST`]; what is above that, or could not be
    /// written, is counted in one entry with [`Outcome::Dropped`]. A crash loses what was not yet written.
    fn refused(&self, record: Record);

    /// Writes all refusals noted so far.
    fn flush(&self) -> Answer<()>;

    /// Where the chain ends: the number of the last entry and its hash, or 0 and zeros where there is none.
    fn end(&self) -> Answer<Known>;

    /// At most `limit` entries after this number, oldest first. Does not wait for anybody who writes.
    fn entries(&self, after: u64, limit: usize) -> Answer<Vec<Linked>>;

    /// Follows the chain from its first entry to its last, and finds the first place where it is broken. A broken chain
    /// is an answer, not an error.
    fn verify(&self, known: Option<Known>) -> Answer<Verified>;
}
