//! Metrics about refused callers and about signatures.

use crate::authn::agnt::KeySlot;
use crate::identity::scheme_name;
use crate::refusal::Refusal;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    scheme: &'static str,
    rule: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignatureLabels {
    key: &'static str,
}

/// Counters of one guard.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    refusals: Family<RefusalLabels, Counter>,
    signed: Family<SignatureLabels, Counter>,
}

impl Metrics {
    /// Registers the metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("sabir_refusals", "Callers turned away at the door", self.refusals.clone());
        let help = "Signatures of the booking network that were right, by the key they were made with";
        registry.register("a2a_signature_verified", help, self.signed.clone());
    }

    pub(crate) fn record_signature(&self, slot: KeySlot) {
        self.signed.get_or_create(&SignatureLabels { key: slot.name() }).inc();
    }

    pub(crate) fn record_refusal(&self, refusal: &Refusal) {
        // The rule and not the reason: metrics are not secret, and must not tell which guess came close.
        let labels = RefusalLabels { scheme: scheme_name(refusal.scheme), rule: refusal.rule() };
        self.refusals.get_or_create(&labels).inc();
    }
}
