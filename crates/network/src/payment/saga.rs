//! The payment saga: one turn of the network's agent, which resumes wherever it stopped.

use super::{CAPTURE_PATIENCE, Capture, Cashier, Charge, HOLD_TIME, Offer, PAUSE_MAX, PAUSE_MIN, PROMISE_PATIENCE};
use super::{PaymentProcessor, Promise, Refused};
use crate::answer;
use sabir_engine::{BoxFuture, Context, Ending, Failure};
use sabir_proto::agnt::{Problem, ProblemCode};
use sabir_proto::{Artifact, ArtifactId, Object, Part, Timestamp};
use sabir_store::{
    BookingStatus, Effect, Interaction, Ledger, NewBooking, Payment, PaymentStatus, PaymentStep, StoreError,
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
    pub(crate) made: Option<Notice>,
    /// … and if it is cancelled after that.
    pub(crate) called_off: Option<Notice>,
    /// The record of the envelope, written once the payment has succeeded.
    pub(crate) record: Option<Box<Interaction>>,
}

/// A notification of subscribers about a booking.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    /// The push configurations of the subscribers.
    pub(crate) owed: Vec<Effect>,
    /// The artifact with the data that they receive.
    pub(crate) artifact: Artifact,
}

/// The outcome of the saga.
enum End {
    Paid,
    /// With the reason, and details for programs.
    Declined(String, Option<Value>),
}

impl Cashier {
    /// Makes a payment, or resumes it.
    pub(crate) async fn take(&self, offer: Offer, purchase: Purchase<'_>) -> Result<Result<Ending, Problem>, Failure> {
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
    capture: Capture,
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
        self.purchase.cx.leave(after.name());
        Ok(self.purchase.cx.commit().await?)
    }

    /// Step 1: the payment, and the slot held for it.
    fn open(&self, day_max: Option<u64>) {
        let (cx, now) = (self.purchase.cx, self.now());
        if let Some(booking) = &self.purchase.booking {
            let hold = i64::try_from(HOLD_TIME.as_millis()).unwrap_or(i64::MAX);
            cx.effect(Effect::Book(Box::new(NewBooking {
                status: BookingStatus::PendingPayment,
                held_until: Some(Timestamp::from_millis(now.millis().saturating_add(hold))),
                usage: None,
                interaction: None,
                ..booking.clone()
            })));
        }
        let payment = Payment {
            id: self.charge.id,
            key: self.purchase.key.clone(),
            amount: self.charge.amount,
            currency: self.charge.currency.clone(),
            processor: self.processor.name().to_owned(),
            token: self.charge.token.digest(),
            once: self.processor.once(&self.charge),
            books: self.purchase.booking.is_some(),
            status: PaymentStatus::Authorizing,
            reference: None,
            receipt: None,
            created_at: now,
            journal: Vec::new(),
        };
        cx.effect(Effect::Pay(Box::new(PaymentStep::Open { payment, day_max })));
    }

    /// Runs from the last commit to the end.
    async fn run(&self) -> Result<Ending, Failure> {
        loop {
            let Some(payment) = self.payment().await? else {
                return Err(Failure("the payment is not in the ledger".into()));
            };
            let reference = payment.reference.as_deref();
            match payment.status {
                PaymentStatus::Authorizing => match self.promised().await {
                    Ok(promise) => {
                        self.make(&promise).await?;
                        if self.capture == Capture::AuthorizeOnly {
                            return self.end(End::Paid, &payment, PaymentStatus::Authorized).await;
                        }
                    }
                    Err(Refused::Declined(words, details)) => {
                        // The processor refused, so there is nothing to void.
                        self.call_off(&payment, PaymentStatus::Failed, &words);
                        return self.end(End::Declined(words, details), &payment, PaymentStatus::Failed).await;
                    }
                    Err(Refused::Unknown(words)) => self.call_off(&payment, PaymentStatus::Voiding, &words),
                },
                PaymentStatus::Authorized if self.capture == Capture::AuthorizeOnly => {
                    return self.end(End::Paid, &payment, PaymentStatus::Authorized).await;
                }
                PaymentStatus::Authorized => match self.captured(reference.unwrap_or_default()).await {
                    Ok(receipt) => {
                        self.move_to(payment.status, PaymentStatus::Captured, None, Some(receipt.to_string()));
                        let paid = Payment { receipt: Some(receipt.to_string()), ..payment };
                        return self.end(End::Paid, &paid, PaymentStatus::Captured).await;
                    }
                    Err(Refused::Declined(words, _)) => {
                        self.call_off(&payment, PaymentStatus::Voiding, &words);
                        self.tell(self.purchase.called_off.as_ref()).await?;
                    }
                    // The money may or may not be ours, so the booking is not cancelled and the money not given back.
                    // An operator has to look.
                    Err(Refused::Unknown(words)) => {
                        tracing::error!(payment = %self.charge.id, words, "nobody knows whether a payment was taken");
                        let words = "nobody knows whether the money was taken; the operator was told".to_owned();
                        return Ok(self.failed(&words, None));
                    }
                },
                PaymentStatus::Voiding => {
                    self.voided(reference).await;
                    let why = payment.journal.last().and_then(|entry| entry.why.clone());
                    let words = why.unwrap_or_else(|| "the payment could not be made".into());
                    self.move_to(payment.status, PaymentStatus::Failed, None, None);
                    return self.end(End::Declined(words, None), &payment, PaymentStatus::Failed).await;
                }
                PaymentStatus::Captured => return self.end(End::Paid, &payment, PaymentStatus::Captured).await,
                PaymentStatus::Failed => {
                    let words = payment.journal.last().and_then(|entry| entry.why.clone()).unwrap_or_default();
                    return self.end(End::Declined(words, None), &payment, PaymentStatus::Failed).await;
                }
            }
            self.commit(payment.status).await?;
        }
    }

