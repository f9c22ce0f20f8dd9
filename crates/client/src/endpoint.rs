//! Endpoints that are no agents: a URL that takes a document and answers with one, or with a stream of events.
//!
//! This is the way out for whoever makes an agent of somebody's HTTP interface. The address policy, TLS and timeouts
//! are those of calls, and so is what happens to a request that nobody waits for any more: dropping it closes it.
//! Nothing of ours is shown but the headers of the request, and redirects are answers like any other, since a key goes
//! with it.

use crate::door::{As, Door, Incoming, Outgoing, Timeouts, sensitive};
use crate::{Capacity, Egress, Error, Secret, Tls};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sabir_proto::Fault;
use sabir_wire::sse::{Frame, Parser, Unreadable};
use std::time::Duration;
use url::Url;

/// A way to HTTP interfaces of strangers. Cheap to clone, and connections are shared between clones.
#[derive(Clone)]
pub struct Endpoint {
    door: Door,
}

/// A request that is being written.
#[derive(Debug, Clone)]
pub struct Asking {
    outgoing: Outgoing,
}

/// An answer of which only the head has come.
pub struct Arriving {
    answer: Incoming,
    parser: Parser,
    bytes: usize,
    bytes_max: usize,
}

impl Endpoint {
    /// A way out under a policy.
    pub fn new(egress: Egress, tls: &Tls, timeouts: Timeouts) -> Result<Self, Error> {
        // Prompts and answers are nobody's business but the two sides'.
        Ok(Self { door: Door::new(egress, &Tls { identity: None, ..tls.clone() }, timeouts, None)? })
    }

    /// The same with so much room for all answers together.
    #[must_use]
    pub fn room(self, room: Capacity) -> Self {
        Self { door: self.door.with_room(room) }
    }

    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Sends a request and waits for the head of its answer, whatever its status. `bytes_max` bounds all that may
    /// follow.
    pub async fn send(&self, asking: Asking, bytes_max: usize) -> Result<Arriving, Error> {
        let answer = self.door.send(asking.outgoing, As::Nobody).await?;
        Ok(Arriving { answer, parser: Parser::new(bytes_max), bytes: 0, bytes_max })
    }
}

impl Asking {
    /// A request with any method and no body.
    pub fn new(method: Method, url: Url) -> Self {
        Self { outgoing: Outgoing { method, ..Outgoing::get(url) } }
    }

    /// A request that brings JSON.
    pub fn post_json(url: Url, body: Bytes) -> Self {
        let mut asking = Self::new(Method::POST, url);
        asking.outgoing.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        asking.outgoing.body = Some(body);
        asking
    }

    /// With a header that everybody may see.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.outgoing.headers.insert(name, value);
        self
    }

    /// With a header that is shown to nobody else.
    pub fn secret_header(mut self, name: HeaderName, value: &Secret) -> Result<Self, Error> {
        self.outgoing.headers.insert(name, sensitive(value.expose())?);
        Ok(self)
    }

    /// With a bearer token.
    pub fn bearer(mut self, token: &Secret) -> Result<Self, Error> {
        self.outgoing.headers.insert(header::AUTHORIZATION, sensitive(&format!("Bearer {}", token.expose()))?);
        Ok(self)
    }
}

/// An event that is there and cannot be read, which is not a stream that broke.
fn unreadable(problem: Unreadable) -> Error {
    match problem {
        Unreadable::TooLong(limit) => Error::TooLarge { what: "an event of the answer", limit },
        Unreadable::NotText => Error::local(Fault::InvalidAgentResponse(problem.to_string())),
    }
}

impl Arriving {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.answer.status
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.answer.headers
    }

    /// The media type of the body, in lower case and without parameters; empty where none is named.
    pub fn media_type(&self) -> String {
        self.answer.media_type()
    }

    /// How long it asks us to stay away.
    pub fn retry_after(&self) -> Option<Duration> {
        self.answer.retry_after()
    }

    /// The whole body.
    pub async fn body(self) -> Result<Bytes, Error> {
        self.answer.body("the answer", self.bytes_max).await
    }

    /// The next event of a stream; `None` at its end. A stream that dies in mid-event is [`Error::StreamLost`], and one
    /// that brings more than it may is [`Error::TooLarge`], or [`Error::Crowded`] where all together do.
    pub async fn frame(&mut self) -> Result<Option<Frame>, Error> {
        let lost = |reason: String| Error::StreamLost { task: None, reason };
        loop {
            if let Some(frame) = self.parser.next().map_err(unreadable)? {
                return Ok(Some(frame));
            }
            if !self.answer.share.hold(self.parser.held()) {
                return Err(Error::Crowded);
            }
            match self.chunk().await {
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

    /// The next piece of the body, as it comes; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let idle = self.answer.idle();
        let Some(bytes) = self.answer.chunk(idle).await? else { return Ok(None) };
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.bytes_max {
            return Err(Error::TooLarge { what: "the answer", limit: self.bytes_max });
        }
        Ok(Some(bytes))
    }
}
