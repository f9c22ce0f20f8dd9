//! What operators can see of the door.

use crate::identity::scheme_name;
use crate::refusal::Refusal;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    scheme: &'static str,
    reason: &'static str,
}

/// Counters of one guard.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    refusals: Family<Refused, Counter>,
}

impl Metrics {
    /// Makes them visible under their names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("sabir_refusals", "Callers turned away at the door", self.refusals.clone());
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        let labels = Refused { scheme: scheme_name(refusal.scheme), reason: refusal.reason };
        self.refusals.get_or_create(&labels).inc();
    }
}
