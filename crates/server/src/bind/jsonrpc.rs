//! The JSON-RPC binding: `POST /`, `/a2a` and `/_agent-native/a2a` accept every dialect, and the message shows which.
//! Errors have HTTP status 200, as nearly every client expects.

use super::{Head, IDEMPOTENCY_KEY, Spelling, echo_extensions, say_why_not, shed, terms, version};
use crate::accept;
use crate::app::{App, Served};
use crate::arriving::Taken;
use crate::body::{Body, EVENT_STREAM, JSON, answer, counted, no_room};
use crate::call::{Answered, Ask};
use crate::guessable_names;
use crate::losses::Told;
use crate::sse::EventStream;
use http::{HeaderMap, Response, StatusCode};
use sabir_guard::Identity;
use sabir_proto::{Call, Fault, MessageId, Reply, Tenant};
use sabir_store::Scope;
use sabir_wire::{Dialect, Entry, Facts, Heard, Losses, Voice, XPR_HEADERS, address, hear};
use std::sync::Arc;
use std::time::Instant;

/// The names of this binding in metrics.
const fn dialect(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::V1 => "1.0 JSONRPC",
        Dialect::V03 => "0.3 JSONRPC",
        Dialect::V02 => "0.2 JSONRPC",
        Dialect::V01 => "0.1 JSONRPC",
        Dialect::Native => "agent-native",
        Dialect::Xpr => "xpr",
    }
}

/// A routed request without its body.
pub(crate) struct Arrived<'a> {
    pub(crate) at: Option<&'a Arc<Served>>,
    pub(crate) entry: Entry,
    pub(crate) head: Head<'a>,
}

impl Arrived<'_> {
    fn facts(&self) -> Facts<'_> {
        let version = version(self.head.headers, self.head.query());
        // A request that names 1.0 needs no further evidence.
        let xpr_headers =
            version != Some("1.0") && XPR_HEADERS.iter().any(|name| self.head.headers.contains_key(*name));
        Facts { entry: self.entry, version, xpr_headers }
    }
}

/// Serves one JSON-RPC request.
pub(crate) async fn serve(app: &Arc<App>, arrived: Arrived<'_>, taken: Taken) -> Response<Body> {
    let Taken { body, held } = taken;
    let started = Instant::now();
    let headers = arrived.head.headers;
    let events_only = accept::takes_events_only(headers);
    let knock = arrived.head.knock(app, Some(&body));
    let challenge = app.rules(arrived.at).entrance.challenge();
    let admitted = match app.admit(arrived.at, &knock).await {
        Ok(admitted) => admitted,
        Err(fault) => {
            let (voice, fault) = turn_away(&arrived.facts(), &body, fault);
            app.metrics.request("unknown", dialect(voice.dialect()), Err(&fault), started.elapsed());
            return refuse(&voice, &fault, challenge);
        }
    };
    let heard = match hear(&arrived.facts(), &body, &mut || mint(app, headers)) {
        Ok(heard) => heard,
        Err(mut unheard) => {
            unheard.voice.set_events_only(events_only);
            let spoken = dialect(unheard.voice.dialect());
            app.metrics.request("unknown", spoken, Err(&unheard.fault), started.elapsed());
            return refuse(&unheard.voice, &unheard.fault, challenge);
        }
    };
    drop(held);
    let Heard { call, idempotency_key, mut voice, losses, .. } = match heard.unsure_about() {
        None => heard,
        Some(_) => Box::pin(by_evidence(app, arrived.at, admitted.identity(), heard)).await,
    };
    voice.set_events_only(events_only);
    let (spoken, operation) = (voice.dialect(), call.operation());
    let outcome = async {
        let mut terms = terms(headers, Spelling::of(spoken))?;
        terms.dialect = spoken.name();
        terms.idempotency_key = terms.idempotency_key.take().or(idempotency_key);
        if !spoken.reach().numbered_events {
            // Such a client never got event numbers, so it cannot continue from one; it begins with the present state.
            terms.last_event_id = None;
        }
        voice.admit(admitted.identity().is_bound_user())?;
        voice.set_owner(admitted.identity().bare_name());
        let mut call = for_dialect(call, &voice);
        if let Some(name) = guessable_names::replace(admitted.identity(), &mut call) {
            voice.set_name(name);
        }
        app.call(Ask { at: arrived.at, knock, admitted: Some(admitted), call, terms }).await
    }
    .await;
    app.metrics.request(operation, dialect(spoken), outcome.as_ref().map(|_| ()), started.elapsed());
    match outcome {
        Ok(Answered { reply: Reply::Stream(watch), active, scope }) => {
            let mut told = Told::new(spoken, losses);
            told.in_scope(scope);
            let stream = EventStream::new(watch, voice.teller(), told, app, arrived.head.peer);
            let mut response = stream.into_response();
            echo_extensions(response.headers_mut(), &active, Spelling::of(spoken));
            response
        }
        Ok(Answered { reply, active, scope }) => match write(app, &voice, &reply, losses, scope) {
            Ok(body) => {
                let Some(body) = app.outgoing_to(arrived.head.peer).hold(body) else {
                    return shed(app, refuse(&voice, &no_room(), challenge));
                };
                let mut response = counted(StatusCode::OK, JSON, body);
                echo_extensions(response.headers_mut(), &active, Spelling::of(spoken));
                response
            }
            Err(fault) => refuse(&voice, &fault, challenge),
        },
        Err(fault) => refuse(&voice, &fault, challenge),
    }
}

