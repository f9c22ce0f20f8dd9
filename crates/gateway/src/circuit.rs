//! Every call passes two breakers: that of the upstream, then the one that all upstreams share.
//!
//! Both must permit the call. If the second refuses, the first gets its pass back and learns nothing. The result is
//! reported to both, once; when a caller vanishes, dropping the [`CallPermit`] reports an unknown result.
//!
//! Absent on purpose: state that survives a restart. A new hub has called no upstream yet, and soon learns their state.

use crate::breaker::{
    Breaker, BreakerPermit, BreakerRefusal, BreakerRules, BreakerState, CallOutcome, CountedFailures, FailureSource,
};
use crate::exchange_log::ExchangeLog;
use crate::metrics::{Metrics, SHARED};
use sabir_client::{Capacity, Error, FailureSide, TransportCode};
use sabir_proto::{Fault, FaultCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An upstream that had less time than this is not blamed for not answering.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);

/// What all upstreams of a hub share: a breaker, metrics, the exchange log and the room for answers.
#[derive(Debug)]
pub struct Hub {
    breaker: Mutex<Breaker>,
    origin: Instant,
    metrics: Metrics,
    published: PublishedState,
    exchange_log: ExchangeLog,
    answer_capacity: Capacity,
    /// How far the clock of a test is ahead.
    #[cfg(test)]
    test_clock_offset: Mutex<Duration>,
}

/// The breakers before the calls to one replica of an upstream.
#[derive(Debug)]
pub struct Circuit {
    name: Arc<str>,
    /// The upstream that failures count for; several replicas may belong to one.
    upstream: Arc<str>,
    breaker: Mutex<Breaker>,
    published: PublishedState,
    hub: Arc<Hub>,
}

/// The state that metrics show. Looking a metric up costs more than a breaker does, and the state rarely changes.
#[derive(Debug, Default)]
struct PublishedState(Mutex<Option<BreakerState>>);

impl PublishedState {
    fn replace_if_changed(&self, state: BreakerState) -> bool {
        lock(&self.0).replace(state) != Some(state)
    }
}

/// The permit of the upstream's own breaker, and that of the breaker that all share.
#[derive(Debug)]
struct PermitPair {
    own: BreakerPermit,
    shared: BreakerPermit,
}

/// A call that both breakers have permitted.
#[derive(Debug)]
#[must_use = "what became of the call is to be reported"]
pub struct CallPermit {
    circuit: Arc<Circuit>,
    breaker_permits: Option<PermitPair>,
}

/// The state of the breakers of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitStatus {
    /// The state of the upstream's own breaker.
    pub upstream: BreakerState,
    /// How often the upstream's own breaker has opened.
    pub trips: u64,
    /// The state of the breaker that all share.
    pub hub: BreakerState,
    /// How long calls are refused; `None` if they are not.
    pub retry_after: Option<Duration>,
}

impl Hub {
    /// A hub with the usual rules, without an exchange log.
    pub fn new(metrics: Metrics) -> Arc<Self> {
        Self::with_rules(BreakerRules::HUB, metrics, ExchangeLog::off(), Capacity::default())
    }

    /// A hub with other rules, an exchange log, and a limit for the memory of all answers.
    pub fn with_rules(rules: BreakerRules, metrics: Metrics, wire: ExchangeLog, answers: Capacity) -> Arc<Self> {
        Arc::new(Self {
            exchange_log: wire,
            answer_capacity: answers,
            breaker: Mutex::new(Breaker::new(rules)),
            origin: Instant::now(),
            metrics,
            published: PublishedState::default(),
            #[cfg(test)]
            test_clock_offset: Mutex::default(),
        })
    }

    /// The breakers of one replica of an upstream; `name` is its name in metrics.
    pub fn circuit(self: &Arc<Self>, upstream: &str, name: &str, rules: BreakerRules) -> Arc<Circuit> {
        let (name, upstream) = (name.into(), upstream.into());
        let (breaker, shown) = (Mutex::new(Breaker::new(rules)), PublishedState::default());
        let circuit = Circuit { name, upstream, breaker, published: shown, hub: self.clone() };
        circuit.publish_state(BreakerState::Closed);
        Arc::new(circuit)
    }

    /// The log of exchanges with upstreams.
    pub(crate) const fn exchange_log(&self) -> &ExchangeLog {
        &self.exchange_log
    }

    /// The memory that the answers of all upstreams may take together.
    pub const fn answer_capacity(&self) -> &Capacity {
        &self.answer_capacity
    }

    /// The state of the breaker that all share.
    pub fn state(&self) -> BreakerState {
        lock(&self.breaker).state()
    }

