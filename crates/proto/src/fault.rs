//! Faults: every way in which a call can fail.

use crate::{Object, TaskRef, TaskState, Transfer};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// The kind of a failure. `wire` has the table that maps it to the numbers of each dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the specification's own, without the suffix Error")]
pub enum FaultCode {
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
    RateLimited,
    AuthUnavailable,
}

impl FaultCode {
    /// Every code, in the order of declaration.
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
        Self::RateLimited,
        Self::AuthUnavailable,
    ];

    /// Whether authentication, authorization or a rate limit refused the call, before anything was done.
    pub const fn is_access_refusal(self) -> bool {
        matches!(self, Self::Unauthenticated | Self::Forbidden | Self::RateLimited | Self::AuthUnavailable)
    }
}

/// A member of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// The path, such as `message.parts[2].raw`.
    pub field: String,
    /// The fault of the member.
    pub description: String,
}

/// Why a handoff or a delegation is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HandoffRefusal {
    /// The short name for programs.
    pub reason: &'static str,
    /// The explanation for people.
    pub words: String,
    /// The capabilities that the task needs.
    pub required: Vec<String>,
    /// The capabilities that are allowed.
    pub allowed: Vec<String>,
    /// The capabilities that are needed and not allowed.
    pub missing: Vec<String>,
}

/// Why a call failed, in words that the caller may read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The task is unknown, or belongs to another caller: the caller must not learn that it exists.
    #[error("task {0} not found")]
    TaskNotFound(TaskRef),
    /// The configuration is unknown; the specification answers as for an unknown task.
    #[error("push notification config {config:.128} of task {task} not found")]
    PushConfigNotFound {
        /// The task of the request.
        task: TaskRef,
        /// The id of the configuration.
        config: String,
    },
    /// The caller cancels a settled task.
    #[error("task {id} is {state} and cannot be canceled")]
    TaskNotCancelable {
        /// The task of the request.
        id: TaskRef,
        /// The state of the task.
        state: TaskState,
    },
    /// The agent does not offer push notifications.
    #[error("this agent does not support push notifications")]
    PushNotificationNotSupported,
    /// The operation is not allowed for this agent or in this state of the task.
    #[error("{0}")]
    UnsupportedOperation(String),
    /// The caller sends a message to a settled task.
    #[error("task {id} is {state} and takes no more messages; send a new message in the same context")]
    TaskSettled {
        /// The task of the request.
        id: TaskRef,
        /// The state of the task.
        state: TaskState,
    },
    /// The caller sends a message to a task that was handed over.
    #[error("task {id} was handed over to {}; send to task {} there", .transfer.agent_endpoint, .transfer.task_id)]
    TaskTransferred {
        /// The task of the request.
        id: TaskRef,
        /// Where the task went.
        transfer: Box<Transfer>,
    },
    /// The task cannot be handed over as requested.
    #[error("{}", .0.words)]
    Handoff(Box<HandoffRefusal>),
    /// The caller subscribes to a settled task.
    #[error("task {id} is {state}; there is nothing left to subscribe to, get it instead")]
    NothingToSubscribe {
        /// The task of the request.
        id: TaskRef,
        /// The state of the task.
        state: TaskState,
    },
    /// The agent does not accept the media type of a part.
    #[error("media type {0} is not supported by this agent")]
    ContentTypeNotSupported(String),
    /// The agent violated the protocol.
    #[error("the agent answered with something that is not valid: {0}")]
    InvalidAgentResponse(String),
    /// The card promises an extended card that is not configured.
    #[error("the extended agent card is not configured")]
    ExtendedCardNotConfigured,
    /// The caller did not activate a required extension.
    #[error("this agent requires the extension {0}; list it in the A2A-Extensions header")]
    ExtensionSupportRequired(String),
    /// The server does not speak this version.
    #[error("{0}")]
    VersionNotSupported(String),
    /// The body is not JSON.
    #[error("invalid JSON payload: {0}")]
    Parse(String),
    /// The body is JSON, but not a request.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The method does not exist.
    #[error("method {0:?} not found")]
    MethodNotFound(String),
    /// Members of the request are wrong.
    #[error("invalid parameters: {}", Violations(.0))]
    InvalidParams(Vec<FieldViolation>),
    /// The caller used this explicit retry key for another message before.
    #[error("the idempotency key was already used for another message")]
    RetryConflict,
    /// The caller gets a reference to quote; the cause is in the server's log.
    #[error("internal error, reference {0}")]
    Internal(String),
    /// The call cannot be served now; a later attempt may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The call is shed: the circuit breaker is open, or the agent has enough work.
    #[error("{words}")]
    Shed {
        /// The reason of the refusal.
        words: String,
        /// When the caller may try again, in seconds.
        retry_after: u64,
    },
    /// A named limit is reached.
    #[error("{0}")]
    Exhausted(String),
    /// The caller is not authenticated well enough for this.
    #[error("{0}")]
    Unauthenticated(String),
    /// The caller is authenticated, and is not allowed to do this.
    #[error("{0}")]
    Forbidden(String),
    /// The caller exceeds a rate limit.
    #[error("{words}")]
    RateLimited {
        /// Names the limit.
        words: String,
        /// When the caller may try again, in seconds.
        retry_after: u64,
    },
    /// The server cannot authenticate any caller at present.
    #[error("{words}")]
    AuthUnavailable {
        /// The reason of the refusal.
        words: String,
        /// When to try again, in seconds; `None` if only an operator can help.
        retry_after: Option<u64>,
    },
    /// A rule that A2A does not know refused, such as one of an agent's own protocol.
    #[error(transparent)]
    Refused(Box<NamedRefusal>),
    /// Another server failed the call; its own words.
    #[error("{message}")]
    Peer {
        /// The kind of the failure.
        code: FaultCode,
        /// The message of the other server.
        message: String,
        /// The task that the failure is about, if the server names one.
        task: Option<TaskRef>,
    },
}

