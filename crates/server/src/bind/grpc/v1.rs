//! `lf.a2a.v1.A2AService`: 1.0.

use super::{EncodeEvent, GrpcEvents, GrpcPackage, MethodResult, Methods, unexpected};
use crate::authorized_stream::AuthorizedStream;
use sabir_proto::{Call, Fault, Reply, WireEvent};
use sabir_wire::Losses;
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::pb::lf_a2a_v1::a2a_service_server::{A2aService, A2aServiceServer};
use sabir_wire::v1::grpc::{reply, request as read};

pub(super) fn server(methods: Methods) -> A2aServiceServer<Methods> {
    A2aServiceServer::new(methods)
}

/// 1.0 encodes the events without changes.
pub(super) struct V1;

impl EncodeEvent for V1 {
    const PACKAGE: GrpcPackage = GrpcPackage::V1;
    type Response = pb::StreamResponse;

    fn event(&self, event: WireEvent, _: bool, _: &mut Losses) -> pb::StreamResponse {
        reply::event(event)
    }
}

/// 1.0 is the canonical form, so decoding loses nothing.
fn lossless<Q>(read: impl FnOnce(Q) -> Result<Call, Fault>) -> impl FnOnce(Q, &mut Losses) -> Result<Call, Fault> {
    |request, _| read(request)
}

#[tonic::async_trait]
impl A2aService for Methods {
    type SendStreamingMessageStream = GrpcEvents<V1>;
    type SubscribeToTaskStream = GrpcEvents<V1>;

    async fn send_message(
        &self,
        request: tonic::Request<pb::SendMessageRequest>,
    ) -> MethodResult<pb::SendMessageResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Sent(sent) => reply::sent(sent),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V1, request, lossless(read::send), encode).await
    }

    async fn send_streaming_message(
        &self,
        request: tonic::Request<pb::SendMessageRequest>,
    ) -> MethodResult<GrpcEvents<V1>> {
        self.serve(GrpcPackage::V1, request, lossless(read::stream), |answer, _| self.events(answer, V1)).await
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> MethodResult<pb::Task> {
        self.serve(GrpcPackage::V1, request, lossless(read::get_task), task).await
    }

    async fn list_tasks(&self, request: tonic::Request<pb::ListTasksRequest>) -> MethodResult<pb::ListTasksResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Tasks(page) => reply::page(&page),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V1, request, lossless(read::list_tasks), encode).await
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> MethodResult<pb::Task> {
        self.serve(GrpcPackage::V1, request, lossless(read::cancel_task), task).await
    }

    async fn subscribe_to_task(
        &self,
        request: tonic::Request<pb::SubscribeToTaskRequest>,
    ) -> MethodResult<GrpcEvents<V1>> {
        self.serve(GrpcPackage::V1, request, lossless(read::subscribe), |answer, _| self.events(answer, V1)).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::TaskPushNotificationConfig>,
    ) -> MethodResult<pb::TaskPushNotificationConfig> {
        self.serve(GrpcPackage::V1, request, lossless(read::create_push), push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> MethodResult<pb::TaskPushNotificationConfig> {
        self.serve(GrpcPackage::V1, request, lossless(read::get_push), push).await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigsRequest>,
    ) -> MethodResult<pb::ListTaskPushNotificationConfigsResponse> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Pushes(task, page) => Ok(reply::pushes(task, page)),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V1, request, lossless(read::list_push), encode).await
    }

    async fn get_extended_agent_card(
        &self,
        request: tonic::Request<pb::GetExtendedAgentCardRequest>,
    ) -> MethodResult<pb::AgentCard> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Card(card) => Ok(reply::card(&card)),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V1, request, lossless(read::extended_card), encode).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> MethodResult<()> {
        let encode = |answer, _: &mut Losses| match answer {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V1, request, lossless(read::delete_push), encode).await
    }
}

fn task(answer: Reply<AuthorizedStream>, _: &mut Losses) -> Result<pb::Task, Fault> {
    match answer {
        Reply::Task(task, view) => reply::task(&task, view),
        other => Err(unexpected(&other)),
    }
}

fn push(answer: Reply<AuthorizedStream>, _: &mut Losses) -> Result<pb::TaskPushNotificationConfig, Fault> {
    match answer {
        Reply::Push(task, config) => Ok(reply::push(task, config)),
        other => Err(unexpected(&other)),
    }
}
