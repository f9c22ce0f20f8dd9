//! HTTP+JSON for clients: writes calls as requests, reads bodies and frames.

use super::error::read_stream_error;
use crate::client_codec::HttpRequest;
use crate::decoded_request::AnswerKind;
use crate::jsonrpc::error_text;
use crate::url::{QueryWriter, encode};
use crate::v1::json::{self, TaskPushOut};
use ::http::Method;
use sabir_proto::{
    Call, CancelTask, Fault, ListTasks, Message, Object, SendConfiguration, SendMessage, TaskRef, TaskState, WireEvent,
    WireReply,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Writes a call. The tenant is only in the path. The ids of the task and the configuration are in path and body, as in
/// the SDKs: a server may read them from either.
///
/// A server that answers a `POST …:subscribe` with 405 wants a GET: the prose asks for the one, the proto for the
/// other.
pub fn write_call(call: &Call) -> HttpRequest {
    let of_task = |id: &TaskRef| format!("/tasks/{}", encode(&id.to_string()));
    let of_pushes = |id: &TaskRef| format!("{}/pushNotificationConfigs", of_task(id));
    let of_push = |task: &TaskRef, id: &str| format!("{}/{}", of_pushes(task), encode(id));
    let (get, post) = (Method::GET, Method::POST);
    let mut query = QueryWriter::default();
    let (method, path, body) = match call {
        Call::Send(send) => (post, "/message:send".into(), Some(body(&SendMessageRequest::of(send)))),
        Call::Stream(send) => (post, "/message:stream".into(), Some(body(&SendMessageRequest::of(send)))),
        Call::Get(call) => {
            query.add("historyLength", call.history_length);
            (get, of_task(&call.id), None)
        }
        Call::List(call) => {
            add_list(&mut query, call);
            (get, "/tasks".into(), None)
        }
        Call::Cancel(call) => (post, format!("{}:cancel", of_task(&call.id)), Some(body(&CancelTaskRequest::of(call)))),
        Call::Subscribe(call) => (post, format!("{}:subscribe", of_task(&call.id)), None),
        Call::CreatePush { task, config, .. } => {
            (post, of_pushes(task), Some(body(&TaskPushOut { task_id: task, config })))
        }
        Call::GetPush(call) => (get, of_push(&call.task_id, &call.id), None),
        Call::ListPush(call) => {
            query.add("pageSize", call.page_size);
            query.add_text("pageToken", &call.page_token);
            (get, of_pushes(&call.task_id), None)
        }
        Call::DeletePush(call) => (Method::DELETE, of_push(&call.task_id, &call.id), None),
        Call::ExtendedCard { .. } => (get, "/extendedAgentCard".into(), None),
    };
    let tenant = match call.tenant().as_str() {
        "" => String::new(),
        tenant => format!("/{}", encode(tenant)),
    };
    HttpRequest {
        method,
        path: format!("{tenant}{path}{}", query.as_str()),
        body,
        answer_kind: AnswerKind::of_call(call),
    }
}

/// `SendMessageRequest`, without the tenant.
#[derive(Serialize)]
struct SendMessageRequest<'a> {
    message: &'a Message,
    configuration: &'a SendConfiguration,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
}

impl<'a> SendMessageRequest<'a> {
    const fn of(send: &'a SendMessage) -> Self {
        Self { message: &send.message, configuration: &send.configuration, metadata: send.metadata.as_ref() }
    }
}

/// `CancelTaskRequest`, without the tenant.
#[derive(Serialize)]
struct CancelTaskRequest<'a> {
    id: &'a TaskRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Object>,
}

impl<'a> CancelTaskRequest<'a> {
    const fn of(call: &'a CancelTask) -> Self {
        Self { id: &call.id, metadata: call.metadata.as_ref() }
    }
}

fn body(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("our types serialise")
}

