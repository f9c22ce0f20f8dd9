//! Builds the guard of a server.

use crate::auth_setup::ConfiguredSecrets;
use prometheus_client::registry::Registry;
use sabir_guard::Guard;
use sabir_store::GuardStore;
use std::sync::Arc;

pub(super) fn build(store: &Arc<dyn GuardStore>, secrets: &Arc<ConfiguredSecrets>, registry: &mut Registry) -> Guard {
    let metrics = sabir_guard::Metrics::default();
    metrics.register(registry);
    Guard::new(store.clone(), secrets.clone(), metrics)
}
