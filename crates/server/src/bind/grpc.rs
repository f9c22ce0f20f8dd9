//! gRPC: the generated services. Each method decodes, calls the engine and encodes. The package shows the version.
//!
//! All agents share one path, and the tenant selects the agent. Event numbers are not sent, because gRPC has no place
//! for them: a client of a broken stream subscribes again.
//!
//! A message is decoded last: `admission.rs` authenticates its caller and counts its members before that.

mod admission;
mod v03;
mod v1;

use super::{RequestHead, read_terms, retry_after};
use crate::app::App;
use crate::authorized_stream::AuthorizedStream;
use crate::body::{Body, GrpcAnswer};
use crate::call::{CallRequest, CallResponse};
use crate::exchange_log::{self, ExchangeReport};
use crate::incoming_body::ReceiveError;
use crate::losses::{LossReport, task_of};
use crate::metrics::GaugeGuard;
use crate::peer::Peer;
use admission::Admission;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use sabir_engine::watch::WatchItem;
use sabir_gateway::exchange_log::ExchangeLogMode;
use sabir_proto::{Call, Fault, Reply, WireEvent};
use sabir_wire::v1::grpc::EXTENSIONS_KEY;
use sabir_wire::{Dialect, Losses, v1 as wire_v1, v03 as wire_v03, version as versions};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::MetadataValue;
use tower::Service as _;

/// Serves one gRPC request.
pub(crate) async fn serve(app: &Arc<App>, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let package = if request.uri().path().starts_with("/a2a.v1.") { GrpcPackage::V03 } else { GrpcPackage::V1 };
    let (parts, body) = request.into_parts();
    let (message, admission) = match admission::admit(app, package, &parts, body, peer).await {
        Ok(checked) => checked,
        Err(status) => return status.into_http::<tonic::body::Body>().map(Body::Grpc),
    };
    let methods = Methods {
        app: app.clone(),
        uri: parts.uri.clone(),
        peer: peer.clone(),
        admission: Mutex::new(Some(admission)),
    };
    let request = Request::from_parts(parts, Full::new(message));
    let most = app.limits.body_bytes_max;
    let answered = match package {
        GrpcPackage::V03 => v03::server(methods).max_decoding_message_size(most).call(request).await,
        GrpcPackage::V1 => v1::server(methods).max_decoding_message_size(most).call(request).await,
    };
    match answered {
        Ok(response) => response.map(|body| Body::CountedGrpc(GrpcAnswer::new(body, app.outgoing_to(peer)))),
        Err(never) => match never {},
    }
}

/// The error text for a call whose deadline has passed.
const DEADLINE_PASSED: &str = "the time that the caller gave is over; the task goes on";

/// The service methods, for one request.
struct Methods {
    app: Arc<App>,
    uri: Uri,
    peer: Peer,
    /// Taken by the method that runs.
    admission: Mutex<Option<Admission>>,
}

type MethodResult<T> = Result<tonic::Response<T>, tonic::Status>;

/// The protobuf package that was called.
#[derive(Clone, Copy)]
enum GrpcPackage {
    V1,
    V03,
}

impl GrpcPackage {
    /// The name of this binding in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::V1 => "1.0 GRPC",
            Self::V03 => "0.3 GRPC",
        }
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::V1 => Dialect::V1,
            Self::V03 => Dialect::V03,
        }
    }

    fn status(self, fault: &Fault) -> tonic::Status {
        match self {
            Self::V1 => wire_v1::grpc::status(fault),
            Self::V03 => wire_v03::grpc::status(fault),
        }
    }

    /// The status of a refused call, with `retry-after` where the fault has one.
    fn refuse(self, fault: &Fault) -> tonic::Status {
        let mut status = self.status(fault);
        if let Some(seconds) = retry_after(fault) {
            status.metadata_mut().insert("retry-after", seconds.into());
        }
        status
    }

    /// The status for a message that was not received.
    fn receive_error(self, app: &App, trouble: ReceiveError) -> tonic::Status {
        match trouble {
            ReceiveError::TooLarge => tonic::Status::out_of_range("more than one message, or one that is too large"),
            ReceiveError::TimedOut => tonic::Status::deadline_exceeded(trouble.to_string()),
            ReceiveError::Crowded => {
                app.metrics.shed();
                self.refuse(&Fault::Unavailable(trouble.to_string()))
            }
            ReceiveError::Broken(error) => tonic::Status::from_error(error.into()),
        }
    }

    /// The version that a client sends must belong to the package.
    fn check(self, version: Option<&str>) -> Result<(), Fault> {
        match self {
            Self::V1 => versions::require_v1(version),
            Self::V03 => versions::require_older(version),
        }
    }
}

