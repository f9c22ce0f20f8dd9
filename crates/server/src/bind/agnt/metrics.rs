//! What the metrics of envelopes count.

use super::answer::EnvelopeOutcome;
use super::exchange::EnvelopeExchange;
use super::record;
use crate::network::{DeliveryLabels, EnvelopeLabels, EnvelopeMetrics, IntentLabels, RetryLabels};
use sabir_wire::agnt::{Intent, ProblemCode};
use std::time::Duration;

impl EnvelopeMetrics {
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
