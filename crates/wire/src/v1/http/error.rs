//! Errors over HTTP: the one body that 1.0 writes, and the bodies that other servers send in its place.
//!
//! A client finds the code of an error by the most specific thing in it: the reason in the details, then a JSON-RPC
//! number, then a name, and only then the HTTP status. The status alone is unsafe: several errors share one, and 1.0.0
//! and 1.0.1 disagree about six of them. A status without an A2A error may come from a proxy.

use crate::codes::{self, ErrorDetail, by_status_name, find_code, numbers};
use sabir_proto::{Fault, FaultCode, TaskRef};
use serde::{Deserialize, Serialize};

/// Longest text of a peer that is passed on, in bytes. It goes into replies and logs, and a server may send a whole
/// page.
pub(crate) const TEXT_BYTES_MAX: usize = 2048;

/// The types of errors in the form of RFC 9457, which early examples of 1.0 showed: `…/task-not-found`.
const PROBLEMS: &str = "https://a2a-protocol.org/errors/";

/// The package of the SDK for Java, whose class names are those of the specification.
pub(crate) const JAVA_PACKAGE: &str = "io.a2a.spec.";

/// Writes an error body and returns the HTTP status for it.
pub fn write_error(fault: &Fault, out: &mut Vec<u8>) -> u16 {
    let status = numbers(fault.code()).http;
    write_error_as(status, fault, out);
    status
}

/// Writes an error body with another HTTP status than that of the fault.
pub fn write_error_as(code: u16, fault: &Fault, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct ErrorBodyOut<'a> {
        error: HttpErrorOut<'a>,
    }
    #[derive(Serialize)]
    struct HttpErrorOut<'a> {
        code: u16,
        status: &'static str,
        message: String,
        details: Vec<ErrorDetail<'a>>,
    }
    let status = numbers(fault.code()).grpc.name();
    let error = HttpErrorOut { code, status, message: fault.to_string(), details: codes::details(fault) };
    serde_json::to_writer(out, &ErrorBodyOut { error }).expect("strings and numbers serialise");
}

/// Reads the response to a call that failed, with any body.
pub fn read_error(status: u16, body: &[u8]) -> Fault {
    let told = PeerError::read(body);
    let code = told.code.unwrap_or_else(|| by_status(status, &told));
    told.into_http_fault(status, code)
}

/// Reads an error from the body of a successful response. `None` if the body does not name a code.
pub(crate) fn read_refusal(body: &[u8]) -> Option<Fault> {
    let told = PeerError::read(body);
    let code = told.code?;
    Some(told.into_fault(code, "the agent answered with an error"))
}

/// Reads the error in a frame of a stream that is not an event. `None` if it is not an error either.
pub(crate) fn read_stream_error(data: &[u8]) -> Option<Fault> {
    let told = PeerError::read(data);
    let code = told.code.or_else(|| told.status.as_deref().and_then(by_status_name));
    let is_error = code.is_some() || told.message.is_some();
    is_error.then(|| told.into_fault(code.unwrap_or(FaultCode::Internal), "the agent ended the stream with an error"))
}

/// The code for an HTTP status if the body does not tell it: that of 1.0.0 where 1.0.1 gave the status up, and the most
/// general of several.
fn by_status(status: u16, told: &PeerError) -> FaultCode {
    // For an internal error the HTTP status says more than the name.
    let by_name = told.status.as_deref().and_then(by_status_name).filter(|code| *code != FaultCode::Internal);
    match status {
        401 => FaultCode::Unauthenticated,
        403 => FaultCode::Forbidden,
        409 if by_name != Some(FaultCode::Conflict) => FaultCode::TaskNotCancelable,
        415 => FaultCode::ContentTypeNotSupported,
        429 => FaultCode::Exhausted,
        502 if told.status.is_some() => FaultCode::InvalidAgentResponse,
        _ => by_name.unwrap_or(match status {
            400 | 422 => FaultCode::InvalidParams,
            // For a missing task the agent would send an error body. This is a missing path.
            404 | 405 => FaultCode::MethodNotFound,
            408 | 502..=504 => FaultCode::Unavailable,
            400..=499 => FaultCode::InvalidRequest,
            501 => FaultCode::UnsupportedOperation,
            500..=599 => FaultCode::Internal,
            _ => FaultCode::InvalidAgentResponse,
        }),
    }
}

/// The contents of an error body.
#[derive(Default)]
pub(crate) struct PeerError {
    /// The code, if the body names it by other means than the HTTP status.
    pub(crate) code: Option<FaultCode>,
    /// The text of the error.
    pub(crate) message: Option<String>,
    /// The name of a gRPC status.
    status: Option<String>,
    task: Option<TaskRef>,
}

