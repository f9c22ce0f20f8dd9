//! Circuit breakers: after several failures calls are refused for a while, then one probe is let through.
//!
//! | State | What happens | Then |
//! |---|---|---|
//! | closed | a call succeeds | closed; what failed before still counts |
//! | closed | a call fails, and too many did within the window | open |
//! | open | a call, before the cool-down is over | refused, and no network is touched |
//! | open | a call, after that | half-open: it is the probe |
//! | half-open | another call | refused; if the probe takes too long, this call is the next probe |
//! | half-open | the probe succeeds | closed, with a clean slate |
//! | half-open | the probe fails | open for a cool-down; if only silence counts, after failures of enough upstreams |
//! | half-open | the probe is dropped without a result | half-open; the next call is the probe |
//! | any | the result of a call from before the last state change | ignored |
//!
//! Time is an argument, counted from any fixed moment. Nothing here waits, locks or reads a clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRules {
    /// The number of failures within the window that opens the breaker.
    pub failures: u32,
    /// How long a failure counts.
    pub window: Duration,
    /// How long an open breaker refuses calls.
    pub cooldown: Duration,
    /// How many upstreams must be among those failures. More than one for the shared breaker: one upstream that is down
    /// must not block the others.
    pub upstreams_min: usize,
    /// How long a probe keeps other calls out. After that the next call is a probe too; the slow one may still succeed.
    pub probe_time_max: Duration,
    /// Which failures of upstreams count for the breaker that all of them share.
    pub counted_failures: CountedFailures,
}

/// Which failures of upstreams count for the breaker that all of them share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedFailures {
    /// Only silence, which an upstream or the path to it may have caused. An answer of any upstream shows that the path
    /// works, and clears what counted; a single failed probe does not open the breaker again.
    Silence,
    /// Every failure: time-outs, refused connections, statuses of 500 and more, answers that cannot be read. An answer
    /// clears nothing while the breaker is closed, and a probe that fails opens it again.
    EveryFailure,
}

impl BreakerRules {
    /// The rules for one upstream.
    pub const UPSTREAM: Self = Self {
        failures: 5,
        window: Duration::from_secs(600),
        cooldown: Duration::from_secs(300),
        upstreams_min: 1,
        probe_time_max: Duration::MAX,
        counted_failures: CountedFailures::EveryFailure,
    };
    /// For all upstreams together. Agents take minutes to answer; a slow probe must not hold up the calls to the
    /// others.
    pub const HUB: Self = Self {
        upstreams_min: 3,
        probe_time_max: Duration::from_secs(5),
        counted_failures: CountedFailures::Silence,
        ..Self::UPSTREAM
    };
    /// For all venues of the booking network together: the thresholds of one venue. Three venues must be among the five
    /// failures, or one failing venue would open its own breaker and this one at the same moment.
    pub const NETWORK: Self = Self { upstreams_min: 3, probe_time_max: Duration::from_secs(15), ..Self::UPSTREAM };
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One call passes, as a probe.
    HalfOpen,
}

impl BreakerState {
    /// The name, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The result of a call, for a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// The upstream answered, with any content.
    Answered,
    /// The upstream did not answer, or not with anything readable.
    Failed(FailureSource),
    /// The result is not known, or says nothing about the upstream.
    Unknown,
}

/// The part that a failure is attributed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureSource {
    /// This upstream, or the path to it.
    UpstreamOrPath(Arc<str>),
    /// This upstream alone: a host answered at its address.
    UpstreamAlone,
    /// Our side of the path that all upstreams share: our sockets, our network.
    LocalNetwork,
}

/// Permission for one call; its holder reports the result with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPermit {
    epoch: u64,
}

/// The breaker refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRefusal {
    /// How long to wait before the next call, in whole seconds.
    pub retry_after: Duration,
}

/// A circuit breaker, as the table above describes it.
#[derive(Debug)]
pub struct Breaker {
    rules: BreakerRules,
    phase: BreakerPhase,
    /// Failures that count, oldest first.
    failures: VecDeque<(Duration, FailureSource)>,
    /// The number of state changes. Results of calls from before the last change are ignored.
    epoch: u64,
    trips: u64,
}

#[derive(Debug, Clone, Copy)]
enum BreakerPhase {
    Closed,
    Open {
        since: Duration,
    },
    /// When the probe began, if one is out.
    HalfOpen {
        probing: Option<Duration>,
    },
}

impl Breaker {
    /// A breaker that is closed.
    pub const fn new(rules: BreakerRules) -> Self {
        Self { rules, phase: BreakerPhase::Closed, failures: VecDeque::new(), epoch: 0, trips: 0 }
    }

