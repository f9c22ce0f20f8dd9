//! The payment saga: one turn of the network's agent, which resumes wherever it stopped.

use super::{
    AUTHORIZE_TIME_MAX, CAPTURE_TIME_MAX, CaptureMode, Charge, HOLD_TIME, PAUSE_MAX, PAUSE_MIN, PaymentRequest,
    PaymentService,
};
use super::{Authorization, PaymentProcessor, ProcessorError};
use crate::response;
use sabir_engine::{BoxFuture, Context, Ending, Failure};
use sabir_gateway::{Problem, ProblemCode};
use sabir_proto::{Artifact, ArtifactId, Object, Part, Timestamp};
use sabir_store::{
    BookingStatus, Effect, Interaction, Ledger, LedgerEffect, NewBooking, Payment, PaymentStatus, PaymentStep,
    StoreError,
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The id of the artifact that a payment leaves.
pub(crate) const PAYMENT: &str = "payment";

/// The network's part of a payment.
pub(crate) struct Purchase<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) ledger: &'a dyn Ledger,
    /// The id of the key that pays.
    pub(crate) key: String,
    /// The booking, as it would be made without a payment.
    pub(crate) booking: Option<NewBooking>,
    /// The notification of subscribers once the booking is made …
    pub(crate) on_confirmed: Option<BookingNotification>,
    /// … and if it is cancelled after that.
    pub(crate) on_cancelled: Option<BookingNotification>,
    /// The record of the envelope, written once the payment has succeeded.
    pub(crate) interaction: Option<Box<Interaction>>,
}

/// A notification of subscribers about a booking.
#[derive(Debug, Clone)]
pub(crate) struct BookingNotification {
    /// The push configurations of the subscribers.
    pub(crate) effects: Vec<Effect>,
    /// The artifact with the data that they receive.
    pub(crate) artifact: Artifact,
}

/// The outcome of the saga.
enum SagaOutcome {
    Paid,
    /// With the reason, and details for programs.
    Declined(String, Option<Value>),
}

impl PaymentService {
    /// Makes a payment, or resumes it.
    pub(crate) async fn pay(
        &self,
        offer: PaymentRequest,
        purchase: Purchase<'_>,
    ) -> Result<Result<Ending, Problem>, Failure> {
        let processor = match self.processor(offer.token.kind()) {
            Ok(processor) => processor,
            Err(problem) => return Ok(Err(problem)),
        };
        if self.caps.payment_max.is_some_and(|max| offer.amount > max) {
            let problem = Problem::new(ProblemCode::PaymentLimitExceeded, "one payment may not come to so much here");
            return Ok(Err(problem));
        }
        let charge = Charge {
            id: purchase.cx.task_id(),
            amount: offer.amount,
            currency: offer.currency.clone(),
            token: offer.token,
        };
        let saga = Saga { processor, charge, capture: offer.capture, purchase };
        if saga.payment().await?.is_none() {
            saga.open(self.caps.day_max);
            saga.commit(PaymentStatus::Authorizing).await?;
        }
        saga.run().await.map(Ok)
    }
}

struct Saga<'a> {
    processor: &'a dyn PaymentProcessor,
    charge: Charge,
    capture: CaptureMode,
    purchase: Purchase<'a>,
}

