//! The metrics of envelopes. No text that a caller wrote is ever a label.

use super::answer::EnvelopeOutcome;
use super::exchange::EnvelopeExchange;
use super::record;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use sabir_wire::agnt::{Intent, ProblemCode};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EnvelopeLabels {
    intent: &'static str,
    tier: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IntentLabels {
    intent: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    outcome: &'static str,
}

/// Metrics of the envelope endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EnvelopeMetrics {
    requests: Family<EnvelopeLabels, Counter>,
    seconds: Family<IntentLabels, Histogram>,
    checks: Histogram,
    retries: Family<RetryLabels, Counter>,
    deliveries: Family<DeliveryLabels, Counter>,
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

    pub(super) fn answered(&self, visit: &EnvelopeExchange, outcome: &EnvelopeOutcome) {
        self.count(visit, outcome);
        let took = visit.elapsed();
        self.seconds.get_or_create(&IntentLabels { intent: intent(visit) }).observe(took.as_secs_f64());
        let kind = match &outcome.result {
            Ok(_) if took <= Duration::from_millis(visit.ttl_ms) => "in_time",
            Ok(_) => "late",
            Err(_) => "error",
        };
        self.deliveries.get_or_create(&DeliveryLabels { outcome: kind }).inc();
    }

    /// The envelope has passed every check.
    pub(super) fn checked(&self, took: Duration) {
        self.checks.observe(took.as_secs_f64());
    }

    /// Counts the result of an envelope whose sender was told before that the time had run out.
    pub(super) fn answered_late(&self, visit: &EnvelopeExchange, outcome: &EnvelopeOutcome) {
        self.count(visit, outcome);
    }

    /// Counts an envelope whose sender was told that the time had run out.
    pub(super) fn undelivered(&self) {
        self.deliveries.get_or_create(&DeliveryLabels { outcome: "late" }).inc();
    }

    fn count(&self, visit: &EnvelopeExchange, outcome: &EnvelopeOutcome) {
        let tier = visit.tier.clone().unwrap_or_else(|| "none".into());
        let labels = EnvelopeLabels { intent: intent(visit), tier, status: record::status(outcome) };
        self.requests.get_or_create(&labels).inc();
        if visit.intent.is_some_and(Intent::has_effect) {
            let result = match &outcome.result {
                _ if outcome.replay => "duplicate",
                Ok(_) => "first",
                Err(problem) => match problem.code {
                    ProblemCode::IdempotencyConflict => "conflict",
                    ProblemCode::InProgress => "in_progress",
                    _ => return,
                },
            };
            self.retries.get_or_create(&RetryLabels { result }).inc();
        }
    }
}

/// Only known names: a caller could have written any text.
fn intent(visit: &EnvelopeExchange) -> &'static str {
    let named = || visit.sketch.intent.as_deref().and_then(Intent::parse);
    visit.intent.or_else(named).map_or("unknown", Intent::name)
}
