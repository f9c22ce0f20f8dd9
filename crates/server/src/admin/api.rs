//! The API for operators and consoles: `/api/v1`, with a path for every operation that is not for this machine alone.
//!
//! ```text
//! origin → credential → body limit → route → scope → parameters → service
//! ```
//!
//! The guard authenticates the caller, by an API key or by what `[auth]` accepts, and decides about the scopes `admin` and
//! `admin.read`. A page of another origin is refused, also one that may call agents. Errors are problems of RFC 9457.
//! The paths, the parameters and the description come from the table of operations.

mod events;
mod openapi;
mod parameters;

use super::operation::{ApiOperation, OperationAccess, api_operations};
use super::service::{AdminService, Operator, now};
use super::{AdminError, AdminErrorCode};
use crate::app::App;
use crate::auth_setup::Rules;
use crate::bind::{RequestHead, add_refusal_headers};
use crate::body::{Body, ChunkedBody, JSON};
use crate::incoming_body::collect;
use crate::local_server::BodyBroken;
use crate::operator_socket::REQUEST_TIME_MAX;
use crate::peer::Peer;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, RawPathParams, RawQuery, State};
use axum::routing::{MethodFilter, get, on};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sabir_guard::authn::Scheme;
use sabir_guard::policy::scope::AdminAction;
use sabir_guard::{Admitted, Refusal};
use sabir_proto::Fault;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;

/// Where the API begins.
const BASE: &str = "/api/v1";
const PROBLEM: &str = "application/problem+json";

/// The API of a server.
pub(crate) struct AdminApi {
    rules: Arc<Rules>,
    router: Router,
    description: Bytes,
}

/// A caller that the guard has authenticated. What it may do is decided for each operation.
#[derive(Clone)]
struct ApiCaller {
    app: Arc<App>,
    rules: Arc<Rules>,
    admitted: Arc<Admitted>,
}

/// An operation with the schema of its parameters.
struct ServedOperation {
    operation: ApiOperation,
    parameters: Value,
    service: Arc<AdminService>,
}

type ApiResponse = Response<axum::body::Body>;

impl AdminApi {
    pub(crate) fn new(rules: Rules, service: Arc<AdminService>) -> Result<Self, String> {
        let operations = api_operations();
        let description = openapi::describe(&operations).to_string().into();
        let router = router(operations, &service)?;
        Ok(Self { rules: Arc::new(rules), router, description })
    }

