//! The side of the client in JSON-RPC and HTTP+JSON: requests to servers of any dialect, and their answers.

use crate::codes::{self, code_of};
use crate::decoded_request::AnswerKind;
use crate::jsonrpc::error_text;
use crate::v03::files::FileEncoding;
use crate::{Dialect, GrpcPackage, LossKind, Losses, native, v01, v1, v03, xpr};
use sabir_proto::{Call, Fault, FaultCode, MessageId, TaskRef, WireEvent, WireReply};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON-RPC request to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRpcRequest {
    /// The method of the request.
    pub method: &'static str,
    /// The parameters, as JSON text.
    pub params: String,
    /// The kind of answer that the request gets.
    pub answer_kind: AnswerKind,
}

/// A request to a server over HTTP+JSON, or over the REST of 0.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method of the request.
    pub method: http::Method,
    /// Path and query, to be appended to the URL on the card.
    pub path: String,
    /// The JSON body, if the request has one.
    pub body: Option<Vec<u8>>,
    /// The kind of answer that the request gets.
    pub answer_kind: AnswerKind,
}

/// Writes a request in a dialect. A call that the dialect does not have is a fault; a member it cannot carry is a loss.
/// `mint` makes ids for tasks where the client must choose them. Only agent-native carries the retry key among the
/// parameters.
pub fn write_call(
    dialect: Dialect,
    call: &Call,
    retry_key: Option<&str>,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<JsonRpcRequest, Fault> {
    if let (Call::Send(request) | Call::Stream(request), false) = (call, dialect.features().client_names_tasks)
        && request.alias.is_some()
    {
        // The client cannot choose the id of a task that is yet to be opened.
        losses.note(LossKind::TaskId, "message.taskId");
    }
    let (method, params) = match dialect {
        Dialect::V1 => v1::json::write_call(call),
        Dialect::V03 | Dialect::V02 => v03::json::write_call(call, losses)?,
        Dialect::V01 => v01::write_call(call, mint, losses)?,
        Dialect::Native => native::write_call(call, retry_key, losses)?,
        Dialect::Xpr => xpr::write_call(call, losses)?,
    };
    Ok(JsonRpcRequest { method, params, answer_kind: AnswerKind::of_call(call) })
}

/// Writes the request for the first push configuration of a task. `None` if the dialect can only list them.
pub(crate) fn write_first_push(dialect: Dialect, task: &TaskRef) -> Option<JsonRpcRequest> {
    let (method, params) = match dialect {
        Dialect::V03 | Dialect::V02 => {
            ("tasks/pushNotificationConfig/get", v03::json::task_query(task, None, None, None))
        }
        Dialect::V01 => ("tasks/pushNotification/get", v03::json::task_query(task, None, None, None)),
        Dialect::V1 | Dialect::Native | Dialect::Xpr => return None,
    };
    Some(JsonRpcRequest { method, params, answer_kind: AnswerKind::Push })
}

/// Reads the result of a request. `mint` makes ids for messages that come without one.
pub fn read_answer(
    dialect: Dialect,
    asked: AnswerKind,
    result: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    let result = raw(result)?;
    match dialect {
        Dialect::V1 => v1::json::read_answer(asked, result),
        Dialect::V03 | Dialect::V02 => v03::json::read_answer(asked, result, mint, losses),
        Dialect::V01 => v01::read_answer(asked, result, mint, losses),
        Dialect::Native => native::read_answer(asked, result, mint, losses),
        Dialect::Xpr => xpr::read_answer(asked, result, mint, losses),
    }
}

/// Reads one event of a stream: the `result` of a frame.
pub fn read_event(
    dialect: Dialect,
    result: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireEvent, Fault> {
    let result = raw(result)?;
    match dialect {
        Dialect::V1 => v1::json::read_event(result),
        Dialect::V03 | Dialect::V02 => v03::json::read_event(result, mint, losses),
        Dialect::V01 => v01::read_event(result, mint, losses),
        Dialect::Native => native::read_event(result, mint, losses),
        Dialect::Xpr => Err(Fault::UnsupportedOperation("XPR has no streams".into())),
    }
}

/// Reads the `error` of an answer.
pub fn read_error(dialect: Dialect, error: &str) -> Fault {
    #[derive(Deserialize)]
    struct JsonRpcErrorIn<'a> {
        code: i32,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    match serde_json::from_str::<JsonRpcErrorIn<'_>>(error) {
        _ if !error.trim_ascii_start().starts_with('{') => Fault::InvalidAgentResponse("not an error object".into()),
        Err(e) => Fault::InvalidAgentResponse(format!("not an error object: {}", error_text(&e))),
        Ok(error) => {
            let about = error.data.map(|data| ErrorData::read(data.get())).unwrap_or_default();
            let code = about.code.unwrap_or_else(|| code_of(error.code, dialect));
            Fault::Peer { code, message: error.message, task: about.task }
        }
    }
}

/// Writes an HTTP+JSON request of 1.0, or the REST request of an older dialect.
pub fn write_http_call(
    dialect: Dialect,
    call: &Call,
    files: FileEncoding,
    losses: &mut Losses,
) -> Result<HttpRequest, Fault> {
    match dialect {
        Dialect::V1 => Ok(v1::http::write_call(call)),
        _ => v03::rest::write_call(call, files, losses),
    }
}

/// Reads the body of an HTTP+JSON answer with a success status.
pub fn read_http_answer(
    dialect: Dialect,
    call: &Call,
    body: &[u8],
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireReply, Fault> {
    match dialect {
        Dialect::V1 => v1::http::read_answer(AnswerKind::of_call(call), body),
        _ => v03::rest::read_answer(call, body, files, mint, losses),
    }
}

/// Reads one event of an HTTP+JSON stream. A stream that fails ends with an error object, which is read as a fault.
pub fn read_http_event(
    dialect: Dialect,
    data: &str,
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<WireEvent, Fault> {
    match dialect {
        Dialect::V1 => v1::http::read_event(data),
        _ => v03::rest::read_event(data.as_bytes(), files, mint, losses).map(|answer| answer.event),
    }
}

/// Reads the body of an HTTP+JSON answer with an error status.
pub fn read_http_error(dialect: Dialect, status: u16, body: &[u8]) -> Fault {
    match dialect {
        Dialect::V1 => v1::http::read_error(status, body),
        _ => v03::rest::read_error(status, body),
    }
}

/// The name of the gRPC method of a call. Three methods had other names in 0.3.
pub fn grpc_method(package: GrpcPackage, call: &Call) -> &'static str {
    match (package, call) {
        (GrpcPackage::V03, Call::Subscribe(_)) => "TaskSubscription",
        (GrpcPackage::V03, Call::ExtendedCard { .. }) => "GetAgentCard",
        (GrpcPackage::V03, Call::ListPush(_)) => "ListTaskPushNotificationConfig",
        _ => call.operation(),
    }
}

/// The data of an error: the `ErrorInfo` of 1.0, or the task of 0.1.
#[derive(Default)]
struct ErrorData {
    code: Option<FaultCode>,
    task: Option<TaskRef>,
}

impl ErrorData {
    fn read(data: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        let task = |v: &serde_json::Value| v["taskId"].as_str().and_then(|id| TaskRef::parse(id).ok());
        let details = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let info = details.iter().find(|d| d["domain"] == codes::DOMAIN);
        let code = info
            .and_then(|info| info["reason"].as_str())
            .and_then(|reason| FaultCode::ALL.into_iter().find(|c| codes::numbers(*c).reason == reason));
        Self { code, task: info.map_or_else(|| task(&value), |info| task(&info["metadata"])) }
    }
}

fn raw(text: &str) -> Result<&RawValue, Fault> {
    serde_json::from_str(text).map_err(|e| Fault::InvalidAgentResponse(error_text(&e)))
}
