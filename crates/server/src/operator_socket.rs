//! The socket in the data directory, through which commands call a running server.
//!
//! One line of JSON is the request, and one line the response. Several commands are served at the same time, so a
//! silent one does not block the others. A socket in the file system needs no port, no token and no TLS, web pages and
//! other machines cannot reach it, and it has the permissions of the data directory.

use crate::admin::{
    GuardRequest, GuardRequestHandler, InboxRequest, NetworkAdmin, NetworkRequest, OutboxRequest, OutboxResponse,
    handle_inbox_request, handle_outbox_request,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use sabir_engine::{Engine, TaskLog};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Commands that are served at the same time; further ones wait in the socket's queue.
const COMMANDS_MAX: usize = 32;
/// How long one request may take, from its first byte to the last byte of the response.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum bytes of a request.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Maximum bytes of a response.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The path of the socket, beside the data file of a server.
pub(crate) fn socket_beside(data_file: &Path) -> PathBuf {
    data_file.with_extension("sock")
}

/// A listening socket; its file is removed when this is dropped.
pub(crate) struct OperatorSocket {
    listener: UnixListener,
    path: PathBuf,
    log: Arc<dyn TaskLog>,
    engine: Engine,
    network_admin: NetworkAdmin,
    guard: GuardRequestHandler,
}

/// A request of any kind. The kinds have different members, so no tag is needed.
#[derive(Deserialize)]
#[serde(untagged)]
enum OperatorRequest {
    Outbox(OutboxRequest),
    Inbox(InboxRequest),
    Network(NetworkRequest),
    Guard(GuardRequest),
}

impl OperatorSocket {
    /// Listens on the socket. The caller has locked the data directory, so an existing socket belongs to a dead
    /// server.
    pub(crate) fn listen(
        data_file: &Path,
        log: Arc<dyn TaskLog>,
        engine: Engine,
        bureau: NetworkAdmin,
        guard: GuardRequestHandler,
    ) -> io::Result<Self> {
        let path = socket_beside(data_file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path, log, engine, network_admin: bureau, guard })
    }

    /// Serves requests; never ends.
    pub(crate) async fn serve(self) {
        let mut commands = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if commands.len() < COMMANDS_MAX => match accepted {
                    Ok((stream, _)) => commands.push(with_timeout(self.handle(stream))),
                    Err(error) => {
                        tracing::debug!(%error, "a command of the operator cannot connect");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(outcome) = commands.next() => {
                    if let Err(error) = outcome {
                        tracing::debug!(%error, "an operator's order came to nothing");
                    }
                }
            }
        }
    }

    async fn handle(&self, stream: UnixStream) -> io::Result<()> {
        // Other users may have access to the data directory, so the user of the peer is checked.
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() && stream.peer_cred()?.uid() != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody else's order"));
        }
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        BufReader::new(read).take(REQUEST_BYTES_MAX).read_line(&mut line).await?;
        let mut text = match serde_json::from_str::<OperatorRequest>(&line) {
            Ok(OperatorRequest::Outbox(order)) => {
                serde_json::to_string(&handle_outbox_request(&*self.log, order).await)?
            }
            Ok(OperatorRequest::Inbox(order)) => {
                serde_json::to_string(&handle_inbox_request(&self.engine, order).await)?
            }
            Ok(OperatorRequest::Network(order)) => serde_json::to_string(&self.network_admin.handle(order).await)?,
            Ok(OperatorRequest::Guard(request)) => serde_json::to_string(&self.guard.handle(&request))?,
            Err(error) => serde_json::to_string(&OutboxResponse::Failed(format!("not an order: {error}")))?,
        };
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
        write.shutdown().await
    }
}

impl Drop for OperatorSocket {
    fn drop(&mut self) {
        // A leftover file would only lead to a socket without a listener.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Sends a request to a running server, and returns its response.
pub(crate) async fn call<S: DeserializeOwned>(socket: &Path, order: &impl Serialize) -> Result<S, String> {
    let asked = async {
        let (read, mut write) = UnixStream::connect(socket).await?.into_split();
        let mut text = serde_json::to_string(order)?;
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
        let mut said = String::new();
        read.take(RESPONSE_BYTES_MAX).read_to_string(&mut said).await?;
        serde_json::from_str(&said).map_err(io::Error::from)
    };
    with_timeout(asked).await.map_err(|error| error.to_string())
}

/// Whether a server listens on the socket.
pub(crate) async fn is_listening(socket: &Path) -> bool {
    UnixStream::connect(socket).await.is_ok()
}

async fn with_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    tokio::time::timeout(REQUEST_TIME_MAX, work).await.unwrap_or_else(late)
}
