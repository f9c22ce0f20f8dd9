//! Why a server did not start.

use sabir_store::{OpenError, StoreError};
use std::net::SocketAddr;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be served.
    #[error("{0}")]
    Config(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store was opened but does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] StoreError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        address: SocketAddr,
        /// The error of the operating system.
        reason: String,
    },
}
