//! The sockets: accepting connections, limiting them, and an orderly stop.

mod connection_shares;
mod idle;
mod stalled_stream;
mod tls_connection;
mod write_timeout;

use crate::body::Body;
use crate::config::LimitsConfig;
use crate::metrics::GaugeGuard;
use crate::peer::Peer;
use crate::tls::ServerCertificate;
use crate::tokio_host::ServerTasks;
use connection_shares::ConnectionShares;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use idle::{CountingService, StreamCounter};
use stalled_stream::StreamExecutor;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use write_timeout::WriteTimeout;

/// Boxed, because a connection keeps the memory of a request's future for as long as it lives, and an idle stream is a
/// connection whose request was answered long ago.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Handles the requests that the sockets receive.
pub(crate) trait RequestHandler: Clone + Send + Sync + 'static {
    /// The limits of connections.
    fn limits(&self) -> &LimitsConfig;

    /// Counts a connection for as long as it lives.
    fn connection(&self) -> Option<GaugeGuard>;

    /// Whether an address is that of a proxy, which many callers share.
    fn is_proxy(&self, _address: IpAddr) -> bool {
        false
    }

    /// The TLS settings; `None` for plain HTTP.
    fn tls(&self) -> Option<&ServerCertificate> {
        None
    }

    /// Counts a failed handshake.
    fn handshake_failed(&self, _reason: &'static str) {}

    /// Responds to one request.
    fn answer(&self, request: Request<Incoming>, peer: Peer) -> ResponseFuture;

    /// Called when no more connections are accepted.
    fn begin_stop(&self);

    /// Whether the server is stopping.
    fn is_stopping(&self) -> bool;
}

/// Accepts connections until `stop` completes, then lets running requests finish for the drain time. The owner of the
/// tasks ends those that are still open then.
pub(crate) async fn serve(
    handler: impl RequestHandler,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    drain: Duration,
    tasks: &ServerTasks,
) {
    let slots = Arc::new(Semaphore::new(handler.limits().connections_max));
    let shares = ConnectionShares::new(handler.limits().connections_per_address_max);
    let (stopping, told) = watch::channel(false);
    let builders = Arc::new(Builders::new(handler.limits(), told, tasks.clone()));
    let graceful = GracefulShutdown::new();
    let mut is_told = false;
    tokio::pin!(stop);
    loop {
        // A slot first: above the limit, connections wait in the kernel's queue and not in our memory.
        let slot = tokio::select! {
            biased;
            () = &mut stop => break,
            slot = slots.clone().acquire_owned() => slot,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely there are no more file descriptors; a pause lets some connections close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let share = if handler.is_proxy(address.ip()) { Ok(None) } else { shares.acquire(address.ip()) };
        let Ok(share) = share else {
            // Logged once, because it may happen thousands of times a second; as a warning, because the address may be
            // a proxy.
            if !std::mem::replace(&mut is_told, true) {
                let advice = "is it a proxy, name it in server.proxies; see also limits.connections_per_address_max";
                tracing::warn!(peer = %address, advice, "an address has its share of connections; more are refused");
            }
            continue;
        };
        let (builders, watcher, gauge) = (builders.clone(), graceful.watcher(), handler.connection());
        let connection = Connection { handler: handler.clone(), peer: Peer::plain(address) };
        // Two kinds of tasks, so that a plain connection has no memory for the state of a TLS connection.
        match handler.tls().map(ServerCertificate::current) {
            None => {
                let requests = RequestService(Arc::new(connection));
                tasks.spawn_connection(async move {
                    builders.serve(stream, requests, watcher).await;
                    drop((gauge, slot, share));
                });
            }
            Some(tls) => tasks.spawn_connection(async move {
                builders.serve_secured(stream, tls, connection, watcher).await;
                drop((gauge, slot, share));
            }),
        }
    }
    handler.begin_stop();
    drop(listener);
    stopping.send_replace(true);
    let finished = tokio::time::timeout(drain, graceful.shutdown()).await;
    if finished.is_err() {
        tracing::info!("some streams were still open after the time to drain; they can be taken up again");
    }
}

/// A connection and the handler of its requests.
struct Connection<B> {
    handler: B,
    peer: Peer,
}

/// Handles the requests of one connection. One pointer, because the future of a connection holds it several times.
#[derive(Clone)]
struct RequestService<B>(Arc<Connection<B>>);

impl<B: RequestHandler> RequestService<B> {
    fn answer(&self, request: Request<Incoming>) -> ResponseFuture {
        self.0.handler.answer(request, self.0.peer.clone())
    }
}

impl<B: RequestHandler> Service<Request<Incoming>> for RequestService<B> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = InfallibleResponse;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        InfallibleResponse(self.answer(request))
    }
}

