//! A client for HTTP endpoints that are not agents: they take a document and answer with one, or with a stream of
//! events.
//!
//! Adapters that make an agent of an HTTP interface use this client. Address policy, TLS and timeouts are those of
//! calls; dropping a request closes its connection. Nothing of ours is sent but the headers of the request. Redirects
//! are returned and not followed, because a request may carry a key.

use crate::http_client::{ConnectionPool, HttpClient, IncomingResponse, OutgoingRequest, Timeouts, sensitive_header};
use crate::{Capacity, Egress, Error, Secret, Tls};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sabir_proto::Fault;
use sabir_wire::sse::{Frame, Parser, SseError};
use std::time::Duration;
use url::Url;

/// A client for HTTP endpoints that are not agents. Cheap to clone, and clones share connections.
#[derive(Clone)]
pub struct EndpointClient {
    http_client: HttpClient,
}

/// A request that is being built.
#[derive(Debug, Clone)]
pub struct EndpointRequest {
    outgoing: OutgoingRequest,
}

/// A response of which only the head has arrived.
pub struct EndpointResponse {
    answer: IncomingResponse,
    parser: Parser,
    bytes: usize,
    bytes_max: usize,
}

impl EndpointClient {
    /// A client under an address policy.
    pub fn new(egress: Egress, tls: &Tls, timeouts: Timeouts) -> Result<Self, Error> {
        // Prompts and answers are confidential, so there is no observer.
        Ok(Self { http_client: HttpClient::new(egress, &Tls { identity: None, ..tls.clone() }, timeouts, None)? })
    }

    /// The same client with a capacity for all answers together.
    #[must_use]
    pub fn with_capacity(self, room: Capacity) -> Self {
        Self { http_client: self.http_client.with_capacity(room) }
    }

    pub(crate) fn http_client(&self) -> HttpClient {
        self.http_client.clone()
    }

    /// Sends a request and waits for the head of its response, whatever its status. `bytes_max` limits the whole body.
    pub async fn send(&self, asking: EndpointRequest, bytes_max: usize) -> Result<EndpointResponse, Error> {
        let answer = self.http_client.send(asking.outgoing, ConnectionPool::Other).await?;
        Ok(EndpointResponse { answer, parser: Parser::new(bytes_max), bytes: 0, bytes_max })
    }
}

impl EndpointRequest {
    /// A request with a method, a URL and no body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { outgoing: OutgoingRequest { method, ..OutgoingRequest::get(url) } }
    }

    /// A POST request with a JSON body.
    pub fn post_json(url: Url, body: Bytes) -> Self {
        let mut asking = Self::new(Method::POST, url);
        asking.outgoing.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        asking.outgoing.body = Some(body);
        asking
    }

    /// Sets a header whose value is not secret.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.outgoing.headers.insert(name, value);
        self
    }

    /// Sets a header whose value is marked sensitive.
    pub fn secret_header(mut self, name: HeaderName, value: &Secret) -> Result<Self, Error> {
        self.outgoing.headers.insert(name, sensitive_header(value.expose())?);
        Ok(self)
    }

    /// Sets the `Authorization` header to a bearer token.
    pub fn bearer(mut self, token: &Secret) -> Result<Self, Error> {
        self.outgoing.headers.insert(header::AUTHORIZATION, sensitive_header(&format!("Bearer {}", token.expose()))?);
        Ok(self)
    }
}

/// Converts a parser error: the event arrived and is unreadable, while the stream itself is intact.
fn unreadable(problem: SseError) -> Error {
    match problem {
        SseError::TooLong(limit) => Error::TooLarge { what: "an event of the answer", limit },
        SseError::NotText => Error::local(Fault::InvalidAgentResponse(problem.to_string())),
    }
}

impl EndpointResponse {
    /// The HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        self.answer.status
    }

    /// The headers of the response.
    pub fn headers(&self) -> &HeaderMap {
        &self.answer.headers
    }

    /// The media type of the body, in lower case and without parameters; empty if none is named.
    pub fn media_type(&self) -> String {
        self.answer.media_type()
    }

    /// The `Retry-After` delay, if the server sent one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.answer.retry_after()
    }

    /// Reads the whole body of the response.
    pub async fn body(self) -> Result<Bytes, Error> {
        self.answer.body("the answer", self.bytes_max).await
    }

    /// The next event of a stream; `None` at its end. A stream that breaks within an event is [`Error::StreamLost`].
    /// One that exceeds its limit is [`Error::TooLarge`], or [`Error::CapacityExceeded`] if the shared capacity is exceeded.
    pub async fn next_event(&mut self) -> Result<Option<Frame>, Error> {
        let lost = |reason: String| Error::StreamLost { task: None, reason };
        loop {
            if let Some(frame) = self.parser.next().map_err(unreadable)? {
                return Ok(Some(frame));
            }
            if !self.answer.share.hold(self.parser.buffered_bytes()) {
                return Err(Error::CapacityExceeded);
            }
            match self.next_chunk().await {
                Ok(Some(bytes)) => self.parser.push(&bytes),
                Ok(None) if self.parser.is_mid_event() => return Err(lost("it closed in mid-event".into())),
                Ok(None) => return Ok(None),
                Err(Error::Timeout { after, .. }) => {
                    return Err(lost(format!("no sign of life for {} seconds", after.as_secs())));
                }
                Err(Error::Unreachable { reason, .. }) => return Err(lost(reason)),
                Err(other) => return Err(other),
            }
        }
    }

    /// The next piece of the body; `None` at its end.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let idle = self.answer.idle_timeout();
        let Some(bytes) = self.answer.chunk(idle).await? else { return Ok(None) };
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.bytes_max {
            return Err(Error::TooLarge { what: "the answer", limit: self.bytes_max });
        }
        Ok(Some(bytes))
    }
}
