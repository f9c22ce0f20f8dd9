//! Builds the engine of a server.

use crate::config::Config;
use crate::engine_access::EngineAccess;
use crate::metrics::Metrics;
use crate::start_error::StartError;
use crate::tokio_host::ServerTasks;
use prometheus_client::registry::Registry;
use sabir_engine::{Engine, TaskLog};
use std::sync::Arc;

pub(super) struct BuiltEngine {
    pub(super) access: Arc<EngineAccess>,
    /// The metrics of the server itself.
    pub(super) metrics: Metrics,
}

pub(super) async fn build(
    config: &Config,
    log: Arc<dyn TaskLog>,
    registry: &mut Registry,
    tasks: &ServerTasks,
) -> Result<BuiltEngine, StartError> {
    let engine_metrics = sabir_engine::Metrics::default();
    engine_metrics.register(registry);
    let metrics = Metrics::register(registry);
    let limits = config.push.limit(config.limits.engine());
    let engine = Engine::open(log, Arc::new(tasks.clone()), limits, engine_metrics).await?;
    Ok(BuiltEngine { access: Arc::new(EngineAccess::new(engine)), metrics })
}
