//! The other side of the table: requests to servers of any dialect, and what they answer.

use crate::codes::{self, code_of};
use crate::hear::Asked;
use crate::jsonrpc::words;
use crate::{Dialect, LossKind, Losses, native, v01, v1, v03, xpr};
use sabir_proto::{Answer, Call, Code, Fault, MessageId, TaskRef, TheirEvent};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON-RPC request to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method.
    pub method: &'static str,
    /// Its parameters, as JSON.
    pub params: String,
    /// What kind of answer it gets.
    pub asked: Asked,
}

/// A request to a server over HTTP+JSON, or over the REST of 0.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Its method.
    pub method: http::Method,
    /// Path and query, to be put behind the address on the card.
    pub path: String,
    /// Its body, JSON, if it has one.
    pub body: Option<Vec<u8>>,
    /// What kind of answer it gets.
    pub asked: Asked,
}

/// Writes a request in a dialect. What the dialect cannot ask at all is a fault; what it cannot carry is a loss. `mint`
/// names tasks where the client must. A retry key travels among the parameters only in agent-native.
pub fn write_call(
    dialect: Dialect,
    call: &Call,
    retry_key: Option<&str>,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Request, Fault> {
    if let (Call::Send(request) | Call::Stream(request), false) = (call, dialect.reach().client_names_tasks)
        && request.alias.is_some()
    {
        // A task that may yet have to be opened has no name there.
        losses.note(LossKind::TaskId, "message.taskId");
    }
    let (method, params) = match dialect {
        Dialect::V1 => v1::json::write_call(call),
        Dialect::V03 | Dialect::V02 => v03::json::write_call(call, losses)?,
        Dialect::V01 => v01::write_call(call, mint, losses)?,
        Dialect::Native => native::write_call(call, retry_key, losses)?,
        Dialect::Xpr => xpr::write_call(call, losses)?,
    };
    Ok(Request { method, params, asked: Asked::by(call) })
}

/// Asks for the first configuration of a task. `None`: the dialect has no such question, only the list.
pub(crate) fn write_first_push(dialect: Dialect, task: &TaskRef) -> Option<Request> {
    let (method, params) = match dialect {
        Dialect::V03 | Dialect::V02 => ("tasks/pushNotificationConfig/get", v03::json::query(task, None, None, None)),
        Dialect::V01 => ("tasks/pushNotification/get", v03::json::query(task, None, None, None)),
        Dialect::V1 | Dialect::Native | Dialect::Xpr => return None,
    };
    Some(Request { method, params, asked: Asked::Push })
}

/// Reads the result of a request. `mint` names messages that come without a name.
pub fn read_answer(
    dialect: Dialect,
    asked: Asked,
    result: &str,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Answer, Fault> {
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
) -> Result<TheirEvent, Fault> {
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
    struct Error<'a> {
        code: i32,
        #[serde(default)]
        message: String,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    match serde_json::from_str::<Error<'_>>(error) {
        _ if !error.trim_ascii_start().starts_with('{') => Fault::InvalidAgentResponse("not an error object".into()),
        Err(e) => Fault::InvalidAgentResponse(format!("not an error object: {}", words(&e))),
        Ok(error) => {
            let about = error.data.map(|data| About::read(data.get())).unwrap_or_default();
            let code = about.code.unwrap_or_else(|| code_of(error.code, dialect));
            Fault::Peer { code, message: error.message, task: about.task }
        }
    }
}

/// What the data of an error says: 1.0's `ErrorInfo`, or 0.1's task.
#[derive(Default)]
struct About {
    code: Option<Code>,
    task: Option<TaskRef>,
}

impl About {
    fn read(data: &str) -> Self {
        let value: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        let task = |v: &serde_json::Value| v["taskId"].as_str().and_then(|id| TaskRef::parse(id).ok());
        let details = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let info = details.iter().find(|d| d["domain"] == codes::DOMAIN);
        let code = info
            .and_then(|info| info["reason"].as_str())
            .and_then(|reason| Code::ALL.into_iter().find(|c| codes::numbers(*c).reason == reason));
        Self { code, task: info.map_or_else(|| task(&value), |info| task(&info["metadata"])) }
    }
}

fn raw(text: &str) -> Result<&RawValue, Fault> {
    serde_json::from_str(text).map_err(|e| Fault::InvalidAgentResponse(words(&e)))
}
