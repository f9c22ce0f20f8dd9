//! The JSON-RPC binding: `POST /`, `/a2a` and `/_agent-native/a2a` accept every dialect, and the message shows which.
//! Errors have HTTP status 200, as nearly every client expects.

use super::{IDEMPOTENCY_KEY, RequestHead, add_refusal_headers, echo_extensions, read_terms, shed, version};
use crate::accept_header;
use crate::app::App;
use crate::body::{Body, EVENT_STREAM, JSON, answer, counted, over_budget};
use crate::call::{CallRequest, CallResponse};
use crate::directory::ServedAgent;
use crate::exchange_log::ExchangeReport;
use crate::guessable_names;
use crate::incoming_body::ReceivedBody;
use crate::losses::LossReport;
use crate::sse::EventStream;
use http::{HeaderMap, Response, StatusCode};
use sabir_guard::Identity;
use sabir_proto::{Call, Fault, MessageId, Reply, Tenant};
use sabir_store::Scope;
use sabir_wire::{
    DecodedRequest, Dialect, EndpointPath, Facts, Losses, Responder, XPR_HEADERS, decode_request, refusal_responder,
};
use std::sync::Arc;
use std::time::Instant;

/// The name of this binding in metrics.
const fn metric_name(dialect: Dialect) -> &'static str {
    dialect.features().json_rpc_metric
}

/// A routed request without its body.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) path_agent: Option<&'a Arc<ServedAgent>>,
    pub(crate) entry: EndpointPath,
    pub(crate) head: RequestHead<'a>,
    pub(crate) report: &'a ExchangeReport,
}

impl RoutedRequest<'_> {
    fn facts(&self) -> Facts<'_> {
        let version = version(self.head.headers, self.head.query());
        // A request that names 1.0 needs no further evidence.
        let xpr_headers =
            version != Some("1.0") && XPR_HEADERS.iter().any(|name| self.head.headers.contains_key(*name));
        Facts { endpoint: self.entry, version, xpr_headers }
    }
}

/// Serves one JSON-RPC request.
pub(crate) async fn serve(app: &Arc<App>, arrived: RoutedRequest<'_>, taken: ReceivedBody) -> Response<Body> {
    let ReceivedBody { body, share: held } = taken;
    let started = Instant::now();
    let headers = arrived.head.headers;
    let events_only = accept_header::takes_events_only(headers);
    let names_version = version(headers, arrived.head.query()).is_some();
    let evidence = arrived.head.evidence(app, Some(&body));
    let challenge = app.rules(arrived.path_agent).authenticator.challenge();
    let admitted = match app.admit(arrived.path_agent, &evidence).await {
        Ok(admitted) => admitted,
        Err(fault) => {
            let (responder, fault) = refusal_for(&arrived.facts(), &body, fault);
            app.metrics.request("unknown", metric_name(responder.dialect()), Err(&fault), started.elapsed());
            return refuse(&responder, &fault, challenge);
        }
    };
    let heard = match decode_request(&arrived.facts(), &body, &mut || message_id(app, headers)) {
        Ok(heard) => heard,
        Err(mut unheard) => {
            unheard.responder.set_events_only(events_only);
            unheard.responder.set_names_version(names_version);
            let spoken = metric_name(unheard.responder.dialect());
            app.metrics.request("unknown", spoken, Err(&unheard.fault), started.elapsed());
            return refuse(&unheard.responder, &unheard.fault, challenge);
        }
    };
    drop(held);
    let DecodedRequest { call, idempotency_key, mut responder, mut losses, .. } = match heard.task_deciding_dialect() {
        None => heard,
        Some(_) => Box::pin(detect_by_task(app, arrived.path_agent, admitted.identity(), heard)).await,
    };
    responder.set_events_only(events_only);
    responder.set_names_version(names_version);
    let (spoken, operation) = (responder.dialect(), call.operation());
    let outcome = async {
        let mut terms = read_terms(headers, spoken)?;
        terms.dialect = spoken.name();
        terms.idempotency_key = terms.idempotency_key.take().or(idempotency_key);
        if !spoken.features().numbered_events {
            // Such a client never got event numbers, so it cannot continue from one; it begins with the present state.
            terms.last_event_id = None;
        }
        responder.authorize(admitted.identity().is_bound_user())?;
        responder.set_owner(admitted.identity().bare_name());
        let mut call = apply_dialect(call, &responder, &mut losses);
        if let Some(name) = guessable_names::replace_task_name(admitted.identity(), &mut call) {
            responder.set_name(name);
        }
        let (path_agent, report) = (arrived.path_agent, Some(arrived.report));
        app.call(CallRequest { path_agent, evidence, admitted: Some(admitted), call, terms, report }).await
    }
    .await;
    app.metrics.request(operation, metric_name(spoken), outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok(CallResponse { reply: Reply::Stream(watch), active_extensions: active, scope }) => {
            let mut told = LossReport::new(spoken, losses);
            told.in_scope(scope);
            let stream = EventStream::new(watch, responder.stream_encoder(), told, app, arrived.head.peer);
            let mut response = stream.into_response();
            echo_extensions(response.headers_mut(), &active, spoken);
            response
        }
        Ok(CallResponse { reply, active_extensions: active, scope }) => {
            match write(app, &responder, &reply, losses, scope) {
                Ok(body) => {
                    let Some(body) = app.outgoing_to(arrived.head.peer).reserve(body) else {
                        return shed(app, refuse(&responder, &over_budget(), challenge));
                    };
                    let mut response = counted(StatusCode::OK, JSON, body);
                    echo_extensions(response.headers_mut(), &active, spoken);
                    response
                }
                Err(fault) => refuse(&responder, &fault, challenge),
            }
        }
        Err(fault) => refuse(&responder, &fault, challenge),
    }
}

