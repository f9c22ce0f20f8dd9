//! Errors. 0.3 never said what an error looks like over REST, so each SDK has its own idea.
//!
//! | Who | What it sends and reads |
//! |---|---|
//! | JavaScript | `{"code": -32001, "message": …}`: the JSON-RPC number and the words |
//! | Python 0.3 | `{"message": …}`: the words; the HTTP status says the rest |
//! | Python 1.x, speaking 0.3 | sends the `error` object of 1.0, reads `{"type": "TaskNotFoundError", "message": …}` |
//!
//! What we send is all of it at once, and also where a stream was asked for: JavaScript and Python 1.x read it there,
//! and Python 0.3 tells its caller that there is no stream, where an event with an error in it would fail to parse.
//! What we read is whichever of it is there, the most telling first.

use super::super::grpc::{class, shown};
use crate::codes;
use crate::v1::http::write_error_as;
use sabir_proto::{Code, Fault, TaskRef};
use serde::{Deserialize, Serialize};

/// Longest text of a peer that is passed on, in bytes. It goes into replies and logs, and a server may send a page.
const TEXT_BYTES_MAX: usize = 2048;

/// Writes an error body; the HTTP status goes with it.
pub fn write_error(fault: &Fault, out: &mut Vec<u8>) -> u16 {
    #[derive(Serialize)]
    struct Head<'a> {
        code: i32,
        r#type: &'a str,
        message: String,
    }
    let code = shown(fault.code());
    let status = match code {
        // 0.3's own servers say so, and the Python client shows its user nothing but the status.
        Code::TaskNotCancelable => 409,
        _ => codes::numbers(fault.code()).http,
    };
    let head = Head { code: codes::numbers(code).json_rpc, r#type: class(code), message: fault.to_string() };
    serde_json::to_writer(&mut *out, &head).expect("strings and numbers serialise");
    // One object out of two: a comma in place of the brace that closes the first and the one that opens the second.
    out.pop();
    out.push(b',');
    let mut error = Vec::with_capacity(256);
    write_error_as(status, fault, &mut error);
    out.extend_from_slice(&error[1..]);
    status
}

/// Reads the answer to a call that failed, whatever its body is.
pub fn read_error(status: u16, body: &[u8]) -> Fault {
    let body: Body = serde_json::from_slice(body).unwrap_or_default();
    let error = body.error.unwrap_or_default();
    let detail = error.details.iter().flatten().find(|detail| detail.reason.is_some());
    let find = |is: &dyn Fn(Code) -> bool| Code::ALL.into_iter().find(|code| is(*code));
    let by_reason = detail.and_then(|detail| find(&|c| detail.reason.as_deref() == Some(codes::numbers(c).reason)));
    let by_number = || body.code.and_then(|number| find(&|c| i64::from(codes::numbers(c).json_rpc) == number));
    let by_class = || body.class.as_deref().and_then(|name| find(&|c| class(c) == name));
    let words = body.message.or(error.message).filter(|words| !words.is_empty());
    let code = by_reason.or_else(by_number).or_else(by_class).unwrap_or_else(|| by_status(status, words.is_some()));
    let task = detail.and_then(|detail| detail.metadata.as_ref()?.task_id.as_deref());
    let message = match words {
        Some(mut words) => {
            words.truncate(words.floor_char_boundary(TEXT_BYTES_MAX));
            words
        }
        None => format!("the agent answered with HTTP status {status}"),
    };
    Fault::Peer { code, message, task: task.and_then(|id| TaskRef::parse(id).ok()) }
}