fn add_list(query: &mut QueryWriter, call: &ListTasks) {
    query.add("contextId", call.context_id.as_ref());
    query.add("status", call.status.map(TaskState::name));
    query.add("pageSize", call.page_size);
    query.add_text("pageToken", &call.page_token);
    query.add("historyLength", call.history_length);
    query.add("statusTimestampAfter", call.status_timestamp_after);
    query.add("includeArtifacts", call.include_artifacts);
}

/// Reads the body of an answer. The answer to a deletion may have any body: some servers send nothing, some an empty
/// object.
pub fn read_answer(asked: AnswerKind, body: &[u8]) -> Result<WireReply, Fault> {
    match asked {
        AnswerKind::Deletion => Ok(WireReply::Deleted),
        _ => json::read_answer(asked, raw(body)?),
    }
}

/// Reads one event of a stream: the data of a frame. An error that ends the stream is read as its fault.
pub fn read_event(data: &str) -> Result<WireEvent, Fault> {
    json::read_event(raw(data.as_bytes())?).map_err(|fault| read_stream_error(data.as_bytes()).unwrap_or(fault))
}

fn raw(body: &[u8]) -> Result<&RawValue, Fault> {
    serde_json::from_slice(body).map_err(|e| Fault::InvalidAgentResponse(error_text(&e)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sabir_proto::{ContextId, FaultCode, GetTask, Subscribe, Tenant, Timestamp};

    #[track_caller]
    fn check(call: &Call, method: Method, path: &str, body: Option<&str>) {
        let written = write_call(call);
        let text = written.body.map(|body| String::from_utf8(body).unwrap());
        assert_eq!((written.method, &*written.path, text.as_deref()), (method, path, body));
    }

    #[test]
    fn names_are_encoded_and_the_tenant_comes_first() {
        let id = || TaskRef::parse("a/b c:cancel").unwrap();
        let tenant = Tenant::of_peer("a/ä");
        let get = GetTask { tenant: tenant.clone(), id: id(), history_length: Some(0) };
        check(&Call::Get(get), Method::GET, "/a%2F%C3%A4/tasks/a%2Fb%20c%3Acancel?historyLength=0", None);
        let subscribe = Subscribe { tenant: Tenant::none(), id: id() };
        check(&Call::Subscribe(subscribe), Method::POST, "/tasks/a%2Fb%20c%3Acancel:subscribe", None);
        let cancel = CancelTask { tenant: tenant.clone(), id: id(), metadata: None };
        let body = Some(r#"{"id":"a/b c:cancel"}"#);
        check(&Call::Cancel(cancel), Method::POST, "/a%2F%C3%A4/tasks/a%2Fb%20c%3Acancel:cancel", body);
        let list = ListTasks {
            tenant,
            context_id: ContextId::parse("c 1").ok(),
            status: Some(TaskState::Working),
            status_timestamp_after: Timestamp::parse("2026-01-31T09:30:00.000Z"),
            include_artifacts: Some(true),
            ..ListTasks::default()
        };
        let query = concat!(
            "/a%2F%C3%A4/tasks?contextId=c%201&status=TASK_STATE_WORKING",
            "&statusTimestampAfter=2026-01-31T09%3A30%3A00.000Z&includeArtifacts=true",
        );
        check(&Call::List(list), Method::GET, query, None);
    }

    #[test]
    fn a_deletion_may_be_answered_with_anything() {
        for body in [&b""[..], b"{}", b"null", b"\xFF"] {
            assert_eq!(read_answer(AnswerKind::Deletion, body), Ok(WireReply::Deleted));
            assert!(matches!(read_answer(AnswerKind::Task, body), Err(Fault::InvalidAgentResponse(_))));
        }
    }

    #[test]
    fn an_error_in_a_stream_is_that_error() {
        let data = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"gone"}}"#;
        let gone = Fault::Peer { code: FaultCode::TaskNotFound, message: "gone".into(), task: None };
        assert_eq!(read_event(data), Err(gone));
        for data in ["{}", "", "[]", r#"{"task":{}}"#, r#"{"message":7}"#] {
            assert!(matches!(read_event(data), Err(Fault::InvalidAgentResponse(_))), "{data}");
        }
    }
}
