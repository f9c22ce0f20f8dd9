//! Records of the envelopes that the booking network received, and the outcome of each.

use super::AdminError;
use super::bookings::ROWS_MAX;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use sabir_proto::{Json, Timestamp};
use sabir_store::{Interaction, InteractionQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Records in a response to a request that names no number.
const RECORDS_DEFAULT: usize = 20;

const fn records_default() -> usize {
    RECORDS_DEFAULT
}

/// Lists records of envelopes, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEnvelopes {
    /// Only records received since this time.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Only records with this key id.
    #[serde(default)]
    pub key: Option<String>,
    /// Only records from this agent.
    #[serde(default)]
    pub from: Option<String>,
    /// Only records with this intent.
    #[serde(default)]
    pub intent: Option<String>,
    /// Only records with this status: `ok`, `duplicate`, or the code of a problem.
    #[serde(default)]
    pub status: Option<String>,
    /// Maximum number of records.
    #[serde(default = "records_default")]
    pub limit: usize,
}

/// Records of envelopes, the latest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EnvelopeList {
    pub envelopes: Vec<EnvelopeView>,
}

/// The record of an envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeView {
    #[schemars(with = "String")]
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
    #[schemars(with = "Option<Value>")]
    pub payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
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

impl Perform for ListEnvelopes {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/envelopes", "List the envelopes that the booking network received");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<EnvelopeList, AdminError> {
        let Self { since, key, from, intent, status, limit } = self;
        let query = InteractionQuery { since, key, from_agent: from, intent, status, limit: limit.clamp(1, ROWS_MAX) };
        let rows = service.network()?.ledger().interactions(&query).await?;
        Ok(EnvelopeList { envelopes: rows.into_iter().map(EnvelopeView::from).collect() })
    }
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
