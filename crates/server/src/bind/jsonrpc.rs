//! `POST /`: JSON-RPC. Errors come with HTTP status 200, as every SDK expects.

use super::{echo_extensions, terms, version};
use crate::app::{App, Served};
use crate::body::{Body, JSON, answer};
use crate::call::Ask;
use crate::sse::{EventStream, Framing};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use sabir_proto::{Caller, Fault, Reply};
use sabir_wire::jsonrpc::{self, Envelope, Malformed};
use sabir_wire::{v1, version as versions};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const DIALECT: &str = "1.0 JSONRPC";

/// Serves one request.
pub(crate) async fn serve(
    app: &App,
    at: Option<&Arc<Served>>,
    headers: &HeaderMap,
    query: &str,
    body: Bytes,
) -> Response<Body> {
    let started = Instant::now();
    let envelope = match Envelope::read(&body) {
        Ok(envelope) => envelope,
        Err(Malformed { id, fault }) => {
            app.metrics.request("unknown", DIALECT, Err(&fault), started.elapsed());
            return refuse(&id, &fault);
        }
    };
    let id = envelope.id_text();
    let mut operation = "unknown";
    let outcome = async {
        let call = v1::json::read_call(&envelope);
        if let Ok(call) = &call {
            operation = call.operation();
        }
        // An unknown method is unknown in every version; a known one must be asked for in its own.
        if !matches!(call, Err(Fault::MethodNotFound(_))) {
            versions::require_v1(version(headers, query))?;
        }
        let (call, terms) = (call?, terms(headers)?);
        app.call(Ask { at, caller: Caller::anonymous(), call, terms }).await
    }
    .await;
    app.metrics.request(operation, DIALECT, outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok((Reply::Stream(watch), active)) => {
            let stream = EventStream::new(watch, Framing::JsonRpc(id), app.keep_alive, app.metrics.stream());
            let mut response = stream.into_response();
            echo_extensions(response.headers_mut(), &active);
            response
        }
        Ok((reply, active)) => {
            let mut out = Vec::with_capacity(1024);
            jsonrpc::open_result(&id, &mut out);
            v1::json::write_reply(&reply, &mut out);
            out.push(b'}');
            let mut response = answer(StatusCode::OK, JSON, out);
            echo_extensions(response.headers_mut(), &active);
            response
        }
        Err(fault) => refuse(&id, &fault),
    }
}

/// An error, as JSON-RPC has it.
fn refuse(id: &str, fault: &Fault) -> Response<Body> {
    let mut out = Vec::with_capacity(512);
    jsonrpc::write_error(id, fault, &mut out);
    answer(StatusCode::OK, JSON, out)
}

/// A refusal that happened before the body was read, with an HTTP status of its own.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut response = refuse("null", fault);
    *response.status_mut() = status;
    response
}
