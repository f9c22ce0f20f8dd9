//! The callers' side of what is kept of the wire.
//!
//! Which task a request is about is known where it is served, and what was answered where it is written; between the two
//! lie the bindings, which need not know of this. Calls of gRPC are kept as JSON: the bytes of protobuf help nobody. Not
//! kept: requests that are about no task, of which the audit and the log tell; and the events of streams, which are those
//! of the task.

use crate::app::App;
use crate::bind::Head;
use crate::body::Body;
use crate::call::Answered;
use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, request};
use sabir_gateway::wire::{Keep, Served};
use sabir_proto::{Call, Fault, FrozenTask, Reply, Sent, TaskId, TaskRef, TaskState};
use std::cell::Cell;
use std::pin::{Pin, pin};
use std::time::Instant;

tokio::task_local! {
    static LISTENER: Listener;
}

/// Somebody who wants to know what a request is about.
struct Listener {
    /// Even if it comes out well.
    always: bool,
    about: Cell<Option<About>>,
}

/// What a request was about.
#[derive(Debug, Clone, Copy)]
struct About {
    task: TaskId,
    /// It did not come out well.
    failed: bool,
}

/// Says what a request is about, for those who keep it.
pub(crate) fn about<S>(named: Option<&TaskRef>, outcome: Result<&Reply<S>, &Fault>) {
    // Nobody listens where nothing is kept.
    let _ = LISTENER.try_with(|listener| {
        let failed = match outcome {
            Ok(Reply::Sent(Sent::Task(task, _)) | Reply::Task(task, _)) => has_failed(task),
            Ok(_) => false,
            Err(_) => true,
        };
        if failed || listener.always {
            let task = match outcome {
                Ok(Reply::Sent(Sent::Task(task, _)) | Reply::Task(task, _)) => task.id(),
                _ => named.and_then(id),
            };
            listener.about.set(task.map(|task| About { task, failed }));
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

/// The task that a call names.
pub(crate) fn named(call: &Call) -> Option<&TaskRef> {
    match call {
        Call::Send(request) | Call::Stream(request) => request.message.task_id.as_ref(),
        Call::Get(call) => Some(&call.id),
        Call::Cancel(call) => Some(&call.id),
        Call::Subscribe(call) => Some(&call.id),
        Call::CreatePush { task, .. } => Some(task),
        Call::List(_) | Call::GetPush(_) | Call::ListPush(_) | Call::DeletePush(_) | Call::ExtendedCard { .. } => None,
    }
}

/// Serves a request, and keeps it if that is wanted. The serving is boxed by whoever asks: held in here by value it would be
/// in the future of every request twice.
pub(crate) async fn listen(
    app: &App,
    parts: &request::Parts,
    body: Bytes,
    serving: Pin<Box<impl Future<Output = Response<Body>>>>,
) -> Response<Body> {
    if app.wire.keep() == Keep::Off {
        return serving.await;
    }
    let begun = Instant::now();
    let (response, about) = watch(app, serving).await;
    if let Some(About { task, failed }) = about {
        let answer = match response.body() {
            Body::Whole(Some(bytes)) | Body::Counted(Some(bytes)) => Some(&bytes[..]),
            _ => None,
        };
        let served = Served {
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
        app.wire.served(&served, failed || response.status().as_u16() >= 400);
    }
    response
}

/// The same for a call of gRPC. What was said is there where it may be kept.
pub(crate) async fn listen_to_call(
    app: &App,
    head: &Head<'_>,
    said: Option<Call>,
    serving: Pin<Box<impl Future<Output = Result<Answered, Fault>>>>,
) -> Result<Answered, Fault> {
    let Some(said) = said else { return serving.await };
    let begun = Instant::now();
    let (answered, about) = watch(app, serving).await;
    if let Some(About { task, failed }) = about {
        let answer = match &answered {
            Ok(Answered { reply: Reply::Sent(Sent::Task(task, _)) | Reply::Task(task, _), .. }) => {
                Some(task.json.clone())
            }
            Ok(_) => None,
            Err(fault) => Some(Bytes::from(serde_json::json!({ "message": fault.to_string() }).to_string())),
        };
        let (_, body) = sabir_wire::v1::json::write_call(&said);
        let served = Served {
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
        app.wire.served(&served, failed);
    }
    answered
}

/// Serves, and tells what it was about.
async fn watch<T>(app: &App, serving: Pin<Box<impl Future<Output = T>>>) -> (T, Option<About>) {
    let listener = Listener { always: app.wire.keep() == Keep::All, about: Cell::new(None) };
    let mut serving = pin!(LISTENER.scope(listener, serving));
    let done = serving.as_mut().await;
    let about = serving.as_mut().take_value().and_then(|listener| listener.about.take());
    (done, about)
}
