//! The gRPC transport for A2A 1.0 and 0.3.

mod counted_channel;

use super::{AgentTransport, EventStream, NumberedEvent, answer_response, event_response, lineage};
use crate::egress::ResolveError;
use crate::error::{FailureSide, UnreachableCause};
use crate::http_client::{ANSWER_BYTES_MAX, ConnectionPool, HttpClient, describe_failure, sensitive_header};
use crate::request_credential::UnsentRequest;
use crate::{AgentResponse, Error, Observation, TransportCode};
use bytes::Bytes;
use counted_channel::CountedChannel;
use http::{HeaderMap, Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use sabir_proto::{Call, WireEvent, WireReply};
use sabir_wire::pb::{a2a_v03, lf_a2a_v1};
use sabir_wire::{GrpcPackage, Losses, grpc_method, v1, v03};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use url::Url;

type ClientV1 = lf_a2a_v1::a2a_service_client::A2aServiceClient<CountedChannel>;
type ClientV03 = a2a_v03::a2a_service_client::A2aServiceClient<CountedChannel>;

/// The interval of HTTP/2 pings on connections with open calls, and the time limit of their answers.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const KEEP_ALIVE_PATIENCE: Duration = Duration::from_secs(10);

/// An open stream of events.
pub(crate) struct GrpcEvents {
    transport: Arc<AgentTransport>,
    stream: Stream,
}

enum Stream {
    V1(tonic::Streaming<lf_a2a_v1::StreamResponse>),
    V03(tonic::Streaming<a2a_v03::StreamResponse>),
}

pub(super) async fn send_call(line: &AgentTransport, call: &Call) -> Result<AgentResponse<WireReply>, Error> {
    let limit = line.http_client.timeouts().answer;
    let beside = &metadata(line, call).await?;
    let begun = observe_request(line, call);
    let mut losses = Losses::new();
    let answer = match package(line) {
        GrpcPackage::V1 => tokio::time::timeout(limit, call_v1(line, call, beside)).await,
        GrpcPackage::V03 => tokio::time::timeout(limit, call_v03(line, call, beside, &mut losses)).await,
    };
    let mut answer = answer.map_err(|_| Error::Timeout { what: "waiting for an answer", after: limit })??;
    line.files.read_answer(&mut answer);
    let said = answer_response(line.chosen.dialect, answer, None, losses);
    line.http_client.observe(&Observation::Response {
        status: StatusCode::OK,
        headers: &HeaderMap::new(),
        elapsed: begun.elapsed(),
    });
    line.http_client.observe(&Observation::Body { bytes: said.bytes() });
    Ok(said)
}

pub(super) async fn open_stream(line: &Arc<AgentTransport>, call: &Call) -> Result<EventStream, Error> {
    let limit = line.http_client.timeouts().answer;
    let beside = &metadata(line, call).await?;
    let begun = observe_request(line, call);
    let opened = async {
        Ok::<_, Error>(match package(line) {
            GrpcPackage::V1 => {
                let mut client = client_v1(line).await?;
                let stream = match v1::grpc::request::Request::of(call) {
                    v1::grpc::request::Request::Stream(r) => client.send_streaming_message(wrap(beside, r)).await,
                    v1::grpc::request::Request::Subscribe(r) => client.subscribe_to_task(wrap(beside, r)).await,
                    _ => return Err(no_stream()),
                };
                Stream::V1(stream.map_err(|s| status_error(line, &s))?.into_inner())
            }
            GrpcPackage::V03 => {
                let mut client = client_v03(line).await?;
                let stream = match v03::grpc::request::Request::of(&line.with_agent_files(call), &mut Losses::new())? {
                    v03::grpc::request::Request::Stream(r) => client.send_streaming_message(wrap(beside, r)).await,
                    v03::grpc::request::Request::Subscribe(r) => client.task_subscription(wrap(beside, r)).await,
                    _ => return Err(no_stream()),
                };
                Stream::V03(stream.map_err(|s| status_error(line, &s))?.into_inner())
            }
        })
    };
    let stream = tokio::time::timeout(limit, opened)
        .await
        .map_err(|_| Error::Timeout { what: "waiting for an answer", after: limit })??;
    line.http_client.observe(&Observation::Response {
        status: StatusCode::OK,
        headers: &HeaderMap::new(),
        elapsed: begun.elapsed(),
    });
    Ok(EventStream::Grpc(Box::new(GrpcEvents { transport: line.clone(), stream })))
}

impl GrpcEvents {
    pub(super) async fn next(&mut self) -> Result<Option<NumberedEvent>, Error> {
        // There is no read timeout: HTTP/2 pings detect a dead connection.
        let mut losses = Losses::new();
        let Some(mut event) = self.read(&mut losses).await? else { return Ok(None) };
        self.transport.files.read_event(&mut event);
        let said = event_response(self.transport.chosen.dialect, event, None, losses);
        self.transport.http_client.observe(&Observation::Frame { id: None, data: said.json() });
        Ok(Some(NumberedEvent { id: None, said }))
    }

    async fn read(&mut self, losses: &mut Losses) -> Result<Option<WireEvent>, Error> {
        let lost = |line: &AgentTransport, status: &tonic::Status| match status_error(line, status) {
            Error::Unreachable { reason, .. } => Error::StreamLost { task: None, reason },
            other => other,
        };
        match &mut self.stream {
            Stream::V1(stream) => match stream.message().await {
                Ok(Some(event)) => Ok(Some(v1::grpc::reply::read_event(event)?)),
                Ok(None) => Ok(None),
                Err(status) => Err(lost(&self.transport, &status)),
            },
            Stream::V03(stream) => match stream.message().await {
                Ok(Some(event)) => Ok(Some(v03::grpc::reply::read_event(event, losses)?.event)),
                Ok(None) => Ok(None),
                Err(status) => Err(lost(&self.transport, &status)),
            },
        }
    }
}

async fn call_v1(line: &AgentTransport, call: &Call, beside: &HeaderMap) -> Result<WireReply, Error> {
    use v1::grpc::{reply, request::Request};
    let mut client = client_v1(line).await?;
    let no = |status: tonic::Status| status_error(line, &status);
    Ok(match Request::of(call) {
        Request::Send(r) => reply::read_sent(client.send_message(wrap(beside, r)).await.map_err(no)?.into_inner())?,
        Request::Get(r) => task(reply::read_task(client.get_task(wrap(beside, r)).await.map_err(no)?.into_inner())?),
        Request::List(r) => reply::read_page(client.list_tasks(wrap(beside, r)).await.map_err(no)?.into_inner())?,
        Request::Cancel(r) => {
            task(reply::read_task(client.cancel_task(wrap(beside, r)).await.map_err(no)?.into_inner())?)
        }
        Request::CreatePush(r) => {
            let made = client.create_task_push_notification_config(wrap(beside, r)).await.map_err(no)?.into_inner();
            let (task, config) = reply::read_push(made)?;
            WireReply::Push(task, config)
        }
        Request::GetPush(r) => {
            let found = client.get_task_push_notification_config(wrap(beside, r)).await.map_err(no)?.into_inner();
            let (task, config) = reply::read_push(found)?;
            WireReply::Push(task, config)
        }
        Request::ListPush(r) => {
            let of = of_task(call)?;
            let page = client.list_task_push_notification_configs(wrap(beside, r)).await.map_err(no)?.into_inner();
            WireReply::Pushes(of, reply::read_pushes(page)?)
        }
        Request::DeletePush(r) => {
            client.delete_task_push_notification_config(wrap(beside, r)).await.map_err(no)?;
            WireReply::Deleted
        }
        Request::ExtendedCard(r) => {
            let card = client.get_extended_agent_card(wrap(beside, r)).await.map_err(no)?.into_inner();
            WireReply::Card(Box::new(reply::read_card(card)?))
        }
        Request::Stream(_) | Request::Subscribe(_) => return Err(no_stream()),
    })
}

async fn call_v03(
    line: &AgentTransport,
    call: &Call,
    beside: &HeaderMap,
    losses: &mut Losses,
) -> Result<WireReply, Error> {
    use v03::grpc::{reply, request::Request};
    let mut client = client_v03(line).await?;
    let no = |status: tonic::Status| status_error(line, &status);
    Ok(match Request::of(&line.with_agent_files(call), losses)? {
        Request::Send(r) => {
            reply::read_sent(client.send_message(wrap(beside, r)).await.map_err(no)?.into_inner(), losses)?
        }
        Request::Get(r) => {
            task(reply::read_task(client.get_task(wrap(beside, r)).await.map_err(no)?.into_inner(), losses)?)
        }
        Request::Cancel(r) => {
            task(reply::read_task(client.cancel_task(wrap(beside, r)).await.map_err(no)?.into_inner(), losses)?)
        }
        Request::CreatePush(r) => {
            let made = client.create_task_push_notification_config(wrap(beside, r)).await.map_err(no)?.into_inner();
            let (task, config) = reply::read_push(made, losses)?;
            WireReply::Push(task, config)
        }
        Request::GetPush(r) => {
            let found = client.get_task_push_notification_config(wrap(beside, r)).await.map_err(no)?.into_inner();
            let (task, config) = reply::read_push(found, losses)?;
            WireReply::Push(task, config)
        }
        Request::ListPush(r) => {
            let of = of_task(call)?;
            let page = client.list_task_push_notification_config(wrap(beside, r)).await.map_err(no)?.into_inner();
            WireReply::Pushes(of, reply::read_pushes(page, losses)?)
        }
        Request::DeletePush(r) => {
            client.delete_task_push_notification_config(wrap(beside, r)).await.map_err(no)?;
            WireReply::Deleted
        }
        Request::ExtendedCard(r) => {
            let card = client.get_agent_card(wrap(beside, r)).await.map_err(no)?.into_inner();
            WireReply::Card(Box::new(reply::read_card(card, losses)?))
        }
        Request::Stream(_) | Request::Subscribe(_) => return Err(no_stream()),
    })
}

fn task(task: sabir_proto::WireTask) -> WireReply {
    WireReply::Task(Box::new(task))
}

/// The package to call. An interface of a dialect without gRPC is never chosen for gRPC.
fn package(line: &AgentTransport) -> GrpcPackage {
    line.chosen.dialect.features().grpc.unwrap_or(GrpcPackage::V03)
}

fn of_task(call: &Call) -> Result<sabir_proto::TaskRef, Error> {
    match call {
        Call::ListPush(list) => Ok(list.task_id.clone()),
        _ => Err(no_stream()),
    }
}

fn no_stream() -> Error {
    Error::Usage("a stream was asked for as an answer, or an answer as a stream".into())
}

async fn client_v1(line: &AgentTransport) -> Result<ClientV1, Error> {
    Ok(ClientV1::new(CountedChannel::new(channel(line).await?, &line.http_client))
        .max_decoding_message_size(ANSWER_BYTES_MAX))
}

async fn client_v03(line: &AgentTransport) -> Result<ClientV03, Error> {
    Ok(ClientV03::new(CountedChannel::new(channel(line).await?, &line.http_client))
        .max_decoding_message_size(ANSWER_BYTES_MAX))
}

/// The connection: made once, restored by tonic. The first one is made here, so that its error is reported as it is.
async fn channel(line: &AgentTransport) -> Result<Channel, Error> {
    let made = line.grpc.get_or_try_init(|| async {
        let url = &line.chosen.url;
        // The URL on a card may have a path, which gRPC does not use.
        let authority = url.as_str().strip_prefix(url.scheme()).and_then(|r| r.strip_prefix("://")).unwrap_or_default();
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        let origin = format!("{}://{authority}", url.scheme());
        let endpoint = Endpoint::from_shared(origin)
            .map_err(|e| Error::Usage(format!("{url}: {e}")))?
            // A stream of a quiet task has no comments, so the connection is pinged instead.
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_PATIENCE)
            .keep_alive_while_idle(false);
        let http_client = line.http_client.clone();
        let who = if line.attached.certificate { ConnectionPool::AgentWithCertificate } else { ConnectionPool::Agent };
        let connector = tower::service_fn(move |uri: Uri| {
            let http_client = http_client.clone();
            async move { connect_stream(&http_client, &uri, who).await.map_err(DialError) }
        });
        match endpoint.connect_with_connector(connector).await {
            Ok(channel) => Ok(channel),
            Err(error) => Err(find_client_error(&error)
                .unwrap_or_else(|| Error::unreachable(url.host_str().unwrap_or_default(), error.to_string(), true))),
        }
    });
    made.await.cloned()
}

