//! Circuit breakers: which receivers get no requests for a while after failures.
//!
//! There are two kinds of breakers. One is of a host, and only failures to connect count for it, since those are true
//! for every owner. One is of a lane, an owner at a host: no answer, or a server error, may be caused by what that
//! owner registered, so other owners are not affected. A receiver that refuses one delivery is alive.
//!
//! After some failures in a row a breaker opens for a pause; then one delivery is let through as a probe. If that fails
//! the pause doubles; if it succeeds the breaker is reset. Just after the pause, only the configuration that last
//! succeeded may be the probe: one that always fails should not decide for the others.

use super::schedule::jitter;
use crate::limits::Limits;
use crate::push_transport::DeliveryOutcome;
use sabir_proto::{TaskId, Timestamp};
use sabir_store::{DueDelivery, Lane};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The most breakers kept. Beyond that, those that are not open are dropped, and if all are open no more are made: each
/// event still has its own delays.
const BREAKERS_MAX: usize = 10_000;
/// The shortest time between two searches for room: each walks over all breakers.
const PRUNE_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a pause only the configuration that last succeeded is let through.
const PROVEN_LEAD: Duration = Duration::from_secs(2);
/// The spread of the first deliveries after a pause, in milliseconds.
const SPREAD_MS: u64 = 2000;
/// How long other deliveries wait while a probe is in flight.
const PROBE_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Breakers {
    by_key: HashMap<BreakerKey, Breaker>,
    pruned_at: Option<Timestamp>,
}

/// The host or lane that a breaker is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum BreakerKey {
    Host(Arc<str>),
    Lane(Lane),
}

impl BreakerKey {
    fn both_of(lane: &Lane) -> [Self; 2] {
        [Self::Lane(lane.clone()), Self::Host(lane.host.clone())]
    }
}

#[derive(Debug, Default)]
struct Breaker {
    /// The number of failures in a row.
    failures: u32,
    /// The last pause; zero before the first one.
    pause: Duration,
    until: Option<Timestamp>,
    /// A probe is in flight.
    probing: bool,
    /// The task and configuration that last succeeded.
    proven: Option<(TaskId, String)>,
}

/// Whether a delivery may be attempted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Go,
    /// No attempt before this time.
    Wait(Timestamp),
}

impl Breaker {
    fn admit(&mut self, owed: &DueDelivery, now: Timestamp, random: u64) -> Admission {
        let Some(until) = self.until else { return Admission::Go };
        let proven = self.proven.as_ref();
        let leads = proven.is_none_or(|(task, config)| (*task, config) == (owed.task, &owed.config));
        let first = if leads { until } else { later(until, PROVEN_LEAD) };
        if first > now {
            // Spread out: the first one is the probe, and it should not always be the same delivery that spends its
            // attempts on it. The one that succeeded before comes first.
            let early = leads && proven.is_some();
            let apart = Duration::from_millis(if early { 0 } else { random % SPREAD_MS });
            return Admission::Wait(later(first, apart));
        }
        if std::mem::replace(&mut self.probing, true) {
            return Admission::Wait(later(now, jitter(PROBE_WAIT, random)));
        }
        Admission::Go
    }

    /// Counts a failure; true when the breaker opens.
    fn fail(&mut self, now: Timestamp, limits: &Limits) -> bool {
        self.failures = self.failures.saturating_add(1);
        // Deliveries from before the pause may fail during it; only the probe makes the pause longer.
        let paused = self.until.is_some_and(|until| until > now);
        if self.failures < limits.push_host_failures_max || paused {
            return false;
        }
        self.pause = (self.pause * 2).clamp(limits.push_pause_min, limits.push_pause_max);
        self.until = Some(later(now, self.pause));
        self.probing = false;
        true
    }
}

impl Breakers {
    /// Asks whether a delivery may be attempted. If so, the worker must report its result.
    pub(super) fn admit(&mut self, owed: &DueDelivery, now: Timestamp, random: u64) -> Admission {
        let mut asked = Vec::with_capacity(2);
        for whose in BreakerKey::both_of(&owed.lane) {
            let Some(breaker) = self.by_key.get_mut(&whose) else { continue };
            if let Admission::Wait(until) = breaker.admit(owed, now, random) {
                asked.iter().for_each(|whose| self.clear_probe(whose));
                return Admission::Wait(until);
            }
            asked.push(whose);
        }
        Admission::Go
    }

