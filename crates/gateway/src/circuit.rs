//! Two breakers before every call: that of the upstream, then the one that all upstreams share.
//!
//! Both must let a call go. If the second refuses, the first gets its pass back and learns nothing. What becomes of a call
//! is told to both, once; a call whose caller vanished is given back by dropping its [`Passage`].
//!
//! Absent on purpose: what survives a restart. A hub that starts has called nobody yet, and finds out soon enough.

use crate::breaker::{Blame, Breaker, Counted, Pass, Refused, Rules, State, Verdict};
use crate::metrics::{Metrics, SHARED};
use crate::wire::WireLog;
use sabir_client::{Capacity, Error, TransportCode, Whose};
use sabir_proto::{Code, Fault};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whoever had less time than this to answer is not to blame for not answering.
const FAIR: Duration = Duration::from_secs(1);

/// What all upstreams of a hub share: the way out.
#[derive(Debug)]
pub struct Hub {
    breaker: Mutex<Breaker>,
    origin: Instant,
    metrics: Metrics,
    shown: Shown,
    wire: WireLog,
    answers: Capacity,
    /// How far the clock of a test is ahead.
    #[cfg(test)]
    ahead: Mutex<Duration>,
}

/// The breakers of one upstream.
#[derive(Debug)]
pub struct Circuit {
    name: Arc<str>,
    /// Whose failure it is: several places may belong to one upstream.
    upstream: Arc<str>,
    breaker: Mutex<Breaker>,
    shown: Shown,
    hub: Arc<Hub>,
}

/// The state that metrics show: to look a metric up costs more than a breaker does, and it hardly ever changes.
#[derive(Debug, Default)]
struct Shown(Mutex<Option<State>>);

impl Shown {
    fn is_news(&self, state: State) -> bool {
        lock(&self.0).replace(state) != Some(state)
    }
}

/// A call that both breakers have let go.
#[derive(Debug)]
#[must_use = "what became of the call is to be reported"]
pub struct Passage {
    circuit: Arc<Circuit>,
    passes: Option<(Pass, Pass)>,
}

/// Where the breakers of an upstream stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its own.
    pub upstream: State,
    /// How often that has opened.
    pub trips: u64,
    /// The one that all share.
    pub hub: State,
    /// How long nobody is called, if nobody is.
    pub refused: Option<Duration>,
}

impl Hub {
    /// A way out that works as far as anybody knows.
    pub fn new(metrics: Metrics) -> Arc<Self> {
        Self::with(Rules::HUB, metrics, WireLog::off(), Capacity::default())
    }

    /// The same with other rules, with what is said on it kept, and with so much room for what is answered.
    pub fn with(rules: Rules, metrics: Metrics, wire: WireLog, answers: Capacity) -> Arc<Self> {
        Arc::new(Self {
            wire,
            answers,
            breaker: Mutex::new(Breaker::new(rules)),
            origin: Instant::now(),
            metrics,
            shown: Shown::default(),
            #[cfg(test)]
            ahead: Mutex::default(),
        })
    }

    /// The breakers of one place of an upstream, and what to call it.
    pub fn circuit(self: &Arc<Self>, upstream: &str, name: &str, rules: Rules) -> Arc<Circuit> {
        let (name, upstream) = (name.into(), upstream.into());
        let (breaker, shown) = (Mutex::new(Breaker::new(rules)), Shown::default());
        let circuit = Circuit { name, upstream, breaker, shown, hub: self.clone() };
        circuit.show(State::Closed);
        Arc::new(circuit)
    }

    /// Where what is said is kept.
    pub(crate) const fn wire(&self) -> &WireLog {
        &self.wire
    }

    /// Room for what all upstreams answer, together.
    pub const fn answers(&self) -> &Capacity {
        &self.answers
    }

    /// Where the breaker that all share stands.
    pub fn state(&self) -> State {
        lock(&self.breaker).state()
    }

    #[cfg(not(test))]
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A clock that stands still until it is moved.
    #[cfg(test)]
    fn now(&self) -> Duration {
        self.origin.duration_since(self.origin) + *lock(&self.ahead)
    }
}

