//! Every call passes two breakers: that of the upstream, then the one that all upstreams share.
//!
//! Both must permit the call. If the second refuses, the first gets its pass back and learns nothing. The result is
//! reported to both, once; when a caller vanishes, dropping the [`Passage`] reports an unknown result.
//!
//! Absent on purpose: state that survives a restart. A new hub has called no upstream yet, and soon learns their state.

use crate::breaker::{Blame, Breaker, Counted, Pass, Refused, Rules, State, Verdict};
use crate::metrics::{Metrics, SHARED};
use crate::wire::WireLog;
use sabir_client::{Capacity, Error, TransportCode, Whose};
use sabir_proto::{Code, Fault};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An upstream that had less time than this is not blamed for not answering.
const FAIR: Duration = Duration::from_secs(1);

/// What all upstreams of a hub share: a breaker, metrics, the exchange log and the room for answers.
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

/// The breakers before the calls to one replica of an upstream.
#[derive(Debug)]
pub struct Circuit {
    name: Arc<str>,
    /// The upstream that failures count for; several replicas may belong to one.
    upstream: Arc<str>,
    breaker: Mutex<Breaker>,
    shown: Shown,
    hub: Arc<Hub>,
}

/// The state that metrics show. Looking a metric up costs more than a breaker does, and the state rarely changes.
#[derive(Debug, Default)]
struct Shown(Mutex<Option<State>>);

impl Shown {
    fn is_news(&self, state: State) -> bool {
        lock(&self.0).replace(state) != Some(state)
    }
}

/// A call that both breakers have permitted.
#[derive(Debug)]
#[must_use = "what became of the call is to be reported"]
pub struct Passage {
    circuit: Arc<Circuit>,
    passes: Option<(Pass, Pass)>,
}

/// The state of the breakers of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The state of the upstream's own breaker.
    pub upstream: State,
    /// How often the upstream's own breaker has opened.
    pub trips: u64,
    /// The state of the breaker that all share.
    pub hub: State,
    /// How long calls are refused; `None` if they are not.
    pub refused: Option<Duration>,
}

impl Hub {
    /// A hub with the usual rules, without an exchange log.
    pub fn new(metrics: Metrics) -> Arc<Self> {
        Self::with(Rules::HUB, metrics, WireLog::off(), Capacity::default())
    }

    /// A hub with other rules, an exchange log, and a limit for the memory of all answers.
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

    /// The breakers of one replica of an upstream; `name` is its name in metrics.
    pub fn circuit(self: &Arc<Self>, upstream: &str, name: &str, rules: Rules) -> Arc<Circuit> {
        let (name, upstream) = (name.into(), upstream.into());
        let (breaker, shown) = (Mutex::new(Breaker::new(rules)), Shown::default());
        let circuit = Circuit { name, upstream, breaker, shown, hub: self.clone() };
        circuit.show(State::Closed);
        Arc::new(circuit)
    }

    /// The log of exchanges with upstreams.
    pub(crate) const fn wire(&self) -> &WireLog {
        &self.wire
    }

    /// The memory that the answers of all upstreams may take together.
    pub const fn answers(&self) -> &Capacity {
        &self.answers
    }

    /// The state of the breaker that all share.
    pub fn state(&self) -> State {
        lock(&self.breaker).state()
    }

    #[cfg(not(test))]
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A clock that stands still until a test moves it.
    #[cfg(test)]
    fn now(&self) -> Duration {
        self.origin.duration_since(self.origin) + *lock(&self.ahead)
    }
}

impl Circuit {
    /// Asks both breakers for a call. A refused call touches no network.
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

    /// How long calls are refused; `None` if they are not.
    pub fn refusal(&self) -> Option<Duration> {
        let now = self.hub.now();
        let own = lock(&self.breaker).refusal(now);
        let refused = own.or_else(|| lock(&self.hub.breaker).refusal(now))?;
        Some(refused.after)
    }

    /// Whether the breaker that all share refuses calls.
    pub fn is_refused_by_all(&self) -> bool {
        lock(&self.hub.breaker).refusal(self.hub.now()).is_some()
    }

    /// The state of the breakers.
    pub fn standing(&self) -> Standing {
        let refused = self.refusal();
        let own = lock(&self.breaker);
        let (upstream, trips) = (own.state(), own.trips());
        drop(own);
        Standing { upstream, trips, hub: self.hub.state(), refused }
    }

    /// The verdict on a call, by its error, if it failed.
    pub(crate) fn judge(&self, error: Option<&Error>) -> Verdict {
        error.map_or(Verdict::Alive, |error| verdict(error, &self.upstream))
    }

    fn report(&self, (own, shared): (Pass, Pass), verdict: &Verdict) {
        let now = self.hub.now();
        let mut breaker = lock(&self.breaker);
        let before = breaker.trips();
        // A failure of our own says nothing about the upstream.
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
            // An upstream that answers, or refuses the connection itself, shows that the path works.
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
    /// Reports the result of the call.
    pub fn report(mut self, verdict: &Verdict) {
        self.close(verdict);
    }

    /// Reports the result of the call, by its error, if it failed.
    pub(crate) fn judge(self, error: Option<&Error>) {
        let verdict = self.circuit.judge(error);
        self.report(&verdict);
    }

    /// Reports a failure of a part that all upstreams share, such as a gateway: this upstream is not blamed.
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
    /// The error of an agent that cannot be called now. Nothing was sent.
    fn from(refused: Refused) -> Self {
        let fault = Fault::Unavailable("the circuit breaker is open: the agent failed again and again".into());
        Self::Fault { fault, transport: None, retry_after: Some(refused.after) }
    }
}

/// What an error says about the upstream, and perhaps about the path to it. A refusal is an answer, and so is a request
/// for credentials.
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
        // Whatever its status: one caller's input must not block the agent for all others.
        Error::Fault { fault, transport: Some(_), .. } if is_about_the_request(fault.code()) => Verdict::Alive,
        Error::Fault { fault, transport, .. } => match transport {
            // "Not implemented" is an answer.
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
        // Our own refusals: no request was sent, or other callers left no room for the answer.
        _ => Verdict::Unknown,
    }
}

/// Whether a refusal is about the request. An agent that says so works.
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
