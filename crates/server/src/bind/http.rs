//! The HTTP+JSON binding of 1.0.

use super::{Head, Spelling, echo_extensions, say_why_not, shed, terms, version};
use crate::app::{App, Served};
use crate::arriving::Taken;
use crate::body::{A2A_JSON, Body, answer, counted, no_room};
use crate::call::{Answered, Ask};
use crate::losses::Told;
use crate::sse::EventStream;
use http::{Response, StatusCode};
use sabir_proto::{Fault, Reply};
use sabir_wire::v1::http::Route;
use sabir_wire::{Dialect, Losses, Teller, v1, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const DIALECT: &str = "1.0 HTTP+JSON";

/// Serves one routed request. `tenant` is the tenant in its path.
pub(crate) async fn serve(
    app: &Arc<App>,
    at: Option<&Arc<Served>>,
    (route, tenant): (Route<'_>, Option<&str>),
    head: Head<'_>,
    taken: Taken,
) -> Response<Body> {
    let Taken { body, held } = taken;
    let started = Instant::now();
    let mut operation = "unknown";
    // The path determines the operation, and no signature covers the path.
    let knock = head.knock(app, None);
    let outcome = async {
        let admitted = Some(app.admit(at, &knock).await?);
        versions::require_v1(version(head.headers, head.query()))?;
        let call = v1::http::read_call(route, tenant, head.query(), &body)?;
        drop(held);
        operation = call.operation();
        let mut terms = terms(head.headers, Spelling::Plain)?;
        terms.dialect = Dialect::V1.name();
        app.call(Ask { at, knock, admitted, call, terms }).await
    }
    .await;
    app.metrics.request(operation, DIALECT, outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok(Answered { reply: Reply::Stream(watch), active, scope }) => {
            let mut told = Told::new(Dialect::V1, Losses::new());
            told.in_scope(scope);
            let mut response = EventStream::new(watch, Teller::http_v1(), told, app, head.peer).into_response();
            echo_extensions(response.headers_mut(), &active, Spelling::Plain);
            response
        }
        Ok(Answered { reply, active, .. }) => {
            let mut out = Vec::with_capacity(1024);
            v1::json::write_reply(&reply, &mut out);
            let Some(out) = app.outgoing_to(head.peer).hold(out) else { return shed(app, refuse(&no_room())) };
            let mut response = counted(StatusCode::OK, A2A_JSON, out);
            echo_extensions(response.headers_mut(), &active, Spelling::Plain);
            response
        }
        Err(fault) => {
            let mut response = refuse(&fault);
            say_why_not(response.headers_mut(), &fault, app.rules(at).entrance.challenge());
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
