//! Opens the store of a server.

use crate::config::Config;
use crate::start_error::StartError;
use crate::tokio_host::ServerTasks;
use prometheus_client::registry::Registry;
use sabir_store::{ByteCounting, FileLock, OpenError, OpenOptions, Store, WriterMode};
use std::time::{Duration, Instant};

/// How long a start waits for a store that another process has locked, and how often it tries.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Opens the configured store.
pub(super) async fn open(config: &Config, registry: &mut Registry, tasks: &ServerTasks) -> Result<Store, StartError> {
    let metrics = sabir_store::Metrics::default();
    metrics.register(registry);
    let url = config.store_url().map_err(StartError::Config)?;
    let byte_counting = if config.limits.stored_bytes_max == 0 { ByteCounting::Off } else { ByteCounting::On };
    let options = OpenOptions { metrics, byte_counting, ..config.open_options(WriterMode::Threaded) };
    let begun = Instant::now();
    let store = loop {
        match sabir_store::open(&url, options.clone()) {
            // A command that reads the store without a server holds the lock for a moment.
            Err(OpenError::Locked(_)) if begun.elapsed() < LOCK_PATIENCE => tokio::time::sleep(LOCK_PAUSE).await,
            opened => break opened?,
        }
    };
    tasks.spawn_loop(store.tasks.upkeep.dispatch_replies());
    Ok(store)
}

/// Creates the data directory and locks it, unless it is that of the store, whose own lock is the same.
pub(super) fn lock_data(config: &Config) -> Result<Option<FileLock>, StartError> {
    let url = config.store_url().map_err(StartError::Config)?;
    let file = config.data_file().map_err(StartError::Config)?;
    let Some((file, store)) = file.as_deref().zip(url.file()) else { return Ok(None) };
    let directory = file.parent().unwrap_or(file);
    let io = |e: std::io::Error| OpenError::Io { path: directory.into(), reason: e.to_string() };
    sabir_store::create_private_directory(directory).map_err(io)?;
    // Compared as the system knows them: one directory has many paths.
    let is_store = store.canonicalize().map_err(io)? == file.canonicalize().unwrap_or_default();
    Ok(if is_store { None } else { Some(FileLock::take(file)?) })
}
