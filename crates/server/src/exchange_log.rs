//! Records requests of callers and our responses in the exchange log.
//!
//! The handler of a call knows its task, and the writer of the response knows the bytes; the bindings between them only
//! pass the [`ExchangeReport`] on. gRPC calls are recorded as JSON, because protobuf bytes are unreadable. Not recorded:
//! requests without a task, which are in the audit and the log, and the events of streams, which are in the task log.

use crate::app::App;
use crate::bind::RequestHead;
use crate::body::Body;
use crate::call::CallResponse;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, request};
use sabir_gateway::exchange_log::{ExchangeLogMode, ServedExchange};
use sabir_proto::{Call, Fault, FrozenTask, Reply, SendReply, TaskId, TaskRef, TaskState};
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Instant;

/// What the handler of a request reports to its recorder.
#[derive(Debug)]
pub(crate) struct ExchangeReport {
    /// Which requests are recorded.
    mode: ExchangeLogMode,
    subject: OnceLock<ExchangeSubject>,
}

/// The task and the result of a request.
#[derive(Debug, Clone, Copy)]
struct ExchangeSubject {
    task: TaskId,
    /// Whether the request or its task failed.
    failed: bool,
}

impl ExchangeReport {
    /// The report of one request to this server.
    pub(crate) fn new(app: &App) -> Self {
        Self { mode: app.exchange_log.mode(), subject: OnceLock::new() }
    }

    /// Reports the task and the result of the request. A request has one result, so only the first report counts.
    pub(crate) fn set<S>(&self, named: Option<&TaskRef>, outcome: Result<&Reply<S>, &Fault>) {
        let failed = match outcome {
            Ok(Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _)) => has_failed(task),
            Ok(_) => false,
            Err(_) => true,
        };
        let is_recorded = match self.mode {
            ExchangeLogMode::Off => false,
            ExchangeLogMode::All => true,
            ExchangeLogMode::Errors => failed,
        };
        let task = match outcome {
            _ if !is_recorded => None,
            Ok(Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _)) => task.id(),
            _ => named.and_then(id),
        };
        if let Some(task) = task {
            // A second report has no effect.
            let _ = self.subject.set(ExchangeSubject { task, failed });
        }
    }
}

const fn has_failed(task: &FrozenTask) -> bool {
    matches!(task.state, TaskState::Failed | TaskState::Rejected)
}

fn id(task: &TaskRef) -> Option<TaskId> {
    match task {
        TaskRef::Id(id) => Some(*id),
        _ => None,
    }
}

/// Serves a request, and records it if its handler reports a task. The caller boxes the future, because by value it
/// would be in the future of every request twice.
pub(crate) async fn record(
    app: &App,
    parts: &request::Parts,
    body: Bytes,
    report: &ExchangeReport,
    serving: Pin<Box<impl Future<Output = Response<Body>>>>,
) -> Response<Body> {
    if report.mode == ExchangeLogMode::Off {
        return serving.await;
    }
    let begun = Instant::now();
    let response = serving.await;
    if let Some(&ExchangeSubject { task, failed }) = report.subject.get() {
        let answer = match response.body() {
            Body::Whole(Some(bytes)) | Body::Counted(Some(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        let served = ServedExchange {
            task,
            method: &parts.method,
            url: parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str),
            headers: &parts.headers,
            body: &body,
            status: response.status(),
            answer_headers: response.headers(),
            answer,
            took: begun.elapsed(),
        };
        app.exchange_log.log_served(&served, failed || response.status().as_u16() >= 400);
    }
    response
}

/// Serves a gRPC call, and records it. `said` is the call if it may be recorded.
pub(crate) async fn record_call(
    app: &App,
    head: &RequestHead<'_>,
    said: Option<Call>,
    report: &ExchangeReport,
    serving: Pin<Box<impl Future<Output = Result<CallResponse, Fault>>>>,
) -> Result<CallResponse, Fault> {
    let Some(said) = said else { return serving.await };
    let begun = Instant::now();
    let answered = serving.await;
    if let Some(&ExchangeSubject { task, failed }) = report.subject.get() {
        let answer = match &answered {
            Ok(CallResponse { reply: Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _), .. }) => {
                Some(task.json.clone())
            }
            Ok(_) => None,
            Err(fault) => Some(Bytes::from(serde_json::json!({ "message": fault.to_string() }).to_string())),
        };
        let (_, body) = sabir_wire::v1::json::write_call(&said);
        let served = ServedExchange {
            task,
            method: &Method::POST,
            url: head.uri.path(),
            headers: head.headers,
            body: body.as_bytes(),
            status: StatusCode::OK,
            answer_headers: &HeaderMap::new(),
            answer: answer.as_deref(),
            took: begun.elapsed(),
        };
        app.exchange_log.log_served(&served, failed);
    }
    answered
}
