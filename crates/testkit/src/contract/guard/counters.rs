//! Promises about counters: sliding windows and daily quotas.

use super::{GuardBench, at, at_once};
use crate::wait::wait;
use sabir_proto::Timestamp;
use sabir_store::{CALLERS_MAX, Hit, KeyId, Spent, Window};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn rule(limit: u32) -> Window<'static> {
    Window { name: "rule", length: MINUTE, limit }
}

fn hit(bench: &dyn GuardBench, caller: &str, limit: u32, ms: i64) -> Hit {
    wait(bench.store().hit(caller, rule(limit), at(ms))).expect("a count")
}

fn refused(ms: u64) -> Hit {
    Hit::Refused { retry_after: Duration::from_millis(ms) }
}

pub(super) fn a_window_slides(bench: &mut dyn GuardBench) {
    // Twenty requests in a minute, one second apart.
    for n in 0..20 {
        let left = u32::try_from(19 - n).expect("a small number");
        assert_eq!(hit(bench, "alice", 20, n * 1000), Hit::Admitted { left });
    }
    assert_eq!(hit(bench, "alice", 20, 19_500), refused(40_500));
    assert_eq!(hit(bench, "alice", 20, 59_999), refused(1), "what was refused is not counted");
    assert_eq!(hit(bench, "alice", 20, 60_000), Hit::Admitted { left: 0 }, "the first is a minute old");
    assert_eq!(hit(bench, "alice", 20, 60_000), refused(1000));
    assert_eq!(hit(bench, "alice", 20, 61_000), Hit::Admitted { left: 0 });
    assert_eq!(hit(bench, "alice", 20, 200_000), Hit::Admitted { left: 19 });
}

pub(super) fn windows_and_callers_are_apart(bench: &mut dyn GuardBench) {
    for caller in ["a", "b", ""] {
        for name in ["x", "y"] {
            let window = Window { name, ..rule(1) };
            assert_eq!(wait(bench.store().hit(caller, window, at(0))), Ok(Hit::Admitted { left: 0 }));
            assert_eq!(wait(bench.store().hit(caller, window, at(1))), Ok(refused(59_999)));
        }
    }
}

pub(super) fn a_limit_of_nothing_admits_nothing(bench: &mut dyn GuardBench) {
    assert_eq!(hit(bench, "a", 0, 0), refused(60_000));
    let key = KeyId::parse("k").expect("a legal id");
    assert!(matches!(wait(bench.store().spend(&key, 0, at(0))), Ok(Spent::Exhausted { .. })));
    assert_eq!(wait(bench.store().spent(&key, at(0))), Ok(0));
}

pub(super) fn a_hundred_thousand_callers_do_not_wash_one_away(bench: &mut dyn GuardBench) {
    (0..3).for_each(|_| assert!(matches!(hit(bench, "greedy", 3, 0), Hit::Admitted { .. })));
    for n in 0..CALLERS_MAX + 20_000 {
        let admitted = hit(bench, &n.to_string(), 3, 1000);
        assert_eq!(admitted, Hit::Admitted { left: 2 }, "caller {n}");
    }
    assert_eq!(hit(bench, "greedy", 3, 2000), refused(58_000));
    assert_eq!(hit(bench, "greedy", 3, 60_000), Hit::Admitted { left: 2 });
}

pub(super) fn of_many_at_once_the_limit_is_admitted(bench: &mut dyn GuardBench) {
    let store = bench.store();
    let admitted = at_once(8, |_| {
        let hits = (0..100).map(|_| wait(store.hit("a", rule(30), at(0))).expect("a count"));
        hits.filter(|hit| matches!(hit, Hit::Admitted { .. })).count()
    });
    assert_eq!(admitted.iter().sum::<usize>(), 30);
}

fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn spend(bench: &dyn GuardBench, key: &str, limit: u64, now: Timestamp) -> Spent {
    let key = KeyId::parse(key).expect("a legal id");
    wait(bench.store().spend(&key, limit, now)).expect("a count")
}

pub(super) fn a_quota_is_used_up_and_comes_back_at_midnight(bench: &mut dyn GuardBench) {
    let (morning, night) = (moment("2026-06-01T00:00:00Z"), moment("2026-06-01T23:59:59.999Z"));
    let midnight = moment("2026-06-02T00:00:00Z");
    for used in 1..=100 {
        assert_eq!(spend(bench, "k", 100, morning), Spent::Within { used });
    }
    for now in [morning, night, night] {
        assert_eq!(spend(bench, "k", 100, now), Spent::Exhausted { resets_at: midnight });
    }
    assert_eq!(spend(bench, "other", 100, night), Spent::Within { used: 1 });
    assert_eq!(spend(bench, "k", 100, midnight), Spent::Within { used: 1 });
    let key = KeyId::parse("k").expect("a legal id");
    assert_eq!(wait(bench.store().spent(&key, midnight)), Ok(1));
}

pub(super) fn a_quota_is_exact_for_many_at_once(bench: &mut dyn GuardBench) {
    let store = bench.store();
    let key = KeyId::parse("k").expect("a legal id");
    let used: Vec<Vec<u64>> = at_once(8, |_| {
        let spent = (0..50).map(|_| wait(store.spend(&key, 137, at(0))).expect("a count"));
        spent.filter_map(|spent| if let Spent::Within { used } = spent { Some(used) } else { None }).collect()
    });
    let mut used: Vec<u64> = used.concat();
    used.sort_unstable();
    assert_eq!(used, (1..=137).collect::<Vec<u64>>(), "each number once");
    assert_eq!(wait(store.spent(&key, at(0))), Ok(137));
}

pub(super) fn a_restart_gives_no_quota_back(bench: &mut dyn GuardBench) {
    for used in 1..=7 {
        assert_eq!(spend(bench, "k", 10, at(0)), Spent::Within { used });
        bench.reopen();
    }
    (8..=10).for_each(|used| assert_eq!(spend(bench, "k", 10, at(0)), Spent::Within { used }));
    bench.reopen();
    assert!(matches!(spend(bench, "k", 10, at(0)), Spent::Exhausted { .. }));
}

pub(super) fn a_raised_limit_leaves_what_is_between(bench: &mut dyn GuardBench) {
    (0..5).for_each(|_| assert!(matches!(spend(bench, "k", 5, at(0)), Spent::Within { .. })));
    (0..9).for_each(|_| assert!(matches!(spend(bench, "k", 5, at(0)), Spent::Exhausted { .. })));
    assert_eq!(spend(bench, "k", 7, at(0)), Spent::Within { used: 6 }, "refusals used nothing up");
    assert!(matches!(spend(bench, "k", 6, at(0)), Spent::Exhausted { .. }));
}
