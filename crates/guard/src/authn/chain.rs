//! Queries the chain: the keys of an account, and the rows about it in four tables.
//!
//! Answers are cached for five minutes, and longer (bounded) while the chain is unreachable. The node is not trusted:
//! an answer about another account than the requested one is refused.

use super::trust_score::{AgentRegistration, ScoreKind, TrustRecord, TrustRows};
use crate::fetch::{self, Fetch, FetchMethod, FetchRequest};
use crate::refreshing_cache::{CacheLimits, LoadFault, RefreshingCache, WhileLoading};
use sabir_proto::Timestamp;
use sabir_proto::k1::PublicKey;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long a cached answer is fresh; the network's own server uses the same value.
pub const FRESH: Duration = Duration::from_secs(5 * 60);
/// How old a cached answer may be while the chain is unreachable. A key that was removed from an account stays valid no
/// longer than this, and an outage locks no caller out before.
pub const STALE_MAX: Duration = Duration::from_secs(30 * 60);
/// How long no request is made after a failure, or for an account that does not exist.
pub const PAUSE: Duration = Duration::from_secs(10);
/// The maximum number of cached accounts, for keys and for each table.
pub const ACCOUNTS_MAX: usize = 10_000;
/// The maximum number of concurrent requests: unauthenticated callers choose which accounts we look up.
pub const LOOKUPS_MAX: usize = 32;
/// The longest answer, in bytes. An account with a hundred permissions fits.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of keys read per account; more than any account has.
const KEYS_MAX: usize = 256;
/// The content type that the network's own library sends.
const CONTENT_TYPE: &str = "text/plain;charset=UTF-8";

/// The active permission of an account: the keys that may sign for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountAuthority {
    /// The total weight that a signature needs.
    pub threshold: u64,
    /// Keys with their weights.
    pub keys: Vec<(PublicKey, u64)>,
}

/// Why the chain gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The account or the row does not exist.
    #[error("not on the chain")]
    Absent,
    /// The account has no active permission.
    #[error("no active permission")]
    NoPermission,
    /// The node is unreachable, or its answer is invalid.
    #[error("the chain cannot be asked: {0}")]
    Unavailable(String),
}

impl From<LoadFault> for ChainFault {
    fn from(miss: LoadFault) -> Self {
        match miss {
            LoadFault::Absent => Self::Absent,
            LoadFault::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

/// The tables that we read, keyed by account name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainTable {
    /// Registered agents.
    Agents,
    /// Feedback about an agent.
    Scores,
    /// KYC of a person.
    Users,
    /// The stake of an account.
    Voters,
}

impl ChainTable {
    /// Contract and scope, table, and the member that repeats the account.
    const fn location(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Agents => ("agentcore", "agents", "account"),
            Self::Scores => ("agentfeed", "agentscores", "agent"),
            Self::Users => ("eosio.proton", "usersinfo", "acc"),
            Self::Voters => ("eosio", "voters", "owner"),
        }
    }
}

/// A chain, reached through one of its nodes, with its cache.
pub struct ChainClient<F> {
    account: Url,
    rows: Url,
    fetch: F,
    fresh: Duration,
    /// `None` for an account without an active permission, which is a valid answer.
    authorities: RefreshingCache<String, Option<Arc<AccountAuthority>>>,
    tables: RefreshingCache<(ChainTable, String), Arc<Value>>,
}

impl<F: Fetch> ChainClient<F> {
    /// A chain whose node has this base URL.
    pub fn new(node: &Url, fetch: F) -> Result<Self, url::ParseError> {
        let base = node.as_str().trim_end_matches('/');
        let limits = CacheLimits { stale: STALE_MAX, pause: PAUSE, entries_max: ACCOUNTS_MAX, loads_max: LOOKUPS_MAX };
        Ok(Self {
            account: Url::parse(&format!("{base}/v1/chain/get_account"))?,
            rows: Url::parse(&format!("{base}/v1/chain/get_table_rows"))?,
            fetch,
            fresh: FRESH,
            authorities: RefreshingCache::new(limits),
            tables: RefreshingCache::new(limits),
        })
    }

    /// Sets how long answers are fresh, instead of [`FRESH`].
    pub fn fresh_for(self, fresh: Duration) -> Self {
        Self { fresh, ..self }
    }

    /// The active permission of an account.
    pub async fn authority(&self, account: &str, now: Timestamp) -> Result<Arc<AccountAuthority>, ChainFault> {
        let load = async {
            let body = json!({"account_name": account}).to_string();
            read_authority(&self.post(&self.account, body).await?, account)
        };
        let authority = self.authorities.get(&account.to_owned(), self.fresh, WhileLoading::Serve, now, load).await?;
        authority.ok_or(ChainFault::NoPermission)
    }

    /// The row of an account in a table.
    pub async fn row(&self, table: ChainTable, account: &str, now: Timestamp) -> Result<Arc<Value>, ChainFault> {
        let load = async {
            let answer = self.post(&self.rows, rows_request(table, account)).await?;
            read_row(answer, table, account)
        };
        Ok(self.tables.get(&(table, account.to_owned()), self.fresh, WhileLoading::Serve, now, load).await?)
    }

