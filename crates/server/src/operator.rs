//! The socket beside the task log, through which commands call a running server.
//!
//! One line of JSON is the request, and one line the response. Several commands are served at the same time, so a
//! silent one does not block the others. A socket in the file system needs no port, no token and no TLS, web pages and
//! other machines cannot reach it, and it has the permissions of the data directory.

use crate::admin::{Bureau, DeskOrder, GuardDesk, GuardRequest, NetworkOrder, Order, Said, carry_out, see_to};
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
const ORDER_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum bytes of a request.
const ORDER_BYTES_MAX: u64 = 64 * 1024;
/// Maximum bytes of a response.
const SAID_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The path of the socket of a task log.
pub(crate) fn socket_beside(task_log: &Path) -> PathBuf {
    task_log.with_extension("sock")
}

/// A listening socket; its file is removed when this is dropped.
pub(crate) struct Operator {
    listener: UnixListener,
    path: PathBuf,
    log: Arc<dyn TaskLog>,
    engine: Engine,
    bureau: Bureau,
    guard: GuardDesk,
}

/// A request of any kind. The kinds have different members, so no tag is needed.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wish {
    Letters(Order),
    Desk(DeskOrder),
    Network(NetworkOrder),
    Guard(GuardRequest),
}

impl Operator {
    /// Listens on the socket. The caller holds the lock of the task log, so an existing socket belongs to a dead
    /// server.
    pub(crate) fn listen(
        task_log: &Path,
        log: Arc<dyn TaskLog>,
        engine: Engine,
        bureau: Bureau,
        guard: GuardDesk,
    ) -> io::Result<Self> {
        let path = socket_beside(task_log);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path, log, engine, bureau, guard })
    }

    /// Serves requests; never ends.
    pub(crate) async fn serve(self) {
        let mut commands = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if commands.len() < COMMANDS_MAX => match accepted {
                    Ok((stream, _)) => commands.push(within(self.answer(stream))),
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

    async fn answer(&self, stream: UnixStream) -> io::Result<()> {
        // Other users may have access to the data directory, so the user of the peer is checked.
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() && stream.peer_cred()?.uid() != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody else's order"));
        }
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        BufReader::new(read).take(ORDER_BYTES_MAX).read_line(&mut line).await?;
        let mut text = match serde_json::from_str::<Wish>(&line) {
            Ok(Wish::Letters(order)) => serde_json::to_string(&carry_out(&*self.log, order).await)?,
            Ok(Wish::Desk(order)) => serde_json::to_string(&see_to(&self.engine, order).await)?,
            Ok(Wish::Network(order)) => serde_json::to_string(&self.bureau.carry_out(order).await)?,
            Ok(Wish::Guard(request)) => serde_json::to_string(&self.guard.answer(&request))?,
            Err(error) => serde_json::to_string(&Said::Failed(format!("not an order: {error}")))?,
        };
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
        write.shutdown().await
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // A leftover file would only lead to a socket without a listener.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Sends a request to a running server, and returns its response.
pub(crate) async fn ask<S: DeserializeOwned>(socket: &Path, order: &impl Serialize) -> Result<S, String> {
    let asked = async {
        let (read, mut write) = UnixStream::connect(socket).await?.into_split();
        let mut text = serde_json::to_string(order)?;
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
        let mut said = String::new();
        read.take(SAID_BYTES_MAX).read_to_string(&mut said).await?;
        serde_json::from_str(&said).map_err(io::Error::from)
    };
    within(asked).await.map_err(|error| error.to_string())
}

/// Whether a server listens on the socket.
pub(crate) async fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).await.is_ok()
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    tokio::time::timeout(ORDER_TIME_MAX, work).await.unwrap_or_else(late)
}
