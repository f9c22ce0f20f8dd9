//! Sockets: accepting, limiting, and stopping in an orderly way.

use crate::app::App;
use crate::body::Body;
use crate::stack;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Accepts until `stop` completes, then lets what is running finish for a while.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>, drain: Duration) {
    let slots = Arc::new(Semaphore::new(app.limits.connections_max));
    let builders = Arc::new(Builders::new(&app));
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        // A slot first: beyond the limit, connections wait in the kernel's queue instead of in our memory.
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely; a pause lets some of them close.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (builders, watcher, gauge) = (builders.clone(), graceful.watcher(), app.metrics.connection());
        let requests = Requests { app: app.clone() };
        tokio::spawn(async move {
            builders.serve(stream, requests, watcher).await;
            drop((gauge, slot));
        });
    }
    app.begin_stop();
    drop(listener);
    let finished = tokio::time::timeout(drain, graceful.shutdown()).await;
    if finished.is_err() {
        tracing::info!("some streams were still open after the time to drain; they can be taken up again");
    }
}

/// Answers the requests of one connection.
#[derive(Clone)]
struct Requests {
    app: Arc<App>,
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    // Boxed: a connection keeps room for the future of a request for as long as it lives, and an idle stream is a
    // connection whose request was answered long ago.
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let app = self.app.clone();
        match &self.app.front {
            None => Box::pin(async move { Ok(stack::serve(app, request).await) }),
            Some(front) => {
                let answered = front.clone().serve(app, request);
                Box::pin(async move { Ok(answered.await) })
            }
        }
    }
}

/// One protocol each.
struct Builders {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    first_bytes_max: Duration,
}

/// What every HTTP/2 connection opens with, and no HTTP/1.1 request.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Builders {
    fn new(app: &App) -> Self {
        let limits = &app.limits;
        let header_time_max = Duration::from_secs(limits.header_seconds_max);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(header_time_max)
            // No `pipeline_flush`: it lets a stalled reader's whole stream pile up in memory, and keeps the answer to a
            // head that is too large from ever being sent.
            .max_buf_size(limits.header_bytes_max.max(8192));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.http2_streams_max)
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
            // Dead peers are found within a minute, so that their streams do not stay.
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        Self { http1, http2, first_bytes_max: header_time_max }
    }

    /// Serves a connection to its end. HTTP/1.1 and HTTP/2 share the port; the first bytes are looked at without taking
    /// them off the socket, because whoever puts them back in front costs every connection a second buffer.
    async fn serve(&self, stream: TcpStream, requests: Requests, watcher: Watcher) {
        // Nagle's algorithm holds the second of two small writes back for 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it began");
            return;
        }
        let speaks_http2 = match tokio::time::timeout(self.first_bytes_max, speaks_http2(&stream, &requests.app)).await
        {
            Ok(Ok(Some(speaks))) => speaks,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return tracing::debug!(%error, "a connection broke off before it said anything"),
            Err(_) => return tracing::debug!("a connection said nothing"),
        };
        let outcome = if speaks_http2 {
            // Boxed, since its state is large and the usual connection is the other one.
            Box::pin(watcher.watch(self.http2.serve_connection(TokioIo::new(stream), requests))).await
        } else {
            watcher.watch(self.http1.serve_connection(TokioIo::new(stream), requests)).await
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "a connection broke off");
        }
    }
}

/// How often a connection that has said nothing yet looks whether the server is stopping.
const STOPPING_SEEN: Duration = Duration::from_millis(250);

/// Whether the first bytes are those of HTTP/2, whole: what only begins like them gets no further. `None` when the
/// server stops before anything was said.
async fn speaks_http2(stream: &TcpStream, app: &App) -> std::io::Result<Option<bool>> {
    let mut first = [0; PREFACE.len()];
    loop {
        let Ok(seen) = tokio::time::timeout(STOPPING_SEEN, stream.peek(&mut first)).await else {
            if app.is_stopping() {
                return Ok(None);
            }
            continue;
        };
        let seen = seen?;
        if seen == PREFACE.len() || !PREFACE.starts_with(&first[..seen]) || seen == 0 {
            return Ok(Some(first[..seen] == *PREFACE));
        }
        // A part of it so far, and a peek returns at once while that is there.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