    /// The registration of an agent.
    pub async fn agent(&self, account: &str, now: Timestamp) -> Result<AgentRegistration, ChainFault> {
        Ok(AgentRegistration::from_row(account, &*self.row(ChainTable::Agents, account, now).await?))
    }

    /// The trust score of an agent; an error without a registration. Any other table that cannot be read counts as
    /// empty, which can only lower the score.
    pub async fn trust_record(
        &self,
        account: &str,
        reading: ScoreKind,
        now: Timestamp,
    ) -> Result<TrustRecord, ChainFault> {
        let agent = self.row(ChainTable::Agents, account, now).await?;
        let owner = AgentRegistration::from_row(account, &agent).owner;
        let (scores, users, voters) = match reading {
            ScoreKind::Full => (
                self.row(ChainTable::Scores, account, now).await.ok(),
                match owner {
                    Some(owner) => self.row(ChainTable::Users, &owner, now).await.ok(),
                    None => None,
                },
                self.row(ChainTable::Voters, account, now).await.ok(),
            ),
            ScoreKind::Gate => (None, self.row(ChainTable::Users, account, now).await.ok(), None),
        };
        let rows =
            TrustRows { agent: &agent, scores: scores.as_deref(), users: users.as_deref(), voters: voters.as_deref() };
        Ok(TrustRecord::of(account, rows, reading, now))
    }

    async fn post(&self, url: &Url, body: String) -> Result<Value, LoadFault> {
        let unavailable = |why: String| LoadFault::Unavailable(why);
        let method = FetchMethod::Post { content_type: CONTENT_TYPE, body: body.into_bytes() };
        let request = FetchRequest { url: url.clone(), method, bytes_max: ANSWER_BYTES_MAX };
        let answer = fetch::fetch_bounded(&self.fetch, request).await.map_err(|e| unavailable(e.to_string()))?;
        let value: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| unavailable(format!("status {}, and not JSON", answer.status)))?;
        // Nodes report errors in the body, whatever the status.
        let code = value.get("code").and_then(Value::as_u64);
        if answer.status == 200 && code.is_none_or(|code| code < 400) {
            return Ok(value);
        }
        let unknown = |detail: &Value| {
            detail.get("message").and_then(Value::as_str).is_some_and(|message| message.starts_with("unknown key"))
        };
        let details = value.pointer("/error/details").and_then(Value::as_array);
        if code == Some(404) || details.is_some_and(|details| details.iter().any(unknown)) {
            return Err(LoadFault::Absent);
        }
        Err(unavailable(format!("status {}", answer.status)))
    }
}

/// The request body, byte for byte as the network's own library sends it.
fn rows_request(table: ChainTable, account: &str) -> String {
    let (code, table, _) = table.location();
    // Account names need no escaping, and serde would sort the members.
    let account = json!(account);
    format!(
        r#"{{"json":true,"code":"{code}","scope":"{code}","table":"{table}","lower_bound":{account},"upper_bound":{account},"index_position":1,"key_type":"","limit":1,"reverse":false,"show_payer":false}}"#
    )
}

fn read_authority(answer: &Value, account: &str) -> Result<Option<Arc<AccountAuthority>>, LoadFault> {
    check_subject(answer, "account_name", account)?;
    let Some(permissions) = answer.get("permissions").and_then(Value::as_array) else {
        return Err(LoadFault::Unavailable("an account without permissions".to_owned()));
    };
    let active = permissions.iter().find(|one| one.get("perm_name").and_then(Value::as_str) == Some("active"));
    let Some(auth) = active.and_then(|active| active.get("required_auth")) else { return Ok(None) };
    let keys = auth.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let key = |one: &Value| {
        // A key of an unknown kind cannot have made a signature that we can read.
        let key = PublicKey::parse(one.get("key")?.as_str()?).ok()?;
        Some((key, one.get("weight").and_then(unsigned).unwrap_or(0)))
    };
    Ok(Some(Arc::new(AccountAuthority {
        // A permission without a threshold can never be satisfied.
        threshold: auth.get("threshold").and_then(unsigned).unwrap_or(u64::MAX),
        keys: keys.iter().take(KEYS_MAX).filter_map(key).collect(),
    })))
}

fn read_row(mut answer: Value, table: ChainTable, account: &str) -> Result<Arc<Value>, LoadFault> {
    let Some(rows) = answer.get_mut("rows").and_then(Value::as_array_mut) else {
        return Err(LoadFault::Unavailable("an answer without rows".to_owned()));
    };
    let Some(row) = rows.first_mut().map(Value::take) else { return Err(LoadFault::Absent) };
    let (_, _, subject) = table.location();
    check_subject(&row, subject, account)?;
    Ok(Arc::new(row))
}

/// Refuses an answer about another account.
fn check_subject(value: &Value, member: &str, account: &str) -> Result<(), LoadFault> {
    match value.get(member) {
        Some(subject) if subject.as_str() != Some(account) => {
            Err(LoadFault::Unavailable("an answer about another account".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Reads a 64-bit number, which nodes send as a number or as text.
fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests;
