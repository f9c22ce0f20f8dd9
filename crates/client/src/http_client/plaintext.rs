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
pub(super) enum PlaintextFailure {
    /// No connection could be made.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// No connection was made within the connect timeout.
    ConnectTimeout,
    /// The exchange broke on an open connection.
    Http(hyper::Error),
}

/// An HTTP client without TLS. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlaintextClient(Arc<PlaintextClientInner>);

struct PlaintextClientInner {
    egress: Egress,
    connect: Duration,
    /// The number of idle connections kept per host, and their lifetime.
    idle_limit: (usize, Duration),
    hosts: Mutex<HashMap<Box<str>, Arc<HostConnections>>>,
    /// The time of the last search for expired connections.
    last_sweep: Mutex<Instant>,
}

/// The idle connections to one host.
struct HostConnections {
    name: HeaderValue,
    idle: Mutex<Vec<(Instant, Box<PlaintextConnection>)>>,
}

/// A connection and its request sender.
struct PlaintextConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

impl PlaintextConnection {
    /// Drives the connection; returns true if it has ended.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(cx).is_ready()
    }
}

/// A response whose body has not been read.
pub(super) struct PlaintextResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    /// Set until the response is complete or the connection has closed.
    connection: Option<Box<PlaintextConnection>>,
    host_connections: Arc<HostConnections>,
    client: PlaintextClient,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlaintextClient {
    pub(super) fn new(egress: Egress, connect: Duration, keeps: (usize, Duration)) -> Self {
        let (hosts, swept) = (Mutex::default(), Mutex::new(Instant::now()));
        Self(Arc::new(PlaintextClientInner { egress, connect, idle_limit: keeps, hosts, last_sweep: swept }))
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(
        &self,
        url: &Url,
        mut request: Request<Full<Bytes>>,
    ) -> Result<PlaintextResponse, PlaintextFailure> {
        let home = self.host_connections(url)?;
        request.headers_mut().insert(header::HOST, home.name.clone());
        let mut kept = true;
        loop {
            let mut wire = match self.take_idle(&home).await.filter(|_| kept) {
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
                    return Ok(PlaintextResponse {
                        status,
                        headers,
                        body,
                        connection: wire,
                        host_connections: home,
                        client: self.clone(),
                    });
                }
                // A pooled connection may close at the moment of use. A request that was not sent is sent again on a
                // new connection.
                (Err(mut error), _) => match error.take_message().filter(|_| kept) {
                    Some(unsent) => request = unsent,
                    None => return Err(PlaintextFailure::Http(error.into_error())),
                },
            }
        }
    }

    fn host_connections(&self, url: &Url) -> Result<Arc<HostConnections>, PlaintextFailure> {
        let name = &url[Position::BeforeHost..Position::AfterPort];
        let mut hosts = lock(&self.0.hosts);
        if let Some(home) = hosts.get(name) {
            return Ok(home.clone());
        }
        let value = HeaderValue::from_str(name).map_err(|error| PlaintextFailure::Connect(error.into()))?;
        let home = Arc::new(HostConnections { name: value, idle: Mutex::default() });
        hosts.insert(name.into(), home.clone());
        Ok(home)
    }

    /// Takes an idle connection that is still open: the one used last, so that the others can expire.
    async fn take_idle(&self, home: &HostConnections) -> Option<Box<PlaintextConnection>> {
        loop {
            let (since, mut wire) = lock(&home.idle).pop()?;
            let over = poll_fn(|cx| Poll::Ready(wire.drive(cx))).await;
            if !over && since.elapsed() < self.0.idle_limit.1 && wire.sender.is_ready() {
                return Some(wire);
            }
        }
    }

    async fn connect(&self, url: &Url) -> Result<Box<PlaintextConnection>, PlaintextFailure> {
        let connecting = tokio::time::timeout(self.0.connect, self.open(url)).await;
        let stream = connecting.map_err(|_| PlaintextFailure::ConnectTimeout)?.map_err(PlaintextFailure::Connect)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(PlaintextFailure::Http)?;
        let mut wire = Box::new(PlaintextConnection { sender, connection });
        // hyper accepts a request only after the connection was driven once.
        poll_fn(|cx| Poll::Ready(wire.drive(cx))).await;
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

    fn return_idle(&self, home: &HostConnections, wire: Box<PlaintextConnection>) {
        let mut idle = lock(&home.idle);
        if idle.len() < self.0.idle_limit.0 {
            idle.push((Instant::now(), wire));
        }
    }

    /// Closes expired connections, now and then. Every call does this; on an idle server the health checks do.
    pub(super) fn close_expired(&self) {
        let (age, mut swept) = (self.0.idle_limit.1, lock(&self.0.last_sweep));
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

impl PlaintextResponse {
    /// Reads the next piece of the body; `None` at the end, where the connection returns to the pool.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, PlaintextFailure> {
        poll_fn(|cx| self.poll_chunk(cx)).await.map_err(PlaintextFailure::Http)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        loop {
            // The body reports the errors of the connection.
            if self.connection.as_mut().is_some_and(|wire| wire.drive(cx)) {
                self.connection = None;
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
        if let Some(mut wire) = self.connection.take()
            && !wire.drive(cx)
            && wire.sender.is_ready()
        {
            self.client.return_idle(&self.host_connections, wire);
        }
        Poll::Ready(Ok(None))
    }
}

/// The request target: path and query.
pub(super) fn request_target(url: &Url) -> Result<http::Uri, http::uri::InvalidUri> {
    url[Position::BeforePath..Position::AfterQuery].parse()
}

#[cfg(test)]
mod tests;
