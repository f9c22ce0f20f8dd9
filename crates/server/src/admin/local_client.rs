//! The one way from a command on this machine to the service: in the server if one runs, else in the command itself.
//!
//! The socket in the data directory tells which. A server that listens is asked. Where none listens, the command opens the
//! store and runs the same service for its one request. Between the two, a server that starts has locked the tasks and
//! does not listen yet, and another command has locked them for a moment; the command waits for both. A server that
//! starts while a command works waits for the command in the same way.

use super::operation::{AdminOperation, AdminRequest, AdminResponse};
use super::service::{AdminService, Operator, user};
use super::{AdminError, AdminErrorCode};
use crate::config::Config;
use crate::operator_socket;
use sabir_store::OpenError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a command waits for a store that another process has locked, and how often it looks.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Runs an operation on the server of a configuration, or on its store.
pub async fn administer<O: AdminOperation>(config: &Config, operation: O) -> Result<O::Output, AdminError> {
    let response = run(config, operation.into_request()).await?;
    O::from_response(response).ok_or_else(|| {
        AdminError::new(AdminErrorCode::Operator, "the server answers something else than it was asked")
            .with_hint("is the server that runs another version? restart it")
    })
}

async fn run(config: &Config, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let file = config.data_file().map_err(|problem| AdminError::new(AdminErrorCode::NoStore, problem))?;
    let socket = operator_socket::socket_beside(&file.ok_or(OpenError::InMemory)?);
    let part = request.store_part();
    let begun = Instant::now();
    loop {
        match operator_socket::connect(&socket).await {
            Ok(stream) => {
                let asked = operator_socket::ask(stream, &user(), &request).await;
                return asked.map_err(|error| silent(&socket, &error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(silent(&socket, &error)),
            // No server listens here.
            Err(_) => {}
        }
        match AdminService::open(config, part).await {
            Ok(service) => return Arc::new(service).handle(&Operator::of_this_process(), request).await,
            Err(error) if error.code == AdminErrorCode::InUse && begun.elapsed() < LOCK_PATIENCE => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(error) if error.code == AdminErrorCode::InUse => {
                return Err(silent(&socket, &io::Error::from(io::ErrorKind::NotFound)));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Another process has the store, and does not answer.
fn silent(socket: &Path, error: &io::Error) -> AdminError {
    let message = format!("a server has the task log, and does not answer at {}: {error}", socket.display());
    AdminError::new(AdminErrorCode::Operator, message)
}

/// The guard's file of a configuration, if its store has files.
pub fn guard_file(config: &Config) -> Option<PathBuf> {
    config.store_url().ok()?.guard_file()
}