impl PeerError {
    /// Reads a body. One that is no error gives the default.
    pub(crate) fn read(body: &[u8]) -> Self {
        let body: ErrorBodyIn = serde_json::from_slice(body).unwrap_or_default();
        let (error, java_class) = match body.error {
            Some(ErrorMember::Object(error)) => (*error, None),
            Some(ErrorMember::Class(class)) => (HttpErrorIn::default(), Some(class)),
            None => (HttpErrorIn::default(), None),
        };
        let details = error.details.unwrap_or_default();
        let detail = details.iter().find(|detail| detail.is_a2a() && detail.reason.is_some());
        let by_reason = detail.and_then(|detail| find_code(|code| numbers(code).reason, detail.reason.as_deref()?));
        let number = [body.code, error.code].into_iter().flatten().find(|number| *number < 0);
        let by_number = || FaultCode::ALL.into_iter().find(|code| Some(i64::from(numbers(*code).json_rpc)) == number);
        // The SDK for Java sends the class of its exception, with the package.
        let java_class = java_class.as_deref().and_then(|class| class.strip_prefix(JAVA_PACKAGE));
        let class = body.class.or_else(|| java_class.map(str::to_owned)).unwrap_or_default();
        let by_class = || find_code(codes::name, &class);
        let by_problem = class.strip_prefix(PROBLEMS).and_then(|problem| {
            find_code(|code| numbers(code).reason, &problem.replace('-', "_").to_ascii_uppercase())
        });
        let words = body.message.or(error.message).or(body.detail.filter(|_| by_problem.is_some()));
        let task = detail.and_then(|detail| detail.metadata.as_ref()?.task_id.as_deref());
        Self {
            code: by_reason.or_else(by_number).or_else(by_class).or(by_problem),
            message: words.filter(|words| !words.is_empty()),
            status: error.status,
            task: task.and_then(|id| TaskRef::parse(id).ok()),
        }
    }

    /// Converts to a fault with this code; the HTTP status replaces a missing text.
    pub(crate) fn into_http_fault(self, status: u16, code: FaultCode) -> Fault {
        self.into_fault(code, &format!("the agent answered with HTTP status {status}"))
    }

    fn into_fault(self, code: FaultCode, wordless: &str) -> Fault {
        let mut message = self.message.unwrap_or_else(|| wordless.to_owned());
        message.truncate(message.floor_char_boundary(TEXT_BYTES_MAX));
        Fault::Peer { code, message, task: self.task }
    }
}

/// All members that an error may have. A member of another type makes the whole body unreadable, and then the status
/// decides.
#[derive(Default, Deserialize)]
struct ErrorBodyIn {
    code: Option<i64>,
    #[serde(rename = "type")]
    class: Option<String>,
    message: Option<String>,
    detail: Option<String>,
    error: Option<ErrorMember>,
}

/// The error object of 1.0, or the name of a class: `io.a2a.spec.TaskNotFoundError`.
#[derive(Deserialize)]
#[serde(untagged)]
enum ErrorMember {
    Object(Box<HttpErrorIn>),
    Class(String),
}

#[derive(Default, Deserialize)]
struct HttpErrorIn {
    /// The HTTP status, or a JSON-RPC number where a server mixes the two bindings.
    code: Option<i64>,
    status: Option<String>,
    message: Option<String>,
    details: Option<Vec<ErrorInfoIn>>,
}

#[derive(Deserialize)]
struct ErrorInfoIn {
    reason: Option<String>,
    domain: Option<String>,
    metadata: Option<ErrorMetadataIn>,
}

