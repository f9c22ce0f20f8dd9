//! A plain HTTP server on this machine, for programs that play an agent without A2A code: recorders and mocks.
//!
//! Recorders forward requests, mocks answer from a file. Both get whole requests and return whole or chunked bodies.
//! Sockets, limits and shutdown are those of the server, and so is the origin check: a web page that is open in a
//! browser is refused, because a recorder may hold credentials.
//!
//! This module knows nothing of A2A.

use crate::body::{Body, ChunkedBody, TEXT, answer};
pub use crate::body::{BodyBroken, ChunkStream};
use crate::config::LimitsConfig;
use crate::listen::{self, RequestHandler, ResponseFuture};
use crate::metrics::GaugeGuard;
use crate::origin_check::OriginCheck;
use crate::peer::Peer;
use crate::tokio_host::TaskOwner;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use sabir_engine::BoxFuture;
use std::fmt;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// How long running responses may continue after a stop.
const DRAIN: Duration = Duration::from_secs(1);

/// The body of a response.
pub enum LocalBody {
    /// All the bytes at once.
    Whole(Bytes),
    /// Chunks as they arrive. Dropped when the client leaves.
    Chunks(ChunkStream),
}

impl fmt::Debug for LocalBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Chunks(_) => f.write_str("pieces"),
        }
    }
}

/// Handles the requests of a local server.
pub trait LocalHandler: Send + Sync + 'static {
    /// Responds to one request.
    fn handle(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<LocalBody>>;
}

/// A listener on a port of this machine.
#[derive(Debug)]
pub struct LocalServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl LocalServer {
    /// Listens on the loopback address; port 0 picks a free one.
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets the handler respond until `stop` completes.
    pub async fn run(self, play: Arc<dyn LocalHandler>, stop: impl Future<Output = ()>) {
        let port = self.address.port();
        let door = OriginCheck::new([self.address.to_string(), format!("localhost:{port}")], false);
        let cast = LocalService {
            handler: play,
            origin_check: door,
            limits: LimitsConfig::default(),
            stopping: AtomicBool::new(false),
        };
        let owner = TaskOwner::default();
        listen::serve(Arc::new(cast), self.listener, stop, DRAIN, owner.tasks()).await;
        owner.stop().await;
    }
}

/// The handler with the checks before it.
struct LocalService {
    handler: Arc<dyn LocalHandler>,
    origin_check: OriginCheck,
    limits: LimitsConfig,
    stopping: AtomicBool,
}

impl RequestHandler for Arc<LocalService> {
    fn limits(&self) -> &LimitsConfig {
        &self.limits
    }

    fn connection(&self) -> Option<GaugeGuard> {
        None
    }

    fn answer(&self, request: Request<Incoming>, _: Peer) -> ResponseFuture {
        Box::pin(serve(self.clone(), request))
    }

    fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

async fn serve(service: Arc<LocalService>, request: Request<Incoming>) -> Response<Body> {
    if let Err((status, problem)) = service.origin_check.check(&request) {
        return refuse(status, problem);
    }
    let (head, body) = request.into_parts();
    let most = service.limits.body_bytes_max;
    let reading = Limited::new(body, most).collect();
    let patience = Duration::from_secs(service.limits.body_seconds_max);
    let body = match tokio::time::timeout(patience, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return refuse(413, &format!("the body is over the limit of {most} bytes, or was cut short")),
        Err(_) => return refuse(408, "the body did not arrive in time"),
    };
    let (mut head, content) = service.handler.clone().handle(Request::from_parts(head, body)).await.into_parts();
    remove_hop_by_hop(&mut head.headers);
    let body = match content {
        LocalBody::Whole(bytes) => Body::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
        LocalBody::Chunks(pieces) => Body::Chunks(ChunkedBody::new(pieces)),
    };
    Response::from_parts(head, body)
}

fn refuse(status: u16, problem: &str) -> Response<Body> {
    answer(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), TEXT, format!("{problem}\n"))
}

/// Removes the headers that concern one connection and not the message (RFC 9110 §7.6.1), or the framing of the body.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all("connection")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    struct EchoHandler;

    impl LocalHandler for EchoHandler {
        fn handle(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Response<LocalBody>> {
            Box::pin(async move {
                if request.uri().path() == "/whole" {
                    return Response::new(LocalBody::Whole(request.into_body()));
                }
                let pieces = [Ok(Bytes::from_static(b"one ")), Ok(Bytes::from_static(b"two")), Err(BodyBroken)];
                Response::new(LocalBody::Chunks(Box::pin(futures_util::stream::iter(pieces))))
            })
        }
    }

    async fn said(address: SocketAddr, request: String) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn requests_are_answered_whole_in_pieces_or_not_at_all() {
        let server = LocalServer::open(0).await.unwrap();
        let address = server.address();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = server.run(Arc::new(EchoHandler), async move { drop(stopped.await) });
        let asking = async {
            let post = |path: &str, host: &str, body: &str| {
                format!(
                    "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                )
            };
            let ours = address.to_string();
            assert!(said(address, post("/whole", &ours, "{\"a\":1}")).await.ends_with("\r\n\r\n{\"a\":1}"));
            let broken = said(address, post("/pieces", &ours, "{}")).await;
            assert!(broken.contains("one ") && broken.contains("two") && !broken.contains("\r\n0\r\n"), "{broken}");
            // A page that has rebound its own name to this address.
            assert!(said(address, post("/whole", "evil.example", "{}")).await.starts_with("HTTP/1.1 421"));
            drop(stop);
        };
        tokio::join!(running, asking);
    }

    #[test]
    fn what_is_about_a_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "close, X-Mine"), ("x-mine", "1"), ("te", "trailers"), ("x-yours", "2")] {
            headers.insert(name, value.parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["x-yours"]);
    }
}