/// An error of this crate on its way through tonic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct DialError(Error);

/// The error of this crate, if it is the cause.
fn find_client_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(step) = cause {
        if let Some(DialError(ours)) = step.downcast_ref() {
            return Some(ours.clone());
        }
        if step.is::<counted_channel::CapacityExceeded>() {
            return Some(Error::CapacityExceeded);
        }
        cause = step.source();
    }
    None
}

/// Connects under the address policy: resolves once, checks the addresses, and connects to a checked address.
async fn connect_stream(
    http_client: &HttpClient,
    uri: &Uri,
    who: ConnectionPool,
) -> Result<TokioIo<Box<dyn Io>>, Error> {
    let host = uri.host().unwrap_or_default();
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let unreachable = |reason: &str| Error::unreachable(host, describe_failure(reason, false), true);
    if let Ok(url) = Url::parse(&uri.to_string()) {
        http_client.egress().check_url(host, &url)?;
    }
    let addresses = http_client.egress().resolve(host, port).await.map_err(|e| match e {
        ResolveError::Refused(refusal) => Error::Refused(refusal),
        unknown @ ResolveError::Unknown { .. } => {
            unreachable(&unknown.to_string()).with_cause(UnreachableCause::NameNotResolved)
        }
    })?;
    let mut failure = unreachable("it has no address");
    for address in addresses {
        let connect = async {
            let tcp = TcpStream::connect(address).await;
            let tcp = tcp.map_err(|e| {
                unreachable(&e.to_string()).with_side(FailureSide::of(&e)).with_cause(UnreachableCause::of(&e))
            })?;
            let _ = tcp.set_nodelay(true);
            if !secure {
                return Ok(TokioIo::new(Box::new(tcp) as Box<dyn Io>));
            }
            let mut tls = http_client.tls(who).clone();
            tls.alpn_protocols = vec![b"h2".to_vec()];
            let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(bare).map_err(|e| unreachable(&e.to_string()))?;
            let stream = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, tcp).await;
            Ok(TokioIo::new(Box::new(stream.map_err(|e| unreachable(&e.to_string()))?) as Box<dyn Io>))
        };
        match tokio::time::timeout(http_client.timeouts().connect, connect).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(error)) => failure = error,
            Err(_) => {
                let late = unreachable("the connection could not be made in time");
                failure = late.with_cause(UnreachableCause::ConnectTimeout);
            }
        }
    }
    Err(failure)
}

trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Io for T {}

/// The metadata of one request, including its credentials.
async fn metadata(line: &AgentTransport, call: &Call) -> Result<HeaderMap, Error> {
    let mut headers = line.headers();
    lineage::add_lineage_header(call, &mut headers);
    // gRPC has no query, so keys of a query become metadata.
    for (name, value) in &line.attached.query {
        if let (Ok(name), Ok(value)) =
            (name.to_ascii_lowercase().parse::<http::HeaderName>(), sensitive_header(value.expose()))
        {
            headers.insert(name, value);
        }
    }
    let leaving = UnsentRequest { method: &Method::POST, url: &line.chosen.url, body: None };
    line.authorise(leaving, &mut headers).await?;
    Ok(headers)
}

fn wrap<T>(beside: &HeaderMap, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(beside.clone());
    request
}

/// Reports the request to the observer, with its message as JSON: the bytes of protobuf are not readable.
fn observe_request(line: &AgentTransport, call: &Call) -> Instant {
    let (method, url, headers, body) = preview(line, call);
    let body = body.map(Bytes::from);
    line.http_client.observe(&Observation::Request {
        method: &method,
        url: &url,
        headers: &headers,
        body: body.as_ref(),
    });
    Instant::now()
}

/// Previews a call without sending it.
pub(super) fn preview(line: &AgentTransport, call: &Call) -> (Method, String, HeaderMap, Option<String>) {
    let (_, params) = v1::json::write_call(call);
    let (package, base) = (package(line), line.chosen.url.as_str().trim_end_matches('/'));
    let url = format!("{base}/{}.A2AService/{}", package.name(), grpc_method(package, call));
    (Method::POST, url, line.headers(), Some(params))
}