/// The dialect and the fault of a refusal: some dialects report an invalid envelope before any other fault.
fn refusal_for(facts: &Facts<'_>, body: &[u8], refusal: Fault) -> (Responder, Fault) {
    match refusal_responder(facts, body) {
        Ok(responder) => (responder, refusal),
        Err(unheard) if unheard.responder.dialect().features().envelope_first => (unheard.responder, unheard.fault),
        Err(unheard) => (unheard.responder, refusal),
    }
}

/// The id of a message that came without one. It is the retry key if there is one, so that a repeat is the same
/// message.
fn message_id(app: &App, headers: &HeaderMap) -> MessageId {
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|v| v.to_str().ok());
    key.and_then(|key| MessageId::parse(key).ok()).unwrap_or_else(|| app.engine.new_message_id())
}

fn write<S>(
    app: &App,
    responder: &Responder,
    reply: &Reply<S>,
    mut losses: Losses,
    scope: Arc<Scope>,
) -> Result<Vec<u8>, Fault> {
    let body = responder.answer(reply, &mut losses)?;
    if !losses.is_empty() {
        let mut told = LossReport::new(responder.dialect(), losses);
        told.in_scope(scope);
        told.about_reply(reply);
        told.report(app);
    }
    Ok(body)
}

/// What a dialect implies about every call in it.
fn apply_dialect(mut call: Call, responder: &Responder, losses: &mut Losses) -> Call {
    if let Call::Send(request) | Call::Stream(request) = &mut call {
        request.wants_task = responder.wants_task();
        responder.carry_metadata(request, losses);
    }
    call
}

/// Decides the dialect by the task if the request does not show it: a task with an id of its caller's choice is of 0.1.
async fn detect_by_task(
    app: &App,
    at: Option<&Arc<ServedAgent>>,
    identity: &Identity,
    heard: DecodedRequest,
) -> DecodedRequest {
    let Some(name) = heard.task_deciding_dialect() else { return heard };
    let Some(served) = at.or_else(|| app.default_agent()) else { return heard };
    if !guessable_names::may_name(identity, name) {
        return heard;
    }
    let scope = served.scope(&Tenant::none(), identity.caller());
    if app.engine.is_alias(&scope, name).await { heard.as_v01() } else { heard }
}

/// An error response in the form of the dialect.
fn refuse(responder: &Responder, fault: &Fault, challenge: Option<&str>) -> Response<Body> {
    let refusal = responder.refuse(fault);
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, if refusal.is_stream { EVENT_STREAM } else { JSON }, refusal.body);
    add_refusal_headers(response.headers_mut(), fault, challenge);
    response
}

/// A refusal before the body was read, with the given HTTP status.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut response = refuse(&Responder::new(Dialect::NEWEST, Some("null".into())), fault, None);
    *response.status_mut() = status;
    response
}
