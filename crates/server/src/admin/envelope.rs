//! Records of envelopes, as the admin commands show them.

use sabir_proto::{Json, Timestamp};
use sabir_store::{Interaction, InteractionQuery};
use serde::{Deserialize, Serialize};

/// The filter of a list of records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeQuery {
    /// Only records received since this time.
    pub since: Option<Timestamp>,
    /// Only records with this key id.
    pub key: Option<String>,
    /// Only records from this agent.
    pub from: Option<String>,
    /// Only records with this intent.
    pub intent: Option<String>,
    /// Only records with this status: `ok`, `duplicate`, or the code of a problem.
    pub status: Option<String>,
    /// Maximum number of records.
    pub limit: usize,
}

impl EnvelopeQuery {
    /// The query for the ledger, limited to `most` records.
    pub(crate) fn query(self, most: usize) -> InteractionQuery {
        let Self { since, key, from, intent, status, limit } = self;
        InteractionQuery { since, key, from_agent: from, intent, status, limit: limit.clamp(1, most) }
    }
}

/// A record as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the columns")]
pub struct EnvelopeView {
    pub received_at: Timestamp,
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    pub from: String,
    pub to: String,
    pub intent: String,
    pub protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_context: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    pub status: String,
    pub http_status: u16,
    pub latency_ms: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booking_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_addr: Option<String>,
    pub replay: bool,
}

impl From<Interaction> for EnvelopeView {
    fn from(row: Interaction) -> Self {
        let json = |text: Option<String>| text.and_then(|text| Json::parse(&text).ok());
        Self {
            received_at: Timestamp::from_millis(row.received_at),
            source: row.source,
            key: row.key,
            tier: row.tier,
            from: row.from_agent,
            to: row.to_agent,
            intent: row.intent,
            protocol: row.protocol,
            correlation_id: row.correlation_id,
            timestamp: row.timestamp_claimed,
            ttl_ms: row.ttl_ms,
            payload: json(row.payload),
            agent_context: json(row.agent_context),
            signed: row.signed,
            status: row.status,
            http_status: row.http_status,
            latency_ms: row.latency_ms,
            booking_id: row.booking.map(|id| id.to_string()),
            remote_addr: row.remote_addr,
            replay: row.replay,
        }
    }
}
