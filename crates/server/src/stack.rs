//! The path of an HTTP request: the order of all checks on one screen, and the binding of each path.
//!
//! ```text
//! proxies → path → HTTPS → origin check → preflight → body limit → collect → agent → dialect
//!         → authenticate → rate → decode
//! ```
//!
//! The size limit comes before the body: a body that is too large is refused by its declared length, or as soon as it
//! exceeds the limit. The body is received before authentication, because signatures cover it; so all bodies together
//! have a limit too (`incoming_body.rs`), which gRPC shares. gRPC messages are framed, and have no body signatures.
//! `call.rs` handles a decoded call. Responses have a budget (`body.rs`): a binding refuses a response that does not
//! fit in its own form, and all other responses are counted here at the end.

use crate::accept_header;
use crate::admin::{self, api::AdminApi};
use crate::app::App;
use crate::bind::{self, agnt, grpc, http as rest, jsonrpc, process, rest as rest_v03};
use crate::body::{A2A_JSON, Body, JSON, TEXT, answer, over_budget};
use crate::card::{WELL_KNOWN_KEYS, WellKnown};
use crate::catalog::{self, AI_CATALOG, CATALOG};
use crate::config::LimitsConfig;
use crate::directory::ServedAgent;
use crate::exchange_log::{self, ExchangeReport};
use crate::incoming_body::collect;
use crate::interceptor::Interceptor;
use crate::listen::{RequestHandler, ResponseFuture};
use crate::metrics::GaugeGuard;
use crate::peer::Peer;
use crate::registry;
use crate::routes::{agent_in_path, endpoint, is_app_path, is_endpoint, is_grpc, is_probe, v03_path, with_one_slash};
use crate::tls::ServerCertificate;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_proto::Fault;
use sabir_wire::v1::http::{RouteMatch, route};
use sabir_wire::v03;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

/// The header with the id of a request, for the caller, the proxies and our log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Browsers use only HTTPS for this host for a year. Its subdomains are left out, because they may belong to others.
const HTTPS_ONLY: &str = "max-age=31536000";
/// Longest request id that is accepted from a caller, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Serves the requests that the sockets receive: through the interceptor, if there is one.
#[derive(Clone)]
pub(crate) struct AppHandler {
    pub(crate) app: Arc<App>,
    pub(crate) interceptor: Option<Arc<dyn Interceptor>>,
}

impl RequestHandler for AppHandler {
    fn limits(&self) -> &LimitsConfig {
        &self.app.limits
    }

    fn connection(&self) -> Option<GaugeGuard> {
        Some(self.app.metrics.connection())
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.app.proxies.is_trusted(&address)
    }

    fn tls(&self) -> Option<&ServerCertificate> {
        self.app.tls.as_deref()
    }

    fn handshake_failed(&self, reason: &'static str) {
        self.app.metrics.tls_failure(reason);
    }

    fn answer(&self, request: Request<Incoming>, peer: Peer) -> ResponseFuture {
        let app = self.app.clone();
        match &self.interceptor {
            None => Box::pin(serve(app, request, peer)),
            Some(interceptor) => interceptor.clone().serve(app, request, peer),
        }
    }

    fn begin_stop(&self) {
        self.app.begin_stop();
    }

    fn is_stopping(&self) -> bool {
        self.app.is_stopping()
    }
}

/// Serves one request of a peer. Never fails: a failure is a response too.
pub(crate) async fn serve(app: Arc<App>, request: Request<Incoming>, peer: Peer) -> Response<Body> {
    let invitation = app.origin_check.cors_headers(request.headers());
    let is_own_tls = peer.tls;
    let peer = app.proxies.resolve_client(peer, request.headers());
    let strict = app.production && (is_own_tls || (app.https_only && peer.tls));
    let plain_json = accept_header::prefers_plain_json(request.headers());
    let mut response = match app.access_log {
        true => logged(&app, request, &peer).await,
        false => traced(&app, request, &peer).await,
    };
    count_outgoing(&app, &peer, &mut response);
    if plain_json && response.headers().get(CONTENT_TYPE).is_some_and(|content_type| content_type == A2A_JSON) {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
    invitation.write(response.headers_mut());
    if strict {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HTTPS_ONLY));
    }
    response
}