impl Circuit {
    /// Asks for a call. No network is touched by one that is refused.
    pub fn pass(self: &Arc<Self>) -> Result<Passage, Refused> {
        let now = self.hub.now();
        let mut own = lock(&self.breaker);
        let passes = own.ask(now).and_then(|pass| {
            let shared = lock(&self.hub.breaker).ask(now);
            shared.inspect_err(|_| own.report(pass, Verdict::Unknown, now)).map(|shared| (pass, shared))
        });
        let state = own.state();
        drop(own);
        self.show(state);
        match passes {
            Ok(passes) => Ok(Passage { circuit: self.clone(), passes: Some(passes) }),
            Err(refused) => {
                self.hub.metrics.refused(&self.name);
                Err(refused)
            }
        }
    }

    /// How long nobody is called, if nobody is.
    pub fn refusal(&self) -> Option<Duration> {
        let now = self.hub.now();
        let own = lock(&self.breaker).refusal(now);
        let refused = own.or_else(|| lock(&self.hub.breaker).refusal(now))?;
        Some(refused.after)
    }

    /// Whether it is the breaker that all share which lets nobody call.
    pub fn is_refused_by_all(&self) -> bool {
        lock(&self.hub.breaker).refusal(self.hub.now()).is_some()
    }

    /// Where the breakers stand.
    pub fn standing(&self) -> Standing {
        let refused = self.refusal();
        let own = lock(&self.breaker);
        let (upstream, trips) = (own.state(), own.trips());
        drop(own);
        Standing { upstream, trips, hub: self.hub.state(), refused }
    }

    /// Tells what became of a call, going by how it failed, if it did.
    pub(crate) fn judge(&self, error: Option<&Error>) -> Verdict {
        error.map_or(Verdict::Alive, |error| verdict(error, &self.upstream))
    }

    fn report(&self, (own, shared): (Pass, Pass), verdict: &Verdict) {
        let now = self.hub.now();
        let mut breaker = lock(&self.breaker);
        let before = breaker.trips();
        // What is our own fault says nothing about them.
        let of_them = match verdict {
            Verdict::Down(Blame::Ours) => Verdict::Unknown,
            Verdict::Down(Blame::Theirs) => Verdict::Down(Blame::Upstream(self.upstream.clone())),
            other => other.clone(),
        };
        breaker.report(own, of_them, now);
        let (state, tripped) = (breaker.state(), breaker.trips() > before);
        drop(breaker);
        let mut hub = lock(&self.hub.breaker);
        let before = hub.trips();
        let of_the_way = match (verdict, hub.counted()) {
            (Verdict::Down(Blame::Theirs), Counted::EveryFailure) => {
                Verdict::Down(Blame::Upstream(self.upstream.clone()))
            }
            // An upstream that answers, or refuses in person, shows that there is a way out.
            (Verdict::Down(Blame::Theirs), Counted::Silence) => Verdict::Alive,
            (other, _) => other.clone(),
        };
        if of_the_way == Verdict::Alive && hub.counted() == Counted::Silence {
            hub.forgive_upstreams();
        }
        hub.report(shared, of_the_way, now);
        let (hub_state, hub_tripped) = (hub.state(), hub.trips() > before);
        drop(hub);
        self.show(state);
        if self.hub.shown.is_news(hub_state) {
            self.hub.metrics.circuit(SHARED, hub_state);
        }
        if tripped {
            self.hub.metrics.tripped(&self.name);
            tracing::warn!(upstream = %self.name, "an upstream fails again and again; it is left alone for a while");
        }
        if hub_tripped {
            self.hub.metrics.tripped(SHARED);
            tracing::error!("several upstreams fail together; none is called for a while");
        }
    }

    fn show(&self, state: State) {
        if self.shown.is_news(state) {
            self.hub.metrics.circuit(&self.name, state);
        }
    }
}

impl Passage {
    /// Tells what became of the call.
    pub fn report(mut self, verdict: &Verdict) {
        self.close(verdict);
    }

