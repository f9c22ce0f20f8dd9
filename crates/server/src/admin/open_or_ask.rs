//! Opening the tasks of a store for a command, or asking the server that has them open.
//!
//! The tasks of a store belong to one process. If a server runs, a command sends its request to the socket of that
//! server; otherwise the command opens the store itself. This is the only place that decides which.

use super::AdminError;
use crate::config::Config;
use crate::operator_socket;
use sabir_store::{OpenError, TaskStore, WriterMode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// How long a command waits for a server that has locked the store and does not listen yet, and how often it tries.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The store for a command, or the response of the server that has it.
pub(super) enum OpenedOrAnswered<R> {
    Opened(TaskStore),
    Answered(R),
}

/// Fails if no server has stored tasks with this configuration.
pub(super) fn existing_store(config: &Config) -> Result<(), AdminError> {
    config.store_url().map_err(AdminError::Url)?.existing_file()?;
    Ok(())
}

/// Opens the tasks of the store, or sends the request to the server that has them open.
pub(super) async fn open_or_ask<R: DeserializeOwned>(
    config: &Config,
    request: &impl Serialize,
) -> Result<OpenedOrAnswered<R>, AdminError> {
    let url = config.store_url().map_err(AdminError::Url)?;
    let socket = super::socket_path(config)?;
    let options = config.open_options(WriterMode::Inline);
    let begun = Instant::now();
    loop {
        match sabir_store::open_tasks(&url, options.clone()) {
            Ok(tasks) => return Ok(OpenedOrAnswered::Opened(tasks)),
            Err(OpenError::Locked(_)) => {}
            Err(other) => return Err(other.into()),
        }
        match operator_socket::call(&socket, request).await {
            Ok(response) => return Ok(OpenedOrAnswered::Answered(response)),
            // A server that starts has the lock before it listens; another command has it for a moment.
            Err(_) if begun.elapsed() < LOCK_PATIENCE && !operator_socket::is_listening(&socket).await => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(reason) => return Err(AdminError::Operator { socket, reason }),
        }
    }
}
