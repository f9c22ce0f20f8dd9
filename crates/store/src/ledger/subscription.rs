//! Webhook subscriptions: who wants to hear of its bookings, where, and under which secrets.

use crate::{Answer, StoreError};
use sabir_proto::{Secret, Timestamp};
use std::sync::Arc;

/// Subscriptions of one key.
pub const SUBSCRIPTIONS_PER_KEY_MAX: usize = 16;

/// Who wants to hear of the bookings of a key. The secrets are kept because deliveries are signed with them; whoever shows
/// a subscription leaves them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its name; nobody else has it.
    pub id: String,
    /// The key whose bookings it hears of.
    pub key: String,
    /// Where.
    pub url: String,
    /// Of what; empty for everything.
    pub events: Vec<String>,
    /// What deliveries are signed with.
    pub secret: Secret,
    /// What they were signed with before, and until when they still are.
    pub previous: Option<(Secret, Timestamp)>,
    /// Since when.
    pub created_at: Timestamp,
    /// Why nothing is delivered any more.
    pub ended: Option<String>,
}

/// Who is told of a booking, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The name of its subscription.
    pub id: String,
    /// Where it is told.
    pub url: String,
    /// Of what; empty for everything.
    pub events: Vec<String>,
}

/// Why nobody was subscribed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The name is another's.
    #[error("there is such a subscription already")]
    Taken,
    /// As many as one key may have.
    #[error("a key has at most {SUBSCRIPTIONS_PER_KEY_MAX} subscriptions; remove one first")]
    TooMany,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Subscriber {
    /// Whom a subscription tells; nobody, once it has ended.
    pub(crate) fn of(subscription: Subscription) -> Option<Self> {
        let Subscription { id, url, events, ended, .. } = subscription;
        ended.is_none().then_some(Self { id, url, events })
    }
}

/// Subscriptions.
pub trait Subscriptions: Send + Sync + 'static {
    /// Adds one.
    fn subscribe(&self, subscription: Subscription) -> Answer<(), SubscribeError>;

    /// One of them.
    fn subscription(&self, id: &str) -> Answer<Option<Subscription>>;

    /// Those of a key, or of all keys, by time and id; those that have ended as well.
    fn subscriptions(&self, key: Option<&str>) -> Answer<Vec<Subscription>>;

    /// Whoever is told of the bookings of a key: its subscriptions that have not ended, by time and id. Most often from
    /// memory.
    fn subscribers(&self, key: &str) -> Answer<Arc<Vec<Subscriber>>>;

    /// Signs with a new secret from now on, and with the present one as well until then; false where there is none of that
    /// name.
    fn rotate_subscription(&self, id: &str, secret: Secret, until: Timestamp) -> Answer<bool>;

    /// Ends one because its receiver wants no more, or has it begin again; false where there is none of that name.
    fn end_subscription(&self, id: &str, why: Option<&str>) -> Answer<bool>;

    /// Removes one; false where there is none of that name.
    fn unsubscribe(&self, id: &str) -> Answer<bool>;
}
