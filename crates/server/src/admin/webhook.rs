//! Trying a webhook: one sample delivery, under the same policy and with the same signatures as a real one.

use crate::auth_setup::ConfiguredSecrets;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::public_address::public_address;
use crate::tokio_host::TokioHost;
use crate::webhook_delivery;
use prometheus_client::registry::Registry;
pub use sabir_engine::{DeliveryOutcome, DeliveryResult};
use sabir_engine::{DeliveryRequest, Host as _, PushTransport as _, delivery_id};
use sabir_guard::authenticator::SecretResolver as _;
use sabir_proto::{
    AgentName, Authentication, Caller, ContextId, Event, FrozenEvent, PushConfig, Secret, Seq, Stamp, StatusUpdate,
    TaskId, TaskState, TaskStatus, Tenant,
};
use sabir_store::{Scope, SecretRef, TaskStore};
use std::sync::Arc;

/// A webhook as its client would register it.
#[derive(Debug, Clone, Default)]
pub struct Webhook {
    /// The URL of the webhook.
    pub url: String,
    /// The token that each delivery carries.
    pub token: Option<SecretRef>,
    /// The authentication scheme of the receiver.
    pub scheme: Option<String>,
    /// The credentials for that scheme.
    pub credentials: Option<SecretRef>,
}

impl Webhook {
    /// The push configuration that such a client would register.
    fn register(self, secrets: &ConfiguredSecrets) -> Result<PushConfig, String> {
        let reveal = |what: Option<SecretRef>| what.map(|what| secrets.resolve(&what)).transpose();
        let text = |secret: Secret| secret.expose().to_owned();
        let credentials = reveal(self.credentials)?.map(text);
        let authentication = self.scheme.map(|scheme| Authentication { scheme, credentials });
        Ok(PushConfig {
            id: Some("sample".into()),
            url: self.url,
            token: reveal(self.token)?.map(text),
            authentication,
        })
    }
}

/// A sample delivery and its result.
#[derive(Debug)]
pub struct WebhookTrial {
    /// The id of the delivery.
    pub id: String,
    /// The body that was sent.
    pub body: String,
    /// The result of the attempt.
    pub delivered: DeliveryResult,
}

/// Sends a sample to a webhook, as a server with this configuration would. An error names the configuration key.
pub async fn try_webhook(config: &Config, webhook: Webhook) -> Result<WebhookTrial, String> {
    let public = public_address(config, config.server.listen);
    let metrics = Metrics::register(&mut Registry::default());
    let nothing = TaskStore::in_memory();
    let courier = webhook_delivery::webhook_client(config, &public, &nothing, metrics)?;
    let parcel = sample(webhook.register(&ConfiguredSecrets::new(config))?)?;
    let (id, body) = (parcel.id.clone(), String::from_utf8_lossy(&parcel.event.json).into_owned());
    Ok(WebhookTrial { id, body, delivered: courier.deliver(parcel).await })
}

/// The completion of a task that does not exist.
fn sample(config: PushConfig) -> Result<DeliveryRequest, String> {
    let now = TokioHost.now();
    let task = TaskId::new(Stamp::first_of(now), TokioHost.random());
    let context_id = ContextId::parse(&format!("sample-{task}")).map_err(|e| e.to_string())?;
    let status = TaskStatus { state: TaskState::Completed, message: None, timestamp: Some(now) };
    let event = Event::StatusUpdate(StatusUpdate { task_id: task, context_id, status, metadata: None });
    let agent = AgentName::parse("sample").map_err(|e| e.to_string())?;
    Ok(DeliveryRequest {
        config,
        dialect: sabir_wire::Dialect::V1.name().into(),
        task,
        scope: Arc::new(Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent }),
        event: FrozenEvent::freeze(Seq(1), &event),
        at: now,
        id: delivery_id(task, "sample", Seq(1)),
        attempt: 1,
    })
}
