use super::*;
use serde_json::Value;

const VECTORS: &str = include_str!("../../tests/vectors/breaker.json");

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn down(name: &str) -> CallOutcome {
    CallOutcome::Failed(FailureSource::UpstreamOrPath(name.into()))
}

#[test]
fn the_published_timelines_are_followed_to_the_second() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let constants = &vectors["constants"];
    assert_eq!(constants["failure_threshold"], BreakerRules::UPSTREAM.failures);
    assert_eq!(constants["failure_window_s"], BreakerRules::UPSTREAM.window.as_secs());
    assert_eq!(constants["cooldown_s"], BreakerRules::UPSTREAM.cooldown.as_secs());
    assert_eq!(constants["half_open_probes"], 1);
    let cases = vectors["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let mut breaker = Breaker::new(BreakerRules::UPSTREAM);
        // Results are reported in the order in which the calls began.
        let mut under_way = VecDeque::new();
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let (now, what) = (at(step["t"].as_u64().unwrap()), format!("{} step {number}: {step}", case["id"]));
            let mut report = |breaker: &mut Breaker, verdict| {
                let pass = under_way.pop_front().expect("an outcome belongs to a call");
                breaker.report(pass, verdict, now);
            };
            match step["event"].as_str().unwrap() {
                "allow" => {
                    let asked = breaker.try_acquire(now);
                    assert_eq!(asked.is_ok(), step["allowed"], "{what}");
                    under_way.extend(asked.ok());
                }
                "ok" => report(&mut breaker, CallOutcome::Answered),
                "fail" => report(&mut breaker, down("one")),
                "abandon" => report(&mut breaker, CallOutcome::Unknown),
                other => panic!("{other} is not known"),
            }
            assert_eq!(breaker.state().name(), step["state"], "{what}");
            assert_eq!(breaker.trips(), step["trips"].as_u64().unwrap(), "{what}");
        }
    }
}

fn fails(breaker: &mut Breaker, name: &str, now: u64) {
    let pass = breaker.try_acquire(at(now)).unwrap();
    breaker.report(pass, down(name), at(now));
}

#[test]
fn who_is_refused_is_told_when_to_come_back() {
    let mut breaker = Breaker::new(BreakerRules::UPSTREAM);
    (0..5).for_each(|_| fails(&mut breaker, "one", 10));
    let after = |breaker: &Breaker, now: Duration| breaker.refusal(now).map(|refused| refused.retry_after.as_secs());
    assert_eq!(after(&breaker, at(10)), Some(300));
    assert_eq!(after(&breaker, Duration::from_millis(10_500)), Some(300), "rounded up");
    assert_eq!(after(&breaker, at(309)), Some(1));
    assert_eq!(after(&breaker, at(310)), None);
    breaker.try_acquire(at(310)).unwrap();
    assert_eq!(after(&breaker, at(310)), Some(1), "while somebody is out to see");
}

#[test]
fn a_success_from_before_the_trip_does_not_close_the_breaker() {
    let mut breaker = Breaker::new(BreakerRules::UPSTREAM);
    let old = breaker.try_acquire(at(0)).unwrap();
    (0..5).for_each(|_| fails(&mut breaker, "one", 0));
    let probe = breaker.try_acquire(at(300)).unwrap();
    breaker.report(old, CallOutcome::Answered, at(301));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    breaker.report(probe, CallOutcome::Answered, at(302));
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn one_bad_upstream_does_not_open_the_breaker_of_all() {
    let mut hub = Breaker::new(BreakerRules::HUB);
    for n in 0..1000 {
        fails(&mut hub, "bad", n / 10);
        fails(&mut hub, "worse", n / 10);
    }
    assert_eq!(hub.state(), BreakerState::Closed);
    assert!(hub.failures.len() <= 10, "what is remembered is bounded");
    fails(&mut hub, "third", 100);
    assert_eq!(hub.state(), BreakerState::Open);
}

#[test]
fn failures_of_our_own_open_the_breaker_of_all() {
    let mut hub = Breaker::new(BreakerRules::HUB);
    for n in 1..=5 {
        let pass = hub.try_acquire(at(n)).unwrap();
        hub.report(pass, CallOutcome::Failed(FailureSource::LocalNetwork), at(n));
        assert_eq!(hub.state() == BreakerState::Open, n == 5);
    }
    let probe = hub.try_acquire(at(305)).unwrap();
    hub.report(probe, CallOutcome::Failed(FailureSource::LocalNetwork), at(305));
    assert_eq!(hub.state(), BreakerState::Open, "it is no better");
}

#[test]
fn an_upstream_that_still_fails_does_not_keep_the_others_out() {
    let mut hub = Breaker::new(BreakerRules::HUB);
    for name in ["a", "b", "c", "a", "b"] {
        fails(&mut hub, name, 0);
    }
    assert_eq!(hub.state(), BreakerState::Open);
    fails(&mut hub, "a", 300);
    assert_eq!(hub.state(), BreakerState::HalfOpen, "of the shared way it says nothing");
    fails(&mut hub, "b", 301);
    let probe = hub.try_acquire(at(302)).unwrap();
    hub.report(probe, CallOutcome::Answered, at(302));
    assert_eq!(hub.state(), BreakerState::Closed);
}
