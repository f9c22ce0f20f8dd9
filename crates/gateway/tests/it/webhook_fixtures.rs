//! A delivery, and a sender for it.

use sabir_engine::{BoxFuture, DeliveryOutcome, DeliveryRequest, PushTransport as _, delivery_id};
use sabir_gateway::{Egress, ReceiverSecrets, Tls, WebhookBody, WebhookEncoder, WebhookSender, WebhookSigner};
use sabir_proto::{AgentName, Caller, FrozenEvent, PushConfig, Secret, Seq, Stamp, TaskId, Tenant, Timestamp};
use sabir_store::Scope;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// Sends the event as it is, to a receiver with these secrets of its own.
struct JsonEncoder(Vec<&'static str>);

impl WebhookEncoder for JsonEncoder {
    fn encode<'a>(&'a self, parcel: &'a DeliveryRequest) -> BoxFuture<'a, Result<WebhookBody, DeliveryOutcome>> {
        let bytes = parcel.event.json.to_vec();
        let own: Vec<Secret> = self.0.iter().map(|text| Secret::new(*text)).collect();
        let own = (!own.is_empty()).then_some(ReceiverSecrets(own));
        Box::pin(async {
            Ok(WebhookBody { media_type: "application/a2a+json", bytes, room_permit: None, receiver_secrets: own })
        })
    }
}

pub(crate) fn webhooks(egress: Egress, seal: WebhookSigner) -> WebhookSender {
    WebhookSender::new(egress, &Tls::default(), PATIENCE, seal, JsonEncoder(Vec::new())).unwrap()
}

/// The same, for a receiver with secrets of its own.
pub(crate) fn webhooks_under(own: Vec<&'static str>, seal: WebhookSigner) -> WebhookSender {
    WebhookSender::new(inside(), &Tls::default(), PATIENCE, seal, JsonEncoder(own)).unwrap()
}

/// Public addresses and this machine's usual one.
pub(crate) fn inside() -> Egress {
    Egress::public().and_network("127.0.0.1/32".parse().unwrap())
}

pub(crate) fn parcel(url: &str) -> DeliveryRequest {
    let task = TaskId::new(Stamp::from_u64(9), 1);
    let scope = Scope { tenant: Tenant::none(), caller: Caller::anonymous(), agent: AgentName::parse("demo").unwrap() };
    let json: &[u8] = br#"{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#;
    DeliveryRequest {
        config: PushConfig { id: Some("c1".into()), url: url.into(), token: None, authentication: None },
        dialect: "1.0".into(),
        task,
        scope: Arc::new(scope),
        event: FrozenEvent { seq: Seq(3), state: None, json: json.to_vec().into(), input: None },
        at: Timestamp::from_millis(1_775_989_323_000),
        id: delivery_id(task, "c1", Seq(3)),
        attempt: 1,
    }
}

/// The outcome of one attempt.
pub(crate) async fn deliver(webhooks: &WebhookSender, parcel: DeliveryRequest) -> DeliveryOutcome {
    let delivered = webhooks.deliver(parcel).await;
    assert!(delivered.took < PATIENCE * 4, "{:?}", delivered.took);
    delivered.outcome
}