    /// Records the result of a delivery; true when a breaker opens.
    pub(super) fn report(
        &mut self,
        owed: &DueDelivery,
        outcome: &DeliveryOutcome,
        now: Timestamp,
        limits: &Limits,
    ) -> bool {
        let [of_lane, of_host] = BreakerKey::both_of(&owed.lane);
        match outcome {
            DeliveryOutcome::Unreachable { .. } => {
                self.clear_probe(&of_lane);
                self.get_or_create(of_host, now).is_some_and(|breaker| breaker.fail(now, limits))
            }
            DeliveryOutcome::NoAnswer { .. } | DeliveryOutcome::Refused { status: 500.., .. } => {
                self.recover(&of_host);
                self.get_or_create(of_lane, now).is_some_and(|breaker| breaker.fail(now, limits))
            }
            DeliveryOutcome::Accepted { .. } => {
                let proven = (owed.task, owed.config.clone());
                for whose in [of_lane, of_host] {
                    if let Some(breaker) = self.get_or_create(whose, now) {
                        *breaker = Breaker { proven: Some(proven.clone()), ..Breaker::default() };
                    }
                }
                false
            }
            DeliveryOutcome::Refused { .. } | DeliveryOutcome::Gone { .. } => {
                [of_lane, of_host].iter().for_each(|whose| self.recover(whose));
                false
            }
            // No request was sent.
            DeliveryOutcome::Forbidden { .. } | DeliveryOutcome::NotAttempted { .. } => {
                self.cancel_probe(&owed.lane);
                false
            }
        }
    }

    /// Ends a probe without a result, for a delivery that was admitted and not attempted.
    pub(super) fn cancel_probe(&mut self, lane: &Lane) {
        BreakerKey::both_of(lane).iter().for_each(|whose| self.clear_probe(whose));
    }

    /// The number of open breakers.
    pub(super) fn paused(&self) -> usize {
        self.by_key.values().filter(|breaker| breaker.until.is_some()).count()
    }

    fn clear_probe(&mut self, whose: &BreakerKey) {
        self.by_key.get_mut(whose).into_iter().for_each(|breaker| breaker.probing = false);
    }

    /// Resets a breaker, except for the last success.
    fn recover(&mut self, whose: &BreakerKey) {
        if let Some(breaker) = self.by_key.get_mut(whose) {
            let proven = breaker.proven.take();
            *breaker = Breaker { proven, ..Breaker::default() };
        }
    }

    /// The breaker of a key, made if there is room for it.
    fn get_or_create(&mut self, whose: BreakerKey, now: Timestamp) -> Option<&mut Breaker> {
        if self.by_key.len() >= BREAKERS_MAX && !self.by_key.contains_key(&whose) {
            if self.pruned_at.is_some_and(|tidied| now < later(tidied, PRUNE_INTERVAL)) {
                return None;
            }
            self.pruned_at = Some(now);
            self.by_key.retain(|_, breaker| breaker.until.is_some_and(|until| until > now));
            if self.by_key.len() >= BREAKERS_MAX {
                return None;
            }
        }
        Some(self.by_key.entry(whose).or_default())
    }
}

pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{Seq, Stamp};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn owed(owner: i64, host: &str, config: &str) -> DueDelivery {
        let (task, at) = (TaskId::new(Stamp::from_u64(1), 1), at(0));
        let lane = Lane { owner, host: host.into() };
        DueDelivery {
            number: 1,
            task,
            config: config.into(),
            lane,
            seq: Seq(1),
            last: Seq(1),
            at,
            since: at,
            attempts: 0,
        }
    }

    fn unreachable() -> DeliveryOutcome {
        DeliveryOutcome::Unreachable { reason: "nobody there".into() }
    }

    fn refused(status: u16) -> DeliveryOutcome {
        DeliveryOutcome::Refused { status, retry_after: None }
    }

    const ACCEPTED: DeliveryOutcome = DeliveryOutcome::Accepted { status: 200 };

    #[test]
    fn a_dead_host_is_left_alone_for_longer_and_longer() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (host, same, other) = (owed(1, "a", "c"), owed(2, "a", "c"), owed(1, "b", "c"));
        for n in 1..=5 {
            assert_eq!(breakers.admit(&host, at(0), 0), Admission::Go);
            assert_eq!(breakers.report(&host, &unreachable(), at(0), &limits), n == 5);
        }
        let mut now = 0;
        for pause in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(breakers.admit(&host, at(now + pause - 1), 0), Admission::Wait(at(now + pause)));
            assert!(!breakers.report(&host, &unreachable(), at(now + 1), &limits), "those under way do not count");
            now += pause;
            assert_eq!(breakers.admit(&same, at(now), 0), Admission::Go, "one to see, whoever it is of");
            assert!(matches!(breakers.admit(&host, at(now), 0), Admission::Wait(_)), "and no other");
            assert_eq!(breakers.admit(&other, at(now), 0), Admission::Go);
            assert!(breakers.report(&same, &unreachable(), at(now), &limits));
        }
        assert_eq!(breakers.paused(), 1);
        now += 300;
        assert_eq!(breakers.admit(&host, at(now), 0), Admission::Go);
        breakers.report(&host, &ACCEPTED, at(now), &limits);
        assert_eq!(breakers.paused(), 0);
        assert_eq!(breakers.admit(&host, at(now), 0), Admission::Go);
        assert_eq!(breakers.admit(&same, at(now), 0), Admission::Go, "as good as new");
    }

    #[test]
    fn nobody_pays_for_what_another_registered() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (bad, good) = (owed(1, "shared", "bad"), owed(2, "shared", "good"));
        let hang = DeliveryOutcome::NoAnswer { reason: "no answer".into() };
        for outcome in [refused(500), hang.clone(), refused(503), hang, refused(502)] {
            assert_eq!(breakers.admit(&bad, at(0), 0), Admission::Go);
            breakers.report(&bad, &outcome, at(0), &limits);
        }
        assert_eq!(breakers.admit(&bad, at(1), 0), Admission::Wait(at(5)));
        assert_eq!(breakers.admit(&good, at(1), 0), Admission::Go);
    }

    #[test]
    fn who_succeeded_last_is_the_one_to_see() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (bad, good) = (owed(1, "a", "bad"), owed(1, "a", "good"));
        breakers.report(&good, &ACCEPTED, at(0), &limits);
        for _ in 0..5 {
            breakers.report(&bad, &refused(500), at(0), &limits);
        }
        assert_eq!(breakers.admit(&bad, at(5), 0), Admission::Wait(at(7)), "not the first");
        assert_eq!(breakers.admit(&good, at(4), 99), Admission::Wait(at(5)));
        assert_eq!(breakers.admit(&good, at(5), 0), Admission::Go);
        breakers.report(&good, &ACCEPTED, at(5), &limits);
        assert_eq!(breakers.admit(&bad, at(5), 0), Admission::Go);
        for _ in 0..5 {
            breakers.report(&bad, &refused(500), at(5), &limits);
        }
        assert_eq!(breakers.admit(&bad, at(12), 0), Admission::Go, "but where it has nothing to tell, anybody will do");
    }

    #[test]
    fn who_dislikes_a_delivery_is_alive() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let host = owed(1, "a", "c");
        for _ in 0..4 {
            breakers.report(&host, &refused(500), at(0), &limits);
        }
        breakers.report(&host, &refused(401), at(0), &limits);
        assert!(!breakers.report(&host, &refused(503), at(0), &limits));
        assert_eq!(breakers.admit(&host, at(0), 0), Admission::Go);
    }

    #[test]
    fn a_probe_that_did_not_take_place_is_given_back() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let host = owed(1, "a", "c");
        for _ in 0..5 {
            breakers.report(&host, &unreachable(), at(0), &limits);
        }
        assert_eq!(breakers.admit(&host, at(5), 0), Admission::Go);
        breakers.cancel_probe(&host.lane);
        for ours in [
            DeliveryOutcome::Forbidden { reason: "inside".into() },
            DeliveryOutcome::NotAttempted { reason: "full".into() },
        ] {
            assert_eq!(breakers.admit(&host, at(5), 0), Admission::Go);
            breakers.report(&host, &ours, at(5), &limits);
        }
        assert_eq!(breakers.admit(&host, at(5), 0), Admission::Go);
    }

    #[test]
    fn there_are_so_many_breakers_and_no_more() {
        let (limits, mut breakers) = (Limits { push_host_failures_max: 1, ..Limits::default() }, Breakers::default());
        for n in 0..BREAKERS_MAX + 100 {
            breakers.report(&owed(1, &n.to_string(), "c"), &unreachable(), at(0), &limits);
        }
        assert_eq!((breakers.by_key.len(), breakers.paused()), (BREAKERS_MAX, BREAKERS_MAX));
        assert!(
            breakers.report(&owed(1, "new", "c"), &unreachable(), at(60), &limits),
            "those whose pause is over make room"
        );
        assert_eq!(breakers.by_key.len(), 1);
    }
}
