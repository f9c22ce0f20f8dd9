//! Which hosts are left alone, and for how long.
//!
//! A host is scheme, name and port. After some failures in a row, of whatever configurations, it is left alone for a
//! pause; then one delivery is let through to see. If that fails the pause doubles, if it arrives the host is as good as
//! new. Only what says something about the host counts as a failure: no answer, or a server error. A receiver that does
//! not like one delivery is alive.

use super::schedule::spread;
use crate::courier::Outcome;
use crate::limits::Limits;
use sabir_proto::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Hosts that are remembered as failing; beyond that those are forgotten whose pause is over.
const HOSTS_MAX: usize = 10_000;
/// How long others wait while one delivery is let through.
const PROBE_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Breakers(HashMap<Arc<str>, Breaker>);

#[derive(Debug, Default)]
struct Breaker {
    /// In a row.
    failures: u32,
    /// The last pause; zero while there has been none.
    pause: Duration,
    until: Option<Timestamp>,
    /// Somebody was let through to see.
    probing: bool,
}

/// Whether a delivery may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Go,
    /// Not before then.
    Wait(Timestamp),
}

impl Breakers {
    /// Asks for a delivery. Whoever is let go must report what came of it.
    pub(super) fn ask(&mut self, host: &Arc<str>, now: Timestamp, random: u64) -> Admission {
        let Some(Breaker { until: Some(until), probing, .. }) = self.0.get_mut(host) else { return Admission::Go };
        if *until > now {
            return Admission::Wait(*until);
        }
        if std::mem::replace(probing, true) {
            return Admission::Wait(later(now, spread(PROBE_WAIT, random)));
        }
        Admission::Go
    }

    /// A delivery has ended; true when the host is left alone from now on.
    pub(super) fn report(&mut self, host: &Arc<str>, outcome: &Outcome, now: Timestamp, limits: &Limits) -> bool {
        let failed = match outcome {
            Outcome::Unreachable { .. } => true,
            Outcome::Refused { status, .. } => *status >= 500,
            Outcome::Accepted { .. } | Outcome::Gone { .. } => false,
            // Nobody was called.
            Outcome::Forbidden { .. } => {
                self.0.get_mut(host).into_iter().for_each(|breaker| breaker.probing = false);
                return false;
            }
        };
        if !failed {
            self.0.remove(host);
            return false;
        }
        if self.0.len() >= HOSTS_MAX && !self.0.contains_key(host) {
            self.0.retain(|_, breaker| breaker.until.is_some_and(|until| until > now));
        }
        let breaker = self.0.entry(host.clone()).or_default();
        breaker.failures = breaker.failures.saturating_add(1);
        // Those that went before the pause may fail during it; only the one that was let through makes it longer.
        let paused = breaker.until.is_some_and(|until| until > now);
        if breaker.failures < limits.push_host_failures_max || paused {
            return false;
        }
        breaker.pause = (breaker.pause * 2).clamp(limits.push_pause_min, limits.push_pause_max);
        breaker.until = Some(later(now, breaker.pause));
        breaker.probing = false;
        true
    }

    /// A delivery that was let go did not take place after all.
    pub(super) fn give_back(&mut self, host: &Arc<str>) {
        self.0.get_mut(host).into_iter().for_each(|breaker| breaker.probing = false);
    }

    /// How many hosts are left alone.
    pub(super) fn paused(&self) -> usize {
        self.0.values().filter(|breaker| breaker.until.is_some()).count()
    }
}

/// Scheme, name and port of a URL, for telling hosts apart and nothing else.
pub(super) fn host_of(url: &str) -> Arc<str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    // What stands before it is a name and a password.
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}").to_ascii_lowercase().into()
}

pub(super) fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(now.millis().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn dead() -> Outcome {
        Outcome::Unreachable { reason: "nobody there".into() }
    }

    #[test]
    fn a_dead_host_is_left_alone_for_longer_and_longer() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let (host, other): (Arc<str>, Arc<str>) = ("http://a".into(), "http://b".into());
        for n in 1..=5 {
            assert_eq!(breakers.ask(&host, at(0), 0), Admission::Go);
            assert_eq!(breakers.report(&host, &dead(), at(0), &limits), n == 5);
        }
        let mut now = 0;
        for pause in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(breakers.ask(&host, at(now + pause - 1), 0), Admission::Wait(at(now + pause)));
            assert!(!breakers.report(&host, &dead(), at(now + 1), &limits), "those under way do not count");
            now += pause;
            assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go, "one to see");
            assert!(matches!(breakers.ask(&host, at(now), 0), Admission::Wait(_)), "and no other");
            assert_eq!(breakers.ask(&other, at(now), 0), Admission::Go);
            assert!(breakers.report(&host, &dead(), at(now), &limits));
        }
        assert_eq!(breakers.paused(), 1);
        now += 300;
        assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go);
        breakers.report(&host, &Outcome::Accepted { status: 200 }, at(now), &limits);
        assert_eq!(breakers.paused(), 0);
        assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go);
        assert_eq!(breakers.ask(&host, at(now), 0), Admission::Go, "as good as new");
    }

    #[test]
    fn who_dislikes_a_delivery_is_alive() {
        let (limits, mut breakers) = (Limits::default(), Breakers::default());
        let host: Arc<str> = "http://a".into();
        let refused = |status| Outcome::Refused { status, retry_after: None };
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
        let host: Arc<str> = "http://a".into();
        for _ in 0..5 {
            breakers.report(&host, &dead(), at(0), &limits);
        }
        assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
        breakers.give_back(&host);
        assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
        breakers.report(&host, &Outcome::Forbidden { reason: "inside".into() }, at(5), &limits);
        assert_eq!(breakers.ask(&host, at(5), 0), Admission::Go);
    }

    #[test]
    fn hosts_are_told_apart_by_scheme_name_and_port() {
        for (url, host) in [
            ("https://Example.com/a?b", "https://example.com"),
            ("http://u:secret@example.com:81/a", "http://example.com:81"),
            ("http://[::1]:9#x", "http://[::1]:9"),
            ("http://a\\b", "http://a"),
        ] {
            assert_eq!(&*host_of(url), host);
        }
    }
}
