//! `GET /a2a/v1/status`: whether the network is available, and what it offers. Public, and not counted.

use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::network::Network;
use crate::tokio_host::TokioHost;
use http::header::{ALLOW, CACHE_CONTROL, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use sabir_engine::Host as _;
use sabir_wire::agnt::PROTOCOL;
use serde_json::json;

/// How long caches may keep the response.
const CACHE_POLICY: &str = "public, max-age=5";

pub(super) fn serve<B: http_body::Body>(app: &App, network: &Network, request: &Request<B>) -> Response<Body> {
    if let Err((status, words)) = app.origin_check.check_host(request.uri(), request.headers()) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
        return answer(status, JSON, json!({ "error": words }).to_string());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let words = json!({"error": "the status is asked for by GET"});
        let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, JSON, words.to_string());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let healthy = !app.is_stopping() && !app.is_write_failing() && !network.is_broken();
    let status = json!({
        "status": if healthy { "ok" } else { "degraded" },
        "protocol": PROTOCOL,
        "network": network.id,
        "network_version": network.version,
        "time": TokioHost.now(),
        "intents": network.intents(),
        "features": network.features(),
        "breaker": {"global": network.breaker()},
    });
    let mut response = answer(StatusCode::OK, JSON, status.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(CACHE_POLICY));
    response
}
