//! The interceptor of the demo server: it authenticates callers, and alters answers on their way out.

use super::altered_body::{AlteredBody, Encoding, hide_state};
use super::control::{DemoControl, InjectedFault, contains};
use super::scenario::Scenario;
use super::{Access, Token};
use crate::app::App;
use crate::bind::{http as rest, rest as rest_v03};
use crate::body::{Body, JSON, answer};
use crate::interceptor::Interceptor;
use crate::peer::Peer;
use crate::routes;
use crate::stack;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_engine::BoxFuture;
use sabir_guard::sign::{SigningKey, key_set, sign};
use sabir_proto::card::{SecurityRequirement, SecurityScheme, StringList};
use sabir_proto::{AgentCard, Fault};
use sabir_wire::card::{CardSchema, write};
use sabir_wire::{Dialect, Losses, Responder, v1, v03};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The path of the key set that verifies a signed card.
const KEY_SET: &str = "/.well-known/jwks.json";
/// The scheme's name in the card.
const SCHEME: &str = "bearer";
/// The bytes of an answer that are searched for the mark of the extended card; every card is much smaller.
const CARD_BYTES_MAX: usize = 64 << 10;

/// Handles each request before and after the server does.
pub(super) struct DemoInterceptor {
    pub(super) control: Arc<DemoControl>,
    pub(super) token: Token,
    pub(super) access: Access,
    /// The key that signs the card; its public half is at `/.well-known/jwks.json`.
    pub(super) key: Option<SigningKey>,
}

/// The properties of a request that the interceptor needs when it has passed the request on.
#[derive(Debug, Clone, Copy)]
struct RequestFacts {
    binding: RequestBinding,
    /// Whether it is a gRPC method that streams. In JSON, the answer shows it.
    streams: bool,
    /// Whether the request carried the right token.
    has_token: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestBinding {
    JsonRpc,
    HttpJson,
    HttpJsonV03,
    Grpc,
    GrpcV03,
}

impl Interceptor for DemoInterceptor {
    fn extend_card(&self, card: &mut AgentCard) -> Option<AgentCard> {
        let description = Some("The test token that the demo server prints when it starts.".into());
        let scheme = SecurityScheme::HttpAuth { description, scheme: "Bearer".into(), bearer_format: None };
        card.security_schemes.insert(SCHEME.into(), scheme);
        if self.access == Access::Bearer {
            let schemes = BTreeMap::from([(SCHEME.to_owned(), StringList::default())]);
            card.security_requirements.push(SecurityRequirement { schemes });
        }
        card.capabilities.extended_agent_card = Some(true);
        let mut extended = card.clone();
        if let Some(key) = &self.key {
            sign_card(card, key);
        }
        extended.skills.push(Scenario::Secret.skill());
        extended.version = format!("{}+{}", card.version, self.control.extended_card_mark());
        Some(extended)
    }

    fn serve(
        self: Arc<Self>,
        app: Arc<App>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> BoxFuture<'static, Response<Body>> {
        Box::pin(async move {
            if let (Some(key), true) = (&self.key, request.uri().path() == KEY_SET) {
                return answer(StatusCode::OK, JSON, key_set(std::slice::from_ref(key)).to_string());
            }
            let asked = RequestFacts::of(&request, &self.token);
            if self.access == Access::Bearer && !asked.has_token && !is_public(request.uri().path()) {
                let wrong = request.headers().contains_key(AUTHORIZATION);
                let why = if wrong { "this is not the token of this demo" } else { "this demo wants its test token" };
                return refuse(asked, None, why);
            }
            self.pass_on(asked, stack::serve(app, request, peer).await).await
        })
    }
}

/// Signs a card. A card that cannot be signed is served without a signature, and the log says why.
fn sign_card(card: &mut AgentCard, key: &SigningKey) {
    let json = write(card, CardSchema::V1, &mut Losses::new());
    let signed = std::str::from_utf8(&json).ok().map(|json| sign(json, std::slice::from_ref(key), None));
    match signed {
        Some(Ok(signed)) => {
            let signatures = serde_json::from_value(signed["signatures"].clone());
            card.signatures = signatures.unwrap_or_default();
        }
        Some(Err(fault)) => tracing::error!(%fault, "the card of the demo cannot be signed"),
        None => {}
    }
}

impl DemoInterceptor {
    /// Passes an answer on, altered or replaced where a fault is registered for it.
    async fn pass_on(&self, asked: RequestFacts, response: Response<Body>) -> Response<Body> {
        let (head, body) = response.into_parts();
        let (script, streams) = match (&body, asked.binding) {
            (_, RequestBinding::Grpc | RequestBinding::GrpcV03) => (Encoding::Protobuf, asked.streams),
            (body, _) => (Encoding::Json, matches!(body, Body::Events(_))),
        };
        if let Body::Whole(bytes) | Body::Counted(bytes) = body {
            let Some(bytes) = bytes else { return Response::from_parts(head, Body::Whole(None)) };
            if let Some(why) = self.refusal_reason(asked, &bytes) {
                return refuse(asked, Some(&bytes), why);
            }
            let blurred = hide_state(&bytes, &self.control.injected(InjectedFault::Blur), script);
            return Response::from_parts(head, Body::Whole(Some(blurred)));
        }
        let mut passage = AlteredBody::new(body, self.control.clone(), script, streams);
        if let Some(first) = passage.peek().await
            && let Some(why) = self.refusal_reason(asked, first)
        {
            return refuse(asked, Some(first), why);
        }
        // The only variant of the body that can hold any other body.
        Response::from_parts(head, Body::Grpc(tonic::body::Body::new(passage)))
    }

