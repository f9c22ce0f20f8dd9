//! Usage, its batches, and payments.

use super::{LedgerState, ModelLog, Undo};
use crate::StoreFuture;
use crate::ledger::{
    Batch, BatchStatus, BatchUpdate, Billing, BillingTotals, Booking, BookingStatus, DAY_MS, LedgerError, Payment,
    PaymentJournalEntry, PaymentStatus, PaymentStep, Payments, Usage,
};
use sabir_proto::{TaskId, Timestamp};
use std::collections::BTreeMap;

impl LedgerState {
    pub(super) fn pay(&mut self, id: TaskId, step: PaymentStep, done: &mut Vec<Undo>) -> Result<(), LedgerError> {
        let before = self.payments.get(&id).cloned();
        let after = match (&before, step) {
            (None, PaymentStep::Open { payment, day_max }) => self.opened(id, payment, day_max)?,
            (Some(before), step) => before.clone().after_move(&step).ok_or(LedgerError::PaymentMoved)?,
            (None, PaymentStep::Move { .. }) => return Err(LedgerError::PaymentMoved),
        };
        self.payments.insert(id, after);
        done.push(Box::new(move |rows| match before {
            Some(before) => drop(rows.payments.insert(id, before)),
            None => drop(rows.payments.remove(&id)),
        }));
        Ok(())
    }

    fn opened(&self, id: TaskId, new: Payment, day_max: Option<u64>) -> Result<Payment, LedgerError> {
        let day = |payment: &Payment| payment.created_at.millis().div_euclid(DAY_MS);
        let alive = || self.payments.values().filter(|payment| payment.status != PaymentStatus::Failed);
        let same = |other: &&Payment| other.key == new.key && other.currency == new.currency && day(other) == day(&new);
        let spent = alive().filter(same).fold(new.amount, |sum, payment| sum.saturating_add(payment.amount));
        if day_max.is_some_and(|max| spent > max) {
            return Err(LedgerError::PaymentLimit);
        }
        if new.once.is_some() && alive().any(|payment| payment.once == new.once) {
            return Err(LedgerError::PaymentUsed);
        }
        let journal = vec![PaymentJournalEntry { at: new.created_at.millis(), to: new.status, why: None }];
        Ok(Payment { id, journal, ..new })
    }

    fn claimable(&self, before: Timestamp, at: Timestamp) -> Vec<Batch> {
        let mut batches = BTreeMap::<(i64, &str), Batch>::new();
        for usage in self.usage.values().filter(|usage| usage.batch.is_none() && usage.at < before) {
            let (Some(customer), day) = (usage.customer.as_deref(), usage.at.millis().div_euclid(DAY_MS)) else {
                continue;
            };
            let batch = batches.entry((day, customer)).or_insert_with(|| Batch {
                id: usage.booking.to_string(),
                customer: customer.to_owned(),
                day,
                count: 0,
                last_at: usage.at,
                claimed_at: at,
                sent_at: None,
                status: BatchStatus::Open,
            });
            batch.count += 1;
            batch.last_at = batch.last_at.max(usage.at);
        }
        batches.into_values().collect()
    }
}

/// Whether a booking was more than a hold.
fn is_real(booking: &Booking) -> bool {
    !booking.was_held || booking.transitions.iter().any(|moved| moved.to == BookingStatus::Pending)
}

impl Billing for ModelLog {
    fn usage(&self, booking: TaskId) -> StoreFuture<Option<Usage>> {
        StoreFuture::ready(Ok(self.lock().ledger.usage.get(&booking).cloned()))
    }

    fn claim_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<()> {
        let ledger = &mut self.lock().ledger;
        for batch in ledger.claimable(before, at) {
            for usage in ledger.usage.values_mut().filter(|usage| usage.batch.is_none() && usage.at < before) {
                let same = usage.customer.as_ref() == Some(&batch.customer);
                if same && usage.at.millis().div_euclid(DAY_MS) == batch.day {
                    usage.batch = Some(batch.id.clone());
                }
            }
            ledger.batches.push(batch);
        }
        StoreFuture::ready(Ok(()))
    }

    fn claimable_usage(&self, before: Timestamp, at: Timestamp) -> StoreFuture<Vec<Batch>> {
        StoreFuture::ready(Ok(self.lock().ledger.claimable(before, at)))
    }

    fn batches(&self, all: bool) -> StoreFuture<Vec<Batch>> {
        let inner = self.lock();
        let wanted = |batch: &&Batch| all || !matches!(batch.status, BatchStatus::Synced(_));
        let mut found: Vec<Batch> = inner.ledger.batches.iter().filter(wanted).cloned().collect();
        found.sort_by(|a, b| (a.day, &a.customer, &a.id).cmp(&(b.day, &b.customer, &b.id)));
        StoreFuture::ready(Ok(found))
    }

    fn update_batch(&self, id: &str, mark: BatchUpdate) -> StoreFuture<bool> {
        let ledger = &mut self.lock().ledger;
        let open = |batch: &&mut Batch| batch.id == id && !matches!(batch.status, BatchStatus::Synced(_));
        let Some(batch) = ledger.batches.iter_mut().find(open) else { return StoreFuture::ready(Ok(false)) };
        match mark {
            BatchUpdate::Sent(at) => batch.sent_at = batch.sent_at.or(Some(at)),
            BatchUpdate::Manual(why) => batch.status = BatchStatus::Manual(why),
            BatchUpdate::Synced(at) => {
                batch.status = BatchStatus::Synced(at);
                let its = ledger.usage.values_mut().filter(|usage| usage.batch.as_deref() == Some(id));
                its.for_each(|usage| usage.synced_at = Some(at));
            }
        }
        StoreFuture::ready(Ok(true))
    }

    fn billing_totals(&self) -> StoreFuture<BillingTotals> {
        let ledger = &self.lock().ledger;
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let unsynced = || ledger.usage.values().filter(|usage| usage.synced_at.is_none());
        let standing = |wanted: fn(&BatchStatus) -> bool| {
            count(ledger.batches.iter().filter(|batch| wanted(&batch.status)).count())
        };
        StoreFuture::ready(Ok(BillingTotals {
            bookings: count(ledger.bookings.values().filter(|booking| is_real(booking)).count()),
            counted: count(ledger.usage.len()),
            unsynced: count(unsynced().count()),
            without_customer: count(unsynced().filter(|usage| usage.customer.is_none()).count()),
            open: standing(|standing| *standing == BatchStatus::Open),
            manual: standing(|standing| matches!(standing, BatchStatus::Manual(_))),
        }))
    }
}

impl Payments for ModelLog {
    fn payment(&self, id: TaskId) -> StoreFuture<Option<Payment>> {
        StoreFuture::ready(Ok(self.lock().ledger.payments.get(&id).cloned()))
    }

    fn payments(&self, open: bool, limit: usize) -> StoreFuture<Vec<Payment>> {
        let inner = self.lock();
        let ended = |status| matches!(status, PaymentStatus::Captured | PaymentStatus::Failed);
        let wanted = |payment: &&Payment| !open || !ended(payment.status);
        StoreFuture::ready(Ok(inner.ledger.payments.values().rev().filter(wanted).take(limit).cloned().collect()))
    }
}
