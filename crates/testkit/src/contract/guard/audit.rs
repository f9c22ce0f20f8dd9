//! Promises about the audit: one chain for all writers, and refusals that are cheap and never lost silently.

use super::{GuardFixture, ann, at, entries, on_threads};
use crate::wait::wait;
use sabir_proto::{AgentName, Caller, TaskId};
use sabir_store::{
    AuditEntry, AuditOutcome, AuditRecord, AuditSubject, ChainBreak, ChainPosition, ChainVerification, Hash,
    REFUSALS_BURST, Tampering,
};
use std::time::{Duration, Instant};

fn refusal(caller: &str, ms: i64) -> AuditRecord {
    AuditRecord::refusal(at(ms), Caller::named(caller), "api-key", "SendMessage", "rate")
}

fn verify(bench: &dyn GuardFixture, known: Option<ChainPosition>) -> ChainVerification {
    wait(bench.store().verify(known)).expect("the audit can be checked")
}

fn counted(entries: &[AuditEntry]) -> Vec<(&str, u64)> {
    entries.iter().map(|e| (&*e.caller, e.count)).collect()
}

fn said(bench: &dyn GuardFixture) -> Vec<AuditEntry> {
    entries(bench).into_iter().map(|linked| linked.entry).collect()
}

pub(super) fn entries_are_numbered_and_follow_each_other(bench: &mut dyn GuardFixture) {
    assert_eq!(verify(bench, None), ChainVerification { entries: 0, hash: Hash::default(), first_break: None });
    assert_eq!(entries(bench), []);
    assert_eq!(wait(bench.store().end()), Ok(ChainPosition { seq: 0, hash: Hash::default() }));
    for seq in 1..=10 {
        assert_eq!(wait(bench.store().record(AuditRecord::change(&ann(0), "test", None))), Ok(seq));
        bench.reopen();
    }
    let all = entries(bench);
    assert_eq!(all.iter().map(|e| e.entry.seq).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert_eq!(verify(bench, None), ChainVerification { entries: 10, hash: all[9].hash, first_break: None });
    assert_eq!(wait(bench.store().end()), Ok(ChainPosition { seq: 10, hash: all[9].hash }));
    let some = wait(bench.store().entries(3, 4)).expect("entries");
    assert_eq!(some, all[3..7]);
    assert_eq!(wait(bench.store().entries(10, 4)), Ok(Vec::new()), "level with the end");
}

pub(super) fn entries_say_what_was_recorded(bench: &mut dyn GuardFixture) {
    let task = TaskId::new(sabir_proto::Stamp::first_of(at(0)), 7);
    let record = AuditRecord {
        agent: AgentName::parse("echo").ok(),
        about: Some(AuditSubject::Task(task)),
        job: Some(u64::MAX),
        outcome: AuditOutcome::Allowed,
        ..AuditRecord::refusal(at(5), Caller::named("Ä\n\"x\""), "oidc", "CancelTask", "operator")
    };
    wait(bench.store().record(record)).expect("recorded");
    bench.reopen();
    let expected = AuditEntry {
        seq: 1,
        time: at(5),
        caller: "Ä\n\"x\"".into(),
        scheme: "oidc".into(),
        operation: "CancelTask".into(),
        agent: Some("echo".into()),
        about: Some(format!("task:{task}")),
        job: Some(u64::MAX.to_string()),
        outcome: AuditOutcome::Allowed,
        reason: "operator".into(),
        count: 1,
    };
    assert_eq!(said(bench), [expected]);
}

pub(super) fn callers_are_cut_to_length(bench: &mut dyn GuardFixture) {
    for name in ["x".repeat(1000), format!("{}é", "y".repeat(127))] {
        wait(bench.store().record(refusal(&name, 0))).expect("recorded");
    }
    let said = said(bench);
    assert_eq!(counted(&said), [(&*"x".repeat(128), 1), (&*"y".repeat(127), 1)]);
}

pub(super) fn refusals_that_say_the_same_are_one(bench: &mut dyn GuardFixture) {
    for ms in 0..1000 {
        bench.store().record_refusal(refusal("a", ms));
        if ms % 100 == 0 {
            bench.store().record_refusal(AuditRecord { reason: "scope", ..refusal("a", ms) });
        }
    }
    bench.store().record_refusal(refusal("a", 1000));
    let said = said(bench);
    let expected = [("rate", 1000, at(0)), ("scope", 10, at(0)), ("rate", 1, at(1000))];
    assert_eq!(said.iter().map(|e| (&*e.reason, e.count, e.time)).collect::<Vec<_>>(), expected);
    assert!(said.iter().all(|e| e.outcome == AuditOutcome::Refused));
    bench.reopen();
    assert_eq!(entries(bench).len(), 3, "and they are written once");
}

pub(super) fn refusals_come_before_what_came_after_them(bench: &mut dyn GuardFixture) {
    bench.store().record_refusal(refusal("a", 0));
    bench.store().record_refusal(refusal("b", 1));
    assert_eq!(wait(bench.store().record(AuditRecord::change(&ann(2), "test", None))), Ok(3));
    bench.store().record_refusal(refusal("a", 3));
    if bench.reopen() {
        let all = wait(bench.store().entries(0, 9)).expect("entries");
        assert_eq!(all.len(), 4, "closing writes what waits");
    }
    assert_eq!(counted(&said(bench)), [("a", 1), ("b", 1), ("ann", 1), ("a", 1)]);
}

pub(super) fn too_many_refusals_are_counted(bench: &mut dyn GuardFixture) {
    let many = REFUSALS_BURST + 3000;
    (0..many).for_each(|n| bench.store().record_refusal(refusal(&n.to_string(), 0)));
    let said = said(bench);
    assert_eq!(said.iter().map(|e| e.count).sum::<u64>(), many, "none is lost in silence");
    let dropped: Vec<&AuditEntry> = said.iter().filter(|e| e.outcome == AuditOutcome::Dropped).collect();
    assert!((1..=3).contains(&dropped.len()), "{} entries of what was dropped", dropped.len());
    assert_eq!(dropped.iter().map(|e| e.count).sum::<u64>(), 3000);
    assert_eq!(verify(bench, None).first_break, None);
}

pub(super) fn a_flood_of_refusals_is_cheap(bench: &mut dyn GuardFixture) {
    let began = Instant::now();
    for n in 0..10_000 {
        bench.store().record_refusal(refusal(["a", "b", "c"][n % 3], i64::try_from(n / 1000).expect("small") * 1000));
    }
    assert!(began.elapsed() < Duration::from_secs(5), "ten seconds' worth took {:?}", began.elapsed());
    let said = said(bench);
    assert_eq!(said.iter().map(|e| e.count).sum::<u64>(), 10_000);
    // Thirty, unless a write in between split a second.
    assert!(said.len() <= 60, "{} entries", said.len());
}

pub(super) fn many_writers_make_one_chain(bench: &mut dyn GuardFixture) {
    let store = bench.store();
    let numbers = on_threads(8, |n| {
        let caller = n.to_string();
        (0..25)
            .map(|ms| {
                store.record_refusal(refusal(&caller, ms));
                wait(store.record(refusal(&caller, ms))).expect("recorded")
            })
            .collect::<Vec<u64>>()
    });
    assert!(numbers.iter().all(|own| own.is_sorted()), "each sees its own in order");
    let said = said(bench);
    assert_eq!(said.iter().map(|e| e.count).sum::<u64>(), 400);
    let verified = verify(bench, None);
    assert_eq!((verified.entries, verified.first_break), (u64::try_from(said.len()).expect("small"), None));
}

pub(super) fn a_known_place_is_checked(bench: &mut dyn GuardFixture) {
    for _ in 0..5 {
        wait(bench.store().record(refusal("a", 0))).expect("recorded");
    }
    let third = entries(bench)[2].clone();
    let known = ChainPosition { seq: 3, hash: third.hash };
    assert_eq!(verify(bench, Some(known)).first_break, None);
    let other = ChainPosition { hash: Hash::default(), ..known };
    assert_eq!(verify(bench, Some(other)).first_break, Some(ChainBreak { seq: 3, tampering: Tampering::Edited }));
    let later = ChainPosition { seq: 9, ..known };
    assert_eq!(verify(bench, Some(later)).first_break, Some(ChainBreak { seq: 6, tampering: Tampering::Removed }));
}
