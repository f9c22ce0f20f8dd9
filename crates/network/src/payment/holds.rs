//! Expired holds whose tasks have ended: their slots are freed.
//!
//! A payment frees its hold by itself, also after a crash. It cannot if its task has ended otherwise, because it was
//! canceled or given up.

use sabir_proto::Timestamp;
use sabir_store::{
    AppendError, BookingStatus, Effect, Ledger, LedgerEffect, LedgerError, PaymentStatus, PaymentStep, Step,
    StoreError, TaskLog,
};

/// Holds that are examined in one pass.
const HOLDS_MAX: usize = 1000;

/// Frees the slots of expired holds whose tasks have ended; returns how many. A payment that may have been authorised
/// meanwhile is left as `voiding`, and an operator has to void it.
pub async fn release_holds(log: &dyn TaskLog, ledger: &dyn Ledger, now: Timestamp) -> Result<u64, StoreError> {
    let mut released = 0;
    for booking in ledger.expired_holds(now, HOLDS_MAX).await? {
        let Some(stored) = log.load(booking.id).await? else { continue };
        if !stored.state.is_settled() {
            continue;
        }
        let (from, to) = (BookingStatus::PendingPayment, BookingStatus::Cancelled);
        let mut effects = vec![LedgerEffect::MoveBooking { booking: booking.id, from, to, at: now, usage: None }];
        let payment = ledger.payment(booking.id).await?;
        if payment.is_some_and(|payment| payment.status == PaymentStatus::Authorizing) {
            tracing::error!(payment = %booking.id, "a payment was given up; see whether the processor promised anything");
            effects.push(LedgerEffect::Pay(PaymentStep::Move {
                from: PaymentStatus::Authorizing,
                to: PaymentStatus::Voiding,
                at: now,
                why: Some("its task has ended".into()),
                reference: None,
                receipt: None,
            }));
        }
        let effects = effects.into_iter().map(Effect::from).collect();
        match log.append(Step::effects_only(booking.id, effects)).await {
            Ok(()) => released += 1,
            // Another process moved it first.
            Err(AppendError::Ledger(LedgerError::BookingMoved | LedgerError::PaymentMoved)) => {}
            Err(AppendError::Store(error)) => return Err(error),
            Err(other) => tracing::warn!(booking = %booking.id, %other, "a hold cannot be given back"),
        }
    }
    Ok(released)
}
