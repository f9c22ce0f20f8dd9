//! `a2a.v1.A2AService`: 0.3. It has no tenants, so it reaches the default agent only.

use super::{Encode, Events, Methods, Outcome, Package, damaged, unexpected};
use sabir_engine::Watch;
use sabir_proto::{Answer, Fault, Reply, TheirEvent};
use sabir_wire::pb::a2a_v03 as pb;
use sabir_wire::pb::a2a_v03::a2a_service_server::{A2aService, A2aServiceServer};
use sabir_wire::v03::grpc::{reply, request as read};
use sabir_wire::{Dialect, Losses};

pub(super) fn server(methods: Methods) -> A2aServiceServer<Methods> {
    A2aServiceServer::new(methods)
}

/// 0.3 says on the last event of a stream that it is the last.
pub(super) enum V03 {}

impl Encode for V03 {
    const DIALECT: Dialect = Dialect::V03;
    type Response = pb::StreamResponse;

    fn event(event: &TheirEvent, last: bool, losses: &mut Losses) -> pb::StreamResponse {
        reply::event(event, last, losses)
    }
}

#[tonic::async_trait]
impl A2aService for Methods {
    type SendStreamingMessageStream = Events<V03>;
    type TaskSubscriptionStream = Events<V03>;

    async fn send_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<pb::SendMessageResponse> {
        let encode = |answer: Reply<Watch>, losses: &mut Losses| match Answer::of(&answer).ok_or_else(damaged)? {
            Answer::SentTask(task) => Ok(reply::sent_task(&task, losses)),
            Answer::SentMessage(message) => Ok(reply::sent_message(&message, losses)),
            _ => Err(unexpected(&answer)),
        };
        self.serve(Package::V03, request, read::send, encode).await
    }

    async fn send_streaming_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<Events<V03>> {
        self.serve(Package::V03, request, read::stream, |answer, _| self.events(answer)).await
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> Outcome<pb::Task> {
        self.serve(Package::V03, request, read::get_task, task).await
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> Outcome<pb::Task> {
        self.serve(Package::V03, request, read::cancel_task, task).await
    }

    async fn task_subscription(&self, request: tonic::Request<pb::TaskSubscriptionRequest>) -> Outcome<Events<V03>> {
        self.serve(Package::V03, request, read::subscribe, |answer, _| self.events(answer)).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::CreateTaskPushNotificationConfigRequest>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(Package::V03, request, read::create_push, push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(Package::V03, request, read::get_push, push).await
    }

    async fn list_task_push_notification_config(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigRequest>,
    ) -> Outcome<pb::ListTaskPushNotificationConfigResponse> {
        let encode = |answer: Reply<Watch>, _: &mut Losses| match &answer {
            Reply::Pushes(task, page) => Ok(reply::pushes(&(*task).into(), page)),
            other => Err(unexpected(other)),
        };
        self.serve(Package::V03, request, read::list_push, encode).await
    }

    async fn get_agent_card(&self, request: tonic::Request<pb::GetAgentCardRequest>) -> Outcome<pb::AgentCard> {
        let encode = |answer: Reply<Watch>, losses: &mut Losses| match &answer {
            Reply::Card(card) => reply::card(card, losses),
            other => Err(unexpected(other)),
        };
        self.serve(Package::V03, request, read::extended_card, encode).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Outcome<()> {
        let encode = |answer: Reply<Watch>, _: &mut Losses| match answer {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        };
        self.serve(Package::V03, request, read::delete_push, encode).await
    }
}

fn task(answer: Reply<Watch>, losses: &mut Losses) -> Result<pb::Task, Fault> {
    match &answer {
        Reply::Task(task, view) => Ok(reply::task(&task.show(*view).ok_or_else(damaged)?, losses)),
        other => Err(unexpected(other)),
    }
}

fn push(answer: Reply<Watch>, _: &mut Losses) -> Result<pb::TaskPushNotificationConfig, Fault> {
    match &answer {
        Reply::Push(task, config) => Ok(reply::push(&(*task).into(), config)),
        other => Err(unexpected(other)),
    }
}
