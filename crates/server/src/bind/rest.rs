//! The HTTP+JSON binding of 0.3, below `/v1`.

use super::{RequestHead, add_refusal_headers, echo_extensions, read_terms, shed, version};
use crate::accept_header::takes_events_only;
use crate::app::App;
use crate::body::{Body, EVENT_STREAM, JSON, answer, counted, over_budget};
use crate::call::{CallRequest, CallResponse};
use crate::directory::ServedAgent;
use crate::exchange_log::ExchangeReport;
use crate::incoming_body::ReceivedBody;
use crate::losses::LossReport;
use crate::sse::EventStream;
use http::header::USER_AGENT;
use http::{HeaderMap, Response, StatusCode};
use sabir_proto::{Fault, Reply, WireReply};
use sabir_wire::v03::files::FileEncoding;
use sabir_wire::v03::rest::{self, ErrorReader, PathOperation};
use sabir_wire::{Dialect, Losses, StreamEncoder, sse, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const METRIC: &str = "0.3 HTTP+JSON";
const DIALECT: Dialect = Dialect::V03;

/// Serves one request of 0.3.
pub(crate) async fn serve(
    app: &Arc<App>,
    at: Option<&Arc<ServedAgent>>,
    route: PathOperation<'_>,
    head: RequestHead<'_>,
    taken: ReceivedBody,
    report: &ExchangeReport,
) -> Response<Body> {
    let ReceivedBody { body, share: held } = taken;
    let started = Instant::now();
    let mut operation = "unknown";
    let mut told = LossReport::new(DIALECT, Losses::new());
    // What the client means by the bytes of a file; its library tells.
    let files = FileEncoding::of_client(user_agent(head.headers));
    let refuse = |fault: &Fault, challenge: Option<&str>| refuse(fault, head.headers, challenge);
    // The path says what is asked, and no signature covers it.
    let evidence = head.evidence(app, None);
    let outcome = async {
        let admitted = Some(app.admit(at, &evidence).await?);
        versions::require_older(version(head.headers, head.query()))?;
        let call =
            rest::read_call(route, head.query(), &body, files, &mut || app.engine.new_message_id(), told.losses())?;
        drop(held);
        operation = call.operation();
        let mut terms = read_terms(head.headers, DIALECT)?;
        terms.dialect = DIALECT.name();
        app.call(CallRequest { path_agent: at, evidence, admitted, call, terms, report: Some(report) }).await
    }
    .await;
    app.metrics.request(operation, METRIC, outcome.as_ref().map(|_| ()), started.elapsed());
    let challenge = app.rules(at).authenticator.challenge();
    match outcome {
        Ok(CallResponse { reply: Reply::Stream(watch), active_extensions: active, scope }) => {
            told.in_scope(scope);
            let mut response =
                EventStream::new(watch, StreamEncoder::rest_v03(files), told, app, head.peer).into_response();
            echo_extensions(response.headers_mut(), &active, DIALECT);
            response
        }
        Ok(CallResponse { reply, active_extensions: active, scope }) => {
            told.in_scope(scope);
            match write(app, &reply, files, told) {
                Ok(body) => {
                    let Some(body) = app.outgoing_to(head.peer).reserve(body) else {
                        return shed(app, refuse(&over_budget(), challenge));
                    };
                    let mut response = counted(StatusCode::OK, JSON, body);
                    echo_extensions(response.headers_mut(), &active, DIALECT);
                    response
                }
                Err(fault) => refuse(&fault, challenge),
            }
        }
        Err(fault) => refuse(&fault, challenge),
    }
}

fn write<S>(app: &App, reply: &Reply<S>, files: FileEncoding, mut told: LossReport) -> Result<Vec<u8>, Fault> {
    let answer = WireReply::of(reply).ok_or_else(|| Fault::Internal("damaged-record".into()))?;
    let mut body = Vec::with_capacity(1024);
    rest::write_answer(&answer, files, told.losses(), &mut body)?;
    told.about_reply(reply);
    told.report(app);
    Ok(body)
}

fn user_agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(USER_AGENT).and_then(|value| value.to_str().ok())
}

/// An error, as the client that sent these headers reads it.
fn refuse(fault: &Fault, headers: &HeaderMap, challenge: Option<&str>) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    let reader = ErrorReader::of(user_agent(headers));
    let status = rest::write_error(fault, reader, &mut out);
    // The SDK for Java reads the body of a refused stream only where it is an event.
    let is_event = reader == ErrorReader::Java && takes_events_only(headers) && !fault.code().is_access_refusal();
    let mut response = if is_event {
        let mut event = Vec::with_capacity(512);
        sse::frame(None, &out, &mut event);
        answer(StatusCode::OK, EVENT_STREAM, event)
    } else {
        answer(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), JSON, out)
    };
    add_refusal_headers(response.headers_mut(), fault, challenge);
    response
}

/// An error response with the given HTTP status.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut response = refuse(fault, &HeaderMap::new(), None);
    *response.status_mut() = status;
    response
}
