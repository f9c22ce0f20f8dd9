//! `a2a.v1.A2AService`: 0.3. It has no tenants, so it reaches the default agent only.

use super::{EncodeEvent, GrpcEvents, GrpcPackage, MethodResult, Methods, damaged, header, unexpected};
use crate::authorized_stream::AuthorizedStream;
use http::header::USER_AGENT;
use sabir_proto::{Call, Fault, Reply, WireEvent, WireReply};
use sabir_wire::Losses;
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::pb::a2a_v03::a2a_service_server::{A2aService, A2aServiceServer};
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::grpc::{reply, request as read};

pub(super) fn server(methods: Methods) -> A2aServiceServer<Methods> {
    A2aServiceServer::new(methods)
}

/// 0.3 marks the last event of a stream, and its clients differ in how they encode the bytes of a file.
#[derive(Clone, Copy)]
pub(super) struct V03 {
    files: FileEncoding,
}

impl V03 {
    /// The form of files that the client reads.
    fn of<Q>(request: &tonic::Request<Q>) -> Self {
        // The user agent names its library.
        Self { files: FileEncoding::of_client(header(request.metadata().as_ref(), USER_AGENT.as_str())) }
    }

    /// Decodes a request, and the files in it.
    fn read<Q>(
        self,
        read: impl FnOnce(Q, &mut Losses) -> Result<Call, Fault>,
    ) -> impl FnOnce(Q, &mut Losses) -> Result<Call, Fault> {
        move |request, losses| {
            let mut call = read(request, losses)?;
            self.files.read_call(&mut call);
            Ok(call)
        }
    }

    /// A reply with all its content.
    fn answer(self, reply: &Reply<AuthorizedStream>) -> Result<WireReply, Fault> {
        let mut answer = WireReply::of(reply).ok_or_else(damaged)?;
        self.files.write_answer(&mut answer);
        Ok(answer)
    }

    fn task(self, reply: &Reply<AuthorizedStream>, losses: &mut Losses) -> Result<pb::Task, Fault> {
        match self.answer(reply)? {
            WireReply::Task(task) => Ok(reply::task(&task, losses)),
            _ => Err(unexpected(reply)),
        }
    }
}

impl EncodeEvent for V03 {
    const PACKAGE: GrpcPackage = GrpcPackage::V03;
    type Response = pb::StreamResponse;

    fn event(&self, mut event: WireEvent, last: bool, losses: &mut Losses) -> pb::StreamResponse {
        self.files.write_event(&mut event);
        reply::event(&event, last, losses)
    }
}

#[tonic::async_trait]
impl A2aService for Methods {
    type SendStreamingMessageStream = GrpcEvents<V03>;
    type TaskSubscriptionStream = GrpcEvents<V03>;

    async fn send_message(
        &self,
        request: tonic::Request<pb::SendMessageRequest>,
    ) -> MethodResult<pb::SendMessageResponse> {
        let peer = V03::of(&request);
        let encode = |answer: Reply<AuthorizedStream>, losses: &mut Losses| match peer.answer(&answer)? {
            WireReply::SentTask(task) => Ok(reply::sent_task(&task, losses)),
            WireReply::SentMessage(message) => Ok(reply::sent_message(&message, losses)),
            _ => Err(unexpected(&answer)),
        };
        self.serve(GrpcPackage::V03, request, peer.read(read::send), encode).await
    }

    async fn send_streaming_message(
        &self,
        request: tonic::Request<pb::SendMessageRequest>,
    ) -> MethodResult<GrpcEvents<V03>> {
        let peer = V03::of(&request);
        self.serve(GrpcPackage::V03, request, peer.read(read::stream), |answer, _| self.events(answer, peer)).await
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> MethodResult<pb::Task> {
        let peer = V03::of(&request);
        self.serve(GrpcPackage::V03, request, read::get_task, |answer, losses| peer.task(&answer, losses)).await
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> MethodResult<pb::Task> {
        let peer = V03::of(&request);
        self.serve(GrpcPackage::V03, request, read::cancel_task, |answer, losses| peer.task(&answer, losses)).await
    }

    async fn task_subscription(
        &self,
        request: tonic::Request<pb::TaskSubscriptionRequest>,
    ) -> MethodResult<GrpcEvents<V03>> {
        let peer = V03::of(&request);
        self.serve(GrpcPackage::V03, request, read::subscribe, |answer, _| self.events(answer, peer)).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::CreateTaskPushNotificationConfigRequest>,
    ) -> MethodResult<pb::TaskPushNotificationConfig> {
        self.serve(GrpcPackage::V03, request, read::create_push, push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> MethodResult<pb::TaskPushNotificationConfig> {
        self.serve(GrpcPackage::V03, request, read::get_push, push).await
    }

    async fn list_task_push_notification_config(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigRequest>,
    ) -> MethodResult<pb::ListTaskPushNotificationConfigResponse> {
        let encode = |answer: Reply<AuthorizedStream>, _: &mut Losses| match &answer {
            Reply::Pushes(task, page) => Ok(reply::pushes(&(*task).into(), page)),
            other => Err(unexpected(other)),
        };
        self.serve(GrpcPackage::V03, request, read::list_push, encode).await
    }

    async fn get_agent_card(&self, request: tonic::Request<pb::GetAgentCardRequest>) -> MethodResult<pb::AgentCard> {
        let encode = |answer: Reply<AuthorizedStream>, losses: &mut Losses| match &answer {
            Reply::Card(card) => reply::card(card, losses),
            other => Err(unexpected(other)),
        };
        self.serve(GrpcPackage::V03, request, read::extended_card, encode).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> MethodResult<()> {
        let encode = |answer: Reply<AuthorizedStream>, _: &mut Losses| match answer {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        };
        self.serve(GrpcPackage::V03, request, read::delete_push, encode).await
    }
}

fn push(answer: Reply<AuthorizedStream>, _: &mut Losses) -> Result<pb::TaskPushNotificationConfig, Fault> {
    match &answer {
        Reply::Push(task, config) => Ok(reply::push(&(*task).into(), config)),
        other => Err(unexpected(other)),
    }
}
