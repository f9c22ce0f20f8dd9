//! Every way a call can fail, one variant per reaction.

use crate::egress::Refusal;
use sabir_proto::{Fault, TaskRef};
use std::fmt;
use std::time::Duration;

/// Where a failure came from, in the transport's own numbers.
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

/// Whose fault it is that somebody cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Whose {
    /// This machine's: no sockets left, no network.
    Ours,
    /// Theirs alone: their host is there, and refuses, hangs up or answers for somebody who is not.
    Theirs,
    /// Nobody can tell: there is no such name, or no answer.
    #[default]
    Unknown,
}

impl Whose {
    /// What an error of the system says about it. That there is no way to one address says nothing about the others, so
    /// it is not ours.
    pub(crate) fn of(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{
            AddrNotAvailable, ConnectionAborted, ConnectionRefused, ConnectionReset, NetworkDown, OutOfMemory,
            UnexpectedEof,
        };
        // Too many open files, of this process or of all, have no kind of their own.
        const FILES: [i32; 2] = [23, 24];
        match error.kind() {
            AddrNotAvailable | NetworkDown | OutOfMemory => Self::Ours,
            _ if error.raw_os_error().is_some_and(|number| FILES.contains(&number)) => Self::Ours,
            ConnectionRefused | ConnectionReset | ConnectionAborted | UnexpectedEof => Self::Theirs,
            _ => Self::Unknown,
        }
    }

    /// What two errors of one failure say together.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Unknown { other } else { self }
    }
}

/// What kept a request from its server, as far as it can be told.
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
    /// What an error of the system says about it.
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
    /// Something that was given to us cannot be used: a reference, a certificate, a header.
    #[error("{0}")]
    Usage(String),
    /// Nobody there: DNS, connection, TLS, or a proxy that found nobody.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// What happened.
        reason: String,
        /// The request cannot have arrived, so that it may be repeated.
        safe: bool,
        /// Whose fault that is, as far as it can be told.
        whose: Whose,
        /// What kept the request from its server.
        cause: UnreachableCause,
        /// How long it asks us to stay away.
        retry_after: Option<Duration>,
    },
    /// The address may not be called.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no card.
    #[error("no agent card at {at}: {reason}")]
    CardNotFound {
        /// Where we looked.
        at: String,
        /// What was there.
        reason: String,
    },
    /// A document is said to be elsewhere, where we were not sent by the caller.
    #[error("{at} redirects to {to}")]
    Elsewhere {
        /// Where we looked.
        at: String,
        /// Where it leads.
        to: String,
    },
    /// The card is shown to some only.
    #[error("the agent card at {at} is not public: HTTP {status}")]
    CardForbidden {
        /// Where we looked.
        at: String,
        /// 401 or 403.
        status: u16,
    },
    /// There is something, and it is not a card.
    #[error("{at} is not a valid agent card: {reason}")]
    CardInvalid {
        /// Where it is.
        at: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody we believe vouches for the card.
    #[error("the agent card at {at} cannot be trusted: {reason}")]
    CardUntrusted {
        /// Where it is.
        at: String,
        /// Why not.
        reason: Box<crate::signature::Distrust>,
    },
    /// The card offers nothing that we speak.
    #[error("the card offers no interface that can be used: {}", if offered.is_empty() { "it lists none".into() } else { offered.join(", ") })]
    NoInterface {
        /// What it offers.
        offered: Vec<String>,
    },
    /// The card asks for credentials that we do not have.
    #[error("the agent asks for credentials: {}", wanted.join(" or "))]
    CredentialsMissing {
        /// The ways in, as the card has them.
        wanted: Vec<String>,
        /// What the transport said, if it was asked.
        transport: Option<TransportCode>,
    },
    /// Our credentials were not accepted.
    #[error("the agent did not accept the credentials: {reason}")]
    AuthFailed {
        /// What it said.
        reason: String,
        /// What the transport said.
        transport: Option<TransportCode>,
    },
    /// It took too long.
    #[error("{what} took longer than {after:?}")]
    Timeout {
        /// What did.
        what: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// The agent said no, or we know from its card that it would.
    #[error("{fault}")]
    Fault {
        /// Why.
        fault: Fault,
        /// How the transport put it; `None` when nothing was sent.
        transport: Option<TransportCode>,
        /// How long it asks us to stay away.
        retry_after: Option<Duration>,
    },
    /// A stream ended before its task did, and could not be taken up again.
    #[error("the stream ended early: {reason}")]
    StreamLost {
        /// Whose.
        task: Option<TaskRef>,
        /// What happened.
        reason: String,
    },
    /// There was no room for its answer beside those of others. The request has arrived.
    #[error("more is on its way from agents than there is room for")]
    Crowded,
    /// More than we take.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What is.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
}

impl Error {
    /// A fault that we find by ourselves, before anything is sent.
    pub(crate) const fn local(fault: Fault) -> Self {
        Self::Fault { fault, transport: None, retry_after: None }
    }

    /// Nobody is there.
    pub(crate) fn nobody(host: &str, reason: impl Into<String>, safe: bool) -> Self {
        let (host, reason, whose, cause) = (host.into(), reason.into(), Whose::Unknown, UnreachableCause::Other);
        Self::Unreachable { host, reason, safe, whose, cause, retry_after: None }
    }

    /// The same with what kept the request from its server.
    #[must_use]
    pub(crate) fn caused_by(mut self, known: UnreachableCause) -> Self {
        if let Self::Unreachable { cause, .. } = &mut self {
            *cause = known;
        }
        self
    }

    /// The same, going by what the system said.
    #[must_use]
    pub(crate) fn because(mut self, said: Whose) -> Self {
        if let Self::Unreachable { whose, .. } = &mut self {
            *whose = said;
        }
        self
    }

    /// How long the other side asks us to stay away.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Fault { retry_after, .. } | Self::Unreachable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request may be sent again although it may change something: it cannot have arrived.
    pub const fn cannot_have_arrived(&self) -> bool {
        matches!(self, Self::Unreachable { safe: true, .. })
    }

    /// Whether a request that changes nothing is worth repeating.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::StreamLost { .. } | Self::Timeout { .. } | Self::Crowded => true,
            Self::Fault { fault, .. } => {
                matches!(fault.code(), sabir_proto::Code::Unavailable | sabir_proto::Code::Exhausted)
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
