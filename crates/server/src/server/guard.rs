//! Builds the guard of a server.

use crate::admin::GuardRequestHandler;
use crate::auth_setup::ConfiguredSecrets;
use prometheus_client::registry::Registry;
use sabir_guard::Guard;
use sabir_store::GuardStore;
use std::sync::Arc;

pub(super) struct BuiltGuard {
    pub(super) guard: Guard,
    /// Handles what operators ask of the guard.
    pub(super) requests: GuardRequestHandler,
}

pub(super) fn build(
    store: &Arc<dyn GuardStore>,
    secrets: &Arc<ConfiguredSecrets>,
    registry: &mut Registry,
) -> BuiltGuard {
    let metrics = sabir_guard::Metrics::default();
    metrics.register(registry);
    BuiltGuard {
        guard: Guard::new(store.clone(), secrets.clone(), metrics),
        requests: GuardRequestHandler { store: store.clone(), secrets: secrets.clone() },
    }
}
