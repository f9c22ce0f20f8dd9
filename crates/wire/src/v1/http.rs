//! A2A 1.0 as HTTP+JSON.
//!
//! | Item | What is there |
//! |---|---|
//! | [`route`], [`read_call`] | paths, queries and bodies to calls, for servers |
//! | [`write_call`], [`read_answer`], [`read_event`] | requests, answers and events for clients |
//! | [`write_error`], [`read_error`] | errors |
//!
//! A colon separates the verb from the last segment (`/tasks/{id}:cancel`), so the path is split at the *last* colon,
//! and ids are percent-decoded after that. Every path may have one segment before it: the tenant.

mod client_codec;
mod error;

pub use client_codec::{read_answer, read_event, write_call};
pub use error::{read_error, write_error, write_error_as};

pub(crate) use error::{JAVA_PACKAGE, PeerError, TEXT_BYTES_MAX, read_refusal, read_stream_error};

use crate::jsonrpc::read_params;
use crate::url::{QueryParameters, decode};
use crate::v1::json::TaskPushConfig;
use ::http::Method;
use sabir_proto::{
    Call, CancelTask, ContextId, DeletePush, Fault, GetPush, GetTask, ListPush, ListTasks, Subscribe, TaskRef,
    TaskState, Tenant, Timestamp,
};
use serde::Deserialize;

/// The result of routing a path of this binding.
#[derive(Debug, PartialEq, Eq)]
pub enum RouteMatch<'a> {
    /// An operation, with the tenant if the path names one.
    Operation(PathOperation<'a>, Option<&'a str>),
    /// A path of this binding with another method; these methods would be right.
    WrongMethod(&'static str),
    /// Not a path of this binding.
    Unknown,
}

/// An operation as the path names it; ids are still percent-encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named like the operations")]
pub enum PathOperation<'a> {
    Send,
    Stream,
    List,
    Get(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
    CreatePush(&'a str),
    ListPush(&'a str),
    GetPush(&'a str, &'a str),
    DeletePush(&'a str, &'a str),
    ExtendedCard,
}

/// Finds the operation of a path below the agent's own prefix. One trailing slash is ignored.
pub fn route<'a>(method: &Method, path: &'a str) -> RouteMatch<'a> {
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    let segments: Vec<&str> = trimmed.splitn(6, '/').collect();
    match route_without_tenant(method, &segments) {
        RouteMatch::Unknown => match segments.split_first() {
            Some((tenant, rest)) if !rest.is_empty() => match route_without_tenant(method, rest) {
                RouteMatch::Operation(route, _) => RouteMatch::Operation(route, Some(tenant)),
                other => other,
            },
            _ => RouteMatch::Unknown,
        },
        found => found,
    }
}

/// Finds the operation of a path without a tenant.
pub(crate) fn route_without_tenant<'a>(method: &Method, segments: &[&'a str]) -> RouteMatch<'a> {
    let (get, post, delete) = (method == Method::GET, method == Method::POST, method == Method::DELETE);
    let when = |allowed: bool, route: PathOperation<'a>, methods: &'static str| {
        if allowed { RouteMatch::Operation(route, None) } else { RouteMatch::WrongMethod(methods) }
    };
    match *segments {
        ["message:send"] => when(post, PathOperation::Send, "POST"),
        ["message:stream"] => when(post, PathOperation::Stream, "POST"),
        ["extendedAgentCard"] => when(get, PathOperation::ExtendedCard, "GET"),
        ["tasks"] => when(get, PathOperation::List, "GET"),
        ["tasks", id] if !id.is_empty() => match id.rsplit_once(':') {
            Some((id, "cancel")) => when(post, PathOperation::Cancel(id), "POST"),
            // The proto says GET, the prose POST; SDKs use both.
            Some((id, "subscribe")) => when(get || post, PathOperation::Subscribe(id), "GET, POST"),
            _ => when(get, PathOperation::Get(id), "GET"),
        },
        ["tasks", id, "pushNotificationConfigs"] if post => RouteMatch::Operation(PathOperation::CreatePush(id), None),
        ["tasks", id, "pushNotificationConfigs"] => when(get, PathOperation::ListPush(id), "GET, POST"),
        ["tasks", task, "pushNotificationConfigs", id] if delete => {
            RouteMatch::Operation(PathOperation::DeletePush(task, id), None)
        }
        ["tasks", task, "pushNotificationConfigs", id] => when(get, PathOperation::GetPush(task, id), "GET, DELETE"),
        _ => RouteMatch::Unknown,
    }
}

