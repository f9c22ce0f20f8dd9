//! Calls without TLS, over connections that are kept.
//!
//! Agents beside a hub are called like this thousands of times a second. So whoever makes a call drives its connection
//! itself: nothing is spawned, handed over or woken between the two. A connection that nobody uses is driven by nobody,
//! and whoever takes it looks first whether it is still there.

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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody could be connected to.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// Nobody was, in time.
    Late,
    /// The exchange broke.
    Http(hyper::Error),
}

/// Connections without TLS. Cheap to clone.
#[derive(Clone)]
pub(super) struct Plain(Arc<Inner>);

struct Inner {
    egress: Egress,
    connect: Duration,
    /// How many connections to one host are kept, and for how long.
    keeps: (usize, Duration),
    hosts: Mutex<HashMap<Box<str>, Arc<Home>>>,
    /// When connections that are too old were last looked for.
    swept: Mutex<Instant>,
}

/// The connections to one host that nobody uses.
struct Home {
    name: HeaderValue,
    idle: Mutex<Vec<(Instant, Box<Wire>)>>,
}

/// One connection.
struct Wire {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<TokioIo<TcpStream>, Full<Bytes>>,
}

impl Wire {
    /// Drives it; whether it is over.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(cx).is_ready()
    }
}

/// An answer whose body has not been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    /// Until the answer is whole, or the connection has closed.
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

    /// Sends a request and waits for the head of its answer.
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
                // A connection that was kept may end at the moment it is used. What was not sent is sent anew.
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

    /// A connection that was kept and is still there: the one that was used last, since the others may rest.
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
        // It takes a request once it has been driven.
        poll_fn(|cx| Poll::Ready(wire.is_over(cx))).await;
        Ok(wire)
    }

    /// Connects to the first address that somebody is at. Addresses were judged where the URL has one, and are here
    /// where it has a name.
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

    /// Closes connections that were not used for long, now and then. Whoever makes any call does it: health checks do
    /// so where nobody else does.
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
    /// Reads on. `None` at the end, where the connection is given back.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        poll_fn(|cx| self.poll_chunk(cx)).await.map_err(Failure::Http)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        loop {
            // What goes wrong with the connection is told by the body.
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

/// Where to, as a request on a connection says it.
pub(super) fn target(url: &Url) -> Result<http::Uri, http::uri::InvalidUri> {
    url[Position::BeforePath..Position::AfterQuery].parse()
}

#[cfg(test)]
mod tests;
