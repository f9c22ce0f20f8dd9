//! Circuit breakers: who fails is left alone for a while, then asked once.
//!
//! | State | What happens | Then |
//! |---|---|---|
//! | closed | a call succeeds | closed; what failed before still counts |
//! | closed | a call fails, and too many did within the window | open |
//! | open | a call, before the cool-down is over | refused, and no network is touched |
//! | open | a call, after that | half-open: it is the probe |
//! | half-open | another call | refused, unless the probe takes too long: then it is the next one |
//! | half-open | the probe succeeds | closed, with a clean slate |
//! | half-open | the probe fails | open, for a whole cool-down; where only silence counts, once enough upstreams have failed |
//! | half-open | the probe is dropped and nobody knows | half-open; the next call is the probe |
//! | any | news of a call that was let go in an earlier state | ignored |
//!
//! Time is an argument, counted from wherever the caller likes. Nothing here waits, locks or reads a clock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Failures within the window that open it.
    pub failures: u32,
    /// How long a failure counts.
    pub window: Duration,
    /// How long nobody is called.
    pub cooldown: Duration,
    /// How many upstreams must be among those failures. More than one for the breaker that all of them share: one
    /// upstream that is down must not take the others with it.
    pub distinct: usize,
    /// How long a probe keeps the others out. One that takes longer may still be right, but nobody waits for it.
    pub probe: Duration,
    /// Which failures of upstreams count for the breaker that all of them share.
    pub counted: Counted,
}

/// Which failures of upstreams count for the breaker that all of them share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Only silence, which an upstream or the way to it may have caused. An answer of any upstream
    /// shows that the way is there, and clears what counted; a probe that fails says nothing while it is the only one.
    Silence,
    /// Every failure: time-outs, refused connections, statuses of 500 and more, answers that cannot be read. An answer clears
    /// nothing while the breaker is closed, and a probe that fails opens it again.
    EveryFailure,
}

impl Rules {
    /// For one upstream.
    pub const UPSTREAM: Self = Self {
        failures: 5,
        window: Duration::from_secs(600),
        cooldown: Duration::from_secs(300),
        distinct: 1,
        probe: Duration::MAX,
        counted: Counted::EveryFailure,
    };
    /// For all of them together. Agents take minutes to answer; that one of them does must not hold up all others.
    pub const HUB: Self =
        Self { distinct: 3, probe: Duration::from_secs(5), counted: Counted::Silence, ..Self::UPSTREAM };
    /// For all venues of the booking network together: the same state machine and thresholds as for one venue. Three venues must
    /// be among the five failures, or a single venue that fails would open its own breaker and this one at the same moment.
    pub const NETWORK: Self = Self { distinct: 3, probe: Duration::from_secs(15), ..Self::UPSTREAM };
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls pass.
    Closed,
    /// None does.
    Open,
    /// One passes, to see.
    HalfOpen,
}

impl State {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They answered, with whatever.
    Alive,
    /// They did not, or nothing that makes sense.
    Down(Blame),
    /// Nobody knows, or it says nothing about them.
    Unknown,
}

/// Whose failure it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blame {
    /// This upstream's, or that of the way to it.
    Upstream(Arc<str>),
    /// This upstream's alone: somebody was there.
    Theirs,
    /// That of the way all of them share: our own sockets, our network.
    Ours,
}

/// A call that was let go. What becomes of it is reported with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    epoch: u64,
}

/// No call now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// How long to stay away, in whole seconds.
    pub after: Duration,
}

/// A breaker.
#[derive(Debug)]
pub struct Breaker {
    rules: Rules,
    stage: Stage,
    /// Failures that count, oldest first.
    failures: VecDeque<(Duration, Blame)>,
    /// How often the state has changed: what was let go before the last change is no longer heard.
    epoch: u64,
    trips: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Closed,
    Open {
        since: Duration,
    },
    /// Since when a probe is out, if one is.
    HalfOpen {
        probing: Option<Duration>,
    },
}

