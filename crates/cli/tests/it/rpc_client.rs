//! The two JSON bindings from a client's side: asking, and reading errors by their numbers.

use crate::http_client::{EventStream, HttpResponse, Request, SseEvent};
use crate::test_server::TestServer;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};

/// The path of the agent of most tests.
pub(crate) const DESK_PATH: &str = "/agents/desk";

/// An error as either binding reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtocolError {
    /// JSON-RPC code, or HTTP status.
    pub(crate) code: i64,
    /// The `ErrorInfo.reason` of the error.
    pub(crate) reason: String,
    /// The `BadRequest.fieldViolations[].field` of the error.
    pub(crate) fields: Vec<String>,
}

impl ProtocolError {
    /// Reads `error.data` or `error.details`, whose form is checked on the way.
    #[track_caller]
    fn read(code: &Value, details: &Value) -> Self {
        let code = code.as_i64().expect("a code is a number");
        let details = details.as_array().expect("details are an array");
        let of = |kind: &str| details.iter().find(|d| d["@type"] == format!("type.googleapis.com/google.rpc.{kind}"));
        let info = of("ErrorInfo").expect("every error has an ErrorInfo");
        assert_eq!(info["domain"], "a2a-protocol.org");
        assert!(info["metadata"].as_object().unwrap().values().all(Value::is_string), "{info}");
        let violations = of("BadRequest").map_or(&Value::Null, |d| &d["fieldViolations"]);
        let fields = violations.as_array().into_iter().flatten().map(|v| v["field"].as_str().unwrap().to_owned());
        Self { code, reason: info["reason"].as_str().unwrap().to_owned(), fields: fields.collect() }
    }

    #[track_caller]
    pub(crate) fn from_rpc(envelope: &Value) -> Self {
        let error = envelope.get("error").unwrap_or_else(|| panic!("not an error: {envelope}"));
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{envelope}");
        Self::read(&error["code"], &error["data"])
    }

    #[track_caller]
    pub(crate) fn from_rest(reply: &HttpResponse) -> Self {
        let body = reply.json();
        let error = body.get("error").unwrap_or_else(|| panic!("status {}, not an error: {body}", reply.status));
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{body}");
        // The status, not the copy of it in the body, which has a test of its own.
        Self::read(&Value::from(reply.status), &error["details"])
    }

    /// The error in a reply with an HTTP status of its own, in the form of the binding at its path. The code is the
    /// status.
    #[track_caller]
    pub(crate) fn from_status(reply: &HttpResponse) -> Self {
        let told = reply.json();
        if told.get("jsonrpc").is_none() {
            return Self::from_rest(reply);
        }
        Self { code: reply.status.into(), ..Self::from_rpc(&told) }
    }

    /// The code and the reason, where only they matter.
    pub(crate) fn code_and_reason(&self) -> (i64, &str) {
        (self.code, &self.reason)
    }
}

/// The rows of the error table that these tests meet: JSON-RPC code, HTTP status, reason.
pub(crate) type ErrorRow = (i64, i64, &'static str);
pub(crate) const NOT_FOUND: ErrorRow = (-32001, 404, "TASK_NOT_FOUND");
pub(crate) const NOT_CANCELABLE: ErrorRow = (-32002, 400, "TASK_NOT_CANCELABLE");
pub(crate) const NO_PUSH: ErrorRow = (-32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED");
pub(crate) const UNSUPPORTED: ErrorRow = (-32004, 400, "UNSUPPORTED_OPERATION");
pub(crate) const CONTENT_TYPE: ErrorRow = (-32005, 400, "CONTENT_TYPE_NOT_SUPPORTED");
pub(crate) const EXTENSION: ErrorRow = (-32008, 400, "EXTENSION_SUPPORT_REQUIRED");
pub(crate) const VERSION: ErrorRow = (-32009, 400, "VERSION_NOT_SUPPORTED");
pub(crate) const PARSE: ErrorRow = (-32700, 400, "PARSE_ERROR");
pub(crate) const PARAMS: ErrorRow = (-32602, 400, "INVALID_PARAMS");
pub(crate) const CONFLICT: ErrorRow = (-32602, 409, "IDEMPOTENCY_CONFLICT");
pub(crate) const EXHAUSTED: ErrorRow = (-32603, 429, "RESOURCE_EXHAUSTED");
pub(crate) const UNAVAILABLE: ErrorRow = (-32603, 503, "UNAVAILABLE");
pub(crate) const INTERNAL: ErrorRow = (-32603, 500, "INTERNAL_ERROR");

/// A message of a user. Its id is hand-made, so it is never taken for a retry.
pub(crate) fn message(text: &str) -> Value {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    json!({"messageId": format!("m-{n}"), "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// A UUID that no other test uses.
pub(crate) fn uuid() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}-{:04x}-4a2a-8000-{n:012x}", std::process::id(), n & 0xffff)
}

pub(crate) fn send_params(text: &str) -> Value {
    json!({"message": message(text)})
}

/// The next message of a task.
pub(crate) fn answer_params(task: &Value, text: &str) -> Value {
    let mut params = send_params(text);
    params["message"]["taskId"] = task["id"].clone();
    params
}

pub(crate) fn envelope(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}).to_string()
}

pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("not a task: {task}"))
}

