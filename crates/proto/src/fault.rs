//! The waist, outward, when it did not work: every way a call can fail.

use crate::{TaskRef, TaskState, Transfer};
use std::fmt;

/// What kind of failure it is. Dialects turn it into their own numbers; `wire` has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the specification's own, without the suffix Error")]
pub enum Code {
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    VersionNotSupported,
    ParseError,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    Conflict,
    Unavailable,
    Exhausted,
    Unauthenticated,
    Forbidden,
    TooMany,
    Closed,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 21] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::InvalidAgentResponse,
        Self::ExtendedAgentCardNotConfigured,
        Self::ExtensionSupportRequired,
        Self::VersionNotSupported,
        Self::ParseError,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::Conflict,
        Self::Unavailable,
        Self::Exhausted,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::TooMany,
        Self::Closed,
    ];

    /// Whether it is the door that refused, before anything was done.
    pub const fn is_at_the_door(self) -> bool {
        matches!(self, Self::Unauthenticated | Self::Forbidden | Self::TooMany | Self::Closed)
    }
}

/// One member of a request that is wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// The path, such as `message.parts[2].raw`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// Why a task is not taken from the agent that hands it over, or not delegated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfit {
    /// The word for programs.
    pub reason: &'static str,
    /// Why.
    pub words: String,
    /// What is needed.
    pub required: Vec<String>,
    /// What is allowed.
    pub allowed: Vec<String>,
    /// What is needed and not allowed.
    pub missing: Vec<String>,
}

/// Why a call was not served, in words a peer may read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Unknown, or another caller's: existence is information.
    #[error("task {0} not found")]
    TaskNotFound(TaskRef),
    /// Unknown configuration; the specification answers as for an unknown task.
    #[error("push notification config {config:.128} of task {task} not found")]
    PushConfigNotFound {
        /// The task.
        task: TaskRef,
        /// The configuration.
        config: String,
    },
    /// Cancelling what has settled.
    #[error("task {id} is {state} and cannot be canceled")]
    TaskNotCancelable {
        /// The task.
        id: TaskRef,
        /// Where it stands.
        state: TaskState,
    },
    /// The agent does not offer push notifications.
    #[error("this agent does not support push notifications")]
    PushNotificationNotSupported,
    /// Something this agent, or this state of a task, does not allow.
    #[error("{0}")]
    UnsupportedOperation(String),
    /// A message to a settled task.
    #[error("task {id} is {state} and takes no more messages; send a new message in the same context")]
    TaskSettled {
        /// The task.
        id: TaskRef,
        /// Where it stands.
        state: TaskState,
    },
    /// A message to a task that was handed over.
    #[error("task {id} was handed over to {}; send to task {} there", .transfer.agent_endpoint, .transfer.task_id)]
    TaskTransferred {
        /// The task.
        id: TaskRef,
        /// Where it went.
        transfer: Box<Transfer>,
    },
    /// A task that cannot be handed over as it was asked.
    #[error("{}", .0.words)]
    Handoff(Box<Unfit>),
    /// Subscribing to a settled task.
    #[error("task {id} is {state}; there is nothing left to subscribe to, get it instead")]
    NothingToSubscribe {
        /// The task.
        id: TaskRef,
        /// Where it stands.
        state: TaskState,
    },
    /// A part's media type the agent does not take.
    #[error("media type {0} is not supported by this agent")]
    ContentTypeNotSupported(String),
    /// The agent broke the rules.
    #[error("the agent answered with something that is not valid: {0}")]
    InvalidAgentResponse(String),
    /// The card promises an extended card that is not configured.
    #[error("the extended agent card is not configured")]
    ExtendedCardNotConfigured,
    /// A required extension the caller did not activate.
    #[error("this agent requires the extension {0}; list it in the A2A-Extensions header")]
    ExtensionSupportRequired(String),
    /// A version that is not spoken here.
    #[error("{0}")]
    VersionNotSupported(String),
    /// Not JSON.
    #[error("invalid JSON payload: {0}")]
    Parse(String),
    /// JSON, but not a request.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// No such method.
    #[error("method {0:?} not found")]
    MethodNotFound(String),
    /// A request with wrong members.
    #[error("invalid parameters: {}", Violations(.0))]
    InvalidParams(Vec<FieldViolation>),
    /// An explicit retry key that was used for something else.
    #[error("the idempotency key was already used for another message")]
    RetryConflict,
    /// The peer gets a reference to quote; the cause stays in our log.
    #[error("internal error, reference {0}")]
    Internal(String),
    /// Not now; trying again later may help.
    #[error("{0}")]
    Unavailable(String),
    /// Not now, and when: whoever stands behind is left alone, or has enough to do.
    #[error("{words}")]
    Shed {
        /// Why.
        words: String,
        /// When to try again, in seconds.
        retry_after: u64,
    },
    /// A named limit was reached.
    #[error("{0}")]
    Exhausted(String),
    /// The caller is not known well enough for this.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller is known, and may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// The caller came too often.
    #[error("{words}")]
    TooMany {
        /// Which limit it was.
        words: String,
        /// When it may come again, in seconds.
        retry_after: u64,
    },
    /// Nobody can be let in at present, because nobody can be recognised.
    #[error("{words}")]
    Closed {
        /// Why.
        words: String,
        /// When to try again, in seconds; none where only an operator can help.
        retry_after: Option<u64>,
    },
    /// The booking network said no.
    #[error(transparent)]
    Booking(Box<crate::agnt::Problem>),
    /// What another server said, in its own words.
    #[error("{message}")]
    Peer {
        /// What kind of failure it is.
        code: Code,
        /// Its words.
        message: String,
        /// The task it is about, where it says so.
        task: Option<TaskRef>,
    },
}

