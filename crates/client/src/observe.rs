//! What happens on the way to an answer, for those who want to watch: wire logs, progress, warnings.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use sabir_proto::{ContextId, TaskRef};
use std::time::Duration;

/// Somebody who watches.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn note(&self, note: &Note<'_>);
}

/// What happened. Credentials that we attach ourselves are marked sensitive among the headers and never part of a URL.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// A request leaves.
    Request {
        /// Its method; `POST` for gRPC.
        method: &'a Method,
        /// Where to, without credentials.
        url: &'a str,
        /// Its headers, or metadata.
        headers: &'a HeaderMap,
        /// Its body.
        body: Option<&'a Bytes>,
    },
    /// The head of an answer.
    Response {
        /// Its status.
        status: StatusCode,
        /// Its headers.
        headers: &'a HeaderMap,
        /// How long it took.
        elapsed: Duration,
    },
    /// A body that came whole.
    Body {
        /// What it says.
        bytes: &'a Bytes,
    },
    /// One event of a stream.
    Frame {
        /// Its name, if it has one.
        id: Option<&'a str>,
        /// What it says.
        data: &'a str,
    },
    /// A request is sent again.
    Retry {
        /// Which time this is.
        attempt: u32,
        /// After how long.
        pause: Duration,
        /// What went wrong before.
        reason: &'a str,
    },
    /// A stream broke off and is taken up again.
    Reconnecting {
        /// Which time this is.
        attempt: u32,
        /// What happened to it.
        reason: &'a str,
    },
    /// It goes on.
    Reconnected {
        /// From which event on; `None`: from a fresh snapshot.
        after: Option<&'a str>,
    },
    /// No stream; we ask now and then.
    Polling {
        /// Why.
        reason: &'a str,
    },
    /// The task has a name from now on.
    TaskKnown {
        /// The task.
        task: &'a TaskRef,
        /// Its conversation.
        context: Option<&'a ContextId>,
    },
    /// Something a person should know.
    Warning(&'a str),
}
