//! Records of envelopes: who asked for what, and what came of it.

use sabir_proto::{TaskId, Timestamp};

/// Records that may wait for a commit; what comes then is dropped and counted.
pub const INTERACTIONS_WAITING_MAX: usize = 16_384;

/// The record of one envelope. Secrets are taken out of it by whoever makes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interaction {
    /// When it came, in milliseconds since 1970.
    pub received_at: i64,
    /// Where it came from, such as `external_agent`.
    pub source: String,
    /// The key it came with, if that is known.
    pub key: Option<String>,
    /// The tier of the key.
    pub tier: Option<String>,
    /// The sender, as it says.
    pub from_agent: String,
    /// The recipient.
    pub to_agent: String,
    /// What was asked for.
    pub intent: String,
    /// The protocol it named.
    pub protocol: String,
    /// What the caller knows it by.
    pub correlation_id: Option<String>,
    /// When it was sent, as it says.
    pub timestamp_claimed: Option<String>,
    /// How long the caller waits.
    pub ttl_ms: Option<i64>,
    /// What it said, without secrets: JSON.
    pub payload: Option<String>,
    /// What is to be echoed: JSON.
    pub agent_context: Option<String>,
    /// The key it was signed with (`current`, `previous`, `next`); nothing where it was not signed.
    pub signed: Option<String>,
    /// `ok`, `duplicate`, or the code of the problem.
    pub status: String,
    /// The code of the problem.
    pub error_code: Option<String>,
    /// What was answered.
    pub http_status: u16,
    /// How long that took.
    pub latency_ms: u32,
    /// The booking that it made or asked for again.
    pub booking: Option<TaskId>,
    /// Where it came from, on the network.
    pub remote_addr: Option<String>,
    /// It was answered before.
    pub replay: bool,
}

/// Which records are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InteractionQuery {
    /// Since then.
    pub since: Option<Timestamp>,
    /// With this key.
    pub key: Option<String>,
    /// From this agent.
    pub from_agent: Option<String>,
    /// With this intent.
    pub intent: Option<String>,
    /// With this status.
    pub status: Option<String>,
    /// At most so many.
    pub limit: usize,
}