    /// The current state of the breaker.
    pub const fn state(&self) -> BreakerState {
        match self.phase {
            BreakerPhase::Closed => BreakerState::Closed,
            BreakerPhase::Open { .. } => BreakerState::Open,
            BreakerPhase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Which failures of upstreams count.
    pub const fn counted_failures(&self) -> CountedFailures {
        self.rules.counted_failures
    }

    /// How often the breaker has opened.
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// The refusal that a call would get now; no call is made.
    pub fn refusal(&self, now: Duration) -> Option<BreakerRefusal> {
        match self.phase {
            BreakerPhase::Closed | BreakerPhase::HalfOpen { probing: None } => None,
            BreakerPhase::HalfOpen { probing: Some(since) } => {
                let waits = now.saturating_sub(since) < self.rules.probe_time_max;
                waits.then_some(BreakerRefusal { retry_after: Duration::from_secs(1) })
            }
            BreakerPhase::Open { since } => {
                let left = (since + self.rules.cooldown).saturating_sub(now);
                (!left.is_zero()).then(|| BreakerRefusal { retry_after: whole_seconds(left) })
            }
        }
    }

    /// Asks for permission to make a call. The caller must report the result with the pass.
    pub fn try_acquire(&mut self, now: Duration) -> Result<BreakerPermit, BreakerRefusal> {
        if let Some(refused) = self.refusal(now) {
            return Err(refused);
        }
        match &mut self.phase {
            BreakerPhase::Closed => {}
            BreakerPhase::HalfOpen { probing } => *probing = Some(now),
            BreakerPhase::Open { .. } => {
                self.failures.clear();
                self.set_phase(BreakerPhase::HalfOpen { probing: Some(now) });
            }
        }
        Ok(BreakerPermit { epoch: self.epoch })
    }

    /// Records the result of a call.
    pub fn report(&mut self, pass: BreakerPermit, verdict: CallOutcome, now: Duration) {
        if pass.epoch != self.epoch {
            return;
        }
        match (&mut self.phase, verdict) {
            (BreakerPhase::HalfOpen { .. }, CallOutcome::Answered) => {
                self.failures.clear();
                self.set_phase(BreakerPhase::Closed);
            }
            (BreakerPhase::HalfOpen { probing }, CallOutcome::Unknown) => *probing = None,
            (BreakerPhase::HalfOpen { probing }, CallOutcome::Failed(blame)) => {
                *probing = None;
                self.record(now, blame);
                // If only silence counts, one upstream that still fails says nothing about the shared path.
                if self.rules.counted_failures == CountedFailures::EveryFailure || self.is_widespread() {
                    self.trip(now);
                }
            }
            (BreakerPhase::Closed, CallOutcome::Failed(blame)) => {
                self.record(now, blame);
                let many = self.failures.len() >= usize::try_from(self.rules.failures).unwrap_or(usize::MAX);
                if many && self.is_widespread() {
                    self.trip(now);
                }
            }
            (BreakerPhase::Closed, CallOutcome::Answered | CallOutcome::Unknown) | (BreakerPhase::Open { .. }, _) => {}
        }
    }

    /// Clears the failures of upstreams: one of them answered, so the shared path works.
    pub(crate) fn clear_upstream_failures(&mut self) {
        self.failures.retain(|(_, blame)| *blame == FailureSource::LocalNetwork);
    }

    fn record(&mut self, now: Duration, blame: FailureSource) {
        let window = self.rules.window;
        self.failures.retain(|(at, _)| now.saturating_sub(*at) < window);
        // Further failures of one upstream say nothing new; dropping the oldest bounds the list.
        let same = self.failures.iter().filter(|(_, known)| *known == blame).count();
        if same >= usize::try_from(self.rules.failures).unwrap_or(usize::MAX)
            && let Some(oldest) = self.failures.iter().position(|(_, known)| *known == blame)
        {
            self.failures.remove(oldest);
        }
        self.failures.push_back((now, blame));
    }

    /// Whether the failures concern enough upstreams, or are our own.
    fn is_widespread(&self) -> bool {
        let mut upstreams: Vec<&Arc<str>> = Vec::new();
        let mut ours = 0_u32;
        for (_, blame) in &self.failures {
            match blame {
                FailureSource::LocalNetwork => ours += 1,
                FailureSource::UpstreamOrPath(name) if !upstreams.contains(&name) => upstreams.push(name),
                FailureSource::UpstreamOrPath(_) | FailureSource::UpstreamAlone => {}
            }
        }
        let enough = if matches!(self.phase, BreakerPhase::HalfOpen { .. }) { 1 } else { self.rules.failures };
        upstreams.len() >= self.rules.upstreams_min || ours >= enough
    }

    fn trip(&mut self, now: Duration) {
        self.trips += 1;
        self.set_phase(BreakerPhase::Open { since: now });
    }

    const fn set_phase(&mut self, phase: BreakerPhase) {
        self.phase = phase;
        self.epoch += 1;
    }
}

/// Rounds up: a client that comes back a moment too early would be refused again.
fn whole_seconds(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests;
