//! Every error with its numbers: one table, all columns.

use sabir_proto::{Code, Fault};
use serde::Serialize;

/// The `domain` of every A2A error detail.
pub const DOMAIN: &str = "a2a-protocol.org";

/// What a code is called in each binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// JSON-RPC `error.code`.
    pub json_rpc: i32,
    /// HTTP status of the HTTP+JSON binding.
    pub http: u16,
    /// gRPC status.
    pub grpc: Grpc,
    /// `ErrorInfo.reason`.
    pub reason: &'static str,
}

/// The gRPC statuses we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are gRPC's own")]
pub enum Grpc {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
}

impl Grpc {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        match self {
            Self::InvalidArgument => 3,
            Self::NotFound => 5,
            Self::AlreadyExists => 6,
            Self::ResourceExhausted => 8,
            Self::FailedPrecondition => 9,
            Self::Unimplemented => 12,
            Self::Internal => 13,
            Self::Unavailable => 14,
        }
    }

    /// The name, which HTTP+JSON errors carry as `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
        }
    }
}

/// The table, for A2A 1.0.1 (§5.4; 1.0.0 differs in six rows).
pub const fn numbers(code: Code) -> Numbers {
    use Grpc::{
        AlreadyExists, FailedPrecondition, Internal, InvalidArgument, NotFound, ResourceExhausted, Unavailable,
        Unimplemented,
    };
    const fn row(json_rpc: i32, http: u16, grpc: Grpc, reason: &'static str) -> Numbers {
        Numbers { json_rpc, http, grpc, reason }
    }
    match code {
        Code::TaskNotFound => row(-32001, 404, NotFound, "TASK_NOT_FOUND"),
        Code::TaskNotCancelable => row(-32002, 400, FailedPrecondition, "TASK_NOT_CANCELABLE"),
        Code::PushNotificationNotSupported => row(-32003, 400, FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        Code::UnsupportedOperation => row(-32004, 400, FailedPrecondition, "UNSUPPORTED_OPERATION"),
        Code::ContentTypeNotSupported => row(-32005, 400, InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"),
        Code::InvalidAgentResponse => row(-32006, 500, Internal, "INVALID_AGENT_RESPONSE"),
        Code::ExtendedAgentCardNotConfigured => {
            row(-32007, 400, FailedPrecondition, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        }
        Code::ExtensionSupportRequired => row(-32008, 400, FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"),
        Code::VersionNotSupported => row(-32009, 400, FailedPrecondition, "VERSION_NOT_SUPPORTED"),
        Code::ParseError => row(-32700, 400, InvalidArgument, "PARSE_ERROR"),
        Code::InvalidRequest => row(-32600, 400, InvalidArgument, "INVALID_REQUEST"),
        Code::MethodNotFound => row(-32601, 404, Unimplemented, "METHOD_NOT_FOUND"),
        Code::InvalidParams => row(-32602, 400, InvalidArgument, "INVALID_PARAMS"),
        Code::Internal => row(-32603, 500, Internal, "INTERNAL_ERROR"),
        // The specification names neither; a retry key that means something else is the caller's mistake.
        Code::Conflict => row(-32602, 409, AlreadyExists, "IDEMPOTENCY_CONFLICT"),
        Code::Unavailable => row(-32603, 503, Unavailable, "UNAVAILABLE"),
        Code::Exhausted => row(-32603, 429, ResourceExhausted, "RESOURCE_EXHAUSTED"),
    }
}

/// `google.rpc` details as JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "@type")]
pub enum Detail<'a> {
    /// What went wrong, for programs.
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo {
        /// The error's name.
        reason: &'static str,
        /// Whose name that is.
        domain: &'static str,
        /// What it is about.
        metadata: Metadata<'a>,
    },
    /// Which members are wrong.
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest", rename_all = "camelCase")]
    BadRequest {
        /// Each of them.
        field_violations: Vec<Violation<'a>>,
    },
}

/// `ErrorInfo.metadata`: strings only.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// The task an error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The extension that is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<&'a str>,
}

/// One member that is wrong.
#[derive(Debug, Serialize)]
pub struct Violation<'a> {
    /// Its path.
    pub field: &'a str,
    /// What is wrong with it.
    pub description: &'a str,
}

/// The details of a fault: always an `ErrorInfo`, and a `BadRequest` where members are named.
pub fn details(fault: &Fault) -> Vec<Detail<'_>> {
    let extension = match fault {
        Fault::ExtensionSupportRequired(uri) => Some(&**uri),
        _ => None,
    };
    let metadata = Metadata { task_id: fault.task().map(ToString::to_string), extension };
    let mut details = vec![Detail::ErrorInfo { reason: numbers(fault.code()).reason, domain: DOMAIN, metadata }];
    if let Fault::InvalidParams(violations) = fault {
        let field_violations =
            violations.iter().map(|v| Violation { field: &v.field, description: &v.description }).collect();
        details.push(Detail::BadRequest { field_violations });
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn reasons_are_unique_and_a2a_errors_lie_in_their_range() {
        let reasons: HashSet<_> = Code::ALL.iter().map(|c| numbers(*c).reason).collect();
        assert_eq!(reasons.len(), Code::ALL.len());
        let own = Code::ALL.iter().filter(|c| (-32099..=-32001).contains(&numbers(**c).json_rpc)).count();
        assert_eq!(own, 9);
    }
}
