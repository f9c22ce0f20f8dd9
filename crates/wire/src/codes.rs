//! The error table: each code with its number, status and reason in every binding and dialect.

use crate::{Dialect, jsonrpc};
use sabir_proto::{Fault, FaultCode};
use serde::Serialize;

/// The `domain` of every A2A error detail.
pub const DOMAIN: &str = "a2a-protocol.org";

/// The numbers and names of a code in each binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorNumbers {
    /// The `error.code` of JSON-RPC.
    pub json_rpc: i32,
    /// HTTP status of the HTTP+JSON binding.
    pub http: u16,
    /// The gRPC status of the code.
    pub grpc: GrpcStatus,
    /// The `reason` of `google.rpc.ErrorInfo`.
    pub reason: &'static str,
}

/// The gRPC statuses that we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are gRPC's own")]
pub enum GrpcStatus {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
    PermissionDenied,
}

impl GrpcStatus {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        match self {
            Self::InvalidArgument => 3,
            Self::NotFound => 5,
            Self::AlreadyExists => 6,
            Self::PermissionDenied => 7,
            Self::ResourceExhausted => 8,
            Self::FailedPrecondition => 9,
            Self::Unimplemented => 12,
            Self::Internal => 13,
            Self::Unavailable => 14,
            Self::Unauthenticated => 16,
        }
    }

    /// The name, which HTTP+JSON errors carry as `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

