//! HTTP without TLS, over pooled connections.
//!
//! A hub calls agents on the same machine like this, thousands of times per second. So the task that makes a call also
//! drives its connection: nothing is spawned or woken between the two. An idle connection is not driven; the next call
//! checks first whether it is still open.

use crate::egress::Egress;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use url::{Host, Position, Url};

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection could be made.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// No connection was made within the connect timeout.
    Late,
    /// The exchange broke on an open connection.
    Http(hyper::Error),
}

/// An HTTP client without TLS. Cheap to clone.
#[derive(Clone)]
pub(super) struct Plain(Arc<Inner>);

struct Inner {
    egress: Egress,
    connect: Duration,
    /// The number of idle connections kept per host, and their lifetime.
    keeps: (usize, Duration),
    hosts: Mutex<HashMap<Box<str>, Arc<Home>>>,
    /// The time of the last search for expired connections.
    swept: Mutex<Instant>,
}

/// The idle connections to one host.
struct Home {
    name: HeaderValue,
    idle: Mutex<Vec<(Instant, Box<Wire>)>>,
}

/// A connection and its request sender.
struct Wire {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

impl Wire {
    /// Drives the connection; returns true if it has ended.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(cx).is_ready()
    }
}

/// A response whose body has not been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    /// Set until the response is complete or the connection has closed.
    wire: Option<Box<Wire>>,
    home: Arc<Home>,
    plain: Plain,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plain {
    pub(super) fn new(egress: Egress, connect: Duration, keeps: (usize, Duration)) -> Self {
        let (hosts, swept) = (Mutex::default(), Mutex::new(Instant::now()));
        Self(Arc::new(Inner { egress, connect, keeps, hosts, swept }))
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(&self, url: &Url, mut request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let home = self.home(url)?;
        request.headers_mut().insert(header::HOST, home.name.clone());
        let mut kept = true;
        loop {
            let mut wire = match self.take(&home).await.filter(|_| kept) {
                Some(wire) => wire,
                None => {
                    kept = false;
                    Box::pin(self.connect(url)).await?
                }
            };
            let mut answer = std::pin::pin!(wire.sender.try_send_request(request));
            let outcome = poll_fn(|cx| {
                let over = Pin::new(&mut wire.connection).poll(cx).is_ready();
                answer.as_mut().poll(cx).map(|answer| (answer, over))
            })
            .await;
            match outcome {
                (Ok(answer), over) => {
                    let (head, body) = answer.into_parts();
                    let wire = (!over).then_some(wire);
                    let (status, headers) = (head.status, head.headers);
                    return Ok(Answer { status, headers, body, wire, home, plain: self.clone() });
                }
                // A pooled connection may close at the moment of use. A request that was not sent is sent again on a
                // new connection.
                (Err(mut error), _) => match error.take_message().filter(|_| kept) {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::Http(error.into_error())),
                },
            }
        }
    }

    fn home(&self, url: &Url) -> Result<Arc<Home>, Failure> {
        let name = &url[Position::BeforeHost..Position::AfterPort];
        let mut hosts = lock(&self.0.hosts);
        if let Some(home) = hosts.get(name) {
            return Ok(home.clone());
        }
        let value = HeaderValue::from_str(name).map_err(|error| Failure::Connect(error.into()))?;
        let home = Arc::new(Home { name: value, idle: Mutex::default() });
        hosts.insert(name.into(), home.clone());
        Ok(home)
    }

    /// Takes an idle connection that is still open: the one used last, so that the others can expire.
    async fn take(&self, home: &Home) -> Option<Box<Wire>> {
        loop {
            let (since, mut wire) = lock(&home.idle).pop()?;
            let over = poll_fn(|cx| Poll::Ready(wire.is_over(cx))).await;
            if !over && since.elapsed() < self.0.keeps.1 && wire.sender.is_ready() {
                return Some(wire);
            }
        }
    }

    async fn connect(&self, url: &Url) -> Result<Box<Wire>, Failure> {
        let connecting = tokio::time::timeout(self.0.connect, self.open(url)).await;
        let stream = connecting.map_err(|_| Failure::Late)?.map_err(Failure::Connect)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Failure::Http)?;
        let mut wire = Box::new(Wire { sender, connection });
        // hyper accepts a request only after the connection was driven once.
        poll_fn(|cx| Poll::Ready(wire.is_over(cx))).await;
        Ok(wire)
    }

    /// Connects to the first address that accepts. Addresses in the URL were checked before; the addresses of a name
    /// are checked here.
    async fn open(&self, url: &Url) -> Result<TcpStream, Box<dyn std::error::Error + Send + Sync>> {
        let port = url.port_or_known_default().unwrap_or(80);
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![(address, port).into()],
            Some(Host::Ipv6(address)) => vec![(address, port).into()],
            Some(Host::Domain(name)) => self.0.egress.resolve(name, port).await?,
            None => Vec::new(),
        };
        let mut failure: Box<dyn std::error::Error + Send + Sync> = "the URL has no host".into();
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    fn keep(&self, home: &Home, wire: Box<Wire>) {
        let mut idle = lock(&home.idle);
        if idle.len() < self.0.keeps.0 {
            idle.push((Instant::now(), wire));
        }
    }

    /// Closes expired connections, now and then. Every call does this; on an idle server the health checks do.
    pub(super) fn sweep(&self) {
        let (age, mut swept) = (self.0.keeps.1, lock(&self.0.swept));
        if swept.elapsed() < age / 2 {
            return;
        }
        *swept = Instant::now();
        drop(swept);
        lock(&self.0.hosts).retain(|_, home| {
            let mut idle = lock(&home.idle);
            idle.retain(|(since, _)| since.elapsed() < age);
            !idle.is_empty()
        });
    }
}

impl Answer {
    /// Reads the next piece of the body; `None` at the end, where the connection returns to the pool.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|cx| self.poll_chunk(cx)).await.map_err(Failure::Http)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        loop {
            // The body reports the errors of the connection.
            if self.wire.as_mut().is_some_and(|wire| wire.is_over(cx)) {
                self.wire = None;
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Ok(Some(data)));
                    }
                }
                Poll::Ready(None) => break,
            }
        }
        if let Some(mut wire) = self.wire.take()
            && !wire.is_over(cx)
            && wire.sender.is_ready()
        {
            self.plain.keep(&self.home, wire);
        }
        Poll::Ready(Ok(None))
    }
}

/// The request target: path and query.
pub(super) fn target(url: &Url) -> Result<http::Uri, http::uri::InvalidUri> {
    url[Position::BeforePath..Position::AfterQuery].parse()
}

#[cfg(test)]
mod tests;
