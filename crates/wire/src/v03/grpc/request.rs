//! The requests of the methods: one function per method for servers, one enum of requests for clients.
//!
//! All functions take the same arguments, so that a server can treat the methods alike, although few of them can lose
//! anything.

use super::loss_recorder::{LossRecorder, NumberEncoding};
use super::message::{read_message, write_message};
use super::name;
use super::push::{read_push, write_push};
use crate::losses::Losses;
use crate::path::{MemberError, Path, non_empty};
use crate::pb::a2a_v03 as pb;
use crate::v1::grpc::value::{read_optional_struct, write_struct};
use sabir_proto::{
    Call, CancelTask, DeletePush, Fault, GetPush, GetTask, ListPush, PushConfig, SendConfiguration, SendMessage,
    Subscribe, TaskRef, Tenant,
};

/// Reads the request of `SendMessage`.
pub fn send(request: pb::SendMessageRequest, losses: &mut Losses) -> Result<Call, Fault> {
    Ok(Call::Send(Box::new(read_send(request, losses)?)))
}

/// Reads the request of `SendStreamingMessage`.
pub fn stream(request: pb::SendMessageRequest, losses: &mut Losses) -> Result<Call, Fault> {
    Ok(Call::Stream(Box::new(read_send(request, losses)?)))
}

/// Reads the request of `GetTask`.
pub fn get_task(request: pb::GetTaskRequest, _: &mut Losses) -> Result<Call, Fault> {
    Ok(Call::Get(GetTask {
        tenant: Tenant::none(),
        id: name::task(&request.name, &Path::Root.member("name"))?,
        history_length: non_zero(request.history_length),
    }))
}

/// Reads the request of `CancelTask`.
pub fn cancel_task(request: pb::CancelTaskRequest, _: &mut Losses) -> Result<Call, Fault> {
    let id = name::task(&request.name, &Path::Root.member("name"))?;
    Ok(Call::Cancel(CancelTask { tenant: Tenant::none(), id, metadata: None }))
}

/// Reads the request of `TaskSubscription`.
pub fn subscribe(request: pb::TaskSubscriptionRequest, _: &mut Losses) -> Result<Call, Fault> {
    let id = name::task(&request.name, &Path::Root.member("name"))?;
    Ok(Call::Subscribe(Subscribe { tenant: Tenant::none(), id }))
}

/// Reads the request of `CreateTaskPushNotificationConfig`.
pub fn create_push(request: pb::CreateTaskPushNotificationConfigRequest, losses: &mut Losses) -> Result<Call, Fault> {
    let task = name::task(&request.parent, &Path::Root.member("parent"))?;
    let at = Path::Root.member("config");
    let inner = at.member("pushNotificationConfig");
    // The server chooses the name in `config`; SDKs send it half filled, or with the word "None" in it.
    let config = inner.required(at.required(request.config)?.push_notification_config)?;
    let config = read_push(config, &inner, &Path::Root, losses)?;
    create_push_call(task, non_empty(request.config_id), config)
}

/// Makes the call that creates a push configuration. Its id may stand beside the configuration or in it.
///
/// Without an id, the configuration gets the id of its task, as in the SDKs: a client that sets its webhook twice means
/// to replace it.
pub(in crate::v03) fn create_push_call(
    task: TaskRef,
    beside: Option<String>,
    config: PushConfig,
) -> Result<Call, Fault> {
    let id = match (beside, config.id) {
        (Some(beside), Some(inside)) if beside != inside => {
            return Err(Fault::invalid("configId", "differs from the id of the configuration itself"));
        }
        (beside, inside) => inside.or(beside).unwrap_or_else(|| task.to_string()),
    };
    Ok(Call::CreatePush { tenant: Tenant::none(), task, config: PushConfig { id: Some(id), ..config } })
}

/// Reads the request of `GetTaskPushNotificationConfig`.
pub fn get_push(request: pb::GetTaskPushNotificationConfigRequest, _: &mut Losses) -> Result<Call, Fault> {
    let (task_id, id) = name::push(&request.name, &Path::Root.member("name"))?;
    Ok(Call::GetPush(GetPush { tenant: Tenant::none(), task_id, id }))
}

/// Reads the request of `ListTaskPushNotificationConfig`.
pub fn list_push(request: pb::ListTaskPushNotificationConfigRequest, _: &mut Losses) -> Result<Call, Fault> {
    Ok(Call::ListPush(ListPush {
        tenant: Tenant::none(),
        task_id: name::task(&request.parent, &Path::Root.member("parent"))?,
        page_size: non_zero(request.page_size),
        page_token: request.page_token,
    }))
}

/// Reads the request of `DeleteTaskPushNotificationConfig`.
pub fn delete_push(request: pb::DeleteTaskPushNotificationConfigRequest, _: &mut Losses) -> Result<Call, Fault> {
    let (task_id, id) = name::push(&request.name, &Path::Root.member("name"))?;
    Ok(Call::DeletePush(DeletePush { tenant: Tenant::none(), task_id, id }))
}

/// Reads the request of `GetAgentCard`: despite its name, the card for authenticated callers.
pub fn extended_card(_: pb::GetAgentCardRequest, _: &mut Losses) -> Result<Call, Fault> {
    Ok(Call::ExtendedCard { tenant: Tenant::none() })
}

/// `None` for zero, the unset value of a proto3 number.
fn non_zero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