    async fn promised(&self) -> Result<Promise, Refused> {
        self.patiently(PROMISE_PATIENCE, || self.processor.promise(&self.charge)).await
    }

    async fn captured(&self, reference: &str) -> Result<Value, Refused> {
        self.patiently(CAPTURE_PATIENCE, || self.processor.capture(&self.charge, reference)).await
    }

    async fn voided(&self, reference: Option<&str>) {
        let voided = self.patiently(CAPTURE_PATIENCE, || self.processor.void(&self.charge, reference)).await;
        if let Err(refused) = voided {
            tracing::error!(payment = %self.charge.id, ?refused, "a promise could not be taken back; see to it by hand");
        }
    }

    /// Repeats a request while its result is unknown, for this long.
    async fn patiently<'a, T>(
        &'a self,
        patience: Duration,
        ask: impl Fn() -> BoxFuture<'a, Result<T, Refused>>,
    ) -> Result<T, Refused> {
        let (began, mut pause) = (self.now(), PAUSE_MIN);
        loop {
            match ask().await {
                Err(Refused::Unknown(words)) => {
                    let waited = self.now().millis().saturating_sub(began.millis());
                    if u128::try_from(waited).unwrap_or(0) + pause.as_millis() > patience.as_millis() {
                        return Err(Refused::Unknown(words));
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
    async fn make(&self, promise: &Promise) -> Result<(), Failure> {
        let cx = self.purchase.cx;
        if let Some(booking) = &self.purchase.booking {
            cx.effect(Effect::MoveBooking {
                booking: self.charge.id,
                from: BookingStatus::PendingPayment,
                to: BookingStatus::Pending,
                at: self.now(),
                usage: booking.usage.clone(),
            });
        }
        self.tell(self.purchase.made.as_ref()).await?;
        self.move_to(PaymentStatus::Authorizing, PaymentStatus::Authorized, Some(promise.reference.clone()), None);
        Ok(())
    }

    async fn tell(&self, notice: Option<&Notice>) -> Result<(), Failure> {
        if let Some(Notice { owed, artifact }) = notice.cloned() {
            owed.into_iter().for_each(|effect| self.purchase.cx.effect(effect));
            self.purchase.cx.chunk(artifact, false, true).await?;
        }
        Ok(())
    }

    /// Frees the slot, and moves the payment towards its end.
    fn call_off(&self, payment: &Payment, to: PaymentStatus, why: &str) {
        let cx = self.purchase.cx;
        if payment.books {
            let from = match payment.status {
                PaymentStatus::Authorizing => BookingStatus::PendingPayment,
                _ => BookingStatus::Pending,
            };
            let (booking, at) = (self.charge.id, self.now());
            cx.effect(Effect::MoveBooking { booking, from, to: BookingStatus::Cancelled, at, usage: None });
        }
        let (from, at, why) = (payment.status, self.now(), Some(why.to_owned()));
        let step = PaymentStep::Move { from, to, at, why, reference: None, receipt: None };
        cx.effect(Effect::Pay(Box::new(step)));
    }

    fn move_to(&self, from: PaymentStatus, to: PaymentStatus, reference: Option<String>, receipt: Option<String>) {
        let step = PaymentStep::Move { from, to, at: self.now(), why: None, reference, receipt };
        self.purchase.cx.effect(Effect::Pay(Box::new(step)));
    }

    async fn end(&self, end: End, payment: &Payment, status: PaymentStatus) -> Result<Ending, Failure> {
        match end {
            End::Paid => {
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
                let artifact = Artifact::new(id, vec![Part::data(answer::data(&Value::Object(shown)))]);
                self.purchase.cx.chunk(artifact, false, true).await?;
                if let Some(record) = &self.purchase.record {
                    self.purchase.cx.effect(Effect::Interaction(record.clone()));
                }
                Ok(Ending::complete())
            }
            End::Declined(words, details) => {
                let mut problem = Problem::new(ProblemCode::PaymentDeclined, words);
                problem.details =
                    details.as_ref().and_then(Value::as_object).and_then(|all| Object::from_map(all).ok());
                Ok(Ending::Reject(vec![Part::data(answer::data(&answer::refusal(&problem)))]))
            }
        }
    }

    fn failed(&self, words: &str, details: Option<Object>) -> Ending {
        let mut problem = Problem::new(ProblemCode::Internal, words);
        problem.details = details;
        Ending::Fail(vec![Part::data(answer::data(&answer::refusal(&problem)))])
    }
}
