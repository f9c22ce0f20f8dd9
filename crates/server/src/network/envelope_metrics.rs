//! The metrics of envelopes. No text that a caller wrote is ever a label.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EnvelopeLabels {
    pub(crate) intent: &'static str,
    pub(crate) tier: String,
    pub(crate) status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct IntentLabels {
    pub(crate) intent: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RetryLabels {
    pub(crate) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DeliveryLabels {
    pub(crate) outcome: &'static str,
}

/// Metrics of the envelope endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EnvelopeMetrics {
    pub(crate) requests: Family<EnvelopeLabels, Counter>,
    pub(crate) seconds: Family<IntentLabels, Histogram>,
    pub(crate) checks: Histogram,
    pub(crate) retries: Family<RetryLabels, Counter>,
    pub(crate) deliveries: Family<DeliveryLabels, Counter>,
}

impl EnvelopeMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let buckets = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            checks: buckets(),
            retries: Family::default(),
            deliveries: Family::default(),
        };
        registry.register("a2a_requests", "Envelopes by intent, tier and outcome", metrics.requests.clone());
        let help = "Time from an envelope's arrival to its answer";
        registry.register("a2a_request_duration_seconds", help, metrics.seconds.clone());
        let help = "Time from an envelope's last byte to the agent: reading it, and every check on the way";
        registry.register("a2a_check_duration_seconds", help, metrics.checks.clone());
        let help = "Envelopes that change something, by whether they were here before";
        registry.register("a2a_idempotency", help, metrics.retries.clone());
        registry.register("a2a_delivery", "Answers by whether they came in time", metrics.deliveries.clone());
        for outcome in ["in_time", "late", "error"] {
            drop(metrics.deliveries.get_or_create(&DeliveryLabels { outcome }));
        }
        metrics
    }
}
