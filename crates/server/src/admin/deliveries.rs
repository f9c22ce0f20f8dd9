//! Webhook deliveries: those that wait in the outbox, and those that were given up (dead letters).

use super::operation::{Endpoint, OperationAccess, Perform, StorePart};
use super::service::{AdminService, Operator, now};
use super::{AdminError, AdminErrorCode};
use sabir_engine::TaskLog;
use sabir_proto::{TaskId, Timestamp};
use sabir_store::{AuditSubject, Delivery, DeliveryQuery, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of deliveries on one page.
pub const DELIVERIES_MAX: usize = 1000;
/// Deliveries on a page where a request names no number.
const DELIVERIES_DEFAULT: usize = 100;

const fn deliveries_default() -> usize {
    DELIVERIES_DEFAULT
}

/// Which deliveries a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// It waits in the outbox.
    #[default]
    Waiting,
    /// It was given up.
    Dead,
}

/// Lists deliveries by number.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDeliveries {
    /// Those that wait, or those that were given up.
    #[serde(default)]
    pub state: DeliveryState,
    /// Only deliveries of this task.
    #[serde(default)]
    pub task: Option<String>,
    /// Only deliveries with a higher number.
    #[serde(default)]
    pub after: i64,
    /// Maximum number of deliveries in the response.
    #[serde(default = "deliveries_default")]
    pub limit: usize,
}

/// Shows one delivery with its latest attempts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowDelivery {
    pub number: i64,
}

/// Attempts a delivery now, and begins its retries anew.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryDelivery {
    pub number: i64,
}

/// Deletes a delivery for good.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropDelivery {
    pub number: i64,
}

/// A page of deliveries, by number.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryList {
    pub deliveries: Vec<DeliveryView>,
}

/// A webhook delivery, waiting or dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryView {
    /// The number of the delivery in the outbox.
    pub number: i64,
    pub task_id: String,
    /// The id of the push configuration that registered the webhook.
    pub config_id: String,
    /// Scheme, host and port of the webhook. The rest of its URL may be secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// The dialect in which the webhook was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<String>,
    /// The oldest event of the delivery.
    pub first_event: u64,
    /// The newest event of the delivery.
    pub last_event: u64,
    /// When the events happened.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// When the outbox tries it next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub due: Option<Timestamp>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The latest attempts, oldest first.
    pub tries: Vec<AttemptView>,
    /// When it became a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub buried: Option<Timestamp>,
    /// Why it became a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub state: DeliveryState,
}

/// One attempt of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// When the attempt ended.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// How long the attempt took, in milliseconds.
    pub took_ms: u64,
    /// The HTTP status of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the attempt failed.
    pub problem: String,
}

impl Perform for ListDeliveries {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/deliveries", "List webhook deliveries");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<DeliveryList, AdminError> {
        let log = &*service.tasks()?.log;
        let wrong = |text: String| AdminError::invalid(format!("{text:?} is not the id of a task"));
        let task = self.task.map(|text| TaskId::parse(&text).ok_or(text)).transpose().map_err(wrong)?;
        let (dead, limit) = (self.state == DeliveryState::Dead, self.limit.clamp(1, DELIVERIES_MAX));
        let mut deliveries = Vec::new();
        for delivery in log.deliveries(DeliveryQuery { dead, task, after: self.after, limit }).await? {
            deliveries.push(delivery_view(log, delivery).await?);
        }
        Ok(DeliveryList { deliveries })
    }
}

impl Perform for ShowDelivery {
    const ACCESS: OperationAccess = OperationAccess::Look;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::get("/deliveries/{number}", "Show a webhook delivery");

    async fn perform(self, service: &AdminService, _: &Operator) -> Result<DeliveryView, AdminError> {
        let log = &*service.tasks()?.log;
        delivery_view(log, find(log, self.number).await?).await.map_err(AdminError::from)
    }
}

impl Perform for RetryDelivery {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::post("/deliveries/{number}/retry", "Try a webhook delivery now");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<DeliveryView, AdminError> {
        let log = &*service.tasks()?.log;
        let delivery = find(log, self.number).await?;
        let (task, view) = (delivery.task, delivery_view(log, delivery).await?);
        if !log.retry(self.number, now()).await? {
            return Err(none(self.number));
        }
        service.record_change(operator, "delivery.retry", Some(AuditSubject::Task(task))).await?;
        Ok(view)
    }
}

impl Perform for DropDelivery {
    const ACCESS: OperationAccess = OperationAccess::Change;
    const STORE: StorePart = StorePart::ExistingTasks;
    const ENDPOINT: Endpoint = Endpoint::delete("/deliveries/{number}", "Delete a webhook delivery for good");

    async fn perform(self, service: &AdminService, operator: &Operator) -> Result<DeliveryView, AdminError> {
        let log = &*service.tasks()?.log;
        let delivery = find(log, self.number).await?;
        let (task, view) = (delivery.task, delivery_view(log, delivery).await?);
        if !log.discard(self.number).await? {
            return Err(none(self.number));
        }
        service.record_change(operator, "delivery.drop", Some(AuditSubject::Task(task))).await?;
        Ok(view)
    }
}

async fn find(log: &dyn TaskLog, number: i64) -> Result<Delivery, AdminError> {
    log.delivery(number).await?.ok_or_else(|| none(number))
}

fn none(number: i64) -> AdminError {
    let words = format!("there is no delivery {number}; what was delivered is not kept");
    AdminError::new(AdminErrorCode::NoDelivery, words)
}

async fn delivery_view(log: &dyn TaskLog, delivery: Delivery) -> Result<DeliveryView, StoreError> {
    // A delivery whose receiver cannot be read is shown too, so that an operator can delete it.
    let receiver = match log.receiver(delivery.task, &delivery.config).await {
        Err(StoreError::Corrupt(_)) => None,
        read => read?,
    };
    let (buried, reason) = delivery.dead_letter.unzip();
    Ok(DeliveryView {
        number: delivery.number,
        task_id: delivery.task.to_string(),
        receiver: receiver.as_ref().and_then(|receiver| origin(&receiver.config.url)),
        dialect: receiver.map(|receiver| receiver.dialect.to_string()),
        config_id: delivery.config,
        first_event: delivery.first.0,
        last_event: delivery.last.0,
        at: delivery.at,
        due: delivery.due,
        attempts: delivery.attempts,
        tries: delivery.recent_attempts.into_iter().map(AttemptView::from).collect(),
        state: if buried.is_some() { DeliveryState::Dead } else { DeliveryState::Waiting },
        buried,
        reason,
    })
}

impl From<sabir_store::Attempt> for AttemptView {
    fn from(attempt: sabir_store::Attempt) -> Self {
        let at = Timestamp::from_millis(attempt.at_ms);
        Self { at, took_ms: attempt.took_ms, status: attempt.status, problem: attempt.problem }
    }
}

/// Scheme, host and port, without names and passwords.
fn origin(url: &str) -> Option<String> {
    Some(url::Url::parse(url).ok()?.origin().ascii_serialization())
}