impl ErrorInfoIn {
    /// Whether the reason is of A2A; one of another domain is not ours to interpret.
    fn is_a2a(&self) -> bool {
        self.domain.as_deref().is_none_or(|domain| domain == codes::DOMAIN)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorMetadataIn {
    #[serde(alias = "task_id")]
    task_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, code: FaultCode, message: &str) {
        let Fault::Peer { code: read, message: words, .. } = read_error(status, body.as_bytes()) else {
            panic!("of a peer")
        };
        assert_eq!((read, &*words), (code, message), "{status} {body}");
    }

    #[test]
    fn what_we_write_we_read() {
        for code in FaultCode::ALL {
            let fault = Fault::Peer { code, message: "words".into(), task: TaskRef::parse("t").ok() };
            let mut out = Vec::new();
            let status = write_error(&fault, &mut out);
            assert_eq!(read_error(status, &out), fault);
            assert_eq!(read_error(418, &out), fault, "the reason decides, not the status");
        }
    }

    #[test]
    fn the_statuses_of_both_releases_are_understood() {
        let error = |status: u16, name: &str| {
            format!(r#"{{"error":{{"code":{status},"status":"{name}","message":"m","details":[]}}}}"#)
        };
        for (status, name, code) in [
            (404, "NOT_FOUND", FaultCode::TaskNotFound),
            (409, "FAILED_PRECONDITION", FaultCode::TaskNotCancelable),
            (409, "ALREADY_EXISTS", FaultCode::Conflict),
            (400, "FAILED_PRECONDITION", FaultCode::UnsupportedOperation),
            (501, "UNIMPLEMENTED", FaultCode::UnsupportedOperation),
            (415, "INVALID_ARGUMENT", FaultCode::ContentTypeNotSupported),
            (400, "INVALID_ARGUMENT", FaultCode::InvalidParams),
            (502, "INTERNAL", FaultCode::InvalidAgentResponse),
            (500, "INTERNAL", FaultCode::Internal),
            (401, "UNAUTHENTICATED", FaultCode::Unauthenticated),
            (403, "PERMISSION_DENIED", FaultCode::Forbidden),
            (429, "RESOURCE_EXHAUSTED", FaultCode::Exhausted),
            (503, "UNAVAILABLE", FaultCode::Unavailable),
            (400, "WHATEVER", FaultCode::InvalidParams),
        ] {
            check(status, &error(status, name), code, "m");
        }
    }

    #[test]
    fn a_body_that_is_no_error_leaves_the_status() {
        for (status, code) in [
            (400, FaultCode::InvalidParams),
            (401, FaultCode::Unauthenticated),
            (403, FaultCode::Forbidden),
            (404, FaultCode::MethodNotFound),
            (405, FaultCode::MethodNotFound),
            (408, FaultCode::Unavailable),
            (409, FaultCode::TaskNotCancelable),
            (413, FaultCode::InvalidRequest),
            (415, FaultCode::ContentTypeNotSupported),
            (422, FaultCode::InvalidParams),
            (429, FaultCode::Exhausted),
            (500, FaultCode::Internal),
            (501, FaultCode::UnsupportedOperation),
            (502, FaultCode::Unavailable),
            (503, FaultCode::Unavailable),
            (504, FaultCode::Unavailable),
            (301, FaultCode::InvalidAgentResponse),
        ] {
            for body in ["", "<html>", "null", "[]", "{}", r#"{"detail":"Not Found"}"#, r#"{"error":"no"}"#, "\u{0}"] {
                check(status, body, code, &format!("the agent answered with HTTP status {status}"));
            }
        }
    }

    #[test]
    fn errors_in_other_forms_are_read() {
        check(
            200,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone"}}"#,
            FaultCode::TaskNotFound,
            "gone",
        );
        check(404, r#"{"code":-32601,"message":"what?"}"#, FaultCode::MethodNotFound, "what?");
        let problem = r#"{"type":"https://a2a-protocol.org/errors/version-not-supported","title":"t","detail":"d"}"#;
        check(400, problem, FaultCode::VersionNotSupported, "d");
        let foreign = r#"{"error":{"code":404,"message":"m","details":[
            {"reason":"TASK_NOT_FOUND","domain":"example.org"},{"@type":"x"}]}}"#;
        check(404, foreign, FaultCode::MethodNotFound, "m");
        let java = |class: &str| format!(r#"{{"error":"io.a2a.spec.{class}","message":"m"}}"#);
        check(404, &java("TaskNotFoundError"), FaultCode::TaskNotFound, "m");
        check(422, &java("InvalidParamsError"), FaultCode::InvalidParams, "m");
        check(500, &java("InvalidParamsError"), FaultCode::InvalidParams, "m");
        check(500, &java("SomethingNewError"), FaultCode::Internal, "m");
        check(404, r#"{"error":"org.example.TaskNotFoundError","message":"m"}"#, FaultCode::MethodNotFound, "m");
        assert!(read_refusal(java("InvalidParamsError").as_bytes()).is_some());
        assert_eq!(read_refusal(br#"{"message":{"messageId":"m"}}"#), None);
        let second = r#"{"error":{"message":"m","details":[{"@type":"x","fieldViolations":[]},
            {"reason":"INVALID_PARAMS","domain":"a2a-protocol.org"}]}}"#;
        check(404, second, FaultCode::InvalidParams, "m");
        assert!(read_stream_error(second.as_bytes()).is_some());
        for event in [r#"{"message":{}}"#, r#"{"task":{"id":7}}"#, "{}", "", "null"] {
            assert_eq!(read_stream_error(event.as_bytes()), None, "{event}");
        }
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(10_000));
        assert_eq!(read_error(500, long.as_bytes()).to_string().len(), TEXT_BYTES_MAX);
    }
}
