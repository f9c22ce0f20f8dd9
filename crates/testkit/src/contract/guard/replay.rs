//! Promises about replay marks: only the first request is new until its mark expires.

use super::{GuardFixture, at, on_threads};
use crate::wait::wait;
use sabir_store::ReplayVerdict;

fn seen(bench: &dyn GuardFixture, scope: &str, n: u8, now: i64, until: i64) -> ReplayVerdict {
    wait(bench.store().check_replay(scope, [n; 16], at(now), at(until))).expect("marks can be made")
}

pub(super) fn the_first_is_first_and_the_others_are_not(bench: &mut dyn GuardFixture) {
    assert_eq!(seen(bench, "a", 1, 0, 300_000), ReplayVerdict::First);
    for now in [0, 1, 299_999] {
        assert_eq!(seen(bench, "a", 1, now, now + 300_000), ReplayVerdict::Again);
    }
    assert_eq!(seen(bench, "a", 2, 5, 300_000), ReplayVerdict::First);
}

pub(super) fn a_mark_is_kept_to_its_last_moment(bench: &mut dyn GuardFixture) {
    assert_eq!(seen(bench, "a", 1, 0, 330_000), ReplayVerdict::First);
    for n in 10..30 {
        assert_eq!(seen(bench, "a", n, 329_999, 400_000), ReplayVerdict::First);
    }
    assert_eq!(seen(bench, "a", 1, 330_000, 999_000), ReplayVerdict::Again, "the last moment counts");
    assert_eq!(seen(bench, "a", 1, 330_001, 600_000), ReplayVerdict::First, "it is another request by then");
    assert_eq!(seen(bench, "a", 1, 600_000, 900_000), ReplayVerdict::Again);
}

pub(super) fn scopes_are_apart(bench: &mut dyn GuardFixture) {
    for scope in ["a", "b", "", "ab"] {
        assert_eq!(seen(bench, scope, 1, 0, 1000), ReplayVerdict::First, "{scope}");
    }
    for scope in ["a", "b", "", "ab"] {
        assert_eq!(seen(bench, scope, 1, 0, 1000), ReplayVerdict::Again, "{scope}");
    }
}

pub(super) fn of_many_at_once_one_is_first(bench: &mut dyn GuardFixture) {
    let store = bench.store();
    for n in 0..20 {
        let answers = on_threads(8, |_| wait(store.check_replay("a", [n; 16], at(0), at(1000))).expect("an answer"));
        let first = answers.iter().filter(|seen| **seen == ReplayVerdict::First).count();
        assert_eq!((first, answers.len()), (1, 8), "round {n}");
        assert!(!answers.contains(&ReplayVerdict::NoRoom));
    }
}

pub(super) fn a_restart_forgets_no_mark(bench: &mut dyn GuardFixture) {
    for n in 0..100 {
        assert_eq!(seen(bench, "a", n, 0, 300_000), ReplayVerdict::First);
    }
    bench.reopen();
    for n in 0..100 {
        assert_eq!(seen(bench, "a", n, 300_000, 600_000), ReplayVerdict::Again);
    }
    assert_eq!(seen(bench, "a", 7, 300_001, 600_000), ReplayVerdict::First);
    bench.reopen();
    assert_eq!(seen(bench, "a", 7, 300_002, 600_000), ReplayVerdict::Again);
}

pub(super) fn a_mark_stands_for_what_it_stood_for_first(bench: &mut dyn GuardFixture) {
    let seen_as = |bench: &dyn GuardFixture, meaning: u8, now: i64| {
        wait(bench.store().check_replay_as("a", [1; 16], [meaning; 16], at(now), at(300_000)))
            .expect("marks can be made")
    };
    assert_eq!(seen_as(bench, 5, 0), ReplayVerdict::First);
    for _ in 0..2 {
        for _ in 0..2 {
            assert_eq!(seen_as(bench, 6, 1), ReplayVerdict::Different, "also when it is tried again");
        }
        assert_eq!(seen_as(bench, 5, 2), ReplayVerdict::Again);
        bench.reopen();
    }
    assert_eq!(seen_as(bench, 6, 300_001), ReplayVerdict::First, "it is another request by then");
}
