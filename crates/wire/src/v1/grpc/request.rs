//! The requests of the methods: one function per method for servers, one enum of requests for clients.

use super::message::{read_context, read_message, read_task_ref, write_message};
use super::push::{read_push, write_push};
use super::task::{read_filter, write_state};
use super::value::{read_optional_struct, read_time, write_struct, write_time};
use crate::path::{MemberError, Path, non_empty};
use crate::pb::lf_a2a_v1 as pb;
use sabir_proto::{
    Call, CancelTask, DeletePush, Fault, GetPush, GetTask, ListPush, ListTasks, SendConfiguration, SendMessage,
    Subscribe, TaskRef, Tenant,
};

/// Reads the request of `SendMessage`.
pub fn send(request: pb::SendMessageRequest) -> Result<Call, Fault> {
    Ok(Call::Send(Box::new(read_send(request)?)))
}

/// Reads the request of `SendStreamingMessage`.
pub fn stream(request: pb::SendMessageRequest) -> Result<Call, Fault> {
    Ok(Call::Stream(Box::new(read_send(request)?)))
}

/// Reads the request of `GetTask`.
pub fn get_task(request: pb::GetTaskRequest) -> Result<Call, Fault> {
    Ok(Call::Get(GetTask {
        tenant: tenant(&request.tenant)?,
        id: task(&request.id, "id")?,
        history_length: request.history_length,
    }))
}

/// Reads the request of `ListTasks`.
pub fn list_tasks(request: pb::ListTasksRequest) -> Result<Call, Fault> {
    let after = Path::Root.member("statusTimestampAfter");
    Ok(Call::List(ListTasks {
        tenant: tenant(&request.tenant)?,
        context_id: non_empty(request.context_id)
            .map(|id| read_context(&id, &Path::Root.member("contextId")))
            .transpose()?,
        status: read_filter(request.status, &Path::Root.member("status"))?,
        // The SDK for Go always sets it and writes 0 for "no limit of mine"; no page has zero tasks.
        page_size: request.page_size.filter(|size| *size != 0),
        page_token: request.page_token,
        history_length: request.history_length,
        status_timestamp_after: request.status_timestamp_after.map(|time| read_time(time, &after)).transpose()?,
        include_artifacts: request.include_artifacts,
    }))
}

/// Reads the request of `CancelTask`.
pub fn cancel_task(request: pb::CancelTaskRequest) -> Result<Call, Fault> {
    Ok(Call::Cancel(CancelTask {
        tenant: tenant(&request.tenant)?,
        id: task(&request.id, "id")?,
        metadata: read_optional_struct(request.metadata, &Path::Root.member("metadata"))?,
    }))
}

/// Reads the request of `SubscribeToTask`.
pub fn subscribe(request: pb::SubscribeToTaskRequest) -> Result<Call, Fault> {
    Ok(Call::Subscribe(Subscribe { tenant: tenant(&request.tenant)?, id: task(&request.id, "id")? }))
}

/// Reads the request of `CreateTaskPushNotificationConfig`, which is the configuration itself.
pub fn create_push(request: pb::TaskPushNotificationConfig) -> Result<Call, Fault> {
    let (tenant, task) = (tenant(&request.tenant)?, task(&request.task_id, "taskId")?);
    Ok(Call::CreatePush { tenant, task, config: read_push(request, &Path::Root)? })
}

/// Reads the request of `GetTaskPushNotificationConfig`.
pub fn get_push(request: pb::GetTaskPushNotificationConfigRequest) -> Result<Call, Fault> {
    Ok(Call::GetPush(GetPush {
        tenant: tenant(&request.tenant)?,
        task_id: task(&request.task_id, "taskId")?,
        id: Path::Root.member("id").required_text(request.id)?,
    }))
}

/// Reads the request of `ListTaskPushNotificationConfigs`.
pub fn list_push(request: pb::ListTaskPushNotificationConfigsRequest) -> Result<Call, Fault> {
    Ok(Call::ListPush(ListPush {
        tenant: tenant(&request.tenant)?,
        task_id: task(&request.task_id, "taskId")?,
        // This field has no presence, unlike the page size of `ListTasks`: zero is unset.
        page_size: (request.page_size != 0).then_some(request.page_size),
        page_token: request.page_token,
    }))
}

/// Reads the request of `DeleteTaskPushNotificationConfig`.
pub fn delete_push(request: pb::DeleteTaskPushNotificationConfigRequest) -> Result<Call, Fault> {
    Ok(Call::DeletePush(DeletePush {
        tenant: tenant(&request.tenant)?,
        task_id: task(&request.task_id, "taskId")?,
        id: Path::Root.member("id").required_text(request.id)?,
    }))
}

/// Reads the request of `GetExtendedAgentCard`.
pub fn extended_card(request: pb::GetExtendedAgentCardRequest) -> Result<Call, Fault> {
    Ok(Call::ExtendedCard { tenant: tenant(&request.tenant)? })
}

fn tenant(text: &str) -> Result<Tenant, MemberError> {
    Tenant::parse(text).map_err(|e| Path::Root.member("tenant").error(e))
}

