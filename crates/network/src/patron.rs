//! Who asks, and what came with it: what the server knows and the network needs.

use sabir_proto::agnt::{Aside, PROTOCOL};
use sabir_proto::{Caller, Timestamp};
use sabir_store::Interaction;

/// Who asks, as the door has recognised it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patron {
    /// The id of its key, if it has one.
    pub key: Option<String>,
    /// The visible beginning of the key.
    pub prefix: Option<String>,
    /// Its tier.
    pub tier: Option<String>,
    /// The agents its key is bound to.
    pub agents: Vec<String>,
    /// Who pays for it.
    pub customer: Option<String>,
}

/// Whoever knows the patrons. All of it is in memory: nothing waits.
pub trait Patrons: Send + Sync + 'static {
    /// Who a caller is.
    fn patron(&self, caller: &Caller) -> Patron;

    /// Who has a key, by its id.
    fn holder(&self, key: &str) -> Patron;

    /// The record of an envelope so far, by the number of its passage. It is taken, since it is written once.
    fn record(&self, passage: u64) -> Option<Interaction> {
        let _ = passage;
        None
    }
}

/// Where nobody has a key.
#[derive(Debug, Clone, Copy)]
pub struct Strangers;

impl Patrons for Strangers {
    fn patron(&self, _: &Caller) -> Patron {
        Patron::default()
    }

    fn holder(&self, _: &str) -> Patron {
        Patron::default()
    }
}

/// The record of an envelope of which nothing is known but what was said beside its message.
pub(crate) fn record(aside: &Aside, intent: &str, payload: &str, patron: &Patron, now: Timestamp) -> Interaction {
    Interaction {
        received_at: now.millis(),
        source: "external_agent".into(),
        key: patron.key.clone(),
        tier: aside.tier.clone().or_else(|| patron.tier.clone()),
        from_agent: aside.from.clone().unwrap_or_default(),
        to_agent: aside.to.clone().unwrap_or_default(),
        intent: intent.into(),
        protocol: PROTOCOL.into(),
        correlation_id: aside.correlation_id.clone(),
        timestamp_claimed: aside.timestamp.clone(),
        ttl_ms: aside.ttl_ms.and_then(|ttl| i64::try_from(ttl).ok()),
        payload: Some(payload.into()),
        status: "ok".into(),
        http_status: 200,
        ..Interaction::default()
    }
}
