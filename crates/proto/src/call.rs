//! The internal form of a request: the eleven operations of A2A 1.0, for every dialect.

use crate::lenient::{empty_none, int32, is_false, null_default, object, optional_object};
use crate::transfer::HandoffClaim;
use crate::{CallAttachment, ContextId, Message, Object, PushConfig, Seq, TaskRef, TaskState, Tenant, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One request of a caller, decoded from any dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `SendMessage`
    Send(Box<SendMessage>),
    /// `SendStreamingMessage`
    Stream(Box<SendMessage>),
    /// `GetTask`
    Get(GetTask),
    /// `ListTasks`
    List(ListTasks),
    /// `CancelTask`
    Cancel(CancelTask),
    /// `SubscribeToTask`
    Subscribe(Subscribe),
    /// `CreateTaskPushNotificationConfig`
    CreatePush {
        /// The tenant that the caller names.
        tenant: Tenant,
        /// The task to watch.
        task: TaskRef,
        /// What to register.
        config: PushConfig,
    },
    /// `GetTaskPushNotificationConfig`
    GetPush(GetPush),
    /// `ListTaskPushNotificationConfigs`
    ListPush(ListPush),
    /// `DeleteTaskPushNotificationConfig`
    DeletePush(DeletePush),
    /// `GetExtendedAgentCard`
    ExtendedCard {
        /// The tenant that the caller names.
        tenant: Tenant,
    },
}

impl Call {
    /// The operation's name, as metrics and logs show it.
    pub const fn operation(&self) -> &'static str {
        match self {
            Self::Send(_) => "SendMessage",
            Self::Stream(_) => "SendStreamingMessage",
            Self::Get(_) => "GetTask",
            Self::List(_) => "ListTasks",
            Self::Cancel(_) => "CancelTask",
            Self::Subscribe(_) => "SubscribeToTask",
            Self::CreatePush { .. } => "CreateTaskPushNotificationConfig",
            Self::GetPush(_) => "GetTaskPushNotificationConfig",
            Self::ListPush(_) => "ListTaskPushNotificationConfigs",
            Self::DeletePush(_) => "DeleteTaskPushNotificationConfig",
            Self::ExtendedCard { .. } => "GetExtendedAgentCard",
        }
    }
}

impl Call {
    /// The tenant that the caller names.
    pub const fn tenant(&self) -> &Tenant {
        match self {
            Self::Send(c) | Self::Stream(c) => &c.tenant,
            Self::Get(c) => &c.tenant,
            Self::List(c) => &c.tenant,
            Self::Cancel(c) => &c.tenant,
            Self::Subscribe(c) => &c.tenant,
            Self::GetPush(c) => &c.tenant,
            Self::ListPush(c) => &c.tenant,
            Self::DeletePush(c) => &c.tenant,
            Self::CreatePush { tenant, .. } | Self::ExtendedCard { tenant } => tenant,
        }
    }

    /// The tenant as a mutable reference, so that a server can set it from the URL path.
    pub const fn tenant_mut(&mut self) -> &mut Tenant {
        match self {
            Self::Send(c) | Self::Stream(c) => &mut c.tenant,
            Self::Get(c) => &mut c.tenant,
            Self::List(c) => &mut c.tenant,
            Self::Cancel(c) => &mut c.tenant,
            Self::Subscribe(c) => &mut c.tenant,
            Self::GetPush(c) => &mut c.tenant,
            Self::ListPush(c) => &mut c.tenant,
            Self::DeletePush(c) => &mut c.tenant,
            Self::CreatePush { tenant, .. } | Self::ExtendedCard { tenant } => tenant,
        }
    }
}

/// The metadata member of a message that carries the lineage of its task: the chain of parent tasks.
pub const LINEAGE: &str = "urn:sabir:ext:lineage:v1";

/// The header that repeats the lineage, for proxies that keep headers and drop metadata.
pub const LINEAGE_HEADER: &str = "sabir-lineage";

/// The metadata member in which a message to another agent of this server lists the capabilities that the receiver may
/// use. The list can only narrow what the receiver may do.
pub const SCOPE: &str = "urn:sabir:ext:scope:v1";

/// The metadata member in which XPR clients state their account. The value is not authenticated.
pub const CALLER_ACCOUNT: &str = "xpr:callerAccount";

/// The service parameters of a request: what a caller sends beside the operation, over any binding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceParameters {
    /// The explicit retry key of the caller, if it sends one.
    pub idempotency_key: Option<String>,
    /// The time of the first attempt, for retry keys that are valid only for that time. Every retry repeats it.
    pub sent_at: Option<Timestamp>,
    /// The last event that the caller has received.
    pub last_event_id: Option<Seq>,
    /// URIs of the extensions that the caller wants active.
    pub extensions: Vec<String>,
    /// The lineage from [`LINEAGE_HEADER`], in JSON, where the message itself has none. It is a claim of the caller.
    pub lineage: Option<String>,
    /// Proves that a task was handed over for this caller.
    pub claim: Option<HandoffClaim>,
    /// The name of the caller's dialect, in which the server also sends its push notifications. Empty where no caller
    /// sent the request.
    pub dialect: &'static str,
    /// What the server tells the agent beside the message.
    pub attachment: CallAttachment,
}

