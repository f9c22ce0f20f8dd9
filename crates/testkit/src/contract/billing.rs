//! Promises about usage, billing and payments in the ledger.

use super::ledger::{booking, books, import, venue};
use super::{LogFixture, TaskLogTestExt};
use crate::scripted_task::{ScriptedTask, TaskFactory, owner};
use crate::wait::wait;
use sabir_proto::{TaskId, TaskState, Timestamp};
use sabir_store::{
    AppendError, BatchStatus, BatchUpdate, BillingTotals, BookingStatus, DAY_MS, LedgerEffect, LedgerError, NewBooking,
    NewUsage, Payment, PaymentStatus, PaymentStep, Step,
};

fn time(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// A booking at this time, billed to this customer.
fn paid_by(customer: Option<&str>, ms: i64) -> NewBooking {
    let usage = NewUsage { intent: "booking.confirm".into(), cents: 25, customer: customer.map(str::to_owned) };
    NewBooking { at: time(ms), usage: Some(usage), ..booking("a", None) }
}

pub(super) fn what_is_counted_is_billed_once(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    import(bench, vec![venue("a")]);
    let made: Vec<(Option<&str>, i64)> =
        vec![(Some("x"), 1), (Some("y"), 2), (Some("x"), 9), (None, 3), (Some("x"), DAY_MS), (Some("x"), DAY_MS + 9)];
    let ids: Vec<TaskId> = made
        .into_iter()
        .map(|(customer, ms)| {
            let mut story = author.new_task(&scope);
            bench.log().append_ok(books(&mut story, paid_by(customer, ms)));
            story.id()
        })
        .collect();
    let shape = |batches: Vec<sabir_store::Batch>| {
        let one = |b: sabir_store::Batch| (b.id, b.customer, b.day, b.count, b.last_at.millis());
        batches.into_iter().map(one).collect::<Vec<_>>()
    };
    let before = time(DAY_MS + 5);
    let expected = [
        (ids[0].to_string(), "x".to_owned(), 0, 2, 9),
        (ids[1].to_string(), "y".to_owned(), 0, 1, 2),
        (ids[4].to_string(), "x".to_owned(), 1, 1, DAY_MS),
    ];
    let dry = wait(bench.ledger().claimable_usage(before, time(99))).expect("usage can be read");
    assert_eq!(shape(dry), expected);
    assert_eq!(wait(bench.ledger().batches(true)).map(|all| all.len()), Ok(0), "nobody has claimed anything");
    for _ in 0..2 {
        assert_eq!(wait(bench.ledger().claim_usage(before, time(99))), Ok(()));
        bench.reopen();
        let open = wait(bench.ledger().batches(false)).expect("batches can be read");
        assert!(open.iter().all(|b| b.claimed_at == time(99) && b.status == BatchStatus::Open && b.sent_at.is_none()));
        assert_eq!(shape(open), expected, "claiming twice changes nothing");
    }
    let (first, second) = (ids[0].to_string(), ids[1].to_string());
    let mark = |id: &str, mark| wait(bench.ledger().update_batch(id, mark)).expect("a batch can be marked");
    assert!(mark(&first, BatchUpdate::Sent(time(100))));
    assert!(mark(&first, BatchUpdate::Sent(time(200))), "only the first time counts");
    assert!(mark(&first, BatchUpdate::Synced(time(201))));
    assert!(!mark(&first, BatchUpdate::Synced(time(202))));
    assert!(!mark(&first, BatchUpdate::Manual("late".into())));
    assert!(!mark("nobody", BatchUpdate::Sent(time(1))));
    assert!(mark(&second, BatchUpdate::Manual("too old".into())));
    let all = wait(bench.ledger().batches(true)).expect("batches can be read");
    let standing = |i: usize| (all[i].sent_at, all[i].status.clone());
    assert_eq!(standing(0), (Some(time(100)), BatchStatus::Synced(time(201))));
    assert_eq!(standing(1), (None, BatchStatus::Manual("too old".into())));
    let usage = wait(bench.ledger().usage(ids[2])).expect("usage can be read").expect("it is there");
    assert_eq!((usage.batch, usage.synced_at), (Some(first), Some(time(201))));
    assert_eq!((usage.key.as_str(), usage.cents, usage.at), ("key-1", 25, time(9)));
    let expected = BillingTotals { bookings: 6, counted: 6, unsynced: 4, without_customer: 1, open: 1, manual: 1 };
    assert_eq!(wait(bench.ledger().billing_totals()), Ok(expected));
    // Later usage makes a batch of its own, though there is one for its day and payer.
    assert_eq!(wait(bench.ledger().claim_usage(time(2 * DAY_MS), time(300))), Ok(()));
    let last =
        wait(bench.ledger().batches(false)).expect("batches can be read").pop().map(|batch| (batch.id, batch.count));
    assert_eq!(last, Some((ids[5].to_string(), 1)));
}

pub(super) fn what_is_booked_and_what_is_counted_agree(bench: &mut dyn LogFixture) {
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    import(bench, vec![venue("a")]);
    let mut stories: Vec<ScriptedTask> = (0..4).map(|_| author.new_task(&scope)).collect();
    for (i, story) in stories.iter_mut().enumerate() {
        let plain = booking("a", None);
        let held_until = Some(time(10 + i64::try_from(i).unwrap_or(0)));
        let held = NewBooking { status: BookingStatus::PendingPayment, held_until, usage: None, ..plain.clone() };
        bench.log().append_ok(books(story, if i == 0 { plain } else { held }));
    }
    let move_to = |story: &ScriptedTask, to, usage| {
        let from = BookingStatus::PendingPayment;
        let moved = LedgerEffect::MoveBooking { booking: story.id(), from, to, at: time(5), usage }.into();
        Step { effects: vec![moved], ..story.empty_step() }
    };
    bench.log().append_ok(move_to(&stories[1], BookingStatus::Pending, booking("a", None).usage));
    bench.log().append_ok(move_to(&stories[2], BookingStatus::Cancelled, None));
    bench.reopen();
    let tally = wait(bench.ledger().billing_totals()).expect("everything can be counted");
    assert_eq!((tally.bookings, tally.counted, tally.drift()), (2, 2, 0));
    let held = |until| wait(bench.ledger().expired_holds(time(until), 9)).expect("bookings can be read");
    assert_eq!(held(12).len(), 0);
    assert_eq!(held(13).into_iter().map(|booking| booking.id).collect::<Vec<_>>(), [stories[3].id()]);
    // A booking without usage shows up as drift.
    bench.log().append_ok(move_to(&stories[3], BookingStatus::Pending, None));
    assert_eq!(wait(bench.ledger().billing_totals()).map(|tally| tally.drift()), Ok(-1));
}

fn payment(amount: u64, once: Option<&str>, ms: i64) -> Payment {
    Payment {
        id: TaskId::new(sabir_proto::Stamp::from_u64(1), 1),
        key: "key-1".into(),
        amount,
        currency: "USD".into(),
        processor: "test".into(),
        token: "digest".into(),
        once: once.map(str::to_owned),
        books: false,
        status: PaymentStatus::Authorizing,
        reference: None,
        receipt: None,
        created_at: time(ms),
        journal: Vec::new(),
    }
}

fn pays(story: &mut ScriptedTask, payment: Payment, day_max: Option<u64>) -> Step {
    let effects = vec![LedgerEffect::Pay(PaymentStep::Open { payment, day_max }).into()];
    Step { effects, ..story.open_settled(TaskState::Completed) }
}

fn moves(story: &ScriptedTask, from: PaymentStatus, to: PaymentStatus, reference: Option<&str>) -> Step {
    let reference = reference.map(str::to_owned);
    let (why, receipt) = (Some(format!("to {}", to.name())), reference.as_ref().map(|r| format!("{{\"r\":\"{r}\"}}")));
    let step = PaymentStep::Move { from, to, at: time(7), why, reference, receipt };
    Step { effects: vec![LedgerEffect::Pay(step).into()], ..story.empty_step() }
}

pub(super) fn a_payment_moves_from_where_it_was_seen(bench: &mut dyn LogFixture) {
    use PaymentStatus::{Authorized, Authorizing, Captured, Failed};
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut story, mut other) = (author.new_task(&scope), author.new_task(&scope));
    bench.log().append_ok(pays(&mut story, payment(2500, None, 3), None));
    bench.log().append_ok(pays(&mut other, payment(1, None, 4), None));
    assert_eq!(
        bench.log().append_refused(moves(&story, Authorized, Captured, None)),
        AppendError::Ledger(LedgerError::PaymentMoved)
    );
    bench.log().append_ok(moves(&story, Authorizing, Authorized, Some("ref")));
    bench.log().append_ok(moves(&story, Authorized, Captured, None));
    bench.reopen();
    let paid = wait(bench.ledger().payment(story.id())).expect("a payment can be read").expect("it is there");
    let went: Vec<_> = paid.journal.iter().map(|entry| (entry.at, entry.to, entry.why.as_deref())).collect();
    let expected = [(3, Authorizing, None), (7, Authorized, Some("to authorized")), (7, Captured, Some("to captured"))];
    assert_eq!(went, expected);
    assert_eq!((paid.id, paid.status, paid.amount), (story.id(), Captured, 2500));
    assert_eq!((paid.reference.as_deref(), paid.receipt.as_deref()), (Some("ref"), Some("{\"r\":\"ref\"}")));
    let list = |open, limit| {
        let found = wait(bench.ledger().payments(open, limit)).expect("payments can be read");
        found.into_iter().map(|payment| payment.id).collect::<Vec<_>>()
    };
    assert_eq!(list(false, 9), [other.id(), story.id()]);
    assert_eq!(list(false, 1), [other.id()]);
    assert_eq!(list(true, 9), [other.id()]);
    bench.log().append_ok(moves(&other, Authorizing, Failed, None));
    assert_eq!(wait(bench.ledger().payments(true, 9)).map(|open| open.len()), Ok(0));
}

