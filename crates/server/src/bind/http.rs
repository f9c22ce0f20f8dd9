//! HTTP+JSON.

use super::{Spelling, echo_extensions, terms, version};
use crate::app::{App, Served};
use crate::body::{A2A_JSON, Body, answer};
use crate::call::Ask;
use crate::losses::Told;
use crate::peer::Peer;
use crate::sse::EventStream;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use sabir_proto::{Caller, Fault, Reply};
use sabir_wire::v1::http::Route;
use sabir_wire::{Dialect, Losses, Teller, v1, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const DIALECT: &str = "1.0 HTTP+JSON";

/// A request that was routed.
pub(crate) struct Routed<'a> {
    pub(crate) route: Route<'a>,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) query: &'a str,
    pub(crate) peer: &'a Peer,
}

/// Serves one request.
pub(crate) async fn serve(
    app: &Arc<App>,
    at: Option<&Arc<Served>>,
    routed: Routed<'_>,
    headers: &HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let started = Instant::now();
    let mut operation = "unknown";
    let outcome = async {
        versions::require_v1(version(headers, routed.query))?;
        let call = v1::http::read_call(routed.route, routed.tenant, routed.query, &body)?;
        operation = call.operation();
        let terms = terms(headers, Spelling::Plain)?;
        app.call(Ask { at, caller: Caller::anonymous(), call, terms }).await
    }
    .await;
    app.metrics.request(operation, DIALECT, outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok((Reply::Stream(watch), active)) => {
            let told = Told::new(Dialect::V1, Losses::new(), at, app);
            let mut response = EventStream::new(watch, Teller::http_v1(), told, app).into_response();
            echo_extensions(response.headers_mut(), &active, Spelling::Plain);
            response
        }
        Ok((reply, active)) => {
            let mut out = Vec::with_capacity(1024);
            v1::json::write_reply(&reply, &mut out);
            let mut response = answer(StatusCode::OK, A2A_JSON, out);
            echo_extensions(response.headers_mut(), &active, Spelling::Plain);
            response
        }
        Err(fault) => refuse(&fault),
    }
}

/// An error, as HTTP+JSON has it.
pub(crate) fn refuse(fault: &Fault) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    let status = v1::http::write_error(fault, &mut out);
    answer(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), A2A_JSON, out)
}

/// The same with an HTTP status of its own.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    v1::http::write_error_as(status.as_u16(), fault, &mut out);
    answer(status, A2A_JSON, out)
}
