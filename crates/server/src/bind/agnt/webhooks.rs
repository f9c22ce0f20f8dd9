//! `/a2a/v1/webhooks`: holders of keys with the scope `full` manage their own subscriptions.
//!
//! | Request | Effect |
//! |---|---|
//! | `POST /a2a/v1/webhooks` | `{"url", "events"?}`: subscribes; the secret is only in this response |
//! | `GET /a2a/v1/webhooks` | lists the subscriptions of the key |
//! | `POST /a2a/v1/webhooks/{id}/rotate` | makes another secret; the present one signs too for a day |
//! | `DELETE /a2a/v1/webhooks/{id}` | removes the subscription |
//!
//! A subscription of another key is answered like one that does not exist.

use super::RequestHead;
use crate::app::App;
use crate::body::{Body, JSON, answer};
use crate::booking::subscriptions;
use crate::network::Network;
use crate::peer::Peer;
use http::header::{ALLOW, CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_network::problem;
use sabir_wire::agnt::{Problem, ProblemCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long two secrets sign after a rotation.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Bytes of a request body.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// The scope that a key needs.
const SCOPE: &str = "full";

/// The body of a subscribe request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribeRequest {
    url: String,
    #[serde(default)]
    events: Vec<String>,
}

/// The action that a request asks for.
enum WebhookAction<'a> {
    List,
    Subscribe,
    Rotate(&'a str),
    Remove(&'a str),
}

/// Whether a path below that of the envelope belongs to the webhooks.
pub(super) fn is_webhook_path(rest: &str) -> bool {
    rest == "/webhooks" || rest.starts_with("/webhooks/")
}

/// Serves one request about webhooks.
pub(super) async fn serve(
    app: &Arc<App>,
    network: &Network,
    request: Request<Incoming>,
    peer: &Peer,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    match Box::pin(handle(app, network, &parts, body, peer)).await {
        Ok((status, said)) => respond(status, &said),
        Err(WebhookFailure::MethodNotAllowed) => {
            let mut response =
                respond(StatusCode::METHOD_NOT_ALLOWED, &json!({"error": {"message": "GET, POST or DELETE"}}));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            response
        }
        Err(WebhookFailure::Refused(problem)) => {
            let status = StatusCode::from_u16(problem.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = respond(status, &sabir_network::response::refusal(&problem));
            if status == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

/// Why a request was refused.
enum WebhookFailure {
    MethodNotAllowed,
    Refused(Problem),
}

impl From<Problem> for WebhookFailure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

async fn handle(
    app: &Arc<App>,
    network: &Network,
    parts: &Parts,
    body: Incoming,
    peer: &Peer,
) -> Result<(StatusCode, Value), WebhookFailure> {
    if let Err((_, words)) = app.origin_check.check_host(&parts.uri, &parts.headers) {
        return Err(Problem::new(ProblemCode::InvalidEnvelope, words).into());
    }
    super::check_channel(app.production, peer)?;
    let ask = parse_action(&parts.method, parts.uri.path())?;
    let key = authorized_key(app, network, parts, peer).await?;
    let ledger = &*network.ledger;
    let trouble = |words: String| Problem::new(ProblemCode::InvalidPayload, words);
    let own = |id: &str| {
        let (id, key) = (id.to_owned(), key.clone());
        async move {
            let found =
                ledger.subscription(&id).await.map_err(|e| Problem::new(ProblemCode::Internal, e.to_string()))?;
            found
                .filter(|one| one.key == key)
                .map(drop)
                .ok_or_else(|| Problem::new(ProblemCode::VenueNotFound, "there is no such webhook"))
        }
    };
    Ok(match ask {
        WebhookAction::List => {
            (StatusCode::OK, json!({"webhooks": subscriptions::list(ledger, Some(&key)).await.map_err(trouble)?}))
        }
        WebhookAction::Subscribe => {
            let taken = crate::incoming_body::collect(app, &parts.headers, body, REQUEST_BYTES_MAX).await;
            let taken = taken.map_err(|untaken| trouble(untaken.fault.to_string()))?;
            let wish: SubscribeRequest = serde_json::from_slice(&taken.body).map_err(|e| trouble(e.to_string()))?;
            let made = subscriptions::subscribe(ledger, &key, &wish.url, wish.events, app.production)
                .await
                .map_err(trouble)?;
            (StatusCode::CREATED, json!(made))
        }
        WebhookAction::Rotate(id) => {
            own(id).await?;
            (StatusCode::OK, json!(subscriptions::rotate(ledger, id, OVERLAP).await.map_err(trouble)?))
        }
        WebhookAction::Remove(id) => {
            own(id).await?;
            (StatusCode::OK, json!(subscriptions::remove(ledger, id).await.map_err(trouble)?))
        }
    })
}

fn parse_action<'a>(method: &Method, path: &'a str) -> Result<WebhookAction<'a>, WebhookFailure> {
    let rest = path.split_once("/webhooks").map_or("", |(_, rest)| rest).trim_start_matches('/');
    match (method, rest.split_once('/')) {
        (&Method::GET, None) if rest.is_empty() => Ok(WebhookAction::List),
        (&Method::POST, None) if rest.is_empty() => Ok(WebhookAction::Subscribe),
        (&Method::POST, Some((id, "rotate"))) => Ok(WebhookAction::Rotate(id)),
        (&Method::DELETE, None) if !rest.is_empty() => Ok(WebhookAction::Remove(rest)),
        _ => Err(WebhookFailure::MethodNotAllowed),
    }
}

/// The id of the authenticated key, if it may manage webhooks.
async fn authorized_key(app: &Arc<App>, network: &Network, parts: &Parts, peer: &Peer) -> Result<String, Problem> {
    let served = app.agent(&network.agent);
    let served = served.ok_or_else(|| Problem::new(ProblemCode::Internal, "the network is not here at present"))?;
    let evidence = RequestHead { uri: &parts.uri, headers: &parts.headers, peer }.evidence(app, None);
    let admitted =
        app.guard.admit_key(&served.rules, &evidence).await.map_err(|refusal| problem::of_guard(&refusal))?;
    let key = admitted.identity().key();
    let key = key.ok_or_else(|| Problem::new(ProblemCode::Unauthorized, "webhooks belong to keys"))?;
    let scopes = &key.terms.scopes;
    if !scopes.is_empty() && !scopes.iter().any(|scope| scope == SCOPE) {
        return Err(Problem::new(ProblemCode::ScopeRequired, "webhooks are seen to with a key of the scope full"));
    }
    Ok(key.id.to_string())
}

fn respond(status: StatusCode, said: &Value) -> Response<Body> {
    let mut response = answer(status, JSON, said.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
