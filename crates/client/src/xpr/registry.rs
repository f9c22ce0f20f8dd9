//! Reads the registry of XPR Network: the endpoints of agents, and jobs in escrow.
//!
//! The rows come from a node of the chain, whose answers are not verified. Nothing is written: the parties of a job
//! assign, deliver and pay it themselves.

use crate::{DocumentClient, Egress, Error, Tls};
use bytes::Bytes;
use http::{Request, header};
use sabir_proto::k1::is_account_name;
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

/// The time limit for one row.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer of a node that is read.
const ROW_BYTES_MAX: usize = 1024 * 1024;

/// The tables of a chain, read from one of its nodes.
#[derive(Clone)]
pub struct ChainRegistry {
    documents: DocumentClient,
    rows: Url,
}

/// A job whose payment is in escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowJob {
    /// The number of the job.
    pub id: u64,
    /// The title of the job.
    pub title: String,
    /// The description of the work.
    pub description: String,
    /// The deliverables, as the chain stores them.
    pub deliverables: String,
    /// The payment, in ten-thousandths of XPR.
    pub amount: u64,
    /// The deadline in Unix seconds; 0 for none.
    pub deadline: u64,
    /// The state of the job, in words.
    pub state: &'static str,
}

impl ChainRegistry {
    /// A registry behind a node. The operator configured its URL, so the policy allows any address but metadata
    /// services.
    pub fn new(node: &Url, tls: &Tls) -> Result<Self, Error> {
        let rows = format!("{}/v1/chain/get_table_rows", node.as_str().trim_end_matches('/'));
        let rows = Url::parse(&rows).map_err(|e| Error::Usage(format!("the node of the chain: {e}")))?;
        Ok(Self { documents: DocumentClient::new(Egress::anywhere(), tls, PATIENCE)?, rows })
    }

    /// The endpoint that an account has registered for its agent.
    pub async fn endpoint(&self, account: &str) -> Result<Url, Error> {
        if !is_account_name(account) {
            return Err(Error::Usage(format!("{account:?} is not an account name: 1 to 12 of a-z, 1-5 and the dot")));
        }
        let row = self.row("agentcore", "agents", account).await?;
        let row = row.ok_or_else(|| Error::Usage(format!("agent '{account}' is not registered")))?;
        if row.get("account").is_some_and(|named| named.as_str() != Some(account)) {
            return Err(Error::Usage("the node answered about another account".into()));
        }
        if !is_set(&row["active"]) {
            return Err(Error::Usage(format!("agent '{account}' is not active")));
        }
        let endpoint = row["endpoint"].as_str().filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.ok_or_else(|| Error::Usage(format!("agent '{account}' has no endpoint")))?;
        Url::parse(endpoint).map_err(|e| Error::Usage(format!("the endpoint of agent '{account}': {e}")))
    }

    /// Reads a job from the escrow table.
    pub async fn job(&self, id: u64) -> Result<EscrowJob, Error> {
        let row = self.row("agentescrow", "jobs", &id.to_string()).await?;
        let row = row.ok_or_else(|| Error::Usage(format!("job #{id} not found")))?;
        if row.get("id").is_some_and(|named| number(named) != Some(id)) {
            return Err(Error::Usage("the node answered about another job".into()));
        }
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let deliverables = match &row["deliverables"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        Ok(EscrowJob {
            id,
            title: text("title"),
            description: text("description"),
            deliverables,
            amount: number(&row["amount"]).unwrap_or(0),
            deadline: number(&row["deadline"]).unwrap_or(0),
            state: state(number(&row["state"])),
        })
    }

    async fn row(&self, code: &str, table: &str, key: &str) -> Result<Option<Value>, Error> {
        // The request equals that of the network's own library to the byte.
        let key = json!(key);
        let body = format!(
            r#"{{"json":true,"code":"{code}","scope":"{code}","table":"{table}","lower_bound":{key},"upper_bound":{key},"index_position":1,"key_type":"","limit":1,"reverse":false,"show_payer":false}}"#
        );
        let request = Request::post(self.rows.as_str()).header(header::CONTENT_TYPE, "text/plain;charset=UTF-8");
        let request = request.body(Bytes::from(body)).map_err(|e| Error::Usage(e.to_string()))?;
        let answer = self.documents.exchange(request, ROW_BYTES_MAX).await?;
        let unusable = |what: &str| {
            let host = self.rows.host_str().unwrap_or_default();
            Error::unreachable(host, format!("the node of the chain answered {what}"), false)
        };
        if !answer.status().is_success() {
            return Err(unusable(&format!("HTTP {}", answer.status().as_u16())));
        }
        let mut answer: Value = serde_json::from_slice(answer.body()).map_err(|_| unusable("what is not JSON"))?;
        let rows = answer.get_mut("rows").and_then(Value::as_array_mut).ok_or_else(|| unusable("without rows"))?;
        Ok(rows.first_mut().map(Value::take))
    }
}

/// Nodes send booleans as such or as numbers.
fn is_set(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| number(value).is_some_and(|n| n != 0))
}

/// Nodes send 64-bit numbers as numbers or as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn state(number: Option<u64>) -> &'static str {
    const STATES: [&str; 9] = [
        "created",
        "funded",
        "accepted",
        "in progress",
        "delivered",
        "disputed",
        "completed",
        "refunded",
        "arbitrated",
    ];
    let at = number.and_then(|n| usize::try_from(n).ok());
    at.and_then(|at| STATES.get(at).copied()).unwrap_or("unknown")
}