    #[cfg(not(test))]
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A clock that stands still until a test moves it.
    #[cfg(test)]
    fn now(&self) -> Duration {
        self.origin.duration_since(self.origin) + *lock(&self.test_clock_offset)
    }
}

impl Circuit {
    /// Asks both breakers for a call. A refused call touches no network.
    pub fn try_acquire(self: &Arc<Self>) -> Result<CallPermit, BreakerRefusal> {
        let now = self.hub.now();
        let mut own = lock(&self.breaker);
        let passes = own.try_acquire(now).and_then(|pass| {
            let shared = lock(&self.hub.breaker).try_acquire(now);
            shared
                .inspect_err(|_| own.report(pass, CallOutcome::Unknown, now))
                .map(|shared| PermitPair { own: pass, shared })
        });
        let state = own.state();
        drop(own);
        self.publish_state(state);
        match passes {
            Ok(passes) => Ok(CallPermit { circuit: self.clone(), breaker_permits: Some(passes) }),
            Err(refused) => {
                self.hub.metrics.record_refusal(&self.name);
                Err(refused)
            }
        }
    }

    /// How long calls are refused; `None` if they are not.
    pub fn retry_after(&self) -> Option<Duration> {
        let now = self.hub.now();
        let own = lock(&self.breaker).refusal(now);
        let refused = own.or_else(|| lock(&self.hub.breaker).refusal(now))?;
        Some(refused.retry_after)
    }

    /// Whether the breaker that all share refuses calls.
    pub fn is_shared_breaker_open(&self) -> bool {
        lock(&self.hub.breaker).refusal(self.hub.now()).is_some()
    }

    /// The state of the breakers.
    pub fn status(&self) -> CircuitStatus {
        let refused = self.retry_after();
        let own = lock(&self.breaker);
        let (upstream, trips) = (own.state(), own.trips());
        drop(own);
        CircuitStatus { upstream, trips, hub: self.hub.state(), retry_after: refused }
    }

    /// The verdict on a call, by its error, if it failed.
    pub(crate) fn classify(&self, error: Option<&Error>) -> CallOutcome {
        error.map_or(CallOutcome::Answered, |error| outcome_of(error, &self.upstream))
    }

    fn report(&self, permits: PermitPair, verdict: &CallOutcome) {
        let PermitPair { own, shared } = permits;
        let now = self.hub.now();
        let mut breaker = lock(&self.breaker);
        let before = breaker.trips();
        // A failure of our own says nothing about the upstream.
        let of_them = match verdict {
            CallOutcome::Failed(FailureSource::LocalNetwork) => CallOutcome::Unknown,
            CallOutcome::Failed(FailureSource::UpstreamAlone) => {
                CallOutcome::Failed(FailureSource::UpstreamOrPath(self.upstream.clone()))
            }
            other => other.clone(),
        };
        breaker.report(own, of_them, now);
        let (state, tripped) = (breaker.state(), breaker.trips() > before);
        drop(breaker);
        let mut hub = lock(&self.hub.breaker);
        let before = hub.trips();
        let of_the_way = match (verdict, hub.counted_failures()) {
            (CallOutcome::Failed(FailureSource::UpstreamAlone), CountedFailures::EveryFailure) => {
                CallOutcome::Failed(FailureSource::UpstreamOrPath(self.upstream.clone()))
            }
            // An upstream that answers, or refuses the connection itself, shows that the path works.
            (CallOutcome::Failed(FailureSource::UpstreamAlone), CountedFailures::Silence) => CallOutcome::Answered,
            (other, _) => other.clone(),
        };
        if of_the_way == CallOutcome::Answered && hub.counted_failures() == CountedFailures::Silence {
            hub.clear_upstream_failures();
        }
        hub.report(shared, of_the_way, now);
        let (hub_state, hub_tripped) = (hub.state(), hub.trips() > before);
        drop(hub);
        self.publish_state(state);
        if self.hub.published.replace_if_changed(hub_state) {
            self.hub.metrics.set_circuit_state(SHARED, hub_state);
        }
        if tripped {
            self.hub.metrics.record_trip(&self.name);
            tracing::warn!(upstream = %self.name, "an upstream fails again and again; it is left alone for a while");
        }
        if hub_tripped {
            self.hub.metrics.record_trip(SHARED);
            tracing::error!("several upstreams fail together; none is called for a while");
        }
    }

    fn publish_state(&self, state: BreakerState) {
        if self.published.replace_if_changed(state) {
            self.hub.metrics.set_circuit_state(&self.name, state);
        }
    }
}