pub(super) fn a_payment_is_bounded_and_used_once(bench: &mut dyn LogFixture) {
    use PaymentStatus::{Authorizing, Failed};
    let (mut author, scope) = (TaskFactory::new(7), owner("ann"));
    let (mut first, mut second) = (author.new_task(&scope), author.new_task(&scope));
    bench.log().append_ok(pays(&mut first, payment(60, Some("0xabc"), 3), Some(100)));
    let refused = |payment, day_max| bench.log().append_refused(pays(&mut second.clone(), payment, day_max));
    assert_eq!(refused(payment(60, None, DAY_MS - 1), Some(100)), AppendError::Ledger(LedgerError::PaymentLimit));
    assert_eq!(refused(payment(1, Some("0xabc"), 5), None), AppendError::Ledger(LedgerError::PaymentUsed));
    // A failed payment counts for nothing.
    bench.log().append_ok(moves(&first, Authorizing, Failed, None));
    bench.log().append_ok(pays(&mut second, payment(60, Some("0xabc"), 5), Some(100)));
    let mut third = author.new_task(&scope);
    bench.log().append_ok(pays(&mut third, payment(60, None, DAY_MS), Some(100)));
    let mut fourth = author.new_task(&scope);
    let euros = Payment { currency: "EUR".into(), ..payment(60, None, 6) };
    bench.log().append_ok(pays(&mut fourth, euros, Some(100)));
}