/// What an HTTP status means. One with words is an agent's, by the table of the Python SDK; one without may as well be
/// a proxy's or a missing route's.
const fn by_status(status: u16, has_words: bool) -> Code {
    match status {
        404 if has_words => Code::TaskNotFound,
        404 | 405 => Code::MethodNotFound,
        409 => Code::TaskNotCancelable,
        415 => Code::ContentTypeNotSupported,
        422 => Code::InvalidParams,
        429 => Code::Exhausted,
        400..=499 => Code::InvalidRequest,
        501 => Code::UnsupportedOperation,
        502 if has_words => Code::InvalidAgentResponse,
        502..=504 => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// All that may be in an error. A member of another type makes the whole body unreadable, and then the status counts.
#[derive(Default, Deserialize)]
struct Body {
    code: Option<i64>,
    #[serde(rename = "type")]
    class: Option<String>,
    message: Option<String>,
    error: Option<Error>,
}

#[derive(Default, Deserialize)]
struct Error {
    message: Option<String>,
    details: Option<Vec<Detail>>,
}

#[derive(Deserialize)]
struct Detail {
    reason: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(alias = "task_id")]
    task_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, code: Code, message: &str, task: Option<&str>) {
        let task = task.map(|id| TaskRef::parse(id).unwrap());
        assert_eq!(read_error(status, body.as_bytes()), Fault::Peer { code, message: message.into(), task }, "{body}");
    }

    #[test]
    fn every_kind_of_peer_finds_what_it_looks_for() {
        let mut out = Vec::new();
        let fault = Fault::TaskNotFound(TaskRef::parse("t-1").unwrap());
        assert_eq!(write_error(&fault, &mut out), 404);
        let expected = concat!(
            r#"{"code":-32001,"type":"TaskNotFoundError","message":"task t-1 not found","#,
            r#""error":{"code":404,"status":"NOT_FOUND","message":"task t-1 not found","details":["#,
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","#,
            r#""domain":"a2a-protocol.org","metadata":{"taskId":"t-1"}}]}}"#,
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_we_write_we_read_and_nothing_is_numbered_past_what_0_3_knows() {
        for code in Code::ALL {
            let fault = Fault::Peer { code, message: "words".into(), task: TaskRef::parse("t").ok() };
            let mut out = Vec::new();
            let status = write_error(&fault, &mut out);
            let own = if code == Code::TaskNotCancelable { 409 } else { codes::numbers(code).http };
            assert_eq!(status, own);
            assert_eq!(read_error(status, &out), fault, "by the reason");

            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let number = value["code"].as_i64().unwrap();
            assert!(!(-32099..-32007).contains(&number), "{number}");
            let new = matches!(code, Code::ExtensionSupportRequired | Code::VersionNotSupported);
            assert_eq!(number == -32004, new || code == Code::UnsupportedOperation);
        }
    }

    #[test]
    fn errors_of_the_sdks_are_read() {
        check(400, r#"{"code":-32002,"message":"no","data":{"a":1}}"#, Code::TaskNotCancelable, "no", None);
        check(404, r#"{"message":"Task not found"}"#, Code::TaskNotFound, "Task not found", None);
        check(409, r#"{"message":"done"}"#, Code::TaskNotCancelable, "done", None);
        check(
            400,
            r#"{"type":"ContentTypeNotSupportedError","message":"x"}"#,
            Code::ContentTypeNotSupported,
            "x",
            None,
        );
        let v1 = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"gone","details":[{"@type":"x"},
            {"reason":"TASK_NOT_FOUND","metadata":{"taskId":"t"}}]}}"#;
        check(404, v1, Code::TaskNotFound, "gone", Some("t"));
        let odd = r#"{"error":{"details":[{"reason":"NEW","metadata":{"taskId":""}}],"message":"m"}}"#;
        check(503, odd, Code::Unavailable, "m", None);
    }

    #[test]
    fn a_body_that_is_no_error_leaves_the_status() {
        for body in ["", "<html>", "null", "[]", "{}", r#"{"detail":"Not Found"}"#, r#"{"code":"x","message":"y"}"#] {
            check(404, body, Code::MethodNotFound, "the agent answered with HTTP status 404", None);
        }
        check(502, "", Code::Unavailable, "the agent answered with HTTP status 502", None);
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(10_000));
        assert_eq!(read_error(500, long.as_bytes()).to_string().len(), TEXT_BYTES_MAX);
    }
}
