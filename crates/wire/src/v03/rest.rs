//! A2A 0.3 as REST: paths below `/v1`, and bodies that follow its protobuf messages rather than its JSON Schema.
//!
//! | Item | What is there |
//! |---|---|
//! | [`route`], [`read_call`], [`write_call`] | paths and requests: read by servers, written by clients |
//! | [`write_answer`], [`write_event`] | answers and events; `read_…` for clients |
//! | [`write_error`], [`read_error`] | errors, in a body that every kind of 0.3 peer can read |
//!
//! We write camel case, enum names and the members of the proto, nothing else, because the Python SDK refuses an answer
//! with an unknown member. Its first five releases, 0.3.0 to 0.3.4, refuse the metadata of a part, and two of them the
//! name of a file; we cannot tell them from later releases that read both. The name of a file is written only to peers
//! in Python, because the SDK for Java refuses a whole message for it. We also read snake case (the Python SDK sends
//! it), enum numbers, and `null` for unset.
//!
//! Some peers send the JSON-Schema shape of JSON-RPC here (`kind`, `parts`, `user`). It is recognised by its marks and
//! read by its own rules: without `blocking` the server waits in that shape, and does not in the shape of the proto.

mod card;
mod error;
mod read;
mod reply;
mod write;

pub use crate::v1::http::{PathOperation, RouteMatch};
pub use error::{ErrorReader, read_error, write_error};
pub use reply::{read_answer, read_event, write_answer, write_event};

use super::files::FileEncoding;
use super::grpc::{LossRecorder, create_push_call, list_not_supported};
use super::json;
use crate::client_codec::HttpRequest;
use crate::decoded_request::AnswerKind;
use crate::jsonrpc::read_params;
use crate::losses::Losses;
use crate::url::{QueryParameters, QueryWriter, decode, encode};
use crate::v1::http::route_without_tenant;
use ::http::Method;
use sabir_proto::{
    Call, CancelTask, DeletePush, Fault, GetPush, GetTask, ListPush, MessageId, SendMessage, Subscribe, TaskRef, Tenant,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Finds the operation of a path below the agent's own prefix, with its `/v1`. One trailing slash is ignored. The paths
/// are those of 1.0 below `/v1`, except for the card, and without a list of tasks or tenants.
pub fn route<'a>(method: &Method, path: &'a str) -> RouteMatch<'a> {
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    let segments: Vec<&str> = trimmed.splitn(6, '/').collect();
    match *segments {
        ["v1", "tasks" | "extendedAgentCard"] => RouteMatch::Unknown,
        ["v1", "card"] => route_without_tenant(method, &["extendedAgentCard"]),
        // The proto of the release has `task` instead of `tasks` here, by mistake and only here.
        ["v1", "task", id, "pushNotificationConfigs"] if method == Method::POST => {
            RouteMatch::Operation(PathOperation::CreatePush(id), None)
        }
        ["v1", ref below @ ..] => route_without_tenant(method, below),
        _ => RouteMatch::Unknown,
    }
}

