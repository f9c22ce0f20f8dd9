//! The outbox for operators: pending webhook deliveries and dead letters.
//!
//! The task log belongs to one process. If a server runs, the command sends the request to the socket beside its file;
//! otherwise the command opens the file itself. The responses are the same. The socket is in the data directory, and
//! only the owner of that directory may write to it. The owner may read the file as well, so the socket needs no login.

use super::AdminError;
use super::open_or_ask::{OpenedOrAnswered, existing_store, open_or_ask};
use crate::config::Config;
use crate::tokio_host::TokioHost;
use sabir_engine::{Host as _, TaskLog};
use sabir_proto::{TaskId, Timestamp};
use sabir_store::{DeliveryQuery, StoreError};
use serde::{Deserialize, Serialize};

/// Maximum number of deliveries on one page.
pub const DELIVERIES_MAX: usize = 1000;

/// An operator's request about the webhook deliveries in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OutboxRequest {
    /// List deliveries by number.
    List {
        /// Dead letters, or else pending deliveries.
        dead: bool,
        /// Only deliveries of this task.
        task: Option<String>,
        /// Only deliveries with a higher number.
        after: i64,
        /// Maximum number of deliveries in the response, capped at [`DELIVERIES_MAX`].
        limit: usize,
    },
    /// Show one delivery of the outbox.
    Show { number: i64 },
    /// Attempt a delivery now, and begin its retries anew.
    Retry { number: i64 },
    /// Delete a delivery for good.
    Drop { number: i64 },
}

/// A webhook delivery, pending or dead, as the admin commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub at: Timestamp,
    /// When the outbox tries it next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The latest attempts, oldest first.
    pub tries: Vec<AttemptView>,
    /// When it became a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buried: Option<Timestamp>,
    /// Why it became a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One attempt of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// When the attempt ended.
    pub at: Timestamp,
    /// How long the attempt took, in milliseconds.
    pub took_ms: u64,
    /// The HTTP status of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the attempt failed.
    pub problem: String,
}

/// The response to an [`OutboxRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OutboxResponse {
    /// The response to `List`: the deliveries.
    Letters(Vec<DeliveryView>),
    /// The response to the others: the delivery as it was before; `None` if there is none of that number.
    Letter(Option<Box<DeliveryView>>),
    /// The request failed, for this reason.
    Failed(String),
}

/// Runs a request: in the server if one runs, otherwise on the opened store.
pub async fn run_outbox_request(config: &Config, order: OutboxRequest) -> Result<OutboxResponse, AdminError> {
    existing_store(config)?;
    let response = match open_or_ask(config, &order).await? {
        OpenedOrAnswered::Opened(tasks) => handle_outbox_request(&*tasks.log, order).await,
        OpenedOrAnswered::Answered(response) => response,
    };
    match response {
        OutboxResponse::Failed(reason) => Err(AdminError::Failed(reason)),
        response => Ok(response),
    }
}

/// Handles a request on an open log.
pub(crate) async fn handle_outbox_request(log: &dyn TaskLog, order: OutboxRequest) -> OutboxResponse {
    try_handle(log, order).await.unwrap_or_else(|error| OutboxResponse::Failed(error.to_string()))
}

async fn try_handle(log: &dyn TaskLog, order: OutboxRequest) -> Result<OutboxResponse, StoreError> {
    let number = match order {
        OutboxRequest::List { dead, task, after, limit } => {
            let task = match task.map(|text| TaskId::parse(&text).ok_or(text)).transpose() {
                Ok(task) => task,
                Err(text) => return Ok(OutboxResponse::Failed(format!("{text:?} is not the id of a task"))),
            };
            let wanted = DeliveryQuery { dead, task, after, limit: limit.clamp(1, DELIVERIES_MAX) };
            let mut letters = Vec::new();
            for letter in log.deliveries(wanted).await? {
                letters.push(delivery_view(log, letter).await?);
            }
            return Ok(OutboxResponse::Letters(letters));
        }
        OutboxRequest::Show { number } | OutboxRequest::Retry { number } | OutboxRequest::Drop { number } => number,
    };
    let Some(letter) = log.delivery(number).await? else { return Ok(OutboxResponse::Letter(None)) };
    let letter = delivery_view(log, letter).await?;
    let done = match order {
        OutboxRequest::Retry { number } => log.retry(number, TokioHost.now()).await?,
        OutboxRequest::Drop { number } => log.discard(number).await?,
        OutboxRequest::List { .. } | OutboxRequest::Show { .. } => true,
    };
    Ok(OutboxResponse::Letter(done.then(|| Box::new(letter))))
}

async fn delivery_view(log: &dyn TaskLog, letter: sabir_store::Delivery) -> Result<DeliveryView, StoreError> {
    // A delivery whose receiver cannot be read is shown too, so that an operator can delete it.
    let receiver = match log.receiver(letter.task, &letter.config).await {
        Err(StoreError::Corrupt(_)) => None,
        read => read?,
    };
    let (buried, reason) = letter.dead_letter.unzip();
    Ok(DeliveryView {
        number: letter.number,
        task_id: letter.task.to_string(),
        receiver: receiver.as_ref().and_then(|receiver| origin(&receiver.config.url)),
        dialect: receiver.map(|receiver| receiver.dialect.to_string()),
        config_id: letter.config,
        first_event: letter.first.0,
        last_event: letter.last.0,
        at: letter.at,
        due: letter.due,
        attempts: letter.attempts,
        tries: letter.recent_attempts.into_iter().map(AttemptView::from).collect(),
        buried,
        reason,
    })
}

impl From<sabir_store::Attempt> for AttemptView {
    fn from(tried: sabir_store::Attempt) -> Self {
        let at = Timestamp::from_millis(tried.at_ms);
        Self { at, took_ms: tried.took_ms, status: tried.status, problem: tried.problem }
    }
}

/// Scheme, host and port, without names and passwords.
fn origin(url: &str) -> Option<String> {
    Some(url::Url::parse(url).ok()?.origin().ascii_serialization())
}
