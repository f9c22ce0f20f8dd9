//! Subscriptions: the webhooks that are told of changes to the bookings of a key.

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use super::{AdminError, AdminErrorCode};
use crate::booking::subscriptions;
use sabir_proto::Timestamp;
use sabir_store::{AuditSubject, KeyId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// For how long the secret before a new one signs too, where a request does not say, in seconds.
const OVERLAP_SECONDS_DEFAULT: u64 = 24 * 3600;

const fn overlap_default() -> u64 {
    OVERLAP_SECONDS_DEFAULT
}

/// Lists the subscriptions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListSubscriptions {
    /// Only for bookings of this key.
    pub key: Option<String>,
}

/// Subscribes a webhook to the events of the bookings of a key. The response has its secret.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    /// The id of the key of these bookings.
    pub key: String,
    /// The URL of the webhook.
    pub url: String,
    /// The events to deliver; all when empty.
    #[serde(default)]
    pub events: Vec<String>,
}

/// Gives a subscription a new secret, which is in the response.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSubscription {
    pub id: String,
    /// For how long the present secret signs too, in seconds.
    #[serde(default = "overlap_default")]
    pub overlap_seconds: u64,
}

/// Removes a subscription. Deliveries that still wait for it are given up.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unsubscribe {
    pub id: String,
}

/// The subscriptions of a server.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionList {
    pub webhooks: Vec<SubscriptionView>,
}

/// A subscription without its secrets, except a secret that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionView {
    pub id: String,
    /// The id of the key whose bookings are reported.
    pub key: String,
    /// The URL of the webhook.
    pub url: String,
    /// The events to deliver; all when empty.
    pub events: Vec<String>,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// Until when the previous secret signs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub previous_until: Option<Timestamp>,
    /// Why deliveries have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The secret that signs deliveries; only in the response that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl Perform for ListSubscriptions {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::get("/webhooks", "List the webhooks of bookings");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<SubscriptionList, AdminError> {
        let listed = subscriptions::list(service.network()?.ledger(), self.key.as_deref()).await;
        Ok(SubscriptionList { webhooks: listed.map_err(AdminError::refused)? })
    }
}

impl Perform for Subscribe {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::create("/webhooks", "Subscribe a webhook to the bookings of a key");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<SubscriptionView, AdminError> {
        let Self { key, url, events } = self;
        let unknown = || AdminError::new(AdminErrorCode::UnknownKey, format!("there is no key {key}"));
        let id = KeyId::parse(&key).ok_or_else(unknown)?;
        if service.store.get(&id)?.is_none() {
            return Err(unknown().with_hint("sabir key list shows the ids"));
        }
        let network = service.network()?;
        let made = subscriptions::subscribe(network.ledger(), &key, &url, events, network.production).await;
        let made = made.map_err(AdminError::refused)?;
        service.record_change(operator, "webhook.add", Some(AuditSubject::Key(id))).await?;
        Ok(made)
    }
}

impl Perform for RotateSubscription {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::post("/webhooks/{id}/rotate", "Give a webhook of bookings another secret");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<SubscriptionView, AdminError> {
        let overlap = Duration::from_secs(self.overlap_seconds);
        let rotated = subscriptions::rotate(service.network()?.ledger(), &self.id, overlap).await;
        let rotated = rotated.map_err(AdminError::refused)?.ok_or_else(|| none(&self.id))?;
        service.record_change(operator, "webhook.rotate", subject(&rotated)).await?;
        Ok(rotated)
    }
}

impl Perform for Unsubscribe {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Tasks;
    const ENDPOINT: Endpoint = Endpoint::delete("/webhooks/{id}", "Remove a webhook of bookings");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<SubscriptionView, AdminError> {
        let removed = subscriptions::remove(service.network()?.ledger(), &self.id).await;
        let removed = removed.map_err(AdminError::refused)?.ok_or_else(|| none(&self.id))?;
        service.record_change(operator, "webhook.remove", subject(&removed)).await?;
        Ok(removed)
    }
}

fn subject(one: &SubscriptionView) -> Option<AuditSubject> {
    KeyId::parse(&one.key).map(AuditSubject::Key)
}

fn none(id: &str) -> AdminError {
    AdminError::new(AdminErrorCode::NoWebhook, format!("there is no webhook {id}"))
}