/// The error table, for A2A 1.0.1 (§5.4; 1.0.0 differs in six rows).
pub const fn numbers(code: FaultCode) -> ErrorNumbers {
    use GrpcStatus::{
        AlreadyExists, FailedPrecondition, Internal, InvalidArgument, NotFound, PermissionDenied, ResourceExhausted,
        Unauthenticated, Unavailable, Unimplemented,
    };
    const fn row(json_rpc: i32, http: u16, grpc: GrpcStatus, reason: &'static str) -> ErrorNumbers {
        ErrorNumbers { json_rpc, http, grpc, reason }
    }
    match code {
        FaultCode::TaskNotFound => row(-32001, 404, NotFound, "TASK_NOT_FOUND"),
        FaultCode::TaskNotCancelable => row(-32002, 400, FailedPrecondition, "TASK_NOT_CANCELABLE"),
        FaultCode::PushNotificationNotSupported => {
            row(-32003, 400, FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED")
        }
        FaultCode::UnsupportedOperation => row(-32004, 400, FailedPrecondition, "UNSUPPORTED_OPERATION"),
        FaultCode::ContentTypeNotSupported => row(-32005, 400, InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"),
        FaultCode::InvalidAgentResponse => row(-32006, 500, Internal, "INVALID_AGENT_RESPONSE"),
        FaultCode::ExtendedAgentCardNotConfigured => {
            row(-32007, 400, FailedPrecondition, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        }
        FaultCode::ExtensionSupportRequired => row(-32008, 400, FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"),
        FaultCode::VersionNotSupported => row(-32009, 400, FailedPrecondition, "VERSION_NOT_SUPPORTED"),
        FaultCode::ParseError => row(-32700, 400, InvalidArgument, "PARSE_ERROR"),
        FaultCode::InvalidRequest => row(-32600, 400, InvalidArgument, "INVALID_REQUEST"),
        FaultCode::MethodNotFound => row(-32601, 404, Unimplemented, "METHOD_NOT_FOUND"),
        FaultCode::InvalidParams => row(-32602, 400, InvalidArgument, "INVALID_PARAMS"),
        FaultCode::Internal => row(-32603, 500, Internal, "INTERNAL_ERROR"),
        // The specification has no such error. A retry key that was used with another request is the caller's mistake.
        FaultCode::Conflict => row(-32602, 409, AlreadyExists, "IDEMPOTENCY_CONFLICT"),
        FaultCode::Unavailable => row(-32603, 503, Unavailable, "UNAVAILABLE"),
        FaultCode::Exhausted => row(-32603, 429, ResourceExhausted, "RESOURCE_EXHAUSTED"),
        // The first number that JSON-RPC leaves to servers. XPR uses it for every request that is refused before it is
        // handled.
        FaultCode::Unauthenticated => row(-32000, 401, Unauthenticated, "UNAUTHENTICATED"),
        FaultCode::Forbidden => row(-32000, 403, PermissionDenied, "PERMISSION_DENIED"),
        FaultCode::RateLimited => row(-32000, 429, ResourceExhausted, "RATE_LIMITED"),
        FaultCode::AuthUnavailable => row(-32000, 503, Unavailable, "AUTHENTICATION_UNAVAILABLE"),
    }
}

/// The name of an error in the specification. It has names for the JSON-RPC errors too, and none for our own codes.
pub const fn name(code: FaultCode) -> &'static str {
    match code {
        FaultCode::TaskNotFound => "TaskNotFoundError",
        FaultCode::TaskNotCancelable => "TaskNotCancelableError",
        FaultCode::PushNotificationNotSupported => "PushNotificationNotSupportedError",
        FaultCode::UnsupportedOperation => "UnsupportedOperationError",
        FaultCode::ContentTypeNotSupported => "ContentTypeNotSupportedError",
        FaultCode::InvalidAgentResponse => "InvalidAgentResponseError",
        FaultCode::ExtendedAgentCardNotConfigured => "ExtendedAgentCardNotConfiguredError",
        FaultCode::ExtensionSupportRequired => "ExtensionSupportRequiredError",
        FaultCode::VersionNotSupported => "VersionNotSupportedError",
        FaultCode::ParseError => "JSONParseError",
        FaultCode::InvalidRequest => "InvalidRequestError",
        FaultCode::MethodNotFound => "MethodNotFoundError",
        FaultCode::InvalidParams | FaultCode::Conflict => "InvalidParamsError",
        FaultCode::Internal | FaultCode::Unavailable | FaultCode::Exhausted => "InternalError",
        FaultCode::Unauthenticated | FaultCode::Forbidden | FaultCode::RateLimited | FaultCode::AuthUnavailable => {
            "InternalError"
        }
    }
}

/// The first code whose name is the one that a server sent.
pub(crate) fn find_code(name_of: impl Fn(FaultCode) -> &'static str, told: &str) -> Option<FaultCode> {
    FaultCode::ALL.into_iter().find(|code| name_of(*code) == told)
}

/// The JSON-RPC number of a code in a dialect. The older dialects have fewer numbers, and agent-native and XPR have
/// their own.
pub const fn json_rpc(code: FaultCode, dialect: Dialect) -> i32 {
    let usual = numbers(code).json_rpc;
    match dialect {
        Dialect::V1 => usual,
        // A code that only 1.0 has a number for is an operation that is not supported.
        Dialect::V03 => match code {
            FaultCode::ExtensionSupportRequired | FaultCode::VersionNotSupported => -32004,
            _ => usual,
        },
        Dialect::V02 => match code {
            FaultCode::ExtensionSupportRequired
            | FaultCode::VersionNotSupported
            | FaultCode::ExtendedAgentCardNotConfigured => -32004,
            _ => usual,
        },
        // The prose of 0.1 gave -32006 and above other meanings than all later versions do.
        Dialect::V01 => match code {
            FaultCode::ExtensionSupportRequired
            | FaultCode::VersionNotSupported
            | FaultCode::ExtendedAgentCardNotConfigured => -32004,
            FaultCode::InvalidAgentResponse => -32603,
            _ => usual,
        },
        Dialect::Native => match code {
            FaultCode::TaskNotFound | FaultCode::TaskNotCancelable => usual,
            FaultCode::InvalidRequest
            | FaultCode::ParseError
            | FaultCode::MethodNotFound
            | FaultCode::InvalidParams => usual,
            FaultCode::UnsupportedOperation
            | FaultCode::PushNotificationNotSupported
            | FaultCode::VersionNotSupported => -32601,
            FaultCode::ExtendedAgentCardNotConfigured => -32601,
            FaultCode::ContentTypeNotSupported | FaultCode::Conflict | FaultCode::ExtensionSupportRequired => -32602,
            FaultCode::InvalidAgentResponse | FaultCode::Internal | FaultCode::Unavailable | FaultCode::Exhausted => {
                -32000
            }
            // The same number as for a missing task; clients of agent-native tell them apart by the text.
            FaultCode::Unauthenticated | FaultCode::Forbidden | FaultCode::RateLimited | FaultCode::AuthUnavailable => {
                -32001
            }
        },
        Dialect::Xpr => match code {
            FaultCode::TaskNotFound | FaultCode::TaskNotCancelable => usual,
            FaultCode::InvalidRequest
            | FaultCode::ParseError
            | FaultCode::MethodNotFound
            | FaultCode::InvalidParams => usual,
            FaultCode::PushNotificationNotSupported | FaultCode::VersionNotSupported => -32601,
            FaultCode::ExtendedAgentCardNotConfigured => -32601,
            FaultCode::ContentTypeNotSupported | FaultCode::Conflict | FaultCode::ExtensionSupportRequired => -32602,
            // XPR has all these methods; what is not supported is what the caller wants to do with this task.
            FaultCode::UnsupportedOperation => -32602,
            FaultCode::InvalidAgentResponse | FaultCode::Internal | FaultCode::Unavailable => -32603,
            // Rate limiting has the number of every request that is refused before it is handled.
            FaultCode::Exhausted
            | FaultCode::Unauthenticated
            | FaultCode::Forbidden
            | FaultCode::RateLimited
            | FaultCode::AuthUnavailable => -32000,
        },
    }
}

/// The gRPC status of a code in a dialect.
pub const fn grpc(code: FaultCode, dialect: Dialect) -> GrpcStatus {
    match (dialect, code) {
        // The SDKs of 0.3 send this status, and the JavaScript SDK recognises these errors by the status alone.
        (Dialect::V03, FaultCode::PushNotificationNotSupported | FaultCode::UnsupportedOperation) => {
            GrpcStatus::Unimplemented
        }
        (Dialect::V03, FaultCode::ExtensionSupportRequired | FaultCode::VersionNotSupported) => {
            grpc(FaultCode::UnsupportedOperation, dialect)
        }
        _ => numbers(code).grpc,
    }
}

/// Every gRPC status in the order of its numbers, and the code that it stands for by itself. Several errors share a
/// status, and 1.0.0 and 1.0.1 disagree about three; those stand for the most general code.
const STATUSES: [(&str, FaultCode); 17] = [
    ("OK", FaultCode::Internal),
    ("CANCELLED", FaultCode::Unavailable),
    ("UNKNOWN", FaultCode::Internal),
    ("INVALID_ARGUMENT", FaultCode::InvalidParams),
    ("DEADLINE_EXCEEDED", FaultCode::Unavailable),
    ("NOT_FOUND", FaultCode::TaskNotFound),
    ("ALREADY_EXISTS", FaultCode::Conflict),
    ("PERMISSION_DENIED", FaultCode::Forbidden),
    ("RESOURCE_EXHAUSTED", FaultCode::Exhausted),
    ("FAILED_PRECONDITION", FaultCode::UnsupportedOperation),
    ("ABORTED", FaultCode::Conflict),
    ("OUT_OF_RANGE", FaultCode::InvalidParams),
    ("UNIMPLEMENTED", FaultCode::UnsupportedOperation),
    ("INTERNAL", FaultCode::Internal),
    ("UNAVAILABLE", FaultCode::Unavailable),
    ("DATA_LOSS", FaultCode::Internal),
    ("UNAUTHENTICATED", FaultCode::Unauthenticated),
];

/// The name of a gRPC status and the code it stands for.
pub(crate) fn by_status(status: tonic::Code) -> (&'static str, FaultCode) {
    STATUSES[status as usize]
}

/// The code that the name of a gRPC status stands for; HTTP+JSON errors carry that name.
pub(crate) fn by_status_name(name: &str) -> Option<FaultCode> {
    STATUSES.into_iter().find(|(known, _)| *known == name).map(|(_, code)| code)
}

/// The code that a JSON-RPC number stands for in a dialect. An unknown number is an internal error of its server.
pub fn code_of(number: i32, dialect: Dialect) -> FaultCode {
    let usual = FaultCode::ALL.into_iter().find(|c| numbers(*c).json_rpc == number && json_rpc(*c, dialect) == number);
    let own = || FaultCode::ALL.into_iter().find(|c| json_rpc(*c, dialect) == number);
    match (dialect, number) {
        // Servers of agent-native send it for any exception of the handler.
        (Dialect::Native, -32000) => FaultCode::Internal,
        _ => usual.or_else(own).unwrap_or(FaultCode::Internal),
    }
}

/// Whether an error with this code names its task. 0.1 names it in every error. 0.3 and 0.2 name a missing task too: a
/// question about a task looks the same in all three dialects, so its error has to be right in each.
pub(crate) const fn names_task(dialect: Dialect, code: FaultCode) -> bool {
    match dialect {
        Dialect::V1 | Dialect::V01 => true,
        Dialect::V03 | Dialect::V02 => matches!(code, FaultCode::TaskNotFound),
        Dialect::Native | Dialect::Xpr => false,
    }
}

/// Writes an error of an older dialect: a number and words, and the task where `has_task` allows it.
pub(crate) fn write_older_error(dialect: Dialect, has_task: bool, id: Option<&str>, fault: &Fault, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct OlderErrorOut {
        code: i32,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<OlderErrorData>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct OlderErrorData {
        task_id: String,
    }
    let task = fault.task().filter(|_| has_task);
    let error = OlderErrorOut {
        code: json_rpc(fault.code(), dialect),
        message: error_message(dialect, fault),
        data: task.map(|task| OlderErrorData { task_id: task.to_string() }),
    };
    jsonrpc::open_error(id, out);
    serde_json::to_writer(&mut *out, &error).expect("strings and numbers serialise");
    out.push(b'}');
}

/// The text of an error: our own, except where clients of a dialect look for a fixed text.
fn error_message(dialect: Dialect, fault: &Fault) -> String {
    match (dialect, fault) {
        (Dialect::Xpr, Fault::TaskNotFound(task)) => format!("Task not found: {task}"),
        (Dialect::Xpr, Fault::TaskNotCancelable { state, .. }) => format!("Task already {state}"),
        (Dialect::Xpr, Fault::MethodNotFound(method)) => format!("Method not found: {method}"),
        (Dialect::Native | Dialect::V01 | Dialect::V02 | Dialect::V03, Fault::TaskNotFound(_)) => {
            "Task not found".into()
        }
        (Dialect::Native, Fault::InvalidRequest(problem)) => format!("Invalid JSON-RPC request: {problem}"),
        _ => fault.to_string(),
    }
}

/// A detail of `google.rpc`, as JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "@type")]
pub enum ErrorDetail<'a> {
    /// The reason of the error, for programs.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo {
        /// The reason of the table.
        reason: &'static str,
        /// The domain that defines the reason.
        domain: &'static str,
        /// What the error is about.
        metadata: ErrorMetadata<'a>,
    },
    /// The members of the request that are wrong.
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest", rename_all = "camelCase")]
    BadRequest {
        /// One entry for each wrong member.
        field_violations: Vec<Violation<'a>>,
    },
}

/// The `metadata` of `google.rpc.ErrorInfo`: strings only.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorMetadata<'a> {
    /// The task that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The extension that is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<&'a str>,
    /// The endpoint of the agent that took over the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_endpoint: Option<&'a str>,
    /// The id of the task at that agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_task_id: Option<String>,
    /// The id of the handoff, the same on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_id: Option<&'a str>,
    /// Why the task was not handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<&'a str>,
    /// The rights that the handoff needs and does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl<'a> ErrorMetadata<'a> {
    fn of(fault: &'a Fault) -> Self {
        let about = Self { task_id: fault.task().map(ToString::to_string), ..Self::default() };
        match fault {
            Fault::ExtensionSupportRequired(uri) => Self { extension: Some(uri), ..about },
            Fault::TaskTransferred { transfer, .. } => Self {
                agent_endpoint: Some(&transfer.agent_endpoint),
                transfer_task_id: Some(transfer.task_id.to_string()),
                transfer_id: Some(&*transfer.transfer_id).filter(|id| !id.is_empty()),
                ..about
            },
            Fault::Handoff(unfit) => {
                let missing = (!unfit.missing.is_empty()).then(|| unfit.missing.join(" "));
                Self { handoff: Some(unfit.reason), missing, ..about }
            }
            _ => about,
        }
    }

    /// Every member that is set, with its JSON name.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let members = [
            ("taskId", self.task_id.as_deref()),
            ("extension", self.extension),
            ("agentEndpoint", self.agent_endpoint),
            ("transferTaskId", self.transfer_task_id.as_deref()),
            ("transferId", self.transfer_id),
            ("handoff", self.handoff),
            ("missing", self.missing.as_deref()),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// One member of the request that is wrong.
#[derive(Debug, Serialize)]
pub struct Violation<'a> {
    /// The path of the member.
    pub field: &'a str,
    /// What is wrong with the member.
    pub description: &'a str,
}

/// The details of a fault: always an `ErrorInfo`, and a `BadRequest` if the fault names members.
pub fn details(fault: &Fault) -> Vec<ErrorDetail<'_>> {
    let metadata = ErrorMetadata::of(fault);
    let mut details = vec![ErrorDetail::ErrorInfo { reason: numbers(fault.code()).reason, domain: DOMAIN, metadata }];
    if let Fault::InvalidParams(violations) = fault {
        let field_violations =
            violations.iter().map(|v| Violation { field: &v.field, description: &v.description }).collect();
        details.push(ErrorDetail::BadRequest { field_violations });
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_status_is_known_by_its_number_and_its_name() {
        for (number, (name, code)) in (0..).zip(STATUSES) {
            let status = tonic::Code::from_i32(number);
            assert_eq!(by_status(status), (name, code));
            assert_eq!(by_status_name(name), Some(code));
        }
        for code in FaultCode::ALL {
            let grpc = numbers(code).grpc;
            assert_eq!(by_status(tonic::Code::from_i32(grpc.number())).0, grpc.name());
        }
    }

    #[test]
    fn reasons_are_unique_and_a2a_errors_lie_in_their_range() {
        let reasons: HashSet<_> = FaultCode::ALL.iter().map(|c| numbers(*c).reason).collect();
        assert_eq!(reasons.len(), FaultCode::ALL.len());
        let own = FaultCode::ALL.iter().filter(|c| (-32099..=-32001).contains(&numbers(**c).json_rpc)).count();
        assert_eq!(own, 9);
    }
}