/// Counts an answer that no binding has counted: a card, a list of agents, metrics.
fn count_outgoing(app: &App, peer: &Peer, response: &mut Response<Body>) {
    let Body::Whole(bytes) = response.body_mut() else { return };
    let Some(whole) = bytes.take() else { return };
    match app.outgoing_to(peer).reserve(whole) {
        Some(whole) => *response.body_mut() = Body::Counted(Some(whole)),
        None => *response = bind::shed(app, rest::refuse_early(StatusCode::SERVICE_UNAVAILABLE, &over_budget())),
    }
}

async fn traced(app: &Arc<App>, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    // A span costs a twentieth of a send, so there is one only if the request has an id.
    let Some(id) = request_id(&request) else { return dispatch(app, request, peer).await };
    let (id_text, path) = (id.to_str().unwrap_or(""), request.uri().path());
    let span = tracing::info_span!("request", id = id_text, peer = %peer.address, path);
    let mut response = dispatch(app, request, peer).instrument(span.clone()).await;
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Serves a request, and logs one line for it. The query is left out, because it may contain a secret; a stream is
/// timed until its response begins.
async fn logged(app: &Arc<App>, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let (method, path, began) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let response = Box::pin(traced(app, request, peer)).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::info!(target: "access", %method, path, status, ms, peer = %peer.address, "request");
    response
}

/// The request id of the caller, or one of ours if requests are logged.
fn request_id(request: &Request<Incoming>) -> Option<HeaderValue> {
    let legal = |id: &&HeaderValue| id.len() <= REQUEST_ID_BYTES_MAX && id.to_str().is_ok_and(|text| !text.is_empty());
    match request.headers().get(REQUEST_ID).filter(legal) {
        Some(id) => Some(id.clone()),
        None if tracing::enabled!(tracing::Level::DEBUG) => {
            HeaderValue::from_str(&format!("{:016x}", rand::random::<u64>())).ok()
        }
        None => None,
    }
}

async fn dispatch(app: &Arc<App>, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    // Decided by its path and not by its content, because it has its own texts for all errors.
    if let Some(network) = &app.network
        && let Some(place) = agnt::EnvelopePath::find(request.uri().path())
    {
        return Box::pin(agnt::serve(app, network, place, request, peer)).await;
    }
    if app.https_only && !peer.tls && !peer.address.is_loopback() && !is_probe(request.uri().path()) {
        let words = "this server takes requests over HTTPS only; this one came in plain HTTP, so replace the credential that \
                     it carried, if any";
        return rest::refuse_early(StatusCode::FORBIDDEN, &Fault::InvalidRequest(words.into()));
    }
    if let Err((status, problem)) = app.origin_check.check(&request) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
        return refuse_by_path(&request, status, &Fault::InvalidRequest(problem.into()));
    }
    if let Some(answer) = app.origin_check.preflight(&request) {
        return answer;
    }
    // The rare branches are boxed: a connection holds the future of its request by value and moves it, so every request
    // pays for its size.
    if is_grpc(&request) {
        return Box::pin(grpc::serve(app, request, peer)).await;
    }
    if let Some(network) = &app.network
        && let Some(place) = registry::RegistryPath::find(request.uri().path())
    {
        return Box::pin(registry::serve(app, network, place, request, peer)).await;
    }
    if let Some(api) = &app.api
        && AdminApi::has(request.uri().path())
    {
        return Box::pin(admin::api::serve(app, api, request, peer)).await;
    }
    let path = with_one_slash(request.uri().path());
    let (at, rest_of_path) = match split_agent(app, path) {
        Ok(found) => found,
        Err(name) => {
            let fault = Fault::UnsupportedOperation(format!("there is no agent named {name:?} here"));
            return refuse_by_path(&request, StatusCode::NOT_FOUND, &fault);
        }
    };
    match (request.method().as_str(), rest_of_path) {
        ("POST", path) if is_endpoint(path) => {
            let entry = endpoint(rest_of_path);
            let (parts, body) = request.into_parts();
            match collect(app, &parts.headers, body, app.limits.body_bytes_max).await {
                Ok(body) => {
                    let head = bind::RequestHead { uri: &parts.uri, headers: &parts.headers, peer };
                    let (report, bytes) = (ExchangeReport::new(app), body.body.clone());
                    let arrived = jsonrpc::RoutedRequest { path_agent: at.as_ref(), entry, head, report: &report };
                    let serving = Box::pin(jsonrpc::serve(app, arrived, body));
                    exchange_log::record(app, &parts, bytes, &report, serving).await
                }
                Err(untaken) => untaken.into_response(jsonrpc::refuse_early),
            }
        }
        (_, path) if path.starts_with("/_agent-native/") && process::CallbackJob::of_path(path).is_some() => {
            let job = process::CallbackJob::of_path(path);
            Box::pin(process_job(app, job, request)).await
        }
        ("GET" | "HEAD", "/.well-known/agent-card.json") => {
            Box::pin(agent_card(app, at.as_ref(), &request, WellKnown::AgentCard)).await
        }
        ("GET" | "HEAD", "/.well-known/agent.json") => {
            Box::pin(agent_card(app, at.as_ref(), &request, WellKnown::Agent)).await
        }
        ("GET" | "HEAD", WELL_KNOWN_KEYS) if at.is_none() => match &app.signer {
            Some(signer) => signer.key_set().respond(request.headers(), None),
            None => not_found("no card is signed here, so there are no keys"),
        },
        ("GET" | "HEAD", CATALOG) if at.is_none() => {
            Box::pin(catalog::list(app, request.uri().query().unwrap_or(""), request.headers())).await
        }
        ("GET" | "HEAD", AI_CATALOG) if at.is_none() => catalog::document(app),
        ("GET" | "HEAD", "/") if at.is_none() && catalog::prefers_page(request.headers()) => catalog::home(app),
        ("GET" | "HEAD", "/healthz") if at.is_none() => answer(StatusCode::OK, TEXT, "ok\n"),
        ("GET" | "HEAD", "/readyz") if at.is_none() => Box::pin(ready(app)).await,
        ("GET" | "HEAD", "/metrics") if at.is_none() => {
            answer(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", app.metrics_text())
        }
        _ => {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let mut response = Box::pin(http_json(app, at.as_ref(), request, peer)).await;
            if is_read {
                // A response for one caller must not be cached for others: caches know `Authorization`, and not our
                // other headers.
                response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            }
            response
        }
    }
}

async fn process_job(app: &Arc<App>, job: Option<process::CallbackJob>, request: Request<Incoming>) -> Response<Body> {
    let Some(job) = job.filter(|_| request.method() == Method::POST) else {
        return process::wrong_method();
    };
    let (parts, body) = request.into_parts();
    match collect(app, &parts.headers, body, app.limits.body_bytes_max).await {
        Ok(taken) => process::serve(app, job, &parts.headers, &taken.body).await,
        Err(untaken) => untaken.into_response(rest::refuse_early),
    }
}

async fn http_json(
    app: &Arc<App>,
    at: Option<&Arc<ServedAgent>>,
    request: Request<Incoming>,
    peer: &Peer,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = with_one_slash(parts.uri.path());
    let below = if at.is_some() { agent_in_path(path).map_or(path, |(_, rest)| rest) } else { path };
    let head = bind::RequestHead { uri: &parts.uri, headers: &parts.headers, peer };
    if let Some(path) = v03_path(below) {
        return match v03::rest::route(&parts.method, path) {
            v03::rest::RouteMatch::Operation(route, _) => {
                match collect(app, &parts.headers, body, app.limits.body_bytes_max).await {
                    Ok(body) => {
                        let (report, bytes) = (ExchangeReport::new(app), body.body.clone());
                        let serving = Box::pin(rest_v03::serve(app, at, route, head, body, &report));
                        exchange_log::record(app, &parts, bytes, &report, serving).await
                    }
                    Err(untaken) => untaken.into_response(rest_v03::refuse_early),
                }
            }
            v03::rest::RouteMatch::WrongMethod(allowed) => wrong_method(allowed),
            v03::rest::RouteMatch::Unknown => {
                not_found("no such path of A2A 0.3; the agent card at /.well-known/agent-card.json says what is served")
            }
        };
    }
    match route(&parts.method, below) {
        RouteMatch::Operation(route, tenant) => {
            match collect(app, &parts.headers, body, app.limits.body_bytes_max).await {
                Ok(body) => {
                    let (report, bytes) = (ExchangeReport::new(app), body.body.clone());
                    let serving = Box::pin(rest::serve(app, at, route, tenant, head, body, &report));
                    exchange_log::record(app, &parts, bytes, &report, serving).await
                }
                Err(untaken) => untaken.into_response(rest::refuse_early),
            }
        }
        RouteMatch::WrongMethod(allowed) => wrong_method(allowed),
        RouteMatch::Unknown if is_endpoint(below) => {
            let fault = Fault::InvalidRequest("JSON-RPC requests are sent by POST".into());
            let mut response = jsonrpc::refuse_early(StatusCode::METHOD_NOT_ALLOWED, &fault);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            response
        }
        RouteMatch::Unknown => {
            not_found("no such path; /.well-known/agent-card.json is the agent card, / and /catalog show the agents")
        }
    }
}

fn wrong_method(allowed: &'static str) -> Response<Body> {
    let fault = Fault::InvalidRequest(format!("this path takes {allowed}"));
    let mut response = rest::refuse_early(StatusCode::METHOD_NOT_ALLOWED, &fault);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

async fn agent_card(
    app: &App,
    at: Option<&Arc<ServedAgent>>,
    request: &Request<Incoming>,
    asked: WellKnown,
) -> Response<Body> {
    let version = bind::version(request.headers(), request.uri().query().unwrap_or(""));
    match at.or_else(|| app.default_agent()) {
        Some(served) => {
            served.cards.refresh().await;
            served.cards.respond(asked, request.headers(), version)
        }
        None => not_found("there is no default agent here; ask for /agents/{name}/.well-known/agent-card.json"),
    }
}

/// Splits `/agents/{name}` or `/apps/{name}` off a path. An unknown name is an error, not the default agent.
fn split_agent<'p>(app: &App, path: &'p str) -> Result<(Option<Arc<ServedAgent>>, &'p str), String> {
    match agent_in_path(path) {
        None => Ok((None, path)),
        Some((name, rest)) => match app.agent(name) {
            Some(served) if served.is_app || !is_app_path(path) => Ok((Some(served), rest)),
            // Without such an app this is an ordinary path, because a tenant may have that name.
            _ if is_app_path(path) => Ok((None, path)),
            _ => Err(name.chars().take(64).collect()),
        },
    }
}

/// A refusal before the body was read, in the form of the binding at the path.
fn refuse_by_path<B>(request: &Request<B>, status: StatusCode, fault: &Fault) -> Response<Body> {
    let path = with_one_slash(request.uri().path());
    let below = agent_in_path(path).map_or(path, |(_, below)| below);
    match *request.method() == Method::POST && is_endpoint(below) {
        true => jsonrpc::refuse_early(status, fault),
        false => rest::refuse_early(status, fault),
    }
}

async fn ready(app: &App) -> Response<Body> {
    if app.is_stopping() {
        return answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, "stopping\n");
    }
    let trouble =
        app.write_error().await.map(|trouble| format!("nothing can be stored: {trouble}; reads are served\n"));
    // A write error may pass by itself, damage does not.
    let why = trouble.or_else(|| {
        let damage = app.damage()?;
        Some(format!(
            "{damage}; what can be read is served; run `sabir db check`, then stop the server and bring the store back from \
             a backup\n"
        ))
    });
    match why {
        Some(why) => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, why),
        None => answer(StatusCode::OK, TEXT, "ready\n"),
    }
}

fn not_found(problem: &str) -> Response<Body> {
    let mut response = rest::refuse_early(StatusCode::NOT_FOUND, &Fault::MethodNotFound(String::new()));
    let body = serde_json::json!({"error": {"code": 404, "status": "NOT_FOUND", "message": problem, "details": []}});
    *response.body_mut() = Body::Whole(Some(body.to_string().into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
