//! Probing: the facts below a call, one at a time, for whoever has to say why calls do not work.
//!
//! A call needs a name, a connection, a handshake, an answer and a sense in it, and tells at best which of them it
//! missed. Here each is asked for by itself. Everything leaves by the same door as calls do, under the same policy and
//! with the same trust; a certificate that would not do is looked at, and nothing is said over its connection.
//!
//! | Room | What is there |
//! |---|---|
//! | here | names, connections, pages |
//! | `handshake`, `certificate` | what TLS would say: trust, name and dates, each by itself |
//! | `raw` | requests and answers of an agent as they stand on the wire |
//!
//! Nothing here is repeated, redirected or understood.

mod certificate;
mod handshake;
mod raw;

pub use handshake::Handshake;
pub use raw::Exchange;

use crate::door::{As, Door, Outgoing};
use crate::egress::ResolveError;
use crate::{Client, Error};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper_util::client::proxy::matcher::Matcher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use url::Url;

/// Asks for single facts. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    door: Door,
}

/// An answer to a GET, whatever it is.
#[derive(Debug)]
pub struct Page {
    /// Its status. Redirects are not followed.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; [`Error::TooLarge`] beyond the limit.
    pub body: Result<Bytes, Error>,
    /// How long the head took.
    pub elapsed: Duration,
}

impl Client {
    /// Looks at what calls of this client stand on.
    pub fn probe(&self) -> Probe {
        Probe { door: self.door() }
    }
}

impl Probe {
    /// Whether requests to a URL go through a proxy of the environment, so that its name and address are not our
    /// business.
    pub fn is_proxied(&self, url: &Url) -> bool {
        let Ok(uri) = url.as_str().parse() else { return false };
        self.door.egress().trusts_proxies() && Matcher::from_env().intercept(&uri).is_some()
    }

    /// The addresses of a URL's host that may be called.
    pub async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ResolveError> {
        let host = url.host_str().unwrap_or_default();
        self.door.egress().resolve(host, url.port_or_known_default().unwrap_or(443)).await
    }

    /// Connects to the first address that answers, and hangs up.
    pub async fn connect(&self, addresses: &[SocketAddr]) -> std::io::Result<(SocketAddr, Duration)> {
        let (stream, address, elapsed) = self.dial(addresses).await?;
        drop(stream);
        Ok((address, elapsed))
    }

    async fn dial(&self, addresses: &[SocketAddr]) -> std::io::Result<(TcpStream, SocketAddr, Duration)> {
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let mut failure = late();
        for address in addresses {
            // Whoever gives the addresses, the policy is ours.
            let refused = self.door.egress().check(&address.ip().to_string(), address.ip());
            refused.map_err(|refusal| std::io::Error::other(refusal.to_string()))?;
            let begun = Instant::now();
            match tokio::time::timeout(self.door.timeouts().connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, *address, begun.elapsed())),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = late(),
            }
        }
        Err(failure)
    }

    /// Fetches a page as it is, showing nothing of us, and follows nothing.
    pub async fn page(&self, url: &Url, headers: HeaderMap, limit: usize) -> Result<Page, Error> {
        let begun = Instant::now();
        let answer = self.door.send(Outgoing { headers, ..Outgoing::get(url.clone()) }, As::Nobody).await?;
        let (status, headers, elapsed) = (answer.status, answer.headers.clone(), begun.elapsed());
        let body = answer.body("the page", limit).await;
        Ok(Page { status, headers, body, elapsed })
    }
}