    /// The same, going by how it failed, if it did.
    pub(crate) fn judge(self, error: Option<&Error>) {
        let verdict = self.circuit.judge(error);
        self.report(&verdict);
    }

    /// The same for a failure of what lies between us and everybody: nothing is held against this one.
    pub(crate) fn blame_the_way(self, error: &Error) {
        let verdict = match self.circuit.judge(Some(error)) {
            Verdict::Down(_) => Verdict::Down(Blame::Ours),
            other => other,
        };
        self.report(&verdict);
    }

    fn close(&mut self, verdict: &Verdict) {
        if let Some(passes) = self.passes.take() {
            self.circuit.report(passes, verdict);
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.close(&Verdict::Unknown);
    }
}

impl From<Refused> for Error {
    /// As an agent would say it that cannot be called now. Nothing was sent.
    fn from(refused: Refused) -> Self {
        let fault = Fault::Unavailable("the circuit breaker is open: the agent failed again and again".into());
        Self::Fault { fault, transport: None, retry_after: Some(refused.after) }
    }
}

/// What a failure says about the upstream, and perhaps about the way to it. An answer that says no is an answer; so is one that asks for credentials.
fn verdict(error: &Error, name: &Arc<str>) -> Verdict {
    let silent = || Verdict::Down(Blame::Upstream(name.clone()));
    let down = || Verdict::Down(Blame::Theirs);
    match error {
        Error::Unreachable { whose: Whose::Ours, .. } => Verdict::Down(Blame::Ours),
        Error::Unreachable { whose: Whose::Unknown, .. } => silent(),
        Error::Unreachable { whose: Whose::Theirs, .. } | Error::StreamLost { .. } | Error::TooLarge { .. } => down(),
        Error::CardInvalid { .. } | Error::CardUntrusted { .. } => down(),
        Error::Timeout { after, .. } if *after < FAIR => Verdict::Unknown,
        Error::Timeout { .. } => silent(),
        // Whatever number it came with: one caller's input must not take the agent away from all others.
        Error::Fault { fault, transport: Some(_), .. } if is_about_the_request(fault.code()) => Verdict::Alive,
        Error::Fault { fault, transport, .. } => match transport {
            // That they cannot do it at all is an answer.
            Some(TransportCode::Http(501)) => Verdict::Alive,
            Some(TransportCode::Http(500..)) => down(),
            Some(TransportCode::Http(400..)) => Verdict::Alive,
            Some(TransportCode::Grpc("UNAVAILABLE" | "INTERNAL" | "UNKNOWN" | "DATA_LOSS" | "DEADLINE_EXCEEDED")) => {
                down()
            }
            _ if fault.code() == Code::InvalidAgentResponse => down(),
            Some(_) => Verdict::Alive,
            None => Verdict::Unknown,
        },
        Error::AuthFailed { .. }
        | Error::CredentialsMissing { transport: Some(_), .. }
        | Error::CardForbidden { .. }
        | Error::CardNotFound { .. }
        | Error::Elsewhere { .. }
        | Error::NoInterface { .. } => Verdict::Alive,
        // Our own refusals: nobody was asked, or what they said could not be taken for others' sake.
        _ => Verdict::Unknown,
    }
}

/// Whether a refusal is about what was asked for. An agent that says so is there, and works.
const fn is_about_the_request(code: Code) -> bool {
    match code {
        Code::TaskNotFound
        | Code::TaskNotCancelable
        | Code::PushNotificationNotSupported
        | Code::UnsupportedOperation
        | Code::ContentTypeNotSupported
        | Code::ExtendedAgentCardNotConfigured
        | Code::ExtensionSupportRequired
        | Code::VersionNotSupported
        | Code::ParseError
        | Code::InvalidRequest
        | Code::MethodNotFound
        | Code::InvalidParams
        | Code::Conflict
        | Code::Unauthenticated
        | Code::Forbidden => true,
        Code::InvalidAgentResponse
        | Code::Internal
        | Code::Unavailable
        | Code::Exhausted
        | Code::TooMany
        | Code::Closed => false,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
