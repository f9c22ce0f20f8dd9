//! Probes: single facts below a call, to diagnose why calls fail.
//!
//! A call needs a name, a connection, a handshake, an answer and valid content, and its error names at best the step
//! that failed. A probe checks each step by itself. It uses the same HTTP client as calls, with the same policy and
//! trust settings. It also inspects a certificate that calls would refuse, and sends nothing over that connection.
//!
//! | Module | Content |
//! |---|---|
//! | this one | names, connections, pages |
//! | `handshake`, `certificate` | TLS facts: trust, name and dates, each by itself |
//! | `raw_exchange` | raw requests and answers of an agent |
//!
//! Probes do not retry, follow redirects or interpret answers.

mod certificate;
mod handshake;
mod raw_exchange;

pub use handshake::Handshake;
pub use raw_exchange::RawResponse;

use crate::egress::ResolveError;
use crate::http_client::{ConnectionPool, HttpClient, OutgoingRequest};
use crate::{Client, Error};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper_util::client::proxy::matcher::Matcher;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use url::Url;

/// Checks single facts. Cheap to clone.
#[derive(Clone)]
pub struct Probe {
    http_client: HttpClient,
}

/// The answer to a GET, whatever it is.
#[derive(Debug)]
pub struct ProbedPage {
    /// The HTTP status. Redirects are not followed.
    pub status: StatusCode,
    /// The headers of the answer.
    pub headers: HeaderMap,
    /// The body of the answer; [`Error::TooLarge`] beyond the limit.
    pub body: Result<Bytes, Error>,
    /// The time until the head arrived.
    pub elapsed: Duration,
}

impl Client {
    /// Returns a probe with the settings of this client.
    pub fn probe(&self) -> Probe {
        Probe { http_client: self.http_client() }
    }
}

impl Probe {
    /// Whether requests to a URL go through a proxy of the environment, which then resolves the name.
    pub fn is_proxied(&self, url: &Url) -> bool {
        let Ok(uri) = url.as_str().parse() else { return false };
        self.http_client.egress().trusts_proxies() && Matcher::from_env().intercept(&uri).is_some()
    }

    /// Resolves the host of a URL to the addresses that may be called.
    pub async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ResolveError> {
        let host = url.host_str().unwrap_or_default();
        self.http_client.egress().resolve(host, url.port_or_known_default().unwrap_or(443)).await
    }

    /// Connects to the first address that accepts, and closes the connection.
    pub async fn connect(&self, addresses: &[SocketAddr]) -> std::io::Result<(SocketAddr, Duration)> {
        let (stream, address, elapsed) = self.dial(addresses).await?;
        drop(stream);
        Ok((address, elapsed))
    }

    async fn dial(&self, addresses: &[SocketAddr]) -> std::io::Result<(TcpStream, SocketAddr, Duration)> {
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let mut failure = late();
        for address in addresses {
            // The addresses come from the caller, so the policy checks them here too.
            let refused = self.http_client.egress().check(&address.ip().to_string(), address.ip());
            refused.map_err(|refusal| std::io::Error::other(refusal.to_string()))?;
            let begun = Instant::now();
            match tokio::time::timeout(self.http_client.timeouts().connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, *address, begun.elapsed())),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = late(),
            }
        }
        Err(failure)
    }

    /// Fetches a page without our certificate, and follows no redirect.
    pub async fn page(&self, url: &Url, headers: HeaderMap, limit: usize) -> Result<ProbedPage, Error> {
        let begun = Instant::now();
        let answer = self
            .http_client
            .send(OutgoingRequest { headers, ..OutgoingRequest::get(url.clone()) }, ConnectionPool::Other)
            .await?;
        let (status, headers, elapsed) = (answer.status, answer.headers.clone(), begun.elapsed());
        let body = answer.body("the page", limit).await;
        Ok(ProbedPage { status, headers, body, elapsed })
    }
}