/// The dialect and the fault of a refusal: some dialects report an invalid envelope before any other fault.
fn turn_away(facts: &Facts<'_>, body: &[u8], refusal: Fault) -> (Voice, Fault) {
    match address(facts, body) {
        Ok(voice) => (voice, refusal),
        Err(unheard) if unheard.voice.dialect().reach().envelope_first => (unheard.voice, unheard.fault),
        Err(unheard) => (unheard.voice, refusal),
    }
}

/// The id of a message that came without one. It is the retry key if there is one, so that a repeat is the same
/// message.
fn mint(app: &App, headers: &HeaderMap) -> MessageId {
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|v| v.to_str().ok());
    key.and_then(|key| MessageId::parse(key).ok()).unwrap_or_else(|| app.route.mint())
}

fn write<S>(
    app: &App,
    voice: &Voice,
    reply: &Reply<S>,
    mut losses: Losses,
    scope: Arc<Scope>,
) -> Result<Vec<u8>, Fault> {
    let body = voice.answer(reply, &mut losses)?;
    if !losses.is_empty() {
        let mut told = Told::new(voice.dialect(), losses);
        told.in_scope(scope);
        told.about(reply);
        told.report(app);
    }
    Ok(body)
}

/// Applies what a dialect implies for all its calls.
fn for_dialect(mut call: Call, voice: &Voice) -> Call {
    if let Call::Send(request) | Call::Stream(request) = &mut call {
        request.wants_task = voice.wants_task();
    }
    call
}

/// Decides the dialect by the task if the request does not show it: a task with an id of its caller's choice is of 0.1.
async fn by_evidence(app: &App, at: Option<&Arc<Served>>, identity: &Identity, heard: Heard) -> Heard {
    let Some(name) = heard.unsure_about() else { return heard };
    let Some(served) = at.or_else(|| app.default_agent()) else { return heard };
    if !guessable_names::may_name(identity, name) {
        return heard;
    }
    let scope = served.scope(&Tenant::none(), identity.caller());
    if app.route.is_alias(&scope, name).await { heard.as_v01() } else { heard }
}

/// An error response in the form of the dialect.
fn refuse(voice: &Voice, fault: &Fault, challenge: Option<&str>) -> Response<Body> {
    let refusal = voice.refuse(fault);
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(status, if refusal.is_stream { EVENT_STREAM } else { JSON }, refusal.body);
    say_why_not(response.headers_mut(), fault, challenge);
    response
}

/// A refusal before the body was read, with the given HTTP status.
pub(crate) fn refuse_early(status: StatusCode, fault: &Fault) -> Response<Body> {
    let mut response = refuse(&Voice::new(Dialect::V1, Some("null".into())), fault, None);
    *response.status_mut() = status;
    response
}
