//! Faults as gRPC statuses, and back: the code of the table in [`crate::codes`], and the details as
//! `google.rpc.Status`.
//!
//! A client finds the code of an error by the reason in its details. Without a reason, some servers begin the text with
//! the name of the error. The status code decides last: several errors share one, and 1.0.0 and 1.0.1 disagree about
//! three of them.

use crate::codes::{self, ErrorDetail, GrpcStatus, find_code, numbers};
use crate::pb::google_rpc::{BadRequest, ErrorInfo, Status, bad_request::FieldViolation};
use crate::v1::http::TEXT_BYTES_MAX;
use prost::Message as _;
use prost_types::Any;
use sabir_proto::{Fault, FaultCode, TaskRef};
use std::collections::BTreeMap;

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// A status is sent in trailers, and many peers take no more than 8 KiB of them: the text twice (once escaped, which
/// may triple it) and the details once (in base64, a third longer). A fault may quote a request, so it is cut.
mod limits {
    /// The bytes of the text.
    pub(super) const TEXT_BYTES_MAX: usize = 512;
    /// The bytes of each string in a detail.
    pub(super) const DETAIL_BYTES_MAX: usize = 256;
    /// The number of wrong fields that are named.
    pub(super) const VIOLATIONS_MAX: usize = 8;
}

/// The gRPC status of a fault.
pub fn status(fault: &Fault) -> tonic::Status {
    status_as(codes::numbers(fault.code()).grpc, &fault.to_string(), fault)
}

/// The gRPC status of a fault, with a code and a text of another dialect. Both stand in the details too: the Python
/// library for rich errors refuses details that differ from the status around them.
pub(crate) fn status_as(code: GrpcStatus, text: &str, fault: &Fault) -> tonic::Status {
    let code = code.number();
    let message = cut(text, limits::TEXT_BYTES_MAX);
    let details = codes::details(fault).iter().map(detail).collect();
    let details = Status { code, message: message.clone(), details }.encode_to_vec();
    tonic::Status::with_details(tonic::Code::from_i32(code), message, details.into())
}

/// Reads the status of a call that failed.
pub fn read_status(status: &tonic::Status) -> Fault {
    read_status_as(status, |status| codes::by_status(status).1)
}

