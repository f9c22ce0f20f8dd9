//! What operators can see of the agents elsewhere.

use crate::breaker::State;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
}

impl Metrics {
    /// Makes them visible under their names.
    pub fn register(&self, registry: &mut Registry) {
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
        self.circuits.get_or_create(&of(upstream)).set(number);
    }

    pub(crate) fn tripped(&self, upstream: &str) {
        self.trips.get_or_create(&of(upstream)).inc();
    }

    pub(crate) fn refused(&self, upstream: &str) {
        self.refused.get_or_create(&of(upstream)).inc();
    }
}

fn of(upstream: &str) -> Upstream {
    Upstream { upstream: upstream.to_owned() }
}
