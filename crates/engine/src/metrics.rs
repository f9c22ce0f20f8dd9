//! What operators can see of the engine.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters and gauges of one engine.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Tasks opened.
    pub tasks_opened: Counter,
    /// Sends recognised as repeats.
    pub sends_repeated: Counter,
    /// Reports of agents that came after their task had ended.
    pub late_reports: Counter,
    /// Turns taken up again after a crash.
    pub turns_recovered: Counter,
    /// Turns that a crash ended.
    pub turns_lost: Counter,
    /// Tasks that cannot end because the store takes no writes.
    pub endings_owed: Gauge,
}

impl Metrics {
    /// Makes them visible under their names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("sabir_tasks_opened", "Tasks opened", self.tasks_opened.clone());
        registry.register("sabir_sends_repeated", "Sends recognised as repeats", self.sends_repeated.clone());
        registry.register(
            "sabir_late_reports",
            "Agent reports refused because the task had ended",
            self.late_reports.clone(),
        );
        registry.register("sabir_turns_recovered", "Turns taken up again after a crash", self.turns_recovered.clone());
        registry.register("sabir_turns_lost", "Turns failed because of a crash", self.turns_lost.clone());
        registry.register(
            "sabir_endings_owed",
            "Tasks that cannot end because the store takes no writes",
            self.endings_owed.clone(),
        );
    }
}
