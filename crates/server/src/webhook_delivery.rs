//! Deliveries to webhooks: the HTTP client and its policy, the signatures, and the body of an event for each receiver.

mod budget;

use crate::auth_setup::ConfiguredSecrets;
use crate::card::{PublicAddress, signing_key};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::tokio_host::TokioHost;
use budget::PayloadBudget;
use sabir_engine::{
    BoxFuture, DeliveryOutcome, DeliveryRequest, DeliveryResult, Host as _, PushTransport, TaskLog, machine,
};
use sabir_gateway::{ReceiverSecrets, Tls, WebhookBody, WebhookEncoder, WebhookSender, WebhookSigner};
use sabir_guard::authenticator::SecretResolver as _;
use sabir_guard::sign::webhook::WebhookSecret;
use sabir_network::webhook;
use sabir_proto::{Event, FieldViolation, FrozenTask, PushConfig, Seq, TaskId};
use sabir_store::{Ledger, LossNote, SecretRef, StoreError, TaskStore};
use sabir_wire::{Dialect, Losses, write_push_event, write_push_task};
use std::sync::Arc;

/// The longest log that is folded again to get the task as of an event; of a longer one the present task is sent.
const FOLD_EVENTS_MAX: u64 = 500;

/// Makes the webhook client of a server.
pub(crate) fn webhook_client(
    config: &Config,
    public: &PublicAddress,
    stores: &TaskStore,
    metrics: Metrics,
) -> Result<WebhookSender, String> {
    config.push.check()?;
    let seal = WebhookSigner { secrets: signing_secrets(config)?, token_key: signing_key(config, public)? };
    let (log, ledger) = (stores.log.clone(), stores.ledger.clone());
    let payloads = PayloadWriter { log, ledger, metrics, budget: PayloadBudget::default() };
    WebhookSender::new(config.egress.policy(), &Tls::default(), config.push.timeout(), seal, payloads)
        .map_err(|e| e.to_string())
}

fn signing_secrets(config: &Config) -> Result<Vec<WebhookSecret>, String> {
    let Some(reference) = &config.push.webhook_secret else { return Ok(Vec::new()) };
    let wrong = |what: String| format!("push.webhook_secret: {what}");
    // The text is not repeated, because it may be the secret itself.
    let reference =
        SecretRef::parse(reference).map_err(|_| wrong("a secret is given as file:PATH or env:NAME".into()))?;
    let text = ConfiguredSecrets::new(config).resolve(&reference).map_err(wrong)?;
    WebhookSecret::read_all(&text).map_err(|fault| wrong(fault.to_string()))
}

/// Delivers events, and ends subscriptions of the booking network whose receivers are gone.
pub(crate) struct DeliveryService {
    pub(crate) webhooks: WebhookSender,
    pub(crate) ledger: Arc<dyn Ledger>,
}

impl PushTransport for DeliveryService {
    fn host_of(&self, url: &str) -> Result<Arc<str>, String> {
        self.webhooks.host_of(url)
    }

    fn check(&self, config: &PushConfig) -> Result<(), FieldViolation> {
        self.webhooks.check(config)
    }

    fn deliver(&self, parcel: DeliveryRequest) -> BoxFuture<'static, DeliveryResult> {
        let subscription = (&*parcel.dialect == webhook::DIALECT)
            .then(|| webhook::subscription_of(parcel.config.id.as_deref()?).map(str::to_owned))
            .flatten();
        let (delivery, ledger) = (self.webhooks.deliver(parcel), self.ledger.clone());
        Box::pin(async move {
            let delivered = delivery.await;
            if let (DeliveryOutcome::Gone { status }, Some(id)) = (&delivered.outcome, subscription) {
                let why = format!("its receiver answered HTTP {status}");
                if let Err(error) = ledger.end_subscription(&id, Some(&why)).await {
                    tracing::error!(%error, id, "a subscription could not be ended");
                }
            }
            delivered
        })
    }
}

/// Encodes events in the dialect in which a webhook was registered.
struct PayloadWriter {
    log: Arc<dyn TaskLog>,
    ledger: Arc<dyn Ledger>,
    metrics: Metrics,
    budget: PayloadBudget,
}