/// Converts a gRPC status into an error.
fn status_error(line: &AgentTransport, status: &tonic::Status) -> Error {
    if let Some(ours) = std::error::Error::source(status).and_then(find_client_error) {
        return ours;
    }
    let transport = TransportCode::Grpc(status_name(status.code()));
    if matches!(status.code(), tonic::Code::Unauthenticated | tonic::Code::PermissionDenied) {
        return line.auth_error(status.message().to_owned(), transport);
    }
    // A status without details whose source is a connection error does not come from the agent.
    let broken = std::error::Error::source(status).is_some()
        && matches!(status.code(), tonic::Code::Cancelled | tonic::Code::Unknown | tonic::Code::Internal);
    if status.details().is_empty() && (broken || status.code() == tonic::Code::Unavailable) {
        let host = line.chosen.url.host_str().unwrap_or_default();
        let away = Error::unreachable(host, status.message(), false);
        // A status of the connection has a source error. Any other status is an answer of a server.
        let is_answer = std::error::Error::source(status).is_none();
        return if is_answer { away.with_cause(UnreachableCause::GatewayAnswer) } else { away };
    }
    let fault = match package(line) {
        GrpcPackage::V1 => v1::grpc::read_status(status),
        GrpcPackage::V03 => v03::grpc::read_status(status),
    };
    line.fault_error(fault, transport, None)
}

const fn status_name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Cancelled => "CANCELLED",
        tonic::Code::Unknown => "UNKNOWN",
        tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
        tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        tonic::Code::NotFound => "NOT_FOUND",
        tonic::Code::AlreadyExists => "ALREADY_EXISTS",
        tonic::Code::PermissionDenied => "PERMISSION_DENIED",
        tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        tonic::Code::FailedPrecondition => "FAILED_PRECONDITION",
        tonic::Code::Aborted => "ABORTED",
        tonic::Code::OutOfRange => "OUT_OF_RANGE",
        tonic::Code::Unimplemented => "UNIMPLEMENTED",
        tonic::Code::Internal => "INTERNAL",
        tonic::Code::Unavailable => "UNAVAILABLE",
        tonic::Code::DataLoss => "DATA_LOSS",
        tonic::Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
