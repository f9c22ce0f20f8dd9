//! Circuit breakers: which receivers get no requests for a while after failures.
//!
//! There are two kinds of breakers. One is of a host, and only failures to connect count for it, since those are true
//! for every owner. One is of a lane, an owner at a host: no answer, or a server error, may be caused by what that
//! owner registered, so other owners are not affected. A receiver that refuses one delivery is alive.
//!
//! After some failures in a row a breaker opens for a pause; then one delivery is let through as a probe. If that fails
//! the pause doubles; if it succeeds the breaker is reset. Just after the pause, only the configuration that last
//! succeeded may be the probe: one that always fails should not decide for the others.

use super::schedule::spread;
use crate::courier::Outcome;
use crate::limits::Limits;
use sabir_proto::{TaskId, Timestamp};
use sabir_store::{Lane, Owed};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The most breakers kept. Beyond that, those that are not open are dropped, and if all are open no more are made: each
/// event still has its own delays.
const BREAKERS_MAX: usize = 10_000;
/// The shortest time between two searches for room: each walks over all breakers.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// How long after a pause only the configuration that last succeeded is let through.
const LEAD: Duration = Duration::from_secs(2);
/// The spread of the first deliveries after a pause, in milliseconds.
const SPREAD_MS: u64 = 2000;
/// How long other deliveries wait while a probe is in flight.
const PROBE_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Breakers {
    of: HashMap<Whose, Breaker>,
    tidied: Option<Timestamp>,
}

/// The host or lane that a breaker is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Whose {
    Host(Arc<str>),
    Lane(Lane),
}

impl Whose {
    fn both(lane: &Lane) -> [Self; 2] {
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
    fn ask(&mut self, owed: &Owed, now: Timestamp, random: u64) -> Admission {
        let Some(until) = self.until else { return Admission::Go };
        let proven = self.proven.as_ref();
        let leads = proven.is_none_or(|(task, config)| (*task, config) == (owed.task, &owed.config));
        let first = if leads { until } else { later(until, LEAD) };
        if first > now {
            // Spread out: the first one is the probe, and it should not always be the same delivery that spends its
            // attempts on it. The one that succeeded before comes first.
            let early = leads && proven.is_some();
            let apart = Duration::from_millis(if early { 0 } else { random % SPREAD_MS });
            return Admission::Wait(later(first, apart));
        }
        if std::mem::replace(&mut self.probing, true) {
            return Admission::Wait(later(now, spread(PROBE_WAIT, random)));
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
    pub(super) fn ask(&mut self, owed: &Owed, now: Timestamp, random: u64) -> Admission {
        let mut asked = Vec::with_capacity(2);
        for whose in Whose::both(&owed.lane) {
            let Some(breaker) = self.of.get_mut(&whose) else { continue };
            if let Admission::Wait(until) = breaker.ask(owed, now, random) {
                asked.iter().for_each(|whose| self.not_probing(whose));
                return Admission::Wait(until);
            }
            asked.push(whose);
        }
        Admission::Go
    }

    /// Records the result of a delivery; true when a breaker opens.
    pub(super) fn report(&mut self, owed: &Owed, outcome: &Outcome, now: Timestamp, limits: &Limits) -> bool {
        let [of_lane, of_host] = Whose::both(&owed.lane);
        match outcome {
            Outcome::Unreachable { .. } => {
                self.not_probing(&of_lane);
                self.get(of_host, now).is_some_and(|breaker| breaker.fail(now, limits))
            }
            Outcome::Unanswered { .. } | Outcome::Refused { status: 500.., .. } => {
                self.recover(&of_host);
                self.get(of_lane, now).is_some_and(|breaker| breaker.fail(now, limits))
            }
            Outcome::Accepted { .. } => {
                let proven = (owed.task, owed.config.clone());
                for whose in [of_lane, of_host] {
                    if let Some(breaker) = self.get(whose, now) {
                        *breaker = Breaker { proven: Some(proven.clone()), ..Breaker::default() };
                    }
                }
                false
            }
            Outcome::Refused { .. } | Outcome::Gone { .. } => {
                [of_lane, of_host].iter().for_each(|whose| self.recover(whose));
                false
            }
            // No request was sent.
            Outcome::Forbidden { .. } | Outcome::Withheld { .. } => {
                self.give_back(&owed.lane);
                false
            }
        }
    }

    /// Ends a probe without a result, for a delivery that was admitted and not attempted.
    pub(super) fn give_back(&mut self, lane: &Lane) {
        Whose::both(lane).iter().for_each(|whose| self.not_probing(whose));
    }

    /// The number of open breakers.
    pub(super) fn paused(&self) -> usize {
        self.of.values().filter(|breaker| breaker.until.is_some()).count()
    }

    fn not_probing(&mut self, whose: &Whose) {
        self.of.get_mut(whose).into_iter().for_each(|breaker| breaker.probing = false);
    }

    /// Resets a breaker, except for the last success.
    fn recover(&mut self, whose: &Whose) {
        if let Some(breaker) = self.of.get_mut(whose) {
            let proven = breaker.proven.take();
            *breaker = Breaker { proven, ..Breaker::default() };
        }
    }

    /// The breaker of a key, made if there is room for it.
    fn get(&mut self, whose: Whose, now: Timestamp) -> Option<&mut Breaker> {
        if self.of.len() >= BREAKERS_MAX && !self.of.contains_key(&whose) {
            if self.tidied.is_some_and(|tidied| now < later(tidied, TIDY_EVERY)) {
                return None;
            }
            self.tidied = Some(now);
            self.of.retain(|_, breaker| breaker.until.is_some_and(|until| until > now));
            if self.of.len() >= BREAKERS_MAX {
                return None;
            }
        }
        Some(self.of.entry(whose).or_default())
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

    fn owed(owner: i64, host: &str, config: &str) -> Owed {
        let (task, at) = (TaskId::new(Stamp::from_u64(1), 1), at(0));
        let lane = Lane { owner, host: host.into() };
        Owed { number: 1, task, config: config.into(), lane, seq: Seq(1), last: Seq(1), at, since: at, attempts: 0 }
    }

    fn nobody() -> Outcome {
        Outcome::Unreachable { reason: "nobody there".into() }
    }

    fn refused(status: u16) -> Outcome {
        Outcome::Refused { status, retry_after: None }
    }

    const TAKEN: Outcome = Outcome::Accepted { status: 200 };

    #[test]
    fn a_dead_host_is_left_alone_for_longer_and_longer() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (host, same, other) = (owed(1, "a", "c"), owed(2, "a", "c"), owed(1, "b", "c"));
        for n in 1..=5 {
            assert_eq!(breakers.ask(&host, at(0), 0), Admission::Go);
            assert_eq!(breakers.report(&host, &nobody(), at(0), &limits), n == 5);
        }
        let mut now = 0;
        for pause in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(breakers.ask(&host, at(now + pause - 1), 0), Admission::Wait(at(now + pause)));
            assert!(!breakers.report(&host, &nobody(), at(now + 1), &limits), "those under way do not count");
            now += pause;
            assert_eq!(breakers.ask(&same, at(now), 0), Admission::Go, "one to see, whoever it is of");
            assert!(matches!(breakers.ask(&host, at(now), 0), Admission::Wait(_)), "and no other");
            assert_eq!(breakers.ask(&other, at(now), 0), Admission::Go);
            assert!(breakers.report(&same, &nobody(), at(now), &limits));
        }
        assert_eq!(breakers.paused(), 1);
        now += 300;
        assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go);
        breakers.report(&host, &TAKEN, at(now), &limits);
        assert_eq!(breakers.paused(), 0);
        assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go);
        assert_eq!(breakers.ask(&same, at(now), 0), Admission::Go, "as good as new");
    }

