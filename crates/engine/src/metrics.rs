//! The metrics of the engine.

use crate::push_transport::{DeliveryOutcome, DeliveryResult};
use crate::subtasks::ExceededLimit;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Counters and gauges of one engine.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub tasks_opened: Counter,
    /// Sends recognised as repeats.
    pub sends_repeated: Counter,
    /// Sends refused because their caller has as many bytes stored as it may.
    pub sends_over_stored_bytes: Counter,
    /// Reports of agents that came after their task had ended.
    pub late_reports: Counter,
    /// Turns resumed after a crash.
    pub turns_recovered: Counter,
    /// Turns failed because of a crash.
    pub turns_lost: Counter,
    /// Tasks that cannot end because the store takes no writes.
    pub endings_owed: Gauge,
    /// Tasks that agents opened with other agents.
    pub delegations: Counter,
    /// Calls that the runaway guard refused, by limit.
    pub runaways_refused: Family<[(&'static str, &'static str); 1], Counter>,
    /// Children canceled because their parent was canceled, failed or was rejected.
    pub children_called_off: Counter,
    /// Cancels that remote agents have not acknowledged.
    pub cancels_owed: Gauge,
    /// Attempts at delivering an event to a push configuration, by outcome.
    pub push_attempts: Family<[(&'static str, &'static str); 1], Counter>,
    /// The duration of those attempts.
    pub push_seconds: Histogram,
    /// Delivery attempts in flight.
    pub push_in_flight: Gauge,
    /// Circuit breakers of receivers that are open, by host or by owner and host.
    pub push_hosts_paused: Gauge,
    /// Events that became dead letters.
    pub push_buried: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            tasks_opened: Counter::default(),
            sends_repeated: Counter::default(),
            sends_over_stored_bytes: Counter::default(),
            late_reports: Counter::default(),
            turns_recovered: Counter::default(),
            turns_lost: Counter::default(),
            endings_owed: Gauge::default(),
            delegations: Counter::default(),
            runaways_refused: Family::default(),
            children_called_off: Counter::default(),
            cancels_owed: Gauge::default(),
            push_attempts: Family::default(),
            push_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            push_in_flight: Gauge::default(),
            push_hosts_paused: Gauge::default(),
            push_buried: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers all metrics under their names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("sabir_tasks_opened", "Tasks opened", self.tasks_opened.clone());
        registry.register("sabir_sends_repeated", "Sends recognised as repeats", self.sends_repeated.clone());
        registry.register(
            "sabir_sends_over_stored_bytes",
            "Sends refused because their caller has as many bytes stored as it may",
            self.sends_over_stored_bytes.clone(),
        );
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
        registry.register("sabir_delegations", "Tasks that agents opened with other agents", self.delegations.clone());
        registry.register(
            "sabir_runaways_refused",
            "Calls of agents to agents that the runaway guard refused",
            self.runaways_refused.clone(),
        );
        registry.register(
            "sabir_children_called_off",
            "Tasks canceled because the task they were opened for had ended",
            self.children_called_off.clone(),
        );
        let help = "Cancels that agents elsewhere have not acknowledged";
        registry.register("sabir_cancels_owed", help, self.cancels_owed.clone());
        registry.register(
            "sabir_push_attempts",
            "Attempts at delivering push notifications",
            self.push_attempts.clone(),
        );
        registry.register("sabir_push_seconds", "Time of such an attempt", self.push_seconds.clone());
        registry.register("sabir_push_in_flight", "Such attempts under way", self.push_in_flight.clone());
        registry.register(
            "sabir_push_hosts_paused",
            "Hosts of receivers that are left alone because they fail",
            self.push_hosts_paused.clone(),
        );
        registry.register("sabir_push_buried", "Push notifications that were given up", self.push_buried.clone());
    }

    /// Counts a call that the runaway guard refused.
    pub(crate) fn count_refused_call(&self, excess: &ExceededLimit) {
        self.runaways_refused.get_or_create(&[("limit", excess.limit())]).inc();
    }

    /// Counts a delivery attempt and its duration.
    pub(crate) fn count_delivery(&self, delivered: &DeliveryResult) {
        let outcome = match delivered.outcome {
            DeliveryOutcome::Accepted { .. } => "accepted",
            DeliveryOutcome::Refused { .. } => "refused",
            DeliveryOutcome::Gone { .. } => "gone",
            DeliveryOutcome::Forbidden { .. } => "forbidden",
            DeliveryOutcome::Unreachable { .. } => "unreachable",
            DeliveryOutcome::NoAnswer { .. } => "unanswered",
            DeliveryOutcome::NotAttempted { .. } => "withheld",
        };
        self.push_attempts.get_or_create(&[("outcome", outcome)]).inc();
        self.push_seconds.observe(delivered.took.as_secs_f64());
    }
}
