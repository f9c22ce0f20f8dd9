//! Errors of 0.3 over REST. 0.3 does not define the body of an error, so each SDK has its own.
//!
//! | SDK | What it sends and reads |
//! |---|---|
//! | JavaScript | `{"code": -32001, "message": …}`: the JSON-RPC number and the text |
//! | Python 0.3 | `{"message": …}`: the text; the HTTP status tells the rest |
//! | Python 1.x, speaking 0.3 | sends the `error` object of 1.0, reads `{"type": "TaskNotFoundError", "message": …}` |
//! | Java | `{"error": "io.a2a.spec.TaskNotFoundError", "message": …}`: the name of its class |
//!
//! What we send is the first three at once, and also where a stream was asked for: JavaScript and Python 1.x read it
//! there, and Python 0.3 tells its caller that there is no stream, where an event with an error in it would fail to
//! parse. `error` cannot be an object and the name of a class, so a client in Java gets a body of its own; a stream that
//! it asked for answers with that body in an event, because the client shows its user no body of another status than 200.
//! What we read is whichever of it is there, the most telling first.

use super::super::grpc::code_in_v03;
use crate::codes;
use crate::v1::http::{JAVA_PACKAGE, PeerError, write_error_as};
use sabir_proto::{Fault, FaultCode};
use serde::Serialize;

/// How the `User-Agent` of the HTTP client in the JDK begins; the SDK for Java has no other.
const JAVA: &str = "Java-http-client/";

/// The client that reads an error, as far as its body depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorReader {
    /// A client that knows an error by the name of its class in the SDK for Java.
    Java,
    /// Every other client.
    Other,
}

impl ErrorReader {
    /// The reader that calls itself so in `User-Agent`.
    pub fn of(user_agent: Option<&str>) -> Self {
        let is_java = user_agent.unwrap_or_default().split_ascii_whitespace().any(|word| word.starts_with(JAVA));
        if is_java { Self::Java } else { Self::Other }
    }
}

/// The name of the class that the SDK for Java has for an error. It has none for a request that is refused at the door.
fn java_class(code: FaultCode) -> Option<String> {
    let name = match code {
        FaultCode::ExtendedAgentCardNotConfigured => "AuthenticatedExtendedCardNotConfiguredError",
        _ if code.is_access_refusal() => return None,
        _ => codes::name(code),
    };
    Some(format!("{JAVA_PACKAGE}{name}"))
}

