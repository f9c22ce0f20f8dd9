//! The waist, inward: the eleven operations of A2A 1.0, whatever tongue they were spoken in.

use crate::lenient::{empty_none, int32, is_false, null_default, object, optional_object};
use crate::transfer::Claim;
use crate::{ContextId, Message, Object, PushConfig, Seq, TaskRef, TaskState, Tenant, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One request of a caller.
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
        /// The tenant the caller names.
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
        /// The tenant the caller names.
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
    /// The tenant the caller names.
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

    /// The same, to be filled from a path.
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

/// Under which name what came before a task travels in the metadata of a message.
pub const LINEAGE: &str = "urn:sabir:ext:lineage:v1";

/// The header that says the same, for those who pass headers on and drop metadata.
pub const LINEAGE_HEADER: &str = "sabir-lineage";

/// Where a message to another agent of this server says what that agent may do with it, by the names of capabilities.
/// Such a list can only narrow what its reader may do.
pub const SCOPE: &str = "urn:sabir:ext:scope:v1";

/// Under which name callers of one dialect say in metadata who they are, which nobody has checked.
pub const CALLER_ACCOUNT: &str = "xpr:callerAccount";

/// What a caller says beside the operation: service parameters of whatever binding it used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// An explicit retry key.
    pub idempotency_key: Option<String>,
    /// When it was sent first, where the key is for that moment alone: the same with every copy of the send.
    pub sent_at: Option<Timestamp>,
    /// The last event the caller has seen.
    pub last_event_id: Option<Seq>,
    /// URIs of the extensions the caller wants active.
    pub extensions: Vec<String>,
    /// What came before, as a caller says it whose message does not: a claim, in JSON.
    pub lineage: Option<String>,
    /// What shows that a task was handed over for this caller.
    pub claim: Option<Claim>,
    /// The name of the dialect the caller speaks: what is pushed to it later is told in the same. Empty where nobody
    /// was heard.
    pub dialect: &'static str,
}

/// `SendMessageRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessage {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// What is said.
    #[serde(deserialize_with = "object")]
    pub message: Message,
    /// How the caller wants it handled.
    #[serde(default, deserialize_with = "configuration")]
    pub configuration: SendConfiguration,
    /// Free metadata of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// The caller's own name for the task, in dialects where callers name their tasks. It continues the unfinished task
    /// of that name and opens one otherwise.
    #[serde(skip)]
    pub alias: Option<Arc<str>>,
    /// A task is wanted in any case: the caller's dialect has no direct replies.
    #[serde(skip)]
    pub wants_task: bool,
}

fn configuration<'de, D: serde::Deserializer<'de>>(d: D) -> Result<SendConfiguration, D::Error> {
    Ok(optional_object(d)?.unwrap_or_default())
}

/// `SendMessageConfiguration`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendConfiguration {
    /// Media types the caller can take.
    #[serde(
        alias = "accepted_output_modes",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub accepted_output_modes: Vec<String>,
    /// A push configuration to register with the task.
    #[serde(
        alias = "task_push_notification_config",
        default,
        deserialize_with = "optional_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_push_notification_config: Option<PushConfig>,
    /// At most this many messages of history in the reply.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// Do not wait for the task to settle.
    #[serde(
        alias = "return_immediately",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "is_false"
    )]
    pub return_immediately: bool,
}

/// `GetTaskRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTask {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Which task.
    pub id: TaskRef,
    /// At most this many messages of history.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
}

/// `ListTasksRequest`
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasks {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Only tasks of this conversation.
    #[serde(alias = "context_id", default, deserialize_with = "empty_none", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<ContextId>,
    /// Only tasks in this state.
    #[serde(default, deserialize_with = "state_or_unspecified", skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskState>,
    /// How many tasks a page may hold.
    #[serde(alias = "page_size", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// Where the last page ended.
    #[serde(
        alias = "page_token",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub page_token: String,
    /// At most this many messages of history per task.
    #[serde(alias = "history_length", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub history_length: Option<i32>,
    /// Only tasks whose status is not older than this.
    #[serde(alias = "status_timestamp_after", default, skip_serializing_if = "Option::is_none")]
    pub status_timestamp_after: Option<Timestamp>,
    /// Whether artifacts are wanted.
    #[serde(alias = "include_artifacts", default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// A filter may carry the enum's zero value, which means "any" (generated clients send it).
fn state_or_unspecified<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<TaskState>, D::Error> {
    crate::task::enum_name(d, |name| match name {
        "TASK_STATE_UNSPECIFIED" | "0" | "" => Ok(None),
        // Ours alone; on the wire such tasks show as completed.
        "TASK_STATE_TRANSFERRED" | "9" => Err(format!("unknown task state {name:?}")),
        name => TaskState::from_name(name).map(Some).ok_or_else(|| format!("unknown task state {name:?}")),
    })
}

/// `CancelTaskRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelTask {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Which task.
    pub id: TaskRef,
    /// Free metadata of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
}

/// `SubscribeToTaskRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Which task.
    pub id: TaskRef,
}

/// `GetTaskPushNotificationConfigRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPush {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Of which task.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// Which configuration.
    pub id: String,
}

/// `ListTaskPushNotificationConfigsRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPush {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Of which task.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// How many a page may hold.
    #[serde(alias = "page_size", default, deserialize_with = "int32", skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// Where the last page ended.
    #[serde(
        alias = "page_token",
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub page_token: String,
}

/// `DeleteTaskPushNotificationConfigRequest`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletePush {
    /// The tenant the caller names.
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Tenant::is_none")]
    pub tenant: Tenant,
    /// Of which task.
    #[serde(alias = "task_id")]
    pub task_id: TaskRef,
    /// Which configuration.
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
