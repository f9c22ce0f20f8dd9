//! The trust record of an agent of XPR Network: its registration, its KYC level and its score, from rows of chain
//! tables.
//!
//! There are two scores. The full score (0 to 100, from KYC, stake, reputation and age) is what cards show. The gate of
//! the network's own server counts KYC and age alone, so it never exceeds 40, and takes the KYC of the caller where the
//! full score takes that of the caller's owner.
//!
//! The sums follow the originals in every detail: a registration in the future lowers the score, a registration at time
//! zero counts as very old in one score and as new in the other, and reputation is not capped.

use super::leading_integer;
use crate::unix_seconds;
use sabir_proto::Timestamp;
use serde_json::Value;

const MONTH: i64 = 30 * 24 * 60 * 60;
/// The stake for one point, 500 XPR; the chain counts in ten-thousandths.
const STAKE_POINT: f64 = 10_000.0 * 500.0;
/// The best average score.
const REPUTATION_SCALE: f64 = 10_000.0;

/// The score to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScoreKind {
    /// As on cards: all four parts, KYC of the owner.
    #[default]
    Full,
    /// As at the gate of the network's own server: KYC of the caller itself and age.
    Gate,
}

/// What an agent has registered about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentRegistration {
    /// The account of the agent.
    pub account: String,
    /// The account that owns the agent, if there is one.
    pub owner: Option<String>,
    /// The name of the agent; may be empty.
    pub name: String,
    /// What the agent does; may be empty.
    pub description: String,
    /// The URL of the agent, without `/a2a`; may be empty.
    pub endpoint: String,
    /// The protocol that the agent speaks.
    pub protocol: String,
    /// The capabilities of the agent.
    pub capabilities: Vec<String>,
    /// When it was registered, in Unix seconds; 0 if unknown.
    pub registered_at: i64,
    /// Whether the agent says that it is active.
    pub active: bool,
}

impl AgentRegistration {
    /// Reads a row of the table of agents.
    pub fn from_row(account: &str, row: &Value) -> Self {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let capabilities = serde_json::from_str(&text("capabilities")).unwrap_or_default();
        Self {
            account: account.to_owned(),
            owner: Some(text("owner")).filter(|owner| !owner.is_empty()),
            name: text("name"),
            description: text("description"),
            endpoint: text("endpoint"),
            protocol: text("protocol"),
            capabilities,
            registered_at: row.get("registered_at").map_or(0, integer),
            active: row.get("active").is_some_and(|active| *active == true || *active == 1),
        }
    }
}

/// The parts of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrustScore {
    /// Points for KYC, up to 30.
    pub kyc: i64,
    /// Points for stake, up to 20.
    pub stake: i64,
    /// Points for reputation, up to 40; more where the chain exceeds its own scale.
    pub reputation: i64,
    /// Points for age, up to 10.
    pub longevity: i64,
}

impl TrustScore {
    /// The sum of the parts.
    pub const fn total(self) -> i64 {
        // The chain may hold any number; the sum must not panic.
        self.kyc.saturating_add(self.stake).saturating_add(self.reputation).saturating_add(self.longevity)
    }

    /// The rating in one word, by the total.
    pub const fn rating(self) -> &'static str {
        match self.total() {
            80.. => "verified",
            60.. => "high",
            40.. => "medium",
            20.. => "low",
            _ => "untrusted",
        }
    }
}

/// An agent and its score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRecord {
    /// The registration of the agent.
    pub agent: AgentRegistration,
    /// The level behind the KYC part of the score.
    pub kyc_level: i64,
    /// The score, by its parts.
    pub score: TrustScore,
}

/// The rows of the tables; `None` for a row that is absent.
#[derive(Debug, Clone, Copy)]
pub struct TrustRows<'a> {
    /// The registration of the agent.
    pub agent: &'a Value,
    /// The feedback about the agent.
    pub scores: Option<&'a Value>,
    /// The KYC of the account that the score asks for.
    pub users: Option<&'a Value>,
    /// The stake of the account.
    pub voters: Option<&'a Value>,
}

