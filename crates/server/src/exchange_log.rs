//! Records requests of callers and our responses in the exchange log.
//!
//! The handler of a call knows its task, and the writer of the response knows the bytes; the bindings between them know
//! nothing of this module. gRPC calls are recorded as JSON, because protobuf bytes are unreadable. Not recorded:
//! requests without a task, which are in the audit and the log, and the events of streams, which are in the task log.

use crate::app::App;
use crate::bind::RequestHead;
use crate::body::Body;
use crate::call::CallResponse;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, request};
use sabir_gateway::exchange_log::{ExchangeLogMode, ServedExchange};
use sabir_proto::{Call, Fault, FrozenTask, Reply, SendReply, TaskId, TaskRef, TaskState};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::time::Instant;

tokio::task_local! {
    static LISTENER: ExchangeContext;
}

/// What the handler reports about a request that may be recorded.
struct ExchangeContext {
    /// Whether successful requests are recorded too.
    always: bool,
    subject: Cell<Option<ExchangeSubject>>,
}

/// The task and the result of a request.
#[derive(Debug, Clone, Copy)]
struct ExchangeSubject {
    task: TaskId,
    /// Whether the request or its task failed.
    failed: bool,
}

/// Reports the task and the result of a request to its recorder.
pub(crate) fn report_subject<S>(named: Option<&TaskRef>, outcome: Result<&Reply<S>, &Fault>) {
    // There is no recorder if nothing is recorded.
    let _ = LISTENER.try_with(|listener| {
        let failed = match outcome {
            Ok(Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _)) => has_failed(task),
            Ok(_) => false,
            Err(_) => true,
        };
        if failed || listener.always {
            let task = match outcome {
                Ok(Reply::Sent(SendReply::Task(task, _)) | Reply::Task(task, _)) => task.id(),
                _ => named.and_then(id),
            };
            listener.subject.set(task.map(|task| ExchangeSubject { task, failed }));
        }
    });
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

/// Serves a request, and records it if the settings say so. The caller boxes the future, because by value it would be
/// in the future of every request twice.
pub(crate) async fn record(
    app: &App,
    parts: &request::Parts,
    body: Bytes,
    serving: Pin<Box<impl Future<Output = Response<Body>>>>,
) -> Response<Body> {
    if app.exchange_log.mode() == ExchangeLogMode::Off {
        return serving.await;
    }
    let begun = Instant::now();
    let (response, about) = run_in_context(app, serving).await;
    if let Some(ExchangeSubject { task, failed }) = about {
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
    serving: Pin<Box<impl Future<Output = Result<CallResponse, Fault>>>>,
) -> Result<CallResponse, Fault> {
    let Some(said) = said else { return serving.await };
    let begun = Instant::now();
    let (answered, about) = run_in_context(app, serving).await;
    if let Some(ExchangeSubject { task, failed }) = about {
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

/// Runs the future, and returns what its handler reported.
async fn run_in_context<T>(app: &App, serving: Pin<Box<impl Future<Output = T>>>) -> (T, Option<ExchangeSubject>) {
    let listener =
        ExchangeContext { always: app.exchange_log.mode() == ExchangeLogMode::All, subject: Cell::new(None) };
    let mut serving = pin!(LISTENER.scope(listener, serving));
    let done = serving.as_mut().await;
    let about = serving.as_mut().take_value().and_then(|listener| listener.subject.take());
    (done, about)
}
