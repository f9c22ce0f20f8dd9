//! TLS connections: the handshake, and then HTTP as on plain connections.
//!
//! One time limit covers everything from the first packet to the first bytes of HTTP, so a client that is slow or
//! silent cannot keep its connection.

use super::write_timeout::WriteTimeout;
use super::{Builders, Connection, PREFACE, RequestHandler, RequestService, STOP_POLL_INTERVAL};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::Watcher;
use rustls::ServerConfig;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a handshake (RFC 8446 §5.1), and of no request in plain HTTP.
const HANDSHAKE: u8 = 0x16;

/// The response to a client that sends plain HTTP to this port.
const WRONG_SCHEME: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 50\r\n\
    connection: close\r\n\r\n\
    this port speaks HTTPS; write https:// in its URL\n";
/// How long, and how much, the rest of such a request is read before the connection ends: if unread bytes are left at
/// the close, the client loses the response.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: u64 = 64 << 10;

impl Builders {
    /// Serves a TLS connection to its end.
    pub(super) async fn serve_secured<B: RequestHandler>(
        &self,
        stream: TcpStream,
        tls: Arc<ServerConfig>,
        mut connection: Connection<B>,
        watcher: Watcher,
    ) {
        let until = Instant::now() + self.first_bytes_max;
        // Boxed, so that a connection does not keep the memory of its handshake for as long as it lives.
        let shaken = unless_stopping(
            &connection.handler,
            Box::pin(timeout_at(until, handshake(stream, tls, self.write_time_max))),
        )
        .await;
        let failure = match shaken {
            None | Some(Ok(Ok(None))) => return,
            Some(Ok(Ok(Some(stream)))) => {
                connection.peer.set_tls_session(stream.get_ref().1);
                return self.serve_over(stream, until, RequestService(Arc::new(connection)), watcher).await;
            }
            Some(Ok(Err(failure))) => failure,
            Some(Err(_)) => HandshakeFailure { reason: "timeout", cause: None },
        };
        let HandshakeFailure { reason, cause } = failure;
        let cause = cause.as_ref().map(tracing::field::display);
        tracing::debug!(peer = %connection.peer.address, reason, cause, "a handshake came to nothing");
        connection.handler.handshake_failed(reason);
    }

    /// Serves HTTP inside TLS, in the version of the ALPN. Without ALPN it is 1.1, because HTTP/2 must be negotiated
    /// (RFC 9113 §3.2).
    async fn serve_over<B: RequestHandler>(
        &self,
        stream: Box<TlsStream<WriteTimeout>>,
        until: Instant,
        requests: RequestService<B>,
        watcher: Watcher,
    ) {
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        // HTTP/1.1 has a timeout of its own for the rest of its head.
        let owed = if speaks_http2 { PREFACE.len() } else { 1 };
        let io =
            TokioIo::new(FirstBytesStream::new(stream, FirstBytesWait::new(requests.0.handler.clone(), until, owed)));
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

/// Why a handshake failed.
struct HandshakeFailure {
    /// The label of the metric.
    reason: &'static str,
    cause: Option<io::Error>,
}

impl From<io::Error> for HandshakeFailure {
    fn from(cause: io::Error) -> Self {
        use rustls::Error::{
            AlertReceived, InvalidCertificate, InvalidMessage, NoApplicationProtocol, NoCertificatesPresented,
            PeerIncompatible,
        };
        let reason = match cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(NoCertificatesPresented) => "no_certificate",
            Some(InvalidCertificate(_)) => "bad_certificate",
            Some(PeerIncompatible(_) | NoApplicationProtocol) => "incompatible",
            Some(AlertReceived(_)) => "refused_by_peer",
            Some(InvalidMessage(_)) => "not_tls",
            Some(_) => "other",
            None => "broken_off",
        };
        Self { reason, cause: Some(cause) }
    }
}

/// Performs the handshake. `None`: the peer closed the connection without a byte, as port scanners do.
async fn handshake(
    mut stream: TcpStream,
    tls: Arc<ServerConfig>,
    write_time_max: Duration,
) -> Result<Option<Box<TlsStream<WriteTimeout>>>, HandshakeFailure> {
    // Nagle's algorithm holds the second of two small writes back for 40 ms.
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    if first[0] != HANDSHAKE {
        return Err(refuse_non_tls(&mut stream, first[0]).await);
    }
    // Boxed, because it is large, and futures are moved.
    let stream = WriteTimeout::new(stream, write_time_max);
    Ok(Some(Box::new(TlsAcceptor::from(tls).accept(stream).await?)))
}

/// Ends a connection that is not TLS; if it looks like HTTP, with a response that explains it.
async fn refuse_non_tls(stream: &mut TcpStream, first: u8) -> HandshakeFailure {
    if !first.is_ascii_uppercase() {
        return HandshakeFailure { reason: "not_tls", cause: None };
    }
    let answer = async {
        stream.write_all(WRONG_SCHEME).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES_MAX), &mut tokio::io::sink()).await
    };
    let cause = tokio::time::timeout(LINGER, answer).await.ok().and_then(Result::err);
    HandshakeFailure { reason: "plain_http", cause }
}

/// Waits for a future; `None` if the server stops first.
async fn unless_stopping<T>(behind: &impl RequestHandler, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(STOP_POLL_INTERVAL, &mut future).await {
            Ok(output) => return Some(output),
            Err(_) if behind.is_stopping() => return None,
            Err(_) => {}
        }
    }
}

/// A stream whose peer must send its first bytes soon.
struct FirstBytesStream<S, B> {
    stream: S,
    /// `None` once the first bytes have arrived.
    waiting: Option<Box<FirstBytesWait<B>>>,
}

/// The wait for the first bytes.
struct FirstBytesWait<B> {
    handler: B,
    until: Instant,
    /// Bytes that are still missing.
    bytes_left: usize,
    tick: Pin<Box<Sleep>>,
}

impl<B: RequestHandler> FirstBytesWait<B> {
    fn new(handler: B, until: Instant, bytes_left: usize) -> Self {
        Self { handler, until, bytes_left, tick: Box::pin(sleep_until(until.min(Instant::now() + STOP_POLL_INTERVAL))) }
    }

    /// No bytes yet: an error after the time limit, the end of the stream if the server stops.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tick.as_mut().poll(cx).is_ready() {
            if self.handler.is_stopping() {
                return Poll::Ready(Ok(()));
            }
            let now = Instant::now();
            if now >= self.until {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "nothing was said after the handshake",
                )));
            }
            self.tick.as_mut().reset(self.until.min(now + STOP_POLL_INTERVAL));
        }
        Poll::Pending
    }
}

impl<S, B: RequestHandler> FirstBytesStream<S, B> {
    fn new(stream: S, waiting: FirstBytesWait<B>) -> Self {
        Self { stream, waiting: Some(Box::new(waiting)) }
    }
}

impl<S: AsyncRead + Unpin, B: RequestHandler> AsyncRead for FirstBytesStream<S, B> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let Some(waiting) = &mut this.waiting else { return read };
        match read {
            Poll::Pending => waiting.poll(cx),
            Poll::Ready(outcome) => {
                waiting.bytes_left = waiting.bytes_left.saturating_sub(buffer.filled().len() - before);
                if waiting.bytes_left == 0 {
                    this.waiting = None;
                }
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, B: RequestHandler> AsyncWrite for FirstBytesStream<S, B> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
