//! Every way a call can fail, one variant per reaction.

mod card_signature;

pub use card_signature::{SignatureFault, UntrustedReason};

use crate::egress::EgressRefusal;
use sabir_proto::{Fault, TaskRef};
use std::fmt;
use std::time::Duration;

/// The error number of the transport that reported the failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportCode {
    /// A JSON-RPC error number.
    JsonRpc(i64),
    /// An HTTP status.
    Http(u16),
    /// A gRPC status, by name.
    Grpc(&'static str),
}

impl fmt::Display for TransportCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JsonRpc(number) => write!(f, "{number}"),
            Self::Http(status) => write!(f, "{status}"),
            Self::Grpc(name) => f.write_str(name),
        }
    }
}

/// The side that causes a connection failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailureSide {
    /// This machine's: no sockets left, no network.
    Local,
    /// The peer alone: its host is there, and refuses, hangs up or answers in place of a server that is down.
    Peer,
    /// The cause is unknown: the name does not resolve, or there is no answer.
    #[default]
    Unknown,
}

impl FailureSide {
    /// Derives the side from an error of the system. An unreachable address says nothing about other addresses, so it
    /// does not count as a local failure.
    pub(crate) fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{
            AddrNotAvailable, ConnectionAborted, ConnectionRefused, ConnectionReset, NetworkDown, OutOfMemory,
            UnexpectedEof,
        };
        // Too many open files, of this process or of the system, have no `ErrorKind` of their own.
        const FILES: [i32; 2] = [23, 24];
        match error.kind() {
            AddrNotAvailable | NetworkDown | OutOfMemory => Self::Local,
            _ if error.raw_os_error().is_some_and(|number| FILES.contains(&number)) => Self::Local,
            ConnectionRefused | ConnectionReset | ConnectionAborted | UnexpectedEof => Self::Peer,
            _ => Self::Unknown,
        }
    }

    /// Combines the sides of two errors of one failure.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Unknown { other } else { self }
    }
}

/// The reason why a request did not reach its server, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnreachableCause {
    /// The host refuses connections at this port.
    ConnectionRefused,
    /// The name of the host has no address.
    NameNotResolved,
    /// No connection was made in time.
    ConnectTimeout,
    /// A server answered with HTTP 502, 503 or 504, or with gRPC `UNAVAILABLE`, in its place.
    GatewayAnswer,
    /// Anything else: TLS, a connection that broke, an authorization server without an answer.
    #[default]
    Other,
}

impl UnreachableCause {
    /// Derives the cause from an error of the system.
    pub(crate) fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            _ => Self::Other,
        }
    }

    /// The first cause that is known.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Other { other } else { self }
    }
}

