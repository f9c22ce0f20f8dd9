//! `lf.a2a.v1.A2AService`: 1.0.

use super::{Encode, Events, Methods, Outcome, Package, unexpected};
use crate::watched::Watched;
use sabir_proto::{Call, Fault, Reply, TheirEvent};
use sabir_wire::Losses;
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::pb::lf_a2a_v1::a2a_service_server::{A2aService, A2aServiceServer};
use sabir_wire::v1::grpc::{reply, request as read};

pub(super) fn server(methods: Methods) -> A2aServiceServer<Methods> {
    A2aServiceServer::new(methods)
}

/// 1.0 encodes the events without changes.
pub(super) struct V1;

impl Encode for V1 {
    const PACKAGE: Package = Package::V1;
    type Response = pb::StreamResponse;

    fn event(&self, event: TheirEvent, _: bool, _: &mut Losses) -> pb::StreamResponse {
        reply::event(event)
    }
}

/// 1.0 is the canonical form, so decoding loses nothing.
fn whole<Q>(read: impl FnOnce(Q) -> Result<Call, Fault>) -> impl FnOnce(Q, &mut Losses) -> Result<Call, Fault> {
    |request, _| read(request)
}

#[tonic::async_trait]
impl A2aService for Methods {
    type SendStreamingMessageStream = Events<V1>;
    type SubscribeToTaskStream = Events<V1>;

    async fn send_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<pb::SendMessageResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Sent(sent) => reply::sent(sent),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V1, request, whole(read::send), encode).await
    }

    async fn send_streaming_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<Events<V1>> {
        self.serve(Package::V1, request, whole(read::stream), |answer, _| self.events(answer, V1)).await
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> Outcome<pb::Task> {
        self.serve(Package::V1, request, whole(read::get_task), task).await
    }

    async fn list_tasks(&self, request: tonic::Request<pb::ListTasksRequest>) -> Outcome<pb::ListTasksResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Tasks(page) => reply::page(&page),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V1, request, whole(read::list_tasks), encode).await
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> Outcome<pb::Task> {
        self.serve(Package::V1, request, whole(read::cancel_task), task).await
    }

    async fn subscribe_to_task(&self, request: tonic::Request<pb::SubscribeToTaskRequest>) -> Outcome<Events<V1>> {
        self.serve(Package::V1, request, whole(read::subscribe), |answer, _| self.events(answer, V1)).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::TaskPushNotificationConfig>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(Package::V1, request, whole(read::create_push), push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(Package::V1, request, whole(read::get_push), push).await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigsRequest>,
    ) -> Outcome<pb::ListTaskPushNotificationConfigsResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Pushes(task, page) => Ok(reply::pushes(task, page)),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V1, request, whole(read::list_push), encode).await
    }

    async fn get_extended_agent_card(
        &self,
        request: tonic::Request<pb::GetExtendedAgentCardRequest>,
    ) -> Outcome<pb::AgentCard> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Card(card) => Ok(reply::card(&card)),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V1, request, whole(read::extended_card), encode).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Outcome<()> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V1, request, whole(read::delete_push), encode).await
    }
}

fn task(answer: Reply<Watched>, _: &mut Losses) -> Result<pb::Task, Fault> {
    match answer {
        Reply::Task(task, view) => reply::task(&task, view),
        other => Err(unexpected(&other)),
    }
}

fn push(answer: Reply<Watched>, _: &mut Losses) -> Result<pb::TaskPushNotificationConfig, Fault> {
    match answer {
        Reply::Push(task, config) => Ok(reply::push(task, config)),
        other => Err(unexpected(&other)),
    }
}
