//! Trying a webhook: one sample delivery, under the same policy and with the same signatures as a real one.

use super::AdminError;
use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator};
use crate::auth_setup::ConfiguredSecrets;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::tokio_host::TokioHost;
use crate::webhook_delivery;
use prometheus_client::registry::Registry;
use sabir_engine::{DeliveryOutcome, DeliveryRequest, Host as _, PushTransport as _, delivery_id};
use sabir_gateway::redact;
use sabir_guard::authenticator::SecretResolver as _;
use sabir_proto::{
    AgentName, Authentication, Caller, ContextId, Event, FrozenEvent, PushConfig, Seq, Stamp, StatusUpdate, TaskId,
    TaskState, TaskStatus, Tenant,
};
use sabir_store::{Scope, SecretRef, TaskStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Sends a sample to a webhook, as the server sends its deliveries. The sample reports the end of a task that does not
/// exist, and nothing is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TestWebhook {
    /// The URL of the webhook.
    pub url: String,
    /// The token that each delivery carries.
    pub token: Option<WebhookSecret>,
    /// The authentication scheme of the receiver.
    pub scheme: Option<String>,
    /// The credentials for that scheme.
    pub credentials: Option<WebhookSecret>,
}

/// A secret that a receiver of webhooks expects. The operator brings the value: by a reference an operator elsewhere could
/// have the server send any of its secrets to a webhook.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    /// Reads a secret from a variable or a file of this process.
    pub fn read(reference: &SecretRef) -> Result<Self, String> {
        let secret = ConfiguredSecrets::new(&Config::default()).resolve(reference)?;
        Ok(Self(secret.expose().to_owned()))
    }

    /// The value. From now on the redactor of this process hides it.
    fn into_value(self) -> String {
        redact::process_redactor().learn_temporary(&self.0);
        self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A sample delivery and its result.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookTrial {
    /// The id of the delivery.
    pub id: String,
    /// Whether the webhook accepted it.
    pub accepted: bool,
    /// What happened, in words.
    pub result: String,
    pub took_ms: u64,
    /// The body that was sent.
    pub body: String,
}

impl Perform for TestWebhook {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::Guard;
    const ENDPOINT: Endpoint = Endpoint::post("/deliveries/test", "Send a sample to a webhook");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<WebhookTrial, AdminError> {
        let metrics = Metrics::register(&mut Registry::default());
        let nothing = TaskStore::in_memory();
        let client = webhook_delivery::webhook_client(&service.config, &service.public, &nothing, metrics);
        let client = client.map_err(AdminError::refused)?;
        let request = sample(self.push_config());
        let request = request.map_err(AdminError::refused)?;
        let (id, body) = (request.id.clone(), String::from_utf8_lossy(&request.event.json).into_owned());
        let delivered = client.deliver(request).await;
        let (accepted, result) = describe_outcome(&delivered.outcome);
        let took_ms = u64::try_from(delivered.took.as_millis()).unwrap_or(u64::MAX);
        Ok(WebhookTrial { id, accepted, result, took_ms, body })
    }
}

impl TestWebhook {
    /// The push configuration that a client with these terms would register.
    fn push_config(self) -> PushConfig {
        let credentials = self.credentials.map(WebhookSecret::into_value);
        let authentication = self.scheme.map(|scheme| Authentication { scheme, credentials });
        let token = self.token.map(WebhookSecret::into_value);
        PushConfig { id: Some("sample".into()), url: self.url, token, authentication }
    }
}

/// Whether a sample was accepted, and what happened in words.
fn describe_outcome(outcome: &DeliveryOutcome) -> (bool, String) {
    match outcome {
        DeliveryOutcome::Accepted { status } => (true, format!("accepted with HTTP {status}")),
        DeliveryOutcome::Refused { status, retry_after: None } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again"))
        }
        DeliveryOutcome::Refused { status, retry_after: Some(after) } => {
            (false, format!("refused with HTTP {status}; a delivery would be tried again after {} s", after.as_secs()))
        }
        DeliveryOutcome::Gone { status } => {
            (false, format!("gone with HTTP {status}; nothing more would be delivered"))
        }
        DeliveryOutcome::Forbidden { reason } => (false, format!("not called: {reason}")),
        DeliveryOutcome::Unreachable { reason }
        | DeliveryOutcome::NoAnswer { reason }
        | DeliveryOutcome::NotAttempted { reason } => {
            (false, format!("no answer: {reason}; a delivery would be tried again"))
        }
    }
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
