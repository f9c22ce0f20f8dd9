//! Metrics about the agents elsewhere.

use crate::breaker::State;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The name of the shared breaker in the metrics.
pub(crate) const SHARED: &str = "hub";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Upstream {
    upstream: String,
}

/// Counters and gauges of one hub.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    circuits: Family<Upstream, Gauge>,
    trips: Family<Upstream, Counter>,
    refused: Family<Upstream, Counter>,
    /// Set for a booking network, which may have thousands of venues; their names are not published.
    nameless: Option<Nameless>,
}

/// The metrics of all venues of a booking network together.
#[derive(Debug, Clone, Default)]
struct Nameless {
    shared_trips: Counter,
    trips: Counter,
    shared: Gauge,
}

impl Metrics {
    /// Metrics of a booking network: all venues together, under the network's own names.
    pub fn of_venues() -> Self {
        Self { nameless: Some(Nameless::default()), ..Self::default() }
    }

    /// Registers the metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        if let Some(nameless) = &self.nameless {
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

    pub(crate) fn circuit(&self, upstream: &str, state: State) {
        let number = match state {
            State::Closed => 0,
            State::HalfOpen => 1,
            State::Open => 2,
        };
        if let Some(nameless) = &self.nameless {
            if upstream == SHARED {
                nameless.shared.set(number);
            }
            return;
        }
        self.circuits.get_or_create(&of(upstream)).set(number);
    }

    pub(crate) fn tripped(&self, upstream: &str) {
        if let Some(nameless) = &self.nameless {
            let counter = if upstream == SHARED { &nameless.shared_trips } else { &nameless.trips };
            counter.inc();
            return;
        }
        self.trips.get_or_create(&of(upstream)).inc();
    }

    pub(crate) fn refused(&self, upstream: &str) {
        if self.nameless.is_some() {
            return;
        }
        self.refused.get_or_create(&of(upstream)).inc();
    }
}

fn of(upstream: &str) -> Upstream {
    Upstream { upstream: upstream.to_owned() }
}