/// Reads the call of a route. `files` is the client's encoding of files in the shape of the proto.
pub fn read_call(
    route: PathOperation<'_>,
    query: &str,
    body: &[u8],
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Call, Fault> {
    let query = QueryParameters::read(query)?;
    let tenant = Tenant::none();
    Ok(match route {
        PathOperation::Send => Call::Send(read_send(body, files, mint, losses)?),
        PathOperation::Stream => Call::Stream(read_send(body, files, mint, losses)?),
        PathOperation::Get(id) => {
            // A query parameter of zero means "none", as in JSON-RPC and 1.0. Only a body in the shape of the proto
            // cannot tell a zero from a missing number.
            let history_length = query.number(&["historyLength", "history_length"])?;
            Call::Get(GetTask { tenant, id: task(id)?, history_length })
        }
        PathOperation::Cancel(id) => {
            let CancelTaskBody { metadata } = read_optional(body)?;
            Call::Cancel(CancelTask { tenant, id: task(id)?, metadata })
        }
        PathOperation::Subscribe(id) => Call::Subscribe(Subscribe { tenant, id: task(id)? }),
        PathOperation::CreatePush(id) => {
            let body: read::CreatePush = read_body(text(body)?)?;
            // The path names the task (the body repeats it as `parent`).
            let (beside, config) = body.into_canonical(losses)?;
            create_push_call(task(id)?, beside, config)?
        }
        PathOperation::ListPush(id) => Call::ListPush(ListPush {
            tenant,
            task_id: task(id)?,
            page_size: query.number(&["pageSize", "page_size"])?.filter(|n| *n != 0),
            page_token: query.text(&["pageToken", "page_token"])?.unwrap_or_default(),
        }),
        PathOperation::GetPush(id, config) => Call::GetPush(GetPush { tenant, task_id: task(id)?, id: push(config)? }),
        PathOperation::DeletePush(id, config) => {
            Call::DeletePush(DeletePush { tenant, task_id: task(id)?, id: push(config)? })
        }
        PathOperation::ExtendedCard => Call::ExtendedCard { tenant },
        PathOperation::List => return Err(list_not_supported()),
    })
}

fn read_send(
    body: &[u8],
    files: FileEncoding,
    mint: &mut dyn FnMut() -> MessageId,
    losses: &mut Losses,
) -> Result<Box<SendMessage>, Fault> {
    let text = text(body)?;
    // The body is parsed twice only if it has the other shape: the usual body is parsed once.
    match read_body::<read::SendMessageRequest>(text) {
        Ok(send) if send.has_parts() => json::read_send(read_body(text)?, mint, losses),
        Ok(send) => {
            let mut send = Box::new(send.into_canonical(losses));
            files.read_message(&mut send.message);
            Ok(send)
        }
        Err(_) if has_parts(text) => json::read_send(read_body(text)?, mint, losses),
        Err(fault) => Err(fault),
    }
}

/// Whether a body that is not of the proto's shape has the mark of the JSON-Schema shape: a message with `parts`.
fn has_parts(text: &str) -> bool {
    #[derive(Deserialize)]
    struct SendBody {
        #[serde(alias = "request")]
        message: MessageMarks,
    }
    #[derive(Deserialize)]
    struct MessageMarks {
        parts: Option<IgnoredAny>,
        content: Option<IgnoredAny>,
    }
    let body: Result<SendBody, _> = serde_json::from_str(text);
    body.is_ok_and(|body| body.message.parts.is_some() && body.message.content.is_none())
}

/// The body of a cancel, which is usually missing, empty or `null`. The proto of the release has no metadata here, its
/// JSON Schema has.
#[derive(Default, Deserialize)]
struct CancelTaskBody {
    #[serde(default)]
    metadata: Option<sabir_proto::Object>,
}

fn read_optional<T: Default + for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Fault> {
    match body.trim_ascii() {
        b"" | b"null" => Ok(T::default()),
        body => read_body(text(body)?),
    }
}

fn text(body: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(body).map_err(|e| Fault::Parse(format!("not UTF-8: {e}")))
}

fn read_body<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Fault> {
    // Text that is not JSON at all is another error than a wrong member.
    if let Err(e) = serde_json::from_str::<IgnoredAny>(text) {
        return Err(Fault::Parse(e.to_string()));
    }
    read_params(text)
}

fn task(encoded: &str) -> Result<TaskRef, Fault> {
    TaskRef::parse(&decode(encoded)?).map_err(|e| Fault::invalid("id", e.to_string()))
}

fn push(encoded: &str) -> Result<String, Fault> {
    Ok(decode(encoded)?.into_owned())
}

/// Writes a call to a server with the file encoding `files`. Fails for a list of tasks, which 0.3 does not have.
///
/// A server that answers a `POST …:subscribe` with 405 wants a GET.
pub fn write_call(call: &Call, files: FileEncoding, losses: &mut Losses) -> Result<HttpRequest, Fault> {
    let (get, post) = (Method::GET, Method::POST);
    let of_task = |id: &TaskRef| format!("/v1/tasks/{}", encode(&id.to_string()));
    let of_pushes = |id: &TaskRef| format!("{}/pushNotificationConfigs", of_task(id));
    let of_push = |task: &TaskRef, id: &str| format!("{}/{}", of_pushes(task), encode(id));
    let mut query = QueryWriter::default();
    let (method, path, body) = match call {
        Call::Send(send) => {
            (post, "/v1/message:send".to_owned(), Some(write::body(&write::SendMessageRequest::of(send, files))))
        }
        Call::Stream(send) => {
            (post, "/v1/message:stream".to_owned(), Some(write::body(&write::SendMessageRequest::of(send, files))))
        }
        Call::Get(call) => {
            query.add("historyLength", call.history_length);
            (get, of_task(&call.id), None)
        }
        Call::Cancel(call) => (post, format!("{}:cancel", of_task(&call.id)), None),
        Call::Subscribe(call) => (post, format!("{}:subscribe", of_task(&call.id)), None),
        Call::CreatePush { task, config, .. } => {
            (post, of_pushes(task), Some(write::body(&write::CreatePush::of(task, config))))
        }
        Call::ListPush(call) => {
            query.add("pageSize", call.page_size);
            query.add_text("pageToken", &call.page_token);
            (get, of_pushes(&call.task_id), None)
        }
        Call::GetPush(call) => (get, of_push(&call.task_id, &call.id), None),
        Call::DeletePush(call) => (Method::DELETE, of_push(&call.task_id, &call.id), None),
        Call::ExtendedCard { .. } => (get, "/v1/card".to_owned(), None),
        Call::List(_) => return Err(list_not_supported()),
    };
    LossRecorder::rest(files, losses).call(call);
    Ok(HttpRequest { method, path: path + query.as_str(), body, answer_kind: AnswerKind::of_call(call) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mint() -> MessageId {
        MessageId::parse("minted").unwrap()
    }

    #[track_caller]
    fn check(method: &str, path: &str, expected: &RouteMatch<'_>) {
        assert_eq!(route(&method.parse().unwrap(), path), *expected, "{method} {path}");
    }

    #[test]
    fn every_path_of_the_binding_is_found() {
        use PathOperation::{
            Cancel, CreatePush, DeletePush, ExtendedCard, Get, GetPush, ListPush, Send, Stream, Subscribe,
        };
        for (method, path, expected) in [
            ("POST", "/v1/message:send", Send),
            ("POST", "/v1/message:stream/", Stream),
            ("GET", "/v1/tasks/7", Get("7")),
            ("GET", "/v1/tasks/a:b", Get("a:b")),
            ("POST", "/v1/tasks/7:cancel", Cancel("7")),
            ("POST", "/v1/tasks/a:b:cancel", Cancel("a:b")),
            ("GET", "/v1/tasks/7:subscribe", Subscribe("7")),
            ("POST", "/v1/tasks/7:subscribe", Subscribe("7")),
            ("POST", "/v1/tasks/7/pushNotificationConfigs", CreatePush("7")),
            ("POST", "/v1/task/7/pushNotificationConfigs", CreatePush("7")),
            ("GET", "/v1/tasks/7/pushNotificationConfigs", ListPush("7")),
            ("GET", "/v1/tasks/7/pushNotificationConfigs/c", GetPush("7", "c")),
            ("DELETE", "/v1/tasks/7/pushNotificationConfigs/c", DeletePush("7", "c")),
            ("GET", "/v1/card", ExtendedCard),
        ] {
            check(method, path, &RouteMatch::Operation(expected, None));
        }
        check("GET", "/v1/message:send", &RouteMatch::WrongMethod("POST"));
        check("DELETE", "/v1/tasks/7", &RouteMatch::WrongMethod("GET"));
        check("PUT", "/v1/tasks/7:subscribe", &RouteMatch::WrongMethod("GET, POST"));
        for unknown in [
            "/",
            "/v1",
            "/v1/tasks",
            "/v1/tasks/",
            "/tasks/7",
            "/v1/task/7",
            "/v1/task/7/pushNotificationConfigs",
            "/v1/acme/tasks/7",
            "/v1/tasks/7/other",
            "/v1/tasks/7/pushNotificationConfigs/c/d",
        ] {
            check("GET", unknown, &RouteMatch::Unknown);
        }
    }

    #[test]
    fn queries_are_read_in_both_spellings_and_checked() {
        let read =
            |query| read_call(PathOperation::Get("7"), query, b"", FileEncoding::Base64, &mut mint, &mut Losses::new());
        for (query, length) in [
            ("historyLength=5", Some(5)),
            ("history_length=5&x=1", Some(5)),
            ("historyLength=0", Some(0)),
            ("historyLength=", None),
            ("", None),
        ] {
            let Ok(Call::Get(get)) = read(query) else { panic!("{query}") };
            assert_eq!(get.history_length, length, "{query}");
        }
        for bad in ["historyLength=five", "historyLength=1&history_length=1", "historyLength=%zz", "a=1&a=2"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cancel_needs_no_body() {
        for body in [&b""[..], b"null", b" ", b"{}", br#"{"name":"tasks/7","metadata":{"why":"late"}}"#] {
            assert!(
                read_call(PathOperation::Cancel("7"), "", body, FileEncoding::Base64, &mut mint, &mut Losses::new())
                    .is_ok()
            );
        }
        assert!(
            read_call(PathOperation::Cancel("7"), "", b"{", FileEncoding::Base64, &mut mint, &mut Losses::new())
                .is_err()
        );
    }
}
