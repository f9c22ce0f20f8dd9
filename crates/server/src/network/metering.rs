//! Metrics of metered bookings: their total, and whether the counted events match the bookings.

use crate::tokio_host::ServerTasks;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sabir_store::Ledger;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often bookings are compared with the counted events.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);

/// Registers the metrics. They read the ledger, so a restart does not begin at zero.
pub(crate) fn register_metering(ledger: &Arc<dyn Ledger>, registry: &mut Registry, tasks: &ServerTasks) {
    registry.register_collector(Box::new(MeteringCollector(ledger.clone())));
    let drift = Gauge::default();
    let help = "How many more events were counted than bookings made; anything but 0 is a fault";
    registry.register("a2a_metering_drift", help, drift.clone());
    tasks.spawn_loop(compare(Arc::downgrade(ledger), drift));
}

struct MeteringCollector(Arc<dyn Ledger>);

impl std::fmt::Debug for MeteringCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered").finish_non_exhaustive()
    }
}

impl Collector for MeteringCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counter = ConstCounter::new(self.0.metered_bookings());
        let help = "Bookings that were counted, ever";
        let metric = encoder.encode_descriptor("a2a_metered_events", help, None, counter.metric_type())?;
        counter.encode(metric)
    }
}

/// Compares at intervals, for as long as the ledger exists.
async fn compare(ledger: Weak<dyn Ledger>, drift: Gauge) {
    loop {
        let Some(open) = ledger.upgrade() else { return };
        // It counts rows, which takes time and must not block a request.
        let counted = tokio::task::spawn_blocking(move || open.billing_totals());
        let tally = match counted.await {
            Ok(answer) => answer.await,
            Err(_) => return,
        };
        match tally {
            Ok(tally) => {
                let off = tally.drift();
                if off != 0 && drift.get() != off {
                    tracing::error!(drift = off, "bookings and what was counted for them differ; sabir billing check");
                }
                drift.set(off);
            }
            Err(error) => tracing::warn!(%error, "what was counted cannot be compared with bookings"),
        }
        tokio::time::sleep(COMPARE_INTERVAL).await;
    }
}
