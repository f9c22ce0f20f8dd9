//! Metrics about the agents elsewhere.

use crate::breaker::BreakerState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The name of the shared breaker in the metrics.
pub(crate) const SHARED: &str = "hub";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
}

/// Counters and gauges of one hub.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    circuits: Family<UpstreamLabels, Gauge>,
    trips: Family<UpstreamLabels, Counter>,
    refused: Family<UpstreamLabels, Counter>,
    /// Set for a booking network, which may have thousands of venues; their names are not published.
    venues: Option<VenueMetrics>,
}

/// The metrics of all venues of a booking network together.
#[derive(Debug, Clone, Default)]
struct VenueMetrics {
    shared_trips: Counter,
    trips: Counter,
    shared: Gauge,
}

impl Metrics {
    /// Metrics of a booking network: all venues together, under the network's own names.
    pub fn for_venues() -> Self {
        Self { venues: Some(VenueMetrics::default()), ..Self::default() }
    }

    /// Registers the metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        if let Some(nameless) = &self.venues {
            let help = "Times the circuit breaker has opened that all venues share";
            registry.register("agnt_a2a_cb_opened", help, nameless.shared_trips.clone());
            let help = "Times the circuit breaker of a venue has opened";
            registry.register("agnt_a2a_venue_cb_opened", help, nameless.trips.clone());
            let help = "State of the circuit breaker that all venues share: 0 closed, 1 half-open, 2 open";
            registry.register("agnt_a2a_cb_state", help, nameless.shared.clone());
            return;
        }
        let help = "State of a circuit breaker: 0 closed, 1 half-open, 2 open";
        registry.register("sabir_upstream_circuit", help, self.circuits.clone());
        registry.register("sabir_upstream_trips", "Times a circuit breaker has opened", self.trips.clone());
        let help = "Calls that a circuit breaker refused";
        registry.register("sabir_upstream_refused", help, self.refused.clone());
    }

    pub(crate) fn set_circuit_state(&self, upstream: &str, state: BreakerState) {
        let number = match state {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        };
        if let Some(nameless) = &self.venues {
            if upstream == SHARED {
                nameless.shared.set(number);
            }
            return;
        }
        self.circuits.get_or_create(&upstream_labels(upstream)).set(number);
    }

    pub(crate) fn record_trip(&self, upstream: &str) {
        if let Some(nameless) = &self.venues {
            let counter = if upstream == SHARED { &nameless.shared_trips } else { &nameless.trips };
            counter.inc();
            return;
        }
        self.trips.get_or_create(&upstream_labels(upstream)).inc();
    }

    pub(crate) fn record_refusal(&self, upstream: &str) {
        if self.venues.is_some() {
            return;
        }
        self.refused.get_or_create(&upstream_labels(upstream)).inc();
    }
}

fn upstream_labels(upstream: &str) -> UpstreamLabels {
    UpstreamLabels { upstream: upstream.to_owned() }
}