/// The response of a handler that never fails.
struct InfallibleResponse(ResponseFuture);

impl Future for InfallibleResponse {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

/// The builders of the two HTTP versions, and the time limits of connections.
struct Builders {
    http1: http1::Builder,
    http2: http2::Builder<StreamExecutor>,
    first_bytes_max: Duration,
    write_time_max: Duration,
    idle_max: Duration,
    /// Whether the server is stopping.
    stopping: watch::Receiver<bool>,
}

/// The first bytes of every HTTP/2 connection, and of no HTTP/1.1 request.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Builders {
    fn new(limits: &LimitsConfig, stopping: watch::Receiver<bool>, tasks: ServerTasks) -> Self {
        let header_time_max = Duration::from_secs(limits.header_seconds_max);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(header_time_max)
            // Without `pipeline_flush`: it lets the whole stream of a stalled reader accumulate in memory, and the
            // response to a head that is too large is never sent.
            .max_buf_size(limits.header_bytes_max.max(8192));
        let write_time_max = Duration::from_secs(limits.write_seconds_max);
        let mut http2 = http2::Builder::new(StreamExecutor { time_max: write_time_max, tasks });
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.http2_streams_max)
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
            // Dead peers are found within a minute, and their streams end.
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let idle_max = Duration::from_secs(limits.idle_seconds_max);
        Self { http1, http2, first_bytes_max: header_time_max, write_time_max, idle_max, stopping }
    }

    /// Serves HTTP/2 until the peer leaves, no request arrives for a while, or the server stops.
    async fn serve_http2(
        &self,
        io: impl Read + Write + Unpin + Send + 'static,
        requests: RequestService<impl RequestHandler>,
    ) -> hyper::Result<()> {
        let streams = StreamCounter::new();
        let counting = CountingService { requests, streams: streams.clone() };
        let mut connection = pin!(self.http2.serve_connection(io, counting));
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            outcome = connection.as_mut() => return outcome,
            () = streams.wait_until_idle(self.idle_max) => {}
            _ = stopping.wait_for(|stops| *stops) => {}
        }
        // Requests that arrived meanwhile are answered; a peer that does not close the connection is dropped.
        connection.as_mut().graceful_shutdown();
        let left = async {
            tokio::time::sleep(CLOSE_TIME_MAX).await;
            streams.wait_until_idle(CLOSE_TIME_MAX).await;
        };
        tokio::select! {
            biased;
            outcome = connection => outcome,
            () = left => Ok(()),
        }
    }

    /// Serves a connection to its end. HTTP/1.1 and HTTP/2 share the port. The first bytes are peeked and stay in the
    /// socket: a wrapper that puts them back would cost every connection a second buffer.
    async fn serve(&self, stream: TcpStream, requests: RequestService<impl RequestHandler>, watcher: Watcher) {
        // Nagle's algorithm holds the second of two small writes back for 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it began");
            return;
        }
        let first = speaks_http2(&stream, &requests.0.handler);
        let speaks_http2 = match tokio::time::timeout(self.first_bytes_max, first).await {
            Ok(Ok(Some(speaks))) => speaks,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return tracing::debug!(%error, "a connection broke off before it said anything"),
            Err(_) => return tracing::debug!("a connection said nothing"),
        };
        let io = TokioIo::new(WriteTimeout::new(stream, self.write_time_max));
        let outcome = if speaks_http2 {
            // Boxed, because its state is large and most connections use HTTP/1.1.
            let outcome = Box::pin(self.serve_http2(io, requests)).await;
            drop(watcher);
            outcome
        } else {
            watcher.watch(self.http1.serve_connection(io, requests)).await
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "a connection broke off");
        }
    }
}

/// How long a peer has to close an HTTP/2 connection after its last response.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

/// How often a connection without any bytes yet checks whether the server is stopping.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Whether the first bytes are the whole preface of HTTP/2; a partial one does not count. `None` if the server stops
/// before any bytes arrive.
async fn speaks_http2(stream: &TcpStream, handler: &impl RequestHandler) -> std::io::Result<Option<bool>> {
    let mut first = [0; PREFACE.len()];
    loop {
        let Ok(seen) = tokio::time::timeout(STOP_POLL_INTERVAL, stream.peek(&mut first)).await else {
            if handler.is_stopping() {
                return Ok(None);
            }
            continue;
        };
        let seen = seen?;
        if seen == PREFACE.len() || !PREFACE.starts_with(&first[..seen]) || seen == 0 {
            return Ok(Some(first[..seen] == *PREFACE));
        }
        // A part of the preface is there, and a peek returns at once while it is.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
