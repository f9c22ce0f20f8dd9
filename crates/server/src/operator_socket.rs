//! The socket in the data directory, through which commands on this machine ask a running server.
//!
//! One line of JSON is the request with the name of the user, and one line the response. Requests are served at the
//! same time, so a slow one does not block the others. A socket in the file system needs no port, no token and no TLS,
//! web pages and other machines cannot reach it, and it has the permissions of the data directory. The operating system
//! says which user is at the other end.

use crate::admin::{AdminError, AdminErrorCode, AdminRequest, AdminResponse, AdminService, Operator};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Requests that are served at the same time; further ones wait in the socket's queue.
const REQUESTS_MAX: usize = 32;
/// How long a command may take to send its request, and to read the response.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long one request may take: adding an agent calls it, and it may be slow.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(120);
/// Maximum bytes of a request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes of a response.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// The path of the socket, beside the data file of a server.
pub(crate) fn socket_beside(data_file: &Path) -> PathBuf {
    data_file.with_extension("sock")
}

/// A line from a command.
#[derive(Debug, Deserialize)]
struct RequestFrame {
    user: String,
    request: AdminRequest,
}

/// A line to a server.
#[derive(Debug, Serialize)]
struct RequestFrameRef<'a> {
    user: &'a str,
    request: &'a AdminRequest,
}

/// The line with which the server answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ResponseFrame {
    Done(AdminResponse),
    Failed(AdminError),
}

/// A listening socket; its file is removed when this is dropped.
pub(crate) struct OperatorSocket {
    listener: UnixListener,
    path: PathBuf,
    service: Arc<AdminService>,
}

impl OperatorSocket {
    /// Listens on the socket. The caller has locked the data directory, so an existing socket belongs to a dead
    /// server.
    pub(crate) fn listen(data_file: &Path, service: Arc<AdminService>) -> io::Result<Self> {
        let path = socket_beside(data_file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path, service })
    }

    /// Serves requests; never ends.
    pub(crate) async fn serve(self) {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if running.len() < REQUESTS_MAX => match accepted {
                    Ok((stream, _)) => running.push(self.handle(stream)),
                    Err(error) => {
                        tracing::debug!(%error, "a command of an operator cannot connect");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(outcome) = running.next() => {
                    if let Err(error) = outcome {
                        tracing::debug!(%error, "a request of an operator was not answered");
                    }
                }
            }
        }
    }

    async fn handle(&self, stream: UnixStream) -> io::Result<()> {
        let peer = stream.peer_cred()?.uid();
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        in_time(TRANSFER_TIME_MAX, BufReader::new(read).take(REQUEST_BYTES_MAX).read_line(&mut line)).await?;
        let response = match self.respond(peer, &line).await {
            Ok(response) => ResponseFrame::Done(response),
            Err(error) => ResponseFrame::Failed(error),
        };
        let mut text = serde_json::to_string(&response)?;
        text.push('\n');
        in_time(TRANSFER_TIME_MAX, async {
            write.write_all(text.as_bytes()).await?;
            write.shutdown().await
        })
        .await
    }

    async fn respond(&self, peer: u32, line: &str) -> Result<AdminResponse, AdminError> {
        // Other users may have access to the data directory, so the user of the peer is checked.
        if peer != rustix::process::geteuid().as_raw() && peer != 0 {
            let words = "this server belongs to another user of the machine";
            return Err(AdminError::new(AdminErrorCode::Operator, words));
        }
        // A request that was cut off has no end of line.
        let frame = serde_json::from_str(line).ok().filter(|_| line.ends_with('\n'));
        let RequestFrame { user, request } = frame.ok_or_else(|| {
            AdminError::invalid("the running server does not know this request; is it another version?")
        })?;
        let operator = Operator::local(&user, peer);
        match tokio::time::timeout(REQUEST_TIME_MAX, self.service.handle(&operator, request)).await {
            Ok(response) => response,
            Err(_) => {
                let words = format!("the request took more than {} seconds", REQUEST_TIME_MAX.as_secs());
                Err(AdminError::new(AdminErrorCode::Timeout, words))
            }
        }
    }
}

impl Drop for OperatorSocket {
    fn drop(&mut self) {
        // A leftover file would only lead to a socket without a listener.
        drop(std::fs::remove_file(&self.path));
    }
}

/// Connects to a server, if one listens.
pub(crate) async fn connect(socket: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(socket).await
}

/// Sends a request to a running server, and returns its response.
pub(crate) async fn ask(
    stream: UnixStream,
    user: &str,
    request: &AdminRequest,
) -> io::Result<Result<AdminResponse, AdminError>> {
    let asked = async {
        let (read, mut write) = stream.into_split();
        let mut text = serde_json::to_string(&RequestFrameRef { user, request })?;
        text.push('\n');
        write.write_all(text.as_bytes()).await?;
        let mut line = String::new();
        read.take(RESPONSE_BYTES_MAX).read_to_string(&mut line).await?;
        serde_json::from_str(&line).map_err(io::Error::from)
    };
    Ok(match in_time(REQUEST_TIME_MAX + TRANSFER_TIME_MAX, asked).await? {
        ResponseFrame::Done(response) => Ok(response),
        ResponseFrame::Failed(error) => Err(error),
    })
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}