impl Methods {
    /// Decodes the request, calls the engine and encodes the reply. Each call is counted once, whichever step fails.
    async fn serve<Q, A>(
        &self,
        package: GrpcPackage,
        request: tonic::Request<Q>,
        decode: impl FnOnce(Q, &mut Losses) -> Result<Call, Fault>,
        encode: impl FnOnce(Reply<AuthorizedStream>, &mut Losses) -> Result<A, Fault>,
    ) -> MethodResult<A> {
        let admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Admission { started, admitted, share: held } = admission.unwrap_or_else(|| Admission::none(&self.app));
        let (metadata, _, message) = request.into_parts();
        let headers = metadata.into_headers();
        let mut operation = "unknown";
        let mut told = LossReport::new(package.dialect(), Losses::new());
        let head = RequestHead { uri: &self.uri, headers: &headers, peer: &self.peer };
        let outcome = async {
            package.check(header(&headers, versions::HEADER))?;
            let call = decode(message, told.losses())?;
            drop(held);
            operation = call.operation();
            let mut terms = read_terms(&headers, package.dialect())?;
            terms.dialect = package.dialect().name();
            // gRPC requests have no body signature.
            let report = ExchangeReport::new(&self.app);
            let evidence = head.evidence(&self.app, None);
            let ask = CallRequest { path_agent: None, evidence, admitted, call, terms, report: Some(&report) };
            let said = (self.app.exchange_log.mode() != ExchangeLogMode::Off).then(|| ask.call.clone());
            let serving = Box::pin(async {
                match package {
                    GrpcPackage::V1 => self.app.call(ask).await,
                    GrpcPackage::V03 => self.app.call_grpc_v03(ask).await,
                }
            });
            let CallResponse { reply, active_extensions: active, scope } =
                exchange_log::record_call(&self.app, &head, said, &report, serving).await?;
            told.in_scope(scope);
            let about = task_of(&reply);
            let answer = encode(reply, told.losses())?;
            told.about_task(about);
            Ok((answer, active))
        };
        let mut late = false;
        let outcome = match call_timeout(&headers) {
            None => outcome.await,
            // The deadline ends the wait of the client; the task continues.
            Some(time) => tokio::time::timeout(time, outcome).await.unwrap_or_else(|_| {
                late = true;
                Err(Fault::Unavailable(DEADLINE_PASSED.into()))
            }),
        };
        told.report(&self.app);
        self.app.metrics.request(operation, package.name(), outcome.as_ref().map(|_| ()), started.elapsed());
        let refuse = |fault: Fault| {
            if late { tonic::Status::deadline_exceeded(DEADLINE_PASSED) } else { package.refuse(&fault) }
        };
        let (answer, active) = outcome.map_err(refuse)?;
        let mut response = tonic::Response::new(answer);
        if !active.is_empty()
            && let Ok(value) = MetadataValue::try_from(active.join(","))
        {
            response.metadata_mut().insert(EXTENSIONS_KEY, value);
        }
        Ok(response)
    }

    fn events<E: EncodeEvent>(&self, reply: Reply<AuthorizedStream>, encode: E) -> Result<GrpcEvents<E>, Fault> {
        match reply {
            Reply::Stream(watch) => Ok(GrpcEvents {
                watch: Some(watch),
                loss_report: LossReport::new(E::PACKAGE.dialect(), Losses::new()),
                app: self.app.clone(),
                encode,
                _open_streams: self.app.metrics.stream(),
            }),
            other => Err(unexpected(&other)),
        }
    }
}

/// The deadline that the client sends: up to eight digits and a unit.
fn call_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = header(headers, "grpc-timeout")?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let legal = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| legal)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// A reply of the wrong kind is an internal error.
fn unexpected(reply: &Reply<AuthorizedStream>) -> Fault {
    tracing::error!(?reply, "a reply of the wrong kind");
    Fault::Internal("unexpected-reply".into())
}

/// A stored record that cannot be read.
fn damaged() -> Fault {
    Fault::Internal("damaged-record".into())
}

/// How a package encodes the events of a stream.
trait EncodeEvent: Send + Unpin + 'static {
    const PACKAGE: GrpcPackage;
    type Response: Send + 'static;

    /// `last`: whether this is the last event of the stream.
    fn event(&self, event: WireEvent, last: bool, losses: &mut Losses) -> Self::Response;
}

/// The events of a task as a response stream.
struct GrpcEvents<E> {
    watch: Option<AuthorizedStream>,
    loss_report: LossReport,
    app: Arc<App>,
    encode: E,
    _open_streams: GaugeGuard,
}

impl<E: EncodeEvent> Stream for GrpcEvents<E> {
    type Item = Result<E::Response, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(watch) = this.watch.as_mut() else { return Poll::Ready(None) };
        let next = match watch.poll_next(&this.app.guard, cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => None,
            Poll::Ready(Some(Ok(WatchItem::Event(event)))) => Some(match event.to_wire() {
                Some(shown) => {
                    let response = this.encode.event(shown, watch.is_finished(), this.loss_report.losses());
                    this.loss_report.about_event(&event);
                    Ok(response)
                }
                None => Err(E::PACKAGE.status(&damaged())),
            }),
            Poll::Ready(Some(Ok(WatchItem::Reply(message)))) => {
                Some(Ok(this.encode.event(WireEvent::Message(*message), true, this.loss_report.losses())))
            }
            Poll::Ready(Some(Err(fault))) => Some(Err(E::PACKAGE.status(&fault))),
        };
        this.loss_report.report(&this.app);
        if !matches!(next, Some(Ok(_))) {
            this.watch = None;
        }
        Poll::Ready(next)
    }
}
