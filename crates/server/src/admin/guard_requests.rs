//! The requests about the guard's file that a command sends to the server that runs on it.
//!
//! A server looks for changes in the guard's file four times a second. A script that makes a key and uses it at once
//! would be refused. So a command that has changed the file makes the server read it now, and ends after that.

use super::{Admin, AdminError};

use crate::operator_socket;
use sabir_guard::authenticator::SecretResolver;
use sabir_store::{GuardStore, SecretRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A request to a running server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum GuardRequest {
    /// Read the guard's file now.
    RefreshGuard,
    /// Check whether the secret of a reference can be read.
    ResolveSecret(String),
}

/// The response to a [`GuardRequest`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardResponse {
    Done,
    Refused(String),
}

/// Answers a [`GuardRequest`] in the running server.
pub(crate) struct GuardRequestHandler {
    pub(crate) store: Arc<dyn GuardStore>,
    pub(crate) secrets: Arc<dyn SecretResolver>,
}

impl GuardRequestHandler {
    pub(crate) fn handle(&self, request: &GuardRequest) -> GuardResponse {
        let outcome = match request {
            GuardRequest::RefreshGuard => self.store.refresh().map_err(|error| error.to_string()),
            GuardRequest::ResolveSecret(reference) => SecretRef::parse(reference)
                .map_err(|error| error.to_string())
                .and_then(|reference| self.secrets.resolve(&reference).map(drop)),
        };
        outcome.map_or_else(GuardResponse::Refused, |()| GuardResponse::Done)
    }
}

impl Admin {
    /// Makes a running server read the change, so that it is in force before the command ends. Without an answer the
    /// server notices it by itself within a second.
    pub(super) async fn refresh_server(&self) {
        if let Ok(GuardResponse::Refused(reason)) = self.ask_server(&GuardRequest::RefreshGuard).await {
            tracing::warn!(reason, "the running server could not read the change yet");
        }
    }

    /// Refuses an environment variable that a running server does not have: its environment cannot change any more. A
    /// file may be created later, so a missing one is not refused.
    pub(super) async fn check_secret(&self, secret: &SecretRef) -> Result<(), AdminError> {
        if !matches!(secret, SecretRef::Env(_)) {
            return Ok(());
        }
        match self.ask_server(&GuardRequest::ResolveSecret(secret.to_string())).await {
            Ok(GuardResponse::Refused(reason)) => Err(AdminError::Secret { secret: secret.to_string(), reason }),
            // No server runs, or it cannot say.
            Ok(GuardResponse::Done) | Err(_) => Ok(()),
        }
    }

    async fn ask_server(&self, request: &GuardRequest) -> Result<GuardResponse, String> {
        operator_socket::call(&self.socket, request).await
    }
}