    /// Why an answer is refused; `None` where it is passed on.
    fn refusal_reason(&self, asked: RequestFacts, first: &[u8]) -> Option<&'static str> {
        let head = first.get(..CARD_BYTES_MAX).unwrap_or(first);
        if !asked.has_token && contains(head, self.control.extended_card_mark()) {
            return Some("the extended card wants the test token of this demo");
        }
        self.control.take(InjectedFault::Refuse, head).then_some("refused, as it was asked for")
    }
}

impl RequestFacts {
    fn of(request: &Request<Incoming>, token: &Token) -> Self {
        let path = request.uri().path();
        let below = routes::agent_in_path(path).map_or(path, |(_, below)| below);
        let binding = match below {
            _ if routes::is_grpc(request) && path.starts_with("/a2a.v1.") => RequestBinding::GrpcV03,
            _ if routes::is_grpc(request) => RequestBinding::Grpc,
            below if routes::is_endpoint(below) => RequestBinding::JsonRpc,
            below if routes::v03_path(below).is_some() => RequestBinding::HttpJsonV03,
            _ => RequestBinding::HttpJson,
        };
        let method = path.rsplit('/').next().unwrap_or("");
        let streams = matches!(method, "SendStreamingMessage" | "SubscribeToTask" | "TaskSubscription");
        Self { binding, streams, has_token: bearer(request.headers()).is_some_and(|offered| token.is(offered)) }
    }
}

/// Whether a path needs no token: the public card and the health checks.
fn is_public(path: &str) -> bool {
    let below = routes::agent_in_path(path).map_or(path, |(_, below)| below);
    matches!(below, "/.well-known/agent-card.json" | "/.well-known/agent.json" | "/healthz" | "/readyz")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A 401 refusal in the form of the binding. In JSON-RPC it has the id of the request whose answer it replaces.
fn refuse(asked: RequestFacts, instead_of: Option<&[u8]>, why: &str) -> Response<Body> {
    let fault = Fault::Unauthenticated(why.into());
    let mut response = match asked.binding {
        RequestBinding::JsonRpc => {
            let id = instead_of.and_then(id_of).unwrap_or_else(|| "null".into());
            answer(StatusCode::UNAUTHORIZED, JSON, Responder::new(Dialect::V1, Some(id)).refuse(&fault).body)
        }
        RequestBinding::HttpJson => rest::refuse_early(StatusCode::UNAUTHORIZED, &fault),
        RequestBinding::HttpJsonV03 => rest_v03::refuse_early(StatusCode::UNAUTHORIZED, &fault),
        RequestBinding::Grpc => v1::grpc::status(&fault).into_http::<tonic::body::Body>().map(Body::Grpc),
        RequestBinding::GrpcV03 => v03::grpc::status(&fault).into_http::<tonic::body::Body>().map(Body::Grpc),
    };
    let challenge = HeaderValue::from_static("Bearer realm=\"Sabir demo\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

/// The id in a JSON-RPC response, also in the first frame of a stream.
fn id_of(answer: &[u8]) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let start = answer.iter().position(|byte| *byte == b'{')?;
    let envelope = serde_json::Deserializer::from_slice(answer.get(start..)?).into_iter::<Envelope<'_>>().next()?;
    Some(envelope.ok()?.id.get().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_answers_the_request_it_refuses() {
        let check = |answer: &str| id_of(answer.as_bytes()).map(String::from);
        assert_eq!(check(r#"{"jsonrpc":"2.0","id":"r1","result":{}}"#).as_deref(), Some("\"r1\""));
        assert_eq!(check("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n").as_deref(), Some("7"));
        assert_eq!(check(r#"{"message":{}}"#), None);
    }

    #[test]
    fn a_token_is_read_from_its_header() {
        let check = |value: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(check("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(check("bearer  abc").as_deref(), Some("abc"));
        assert_eq!((check("Basic abc"), check("abc")), (None, None));
    }
}