impl Fault {
    /// A fault about one wrong member.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::InvalidParams(vec![FieldViolation { field: field.into(), description: description.into() }])
    }

    /// The code of this fault.
    pub const fn code(&self) -> FaultCode {
        match self {
            Self::TaskNotFound(_) | Self::PushConfigNotFound { .. } => FaultCode::TaskNotFound,
            Self::TaskNotCancelable { .. } => FaultCode::TaskNotCancelable,
            Self::PushNotificationNotSupported => FaultCode::PushNotificationNotSupported,
            Self::UnsupportedOperation(_)
            | Self::TaskSettled { .. }
            | Self::TaskTransferred { .. }
            | Self::Handoff(_)
            | Self::NothingToSubscribe { .. } => FaultCode::UnsupportedOperation,
            Self::ContentTypeNotSupported(_) => FaultCode::ContentTypeNotSupported,
            Self::InvalidAgentResponse(_) => FaultCode::InvalidAgentResponse,
            Self::ExtendedCardNotConfigured => FaultCode::ExtendedAgentCardNotConfigured,
            Self::ExtensionSupportRequired(_) => FaultCode::ExtensionSupportRequired,
            Self::VersionNotSupported(_) => FaultCode::VersionNotSupported,
            Self::Parse(_) => FaultCode::ParseError,
            Self::InvalidRequest(_) => FaultCode::InvalidRequest,
            Self::MethodNotFound(_) => FaultCode::MethodNotFound,
            Self::InvalidParams(_) => FaultCode::InvalidParams,
            Self::RetryConflict | Self::Refused(_) => FaultCode::Conflict,
            Self::Internal(_) => FaultCode::Internal,
            Self::Unavailable(_) | Self::Shed { .. } => FaultCode::Unavailable,
            Self::Exhausted(_) => FaultCode::Exhausted,
            Self::Unauthenticated(_) => FaultCode::Unauthenticated,
            Self::Forbidden(_) => FaultCode::Forbidden,
            Self::RateLimited { .. } => FaultCode::RateLimited,
            Self::AuthUnavailable { .. } => FaultCode::AuthUnavailable,
            Self::Peer { code, .. } => *code,
        }
    }

    /// The delay before another attempt, in seconds, if it is known.
    pub const fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Shed { retry_after, .. } => Some(*retry_after),
            Self::AuthUnavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The task that a fault is about, for the `metadata` of error details.
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

/// A refusal by a rule that A2A does not know. Code that knows the rule finds it by its name; other code shows the
/// message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NamedRefusal {
    /// The name of the reason, for programs.
    pub reason: Cow<'static, str>,
    /// What happened, and what to do about it.
    pub message: String,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Further details for programs, if there are any.
    pub details: Option<Object>,
}

impl NamedRefusal {
    /// A refusal with a reason and a message only.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason: Cow::Borrowed(reason), message: message.into(), retry_after: None, details: None }
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
