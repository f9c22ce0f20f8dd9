//! The interceptor of the demo server: it authenticates callers, and alters answers on their way out.

use super::edge::{Edge, Trick, contains};
use super::passage::{Passage, Script, blur};
use super::scenario::Scenario;
use super::{Access, Token};
use crate::app::App;
use crate::bind::{http as rest, rest as rest_v03};
use crate::body::{Body, JSON, answer};
use crate::front::Front;
use crate::peer::Peer;
use crate::stack;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use sabir_engine::BoxFuture;
use sabir_guard::sign::{SigningKey, key_set, sign};
use sabir_proto::card::{SecurityRequirement, SecurityScheme, StringList};
use sabir_proto::{AgentCard, Fault};
use sabir_wire::card::{Form, write};
use sabir_wire::{Dialect, Losses, Voice, v1, v03};
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
pub(super) struct DemoFront {
    pub(super) edge: Arc<Edge>,
    pub(super) token: Token,
    pub(super) access: Access,
    /// The key that signs the card; its public half is at `/.well-known/jwks.json`.
    pub(super) key: Option<SigningKey>,
}

/// The properties of a request that the interceptor needs when it has passed the request on.
#[derive(Debug, Clone, Copy)]
struct Asked {
    binding: Binding,
    /// Whether it is a gRPC method that streams. In JSON, the answer shows it.
    streams: bool,
    /// Whether the request carried the right token.
    known: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    HttpJson,
    HttpJsonV03,
    Grpc,
    GrpcV03,
}

impl Front for DemoFront {
    fn introduce(&self, card: &mut AgentCard) -> Option<AgentCard> {
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
            seal(card, key);
        }
        extended.skills.push(Scenario::Secret.skill());
        extended.version = format!("{}+{}", card.version, self.edge.seal());
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
            let asked = Asked::of(&request, &self.token);
            if self.access == Access::Bearer && !asked.known && !is_public(request.uri().path()) {
                let wrong = request.headers().contains_key(AUTHORIZATION);
                let why = if wrong { "this is not the token of this demo" } else { "this demo wants its test token" };
                return refuse(asked, None, why);
            }
            self.release(asked, stack::serve(app, request, peer).await).await
        })
    }
}

/// Signs a card. A card that cannot be signed is served without a signature, and the log says why.
fn seal(card: &mut AgentCard, key: &SigningKey) {
    let json = write(card, Form::V1, &mut Losses::new());
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

impl DemoFront {
    /// Passes an answer on, altered or replaced where a fault is registered for it.
    async fn release(&self, asked: Asked, response: Response<Body>) -> Response<Body> {
        let (head, body) = response.into_parts();
        let (script, streams) = match (&body, asked.binding) {
            (_, Binding::Grpc | Binding::GrpcV03) => (Script::Protobuf, asked.streams),
            (body, _) => (Script::Json, matches!(body, Body::Events(_))),
        };
        if let Body::Whole(bytes) | Body::Counted(bytes) = body {
            let Some(bytes) = bytes else { return Response::from_parts(head, Body::Whole(None)) };
            if let Some(why) = self.withheld(asked, &bytes) {
                return refuse(asked, Some(&bytes), why);
            }
            let blurred = blur(&bytes, &self.edge.wished(Trick::Blur), script);
            return Response::from_parts(head, Body::Whole(Some(blurred)));
        }
        let mut passage = Passage::new(body, self.edge.clone(), script, streams);
        if let Some(first) = passage.peek().await
            && let Some(why) = self.withheld(asked, first)
        {
            return refuse(asked, Some(first), why);
        }
        // The only variant of the body that can hold any other body.
        Response::from_parts(head, Body::Grpc(tonic::body::Body::new(passage)))
    }

    /// Why an answer is refused; `None` where it is passed on.
    fn withheld(&self, asked: Asked, first: &[u8]) -> Option<&'static str> {
        let head = first.get(..CARD_BYTES_MAX).unwrap_or(first);
        if !asked.known && contains(head, self.edge.seal()) {
            return Some("the extended card wants the test token of this demo");
        }
        self.edge.take(Trick::Refuse, head).then_some("refused, as it was asked for")
    }
}

impl Asked {
    fn of(request: &Request<Incoming>, token: &Token) -> Self {
        let path = request.uri().path();
        let below = stack::named(path).map_or(path, |(_, below)| below);
        let binding = match below {
            _ if stack::is_grpc(request) && path.starts_with("/a2a.v1.") => Binding::GrpcV03,
            _ if stack::is_grpc(request) => Binding::Grpc,
            below if stack::is_endpoint(below) => Binding::JsonRpc,
            below if stack::older(below).is_some() => Binding::HttpJsonV03,
            _ => Binding::HttpJson,
        };
        let method = path.rsplit('/').next().unwrap_or("");
        let streams = matches!(method, "SendStreamingMessage" | "SubscribeToTask" | "TaskSubscription");
        Self { binding, streams, known: bearer(request.headers()).is_some_and(|offered| token.is(offered)) }
    }
}

/// Whether a path needs no token: the public card and the health checks.
fn is_public(path: &str) -> bool {
    let below = stack::named(path).map_or(path, |(_, below)| below);
    matches!(below, "/.well-known/agent-card.json" | "/.well-known/agent.json" | "/healthz" | "/readyz")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A 401 refusal in the form of the binding. In JSON-RPC it has the id of the request whose answer it replaces.
fn refuse(asked: Asked, instead_of: Option<&[u8]>, why: &str) -> Response<Body> {
    let fault = Fault::Unauthenticated(why.into());
    let mut response = match asked.binding {
        Binding::JsonRpc => {
            let id = instead_of.and_then(id_of).unwrap_or_else(|| "null".into());
            answer(StatusCode::UNAUTHORIZED, JSON, Voice::new(Dialect::V1, Some(id)).refuse(&fault).body)
        }
        Binding::HttpJson => rest::refuse_early(StatusCode::UNAUTHORIZED, &fault),
        Binding::HttpJsonV03 => rest_v03::refuse_early(StatusCode::UNAUTHORIZED, &fault),
        Binding::Grpc => v1::grpc::status(&fault).into_http::<tonic::body::Body>().map(Body::Grpc),
        Binding::GrpcV03 => v03::grpc::status(&fault).into_http::<tonic::body::Body>().map(Body::Grpc),
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