/// Reads the call of a route.
pub fn read_call(route: PathOperation<'_>, tenant: Option<&str>, query: &str, body: &[u8]) -> Result<Call, Fault> {
    let query = QueryParameters::read(query)?;
    let mut call = match route {
        PathOperation::Send => Call::Send(read_body(body)?),
        PathOperation::Stream => Call::Stream(read_body(body)?),
        PathOperation::List => Call::List(list(&query)?),
        PathOperation::Get(id) => Call::Get(GetTask {
            tenant: tenant_of(&query)?,
            id: task(id)?,
            history_length: query.number(&["historyLength"])?,
        }),
        PathOperation::Cancel(id) => {
            let body: CancelBody = read_optional(body)?;
            Call::Cancel(CancelTask { tenant: body.tenant.unwrap_or_default(), id: task(id)?, metadata: body.metadata })
        }
        PathOperation::Subscribe(id) => Call::Subscribe(Subscribe { tenant: tenant_of(&query)?, id: task(id)? }),
        PathOperation::CreatePush(id) => {
            let mut config: TaskPushConfig = read_body(body)?;
            // The path names the task (the body may repeat it).
            config.task_id = decode(id)?.into_owned();
            config.try_into()?
        }
        PathOperation::ListPush(id) => Call::ListPush(ListPush {
            tenant: tenant_of(&query)?,
            task_id: task(id)?,
            page_size: query.number(&["pageSize"])?,
            page_token: query.text(&["pageToken"])?.unwrap_or_default(),
        }),
        PathOperation::GetPush(id, config) => {
            Call::GetPush(GetPush { tenant: tenant_of(&query)?, task_id: task(id)?, id: decode(config)?.into_owned() })
        }
        PathOperation::DeletePush(id, config) => Call::DeletePush(DeletePush {
            tenant: tenant_of(&query)?,
            task_id: task(id)?,
            id: decode(config)?.into_owned(),
        }),
        PathOperation::ExtendedCard => Call::ExtendedCard { tenant: tenant_of(&query)? },
    };
    if let Some(tenant) = tenant {
        let tenant = Tenant::parse(&decode(tenant)?).map_err(|e| Fault::invalid("tenant", e.to_string()))?;
        if *call.tenant() != Tenant::none() && *call.tenant() != tenant {
            return Err(Fault::invalid("tenant", "differs between path and request"));
        }
        *call.tenant_mut() = tenant;
    }
    Ok(call)
}

/// The body of a cancel, which is usually missing, empty or `null`.
#[derive(Default, Deserialize)]
struct CancelBody {
    #[serde(default)]
    tenant: Option<Tenant>,
    #[serde(default)]
    metadata: Option<sabir_proto::Object>,
}

fn read_optional<T: Default + for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Fault> {
    match body.trim_ascii() {
        b"" | b"null" => Ok(T::default()),
        body => read_body(body),
    }
}

fn read_body<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Fault> {
    let text = std::str::from_utf8(body).map_err(|e| Fault::Parse(format!("not UTF-8: {e}")))?;
    // Text that is not JSON at all is another error than a wrong member.
    if let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(Fault::Parse(e.to_string()));
    }
    read_params(text)
}

fn list(query: &QueryParameters<'_>) -> Result<ListTasks, Fault> {
    let context_id = match query.text(&["contextId"])?.filter(|t| !t.is_empty()) {
        Some(text) => Some(ContextId::parse(&text).map_err(|e| Fault::invalid("contextId", e.to_string()))?),
        None => None,
    };
    let status = match query.text(&["status"])?.as_deref() {
        None | Some("" | "TASK_STATE_UNSPECIFIED") => None,
        Some(name) => Some(
            TaskState::from_name(name)
                .filter(|s| *s != TaskState::Transferred)
                .ok_or_else(|| Fault::invalid("status", format!("unknown task state {name:?}")))?,
        ),
    };
    let after = match query.text(&["statusTimestampAfter"])?.filter(|t| !t.is_empty()) {
        Some(text) => Some(Timestamp::parse(&text).ok_or_else(|| {
            Fault::invalid("statusTimestampAfter", "not a timestamp; write it like 2026-01-31T09:30:00.000Z, in UTC")
        })?),
        None => None,
    };
    let include_artifacts = match query.text(&["includeArtifacts"])?.as_deref() {
        None | Some("") => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(Fault::invalid("includeArtifacts", "must be true or false")),
    };
    Ok(ListTasks {
        tenant: tenant_of(query)?,
        context_id,
        status,
        page_size: query.number(&["pageSize"])?,
        page_token: query.text(&["pageToken"])?.unwrap_or_default(),
        history_length: query.number(&["historyLength"])?,
        status_timestamp_after: after,
        include_artifacts,
    })
}

