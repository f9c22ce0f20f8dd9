//! The HTTP+JSON binding of 1.0.

use super::{RequestHead, add_refusal_headers, echo_extensions, read_terms, shed, version};
use crate::app::App;
use crate::body::{A2A_JSON, Body, answer, counted, over_budget};
use crate::call::{CallRequest, CallResponse};
use crate::directory::ServedAgent;
use crate::exchange_log::ExchangeReport;
use crate::incoming_body::ReceivedBody;
use crate::losses::LossReport;
use crate::sse::EventStream;
use http::{Response, StatusCode};
use sabir_proto::{Fault, Reply};
use sabir_wire::v1::http::PathOperation;
use sabir_wire::{Dialect, Losses, StreamEncoder, v1, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const METRIC: &str = "1.0 HTTP+JSON";
const DIALECT: Dialect = Dialect::V1;

/// Serves one routed request. `tenant` is the tenant in its path.
pub(crate) async fn serve(
    app: &Arc<App>,
    at: Option<&Arc<ServedAgent>>,
    route: PathOperation<'_>,
    tenant: Option<&str>,
    head: RequestHead<'_>,
    taken: ReceivedBody,
    report: &ExchangeReport,
) -> Response<Body> {
    let ReceivedBody { body, share: held } = taken;
    let started = Instant::now();
    let mut operation = "unknown";
    // The path determines the operation, and no signature covers the path.
    let evidence = head.evidence(app, None);
    let outcome = async {
        let admitted = Some(app.admit(at, &evidence).await?);
        versions::require_v1(version(head.headers, head.query()))?;
        let call = v1::http::read_call(route, tenant, head.query(), &body)?;
        drop(held);
        operation = call.operation();
        let mut terms = read_terms(head.headers, DIALECT)?;
        terms.dialect = DIALECT.name();
        app.call(CallRequest { path_agent: at, evidence, admitted, call, terms, report: Some(report) }).await
    }
    .await;
    app.metrics.request(operation, METRIC, outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok(CallResponse { reply: Reply::Stream(watch), active_extensions: active, scope }) => {
            let mut told = LossReport::new(DIALECT, Losses::new());
            told.in_scope(scope);
            let mut response = EventStream::new(watch, StreamEncoder::http_v1(), told, app, head.peer).into_response();
            echo_extensions(response.headers_mut(), &active, DIALECT);
            response
        }
        Ok(CallResponse { reply, active_extensions: active, .. }) => {
            let mut out = Vec::with_capacity(1024);
            v1::json::write_reply(&reply, &mut out);
            let Some(out) = app.outgoing_to(head.peer).reserve(out) else { return shed(app, refuse(&over_budget())) };
            let mut response = counted(StatusCode::OK, A2A_JSON, out);
            echo_extensions(response.headers_mut(), &active, DIALECT);
            response
        }
        Err(fault) => {
            let mut response = refuse(&fault);
            add_refusal_headers(response.headers_mut(), &fault, app.rules(at).authenticator.challenge());
            response
        }
    }
}

/// An error response in HTTP+JSON.
pub(crate) fn refuse(fault: &Fault) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    let status = v1::http::write_error(fault, &mut out);
    answer(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), A2A_JSON, out)
}

/// An error response with the given HTTP status.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    v1::http::write_error_as(status.as_u16(), fault, &mut out);
    answer(status, A2A_JSON, out)
}
