//! Records of envelopes: who asked for what, and the result.

use sabir_proto::{TaskId, Timestamp};

/// Records that may wait for a commit; more are dropped and counted.
pub const INTERACTIONS_WAITING_MAX: usize = 16_384;

/// The record of one envelope. The component that makes it takes secrets out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interaction {
    /// The time of arrival, in milliseconds since 1970.
    pub received_at: i64,
    /// The kind of source, such as `external_agent`.
    pub source: String,
    /// The id of the key it came with, if that is known.
    pub key: Option<String>,
    /// The tier of the key.
    pub tier: Option<String>,
    /// The sender, by its own account.
    pub from_agent: String,
    pub to_agent: String,
    pub intent: String,
    /// The protocol that the envelope names.
    pub protocol: String,
    /// The caller's own id for it.
    pub correlation_id: Option<String>,
    /// The time at which it was sent, by the sender's account.
    pub timestamp_claimed: Option<String>,
    /// How long the caller waits.
    pub ttl_ms: Option<i64>,
    /// The payload without secrets: JSON.
    pub payload: Option<String>,
    /// The context that is echoed in the response: JSON.
    pub agent_context: Option<String>,
    /// The key it was signed with (`current`, `previous`, `next`); `None` where it was not signed.
    pub signed: Option<String>,
    /// `ok`, `duplicate`, or the code of the problem.
    pub status: String,
    pub error_code: Option<String>,
    /// The HTTP status of the response.
    pub http_status: u16,
    /// The time until the response, in milliseconds.
    pub latency_ms: u32,
    /// The booking that it made or asked for again.
    pub booking: Option<TaskId>,
    /// The network address of the sender.
    pub remote_addr: Option<String>,
    /// The response was a repetition of an earlier one.
    pub replay: bool,
}

/// A filter for records of envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InteractionQuery {
    /// Only those since this time.
    pub since: Option<Timestamp>,
    /// Only those with this key.
    pub key: Option<String>,
    /// Only those from this agent.
    pub from_agent: Option<String>,
    /// Only those with this intent.
    pub intent: Option<String>,
    /// Only those with this status.
    pub status: Option<String>,
    /// The maximum number of results.
    pub limit: usize,
}