impl Breaker {
    /// A closed one.
    pub const fn new(rules: Rules) -> Self {
        Self { rules, stage: Stage::Closed, failures: VecDeque::new(), epoch: 0, trips: 0 }
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        match self.stage {
            Stage::Closed => State::Closed,
            Stage::Open { .. } => State::Open,
            Stage::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Which failures of upstreams count.
    pub const fn counted(&self) -> Counted {
        self.rules.counted
    }

    /// How often it has opened.
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// Whether a call would be refused now; it is not made.
    pub fn refusal(&self, now: Duration) -> Option<Refused> {
        match self.stage {
            Stage::Closed | Stage::HalfOpen { probing: None } => None,
            Stage::HalfOpen { probing: Some(since) } => {
                let waits = now.saturating_sub(since) < self.rules.probe;
                waits.then_some(Refused { after: Duration::from_secs(1) })
            }
            Stage::Open { since } => {
                let left = (since + self.rules.cooldown).saturating_sub(now);
                (!left.is_zero()).then(|| Refused { after: whole_seconds(left) })
            }
        }
    }

    /// Asks for a call. Whoever gets a pass must report.
    pub fn ask(&mut self, now: Duration) -> Result<Pass, Refused> {
        if let Some(refused) = self.refusal(now) {
            return Err(refused);
        }
        match &mut self.stage {
            Stage::Closed => {}
            Stage::HalfOpen { probing } => *probing = Some(now),
            Stage::Open { .. } => {
                self.failures.clear();
                self.turn(Stage::HalfOpen { probing: Some(now) });
            }
        }
        Ok(Pass { epoch: self.epoch })
    }

    /// A call has ended.
    pub fn report(&mut self, pass: Pass, verdict: Verdict, now: Duration) {
        if pass.epoch != self.epoch {
            return;
        }
        match (&mut self.stage, verdict) {
            (Stage::HalfOpen { .. }, Verdict::Alive) => {
                self.failures.clear();
                self.turn(Stage::Closed);
            }
            (Stage::HalfOpen { probing }, Verdict::Unknown) => *probing = None,
            (Stage::HalfOpen { probing }, Verdict::Down(blame)) => {
                *probing = None;
                self.record(now, blame);
                // Where only silence counts, one upstream that still fails says nothing about the way that all share.
                if self.rules.counted == Counted::EveryFailure || self.is_widespread() {
                    self.trip(now);
                }
            }
            (Stage::Closed, Verdict::Down(blame)) => {
                self.record(now, blame);
                let many = self.failures.len() >= usize::try_from(self.rules.failures).unwrap_or(usize::MAX);
                if many && self.is_widespread() {
                    self.trip(now);
                }
            }
            (Stage::Closed, Verdict::Alive | Verdict::Unknown) | (Stage::Open { .. }, _) => {}
        }
    }

    /// Somebody answered: whatever others did not, the way that all share is there.
    pub(crate) fn forgive_upstreams(&mut self) {
        self.failures.retain(|(_, blame)| *blame == Blame::Ours);
    }

    fn record(&mut self, now: Duration, blame: Blame) {
        let window = self.rules.window;
        self.failures.retain(|(at, _)| now.saturating_sub(*at) < window);
        // More of one than would open the breaker say nothing new; this is what bounds the list.
        let same = self.failures.iter().filter(|(_, known)| *known == blame).count();
        if same >= usize::try_from(self.rules.failures).unwrap_or(usize::MAX)
            && let Some(oldest) = self.failures.iter().position(|(_, known)| *known == blame)
        {
            self.failures.remove(oldest);
        }
        self.failures.push_back((now, blame));
    }

    /// Whether enough of them are concerned, or the fault is our own.
    fn is_widespread(&self) -> bool {
        let mut upstreams: Vec<&Arc<str>> = Vec::new();
        let mut ours = 0_u32;
        for (_, blame) in &self.failures {
            match blame {
                Blame::Ours => ours += 1,
                Blame::Upstream(name) if !upstreams.contains(&name) => upstreams.push(name),
                Blame::Upstream(_) | Blame::Theirs => {}
            }
        }
        let enough = if matches!(self.stage, Stage::HalfOpen { .. }) { 1 } else { self.rules.failures };
        upstreams.len() >= self.rules.distinct || ours >= enough
    }

    fn trip(&mut self, now: Duration) {
        self.trips += 1;
        self.turn(Stage::Open { since: now });
    }

    const fn turn(&mut self, stage: Stage) {
        self.stage = stage;
        self.epoch += 1;
    }
}

/// Rounded up: whoever comes back a moment too early is refused again.
fn whole_seconds(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests;