impl Saga<'_> {
    async fn payment(&self) -> Result<Option<Payment>, StoreError> {
        self.purchase.ledger.payment(self.charge.id).await
    }

    fn now(&self) -> Timestamp {
        self.purchase.cx.now()
    }

    /// Commits the collected effects. Leaves a checkpoint, so that a turn that got further is not taken for one in a
    /// loop.
    async fn commit(&self, after: PaymentStatus) -> Result<(), Failure> {
        self.purchase.cx.set_next_checkpoint(after.name());
        Ok(self.purchase.cx.commit().await?)
    }

    /// Step 1: the payment, and the slot held for it.
    fn open(&self, day_max: Option<u64>) {
        let (cx, now) = (self.purchase.cx, self.now());
        if let Some(booking) = &self.purchase.booking {
            let hold = i64::try_from(HOLD_TIME.as_millis()).unwrap_or(i64::MAX);
            cx.add_effect(LedgerEffect::Book(NewBooking {
                status: BookingStatus::PendingPayment,
                held_until: Some(Timestamp::from_millis(now.millis().saturating_add(hold))),
                usage: None,
                interaction: None,
                ..booking.clone()
            }));
        }
        let payment = Payment {
            id: self.charge.id,
            key: self.purchase.key.clone(),
            amount: self.charge.amount,
            currency: self.charge.currency.clone(),
            processor: self.processor.name().to_owned(),
            token: self.charge.token.digest(),
            once: self.processor.single_use_key(&self.charge),
            books: self.purchase.booking.is_some(),
            status: PaymentStatus::Authorizing,
            reference: None,
            receipt: None,
            created_at: now,
            journal: Vec::new(),
        };
        cx.add_effect(LedgerEffect::Pay(PaymentStep::Open { payment, day_max }));
    }

    /// Runs from the last commit to the end.
    async fn run(&self) -> Result<Ending, Failure> {
        loop {
            let Some(payment) = self.payment().await? else {
                return Err(Failure("the payment is not in the ledger".into()));
            };
            let reference = payment.reference.as_deref();
            match payment.status {
                PaymentStatus::Authorizing => match self.authorize().await {
                    Ok(promise) => {
                        self.confirm_booking(&promise).await?;
                        if self.capture == CaptureMode::AuthorizeOnly {
                            return self.end(SagaOutcome::Paid, &payment, PaymentStatus::Authorized).await;
                        }
                    }
                    Err(ProcessorError::Declined(words, details)) => {
                        // The processor refused, so there is nothing to void.
                        self.cancel_booking(&payment, PaymentStatus::Failed, &words);
                        return self.end(SagaOutcome::Declined(words, details), &payment, PaymentStatus::Failed).await;
                    }
                    Err(ProcessorError::Unknown(words)) => {
                        self.cancel_booking(&payment, PaymentStatus::Voiding, &words)
                    }
                },
                PaymentStatus::Authorized if self.capture == CaptureMode::AuthorizeOnly => {
                    return self.end(SagaOutcome::Paid, &payment, PaymentStatus::Authorized).await;
                }
                PaymentStatus::Authorized => match self.capture(reference.unwrap_or_default()).await {
                    Ok(receipt) => {
                        self.move_to(payment.status, PaymentStatus::Captured, None, Some(receipt.to_string()));
                        let paid = Payment { receipt: Some(receipt.to_string()), ..payment };
                        return self.end(SagaOutcome::Paid, &paid, PaymentStatus::Captured).await;
                    }
                    Err(ProcessorError::Declined(words, _)) => {
                        self.cancel_booking(&payment, PaymentStatus::Voiding, &words);
                        self.notify_subscribers(self.purchase.on_cancelled.as_ref()).await?;
                    }
                    // The money may or may not be ours, so the booking is not cancelled and the money not given back.
                    // An operator has to look.
                    Err(ProcessorError::Unknown(words)) => {
                        tracing::error!(payment = %self.charge.id, words, "it is unknown whether a payment was taken");
                        let words = "it is unknown whether the money was taken; the operator was told".to_owned();
                        return Ok(self.internal_error(&words, None));
                    }
                },
                PaymentStatus::Voiding => {
                    self.void(reference).await;
                    let why = payment.journal.last().and_then(|entry| entry.why.clone());
                    let words = why.unwrap_or_else(|| "the payment could not be made".into());
                    self.move_to(payment.status, PaymentStatus::Failed, None, None);
                    return self.end(SagaOutcome::Declined(words, None), &payment, PaymentStatus::Failed).await;
                }
                PaymentStatus::Captured => return self.end(SagaOutcome::Paid, &payment, PaymentStatus::Captured).await,
                PaymentStatus::Failed => {
                    let words = payment.journal.last().and_then(|entry| entry.why.clone()).unwrap_or_default();
                    return self.end(SagaOutcome::Declined(words, None), &payment, PaymentStatus::Failed).await;
                }
            }
            self.commit(payment.status).await?;
        }
    }

    async fn authorize(&self) -> Result<Authorization, ProcessorError> {
        self.retry_while_unknown(AUTHORIZE_TIME_MAX, || self.processor.authorize(&self.charge)).await
    }

    async fn capture(&self, reference: &str) -> Result<Value, ProcessorError> {
        self.retry_while_unknown(CAPTURE_TIME_MAX, || self.processor.capture(&self.charge, reference)).await
    }

    async fn void(&self, reference: Option<&str>) {
        let voided = self.retry_while_unknown(CAPTURE_TIME_MAX, || self.processor.void(&self.charge, reference)).await;
        if let Err(refused) = voided {
            tracing::error!(payment = %self.charge.id, ?refused, "a promise could not be taken back; see to it by hand");
        }
    }

    /// Repeats a request while its result is unknown, for this long.
    async fn retry_while_unknown<'a, T>(
        &'a self,
        patience: Duration,
        ask: impl Fn() -> BoxFuture<'a, Result<T, ProcessorError>>,
    ) -> Result<T, ProcessorError> {
        let (began, mut pause) = (self.now(), PAUSE_MIN);
        loop {
            match ask().await {
                Err(ProcessorError::Unknown(words)) => {
                    let waited = self.now().millis().saturating_sub(began.millis());
                    if u128::try_from(waited).unwrap_or(0) + pause.as_millis() > patience.as_millis() {
                        return Err(ProcessorError::Unknown(words));
                    }
                    tracing::warn!(payment = %self.charge.id, words, "a processor gives no answer; asking again");
                    self.purchase.cx.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                known => return known,
            }
        }
    }

    /// Step 3: the money is authorised, so the booking is made.
    async fn confirm_booking(&self, promise: &Authorization) -> Result<(), Failure> {
        let cx = self.purchase.cx;
        if let Some(booking) = &self.purchase.booking {
            cx.add_effect(LedgerEffect::MoveBooking {
                booking: self.charge.id,
                from: BookingStatus::PendingPayment,
                to: BookingStatus::Pending,
                at: self.now(),
                usage: booking.usage.clone(),
            });
        }
        self.notify_subscribers(self.purchase.on_confirmed.as_ref()).await?;
        self.move_to(PaymentStatus::Authorizing, PaymentStatus::Authorized, Some(promise.reference.clone()), None);
        Ok(())
    }

    async fn notify_subscribers(&self, notice: Option<&BookingNotification>) -> Result<(), Failure> {
        if let Some(BookingNotification { effects: owed, artifact }) = notice.cloned() {
            owed.into_iter().for_each(|effect| self.purchase.cx.add_effect(effect));
            self.purchase.cx.chunk(artifact, false, true).await?;
        }
        Ok(())
    }

    /// Frees the slot, and moves the payment towards its end.
    fn cancel_booking(&self, payment: &Payment, to: PaymentStatus, why: &str) {
        let cx = self.purchase.cx;
        if payment.books {
            let from = match payment.status {
                PaymentStatus::Authorizing => BookingStatus::PendingPayment,
                _ => BookingStatus::Pending,
            };
            let (booking, at) = (self.charge.id, self.now());
            cx.add_effect(LedgerEffect::MoveBooking { booking, from, to: BookingStatus::Cancelled, at, usage: None });
        }
        let (from, at, why) = (payment.status, self.now(), Some(why.to_owned()));
        let step = PaymentStep::Move { from, to, at, why, reference: None, receipt: None };
        cx.add_effect(LedgerEffect::Pay(step));
    }

    fn move_to(&self, from: PaymentStatus, to: PaymentStatus, reference: Option<String>, receipt: Option<String>) {
        let step = PaymentStep::Move { from, to, at: self.now(), why: None, reference, receipt };
        self.purchase.cx.add_effect(LedgerEffect::Pay(step));
    }

    async fn end(&self, end: SagaOutcome, payment: &Payment, status: PaymentStatus) -> Result<Ending, Failure> {
        match end {
            SagaOutcome::Paid => {
                let mut shown = Map::new();
                shown.insert("payment_id".into(), json!(self.charge.id.to_string()));
                shown.insert("status".into(), json!(status.name()));
                if payment.books {
                    shown.insert("booking_id".into(), json!(self.charge.id.to_string()));
                    shown.insert("booking_status".into(), json!(BookingStatus::Pending.name()));
                }
                let receipt = payment.receipt.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
                shown.insert("receipt".into(), receipt.unwrap_or_else(|| json!({"processor": payment.processor})));
                let id = ArtifactId::parse(PAYMENT).unwrap_or_else(|_| unreachable!("a plain word is an id"));
                let artifact = Artifact::new(id, vec![Part::data(response::data(&Value::Object(shown)))]);
                self.purchase.cx.chunk(artifact, false, true).await?;
                if let Some(record) = &self.purchase.interaction {
                    self.purchase.cx.add_effect(LedgerEffect::Record(record.clone()));
                }
                Ok(Ending::complete())
            }
            SagaOutcome::Declined(words, details) => {
                let mut problem = Problem::new(ProblemCode::PaymentDeclined, words);
                problem.details =
                    details.as_ref().and_then(Value::as_object).and_then(|all| Object::from_map(all).ok());
                Ok(Ending::Reject(vec![Part::data(response::data(&response::refusal(&problem)))]))
            }
        }
    }

    fn internal_error(&self, words: &str, details: Option<Object>) -> Ending {
        let mut problem = Problem::new(ProblemCode::Internal, words);
        problem.details = details;
        Ending::Fail(vec![Part::data(response::data(&response::refusal(&problem)))])
    }
}
