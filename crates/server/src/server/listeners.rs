//! Opens the sockets of a server: for callers, and for commands of operators.

use crate::admin::AdminService;
use crate::card::PublicAddress;
use crate::config::Config;
use crate::operator_socket::OperatorSocket;
use crate::public_address::{authorities, public_address};
use crate::start_error::StartError;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The socket for callers, and the addresses at which it is reached.
pub(super) struct HttpListener {
    pub(super) socket: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) public: PublicAddress,
    /// The names under which the server may be called, as `host:port`.
    pub(super) own_addresses: Vec<String>,
}

impl HttpListener {
    pub(super) async fn open(config: &Config, address: SocketAddr) -> Result<Self, StartError> {
        let cannot = |e: std::io::Error| StartError::Listen { address, reason: e.to_string() };
        let socket = TcpListener::bind(address).await.map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        let public = public_address(config, address);
        let own_addresses = authorities(&public, address);
        Ok(Self { socket, address, public, own_addresses })
    }
}

/// Opens the socket for commands of operators. A server works without one, too.
pub(super) fn listen_to_operator(config: &Config, service: Arc<AdminService>) -> Option<OperatorSocket> {
    let file = config.data_file().ok().flatten()?;
    match OperatorSocket::listen(&file, service) {
        Ok(operator) => Some(operator),
        Err(error) => {
            tracing::warn!(%error, "no admin socket: commands that administer this server need it stopped");
            None
        }
    }
}
