//! The HTTP+JSON binding of 0.3, below `/v1`.

use super::{Head, Spelling, echo_extensions, say_why_not, shed, terms, version};
use crate::app::{App, Served};
use crate::arriving::Taken;
use crate::body::{Body, JSON, answer, counted, no_room};
use crate::call::{Answered, Ask};
use crate::losses::Told;
use crate::sse::EventStream;
use http::header::USER_AGENT;
use http::{Response, StatusCode};
use sabir_proto::{Answer, Fault, Reply};
use sabir_wire::v03::files::Form;
use sabir_wire::v03::rest::{self, Route};
use sabir_wire::{Dialect, Losses, Teller, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const DIALECT: &str = "0.3 HTTP+JSON";

/// Serves one request of 0.3.
pub(crate) async fn serve(
    app: &Arc<App>,
    at: Option<&Arc<Served>>,
    route: Route<'_>,
    head: Head<'_>,
    taken: Taken,
) -> Response<Body> {
    let Taken { body, held } = taken;
    let started = Instant::now();
    let mut operation = "unknown";
    let mut told = Told::new(Dialect::V03, Losses::new());
    // How the client encodes the bytes of a file; the user agent names its library.
    let files = Form::of(head.headers.get(USER_AGENT).and_then(|v| v.to_str().ok()));
    // The path determines the operation, and no signature covers the path.
    let knock = head.knock(app, None);
    let outcome = async {
        let admitted = Some(app.admit(at, &knock).await?);
        versions::require_older(version(head.headers, head.query()))?;
        let call = rest::read_call(route, head.query(), &body, files, &mut || app.route.mint(), told.losses())?;
        drop(held);
        operation = call.operation();
        let mut terms = terms(head.headers, Spelling::WithX)?;
        terms.dialect = Dialect::V03.name();
        app.call(Ask { at, knock, admitted, call, terms }).await
    }
    .await;
    app.metrics.request(operation, DIALECT, outcome.as_ref().map(|_| ()), started.elapsed());
    let challenge = app.rules(at).entrance.challenge();
    match outcome {
        Ok(Answered { reply: Reply::Stream(watch), active, scope }) => {
            told.in_scope(scope);
            let mut response = EventStream::new(watch, Teller::rest_v03(files), told, app, head.peer).into_response();
            echo_extensions(response.headers_mut(), &active, Spelling::WithX);
            response
        }
        Ok(Answered { reply, active, scope }) => {
            told.in_scope(scope);
            match write(app, &reply, files, told) {
                Ok(body) => {
                    let Some(body) = app.outgoing_to(head.peer).hold(body) else {
                        return shed(app, refuse(&no_room(), challenge));
                    };
                    let mut response = counted(StatusCode::OK, JSON, body);
                    echo_extensions(response.headers_mut(), &active, Spelling::WithX);
                    response
                }
                Err(fault) => refuse(&fault, challenge),
            }
        }
        Err(fault) => refuse(&fault, challenge),
    }
}

fn write<S>(app: &App, reply: &Reply<S>, files: Form, mut told: Told) -> Result<Vec<u8>, Fault> {
    let answer = Answer::of(reply).ok_or_else(|| Fault::Internal("damaged-record".into()))?;
    let mut body = Vec::with_capacity(1024);
    rest::write_answer(&answer, files, told.losses(), &mut body)?;
    told.about(reply);
    told.report(app);
    Ok(body)
}

/// An error response in the form of 0.3.
fn refuse(fault: &Fault, challenge: Option<&str>) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    let status = rest::write_error(fault, &mut out);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, JSON, out);
    say_why_not(response.headers_mut(), fault, challenge);
    response
}

/// An error response with the given HTTP status.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut response = refuse(fault, None);
    *response.status_mut() = status;
    response
}
