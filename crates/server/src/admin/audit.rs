//! The audit: who was refused, who changed what, and whether the log was altered afterwards.

use super::AdminError;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use sabir_proto::Timestamp;
use sabir_store::{AuditEntry, AuditOutcome, ChainPosition, ChainVerification, Hash, LinkedEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Audit entries that are read at a time.
const ENTRIES_PER_READ: usize = 1000;
/// The most entries in one response.
pub const AUDIT_ENTRIES_MAX: usize = 10_000;
/// Entries in a response to a caller who names no number.
const ENTRIES_DEFAULT: usize = 20;

const fn entries_default() -> usize {
    ENTRIES_DEFAULT
}

/// Which entries of the audit are wanted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListAudit {
    /// Only entries with a higher number.
    pub after: u64,
    /// Only entries of this caller.
    pub caller: Option<String>,
    /// Only entries of this job on a chain.
    pub job: Option<String>,
}

/// Shows the last entries.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TailAudit {
    /// The number of entries.
    #[serde(default = "entries_default")]
    pub count: usize,
    /// Only entries of this caller.
    #[serde(default)]
    pub caller: Option<String>,
    /// Only entries of this job on a chain.
    #[serde(default)]
    pub job: Option<String>,
}

/// Follows the chain of hashes from the first entry to the last.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VerifyAudit {
    /// The number and the hash of an entry that were written down earlier, as `SEQ:HASH`.
    pub known: Option<String>,
}

/// The last entries, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditTail {
    pub entries: Vec<AuditEntryView>,
    /// The number of the last entry of all.
    pub end: u64,
}

/// Entries after a number, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    pub entries: Vec<AuditEntryView>,
    /// The number after which the next page begins.
    pub next: u64,
    /// Whether there is more at present.
    pub more: bool,
}

/// An entry of the audit, with its place in the chain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntryView {
    /// The number of the entry: 1, 2, 3 … without gaps.
    pub seq: u64,
    #[schemars(with = "String")]
    pub time: Timestamp,
    pub caller: String,
    /// How the caller was identified.
    pub scheme: String,
    /// What the caller asked for.
    pub operation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The object that it concerns, such as `key:k0123456789`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// `refused`, `allowed`, `changed` or `dropped`.
    pub outcome: String,
    /// The rule that decided.
    pub reason: String,
    /// How many equal events the entry stands for.
    pub count: u64,
    pub hash: String,
}

/// The result of following the chain.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedAudit {
    /// Whether every entry follows from the one before it.
    pub whole: bool,
    /// How many entries do, counted from the first.
    pub entries: u64,
    /// The hash of the last of them; worth storing elsewhere.
    pub hash: String,
    /// What is wrong with the first entry that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<LinkedEntry> for AuditEntryView {
    fn from(LinkedEntry { entry, hash }: LinkedEntry) -> Self {
        let outcome = match entry.outcome {
            AuditOutcome::Refused => "refused",
            AuditOutcome::Allowed => "allowed",
            AuditOutcome::Changed => "changed",
            AuditOutcome::Dropped => "dropped",
        };
        let AuditEntry { seq, time, caller, scheme, operation, agent, about, job, outcome: _, reason, count } = entry;
        let (outcome, hash) = (outcome.to_owned(), hash.to_string());
        Self { seq, time, caller, scheme, operation, agent, about, job, outcome, reason, count, hash }
    }
}

fn fits(entry: &AuditEntry, caller: Option<&String>, job: Option<&String>) -> bool {
    caller.is_none_or(|caller| entry.caller == *caller) && (job.is_none() || entry.job.as_ref() == job)
}

impl Perform for TailAudit {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::get("/audit/tail", "Show the last entries of the audit");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AuditTail, AdminError> {
        let end = service.store.end().await?.seq;
        let count = self.count.min(AUDIT_ENTRIES_MAX);
        let mut found: Vec<LinkedEntry> = Vec::new();
        let mut below = end;
        while below > 0 && found.len() < count {
            let after = below.saturating_sub(ENTRIES_PER_READ as u64);
            let page = service.store.entries(after, ENTRIES_PER_READ).await?;
            let wanted =
                |one: &LinkedEntry| one.entry.seq <= below && fits(&one.entry, self.caller.as_ref(), self.job.as_ref());
            found.splice(0..0, page.into_iter().filter(wanted).collect::<Vec<_>>());
            below = after;
        }
        let surplus = found.len().saturating_sub(count);
        let entries = found.split_off(surplus).into_iter().map(AuditEntryView::from).collect();
        Ok(AuditTail { entries, end })
    }
}

impl Perform for ListAudit {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::get("/audit", "List the entries of the audit after a number");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<AuditPage, AdminError> {
        let page = service.store.entries(self.after, ENTRIES_PER_READ).await?;
        let more = page.len() == ENTRIES_PER_READ;
        let next = page.last().map_or(self.after, |one| one.entry.seq);
        let wanted = |one: &LinkedEntry| fits(&one.entry, self.caller.as_ref(), self.job.as_ref());
        let entries = page.into_iter().filter(wanted).map(AuditEntryView::from).collect();
        Ok(AuditPage { entries, next, more })
    }
}

impl Perform for VerifyAudit {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingGuard;
    const ENDPOINT: Endpoint = Endpoint::get("/audit/verification", "Verify the chain of the audit");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<VerifiedAudit, AdminError> {
        let known = self.known.as_deref().map(parse_position).transpose().map_err(AdminError::invalid)?;
        let ChainVerification { entries, hash, first_break } = service.store.verify(known).await?;
        let problem = first_break.map(|broken| broken.to_string());
        Ok(VerifiedAudit { whole: problem.is_none(), entries, hash: hash.to_string(), problem })
    }
}

/// Parses a position in the chain, as an earlier verification printed it.
pub fn parse_position(text: &str) -> Result<ChainPosition, String> {
    let wrong = || "it is the number of an entry, a colon, and the 64 digits of its hash".to_owned();
    let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
    let seq = seq.parse().map_err(|_| wrong())?;
    Ok(ChainPosition { seq, hash: Hash::parse(hash).ok_or_else(wrong)? })
}