/// Why a call did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument of the caller cannot be used: a reference, a certificate, a header.
    #[error("{0}")]
    Usage(String),
    /// The peer cannot be reached: DNS, connection, TLS, or a proxy without a server behind it.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The host of the request.
        host: String,
        /// The words for a person.
        reason: String,
        /// True if the request cannot have arrived, so that it may be repeated.
        safe: bool,
        /// The side that causes the failure, as far as it is known.
        side: FailureSide,
        /// The reason why the request did not reach its server.
        cause: UnreachableCause,
        /// The `Retry-After` delay of a proxy, if it sent one.
        retry_after: Option<Duration>,
    },
    /// The address policy does not allow the address.
    #[error(transparent)]
    Refused(#[from] EgressRefusal),
    /// No card was found.
    #[error("no agent card at {at}: {reason}")]
    CardNotFound {
        /// The URL that was tried.
        at: String,
        /// What was found there instead.
        reason: String,
    },
    /// A document redirects to an origin that the caller did not name.
    #[error("{at} redirects to {to}")]
    RedirectRefused {
        /// The URL that was tried.
        at: String,
        /// The target of the redirect.
        to: String,
    },
    /// The server shows the card only to authorised callers.
    #[error("the agent card at {at} is not public: HTTP {status}")]
    CardForbidden {
        /// The URL of the card.
        at: String,
        /// 401 or 403.
        status: u16,
    },
    /// The document is not a valid card.
    #[error("{at} is not a valid agent card: {reason}")]
    CardInvalid {
        /// The URL or the path of the document.
        at: String,
        /// The fault that makes it invalid.
        reason: String,
    },
    /// The card has no signature that meets the configured mode.
    #[error("the agent card at {at} cannot be trusted: {reason}")]
    CardUntrusted {
        /// The URL or the path of the card.
        at: String,
        /// The reason why the signatures do not suffice.
        reason: Box<UntrustedReason>,
    },
    /// The card offers no interface that we speak.
    #[error("the card offers no interface that can be used: {}", if offered.is_empty() { "it lists none".into() } else { offered.join(", ") })]
    NoInterface {
        /// The interfaces that the card offers.
        offered: Vec<String>,
    },
    /// The card asks for credentials that we do not have.
    #[error("the agent asks for credentials: {}", wanted.join(" or "))]
    CredentialsMissing {
        /// The alternatives of the card, in words.
        wanted: Vec<String>,
        /// The error of the transport; `None` if nothing was sent.
        transport: Option<TransportCode>,
    },
    /// Our credentials were not accepted.
    #[error("the agent did not accept the credentials: {reason}")]
    AuthFailed {
        /// The message of the agent.
        reason: String,
        /// The error of the transport.
        transport: Option<TransportCode>,
    },
    /// A time limit was reached.
    #[error("{what} took longer than {after:?}")]
    Timeout {
        /// The step that took too long.
        what: &'static str,
        /// The limit that was reached.
        after: Duration,
    },
    /// The agent refused, or its card says that it would.
    #[error("{fault}")]
    Fault {
        /// The fault as the protocol defines it.
        fault: Fault,
        /// The error of the transport; `None` when nothing was sent.
        transport: Option<TransportCode>,
        /// The `Retry-After` delay, if the agent sent one.
        retry_after: Option<Duration>,
    },
    /// A stream ended before its task did, and could not be resumed.
    #[error("the stream ended early: {reason}")]
    StreamLost {
        /// The task that was followed, if it is known.
        task: Option<TaskRef>,
        /// The reason why the stream ended.
        reason: String,
    },
    /// The answer exceeds the shared capacity for answers. The request has arrived.
    #[error("more is on its way from agents than there is room for")]
    CapacityExceeded,
    /// A document or an answer exceeds its limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The document that is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    /// A fault that the client finds itself, before anything is sent.
    pub(crate) const fn local(fault: Fault) -> Self {
        Self::Fault { fault, transport: None, retry_after: None }
    }

    /// The peer cannot be reached.
    pub(crate) fn unreachable(host: &str, reason: impl Into<String>, safe: bool) -> Self {
        let (host, reason, side, cause) = (host.into(), reason.into(), FailureSide::Unknown, UnreachableCause::Other);
        Self::Unreachable { host, reason, safe, side, cause, retry_after: None }
    }

    /// The same error with a known cause.
    #[must_use]
    pub(crate) fn with_cause(mut self, known: UnreachableCause) -> Self {
        if let Self::Unreachable { cause, .. } = &mut self {
            *cause = known;
        }
        self
    }

    /// The same error with the side that the system's error tells.
    #[must_use]
    pub(crate) fn with_side(mut self, said: FailureSide) -> Self {
        if let Self::Unreachable { side: whose, .. } = &mut self {
            *whose = said;
        }
        self
    }

    /// The delay that the peer asks for before the next attempt.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Fault { retry_after, .. } | Self::Unreachable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request may be sent again although it changes something: it cannot have arrived.
    pub const fn cannot_have_arrived(&self) -> bool {
        matches!(self, Self::Unreachable { safe: true, .. })
    }

    /// Whether a retry of a read-only request may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::StreamLost { .. } | Self::Timeout { .. } | Self::CapacityExceeded => true,
            Self::Fault { fault, .. } => {
                matches!(fault.code(), sabir_proto::FaultCode::Unavailable | sabir_proto::FaultCode::Exhausted)
            }
            _ => false,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::local(fault)
    }
}