impl TrustRecord {
    /// Adds the points up, from the rows.
    pub fn of(account: &str, rows: TrustRows<'_>, reading: ScoreKind, now: Timestamp) -> Self {
        let agent = AgentRegistration::from_row(account, rows.agent);
        // The gate asks for the KYC of the caller, which needs no owner.
        let users = rows.users.filter(|_| reading == ScoreKind::Gate || agent.owner.is_some());
        let kyc_level = users.map_or(0, |row| kyc_level(row, reading));
        let months = unix_seconds(now).saturating_sub(agent.registered_at).div_euclid(MONTH).min(10);
        let score = TrustScore {
            kyc: kyc_level.saturating_mul(10).min(30),
            longevity: if reading == ScoreKind::Gate && agent.registered_at == 0 { 0 } else { months },
            stake: if reading == ScoreKind::Full { rows.voters.map_or(0, stake) } else { 0 },
            reputation: if reading == ScoreKind::Full { rows.scores.map_or(0, reputation) } else { 0 },
        };
        Self { agent, kyc_level, score }
    }
}

/// The best level of all entries. Chains hold levels as numbers, as text, and as lists of claims made by providers.
pub fn kyc_level(row: &Value, reading: ScoreKind) -> i64 {
    let entries = row.get("kyc").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let level = |entry: &Value| match (entry, reading) {
        (Value::Number(_), _) => integer(entry),
        (Value::String(text), ScoreKind::Full) => leading_integer(text).unwrap_or(0),
        (Value::String(text), ScoreKind::Gate) => text.trim().parse().unwrap_or(0),
        _ => entry.get("kyc_level").and_then(Value::as_str).map_or(0, claimed_level),
    };
    let best = entries.iter().map(level).max().unwrap_or(0).max(0);
    let verified = row.get("verified").is_some_and(|flag| *flag == 1 || *flag == true);
    match (best, reading) {
        (0, _) => i64::from(verified),
        (best, ScoreKind::Full) => best,
        (best, ScoreKind::Gate) => best.min(3),
    }
}

/// `provider:3`, `2`, or a list of claims that are counted when none of them is a number.
fn claimed_level(text: &str) -> i64 {
    let claims: Vec<&str> = text.split(',').map(str::trim).filter(|claim| !claim.is_empty()).collect();
    let number = |claim: &&str| match claim.rsplit_once(':') {
        Some((_, level)) => level.parse::<u32>().ok().map(i64::from),
        None => leading_integer(claim),
    };
    let counted = i64::try_from(claims.len().div_ceil(3)).unwrap_or(3).min(3);
    claims.iter().filter_map(number).max().unwrap_or(counted)
}

#[expect(clippy::cast_possible_truncation, reason = "points are few; a cast from a double saturates")]
fn stake(row: &Value) -> i64 {
    let staked = row.get("staked").map_or(0.0, double);
    (staked / STAKE_POINT).floor().min(20.0) as i64
}

#[expect(clippy::cast_possible_truncation, reason = "points are few; a cast from a double saturates")]
fn reputation(row: &Value) -> i64 {
    if row.get("total_weight").map_or(0.0, double) <= 0.0 {
        return 0;
    }
    let average = row.get("avg_score").map_or(0.0, double);
    (average / REPUTATION_SCALE * 40.0).floor() as i64
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from a double saturates")]
fn integer(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_else(|| double(value) as i64),
        Value::String(text) => leading_integer(text).unwrap_or(0),
        _ => 0,
    }
}

/// Reads a 64-bit number, which nodes send as a number or as text.
#[expect(clippy::cast_precision_loss, reason = "the original counts in doubles")]
fn double(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().unwrap_or(0.0),
        Value::String(text) => leading_integer(text).unwrap_or(0) as f64,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
