//! Webhook subscriptions: which key's bookings are reported, to which URL, and with which secrets.

use crate::{StoreError, StoreFuture};
use sabir_proto::{Secret, Timestamp};
use std::sync::Arc;

/// The most subscriptions that one key may have.
pub const SUBSCRIPTIONS_PER_KEY_MAX: usize = 16;

/// A webhook subscription to the bookings of a key. The secrets are stored because deliveries are signed with them;
/// code that shows a subscription leaves them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The id of the subscription; unique.
    pub id: String,
    /// The key whose bookings are reported.
    pub key: String,
    /// The URL that is called.
    pub url: String,
    /// The names of the events to report; empty for all.
    pub events: Vec<String>,
    /// The secret that signs deliveries.
    pub secret: Secret,
    /// The secret before it, and until when deliveries are signed with that one too.
    pub previous: Option<(Secret, Timestamp)>,
    pub created_at: Timestamp,
    /// The reason why deliveries have stopped.
    pub ended: Option<String>,
}

/// The receiver of booking notifications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The id of its subscription.
    pub id: String,
    /// The URL that is called.
    pub url: String,
    /// The names of the events to report; empty for all.
    pub events: Vec<String>,
}

/// Why a subscription was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Another subscription has this id.
    #[error("there is such a subscription already")]
    Taken,
    /// The key has as many as it may.
    #[error("a key has at most {SUBSCRIPTIONS_PER_KEY_MAX} subscriptions; remove one first")]
    TooMany,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Subscriber {
    /// The receiver of a subscription; `None` once the subscription has ended.
    pub(crate) fn of(subscription: Subscription) -> Option<Self> {
        let Subscription { id, url, events, ended, .. } = subscription;
        ended.is_none().then_some(Self { id, url, events })
    }
}

/// The stored webhook subscriptions.
pub trait Subscriptions: Send + Sync + 'static {
    /// Adds a subscription.
    fn subscribe(&self, subscription: Subscription) -> StoreFuture<(), SubscribeError>;

    /// The subscription with this id.
    fn subscription(&self, id: &str) -> StoreFuture<Option<Subscription>>;

    /// The subscriptions of a key, or of all keys, by time and id; ended ones too.
    fn subscriptions(&self, key: Option<&str>) -> StoreFuture<Vec<Subscription>>;

    /// The receivers for the bookings of a key: its subscriptions that have not ended, by time and id. Most often from
    /// memory.
    fn subscribers(&self, key: &str) -> StoreFuture<Arc<Vec<Subscriber>>>;

    /// Signs with a new secret from now on, and with the present one as well until then; false where no subscription
    /// has this id.
    fn rotate_subscription(&self, id: &str, secret: Secret, until: Timestamp) -> StoreFuture<bool>;

    /// Ends a subscription because its receiver wants no more, or resumes it with `None`; false where none has this id.
    fn end_subscription(&self, id: &str, why: Option<&str>) -> StoreFuture<bool>;

    /// Removes a subscription; false where none has this id.
    fn unsubscribe(&self, id: &str) -> StoreFuture<bool>;
}
