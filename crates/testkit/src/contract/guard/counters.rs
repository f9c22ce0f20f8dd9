//! Promises about counters: sliding windows and daily quotas.

use super::{GuardFixture, at, on_threads};
use crate::wait::wait;
use sabir_proto::Timestamp;
use sabir_store::{CALLERS_MAX, KeyId, QuotaDecision, RateDecision, RateWindow};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn rule(limit: u32) -> RateWindow<'static> {
    RateWindow { name: "rule", length: MINUTE, limit }
}

fn hit(bench: &dyn GuardFixture, caller: &str, limit: u32, ms: i64) -> RateDecision {
    wait(bench.store().hit(caller, rule(limit), at(ms))).expect("a count")
}

fn refused(ms: u64) -> RateDecision {
    RateDecision::Refused { retry_after: Duration::from_millis(ms) }
}

pub(super) fn a_window_slides(bench: &mut dyn GuardFixture) {
    // Twenty requests in a minute, one second apart.
    for n in 0..20 {
        let left = u32::try_from(19 - n).expect("a small number");
        assert_eq!(hit(bench, "alice", 20, n * 1000), RateDecision::Admitted { left });
    }
    assert_eq!(hit(bench, "alice", 20, 19_500), refused(40_500));
    assert_eq!(hit(bench, "alice", 20, 59_999), refused(1), "what was refused is not counted");
    assert_eq!(hit(bench, "alice", 20, 60_000), RateDecision::Admitted { left: 0 }, "the first is a minute old");
    assert_eq!(hit(bench, "alice", 20, 60_000), refused(1000));
    assert_eq!(hit(bench, "alice", 20, 61_000), RateDecision::Admitted { left: 0 });
    assert_eq!(hit(bench, "alice", 20, 200_000), RateDecision::Admitted { left: 19 });
}

pub(super) fn windows_and_callers_are_apart(bench: &mut dyn GuardFixture) {
    for caller in ["a", "b", ""] {
        for name in ["x", "y"] {
            let window = RateWindow { name, ..rule(1) };
            assert_eq!(wait(bench.store().hit(caller, window, at(0))), Ok(RateDecision::Admitted { left: 0 }));
            assert_eq!(wait(bench.store().hit(caller, window, at(1))), Ok(refused(59_999)));
        }
    }
}

pub(super) fn a_limit_of_nothing_admits_nothing(bench: &mut dyn GuardFixture) {
    assert_eq!(hit(bench, "a", 0, 0), refused(60_000));
    let key = KeyId::parse("k").expect("a legal id");
    assert!(matches!(wait(bench.store().spend_quota(&key, 0, at(0))), Ok(QuotaDecision::Exhausted { .. })));
    assert_eq!(wait(bench.store().quota_used(&key, at(0))), Ok(0));
}

pub(super) fn a_hundred_thousand_callers_do_not_wash_one_away(bench: &mut dyn GuardFixture) {
    (0..3).for_each(|_| assert!(matches!(hit(bench, "greedy", 3, 0), RateDecision::Admitted { .. })));
    for n in 0..CALLERS_MAX + 20_000 {
        let admitted = hit(bench, &n.to_string(), 3, 1000);
        assert_eq!(admitted, RateDecision::Admitted { left: 2 }, "caller {n}");
    }
    assert_eq!(hit(bench, "greedy", 3, 2000), refused(58_000));
    assert_eq!(hit(bench, "greedy", 3, 60_000), RateDecision::Admitted { left: 2 });
}

pub(super) fn of_many_at_once_the_limit_is_admitted(bench: &mut dyn GuardFixture) {
    let store = bench.store();
    let admitted = on_threads(8, |_| {
        let hits = (0..100).map(|_| wait(store.hit("a", rule(30), at(0))).expect("a count"));
        hits.filter(|hit| matches!(hit, RateDecision::Admitted { .. })).count()
    });
    assert_eq!(admitted.iter().sum::<usize>(), 30);
}

fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn spend(bench: &dyn GuardFixture, key: &str, limit: u64, now: Timestamp) -> QuotaDecision {
    let key = KeyId::parse(key).expect("a legal id");
    wait(bench.store().spend_quota(&key, limit, now)).expect("a count")
}

pub(super) fn a_quota_is_used_up_and_comes_back_at_midnight(bench: &mut dyn GuardFixture) {
    let (morning, night) = (moment("2026-06-01T00:00:00Z"), moment("2026-06-01T23:59:59.999Z"));
    let midnight = moment("2026-06-02T00:00:00Z");
    for used in 1..=100 {
        assert_eq!(spend(bench, "k", 100, morning), QuotaDecision::Within { used });
    }
    for now in [morning, night, night] {
        assert_eq!(spend(bench, "k", 100, now), QuotaDecision::Exhausted { resets_at: midnight });
    }
    assert_eq!(spend(bench, "other", 100, night), QuotaDecision::Within { used: 1 });
    assert_eq!(spend(bench, "k", 100, midnight), QuotaDecision::Within { used: 1 });
    let key = KeyId::parse("k").expect("a legal id");
    assert_eq!(wait(bench.store().quota_used(&key, midnight)), Ok(1));
}

pub(super) fn a_quota_is_exact_for_many_at_once(bench: &mut dyn GuardFixture) {
    let store = bench.store();
    let key = KeyId::parse("k").expect("a legal id");
    let used: Vec<Vec<u64>> = on_threads(8, |_| {
        let spent = (0..50).map(|_| wait(store.spend_quota(&key, 137, at(0))).expect("a count"));
        spent.filter_map(|spent| if let QuotaDecision::Within { used } = spent { Some(used) } else { None }).collect()
    });
    let mut used: Vec<u64> = used.concat();
    used.sort_unstable();
    assert_eq!(used, (1..=137).collect::<Vec<u64>>(), "each number once");
    assert_eq!(wait(store.quota_used(&key, at(0))), Ok(137));
}

pub(super) fn a_restart_gives_no_quota_back(bench: &mut dyn GuardFixture) {
    for used in 1..=7 {
        assert_eq!(spend(bench, "k", 10, at(0)), QuotaDecision::Within { used });
        bench.reopen();
    }
    (8..=10).for_each(|used| assert_eq!(spend(bench, "k", 10, at(0)), QuotaDecision::Within { used }));
    bench.reopen();
    assert!(matches!(spend(bench, "k", 10, at(0)), QuotaDecision::Exhausted { .. }));
}

pub(super) fn a_raised_limit_leaves_what_is_between(bench: &mut dyn GuardFixture) {
    (0..5).for_each(|_| assert!(matches!(spend(bench, "k", 5, at(0)), QuotaDecision::Within { .. })));
    (0..9).for_each(|_| assert!(matches!(spend(bench, "k", 5, at(0)), QuotaDecision::Exhausted { .. })));
    assert_eq!(spend(bench, "k", 7, at(0)), QuotaDecision::Within { used: 6 }, "refusals used nothing up");
    assert!(matches!(spend(bench, "k", 6, at(0)), QuotaDecision::Exhausted { .. }));
}