fn task(text: &str, member: &'static str) -> Result<TaskRef, MemberError> {
    read_task_ref(text, &Path::Root.member(member))
}

fn read_send(request: pb::SendMessageRequest) -> Result<SendMessage, MemberError> {
    let message = Path::Root.member("message");
    Ok(SendMessage {
        tenant: tenant(&request.tenant)?,
        message: read_message(message.required(request.message)?, &message)?,
        configuration: read_configuration(request.configuration.unwrap_or_default())?,
        metadata: read_optional_struct(request.metadata, &Path::Root.member("metadata"))?,
        alias: None,
        wants_task: false,
    })
}

fn read_configuration(configuration: pb::SendMessageConfiguration) -> Result<SendConfiguration, MemberError> {
    let path = Path::Root.member("configuration");
    let push = path.member("taskPushNotificationConfig");
    Ok(SendConfiguration {
        accepted_output_modes: configuration.accepted_output_modes,
        task_push_notification_config: configuration
            .task_push_notification_config
            .map(|config| read_push(config, &push))
            .transpose()?,
        history_length: configuration.history_length,
        return_immediately: configuration.return_immediately,
    })
}

/// A call as the protobuf request of its method.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "named like the variants of `Call`")]
pub enum Request {
    Send(pb::SendMessageRequest),
    Stream(pb::SendMessageRequest),
    Get(pb::GetTaskRequest),
    List(pb::ListTasksRequest),
    Cancel(pb::CancelTaskRequest),
    Subscribe(pb::SubscribeToTaskRequest),
    CreatePush(pb::TaskPushNotificationConfig),
    GetPush(pb::GetTaskPushNotificationConfigRequest),
    ListPush(pb::ListTaskPushNotificationConfigsRequest),
    DeletePush(pb::DeleteTaskPushNotificationConfigRequest),
    ExtendedCard(pb::GetExtendedAgentCardRequest),
}

impl Request {
    /// Writes a call as its request.
    pub fn of(call: &Call) -> Self {
        call.clone().into()
    }
}

impl From<Call> for Request {
    fn from(call: Call) -> Self {
        let tenant = call.tenant().as_str().to_owned();
        match call {
            Call::Send(call) => Self::Send(write_send(tenant, *call)),
            Call::Stream(call) => Self::Stream(write_send(tenant, *call)),
            Call::Get(GetTask { id, history_length, .. }) => {
                Self::Get(pb::GetTaskRequest { tenant, id: id.to_string(), history_length })
            }
            Call::List(call) => Self::List(write_list(tenant, call)),
            Call::Cancel(CancelTask { id, metadata, .. }) => Self::Cancel(pb::CancelTaskRequest {
                tenant,
                id: id.to_string(),
                metadata: metadata.as_ref().map(write_struct),
            }),
            Call::Subscribe(call) => Self::Subscribe(pb::SubscribeToTaskRequest { tenant, id: call.id.to_string() }),
            Call::CreatePush { task, config, .. } => Self::CreatePush(write_push(tenant, task.to_string(), config)),
            Call::GetPush(GetPush { task_id, id, .. }) => {
                Self::GetPush(pb::GetTaskPushNotificationConfigRequest { tenant, task_id: task_id.to_string(), id })
            }
            Call::ListPush(call) => Self::ListPush(pb::ListTaskPushNotificationConfigsRequest {
                task_id: call.task_id.to_string(),
                page_size: call.page_size.unwrap_or(0),
                page_token: call.page_token,
                tenant,
            }),
            Call::DeletePush(DeletePush { task_id, id, .. }) => {
                Self::DeletePush(pb::DeleteTaskPushNotificationConfigRequest {
                    tenant,
                    task_id: task_id.to_string(),
                    id,
                })
            }
            Call::ExtendedCard { .. } => Self::ExtendedCard(pb::GetExtendedAgentCardRequest { tenant }),
        }
    }
}

fn write_send(tenant: String, call: SendMessage) -> pb::SendMessageRequest {
    let configuration = (call.configuration != SendConfiguration::default()).then(|| pb::SendMessageConfiguration {
        accepted_output_modes: call.configuration.accepted_output_modes,
        // The task and tenant are those of the message.
        task_push_notification_config: call
            .configuration
            .task_push_notification_config
            .map(|config| write_push(String::new(), String::new(), config)),
        history_length: call.configuration.history_length,
        return_immediately: call.configuration.return_immediately,
    });
    pb::SendMessageRequest {
        tenant,
        message: Some(write_message(call.message)),
        configuration,
        metadata: call.metadata.as_ref().map(write_struct),
    }
}

fn write_list(tenant: String, call: ListTasks) -> pb::ListTasksRequest {
    pb::ListTasksRequest {
        tenant,
        context_id: call.context_id.map(|id| id.to_string()).unwrap_or_default(),
        status: call.status.map_or(0, |state| write_state(state).into()),
        page_size: call.page_size,
        page_token: call.page_token,
        history_length: call.history_length,
        status_timestamp_after: call.status_timestamp_after.map(write_time),
        include_artifacts: call.include_artifacts,
    }
}