fn task(encoded: &str) -> Result<TaskRef, Fault> {
    TaskRef::parse(&decode(encoded)?).map_err(|e| Fault::invalid("id", e.to_string()))
}

fn tenant_of(query: &QueryParameters<'_>) -> Result<Tenant, Fault> {
    Tenant::parse(&query.text(&["tenant"])?.unwrap_or_default()).map_err(|e| Fault::invalid("tenant", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, expected: &RouteMatch<'_>) {
        assert_eq!(route(&method.parse().unwrap(), path), *expected, "{method} {path}");
    }

    #[test]
    fn every_path_of_the_binding_is_found() {
        use PathOperation::{
            Cancel, CreatePush, DeletePush, ExtendedCard, Get, GetPush, List, ListPush, Send, Stream, Subscribe,
        };
        for (method, path, expected) in [
            ("POST", "/message:send", Send),
            ("POST", "/message:stream/", Stream),
            ("GET", "/tasks", List),
            ("GET", "/tasks/7", Get("7")),
            ("GET", "/tasks/a:b", Get("a:b")),
            ("POST", "/tasks/7:cancel", Cancel("7")),
            ("POST", "/tasks/a:b:cancel", Cancel("a:b")),
            ("GET", "/tasks/7:subscribe", Subscribe("7")),
            ("POST", "/tasks/7:subscribe", Subscribe("7")),
            ("POST", "/tasks/7/pushNotificationConfigs", CreatePush("7")),
            ("GET", "/tasks/7/pushNotificationConfigs", ListPush("7")),
            ("GET", "/tasks/7/pushNotificationConfigs/c", GetPush("7", "c")),
            ("DELETE", "/tasks/7/pushNotificationConfigs/c", DeletePush("7", "c")),
            ("GET", "/extendedAgentCard", ExtendedCard),
        ] {
            check(method, path, &RouteMatch::Operation(expected, None));
            check(method, &format!("/acme{path}"), &RouteMatch::Operation(expected, Some("acme")));
        }
        check("GET", "/message:send", &RouteMatch::WrongMethod("POST"));
        check("DELETE", "/tasks/7", &RouteMatch::WrongMethod("GET"));
        for unknown in ["/", "/nothing", "/tasks/7/other", "/a/b/tasks", "/tasks/7/pushNotificationConfigs/c/d"] {
            check("GET", unknown, &RouteMatch::Unknown);
        }
    }

    #[test]
    fn queries_are_decoded_and_checked() {
        let read = |query| read_call(PathOperation::List, None, query, b"");
        let Ok(Call::List(list)) =
            read("contextId=a%20b&status=TASK_STATE_WORKING&pageSize=5&includeArtifacts=true&x=1")
        else {
            panic!("a legal query")
        };
        assert_eq!(list.context_id.unwrap().to_string(), "a b");
        assert_eq!(
            (list.status, list.page_size, list.include_artifacts),
            (Some(TaskState::Working), Some(5), Some(true))
        );
        for bad in [
            "pageSize=five",
            "pageSize=1.5",
            "pageSize=99999999999",
            "status=working",
            "includeArtifacts=yes",
            "statusTimestampAfter=yesterday",
            "contextId=%zz",
            "contextId=%ff",
            "pageSize=1&pageSize=2",
            "tenant=agents",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tenant_in_path_and_body_must_agree() {
        let body = br#"{"tenant":"a","message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;
        assert!(read_call(PathOperation::Send, Some("a"), "", body).is_ok());
        assert!(read_call(PathOperation::Send, Some("b"), "", body).is_err());
    }

    #[test]
    fn a_cancel_needs_no_body() {
        for body in [&b""[..], b"null", b" ", b"{}", br#"{"metadata":{"why":"late"}}"#] {
            assert!(read_call(PathOperation::Cancel("7"), None, "", body).is_ok());
        }
        assert!(read_call(PathOperation::Cancel("7"), None, "", b"{").is_err());
    }
}