impl Fault {
    /// One wrong member.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::InvalidParams(vec![FieldViolation { field: field.into(), description: description.into() }])
    }

    /// What kind of failure it is.
    pub const fn code(&self) -> Code {
        match self {
            Self::TaskNotFound(_) | Self::PushConfigNotFound { .. } => Code::TaskNotFound,
            Self::TaskNotCancelable { .. } => Code::TaskNotCancelable,
            Self::PushNotificationNotSupported => Code::PushNotificationNotSupported,
            Self::UnsupportedOperation(_)
            | Self::TaskSettled { .. }
            | Self::TaskTransferred { .. }
            | Self::Handoff(_)
            | Self::NothingToSubscribe { .. } => Code::UnsupportedOperation,
            Self::ContentTypeNotSupported(_) => Code::ContentTypeNotSupported,
            Self::InvalidAgentResponse(_) => Code::InvalidAgentResponse,
            Self::ExtendedCardNotConfigured => Code::ExtendedAgentCardNotConfigured,
            Self::ExtensionSupportRequired(_) => Code::ExtensionSupportRequired,
            Self::VersionNotSupported(_) => Code::VersionNotSupported,
            Self::Parse(_) => Code::ParseError,
            Self::InvalidRequest(_) => Code::InvalidRequest,
            Self::MethodNotFound(_) => Code::MethodNotFound,
            Self::InvalidParams(_) => Code::InvalidParams,
            Self::RetryConflict | Self::Booking(_) => Code::Conflict,
            Self::Internal(_) => Code::Internal,
            Self::Unavailable(_) | Self::Shed { .. } => Code::Unavailable,
            Self::Exhausted(_) => Code::Exhausted,
            Self::Unauthenticated(_) => Code::Unauthenticated,
            Self::Forbidden(_) => Code::Forbidden,
            Self::TooMany { .. } => Code::TooMany,
            Self::Closed { .. } => Code::Closed,
            Self::Peer { code, .. } => *code,
        }
    }

    /// When it is worth trying again, in seconds, where that is known.
    pub const fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooMany { retry_after, .. } | Self::Shed { retry_after, .. } => Some(*retry_after),
            Self::Closed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The task a failure is about, for the `metadata` of error details.
    pub const fn task(&self) -> Option<&TaskRef> {
        match self {
            Self::TaskNotFound(id)
            | Self::PushConfigNotFound { task: id, .. }
            | Self::TaskNotCancelable { id, .. }
            | Self::TaskSettled { id, .. }
            | Self::TaskTransferred { id, .. }
            | Self::NothingToSubscribe { id, .. } => Some(id),
            Self::Peer { task, .. } => task.as_ref(),
            _ => None,
        }
    }
}

struct Violations<'a>(&'a [FieldViolation]);

impl fmt::Display for Violations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.0.iter().enumerate() {
            let joint = if i == 0 { "" } else { "; " };
            match &*violation.field {
                "" => write!(f, "{joint}{}", violation.description)?,
                field => write!(f, "{joint}{field}: {}", violation.description)?,
            }
        }
        Ok(())
    }
}