impl CallPermit {
    /// Reports the result of the call.
    pub fn report(mut self, verdict: &CallOutcome) {
        self.close(verdict);
    }

    /// Reports the result of the call, by its error, if it failed.
    pub(crate) fn report_result(self, error: Option<&Error>) {
        let verdict = self.circuit.classify(error);
        self.report(&verdict);
    }

    /// Reports a failure of a part that all upstreams share, such as a gateway: this upstream is not blamed.
    pub(crate) fn report_shared_failure(self, error: &Error) {
        let verdict = match self.circuit.classify(Some(error)) {
            CallOutcome::Failed(_) => CallOutcome::Failed(FailureSource::LocalNetwork),
            other => other,
        };
        self.report(&verdict);
    }

    fn close(&mut self, verdict: &CallOutcome) {
        if let Some(passes) = self.breaker_permits.take() {
            self.circuit.report(passes, verdict);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.close(&CallOutcome::Unknown);
    }
}

impl From<BreakerRefusal> for Error {
    /// The error of an agent that cannot be called now. Nothing was sent.
    fn from(refused: BreakerRefusal) -> Self {
        let fault = Fault::Unavailable("the circuit breaker is open: the agent failed again and again".into());
        Self::Fault { fault, transport: None, retry_after: Some(refused.retry_after) }
    }
}

/// What an error says about the upstream, and perhaps about the path to it. A refusal is an answer, and so is a request
/// for credentials.
fn outcome_of(error: &Error, name: &Arc<str>) -> CallOutcome {
    let silent = || CallOutcome::Failed(FailureSource::UpstreamOrPath(name.clone()));
    let down = || CallOutcome::Failed(FailureSource::UpstreamAlone);
    match error {
        Error::Unreachable { side: FailureSide::Local, .. } => CallOutcome::Failed(FailureSource::LocalNetwork),
        Error::Unreachable { side: FailureSide::Unknown, .. } => silent(),
        Error::Unreachable { side: FailureSide::Peer, .. } | Error::StreamLost { .. } | Error::TooLarge { .. } => {
            down()
        }
        Error::CardInvalid { .. } | Error::CardUntrusted { .. } => down(),
        Error::Timeout { after, .. } if *after < ANSWER_TIME_MIN => CallOutcome::Unknown,
        Error::Timeout { .. } => silent(),
        // Whatever its status: one caller's input must not block the agent for all others.
        Error::Fault { fault, transport: Some(_), .. } if is_request_error(fault.code()) => CallOutcome::Answered,
        Error::Fault { fault, transport, .. } => match transport {
            // "Not implemented" is an answer.
            Some(TransportCode::Http(501)) => CallOutcome::Answered,
            Some(TransportCode::Http(500..)) => down(),
            Some(TransportCode::Http(400..)) => CallOutcome::Answered,
            Some(TransportCode::Grpc("UNAVAILABLE" | "INTERNAL" | "UNKNOWN" | "DATA_LOSS" | "DEADLINE_EXCEEDED")) => {
                down()
            }
            _ if fault.code() == FaultCode::InvalidAgentResponse => down(),
            Some(_) => CallOutcome::Answered,
            None => CallOutcome::Unknown,
        },
        Error::AuthFailed { .. }
        | Error::CredentialsMissing { transport: Some(_), .. }
        | Error::CardForbidden { .. }
        | Error::CardNotFound { .. }
        | Error::RedirectRefused { .. }
        | Error::NoInterface { .. } => CallOutcome::Answered,
        // Our own refusals: no request was sent, or other callers left no room for the answer.
        _ => CallOutcome::Unknown,
    }
}

/// Whether a refusal is about the request. An agent that says so works.
const fn is_request_error(code: FaultCode) -> bool {
    match code {
        FaultCode::TaskNotFound
        | FaultCode::TaskNotCancelable
        | FaultCode::PushNotificationNotSupported
        | FaultCode::UnsupportedOperation
        | FaultCode::ContentTypeNotSupported
        | FaultCode::ExtendedAgentCardNotConfigured
        | FaultCode::ExtensionSupportRequired
        | FaultCode::VersionNotSupported
        | FaultCode::ParseError
        | FaultCode::InvalidRequest
        | FaultCode::MethodNotFound
        | FaultCode::InvalidParams
        | FaultCode::Conflict
        | FaultCode::Unauthenticated
        | FaultCode::Forbidden => true,
        FaultCode::InvalidAgentResponse
        | FaultCode::Internal
        | FaultCode::Unavailable
        | FaultCode::Exhausted
        | FaultCode::RateLimited
        | FaultCode::AuthUnavailable => false,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