impl TestServer {
    /// One request on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, request: &Request) -> HttpResponse {
        let mut wire = self.connect();
        wire.send(request);
        wire.response()
    }

    /// A JSON-RPC request; the whole envelope of the reply.
    #[track_caller]
    pub(crate) fn rpc(&self, at: &str, method: &str, params: &Value) -> Value {
        let reply = self.ask(&Request::post(at, envelope(method, params)));
        assert_eq!((reply.status, reply.header("Content-Type")), (200, Some("application/json")), "{}", reply.text());
        let envelope = reply.json();
        assert_eq!((&envelope["jsonrpc"], &envelope["id"]), (&json!("2.0"), &json!("r1")), "{envelope}");
        envelope
    }

    /// The result of a request that succeeds.
    #[track_caller]
    pub(crate) fn result(&self, at: &str, method: &str, params: &Value) -> Value {
        let mut envelope = self.rpc(at, method, params);
        assert!(envelope.get("error").is_none(), "{envelope}");
        envelope["result"].take()
    }

    /// The error of a request that fails.
    #[track_caller]
    pub(crate) fn rpc_error(&self, at: &str, method: &str, params: &Value) -> ProtocolError {
        ProtocolError::from_rpc(&self.rpc(at, method, params))
    }

    /// A request that fails with a row of the table.
    #[track_caller]
    pub(crate) fn expect_error(&self, at: &str, method: &str, params: &Value, row: ErrorRow) {
        let envelope = self.rpc(at, method, params);
        assert_eq!(ProtocolError::from_rpc(&envelope).code_and_reason(), (row.0, row.2), "{method} {envelope}");
    }

    /// The same in HTTP+JSON.
    #[track_caller]
    pub(crate) fn expect_rest_error(&self, request: &Request, row: ErrorRow) {
        let reply = self.ask(request);
        assert_eq!(ProtocolError::from_rest(&reply).code_and_reason(), (row.1, row.2), "{}", reply.text());
    }

    /// The task that a message leads to, once it rests.
    #[track_caller]
    pub(crate) fn send(&self, at: &str, params: &Value) -> Value {
        self.result(at, "SendMessage", params)["task"].take()
    }

    /// The task that a message leads to, at once.
    #[track_caller]
    pub(crate) fn send_async(&self, at: &str, text: &str) -> Value {
        let mut params = send_params(text);
        params["configuration"] = json!({"returnImmediately": true});
        self.send(at, &params)
    }

    #[track_caller]
    pub(crate) fn get(&self, at: &str, id: &Value) -> Value {
        self.result(at, "GetTask", &json!({"id": id}))
    }

    /// How many tasks an agent has.
    #[track_caller]
    pub(crate) fn task_count(&self, at: &str) -> u64 {
        self.result(at, "ListTasks", &json!({}))["totalSize"].as_u64().unwrap()
    }

    /// A JSON-RPC request that is answered by a stream.
    #[track_caller]
    pub(crate) fn stream(&self, at: &str, method: &str, params: &Value) -> EventStream {
        self.stream_after(at, method, params, None)
    }

    /// The same with `Last-Event-ID`.
    #[track_caller]
    pub(crate) fn stream_after(&self, at: &str, method: &str, params: &Value, last: Option<u64>) -> EventStream {
        let mut request = Request::post(at, envelope(method, params));
        if let Some(last) = last {
            request = request.with("Last-Event-ID", last.to_string());
        }
        self.open(&request)
    }

    /// A request that is answered by a stream.
    #[track_caller]
    pub(crate) fn open(&self, request: &Request) -> EventStream {
        let mut wire = self.connect();
        wire.send(request);
        wire.try_event_stream().expect("the answer is a stream")
    }

    /// Checks that the server still serves, whatever happened before.
    #[track_caller]
    pub(crate) fn still_serves(&self) {
        assert_eq!(self.ask(&Request::get("/healthz")).status, 200);
        let task = self.send("/agents/demo", &send_params("are you there"));
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "are you there", "{task}");
    }

    /// One number of `/metrics`.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.ask(&Request::get("/metrics")).text();
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name} in\n{text}")).trim().parse().unwrap()
    }
}

impl SseEvent {
    /// The event itself, out of its envelope where there is one.
    #[track_caller]
    pub(crate) fn event(&self) -> &Value {
        assert!(self.data.get("error").is_none(), "{}", self.data);
        self.data.get("result").unwrap_or(&self.data)
    }

    /// The state this event puts its task in, if it does.
    pub(crate) fn state(&self) -> Option<&str> {
        let event = self.event();
        let task = event.get("task").or_else(|| event.get("statusUpdate"))?;
        task["status"]["state"].as_str()
    }

    /// The text of an artifact event.
    pub(crate) fn chunk(&self) -> Option<&str> {
        self.event().get("artifactUpdate")?["artifact"]["parts"][0]["text"].as_str()
    }
}

/// The numbers of a stream's events.
pub(crate) fn event_ids(frames: &[SseEvent]) -> Vec<u64> {
    frames.iter().map(|f| f.id.expect("every event of a task has a number")).collect()
}

/// All artifact text of a stream, in the order it came.
pub(crate) fn artifact_text(frames: &[SseEvent]) -> String {
    // The text from before the subscription comes as one artifact of several parts.
    let parts =
        |frame: &SseEvent| frame.event()["artifactUpdate"]["artifact"]["parts"].as_array().cloned().unwrap_or_default();
    frames.iter().flat_map(parts).map(|part| part["text"].as_str().unwrap_or_default().to_owned()).collect()
}
