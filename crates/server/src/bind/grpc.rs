//! gRPC: the generated service, each method decode, ask, encode.
//!
//! One path for all agents; the tenant says which one is meant. Numbers of events do not travel here: gRPC has no place
//! for them, so a stream that broke off is taken up again by subscribing.

use super::terms;
use crate::app::App;
use crate::body::Body;
use crate::call::Ask;
use crate::metrics::Gauged;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use sabir_engine::Watch;
use sabir_engine::watch::Item;
use sabir_proto::{Call, Caller, Fault, Reply};
use sabir_wire::pb::lf_a2a_v1 as pb;
use sabir_wire::pb::lf_a2a_v1::a2a_service_server::{A2aService, A2aServiceServer};
use sabir_wire::v1::grpc::{EXTENSIONS_KEY, reply, request as read, status};
use sabir_wire::version as versions;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::MetadataValue;
use tower::Service as _;

/// The name of this binding in metrics.
const DIALECT: &str = "1.0 GRPC";

/// Serves one request.
pub(crate) async fn serve(app: &Arc<App>, request: Request<Incoming>) -> Response<Body> {
    let service = Methods { app: app.clone() };
    let mut server = A2aServiceServer::new(service).max_decoding_message_size(app.limits.body_bytes_max);
    match server.call(request).await {
        Ok(response) => response.map(Body::Grpc),
        Err(never) => match never {},
    }
}

struct Methods {
    app: Arc<App>,
}

type Outcome<T> = Result<tonic::Response<T>, tonic::Status>;

impl Methods {
    /// Decode, ask, encode; counted once, whichever of them failed.
    async fn serve<Q, A>(
        &self,
        request: tonic::Request<Q>,
        decode: impl FnOnce(Q) -> Result<Call, Fault>,
        encode: impl FnOnce(Reply<Watch>) -> Result<A, Fault>,
    ) -> Outcome<A> {
        let started = Instant::now();
        let (metadata, _, message) = request.into_parts();
        let headers = metadata.into_headers();
        let mut operation = "unknown";
        let outcome = async {
            versions::require_v1(header(&headers, versions::HEADER))?;
            let call = decode(message)?;
            operation = call.operation();
            let terms = terms(&headers)?;
            let (reply, active) = self.app.call(Ask { at: None, caller: Caller::anonymous(), call, terms }).await?;
            Ok((encode(reply)?, active))
        }
        .await;
        self.app.metrics.request(operation, DIALECT, outcome.as_ref().map(|_| ()), started.elapsed());
        let (answer, active) = outcome.map_err(|fault: Fault| status(&fault))?;
        let mut response = tonic::Response::new(answer);
        if !active.is_empty()
            && let Ok(value) = MetadataValue::try_from(active.join(","))
        {
            response.metadata_mut().insert(EXTENSIONS_KEY, value);
        }
        Ok(response)
    }

    fn events(&self, reply: Reply<Watch>) -> Result<Events, Fault> {
        match reply {
            Reply::Stream(watch) => Ok(Events { watch: Some(watch), _open_streams: self.app.metrics.stream() }),
            other => Err(unexpected(&other)),
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// A reply that does not belong to the call it answers: a mistake of ours.
fn unexpected(reply: &Reply<Watch>) -> Fault {
    tracing::error!(?reply, "a reply of the wrong kind");
    Fault::Internal("unexpected-reply".into())
}

/// A task's events on their way to a client.
struct Events {
    watch: Option<Watch>,
    _open_streams: Gauged,
}

impl Stream for Events {
    type Item = Result<pb::StreamResponse, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(watch) = self.watch.as_mut() else { return Poll::Ready(None) };
        let next = match watch.poll_next(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => None,
            Poll::Ready(Some(Ok(Item::Event(event)))) => Some(reply::event(&event).map_err(|fault| status(&fault))),
            Poll::Ready(Some(Ok(Item::Reply(message)))) => Some(Ok(reply::message(*message))),
            Poll::Ready(Some(Err(fault))) => Some(Err(status(&fault))),
        };
        if !matches!(next, Some(Ok(_))) {
            self.watch = None;
        }
        Poll::Ready(next)
    }
}

#[tonic::async_trait]
impl A2aService for Methods {
    type SendStreamingMessageStream = Events;
    type SubscribeToTaskStream = Events;

    async fn send_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<pb::SendMessageResponse> {
        let encode = |answer| match answer {
            Reply::Sent(sent) => reply::sent(sent),
            other => Err(unexpected(&other)),
        };
        self.serve(request, read::send, encode).await
    }

    async fn send_streaming_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Outcome<Events> {
        self.serve(request, read::stream, |answer| self.events(answer)).await
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> Outcome<pb::Task> {
        self.serve(request, read::get_task, task).await
    }

    async fn list_tasks(&self, request: tonic::Request<pb::ListTasksRequest>) -> Outcome<pb::ListTasksResponse> {
        let encode = |answer| match answer {
            Reply::Tasks(page) => reply::page(&page),
            other => Err(unexpected(&other)),
        };
        self.serve(request, read::list_tasks, encode).await
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> Outcome<pb::Task> {
        self.serve(request, read::cancel_task, task).await
    }

    async fn subscribe_to_task(&self, request: tonic::Request<pb::SubscribeToTaskRequest>) -> Outcome<Events> {
        self.serve(request, read::subscribe, |answer| self.events(answer)).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::TaskPushNotificationConfig>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(request, read::create_push, push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Outcome<pb::TaskPushNotificationConfig> {
        self.serve(request, read::get_push, push).await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigsRequest>,
    ) -> Outcome<pb::ListTaskPushNotificationConfigsResponse> {
        let encode = |answer| match answer {
            Reply::Pushes(task, page) => Ok(reply::pushes(task, page)),
            other => Err(unexpected(&other)),
        };
        self.serve(request, read::list_push, encode).await
    }

    async fn get_extended_agent_card(
        &self,
        request: tonic::Request<pb::GetExtendedAgentCardRequest>,
    ) -> Outcome<pb::AgentCard> {
        let encode = |answer| match answer {
            Reply::Card(card) => Ok(reply::card(&card)),
            other => Err(unexpected(&other)),
        };
        self.serve(request, read::extended_card, encode).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Outcome<()> {
        let encode = |answer| match answer {
            Reply::Deleted => Ok(()),
            other => Err(unexpected(&other)),
        };
        self.serve(request, read::delete_push, encode).await
    }
}

fn task(answer: Reply<Watch>) -> Result<pb::Task, Fault> {
    match answer {
        Reply::Task(task, view) => reply::task(&task, view),
        other => Err(unexpected(&other)),
    }
}

fn push(answer: Reply<Watch>) -> Result<pb::TaskPushNotificationConfig, Fault> {
    match answer {
        Reply::Push(task, config) => Ok(reply::push(task, config)),
        other => Err(unexpected(&other)),
    }
}