/// Reads the status of a call that failed; `by_status` has the meaning of status codes in another dialect.
pub(crate) fn read_status_as(status: &tonic::Status, by_status: impl Fn(tonic::Code) -> FaultCode) -> Fault {
    let info = error_info(status.details());
    let by_reason = info.as_ref().and_then(|info| find_code(|code| numbers(code).reason, &info.reason));
    let task = info.and_then(|info| TaskRef::parse(info.metadata.get("taskId")?).ok());
    let (by_class, words) = match status.message().split_once(": ") {
        Some((class, words)) if let Some(code) = find_code(codes::name, class) => (Some(code), words),
        _ => (None, status.message()),
    };
    let code = by_reason.or(by_class).unwrap_or_else(|| by_status(status.code()));
    let message = match words {
        "" => format!("the agent answered with gRPC status {}", codes::by_status(status.code()).0),
        words => words[..words.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
    };
    Fault::Peer { code, message, task }
}

/// The first `ErrorInfo` of A2A. A reason of another domain is not ours to interpret.
fn error_info(details: &[u8]) -> Option<ErrorInfo> {
    let infos = Status::decode(details).ok()?.details.into_iter().filter(|detail| detail.type_url == ERROR_INFO);
    infos
        .filter_map(|detail| ErrorInfo::decode(&*detail.value).ok())
        .find(|info| matches!(&*info.domain, "" | codes::DOMAIN))
}

fn detail(detail: &ErrorDetail<'_>) -> Any {
    let short = |text: &str| cut(text, limits::DETAIL_BYTES_MAX);
    match detail {
        ErrorDetail::ErrorInfo { reason, domain, metadata } => {
            let metadata: BTreeMap<_, _> = metadata.members().map(|(n, value)| (n.to_owned(), short(value))).collect();
            let info = ErrorInfo { reason: (*reason).to_owned(), domain: (*domain).to_owned(), metadata };
            any(ERROR_INFO, &info)
        }
        ErrorDetail::BadRequest { field_violations } => {
            let field_violations = field_violations
                .iter()
                .take(limits::VIOLATIONS_MAX)
                .map(|v| FieldViolation { field: short(v.field), description: short(v.description) })
                .collect();
            any("type.googleapis.com/google.rpc.BadRequest", &BadRequest { field_violations })
        }
    }
}

fn any(type_url: &str, message: &impl prost::Message) -> Any {
    Any { type_url: type_url.to_owned(), value: message.encode_to_vec() }
}

fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mark = '…';
    format!("{}{mark}", &text[..text.floor_char_boundary(bytes_max - mark.len_utf8())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::FieldViolation as Wrong;

    fn read(fault: &Fault) -> (tonic::Status, Status, ErrorInfo) {
        let status = status(fault);
        let details = Status::decode(status.details()).unwrap();
        let info = &details.details[0];
        assert_eq!(info.type_url, ERROR_INFO);
        let info = ErrorInfo::decode(&*info.value).unwrap();
        (status, details, info)
    }

    #[test]
    fn a_status_carries_code_text_and_reason_twice_over() {
        let fault = Fault::TaskNotFound(TaskRef::parse("t-1").unwrap());
        let (status, details, info) = read(&fault);
        assert_eq!((status.code(), status.message()), (tonic::Code::NotFound, "task t-1 not found"));
        assert_eq!((details.code, &*details.message, details.details.len()), (5, "task t-1 not found", 1));
        assert_eq!((&*info.reason, &*info.domain), ("TASK_NOT_FOUND", "a2a-protocol.org"));
        assert_eq!(info.metadata, BTreeMap::from([("taskId".into(), "t-1".into())]));

        let (status, _, info) = read(&Fault::ExtensionSupportRequired("urn:x".into()));
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(info.metadata, BTreeMap::from([("extension".into(), "urn:x".into())]));
    }

    #[test]
    fn wrong_fields_are_named() {
        let (status, details, info) = read(&Fault::invalid("message.parts[2]", "has no content"));
        assert_eq!((status.code(), &*info.reason), (tonic::Code::InvalidArgument, "INVALID_PARAMS"));
        assert_eq!(details.details[1].type_url, "type.googleapis.com/google.rpc.BadRequest");
        let bad = BadRequest::decode(&*details.details[1].value).unwrap();
        let expected = FieldViolation { field: "message.parts[2]".into(), description: "has no content".into() };
        assert_eq!(bad.field_violations, [expected]);
    }

    #[test]
    fn whatever_a_fault_quotes_its_status_fits_into_trailers() {
        let long = "é".repeat(100_000);
        let violation = Wrong { field: long.clone(), description: long.clone() };
        for fault in [
            Fault::InvalidParams(vec![violation; 1000]),
            Fault::ExtensionSupportRequired(long.clone()),
            Fault::UnsupportedOperation(long),
        ] {
            let status = status(&fault);
            let bytes = status.message().len() * 3 + status.details().len() * 4 / 3;
            assert!(bytes < 8 * 1024, "{bytes} bytes");
            assert!(status.message().ends_with('…'));
        }
    }

    #[test]
    fn what_we_write_we_read() {
        for code in FaultCode::ALL {
            let fault = Fault::Peer { code, message: "it: went wrong".into(), task: TaskRef::parse("t").ok() };
            assert_eq!(read_status(&status(&fault)), fault);
            assert_eq!(read_status(&status_as(GrpcStatus::Internal, "it: went wrong", &fault)), fault, "by the reason");
        }
    }

    #[test]
    fn without_details_the_words_decide_and_then_the_code() {
        use tonic::Code::{
            Cancelled, FailedPrecondition, NotFound, PermissionDenied, Unavailable, Unimplemented, Unknown,
        };
        for (status, words, code, message) in [
            (Unimplemented, "TaskNotCancelableError: it is done", FaultCode::TaskNotCancelable, "it is done"),
            (NotFound, "no task: x", FaultCode::TaskNotFound, "no task: x"),
            (FailedPrecondition, "no", FaultCode::UnsupportedOperation, "no"),
            (Unimplemented, "", FaultCode::UnsupportedOperation, "the agent answered with gRPC status UNIMPLEMENTED"),
            (PermissionDenied, "no", FaultCode::Forbidden, "no"),
            (Unavailable, "tcp connect error", FaultCode::Unavailable, "tcp connect error"),
            (Cancelled, "gone", FaultCode::Unavailable, "gone"),
            (Unknown, "Unexpected <class 'X'>: y", FaultCode::Internal, "Unexpected <class 'X'>: y"),
        ] {
            let read = read_status(&tonic::Status::new(status, words));
            assert_eq!(read, Fault::Peer { code, message: message.into(), task: None });
        }
    }

    #[test]
    fn a_reason_of_another_domain_says_nothing() {
        let info = |domain: &str| {
            let info = ErrorInfo { reason: "TASK_NOT_FOUND".into(), domain: domain.into(), metadata: BTreeMap::new() };
            any(ERROR_INFO, &info)
        };
        for (details, code) in [
            (vec![info("example.org")], FaultCode::Internal),
            (vec![info("example.org"), info("a2a-protocol.org")], FaultCode::TaskNotFound),
            (vec![Any { type_url: ERROR_INFO.into(), value: vec![0xFF] }], FaultCode::Internal),
        ] {
            let details = Status { code: 13, message: "m".into(), details }.encode_to_vec();
            let status = tonic::Status::with_details(tonic::Code::Internal, "m", details.into());
            assert_eq!(read_status(&status).code(), code);
        }
        let damaged = tonic::Status::with_details(tonic::Code::NotFound, "m", vec![0xFF].into());
        assert_eq!(read_status(&damaged).code(), FaultCode::TaskNotFound);
    }

    #[test]
    fn every_code_of_the_table_is_known_to_tonic() {
        for code in FaultCode::ALL {
            let number = numbers(code).grpc.number();
            assert_ne!(tonic::Code::from_i32(number), tonic::Code::Unknown, "{code:?}");
        }
    }
}
