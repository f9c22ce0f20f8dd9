//! Observations of requests, answers and retries, for wire logs, progress and warnings.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use sabir_proto::{ContextId, TaskRef};
use std::time::Duration;

/// Receives the observations of a client.
pub trait Observer: Send + Sync {
    /// Receives one observation.
    fn observe(&self, note: &Observation<'_>);
}

/// An event of a call. Credentials that the client attaches are marked sensitive in the headers and are never part of a
/// URL.
#[derive(Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A request is sent.
    Request {
        /// The method; `POST` for gRPC.
        method: &'a Method,
        /// The URL, without credentials.
        url: &'a str,
        /// The headers, or the metadata of gRPC.
        headers: &'a HeaderMap,
        /// The bytes of the body.
        body: Option<&'a Bytes>,
    },
    /// The head of an answer has arrived.
    Response {
        /// The HTTP status.
        status: StatusCode,
        /// The headers.
        headers: &'a HeaderMap,
        /// The time since the request was sent.
        elapsed: Duration,
    },
    /// A complete body has arrived.
    Body {
        /// The bytes of the body.
        bytes: &'a Bytes,
    },
    /// An event of a stream has arrived.
    Frame {
        /// The id of the event, if it has one.
        id: Option<&'a str>,
        /// The data of the event.
        data: &'a str,
    },
    /// A request is sent again.
    Retry {
        /// The number of the attempt.
        attempt: u32,
        /// The pause before it.
        pause: Duration,
        /// The error of the attempt before.
        reason: &'a str,
    },
    /// A stream broke, and the client reconnects.
    Reconnecting {
        /// The number of the attempt.
        attempt: u32,
        /// The reason why the stream broke.
        reason: &'a str,
    },
    /// The stream continues.
    Reconnected {
        /// The event after which it continues; `None` if it begins with a snapshot.
        after: Option<&'a str>,
    },
    /// There is no stream, so the client polls.
    Polling {
        /// The reason for polling.
        reason: &'a str,
    },
    /// The id of the task is known from now on.
    TaskKnown {
        /// The id of the task.
        task: &'a TaskRef,
        /// The id of its conversation.
        context: Option<&'a ContextId>,
    },
    /// A warning for the user.
    Warning(&'a str),
}