    #[test]
    fn nobody_pays_for_what_another_registered() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (bad, good) = (owed(1, "shared", "bad"), owed(2, "shared", "good"));
        let hang = Outcome::Unanswered { reason: "no answer".into() };
        for outcome in [refused(500), hang.clone(), refused(503), hang, refused(502)] {
            assert_eq!(breakers.ask(&bad, at(0), 0), Admission::Go);
            breakers.report(&bad, &outcome, at(0), &limits);
        }
        assert_eq!(breakers.ask(&bad, at(1), 0), Admission::Wait(at(5)));
        assert_eq!(breakers.ask(&good, at(1), 0), Admission::Go);
    }

    #[test]
    fn who_succeeded_last_is_the_one_to_see() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (bad, good) = (owed(1, "a", "bad"), owed(1, "a", "good"));
        breakers.report(&good, &TAKEN, at(0), &limits);
        for _ in 0..5 {
            breakers.report(&bad, &refused(500), at(0), &limits);
        }
        assert_eq!(breakers.ask(&bad, at(5), 0), Admission::Wait(at(7)), "not the first");
        assert_eq!(breakers.ask(&good, at(4), 99), Admission::Wait(at(5)));
        assert_eq!(breakers.ask(&good, at(5), 0), Admission::Go);
        breakers.report(&good, &TAKEN, at(5), &limits);
        assert_eq!(breakers.ask(&bad, at(5), 0), Admission::Go);
        for _ in 0..5 {
            breakers.report(&bad, &refused(500), at(5), &limits);
        }
        assert_eq!(breakers.ask(&bad, at(12), 0), Admission::Go, "but where it has nothing to tell, anybody will do");
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
        assert_eq!(breakers.ask(&host, at(0), 0), Admission::Go);
    }

    #[test]
    fn a_probe_that_did_not_take_place_is_given_back() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let host = owed(1, "a", "c");
        for _ in 0..5 {
            breakers.report(&host, &nobody(), at(0), &limits);
        }
        assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
        breakers.give_back(&host.lane);
        for ours in [Outcome::Forbidden { reason: "inside".into() }, Outcome::Withheld { reason: "full".into() }] {
            assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
            breakers.report(&host, &ours, at(5), &limits);
        }
        assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
    }

    #[test]
    fn there_are_so_many_breakers_and_no_more() {
        let (limits, mut breakers) = (Limits { push_host_failures_max: 1, ..Limits::default() }, Breakers::default());
        for n in 0..BREAKERS_MAX + 100 {
            breakers.report(&owed(1, &n.to_string(), "c"), &nobody(), at(0), &limits);
        }
        assert_eq!((breakers.of.len(), breakers.paused()), (BREAKERS_MAX, BREAKERS_MAX));
        assert!(
            breakers.report(&owed(1, "new", "c"), &nobody(), at(60), &limits),
            "those whose pause is over make room"
        );
        assert_eq!(breakers.of.len(), 1);
    }
}
