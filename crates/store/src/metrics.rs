//! Metrics of the store.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Counters, gauges and histograms of one store.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Steps per group commit.
    pub commit_steps: Histogram,
    /// Seconds per group commit, sync included.
    pub commit_seconds: Histogram,
    /// Groups that could not be committed.
    pub commit_failures: Counter,
    /// 1 while the store refuses writes.
    pub store_trouble: Gauge,
    /// Loss notes that were dropped because too many waited.
    pub notes_dropped: Counter,
    /// Refusals that the audit only counted.
    pub audit_dropped: Counter,
    /// Records of envelopes that were dropped because too many waited.
    pub interactions_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            commit_steps: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            commit_failures: Counter::default(),
            store_trouble: Gauge::default(),
            notes_dropped: Counter::default(),
            audit_dropped: Counter::default(),
            interactions_dropped: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics under their public names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("sabir_commit_steps", "Steps committed together", self.commit_steps.clone());
        registry.register("sabir_commit_seconds", "Time of a group commit", self.commit_seconds.clone());
        registry.register("sabir_commit_failures", "Group commits that failed", self.commit_failures.clone());
        registry.register("sabir_store_trouble", "1 while the store takes no writes", self.store_trouble.clone());
        registry.register("sabir_notes_dropped", "Notes lost because too many waited", self.notes_dropped.clone());
        registry.register("sabir_audit_dropped", "Refusals the audit only counted", self.audit_dropped.clone());
        let lost = self.interactions_dropped.clone();
        registry.register("sabir_interactions_dropped", "Records of envelopes lost because too many waited", lost);
    }
}