/// The request of `SendMessage` and `SendStreamingMessage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The message to send.
    #[serde(deserialize_with = "object")]
    pub message: Message,
    /// How the caller wants the message to be handled.
    #[serde(default, deserialize_with = "configuration")]
    pub configuration: SendConfiguration,
    /// Metadata of the request, of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// The caller's own name for the task, in dialects where callers name tasks. The message continues the unfinished
    /// task of that name, or opens a new one.
    #[serde(skip)]
    pub alias: Option<Arc<str>>,
    /// The caller needs a task in any case: its dialect has no direct replies.
    #[serde(skip)]
    pub wants_task: bool,
}

fn configuration<'de, D: serde::Deserializer<'de>>(d: D) -> Result<SendConfiguration, D::Error> {
    Ok(optional_object(d)?.unwrap_or_default())
}

/// How a caller wants a message to be handled (`SendMessageConfiguration`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendConfiguration {
    /// Media types that the caller accepts.
    #[serde(
        alias = "accepted_output_modes",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub accepted_output_modes: Vec<String>,
    /// A push notification configuration to register with the task.
    #[serde(
        alias = "task_push_notification_config",
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_push_notification_config: Option<PushConfig>,
    /// The largest number of history messages in the reply.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// Return at once instead of waiting until the task settles.
    #[serde(
        alias = "return_immediately",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "is_false"
    )]
    pub return_immediately: bool,
}

/// The request of `GetTask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTask {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task to read, by id or by the caller's own name.
    pub id: TaskRef,
    /// The largest number of history messages in the reply.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
}

/// The request of `ListTasks`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasks {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// List only tasks of this context.
    #[serde(alias = "context_id", default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// List only tasks in this state.
    #[serde(default, deserialize_with = "state_or_unspecified", skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskState>,
    /// The largest number of tasks on a page.
    #[serde(alias = "page_size", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// The page token of the previous page; empty for the first page.
    #[serde(
        alias = "page_token",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub page_token: String,
    /// The largest number of history messages per task.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// List only tasks whose status is not older than this.
    #[serde(alias = "status_timestamp_after", default, skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<Timestamp>,
    /// Whether the reply includes artifacts.
    #[serde(alias = "include_artifacts", default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// A filter may carry the enum's zero value, which means "any" (generated clients send it).
fn state_or_unspecified<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<TaskState>, D::Error> {
    crate::task::enum_name(d, |name| match name {
        "TASK_STATE_UNSPECIFIED" | "0" | "" => Ok(None),
        // This state is internal to Sabir; on the wire such tasks show as completed.
        "TASK_STATE_TRANSFERRED" | "9" => Err(format!("unknown task state {name:?}")),
        name => TaskState::from_name(name).map(Some).ok_or_else(|| format!("unknown task state {name:?}")),
    })
}

/// The request of `CancelTask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelTask {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task to cancel, by id or by the caller's own name.
    pub id: TaskRef,
    /// Metadata of the request, of any shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// The request of `SubscribeToTask`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task to follow, by id or by the caller's own name.
    pub id: TaskRef,
}

/// The request of `GetTaskPushNotificationConfig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPush {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task that the configuration belongs to.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// The id of the configuration.
    pub id: String,
}

/// The request of `ListTaskPushNotificationConfigs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPush {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task whose configurations to list.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// The largest number of configurations on a page.
    #[serde(alias = "page_size", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// The page token of the previous page; empty for the first page.
    #[serde(
        alias = "page_token",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub page_token: String,
}

/// The request of `DeleteTaskPushNotificationConfig`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletePush {
    /// The tenant that the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// The task that the configuration belongs to.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// The id of the configuration.
    pub id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_protojson_writes_them_and_others_are_not() {
        let read = |n: &str| serde_json::from_str::<GetTask>(&format!("{{\"id\":\"t\",\"historyLength\":{n}}}"));
        for (text, value) in [("5", Some(5)), ("5.0", Some(5)), ("\"5\"", Some(5)), ("null", None), ("-1", Some(-1))] {
            assert_eq!(read(text).unwrap().history_length, value, "{text}");
        }
        for bad in ["5.5", "99999999999", "1e99", "\"five\"", "true", "[]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unspecified_state_is_no_filter() {
        for text in ["null", "0", "\"TASK_STATE_UNSPECIFIED\""] {
            let list: ListTasks = serde_json::from_str(&format!("{{\"status\":{text}}}")).unwrap();
            assert_eq!(list.status, None);
        }
        assert!(serde_json::from_str::<ListTasks>(r#"{"status":"TASK_STATE_TRANSFERRED"}"#).is_err());
    }
}
