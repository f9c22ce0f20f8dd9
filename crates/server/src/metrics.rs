//! The metrics of the server.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use sabir_proto::{Fault, FaultCode};
use std::time::{Duration, SystemTime};

/// The labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    dialect: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TlsFailureLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TlsReloadLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LossLabels {
    dialect: &'static str,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandoffLabels {
    outcome: &'static str,
}

/// The metrics of one server.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram>,
    shed: Counter,
    streams: Gauge,
    connections: Gauge,
    losses: Family<LossLabels, Counter>,
    tls_failures: Family<TlsFailureLabels, Counter>,
    tls_reloads: Family<TlsReloadLabels, Counter>,
    tls_expiry: Gauge,
    forgotten: Counter,
    handoffs: Family<HandoffLabels, Counter>,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            shed: Counter::default(),
            streams: Gauge::default(),
            connections: Gauge::default(),
            losses: Family::default(),
            tls_failures: Family::default(),
            tls_reloads: Family::default(),
            tls_expiry: Gauge::default(),
            forgotten: Counter::default(),
            handoffs: Family::default(),
        };
        let Self {
            requests, seconds, shed, streams, connections, losses, tls_failures, tls_reloads, tls_expiry, ..
        } = &metrics;
        registry.register("sabir_requests", "Requests by operation, dialect and outcome", requests.clone());
        registry.register("sabir_request_seconds", "Time to the answer, or to a stream's first event", seconds.clone());
        registry.register("sabir_requests_shed", "Requests refused because too much was on its way", shed.clone());
        registry.register("sabir_open_streams", "Event streams being written", streams.clone());
        registry.register("sabir_open_connections", "Open connections", connections.clone());
        registry.register("sabir_translation_losses", "What a dialect could not carry, by kind", losses.clone());
        registry.register(
            "sabir_tls_handshake_failures",
            "TLS handshakes that failed, by reason",
            tls_failures.clone(),
        );
        registry.register("sabir_tls_reloads", "Times the certificate changed in its files", tls_reloads.clone());
        let help = "When the certificate expires, in seconds since 1970; 0 without TLS";
        registry.register("sabir_tls_certificate_expiry_seconds", help, tls_expiry.clone());
        registry.register("sabir_tasks_forgotten", "Settled tasks that were forgotten", metrics.forgotten.clone());
        registry.register("sabir_handoffs", "Attempts to hand a task over, by outcome", metrics.handoffs.clone());
        metrics
    }

    pub(crate) fn handoff(&self, outcome: &'static str) {
        self.handoffs.get_or_create(&HandoffLabels { outcome }).inc();
    }

    pub(crate) fn forgotten(&self, tasks: u64) {
        self.forgotten.inc_by(tasks);
    }

    pub(crate) fn request(
        &self,
        operation: &'static str,
        dialect: &'static str,
        outcome: Result<(), &Fault>,
        took: Duration,
    ) {
        let status = outcome.map_or_else(|fault| status(fault.code()), |()| "ok");
        self.requests.get_or_create(&RequestLabels { operation, dialect, status }).inc();
        self.seconds.get_or_create(&OperationLabels { operation }).observe(took.as_secs_f64());
    }

    pub(crate) fn shed(&self) {
        self.shed.inc();
    }

    pub(crate) fn loss(&self, dialect: &'static str, kind: &'static str) {
        self.losses.get_or_create(&LossLabels { dialect, kind }).inc();
    }

    pub(crate) fn tls_failure(&self, reason: &'static str) {
        self.tls_failures.get_or_create(&TlsFailureLabels { reason }).inc();
    }

    /// Creates the counters at the start, so that an alert on the first failure can see it.
    pub(crate) fn tls_begin(&self) {
        for outcome in ["ok", "failed"] {
            drop(self.tls_reloads.get_or_create(&TlsReloadLabels { outcome }));
        }
    }

    pub(crate) fn tls_reload(&self, outcome: &'static str) {
        self.tls_reloads.get_or_create(&TlsReloadLabels { outcome }).inc();
    }

    pub(crate) fn tls_expiry(&self, at: SystemTime) {
        let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        self.tls_expiry.set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    pub(crate) fn stream(&self) -> GaugeGuard {
        GaugeGuard::new(&self.streams)
    }

    pub(crate) fn connection(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }
}

/// The reason of an error in the words of the error table.
fn status(code: FaultCode) -> &'static str {
    sabir_wire::codes::numbers(code).reason
}

/// Counts in a gauge for as long as it lives.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