impl WebhookEncoder for PayloadWriter {
    fn encode<'a>(&'a self, parcel: &'a DeliveryRequest) -> BoxFuture<'a, Result<WebhookBody, DeliveryOutcome>> {
        Box::pin(async move {
            if &*parcel.dialect == webhook::DIALECT {
                return self.booking_payload(parcel).await;
            }
            let forbidden = |reason: String| DeliveryOutcome::Forbidden { reason };
            let dialect: Dialect = parcel.dialect.parse().map_err(|e| forbidden(format!("{e}")))?;
            if dialect == Dialect::V1 {
                let room = self.budget.acquire_bytes(parcel.event.json.len()).await;
                let (media_type, bytes) = write_push_event(&parcel.event);
                return Ok(WebhookBody { media_type, bytes, room_permit: room, receiver_secrets: None });
            }
            // Held until the body has its share of the budget, so that only a few bodies wait for one.
            let _writing = self.budget.acquire_writer().await;
            let unread =
                |e: StoreError| DeliveryOutcome::NotAttempted { reason: format!("the task cannot be read: {e}") };
            let task = self.task_at(parcel.task, parcel.event.seq).await.map_err(unread)?;
            let task = task.ok_or_else(|| forbidden("the task is no longer there".into()))?;
            let named = dialect.features().client_names_tasks;
            let names = if named { self.log.aliases_of(parcel.task).await.map_err(unread)? } else { Vec::new() };
            let name = names.into_iter().next().map(Into::into);
            let mut losses = Losses::new();
            let (media_type, bytes) =
                write_push_task(dialect, &task, name, &mut losses).map_err(|e| forbidden(e.to_string()))?;
            drop(task);
            if parcel.attempt == 1 {
                self.report(parcel.task, dialect, &losses);
            }
            let room = self.budget.acquire_bytes(bytes.len()).await;
            Ok(WebhookBody { media_type, bytes, room_permit: room, receiver_secrets: None })
        })
    }
}

impl PayloadWriter {
    /// The body for a subscriber of the booking network, with its own secrets. They are looked up for every attempt, so
    /// that a rotated secret signs.
    async fn booking_payload(&self, parcel: &DeliveryRequest) -> Result<WebhookBody, DeliveryOutcome> {
        let forbidden = |reason: &str| DeliveryOutcome::Forbidden { reason: reason.into() };
        let config = parcel.config.id.as_deref().unwrap_or_default();
        let id = webhook::subscription_of(config).ok_or_else(|| forbidden("it belongs to no subscription"))?;
        let found = self.ledger.subscription(id).await;
        let found = found
            .map_err(|e| DeliveryOutcome::NotAttempted { reason: format!("the subscription cannot be read: {e}") })?;
        let found = found.ok_or_else(|| forbidden("the subscription was removed"))?;
        let bytes = webhook::body(config, &parcel.event, parcel.at)
            .ok_or_else(|| forbidden("there is nothing in it for subscribers"))?;
        let mut secrets = vec![found.secret];
        secrets.extend(found.previous.filter(|(_, until)| *until > TokioHost.now()).map(|(secret, _)| secret));
        Ok(WebhookBody {
            media_type: "application/json",
            bytes,
            room_permit: None,
            receiver_secrets: Some(ReceiverSecrets(secrets)),
        })
    }

    /// The task as of an event, so that the body is the same at every attempt.
    async fn task_at(&self, id: TaskId, seq: Seq) -> Result<Option<FrozenTask>, StoreError> {
        let Some(stored) = self.log.load(id).await? else { return Ok(None) };
        if stored.head == seq || seq.0 > FOLD_EVENTS_MAX {
            return Ok(machine::fold(&stored));
        }
        let mut task = None;
        let mut after = Seq(0);
        while after < seq {
            let wanted = usize::try_from(seq.0 - after.0).unwrap_or(usize::MAX);
            let page = self.log.events(id, after, wanted).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in page {
                match (&mut task, event.thaw()) {
                    (None, Some(Event::Task(opening))) => task = Some(opening),
                    (Some(task), Some(happened)) => task.apply(happened, event.thaw_input()),
                    (_, None) | (None, Some(_)) => return Ok(machine::fold(&stored)),
                }
            }
        }
        Ok(task.map(|task| FrozenTask::freeze(&task)))
    }

    /// Reports what a dialect could not carry, in the same places as for responses.
    fn report(&self, task: TaskId, dialect: Dialect, losses: &Losses) {
        if losses.is_empty() {
            return;
        }
        let now = TokioHost.now();
        let mut notes = Vec::new();
        for loss in losses.notes() {
            self.metrics.loss(dialect.name(), loss.kind.name());
            notes.push(LossNote::new(dialect.name(), loss.kind.name(), &loss.path, now));
        }
        // The note is stored in the background.
        drop(self.log.add_loss_notes(task, notes));
    }
}
