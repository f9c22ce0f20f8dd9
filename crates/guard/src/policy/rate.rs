//! Rate limits: how often a caller may come within a minute, and on a day.
//!
//! The most specific rule counts: the caller's own entry, else the tier of its key, else the rule for accounts of a
//! chain or for callers without credentials, else that of the agent. A limit that one rule leaves open comes from the
//! next, for minutes and days apart.

use super::{DecisionTrace, Rules};
use crate::authenticator::AuthMode;
use crate::authn::Scheme;
use crate::fetch::Fetch;
use crate::identity::{CredentialProof, Identity, RequestEvidence};
use crate::password_guesses::address_prefix;
use crate::refusal::Refusal;
use sabir_proto::Timestamp;
use sabir_store::{GuardStore, KeyId, QuotaDecision, RateDecision, RateWindow};
use schemars::JsonSchema;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A rate limit: zero for no limit, absent where a more general rule decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Within any 60 seconds.
    pub per_minute: Option<u32>,
    /// On a UTC day. For keys only, since only keys are counted on disk.
    pub per_day: Option<u64>,
}

impl RateLimit {
    /// This limit, with what it leaves open from a more general one.
    #[must_use]
    pub fn or_general(self, general: Self) -> Self {
        Self { per_minute: self.per_minute.or(general.per_minute), per_day: self.per_day.or(general.per_day) }
    }
}

/// The limits of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Per minute, for every caller without a more specific rule.
    pub default_per_minute: u32,
    /// Per minute and address, for callers without credentials where credentials are not required.
    pub anonymous_per_minute: u32,
    /// The limits by tier of a key.
    pub tiers: Arc<BTreeMap<String, RateLimit>>,
    /// The limits by name of a caller.
    pub callers: Arc<BTreeMap<String, RateLimit>>,
}

/// The tiers that exist without being configured.
pub fn default_tiers() -> BTreeMap<String, RateLimit> {
    let daily = |per_day| RateLimit { per_minute: None, per_day: Some(per_day) };
    [("free", 100), ("pro", 10_000), ("enterprise", 500_000)]
        .map(|(tier, per_day)| (tier.to_owned(), daily(per_day)))
        .into()
}

/// The limits that count for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectiveRate<'a> {
    /// The name of the most specific rule that applies.
    pub(crate) name: Cow<'a, str>,
    pub(crate) per_minute: u32,
    pub(crate) per_day: u64,
    key: Option<&'a KeyId>,
}

pub(crate) fn effective_rate<'a, F: Fetch>(rules: &'a Rules<F>, identity: &'a Identity) -> EffectiveRate<'a> {
    let limits = &rules.limits;
    let key = match identity.proof() {
        CredentialProof::Key(key) => Some(key),
        _ => None,
    };
    let own = limits.callers.get(identity.caller().name()).copied();
    let tier_name = key.and_then(|key| key.terms.tier.as_deref());
    let tier = tier_name.and_then(|tier| limits.tiers.get(tier)).copied();
    let (kind, per_minute) = match identity.scheme() {
        Some(Scheme::Xpr) => ("accounts", rules.authenticator.xpr().map_or(0, |xpr| xpr.rate_per_minute)),
        None if rules.authenticator.mode() == AuthMode::Optional => ("anonymous callers", limits.anonymous_per_minute),
        _ => ("the agent's limit", limits.default_per_minute),
    };
    let general = RateLimit { per_minute: Some(per_minute), per_day: Some(0) };
    let pace = own.unwrap_or_default().or_general(tier.unwrap_or_default()).or_general(general);
    let name = match (own, tier, tier_name) {
        (Some(_), _, _) => "the caller's own limit".into(),
        (None, Some(_), Some(tier)) => format!("tier {tier}").into(),
        _ => kind.into(),
    };
    EffectiveRate {
        name,
        per_minute: pace.per_minute.unwrap_or(0),
        per_day: pace.per_day.unwrap_or(0),
        key: key.map(|key| &key.id),
    }
}

/// Counts one request, and refuses it if it is one too many.
pub(crate) async fn check<F: Fetch>(
    rules: &Rules<F>,
    identity: &Identity,
    evidence: &RequestEvidence<'_>,
    store: &dyn GuardStore,
) -> Result<(), Refusal> {
    let rule = effective_rate(rules, identity);
    if rule.per_minute > 0 {
        let caller = rate_key(identity, evidence);
        let window = RateWindow { name: rules.agent.as_str(), length: MINUTE, limit: rule.per_minute };
        match store.hit(&caller, window, evidence.now).await.map_err(|_| Refusal::store_unavailable())? {
            RateDecision::Admitted { .. } => {}
            RateDecision::Refused { retry_after } => {
                let words = rate_words(identity, rule.per_minute);
                return Err(Refusal::too_many(identity.scheme(), "rate_minute", words, retry_after));
            }
            RateDecision::Crowded => {
                let words = "Too many callers at their limit; try again later";
                return Err(Refusal::too_many(identity.scheme(), "rate_crowded", words, MINUTE));
            }
        }
    }
    match rule.key {
        Some(key) if rule.per_day > 0 => spend_daily_quota(key, rule.per_day, evidence.now, store).await,
        _ => Ok(()),
    }
}

async fn spend_daily_quota(key: &KeyId, per_day: u64, now: Timestamp, store: &dyn GuardStore) -> Result<(), Refusal> {
    match store.spend_quota(key, per_day, now).await.map_err(|_| Refusal::store_unavailable())? {
        QuotaDecision::Within { .. } => Ok(()),
        QuotaDecision::Exhausted { resets_at } => {
            let wait = resets_at.millis().saturating_sub(now.millis()).max(0).unsigned_abs();
            let words = format!("The daily quota of {per_day} requests of this key is used up");
            Err(Refusal::too_many(Some(Scheme::ApiKey), "rate_day", words, Duration::from_millis(wait)))
        }
    }
}

/// Callers without a name are told apart by their addresses, or one of them would use up the share of all.
fn rate_key<'a>(identity: &'a Identity, evidence: &RequestEvidence<'_>) -> Cow<'a, str> {
    match (identity.scheme(), evidence.address) {
        (None, Some(address)) => Cow::Owned(format!("{}@{}", identity.caller().name(), address_prefix(address))),
        _ => Cow::Borrowed(identity.caller().name()),
    }
}

fn rate_words(identity: &Identity, limit: u32) -> String {
    match identity.proof() {
        CredentialProof::Account { account, .. } => {
            format!("Rate limit exceeded: {limit} requests per minute for account '{account}'")
        }
        _ => format!("Rate limit exceeded: {limit} requests per minute"),
    }
}

pub(crate) fn explain<F: Fetch>(rules: &Rules<F>, identity: &Identity, notes: &mut impl DecisionTrace) {
    let rule = effective_rate(rules, identity);
    let or_none = |number: u64, unit: &str| if number == 0 { String::new() } else { format!("{number} a {unit}") };
    notes.passed("rate", || {
        let paces = [or_none(rule.per_minute.into(), "minute"), or_none(rule.per_day, "day")];
        let paces: Vec<&str> = paces.iter().map(String::as_str).filter(|pace| !pace.is_empty()).collect();
        let paces = if paces.is_empty() { "no limit".to_owned() } else { paces.join(" and ") };
        format!("{} counts: {paces}", rule.name)
    });
}