    /// Whether a path belongs to the API.
    pub(crate) fn has(path: &str) -> bool {
        path.strip_prefix(BASE).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// The routes of all operations.
fn router(operations: Vec<ApiOperation>, service: &Arc<AdminService>) -> Result<Router, String> {
    let mut router = Router::new();
    for operation in operations {
        let Some(path) = operation.endpoint.path else { continue };
        let method = MethodFilter::try_from(Method::from(operation.endpoint.method)).map_err(|e| e.to_string())?;
        let parameters = parameters::schema(&operation);
        let served = Arc::new(ServedOperation { operation, parameters, service: service.clone() });
        router = router.merge(Router::new().route(path, on(method, perform).with_state(served)));
    }
    let feed = events::ChangeFeed::new(service.clone());
    router = router.merge(Router::new().route("/events", get(events::serve).with_state(feed)));
    let missing = || async { refuse(&AdminError::new(AdminErrorCode::UnknownPath, "there is no such path")) };
    let wrong = || async { refuse(&AdminError::new(AdminErrorCode::WrongMethod, "this path takes other methods")) };
    // The body is here already, within the limit of the server.
    Ok(router.fallback(missing).method_not_allowed_fallback(wrong).layer(DefaultBodyLimit::disable()))
}

/// Serves a request below `/api/v1`, whose `Host` the caller has checked.
pub(crate) async fn serve(app: &Arc<App>, api: &AdminApi, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
    let (head, body) = respond(app, api, request, peer).await.into_parts();
    if body.size_hint().exact().is_some() {
        // The body is in memory, so collecting it cannot fail.
        let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        return Response::from_parts(head, Body::Whole(Some(whole)));
    }
    let chunks = body.into_data_stream().map(|chunk| chunk.map_err(|_| BodyBroken));
    Response::from_parts(head, Body::Chunks(ChunkedBody::new(Box::pin(chunks))))
}

async fn respond(app: &Arc<App>, api: &AdminApi, request: Request<Incoming>, peer: &Peer) -> ApiResponse {
    let (mut head, body) = request.into_parts();
    if !is_own_page(app, &head.headers, &head.uri) {
        let words = "pages of other web origins may not administer this server";
        return refuse(&AdminError::new(AdminErrorCode::Forbidden, words));
    }
    let below = head.uri.path().strip_prefix(BASE).unwrap_or_default();
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    if below == "/openapi.json" && is_read {
        return json_response(StatusCode::OK, JSON, api.description.clone());
    }
    let evidence = RequestHead { uri: &head.uri, headers: &head.headers, peer }.evidence(app, None);
    let caller = match app.guard.admit(&api.rules, &evidence).await {
        Ok(caller) => Arc::new(caller),
        Err(refusal) => return refuse_caller(&refusal),
    };
    let received = match collect(app, &head.headers, body, app.limits.body_bytes_max).await {
        Ok(received) => received,
        Err(rejected) => return refuse_with(rejected.status, &AdminError::invalid(rejected.fault.to_string())),
    };
    let Some(uri) = below_base(&head.uri) else { return refuse(&AdminError::invalid("the path cannot be read")) };
    head.uri = uri;
    let mut routed = Request::from_parts(head, axum::body::Body::from(received.body));
    routed.extensions_mut().insert(ApiCaller { app: app.clone(), rules: api.rules.clone(), admitted: caller });
    let Ok(response) = api.router.clone().oneshot(routed).await;
    response
}

/// The path and the query below `/api/v1`.
fn below_base(uri: &Uri) -> Option<Uri> {
    let whole = uri.path_and_query()?.as_str();
    let below = whole.strip_prefix(BASE)?;
    if below.starts_with('/') { below.parse().ok() } else { format!("/{below}").parse().ok() }
}

/// Whether a request comes from no page, or from one that this server has sent. Pages that may call agents
/// (`[server] cors`) may not administer the server.
fn is_own_page(app: &App, headers: &HeaderMap, uri: &Uri) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let host = uri.authority().map(http::uri::Authority::as_str);
    let host = host.or_else(|| headers.get(HOST).and_then(|value| value.to_str().ok()));
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    origin.is_some_and(|origin| {
        app.origin_check.is_own_authority(origin) || host.is_some_and(|host| host.eq_ignore_ascii_case(origin))
    })
}

/// Serves one operation: scope, parameters, service.
async fn perform(
    State(served): State<Arc<ServedOperation>>,
    Extension(caller): Extension<ApiCaller>,
    path: RawPathParams,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> ApiResponse {
    let ServedOperation { operation, parameters, service } = &*served;
    if let Err(refusal) = caller.authorize(operation.access, operation.name) {
        return refuse_caller(&refusal);
    }
    let read = parameters::read(parameters, &path, query.as_deref(), &body)
        .and_then(|value| (operation.read)(value).map_err(|error| AdminError::invalid(error.to_string())));
    let handled = match read {
        Ok(request) => {
            let operator = caller.operator();
            tokio::time::timeout(REQUEST_TIME_MAX, service.handle(&operator, request)).await.unwrap_or_else(|_| {
                let words = format!("the request took more than {} seconds", REQUEST_TIME_MAX.as_secs());
                Err(AdminError::new(AdminErrorCode::Timeout, words))
            })
        }
        Err(error) => Err(error),
    };
    let status = StatusCode::from_u16(operation.endpoint.status).unwrap_or(StatusCode::OK);
    match handled.map(|response| response.output_json()) {
        Ok(Ok(json)) => json_response(status, JSON, json),
        Ok(Err(error)) => refuse(&AdminError::new(AdminErrorCode::Store, error.to_string())),
        Err(error) => refuse(&error),
    }
}

impl ApiCaller {
    /// Whether the guard lets the caller do this.
    fn authorize(&self, access: OperationAccess, operation: &'static str) -> Result<(), Refusal> {
        let action = match access {
            OperationAccess::Look => AdminAction::Look,
            OperationAccess::Change => AdminAction::Change,
        };
        self.app.guard.permit_admin(&self.rules, &self.admitted, action, operation, now())
    }

    fn operator(&self) -> Operator {
        let identity = self.admitted.identity();
        Operator::authenticated(identity.caller(), identity.scheme().map_or("none", Scheme::name))
    }
}

/// A refusal of the guard, in the form of the API.
fn refuse_caller(refusal: &Refusal) -> ApiResponse {
    let (code, words) = match &refusal.fault {
        Fault::Forbidden(words) => (AdminErrorCode::Forbidden, words.clone()),
        Fault::RateLimited { words, .. } => (AdminErrorCode::TooOften, words.clone()),
        Fault::AuthUnavailable { words, .. } => (AdminErrorCode::Store, words.clone()),
        fault => (AdminErrorCode::Unauthenticated, fault.to_string()),
    };
    let mut response = refuse(&AdminError::new(code, words));
    add_refusal_headers(response.headers_mut(), &refusal.fault, Some("Bearer"));
    response
}

fn refuse(error: &AdminError) -> ApiResponse {
    let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refuse_with(status, error)
}

/// An error as a problem of RFC 9457.
fn refuse_with(status: StatusCode, error: &AdminError) -> ApiResponse {
    let code = json!(error.code);
    let code = code.as_str().unwrap_or_default();
    let problem = json!({
        "type": format!("urn:sabir:problem:{code}"), "title": code.replace('-', " "), "status": status.as_u16(),
        "detail": error.message, "code": code, "hint": error.hint,
    });
    json_response(status, PROBLEM, problem.to_string())
}

fn json_response(status: StatusCode, content_type: &'static str, body: impl Into<axum::body::Body>) -> ApiResponse {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