/// Writes an error body; the HTTP status goes with it.
pub fn write_error(fault: &Fault, reader: ErrorReader, out: &mut Vec<u8>) -> u16 {
    #[derive(Serialize)]
    struct ErrorHead<'a> {
        code: i32,
        r#type: &'a str,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let code = code_in_v03(fault.code());
    let status = match code {
        // The SDK's servers of 0.3 send it, and the Python client shows its user only the status.
        FaultCode::TaskNotCancelable => 409,
        _ => codes::numbers(fault.code()).http,
    };
    let error = if reader == ErrorReader::Java { java_class(code) } else { None };
    let has_class = error.is_some();
    let head =
        ErrorHead { code: codes::numbers(code).json_rpc, r#type: codes::name(code), message: fault.to_string(), error };
    serde_json::to_writer(&mut *out, &head).expect("strings and numbers serialise");
    if has_class {
        return status;
    }
    // Joins two objects: a comma replaces the brace that closes the first and the one that opens the second.
    out.pop();
    out.push(b',');
    let mut error = Vec::with_capacity(256);
    write_error_as(status, fault, &mut error);
    out.extend_from_slice(&error[1..]);
    status
}

/// Reads the response to a call that failed, with any body.
pub fn read_error(status: u16, body: &[u8]) -> Fault {
    let told = PeerError::read(body);
    let code = told.code.unwrap_or_else(|| by_status(status, told.message.is_some()));
    told.into_http_fault(status, code)
}

/// The code for an HTTP status. With a text it comes from an agent, by the table of the Python SDK; without one it may
/// come from a proxy or a missing route.
const fn by_status(status: u16, has_words: bool) -> FaultCode {
    match status {
        401 => FaultCode::Unauthenticated,
        403 => FaultCode::Forbidden,
        404 if has_words => FaultCode::TaskNotFound,
        404 | 405 => FaultCode::MethodNotFound,
        409 => FaultCode::TaskNotCancelable,
        415 => FaultCode::ContentTypeNotSupported,
        422 => FaultCode::InvalidParams,
        429 => FaultCode::Exhausted,
        400..=499 => FaultCode::InvalidRequest,
        501 => FaultCode::UnsupportedOperation,
        502 if has_words => FaultCode::InvalidAgentResponse,
        502..=504 => FaultCode::Unavailable,
        _ => FaultCode::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::TaskRef;

    #[track_caller]
    fn check(status: u16, body: &str, code: FaultCode, message: &str, task: Option<&str>) {
        let task = task.map(|id| TaskRef::parse(id).unwrap());
        assert_eq!(read_error(status, body.as_bytes()), Fault::Peer { code, message: message.into(), task }, "{body}");
    }

    #[test]
    fn every_kind_of_peer_finds_what_it_looks_for() {
        let mut out = Vec::new();
        let fault = Fault::TaskNotFound(TaskRef::parse("t-1").unwrap());
        assert_eq!(write_error(&fault, ErrorReader::Other, &mut out), 404);
        let expected = concat!(
            r#"{"code":-32001,"type":"TaskNotFoundError","message":"task t-1 not found","#,
            r#""error":{"code":404,"status":"NOT_FOUND","message":"task t-1 not found","details":["#,
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","#,
            r#""domain":"a2a-protocol.org","metadata":{"taskId":"t-1"}}]}}"#,
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_client_in_java_finds_the_name_of_its_class() {
        let reader = ErrorReader::of(Some("shop/2 Java-http-client/17.0.15"));
        assert_eq!(reader, ErrorReader::Java);
        assert_eq!(ErrorReader::of(None), ErrorReader::Other);
        assert_eq!(ErrorReader::of(Some("grpc-java-netty/1.75.0")), ErrorReader::Other);
        let error = |code| {
            let fault = Fault::Peer { code, message: "words".into(), task: None };
            let mut out = Vec::new();
            let status = write_error(&fault, reader, &mut out);
            assert_eq!(read_error(status, &out), fault, "our own client reads it too");
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()["error"].clone()
        };
        assert_eq!(error(FaultCode::TaskNotFound), "io.a2a.spec.TaskNotFoundError");
        let card = error(FaultCode::ExtendedAgentCardNotConfigured);
        assert_eq!(card, "io.a2a.spec.AuthenticatedExtendedCardNotConfiguredError");
        assert!(error(FaultCode::Unauthenticated).is_object(), "the SDK has no class for it");
    }

    #[test]
    fn what_we_write_we_read_and_nothing_is_numbered_past_what_0_3_knows() {
        for code in FaultCode::ALL {
            let fault = Fault::Peer { code, message: "words".into(), task: TaskRef::parse("t").ok() };
            let mut out = Vec::new();
            let status = write_error(&fault, ErrorReader::Other, &mut out);
            let own = if code == FaultCode::TaskNotCancelable { 409 } else { codes::numbers(code).http };
            assert_eq!(status, own);
            assert_eq!(read_error(status, &out), fault, "by the reason");

            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let number = value["code"].as_i64().unwrap();
            assert!(!(-32099..-32007).contains(&number), "{number}");
            let new = matches!(code, FaultCode::ExtensionSupportRequired | FaultCode::VersionNotSupported);
            assert_eq!(number == -32004, new || code == FaultCode::UnsupportedOperation);
        }
    }

    #[test]
    fn errors_of_the_sdks_are_read() {
        check(400, r#"{"code":-32002,"message":"no","data":{"a":1}}"#, FaultCode::TaskNotCancelable, "no", None);
        check(404, r#"{"message":"Task not found"}"#, FaultCode::TaskNotFound, "Task not found", None);
        check(409, r#"{"message":"done"}"#, FaultCode::TaskNotCancelable, "done", None);
        check(
            400,
            r#"{"type":"ContentTypeNotSupportedError","message":"x"}"#,
            FaultCode::ContentTypeNotSupported,
            "x",
            None,
        );
        let v1 = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"gone","details":[{"@type":"x"},
            {"reason":"TASK_NOT_FOUND","metadata":{"taskId":"t"}}]}}"#;
        check(404, v1, FaultCode::TaskNotFound, "gone", Some("t"));
        let odd = r#"{"error":{"details":[{"reason":"NEW","metadata":{"taskId":""}}],"message":"m"}}"#;
        check(503, odd, FaultCode::Unavailable, "m", None);
    }

    #[test]
    fn a_body_that_is_no_error_leaves_the_status() {
        for body in ["", "<html>", "null", "[]", "{}", r#"{"detail":"Not Found"}"#, r#"{"code":"x","message":"y"}"#] {
            check(404, body, FaultCode::MethodNotFound, "the agent answered with HTTP status 404", None);
        }
        check(502, "", FaultCode::Unavailable, "the agent answered with HTTP status 502", None);
    }
}