fn read_send(request: pb::SendMessageRequest, losses: &mut Losses) -> Result<SendMessage, MemberError> {
    let message = Path::Root.member("message");
    Ok(SendMessage {
        tenant: Tenant::none(),
        message: read_message(message.required(request.request)?, &message)?,
        configuration: match request.configuration {
            Some(configuration) => read_configuration(configuration, losses)?,
            None => SendConfiguration::default(),
        },
        metadata: read_optional_struct(request.metadata, &Path::Root.member("metadata"))?,
        alias: None,
        wants_task: false,
    })
}

/// Reads the configuration of a send. Without one, every SDK waits for the task. In one that was sent, an unset
/// `blocking` is `false`, since proto3 does not write `false`; clients of all SDKs set the member, and their servers
/// return at once when it is not set.
fn read_configuration(
    configuration: pb::SendMessageConfiguration,
    losses: &mut Losses,
) -> Result<SendConfiguration, MemberError> {
    let at = Path::Root.member("configuration");
    let push = match configuration.push_notification {
        Some(config) => {
            let canonical = at.member("taskPushNotificationConfig");
            Some(read_push(config, &at.member("pushNotification"), &canonical, losses)?)
        }
        None => None,
    };
    Ok(SendConfiguration {
        accepted_output_modes: configuration.accepted_output_modes,
        task_push_notification_config: push,
        history_length: non_zero(configuration.history_length),
        return_immediately: !configuration.blocking,
    })
}

/// A call as the protobuf request of its method.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "named like the variants of `Call`")]
pub enum Request {
    Send(pb::SendMessageRequest),
    Stream(pb::SendMessageRequest),
    Get(pb::GetTaskRequest),
    Cancel(pb::CancelTaskRequest),
    Subscribe(pb::TaskSubscriptionRequest),
    CreatePush(pb::CreateTaskPushNotificationConfigRequest),
    GetPush(pb::GetTaskPushNotificationConfigRequest),
    ListPush(pb::ListTaskPushNotificationConfigRequest),
    DeletePush(pb::DeleteTaskPushNotificationConfigRequest),
    ExtendedCard(pb::GetAgentCardRequest),
}

impl Request {
    /// Writes a call. Fails for a list of tasks, which 0.3 does not have, and for ids that have no resource name.
    pub fn of(call: &Call, losses: &mut Losses) -> Result<Self, Fault> {
        let request = match call {
            Call::Send(send) => Self::Send(write_send(send)),
            Call::Stream(send) => Self::Stream(write_send(send)),
            Call::Get(get) => Self::Get(pb::GetTaskRequest {
                name: name::task_name_to_send(&get.id, "id")?,
                history_length: get.history_length.unwrap_or(0),
            }),
            Call::Cancel(cancel) => {
                Self::Cancel(pb::CancelTaskRequest { name: name::task_name_to_send(&cancel.id, "id")? })
            }
            Call::Subscribe(subscribe) => {
                Self::Subscribe(pb::TaskSubscriptionRequest { name: name::task_name_to_send(&subscribe.id, "id")? })
            }
            Call::CreatePush { task, config, .. } => Self::CreatePush(write_create(task, config)?),
            Call::GetPush(GetPush { task_id, id, .. }) => {
                Self::GetPush(pb::GetTaskPushNotificationConfigRequest { name: name::push_name_to_send(task_id, id)? })
            }
            Call::ListPush(list) => Self::ListPush(pb::ListTaskPushNotificationConfigRequest {
                parent: name::task_name_to_send(&list.task_id, "taskId")?,
                page_size: list.page_size.unwrap_or(0),
                page_token: list.page_token.clone(),
            }),
            Call::DeletePush(DeletePush { task_id, id, .. }) => {
                Self::DeletePush(pb::DeleteTaskPushNotificationConfigRequest {
                    name: name::push_name_to_send(task_id, id)?,
                })
            }
            Call::ExtendedCard { .. } => Self::ExtendedCard(pb::GetAgentCardRequest {}),
            Call::List(_) => return Err(list_not_supported()),
        };
        LossRecorder::new(NumberEncoding::Doubles, losses).call(call);
        Ok(request)
    }
}

/// The fault of a list of tasks, which 0.3 does not have.
pub(in crate::v03) fn list_not_supported() -> Fault {
    Fault::UnsupportedOperation("A2A 0.3 cannot list tasks".into())
}

fn write_send(send: &SendMessage) -> pb::SendMessageRequest {
    let configuration = &send.configuration;
    pb::SendMessageRequest {
        request: Some(write_message(&send.message)),
        // Always written, so that no server has to guess whether we wait.
        configuration: Some(pb::SendMessageConfiguration {
            accepted_output_modes: configuration.accepted_output_modes.clone(),
            push_notification: configuration.task_push_notification_config.as_ref().map(write_push),
            history_length: configuration.history_length.unwrap_or(0),
            blocking: !configuration.return_immediately,
        }),
        metadata: send.metadata.as_ref().map(write_struct),
    }
}

fn write_create(task: &TaskRef, config: &PushConfig) -> Result<pb::CreateTaskPushNotificationConfigRequest, Fault> {
    Ok(pb::CreateTaskPushNotificationConfigRequest {
        parent: name::task_name_to_send(task, "taskId")?,
        config_id: config.id.clone().unwrap_or_default(),
        config: Some(pb::TaskPushNotificationConfig {
            name: config.id.as_deref().map(|id| name::push_name(task, Some(id))).unwrap_or_default(),
            push_notification_config: Some(write_push(config)),
        }),
    })
}
